"""Every public name exists with its signature, whether kernels can use it yet or not."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import pypto.language as pl
import pypto.language.distributed as pld
from pypto.frontend.rules import RULES
from pypto.language import ops
from pypto.language.errors import OutsideKernelError
from pypto.language.ops import stubgen

ROOT = Path(__file__).parents[2]
TEXT = (Path(__file__).parent / "public_names.txt").read_text()
SECTIONS = dict(re.findall(r"^\[(.+)\]\n([^\[]*)", TEXT, re.MULTILINE))


@pytest.mark.parametrize(("module", "section"), [(pl, "names pl"), (pld, "names distributed")])
def test_exported_names_exist(module, section: str) -> None:
    missing = [name for name in SECTIONS[section].split() if not hasattr(module, name)]
    assert missing == []
    assert set(SECTIONS[section].split()) <= set(dir(module))


@pytest.mark.parametrize("namespace", ["pl", "tensor", "tile", "system", "array", "prefetch"])
def test_signatures_are_the_public_ones(namespace: str) -> None:
    module = importlib.import_module(ops.NAMESPACES[namespace])
    for line in SECTIONS[namespace].splitlines():
        name, _, signature = line.partition("(")
        function = getattr(module, name)
        assert normalised(str(inspect.signature(function))) == normalised("(" + signature), f"{namespace}.{name}"


def normalised(signature: str) -> str:
    """A signature without the ways in which defaults can be written."""
    signature = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", signature)
    return signature.replace("DataType.", "pl.").replace("pl.AUTO", "AUTO")


def test_operations_show_what_they_do() -> None:
    assert "Sum of two values" in pl.add.__doc__
    assert "not supported: this device has no block-scaled FP8 and FP4 matrix products" in pl.matmul_mx.__doc__
    assert pl.tile.load.__module__ == "pypto.language.tile"


@pytest.mark.parametrize("call", [lambda: pl.add(1, 2), lambda: pl.range(3), lambda: pl.at(0), lambda: pl.tile.load(1)])
def test_running_kernel_code_as_python_explains(call) -> None:
    with pytest.raises(OutsideKernelError, match=r"pl\.[a-z.]+ only has a meaning inside a kernel.*@pl\.jit"):
        call()


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'ad'"):
        pl.ad  # noqa: B018
    with pytest.raises(AttributeError) as caught:
        pl.FP31  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("FP31", pl), "what Python's \"Did you mean: 'FP32'?\" is made of"
    with pytest.raises(AttributeError, match=r"module 'pypto\.language\.tile' has no attribute 'ad'"):
        pl.tile.ad  # noqa: B018


@pytest.mark.parametrize("namespace", stubgen.GENERATED)
def test_stub_files_follow_the_table(namespace: str) -> None:
    assert stubgen.path_of(namespace).read_text() == stubgen.render(namespace), (
        "run python -m pypto.language.ops.stubgen"
    )


def test_rows_name_rules_of_the_frontend_and_operations_of_the_core() -> None:
    source = (ROOT / "rust/src/program/ops.rs").read_text()
    core = set(re.findall(r'^\s+\w+ "(\w+)",$', source, re.MULTILINE))
    assert {"load", "matmul", "block_idx"} <= core
    for op in ops.ALL:
        if op.supported:
            assert op.rule in RULES, op.name
            assert set(op.core) <= core, op.name


def test_every_rule_is_used_by_a_row() -> None:
    assert set(RULES) == {op.rule for op in ops.ALL if op.supported}


IMPORTS = """
pypto.backend BackendType set_backend_type
pypto.backend.pto_backend PartialCodegenError
pypto.debug torch_codegen
pypto.ir ParamDirection
pypto.ir.compiled_program _to_runtime_shape _to_torch_dtype
pypto.ir.distributed_compiled_program DistributedCompiledProgram DistributedConfig
pypto.ir.pass_manager OptimizationStrategy PassManager
pypto.runtime.debug.pto_rebuild rebuild_kernel_cpp_from_pto
pypto.runtime.debug.replay invalidate_binary_cache
pypto.runtime.distributed_runner _tensor_from_continuous
pypto.runtime.log_config configure_log current_level
pypto.runtime.runner _DfxOpts
"""


@pytest.mark.parametrize("line", IMPORTS.split("\n")[1:-1])
def test_what_files_of_kernels_import_exists(line: str) -> None:
    module, *names = line.split()
    assert [name for name in names if not hasattr(importlib.import_module(module), name)] == []


def test_tools_that_do_not_exist_say_so() -> None:
    import pypto

    with pytest.raises(NotImplementedError, match=r"pypto\.debug\.torch_codegen is not supported"):
        pypto.debug.torch_codegen(None)
    with pytest.raises(NotImplementedError, match=r"_tensor_from_continuous is not supported"):
        importlib.import_module("pypto.runtime.distributed_runner")._tensor_from_continuous()
    with pytest.raises(NotImplementedError, match=r"pypto\.ir\.PassManager is not supported"):
        importlib.import_module("pypto.ir.pass_manager").PassManager()
    with pytest.raises(AttributeError, match=r"module 'pypto\.ir\.pass_manager' has no attribute 'Pass'"):
        importlib.import_module("pypto.ir.pass_manager").Pass  # noqa: B018
