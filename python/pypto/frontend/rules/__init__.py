"""Type rules of operations: from a matched call to typed IR. `RULES` finds a rule by its name."""

from __future__ import annotations

from pypto.frontend.rules import (
    box,
    compare,
    creation,
    element,
    elementwise,
    fill,
    gather,
    matmul,
    reduce,
    scalar,
    scatter,
    shape,
    tasks,
    transfer,
)
from pypto.frontend.rules.base import Rule

RULES: dict[str, Rule] = {}
"""By the name that rows of the operation table use."""

for _family in (
    box,
    compare,
    creation,
    element,
    elementwise,
    fill,
    gather,
    matmul,
    reduce,
    scalar,
    scatter,
    shape,
    tasks,
    transfer,
):
    RULES.update(_family.RULES)
