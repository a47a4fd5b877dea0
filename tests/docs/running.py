"""Runs what stands on a page: its files, its program and its commands, all in one directory."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from pages import ROOT, Page

_SECONDS = 300
_FORKS = multiprocessing.get_context("forkserver")
# Importing torch takes seconds, and a page has up to a dozen commands: each is a fork of a process that did it.
_FORKS.set_forkserver_preload(["torch", "pypto.cli", "pypto.runtime", "pypto.frontend"])


def prepare(page: Page, directory: Path) -> None:
    """Writes the files of a page. What it says about examples is found where the repository has them."""
    for name, text in page.files.items():
        (directory / name).write_text(text)
    (directory / "examples").symlink_to(ROOT / "examples")


def program(page: Page, directory: Path) -> tuple[int, str]:
    """Runs the program of a page, warnings being errors. How it ended, and what it printed."""
    path = directory / f"{page.path.stem.lower()}.py"
    path.write_text(page.program)
    return _forked(["python", path.name], directory)


def command(text: str, directory: Path) -> tuple[int, str]:
    """Runs a command, with bash unless it is plainly one of the three that need torch."""
    words = shlex.split(text, comments=True)
    variables = dict(word.split("=", 1) for word in itertools.takewhile(lambda word: re.match(r"\w+=", word), words))
    words = words[len(variables) :]
    if words[0] in ("python", "pypto", "pytest") and not any(sign in text for sign in "|><&;$"):
        return _forked(words, directory, variables)
    done = subprocess.run(
        ["bash", "-ec", text],
        cwd=directory,
        env=os.environ | _environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, _here(done.stdout, directory)


def _environment() -> dict[str, str]:
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"COLUMNS": "110", "PYPTO_PROG_BUILD_DIR": "build_output", "PATH": beside}


def _here(text: str, directory: Path) -> str:
    """Paths as somebody sees them who works in the directory."""
    return text.replace(f"{directory}/", "")


def _forked(words: list[str], directory: Path, variables: dict[str, str] | None = None) -> tuple[int, str]:
    output = directory / ".output"
    process = _FORKS.Process(target=_child, args=(words, directory, variables or {}, output))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode or 0, _here(output.read_text(), directory)


def _child(words: list[str], directory: Path, variables: dict[str, str], output: Path) -> None:
    """What the fork does."""
    os.chdir(directory)
    os.environ |= _environment() | variables
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    name, *arguments = words
    if name == "pypto":
        from pypto.cli import main as run
    elif name == "pytest":
        run = _pytest
    else:
        run = _python
    sys.argv = [name, *arguments]
    code: Any = 1
    try:
        code = run()
    except SystemExit as error:
        code = error.code
    sys.exit(code)


def _pytest() -> int:
    import pytest

    return pytest.main([*sys.argv[1:], "-p", "no:cacheprovider", "-p", "no:hypothesispytest"])


def _python() -> None:
    sys.argv = sys.argv[1:]
    warnings.simplefilter("error")
    sys.path[0:0] = [str(Path(sys.argv[0]).resolve().parent)]
    with contextlib.redirect_stderr(sys.stdout):
        runpy.run_path(sys.argv[0], run_name="__main__")
