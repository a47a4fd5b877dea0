"""What a page of the documentation promises, read from its Markdown.

A fence is one of these; `test_pages.py` runs them all:

- `python`: a part of the page's program. The parts run from top to bottom as one file.
- `python title="NAME"`: a file beside it. Blocks of one title follow each other in it.
- `text`: what the program prints there. A line `...` stands for any lines.
- `console`: commands behind `$ `, each with what it prints.
- `sh`: commands that must end well.
- no language: a drawing.

An HTML comment, which no reader sees, may stand before a fence: `<!-- not run: WHY -->`, or `<!-- measured -->` where
numbers differ from run to run. `<!-- python` ... `-->` are lines of the program that the page does not show.

`rewrite.py` puts what is printed now in the place of what a page shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<mark>measured|not run: [^>]+) -->\n+)?"
    r"^```(?P<info>.*)\n(?P<body>(?:.*\n)*?)```$"
    r"|^<!-- python\n(?P<hidden>(?:.*\n)*?)-->$",
    re.M,
)
_TITLE: Final = re.compile(r'python title="([\w.]+)"')
# A verdict is a sentence, and advice where there is any; the numbers are N by then.
_VERDICT: Final = re.compile(
    r"(?:host-bound|device-bound|balanced): the device works [^.]*\."
    r"(?: '\w+' of '\w+' was .*?# once; (?:then )?pass it every time(?:, and read it with \w+\.to_host\(\))?)?"
)
_LANGUAGES: Final = {"python", "text", "console", "sh", ""}


@dataclass
class Command:
    """A command and what the page says that it prints; `None` where the page shows nothing and it must end well."""

    text: str
    shown: str | None
    measured: bool


@dataclass
class Page:
    """What is on a page."""

    path: Path
    program: str
    """Each line where it stands on the page, so that the line of an error is the line of the page."""
    printed: list[tuple[str, bool]] = field(default_factory=list)
    """What the program prints, in order, and whether it is measured."""
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Why blocks are not run."""


def read(path: Path) -> Page:
    """The blocks of a page. Refuses a fence that is none of those above."""
    text = path.read_text()
    assert not re.search(r"^ +```", text, re.M), f"{path.name}: an indented fence, which nothing runs"
    lines = [""] * text.count("\n")
    page = Page(path, "")
    for block in _BLOCK.finditer(text):
        mark, info = block["mark"] or "", (block["info"] or "").strip()
        title = _TITLE.fullmatch(info)
        where = f"{path.name}:{text.count(chr(10), 0, block.start()) + 1}"
        assert title or info in _LANGUAGES, f"{where}: a fence of {info!r}, which nothing runs"
        if mark.startswith("not run"):
            page.left_out.append(f"{where}: {mark}")
        elif title:
            page.files[title[1]] = page.files.get(title[1], "") + block["body"]
        elif block["hidden"] or info == "python":
            group = "hidden" if block["hidden"] else "body"
            first = text.count("\n", 0, block.start(group))
            body = block[group].splitlines()
            lines[first : first + len(body)] = body
        elif info == "text":
            page.printed.append((block["body"], bool(mark)))
        elif info == "console":
            page.commands += _shown(block["body"], bool(mark))
        elif info == "sh":
            page.commands += [Command(line, None, False) for line in _command_lines(block["body"])]
    if any(lines):
        page.program = "\n".join(lines) + "\n"
    assert page.program or not page.printed, f"{path.name} shows what a program prints, and has none"
    return page


def _shown(body: str, measured: bool) -> Iterator[Command]:
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.M):
        yield Command(command, shown or None, measured)


def _command_lines(body: str) -> list[str]:
    """A command may go on behind a backslash; comments are none."""
    lines = re.sub(r"\\\n\s*", "", body).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def agrees(shown: str, printed: str, measured: bool) -> bool:
    """Whether that is what was printed. `...` on a line of its own stands for any lines."""
    return re.fullmatch(_pattern(shown, measured), _comparable(printed, measured)) is not None


def after(shown: str, printed: str, measured: bool) -> str | None:
    """What was printed behind what is shown; `None` if it was not printed."""
    printed = _comparable(printed, measured)
    found = re.search(rf"(?:^|(?<=\s)){_pattern(shown, measured)}", printed)
    return None if found is None else printed[found.end() :]


def _pattern(shown: str, measured: bool) -> str:
    parts = [_comparable(part, measured) for part in re.split(r"^\.\.\.\n", shown, flags=re.M)]
    return r"[\s\S]*?".join(re.escape(part) for part in parts)


def _comparable(text: str, measured: bool) -> str:
    """What must be equal. Of what is measured, numbers, widths, line ends and verdicts differ from run to run."""
    text = "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
    if not measured:
        return text
    text = re.sub(r"(?:^┃.*\n)+", lambda head: _columns(head[0]), text, flags=re.M)
    text = re.sub(r"[\s─━┳┡╇┩│┃┏┓└┘┴┬┌┐├┤╭╮╰╯]+", " ", text)
    text = re.sub(r"\d+(?:[\d.,]*\d)?", "N", text)
    text = _VERDICT.sub("VERDICT", text)
    return re.sub(r"baseline: (faster|slower|same)", "baseline: VERDICT", text).strip()


def _columns(head: str) -> str:
    """The head of a table, where a wide number made titles wrap."""
    cells = zip(*(line.strip("┃").split("┃") for line in head.splitlines()), strict=True)
    return " ".join(" ".join(column) for column in cells) + "\n"
