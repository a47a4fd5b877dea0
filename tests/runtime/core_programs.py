"""Programs as the extension takes them, written by hand: tests of the launch path need no frontend for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto import _pypto

Register = Callable[..., _pypto.RegistrationHandle]
"""What the fixture `register` gives."""


def tensor(name: str, direction: str, dims: Sequence[int | str], dtype: str = "FP32") -> dict[str, Any]:
    """A tensor parameter; a string among `dims` is the index of a symbol in text form."""
    extents = [{"Symbol": int(dim)} if isinstance(dim, str) else {"Const": dim} for dim in dims]
    return {"name": name, "kind": {"Tensor": {"dtype": dtype, "dims": extents, "direction": direction}}}


def scalar(name: str, dtype: str, *, baked: dict[str, Any] | None = None) -> dict[str, Any]:
    """A scalar parameter; `baked` as `{"Int": 3}`."""
    return {"name": name, "kind": {"Scalar": {"dtype": dtype, "baked": baked}}}


def program(
    name: str,
    params: list[dict[str, Any]],
    *,
    body: Sequence[dict[str, Any]] = (),
    kernels: Sequence[dict[str, Any]] = (),
    symbols: Sequence[str] = (),
    scalars: Sequence[str] = (),
) -> _pypto.Program:
    """A program whose entry has one slot for each parameter, then `scalars`."""
    slots: dict[str, list[Any]] = {"params": [], "scalars": [], "tensors": []}
    for param in params:
        kind = param["kind"]
        if "Tensor" in kind:
            slots["params"].append(
                {"Tensor": {"slot": len(slots["tensors"]), "direction": kind["Tensor"]["direction"]}}
            )
            slots["tensors"].append({"dtype": kind["Tensor"]["dtype"], "rank": len(kind["Tensor"]["dims"])})
        else:
            dtype = kind["Scalar"]["dtype"]
            slots["params"].append({"Scalar": len(slots["scalars"])})
            slots["scalars"].append("Bool" if dtype == "BOOL" else "Float" if dtype[0] in "FB" else "Int")
    slots["scalars"] += scalars
    return _pypto.Program(
        {
            "name": name,
            "files": ["core_programs.py"],
            "symbols": list(symbols),
            "params": params,
            "entry": {"name": name, "at": (0, 1, 0), **slots, "tiles": [], "body": list(body)},
            "kernels": list(kernels),
        }
    )


def statement(**kind: Any) -> dict[str, Any]:
    """A statement at some place."""
    return {"at": (0, 1, 0), "kind": kind}


def add_kernel(cols: int) -> dict[str, Any]:
    """`c[row] = a[row] + b[row]` for one row, which is the scalar argument."""

    def tile(op: str, out: int | None, args: list[dict[str, Any]]) -> dict[str, Any]:
        region = [{"Int": 1}, {"Int": cols}]
        return statement(Tile={"op": op, "out": out, "args": args, "region": region, "mode": None})

    box = [{"Scalar": {"Var": 0}}, {"Scalar": {"Int": 0}}, {"Scalar": {"Int": 1}}, {"Scalar": {"Int": cols}}]
    return {
        "name": "add_row",
        "at": (0, 1, 0),
        "params": [
            {"Tensor": {"slot": 0, "direction": "In"}},
            {"Tensor": {"slot": 1, "direction": "In"}},
            {"Tensor": {"slot": 2, "direction": "Out"}},
            {"Scalar": 0},
        ],
        "scalars": ["Int"],
        "tensors": [{"dtype": "FP32", "rank": 2}] * 3,
        "tiles": [{"dtype": "FP32", "rows": 1, "cols": cols}] * 3,
        "body": [
            tile("load", 0, [{"Tensor": 0}, *box]),
            tile("load", 1, [{"Tensor": 1}, *box]),
            tile("add", 2, [{"Tile": 0}, {"Tile": 1}]),
            tile("store", None, [{"Tile": 2}, {"Tensor": 2}, *box]),
        ],
    }


def launch_each(count: dict[str, Any], index: int) -> dict[str, Any]:
    """Launches kernel 0 on the tensor slots 0 to 2 for each number below `count`, which scalar slot `index` holds."""
    args = [{"Tensor": 0}, {"Tensor": 1}, {"Tensor": 2}, {"Scalar": {"Var": index}}]
    launch = statement(Launch={"kernel": 0, "args": args, "blocks": {"Int": 1}})
    loop = {"var": index, "start": {"Int": 0}, "stop": count, "step": {"Int": 1}, "parallel": False, "body": [launch]}
    return statement(For=loop)


def add(rows: int | str = 16, cols: int = 16, name: str = "add", symbols: Sequence[str] = ()) -> _pypto.Program:
    """`c = a + b`; as many rows as `a` has."""
    params = [tensor(n, d, (rows, cols)) for n, d in (("a", "In"), ("b", "In"), ("c", "Out"))]
    dim = statement(Dim={"dst": 1, "tensor": 0, "axis": 0})
    body = [dim, launch_each({"Var": 1}, 0)]
    return program(name, params, body=body, kernels=[add_kernel(cols)], symbols=symbols, scalars=["Int", "Int"])


def endless(name: str = "slow") -> _pypto.Program:
    """`c[0] = a[0] + b[0]`, again and again: about 10**12 times `n`."""
    params = [tensor(n, d, (1, 16)) for n, d in (("a", "In"), ("b", "In"), ("c", "Out"))]
    args = [{"Tensor": 0}, {"Tensor": 1}, {"Tensor": 2}, {"Scalar": {"Int": 0}}]
    launch = statement(Launch={"kernel": 0, "args": args, "blocks": {"Int": 1}})
    loop = {"var": 1, "start": {"Int": 0}, "stop": {"Var": 0}, "step": {"Int": 1}, "parallel": False, "body": [launch]}
    return program(
        name, [*params, scalar("n", "INT64")], body=[statement(For=loop)], kernels=[add_kernel(16)], scalars=["Int"]
    )
