"""Writes `docs/errors.md`: every error with its stable code, its class, its cause and its cure, from the sources."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"

_CORE = {
    "ArenaError": "rust/src/arena/error.rs",
    "WorkerError": "rust/src/worker/error.rs",
    "DeviceError": "rust/src/device/mod.rs",
    "ProgramError": "rust/src/program/verify/mod.rs",
}
_EDGE = "rust/src/python/codes.rs"
_PYTHON = "python/pypto/failures.py"
_CLASSES = {
    "Type": "TypeError",
    "Value": "ValueError",
    "Runtime": "RuntimeError",
    "Memory": "OutOfMemoryError",
    "Overflow": "OverflowError",
    "Index": "IndexError",
    "Buffer": "BufferError",
    "Interrupted": "KeyboardInterrupt",
}

_HEAD = """# Errors

Errors are builtin exceptions, but for `pypto.OutOfMemoryError`, which is a `MemoryError` and, as programs for PyPTO
expect, a `RuntimeError`. Each has its stable code in the attribute `code`, for programs that react to one kind:

<!-- python
import pypto
import torch
from pypto.runtime import ChipWorker, RunConfig
w = ChipWorker(RunConfig(device_memory=1 << 20))
evicted = []
evict_something = lambda: evicted.append(1)
-->
```python
try:
    weight = w.alloc_tensor((1024, 4096), torch.float16)
except pypto.OutOfMemoryError as error:
    if error.code != "out_of_memory":
        raise
    evict_something()
```

<!-- python
assert evicted
w.close()
-->

A text names the parameter, both sides, and what to do; codes and classes stay, texts may improve. What is wrong in the
source of a kernel is a `pypto.ir.KernelError` with file, line and column instead, and calls that Python itself refuses
(an unknown keyword) are plain `TypeError`s.

This page is made of the sources by `tools/errors_doc.py`.

| code | exception | cause, and what to do | found by |
|---|---|---|---|
"""


@dataclass
class Row:
    """One code."""

    code: str
    classes: list[str] = field(default_factory=list)
    why: str = ""
    sources: list[str] = field(default_factory=list)


def rows() -> dict[str, Row]:
    """Every code, in alphabetical order."""
    found: dict[str, Row] = {}

    def add(code: str, exception: str, why: str, source: str) -> None:
        row = found.setdefault(code, Row(code))
        row.why = row.why or why
        row.classes += [exception] * (exception not in row.classes)
        row.sources += [source] * (source not in row.sources)

    for name, path in _CORE.items():
        for code, exception, why in _core(name, (ROOT / path).read_text()):
            add(code, exception, why, path)
    for code, exception, why in _edge((ROOT / _EDGE).read_text()):
        add(code, exception, why, _EDGE)
    for code, exception, why in _python((ROOT / _PYTHON).read_text()):
        add(code, exception, why, _PYTHON)
    return dict(sorted(found.items()))


def page() -> str:
    """The text of the page."""
    lines = [
        f"| `{row.code}` | {' or '.join(f'`{name}`' for name in row.classes)} | {row.why} | {_found_by(row)} |"
        for row in rows().values()
    ]
    return _HEAD + "\n".join(lines) + "\n"


def _found_by(row: Row) -> str:
    return ", ".join(f"`{source}`" for source in row.sources)


def _core(name: str, text: str) -> list[tuple[str, str, str]]:
    """Variants of an error enum: docs of the enum, arms of `kind` and `code`."""
    docs: dict[str, str] = {}
    comment: list[str] = []
    body = text[text.index(f"pub enum {name} {{") :]
    for line in body[: body.index("\n}\n")].splitlines():
        variant = re.match(r"    (\w+)[,({ ]", line)
        if line.startswith("    ///"):
            comment.append(line)
        elif variant is not None:
            docs[variant.group(1)], comment = _sentence("\n".join(comment)), []
    kinds, codes = _arms(name, text, "kind", r"ErrorKind::(\w+)"), _arms(name, text, "code", r'"(\w+)"')
    missing = sorted(set(codes) - set(docs))
    if missing:
        raise SystemExit(f"{name}: no documentation found for {', '.join(missing)}")
    return [(code, _CLASSES[kinds[variant]], docs[variant]) for variant, code in codes.items()]


def _arms(name: str, text: str, method: str, value: str) -> dict[str, str]:
    """What a method answers for each variant."""
    begin = text.index(f"pub fn {method}(&self)", text.index(f"impl {name} {{"))
    block = text[begin : text.index("\n    }\n", begin)]
    if (only := re.fullmatch(rf"[^{{]*\{{\s*{value}", block)) is not None:
        return defaultdict(lambda: only.group(1))  # one answer for all
    answers: dict[str, str] = {}
    waiting: list[str] = []
    for variant, answer, _ in re.findall(rf"{name}::(\w+)|{value}|(error\.{method}\(\))", block):
        if variant:
            waiting.append(variant)
            continue
        if answer:  # what another module found answers for itself
            answers |= dict.fromkeys(waiting, answer)
        waiting = []
    return answers


def _edge(text: str) -> list[tuple[str, str, str]]:
    rows, why = [], ""
    for docs, code, kind in re.findall(r'((?:^    ///.*\n)+)    \w+ "(\w+)" (\w+);', text, re.M):
        sentence = _sentence(docs)
        why = why if sentence == "As above." else sentence
        rows.append((code, _CLASSES[kind], why))
    return rows


def _python(text: str) -> list[tuple[str, str, str]]:
    calls = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.value.args) == 3
    )
    rows = []
    for call in calls:
        code, exception, why = call.args
        assert isinstance(code, ast.Constant), "a code is a string"
        assert isinstance(exception, ast.Name), "a class is a name"
        assert isinstance(why, ast.Constant), "a reason is a string"
        rows.append((str(code.value), exception.id, str(why.value)))
    return rows


def _sentence(docs: str) -> str:
    """The text of a doc comment on one line, without links."""
    text = " ".join(line.strip().removeprefix("///").strip() for line in docs.strip().splitlines())
    return re.sub(r"\[`(?:\w+::)*(\w+)`\]", r"`\1`", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE} is stale: run tools/errors_doc.py")
    PAGE.write_text(page())
