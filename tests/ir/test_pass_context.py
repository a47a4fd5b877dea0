"""`PassContext`: settings of everything that is compiled in a block."""

import threading

import pytest
import sample_kernels
import torch

from pypto import ir, runtime
from pypto.runtime import RunConfig

SETTINGS = {
    "verification_level": ir.VerificationLevel.NONE,
    "diagnostic_phase": ir.DiagnosticPhase.NONE,
    "disabled_diagnostics": ir.DiagnosticCheckSet(),
    "memory_planner": ir.MemoryPlanner.PYPTO,
    "runtime": ir.RuntimeKind.HOST_BUILD_GRAPH,
}


def test_ir_compile_follows_the_context_and_the_arguments_outside_it() -> None:
    program = sample_kernels.RepeatedMatmul
    with ir.PassContext(runtime=ir.RuntimeKind.HOST_BUILD_GRAPH):
        assert ir.compile(program).runtime_name == "host_build_graph"
    assert ir.compile(program).runtime_name == "tensormap_and_ringbuffer"
    assert ir.compile(program, runtime="host_build_graph").runtime_name == "host_build_graph"


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_context_decides_is_not_given_to_ir_compile_too(name: str) -> None:
    text = (
        rf"{name} given to ir\.compile\(\) while a PassContext is active: set it on the existing PassContext\({name}="
    )
    with ir.PassContext(), pytest.raises(RuntimeError, match=text):
        ir.compile(sample_kernels.RepeatedMatmul, **{name: SETTINGS[name]})
    ir.compile(sample_kernels.RepeatedMatmul, **{name: SETTINGS[name]})


def test_jit_functions_follow_it_and_keep_both_results_apart() -> None:
    args = [torch.ones(8, 8) for _ in range(3)]
    before = sample_kernels.add.compile(*args)
    with ir.PassContext(runtime="host_build_graph"):
        inside = sample_kernels.add.compile(*args)
        assert sample_kernels.add.compile(*args) is inside
    assert inside.runtime_name == "host_build_graph"
    assert before.runtime_name == "tensormap_and_ringbuffer"
    assert sample_kernels.add.compile(*args) is before


def test_run_works_in_a_context_as_it_gives_no_setting_of_its_own() -> None:
    with ir.PassContext(verification_level=ir.VerificationLevel.NONE):
        compiled = runtime.run(sample_kernels.RepeatedMatmul, config=RunConfig()).compiled
    assert compiled is not None
    assert compiled.runtime_name == "tensormap_and_ringbuffer"


def test_contexts_nest_and_end_with_their_blocks() -> None:
    assert ir.PassContext.current() is None
    outer, inner = ir.PassContext(), ir.PassContext(runtime="host_build_graph")
    with outer:
        with inner, inner:
            assert ir.PassContext.current() is inner
        assert ir.PassContext.current() is outer
        with pytest.raises(ZeroDivisionError), inner:
            raise ZeroDivisionError
        assert ir.PassContext.current() is outer
    assert ir.PassContext.current() is None


def test_another_thread_has_contexts_of_its_own() -> None:
    seen = []
    with ir.PassContext():
        thread = threading.Thread(target=lambda: seen.append(ir.PassContext.current()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_instruments_are_refused_with_what_to_do_instead() -> None:
    assert ir.PassContext([]).runtime is None
    with pytest.raises(NotImplementedError, match=r"instruments of a PassContext .* dump_passes=True"):
        ir.PassContext([object()])
