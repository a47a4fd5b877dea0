"""Type rules of operations: from a matched call to typed IR. `RULES` finds a rule by its name."""

from __future__ import annotations

from pypto.frontend.rules import elementwise, matmul, memory, reduce, scalar, tasks, transfer
from pypto.frontend.rules.base import Rule

RULES: dict[str, Rule] = {}
"""By the name that rows of the operation table use."""

for _family in (elementwise, matmul, memory, reduce, scalar, tasks, transfer):
    RULES.update(_family.RULES)
