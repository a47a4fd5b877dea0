"""Programs on their way into the extension and to bytes."""

import core_programs as core
import pytest

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
