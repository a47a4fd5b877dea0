"""Compilation into a directory, and what is read back from it."""

import json
import os
from pathlib import Path

import pytest

import pypto.language as pl
from pypto import ir
from pypto.ir.compiled_program import _to_runtime_shape, _to_torch_dtype

M = pl.dynamic("M")


@pl.program
class Scale:
    @pl.function(type=pl.FunctionType.InCore)
    def scale(
        self,
        x: pl.Tensor[[M, 16], pl.FP16],
        out: pl.Out[pl.Tensor[[M, 16], pl.FP16]],
        extra: pl.InOut[pl.Tensor[[4, 16], pl.FP16]],
        n: pl.Scalar[pl.INT32],
    ):
        t = pl.load(x, [0, 0], [4, 16])
        out = pl.store(pl.mul(t, 2.0), [n, 0], out)
        extra = pl.store(pl.add(t, pl.load(extra, [0, 0], [4, 16])), [0, 0], extra)
        return out, extra

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[M, 16], pl.FP16],
        out: pl.Out[pl.Tensor[[M, 16], pl.FP16]],
        extra: pl.InOut[pl.Tensor[[4, 16], pl.FP16]],
        n: pl.Scalar[pl.INT32],
    ):
        out, extra = self.scale(x, out, extra, n)
        return out, extra


@pytest.fixture
def compiled(tmp_path: Path) -> ir.CompiledProgram:
    return ir.compile(Scale, tmp_path / "scale", platform="a2a3sim")


def test_metadata_says_what_a_launch_takes(compiled: ir.CompiledProgram) -> None:
    infos = compiled._get_metadata()
    assert (len(infos), infos[0], list(infos)) == (4, infos.params[0], list(infos.params))
    assert [(info.name, info.direction.name, info.shape, info.dtype) for info in infos] == [
        ("x", "In", (-1, 16), pl.FP16),
        ("out", "Out", (-1, 16), pl.FP16),
        ("extra", "InOut", (4, 16), pl.FP16),
        ("n", "In", None, pl.INT32),
    ]
    assert compiled.param_names == ["x", "out", "extra", "n"]
    assert compiled.output_indices == [1]
    assert compiled.has_return
    assert compiled.platform == "a2a3sim"
    assert compiled.backend_type is ir.BackendType.Ascend910B
    assert compiled.program is Scale


def test_a_compiled_program_is_its_directory(compiled: ir.CompiledProgram, tmp_path: Path) -> None:
    directory = tmp_path / "scale"
    assert compiled == directory == Path(compiled)
    assert compiled == str(directory)
    assert os.fspath(compiled) == str(compiled) == str(directory)
    assert compiled.output_dir.is_dir()
    assert hash(compiled) == hash(str(directory))
    written = {path.name for path in directory.iterdir()}
    assert written == {"program.json", "compiled_meta.json", "kernel_config.py", "debug", "report", "passes_dump"}
    assert "def scale(" in (directory / "passes_dump" / "00_after_Frontend.py").read_text()


def test_a_directory_reloads(compiled: ir.CompiledProgram) -> None:
    again = ir.CompiledProgram.from_dir(compiled)
    assert again.program is None
    assert again.core_program() == compiled.core_program()
    assert again._get_metadata() == compiled._get_metadata()
    assert again.platform == "a2a3sim"
    assert again == compiled.output_dir


def test_entries_are_found_by_name(compiled: ir.CompiledProgram) -> None:
    assert compiled[compiled.name] is compiled
    with pytest.raises(KeyError, match="'other' is no entry of this program"):
        compiled["other"]


def test_a_directory_without_a_program_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"compiled_meta.json does not exist.*ir\.compile"):
        ir.CompiledProgram.from_dir(tmp_path)


BROKEN = {
    "no json": lambda meta: "{",
    "a list": lambda meta: "[]",
    "another schema": lambda meta: json.dumps({**meta, "schema": 2}),
    "no params": lambda meta: json.dumps({**meta, "params": None}),
    "no platform": lambda meta: json.dumps({**meta, "platform": 3}),
    "a bad direction": lambda meta: json.dumps({**meta, "params": [{**meta["params"][0], "direction": "Up"}]}),
    "a bad shape": lambda meta: json.dumps({**meta, "params": [{**meta["params"][0], "shape": [1.5]}]}),
    "a bad dtype": lambda meta: json.dumps({**meta, "params": [{**meta["params"][0], "dtype": "FP33"}]}),
    "a bad parameter": lambda meta: json.dumps({**meta, "params": ["x"]}),
    "a negative shape": lambda meta: json.dumps({**meta, "params": [{**meta["params"][0], "shape": [-2]}]}),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_malformed_sidecar_is_a_value_error_that_names_the_file(how: str, compiled: ir.CompiledProgram) -> None:
    path = compiled.output_dir / "compiled_meta.json"
    path.write_text(BROKEN[how](json.loads(path.read_text())))
    with pytest.raises(ValueError, match=r"compiled_meta\.json.*Recompile with ir\.compile"):
        ir.CompiledProgram.from_dir(compiled.output_dir)


def test_platforms_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown platform 'a3'; known are a2a3, a2a3sim"):
        ir.compile(Scale, tmp_path, platform="a3")
    assert ir.compile(Scale, tmp_path, backend_type=ir.BackendType.Ascend950).platform == "a5sim"
    assert ir.compile(Scale, tmp_path, platform="a2a3").platform == "a2a3"


def test_only_programs_compile() -> None:
    with pytest.raises(TypeError, match=r"ir\.compile takes a @pl\.program class or a @pl\.jit function, got 3"):
        ir.compile(3)


def test_every_compilation_gets_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    directories = {ir.compile(Scale, dump_passes=False).output_dir for _ in range(5)}
    assert len(directories) == 5
    assert all(directory.parent == tmp_path and directory.name.startswith("Scale_") for directory in directories)


def test_an_annotated_jit_function_compiles_as_a_program_does(tmp_path: Path) -> None:
    @pl.jit
    def double(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)
        return out

    assert ir.compile(double, tmp_path).param_names == ["x", "out"]


def test_dtypes_and_shapes_for_the_runtime() -> None:
    import torch

    assert _to_torch_dtype(pl.BF16) is torch.bfloat16
    assert _to_runtime_shape((-1, 4), pl.FP32) == [-1, 4]


def test_unsupported_names_of_the_package_exist_and_say_so() -> None:
    for name in ("IRBuilder", "PassManager", "op", "make_call", "directions"):
        with pytest.raises(NotImplementedError, match=f"pypto.ir.{name} is not supported in this version"):
            getattr(ir, name)()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ir.nothing  # noqa: B018


def test_01_rebinding_an_out_parameter_writes_nothing_and_is_refused(tmp_path: Path) -> None:
    from pypto.backend.pto_backend import PartialCodegenError

    @pl.jit
    def kernel(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.add(x, x)  # noqa: F841  (the mistake under test)
        return x

    with pytest.raises(PartialCodegenError) as caught:
        kernel.compile()
    assert "nothing writes the Out parameter 'out'" in str(caught.value)
    assert "`out = ...` only rebinds the name; write out[:] = x" in str(caught.value)
    with pytest.raises(PartialCodegenError):
        ir.compile(kernel, tmp_path)


def test_a_broken_program_is_an_internal_error_with_a_place(tmp_path: Path) -> None:
    from pypto.errors import InternalError
    from pypto.ir.nodes import BreakStmt

    program = pl.parse_program(Scale.as_python())
    program.entry.body.append(BreakStmt(program.entry.loc))
    with pytest.raises(InternalError, match="in main: break or continue outside a loop"):
        ir.compile(program, tmp_path)
