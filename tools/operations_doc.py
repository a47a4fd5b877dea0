"""Writes `docs/operations.md`, the catalogue of operations, from the table in `pypto.language.ops`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from pypto.language.ops import (  # noqa: E402
    bits,
    creation,
    distributed,
    elementwise,
    gather,
    matmul,
    memory,
    reduce,
    system,
    wording,
)
from pypto.language.ops.table import Form, Op  # noqa: E402

PAGE = ROOT / "docs" / "operations.md"
FAMILIES = {
    "Element by element": elementwise,
    "Comparison, selection, bits": bits,
    "Creation": creation,
    "Movement, views, single elements": memory,
    "Matrix products": matmul,
    "Reductions and broadcasts": reduce,
    "Gather, scatter, sort": gather,
    "Blocks, tasks, arrays, prefetch": system,
    "Several ranks": distributed,
}

_PARAMETERS = """
## Parameters

A name means the same everywhere, but where the table says something else.

| parameter | what it is |
|---|---|"""

_HEAD = """# Operations

Every operation that a kernel can use, and those that it cannot yet: {supported} and {others}. `pl.add` and the other
names of `pl` take tensors and tiles alike; `pl.tensor.add` and `pl.tile.add` insist on one of them. A *value* below is
any of both: device memory that a kernel names is loaded first.

```python
import torch

import pypto.language as pl


@pl.jit
def scaled_softmax(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scaled = pl.mul(x, 0.125)  # [16, 64] and a number
        powers = pl.exp(pl.row_expand_sub(scaled, pl.row_max(scaled)))  # [16, 64] and [16, 1]
        out[:] = pl.row_expand_div(powers, pl.row_sum(powers))
    return out


x, out = torch.randn(16, 64), torch.empty(16, 64)
scaled_softmax(x, out)
torch.testing.assert_close(out, torch.softmax(x / 8, dim=-1))
```

* Extents, offsets and counts are numbers of elements, never bytes, unless a row says so.
* `[M, N]` is a shape of rows and columns. Leading axes of a value merge into rows.
* *Valid* is the part of a value that exists: what `valid_shape` said when it was loaded. Operations look at that part
  and give a result that is valid there; what lies outside is not defined until `fillpad`.
* Arithmetic rounds once, to nearest even. Results are the same bits on every instruction set and any number of cores;
  of a NaN only that it is one is sure.
* What is refused is a `pypto.ir.KernelError` with file, line and column when the kernel is compiled.
* Where the numbers of PyPTO's documentation and of its simulator differ, the simulator is followed; the row says so.
  `help(pl.row_max)` prints the row in a shell.

This page is made of the table of operations by `tools/operations_doc.py`.
"""


def page() -> str:
    """The text of the page."""
    every = [op for family in FAMILIES.values() for op in family.row.ops]
    usable = [op for op in every if op.supported]
    parts = [_HEAD.format(supported=len(usable), others=len(every) - len(usable))]
    for title, family in FAMILIES.items():
        parts.append(f"## {title}\n")
        groups: dict[str, list[Op]] = {}
        for op in family.row.ops:
            groups.setdefault(wording.SHAPES[op.rule] if op.supported else "", []).append(op)
        refused = groups.pop("", [])
        parts += [f"{shapes}\n\n{_table(group)}\n" for shapes, group in groups.items()]
        if refused:
            parts.append(f"Names that exist, and that a kernel is refused for:\n\n{_table(refused)}\n")
    return "\n".join(parts) + _parameters(usable)


def _table(group: list[Op]) -> str:
    rows = [f"| {_calls(op)} | {_cell(op)} |" for op in group]
    return "\n".join(["| call | what it gives |", "|---|---|", *rows])


def _calls(op: Op) -> str:
    """One call for each signature; namespaces that share it are named behind it."""
    signatures: dict[tuple[str, str], list[Form]] = {}
    for form in op.forms.values():
        signatures.setdefault((form.name, form.text), []).append(form)
    calls = []
    for (name, text), (first, *others) in signatures.items():
        also = ", ".join(f"`{form.spelling.removesuffix(name)}`" for form in others)
        calls.append(f"`{first.spelling}({text})`" + (f" and {also}" if also else ""))
    return "<br>".join(calls)


def _cell(op: Op) -> str:
    text = re.sub(r"\s+", " ", op.doc).replace("|", "\\|")
    return text if op.supported else f"{text} It {op.refusal}."


def _parameters(usable: list[Op]) -> str:
    told: dict[str, dict[str, list[str]]] = {}
    for op in usable:
        for name in dict.fromkeys(param.name for form in op.forms.values() for param in form.params):
            told.setdefault(name, {}).setdefault(wording.of_parameter(op, name), []).append(op.name)
    rows = []
    for name, meanings in sorted(told.items(), key=lambda item: item[0].strip("*")):
        usual = wording.PARAMETERS.get(name.strip("*"))
        cells = [
            text if text == usual else f"of {', '.join(f'`{op}`' for op in ops)}: {text}"
            for text, ops in meanings.items()
        ]
        rows.append(f"| `{name}` | {'; '.join(cells)} |")
    return "\n".join([_PARAMETERS, *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
