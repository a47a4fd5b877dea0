"""The table of operations: what one row says, and how rows are found.

A row names the operation once and says how each namespace (`pl`, `pl.tensor`, `pl.tile`, ...) spells it. The stub
functions, the type checker, the printer and the documentation all read these rows. A row without a rule is a name that
exists and is refused with a clear error when a kernel uses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.language import dtypes, enums
from pypto.language.annotations import AUTO

NAMESPACES: Final = {
    "pl": "pypto.language",
    "tensor": "pypto.language.tensor",
    "tile": "pypto.language.tile",
    "system": "pypto.language.system",
    "array": "pypto.language.array",
    "prefetch": "pypto.language.prefetch",
    "pld": "pypto.language.distributed",
    "pld_system": "pypto.language.distributed.system",
    "pld_tensor": "pypto.language.distributed.tensor",
    "pld_tile": "pypto.language.distributed.tile",
}
"""Modules that hold operations, by the name that rows use."""

REQUIRED: Final = object()
"""Default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class OpParam:
    """One parameter of a form: its name, its default (`REQUIRED` if none) and whether it is keyword-only."""

    name: str
    default: Any
    keyword_only: bool

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is REQUIRED and not self.name.startswith("*")


class Form:
    """How one namespace spells an operation: a name and a signature. `params` are read from the text on first use."""

    __slots__ = ("_accepted", "_params", "name", "namespace", "op", "text")

    def __init__(self, op: Op, namespace: str, name: str, text: str) -> None:
        self.op = op
        self.namespace = namespace
        self.name = name
        self.text = text
        self._params: tuple[OpParam, ...] | None = None
        self._accepted: tuple[OpParam, ...] | None = None

    @property
    def spelling(self) -> str:
        """What an author types: `pl.add`, `pl.tile.adds`."""
        prefix = self.namespace.replace("_", ".")
        return f"{prefix}.{self.name}" if prefix.startswith("pl") else f"pl.{prefix}.{self.name}"

    @property
    def params(self) -> tuple[OpParam, ...]:
        """The parameters in order."""
        if self._params is None:
            self._params = tuple(_parse_signature(self.text))
        return self._params

    @property
    def accepted(self) -> tuple[OpParam, ...]:
        """The parameters that a call is matched to."""
        if self._accepted is None:
            self._accepted = tuple(_parse_signature(self.op.accepts)) if self.op.accepts else self.params
        return self._accepted


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `rule` names the type rule of the frontend (empty: not supported yet). `core` names the core operations that it may
    become. `lacks` names the feature that an unsupported operation belongs to. `accepts` is the signature that calls
    are matched to where the public one is `*args, **kwargs`.
    """

    name: str
    doc: str
    rule: str = ""
    core: tuple[str, ...] = ()
    lacks: str = ""
    accepts: str = ""
    forms: dict[str, Form] = field(default_factory=dict, compare=False)

    @property
    def supported(self) -> bool:
        """Whether kernels can use it today."""
        return bool(self.rule)

    @property
    def refusal(self) -> str:
        """Why a kernel cannot use it, as the end of a sentence that begins with its spelling."""
        return f"is not supported: this device has no {self.lacks}" if self.lacks else "is not supported yet"


class Rows:
    """The rows of one family, in order; families are modules of this package. `lacks`: what all of them belong to."""

    def __init__(self, lacks: str = "") -> None:
        self.ops: list[Op] = []
        self.lacks = lacks

    def __call__(
        self, name: str, doc: str, *, rule: str = "", core: str = "", lacks: str = "", accepts: str = "", **forms: str
    ) -> None:
        """Adds a row. Each form is a signature, or `name(signature)` where the namespace uses another name."""
        op = Op(name, doc, rule, tuple(core.split()), lacks or self.lacks, accepts)
        for namespace, text in forms.items():
            head, paren, rest = text.partition("(")
            spelled, signature = (head, rest.rstrip(")")) if paren else (name, text)
            op.forms[namespace] = Form(op, namespace, spelled, signature)
        self.ops.append(op)


def _parse_signature(text: str) -> Iterator[OpParam]:
    keyword_only = False
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        if part == "*":
            keyword_only = True
            continue
        name, equals, default = part.partition("=")
        yield OpParam(name, _default(default) if equals else REQUIRED, keyword_only or name.startswith("**"))


def _default(text: str) -> Any:
    owner, dot, member = text.partition(".")
    if dot and not owner.isdigit():
        return getattr(dtypes.DataType if owner == "DataType" else getattr(enums, owner), member)
    return AUTO if text == "AUTO" else ast.literal_eval(text)
