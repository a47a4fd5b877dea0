"""Puts what commands and programs print now in the place of what pages show, where the two do not agree.

`python tests/docs/rewrite.py [docs/PAGE.md...]`; all pages if none is named. Read the difference before you keep it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pages
import running


def rewrite(path: Path) -> None:
    """Runs the commands of one page and replaces outputs that differ."""
    page = pages.read(path)
    text = path.read_text()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        running.prepare(page, directory)
        if page.program:
            print(running.program(page, directory)[1])
        for command in page.commands:
            _, printed = running.command(command.text, directory)
            if command.shown is not None and not pages.agrees(command.shown, printed, command.measured):
                new = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
                text = text.replace(f"$ {command.text}\n{command.shown}", f"$ {command.text}\n{new}", 1)
    path.write_text(text)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]) if sys.argv[1:] else pages.PAGES:
        rewrite(page.resolve())
