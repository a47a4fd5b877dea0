"""Every operation of the table that kernels can use is tested by name."""

import re
from pathlib import Path

from operations.harness import CASES

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


APART = {
    "create_tensor create_tile create_l1": "no defined content",
    "read write dim get_element update_element array_create": "scalars and arrays of them",
    "view no_dep dump_tag": "labels of device memory",
    "get_block_idx get_block_num get_subblock_idx aiv_shard aic_gather syncall": "blocks and lanes",
    "sync_set sync_wait set_ffts cacheinvalid alloc make_context async_prefetch session wait": "nothing to do here",
    "task_invalid task_dummy available_cluster_count available_aiv_count": "tasks and the chip",
}
"""Operations that no dtype, size or validity makes different, and why."""


def test_every_operation_on_elements_is_in_the_matrix() -> None:
    apart = {name for names in APART for name in names.split()}
    covered = {case.op for case in CASES}
    assert sorted(covered & apart) == []
    assert sorted({op.name for op in ops.ALL if op.supported} - covered - apart) == []
