"""Every operation of the table that kernels can use is tested by name."""

import re
from pathlib import Path

from operations.cases import CASES

from pypto.language import ops

TEXT = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("*.py"))


def test_every_operation_of_the_table_is_in_the_matrix_or_in_a_test() -> None:
    covered = {case.op for case in CASES}
    for op in ops.ALL:
        for form in op.forms.values():
            if re.search(rf"(?:pl\.{form.name}|{re.escape(form.spelling)})\(", TEXT):
                covered.add(op.name)
    hints = {"no_dep", "dump_tag"}  # identities
    assert sorted({op.name for op in ops.ALL if op.supported} - covered - hints) == []


def test_arithmetic_of_the_table_is_in_the_matrix() -> None:
    rules = {"binary", "binary_scalar", "unary", "unary_float", "bitwise", "bitwise_scalar", "bit_not", "compare"}
    rules |= {"select", "leaky", "row_reduce", "col_reduce", "row_expand_binary", "col_expand_binary"}
    wanted = {op.name for op in ops.ALL if op.rule in rules}
    apart = {"row_expand_expdif", "col_expand_expdif"}  # of two roundings: tested in test_elementwise
    assert sorted(wanted - {case.op for case in CASES} - apart) == []
