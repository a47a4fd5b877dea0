"""Programs on their way into the extension and to bytes."""

import core_programs as core
import pytest
from scripts import output_of

from pypto import _pypto


def test_a_program_survives_encoding() -> None:
    program = core.add()
    data = program.encode()
    again = _pypto.Program.decode(data)
    assert again.encode() == data
    assert (again.name, again.written) == ("add", ["c"])
    assert repr(again) == 'Program("add", 3 parameters, 1 kernels)'


def test_equal_programs_have_equal_bytes() -> None:
    assert core.add().encode() == core.add().encode()
    assert core.add().encode() != core.add(name="other").encode()


@pytest.mark.parametrize("cut", [0, 4, 8, 11, 12, 40, -1])
def test_damaged_bytes_are_refused(cut: int) -> None:
    data = core.add().encode()
    with pytest.raises(ValueError, match="not a program file of this version"):
        _pypto.Program.decode(data[:cut])


def test_bytes_of_another_kind_are_refused() -> None:
    data = core.add().encode()
    for wrong in (b"", b"PK\x03\x04 something else", data + b"\0", data[:8] + b"\xff\xff\xff\xff" + data[12:]):
        with pytest.raises(ValueError, match="not a program file of this version"):
            _pypto.Program.decode(wrong)


@pytest.mark.parametrize("data", [{}, {"name": 3}, {"name": "f", "files": 1}])
def test_data_of_another_form_is_refused(data: dict) -> None:
    with pytest.raises(ValueError, match="the program data is malformed"):
        _pypto.Program(data)


@pytest.mark.parametrize("data", [None, [], "program", 3])
def test_other_objects_are_no_data(data: object) -> None:
    with pytest.raises(TypeError):
        _pypto.Program(data)


def test_data_that_breaks_a_rule_is_refused() -> None:
    statement = core.statement(Launch={"kernel": 7, "args": [], "blocks": {"Int": 1}})
    with pytest.raises(ValueError, match="kernel"):
        core.program("broken", [], body=[statement])


def test_deep_nesting_is_refused_before_the_stack_ends() -> None:
    body: list = []
    for _ in range(100_000):
        body = [core.statement(If={"cond": {"Bool": True}, "then": body, "orelse": []})]
    with pytest.raises(ValueError, match="nested deeper"):
        core.program("deep", [], body=body)
    while body:  # dismantled by hand: the interpreter's own destructor would recurse
        body = body[0]["kind"]["If"]["then"]


def test_a_deep_program_where_the_system_starts_no_thread_is_an_error() -> None:
    said = output_of("""
        import resource

        body = []
        for _ in range(25):
            body = [core.statement(If={"cond": {"Bool": True}, "then": body, "orelse": []})]
        known = core.program("deep", [], body=body)
        data = known.encode()
        device = _pypto.Worker("a2a3sim", capacity=1 << 20, cores=1)
        # The library keeps the stacks of threads that ended, for the next ones: a thread that lasts takes it.
        threading.stack_size(16 << 20)
        lasting = threading.Event()
        for _ in range(2):
            threading.Thread(target=lasting.wait).start()
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        # Less address space than the stack of the thread takes.
        resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 20), resource.RLIM_INFINITY))
        for use in (
            lambda: core.program("deep", [], body=body),
            lambda: _pypto.Program.decode(data),
            lambda: registered(device, known),
        ):
            try:
                use()
            except RuntimeError as error:
                assert "Raise the limit of threads or memory" in str(error), error
                print(error.code)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        registered(device, _pypto.Program.decode(data))()
        print("runs")
        lasting.set()
    """)
    assert said.split() == ["no_thread"] * 3 + ["runs"]
