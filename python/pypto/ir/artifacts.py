"""What a compiled program leaves on disk, and how it is read back."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from pypto import failures
from pypto.ir.platforms import PLATFORMS
from pypto.language import dtypes

SIDECAR: Final = "compiled_meta.json"
PROGRAM: Final = "program.json"
ENTRIES: Final = "entries.json"
DISTRIBUTED: Final = "distributed_meta.json"
SCHEMA: Final = 1

_FIELDS: Final = {"name": str, "direction": str, "shape": list, "dtype": str}


def write_json(path: Path, value: Any) -> None:
    """Writes a file so that a reader sees the old content or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(value, separators=(",", ":")))  # json.dump takes the slow, pure Python way
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_other_kinds(directory: Path, kind: str) -> None:
    """Removes what says that a directory holds another kind of program than the one that is compiled into it."""
    for other in (SIDECAR, ENTRIES, DISTRIBUTED):
        if other != kind:
            (directory / other).unlink(missing_ok=True)


def read_sidecar(directory: Path) -> dict[str, Any]:
    """The metadata of a compiled directory.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is malformed; the text names the file and what to do.
    """
    path = directory / SIDECAR
    if not path.is_file():
        raise failures.ARTIFACT_MISSING(
            f"{path} does not exist: {directory} holds no compiled program. "
            "Compile one into it with ir.compile(program, output_dir=...)"
        )
    try:
        meta = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _malformed(path, f"is not JSON ({error})") from None
    if not isinstance(meta, dict) or type(meta.get("schema")) is not int or meta["schema"] != SCHEMA:
        raise _malformed(path, f"has another schema than {SCHEMA}")
    if not isinstance(meta.get("params"), list):
        raise _malformed(path, "has no proper 'params'")
    if type(meta.get("num_return_types")) is not int or meta["num_return_types"] < 0:
        raise _malformed(path, "has no proper 'num_return_types'")
    backend = PLATFORMS.get(str(meta.get("platform")))
    if backend is None:
        raise _malformed(path, f"has an unknown platform: {meta.get('platform')!r}")
    if meta.get("backend_type") != backend.value:
        raise _malformed(
            path, f"has backend_type {meta.get('backend_type')!r}, and {meta['platform']!r} is {backend.value!r}"
        )
    seen: set[str] = set()
    for param in meta["params"]:
        if not isinstance(param, dict) or any(
            not isinstance(param.get(field), kind) for field, kind in _FIELDS.items() if field != "shape"
        ):
            raise _malformed(path, f"describes a parameter badly: {param!r}")
        if not param["name"] or param["name"] in seen:
            raise _malformed(path, f"has a name that is empty or there twice: {param['name']!r}")
        seen.add(param["name"])
        if "shape" not in param:  # that of a scalar is null
            raise _malformed(path, f"has no shape for {param['name']!r}")
        shape = param["shape"]
        if shape is not None and (
            not isinstance(shape, list) or any(type(dim) is not int or dim < -1 for dim in shape)
        ):
            raise _malformed(path, f"has a bad shape for {param['name']!r}: {shape!r}")
        if param["dtype"] not in (dtype.name for dtype in dtypes.ALL):
            raise _malformed(path, f"has an unknown dtype for {param['name']!r}: {param['dtype']!r}")
        if type(param.get("dump_tag", False)) is not bool:
            raise _malformed(path, f"has a bad dump_tag for {param['name']!r}: {param['dump_tag']!r}")
        if param["direction"] not in ("In", "Out", "InOut"):
            raise _malformed(path, f"has a bad direction for {param['name']!r}: {param['direction']!r}")
    return meta


def read_entries(directory: Path) -> list[str]:
    """Names of the entries of a program that has several (each a directory below); empty for all others."""
    path = directory / ENTRIES
    if not path.is_file():
        return []
    try:
        names = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _malformed(path, f"is not JSON ({error})") from None
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise _malformed(path, "is no list of names")
    return names


def read_program(directory: Path) -> dict[str, Any]:
    """The core program of a compiled directory."""
    path = directory / PROGRAM
    if not path.is_file():
        raise failures.ARTIFACT_MISSING(
            f"{path} does not exist, the directory is incomplete. Recompile with ir.compile(program, output_dir=...)"
        )
    try:
        program = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _malformed(path, f"is not JSON ({error})") from None
    if not isinstance(program, dict):
        raise _malformed(path, "is not an object")
    return program


def _malformed(path: Path, what: str) -> Exception:
    return failures.ARTIFACT_MALFORMED(
        f"{path} {what}. Recompile with ir.compile(), as in ir.compile(program, output_dir={str(path.parent)!r})"
    )
