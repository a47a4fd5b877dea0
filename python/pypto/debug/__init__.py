"""Tools for looking at programs. The names exist, and say that this version has none of them."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto import failures


def torch_codegen(*args: Any, **kwargs: Any) -> NoReturn:
    """The program as torch code: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """
    raise failures.NOT_SUPPORTED(
        "pypto.debug.torch_codegen is not supported in this version: run it on the simulated chip"
    )


__all__ = ["torch_codegen"]
