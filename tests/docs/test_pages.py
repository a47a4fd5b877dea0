"""Every block of code of every page runs, and prints what the page shows. `pages.py` says how blocks are read."""

from pathlib import Path

import pages
import pytest
import running

READ = {path.relative_to(pages.ROOT).as_posix(): pages.read(path) for path in pages.PAGES}
RUNNING = [name for name, page in READ.items() if page.program or page.commands]


@pytest.mark.parametrize("name", RUNNING)
def test_the_blocks_of_the_page_run_and_print_what_it_shows(name: str, tmp_path: Path) -> None:
    page = READ[name]
    running.prepare(page, tmp_path)
    if page.program:
        code, printed = running.program(page, tmp_path)
        assert code == 0, printed
        for shown, measured in page.printed:
            rest = pages.after(shown, printed, measured)
            assert rest is not None, f"{name} shows\n{shown}\nand its program printed\n{printed}"
            printed = rest
    for command in page.commands:
        code, printed = running.command(command.text, tmp_path)
        if command.shown is None:
            assert code == 0, f"{command.text}\n{printed}"
        else:
            assert pages.agrees(command.shown, printed, command.measured), f"$ {command.text}\n{printed}"


def test_what_is_not_run_is_rare() -> None:
    """Each is said with its reason; what is left are commands that set a machine up, or that run all of this."""
    left_out = [reason for page in READ.values() for reason in page.left_out]
    assert len(left_out) <= 8, "\n".join(left_out)


def test_lines_that_are_not_shown_agree_where_three_dots_stand_for_them() -> None:
    assert pages.agrees("a\n...\nd\n", "a\nb\nc\nd\n", measured=False)
    assert not pages.agrees("a\n...\nd\n", "a\nb\nc\n", measured=False)
    assert not pages.agrees("a\nd\n", "a\nb\nd\n", measured=False)


def test_numbers_agree_only_where_they_are_measured() -> None:
    assert pages.agrees("took 1.5 us, 7 times\n", "took 22.75 us, 8 times\n", measured=True)
    assert not pages.agrees("took 1.5 us\n", "took 1.6 us\n", measured=False)
    assert not pages.agrees("took 1.5 us\n", "took 1.5 ms\n", measured=True)


@pytest.mark.parametrize(
    "text", ["```json\n{}\n```\n", "  ```python\n  1\n  ```\n", "```text\nnobody prints it\n```\n"]
)
def test_a_block_that_nothing_would_run_is_refused(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=r"page\.md.* (which nothing runs|and has none)"):
        pages.read(page)
