"""Names of the public interface that build or rewrite programs by hand. They exist, and say so when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

_ADVICE: Final = "write the program with pypto.language, or as text for pypto.language.parse_program"


class Unsupported:
    """Something of `pypto.ir` that this version does not have. Calling it or reading an attribute raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self) -> NoReturn:
        raise NotImplementedError(f"pypto.ir.{self._name} is not supported in this version: {_ADVICE}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `NotImplementedError`."""
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # asked by copy, pickle, inspect: these must not see another error
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<pypto.ir.{self._name}: not supported in this version>"


NAMES: Final = (
    "ConversionContext",
    "IRBuilder",
    "IRMutator",
    "IRVisitor",
    "PassManager",
    "VerificationMode",
    "directions",
    "inout",
    "input",
    "make_call",
    "make_roundtrip_instrument",
    "no_dep",
    "op",
    "op_conversion",
    "output",
    "output_existing",
    "register_op_conversion",
    "scalar_dir",
)


def find(name: str, module: str = "pypto.ir") -> Callable[..., Any]:
    """What `pypto.ir.<name>` is; `AttributeError` of `module` for a name that does not exist at all."""
    if name in NAMES:
        return Unsupported(name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
