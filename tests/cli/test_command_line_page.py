"""The page on the command line: its commands run, and print what it shows but for the numbers."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pypto.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
TEXT = PAGE.read_text()
(FILE,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
SHOWN = re.findall(r"^\$ pypto (.*)\n((?:(?!\$ |```).*\n)*)", TEXT, re.M)
WIDTH = "110"


def printed(command: str, directory: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("COLUMNS", WIDTH)
        patch.setenv("PYPTO_PROG_BUILD_DIR", "build")
        output = CliRunner().invoke(app, command.split()).output
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def without_numbers(text: str) -> str:
    """What stays from run to run and machine to machine: no numbers, no widths, no verdict."""
    text = re.sub(r"[\s─━┳┡╇┩│┃┏┓└┘┴┬┌┐├┤╭╮╰╯]+", " ", text)
    text = re.sub(r"\S*…", "…", text)
    text = re.sub(r"\d+(?:[\d.,]*\d)?", "N", text)
    # A launch that was interrupted is so long that the head of a column needs two lines.
    text = re.sub(r"\bN % of us (.+?) median outliers", r"us \1 N % of median outliers", text)
    text = re.sub(r"\b(avxN|generic), N thread", "ISA, N thread", text)
    text = re.sub(
        r"\b(host-bound|device-bound|balanced): the device works.*?(?=scale against|old\.json: N|$)", "V ", text
    )
    return re.sub(r"baseline: (faster|slower|same)", "baseline: W", text).strip()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page")
    (path / "kernels.py").write_text(FILE)
    return path


def test_the_commands_print_what_the_page_shows(directory: Path) -> None:
    assert len(SHOWN) == 11
    for command, output in SHOWN:
        assert without_numbers(printed(command, directory)) == without_numbers(output), command


def test_the_table_lists_the_commands() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", TEXT.split("## Which")[0], re.M)
    assert rows == [command.callback.__name__ for command in app.registered_commands if command.callback]


if __name__ == "__main__":  # python tests/cli/test_command_line_page.py: writes the outputs into the page
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        Path(name, "kernels.py").write_text(FILE)
        for command, output in SHOWN:
            TEXT = TEXT.replace(f"$ pypto {command}\n{output}", f"$ pypto {command}\n{printed(command, Path(name))}", 1)
    PAGE.write_text(TEXT)
