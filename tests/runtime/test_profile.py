"""`profile()`: what is measured, what is attributed, and that the numbers are those of the program."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import pypto.language as pl
from pypto import _pypto, ir
from pypto.runtime import ChipWorker, Profile, RunConfig, peaks, profile
from pypto.runtime.profiling.result import Operation, attributed

SOURCE = Path(__file__).read_text().splitlines()


def line_of(text: str) -> int:
    """The line of this file that ends with this comment."""
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# {text}"))


@pl.jit
def layer(
    x: pl.Tensor[[64, 256], pl.FP32], w: pl.Tensor[[256, 128], pl.FP32], out: pl.Out[pl.Tensor[[64, 128], pl.FP32]]
):
    for row in pl.range(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            part = x[row : row + 16, :]  # the load
            shifted = pl.exp(pl.sub(part, 1.0))  # the chain
            out[row : row + 16, :] = pl.matmul(shifted, w[:, :])  # the product
    return out


@pytest.fixture(scope="module")
def arguments() -> tuple[torch.Tensor, ...]:
    return torch.randn(64, 256), torch.randn(256, 128), torch.zeros(64, 128)


@pytest.fixture(scope="module")
def profiled(arguments: tuple[torch.Tensor, ...]) -> Profile:
    return profile(layer.compile(*arguments), *arguments, launches=5, warmup=1)


def test_each_step_says_what_it_computes_and_moves(profiled: Profile) -> None:
    chain, product = profiled.steps
    assert (chain.kind, product.kind) == ("chain", "product")
    assert (chain.runs, product.runs) == (4, 4)
    assert [(one.name, one.line) for one in chain.operations] == [
        ("load", line_of("the load")),
        ("sub", line_of("the chain")),
        ("exp", line_of("the chain")),
    ]
    assert chain.flops == 2 * 64 * 256
    assert chain.device_bytes == 4 * 64 * 256
    assert product.main.line == product.line == line_of("the product")
    assert product.flops == 2 * 64 * 256 * 128
    # The weight is read for each of the four rounds; the left operand lies in a tile.
    assert product.device_bytes == 4 * (4 * 256 * 128 + 64 * 128)
    assert product.nbytes - product.device_bytes == 4 * 64 * 256


def test_times_of_steps_are_measured_and_those_of_fused_operations_attributed(profiled: Profile) -> None:
    chain, product = profiled.steps
    assert not any(one.measured for one in chain.operations)
    assert sum(one.us or 0 for one in chain.operations) == pytest.approx(chain.us)
    measured, *within = product.operations
    assert measured.measured
    assert measured.us == product.us
    assert [(one.name, one.us) for one in within] == [("load", None), ("store", None)]
    assert sum(step.share for step in profiled.steps) == pytest.approx(1)
    assert profiled.device_us > 0


def test_a_profile_leaves_arguments_alone(arguments: tuple[torch.Tensor, ...]) -> None:
    x, w, out = (one.clone() for one in arguments)
    profile(layer.compile(x, w, out), x, w, out, launches=1, warmup=0)
    assert torch.equal(x, arguments[0])
    assert torch.equal(out, torch.zeros(64, 128))


def test_outputs_may_be_left_out_and_arrays_passed(arguments: tuple[torch.Tensor, ...]) -> None:
    compiled = layer.compile(*arguments)
    x, w, _ = (one.numpy() for one in arguments)
    assert isinstance(x, np.ndarray)
    assert profile(compiled, x, w, launches=1, warmup=0).steps[1].flops == 2 * 64 * 256 * 128


def test_a_profile_is_welcome_inside_a_worker_and_of_any_runtime(
    arguments: tuple[torch.Tensor, ...], tmp_path: Path
) -> None:
    compiled = layer.compile(*arguments)
    other = ir.compile(compiled.program, tmp_path, runtime="host_build_graph")
    with ChipWorker() as worker:
        for program in (compiled, other):
            assert profile(program, *arguments, launches=1, warmup=0).steps[1].flops == 2 * 64 * 256 * 128
        assert worker.counters()["launches"] == 0
        compiled(*arguments)
        assert worker.counters()["launches"] == 1


def test_what_a_profile_cannot_do_is_said(arguments: tuple[torch.Tensor, ...]) -> None:
    compiled = layer.compile(*arguments)
    with pytest.raises(ValueError, match="launches must be at least 1, got 0"):
        profile(compiled, *arguments, launches=0)
    with pytest.raises(TypeError, match="expected a CompiledProgram, got JITFunction"):
        profile(layer, *arguments)
    with pytest.raises(TypeError, match=r"expects 3 \(in-place\) or 2 \(return\) arguments, got 1"):
        profile(compiled, arguments[0])
    with ChipWorker(RunConfig(cores=1)) as worker:
        x = worker.from_host(arguments[0])
        with pytest.raises(ValueError, match="pass host tensors"):
            profile(compiled, x, *arguments[1:])
        handle = worker.register(compiled)
        assert _pypto.take_profile(handle) is None, "an ordinary device times no steps"
        worker.free_tensor(x)


def test_the_dictionary_is_json_and_has_the_numbers_of_the_objects(profiled: Profile) -> None:
    found = json.loads(json.dumps(profiled.to_dict()))
    assert found["us"] == profiled.us
    for plain, step in zip(found["steps"], profiled.steps, strict=True):
        assert plain["gb_per_s"] == pytest.approx(step.nbytes / step.us / 1e3)
        assert plain["gflop_per_s"] == pytest.approx(step.flops / step.us / 1e3)
        assert plain["of_flop_peak"] == pytest.approx(step.flops_per_second / profiled.peaks.fp32)
        assert [one["name"] for one in plain["operations"]] == [one.name for one in step.operations]


def test_the_table_says_what_is_measured_and_what_is_attributed(profiled: Profile) -> None:
    text = str(profiled)
    assert "chain of 3 x4" in text
    assert "Measured: each step, by the clock." in text
    assert "Attributed (~): the operations of a chain" in text
    assert "within" in text
    assert "<pre" in profiled._repr_html_()
    assert "chain of 3 x4" in profiled._repr_html_()


def test_the_annotated_source_has_the_costs_beside_the_lines(profiled: Profile) -> None:
    lines = profiled.source().splitlines()
    (product,) = [line for line in lines if line.endswith("# the product")]
    (chain,) = [line for line in lines if line.endswith("# the chain")]
    assert f"| {line_of('the product'):4d} " in product
    assert product.split()[0] == f"{profiled.steps[1].us:,.1f}"
    assert chain.split()[0].startswith("~")
    assert any("for row in pl.range(0, 64, 16):" in line for line in lines), "lines around those that cost are shown"


def test_a_narrow_terminal_gets_the_numbers_without_the_source(profiled: Profile) -> None:
    def shown(width: int) -> list[str]:
        console = Console(width=width, file=io.StringIO())
        console.print(profiled)
        file = console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue().splitlines()

    wide, narrow = shown(120), shown(80)
    assert all(len(line) <= 80 for line in narrow)
    (row,) = [line for line in narrow if "chain of 3 x4" in line]
    assert "pl.exp" not in row
    cells = [cell.strip() for cell in row.split("│")[1:9]]
    whole = next(line for line in wide if "chain of 3 x4" in line)
    assert cells == [cell.strip() for cell in whole.split("│")[1:9]], "no number is cut"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_roofline_is_drawn_with_each_step_and_each_roof(profiled: Profile, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"roof.{ending}"
    profiled.roofline(path)
    if ending == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    text = path.read_text()
    chain, product = profiled.steps
    assert f"1: line {chain.line}, chain of 3, {chain.us:,.1f} us ({chain.share:.0%})" in text
    assert f"2: line {product.line}, matmul, {product.us:,.1f} us ({product.share:.0%})" in text
    assert f"FP32 {profiled.peaks.fp32 / 1e9:,.0f} GFLOP/s" in text
    assert f"memory {profiled.peaks.memory / 1e9:,.1f} GB/s" in text


def test_numbers_at_one_place_of_a_roofline_stand_beside_each_other(profiled: Profile, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    chain, product = profiled.steps
    path = tmp_path / "roof.svg"
    replace(profiled, steps=(product, chain, product)).roofline(path)
    text = path.read_text()
    assert ">1, 3</text>" in text
    assert ">2</text>" in text
    assert ">3</text>" not in text


def test_what_a_roofline_needs_is_said(profiled: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"a roofline is written as \.png or \.svg, got"):
        profiled.roofline(tmp_path / "roof.pdf")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"roofline plots need matplotlib: pip install 'pypto\[plot\]'"):
        profiled.roofline(tmp_path / "roof.png")


def operation(name: str, alone_us: float, nbytes: int) -> Operation:
    return Operation(name, "k.py", 1, "FP32", None, False, 0, nbytes, 0, alone_us)


MEMORY = 100e6
"""Bytes in a second: 100 in a microsecond."""


def times(us: float, *given: Operation) -> list[float]:
    return [one.us or 0.0 for one in attributed("chain", us, given, MEMORY)]


def test_what_a_chain_takes_beyond_its_instructions_is_waiting_for_memory_as_long_as_that_can_be() -> None:
    given = [operation("load", 0.0, 300), operation("exp", 4.0, 0), operation("store", 0.0, 100)]
    assert times(8.0, *given) == [3.0, 4.0, 1.0]
    assert times(6.0, *given) == [1.5, 4.0, 0.5]
    # Memory needs 4 us for these bytes. The other 8 are the way from row to row, which all share.
    assert times(16.0, *given) == [6.0, 8.0, 2.0]


def test_instructions_that_overlap_are_scaled_to_the_time_of_the_chain() -> None:
    given = [operation("load", 0.0, 300), operation("exp", 4.0, 0), operation("mul", 4.0, 0)]
    assert times(2.0, *given) == [0.0, 1.0, 1.0]
    assert times(2.0, operation("load", 0.0, 300), operation("store", 0.0, 100)) == [1.5, 0.5]


def test_a_step_of_one_operation_is_measured() -> None:
    (only,) = attributed("chain", 3.0, [operation("exp", 1.0, 8)], MEMORY)
    assert (only.us, only.measured) == (3.0, True)
    first, load = attributed("product", 3.0, [operation("matmul", 0.0, 8), operation("load", 0.0, 8)], MEMORY)
    assert (first.us, first.measured, load.us) == (3.0, True, None)


def test_peaks_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []
    values = {"read": 1e10, "copy": 2e10, "cached_read": 1e11, "fp32": 1e11, "bf16": 2e11, "int8": 4e11}

    def measure(threads: int) -> dict[str, object]:
        calls.append(threads)
        return {"isa": "avx2", "threads": threads, **values}

    monkeypatch.setattr(_pypto, "measure_peaks", measure)
    first = peaks(2)
    assert peaks(2) == first
    assert calls == [2]
    assert first.memory == 2e10
    assert (first.arithmetic("BF16"), first.arithmetic("FP16"), first.arithmetic("INT8")) == (2e11, 1e11, 4e11)
    peaks(1)
    peaks(2, fresh=True)
    assert calls == [2, 1, 2]
    (tmp_path / "pypto" / "peaks.json").write_text("{ this is no JSON")
    assert peaks(2) == first
    assert calls == [2, 1, 2, 2]


def test_peaks_of_this_machine_are_plausible() -> None:
    found = peaks(1)
    assert found.isa == _pypto.instruction_set()
    assert found.threads == 1
    # Widely: a processor of this century, and no bug of a factor of a thousand.
    assert all(1e8 < getattr(found, name) < 1e14 for name in ("read", "copy", "cached_read", "fp32", "bf16", "int8"))
    with pytest.raises(ValueError, match="threads must be from 1 to"):
        peaks(0)
