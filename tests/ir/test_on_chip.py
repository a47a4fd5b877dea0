"""What lives on chip at once is compared with the buffers of the real chip."""

import linecache
import subprocess
import sys
from pathlib import Path

import pytest

import pypto.language as pl
from pypto import ir
from pypto.runtime import RunConfig

Big = pl.Tensor[[256, 256], pl.FP32]


@pl.jit
def too_much(x: Big, y: Big, out: pl.Out[Big]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="sum"):
        a = x[:, 0:128]
        b = y[:, 0:128]
        out[:, 0:128] = pl.add(a, b)
        out[:, 128:256] = pl.mul(a, b)
    return out


@pl.jit
def in_chunks(x: Big, y: Big, out: pl.Out[Big]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, 256, 64):
            part = pl.add(x[:, k : k + 64], y[:, k : k + 64])
            part = pl.exp(part)
            out[:, k : k + 64] = part
    return out


def test_a_kernel_that_keeps_too_much_on_chip_is_warned_of_at_its_place_with_its_tiles(tmp_path) -> None:
    with pytest.warns(ir.OnChipMemoryWarning) as caught:
        ir.compile(too_much, tmp_path, platform="a2a3sim")
    (warning,) = caught
    text = str(warning.message)
    assert "'sum' keeps 384 KiB in Vec here, and the 910B has 192" in text
    assert "a: pl.Tile[[256, 128], pl.FP32] 128 KiB" in text
    assert "help: work on smaller tiles: loop over chunks of rows or columns" in text
    assert linecache.getline(warning.filename, warning.lineno).strip() == "out[:, 0:128] = pl.add(a, b)"
    hints = (tmp_path / "report" / "perf_hints.log").read_text()
    assert f"{warning.filename}:{warning.lineno}:" in hints
    assert all(line in hints for line in text.splitlines())


def test_the_warning_is_shown_by_default_once_for_each_place(tmp_path) -> None:
    command = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    command += "from test_on_chip import ir, too_much\n"
    command += f"for _ in range(2): ir.compile(too_much, {str(tmp_path)!r}, platform='a2a3sim')"
    shown = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stderr
    assert shown.count("OnChipMemoryWarning: 'sum' keeps 384 KiB in Vec here") == 1
    assert f"{__file__}:" in shown


def test_strict_memory_refuses_it(tmp_path) -> None:
    with pytest.raises(ValueError, match="keeps 384 KiB in Vec here"):
        ir.compile(too_much, tmp_path, platform="a2a3sim", strict_memory=True)
    with pytest.raises(ValueError, match="keeps 384 KiB in Vec here"):
        too_much.compile(config=RunConfig(save_kernels_dir=str(tmp_path), strict_memory=True))
    with pytest.raises(TypeError, match="strict_memory must be True, False"):
        RunConfig(strict_memory=1.5)


@pl.jit
def between(x: pl.Tensor[[128, 480], pl.FP32], out: pl.Out[pl.Tensor[[128, 480], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x)
    return out


def test_each_chip_has_buffers_of_its_own_size(tmp_path) -> None:
    with pytest.raises(ValueError, match="keeps 240 KiB in Vec here, and the 910B has 192"):
        ir.compile(between, tmp_path / "two", platform="a2a3sim", strict_memory=True)
    ir.compile(between, tmp_path / "five", platform="a5sim", strict_memory=True)
    with pytest.raises(ValueError, match="keeps 384 KiB in Vec here, and the 950 has 248"):
        ir.compile(too_much, tmp_path / "much", platform="a5sim", strict_memory=True)


def test_a_result_may_take_the_place_of_an_operand_and_chunks_fit(tmp_path) -> None:
    ir.compile(in_chunks, tmp_path, platform="a2a3sim", strict_memory=True)
    assert (tmp_path / "report" / "perf_hints.log").read_text() == ""


@pl.jit
def product(x: pl.Tensor[[128, 512], pl.BF16], w: pl.Tensor[[512, 128], pl.BF16], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, w)
    return out


def test_operands_of_products_lie_in_the_matrix_buffer(tmp_path) -> None:
    import torch

    left, right = torch.empty(128, 512, dtype=torch.bfloat16), torch.empty(512, 128, dtype=torch.bfloat16)
    program = product.lower(left, right, torch.empty(128, 128))
    ir.compile(program, tmp_path, platform="a2a3sim", strict_memory=True)


@pl.jit.incore
def carried(x: Big, out: pl.Out[Big]):
    acc = pl.load(x, [0, 0], [128, 128])
    kept = pl.load(x, [128, 0], [128, 128])
    for _ in pl.range(3):
        more = pl.load(x, [0, 128], [128, 128])
        acc = pl.add(acc, pl.mul(more, more))
        pl.store(more, [0, 128], out)
    pl.store(pl.add(acc, kept), [0, 0], out)


def test_values_that_live_through_a_loop_count_inside_it(tmp_path) -> None:
    with pytest.raises(ValueError, match="'carried' keeps 256 KiB in Vec"):
        ir.compile(carried, tmp_path, platform="a2a3sim", strict_memory=True)
