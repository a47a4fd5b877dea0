"""Code of the file that the command line names, and what happens where it fails."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pypto.cli.usage import UsageError
from pypto.ir.diagnostics import KernelError


class FileError(RuntimeError):
    """Code of the file failed, outside of its kernels. Ends the command with code 1."""


@contextmanager
def running(path: Path, doing: str) -> Iterator[None]:
    """Runs code of the file; what it raises becomes one line with the place in the file.

    A traceback would show the frames of this program, of which the file's author knows nothing, and end with the line
    that says what is wrong.

    Args:
        path: The file.
        doing: What the code is run for, after "while".

    Raises:
        FileError: The code raised something, or ended the process. Kernels that are refused have a text of their own.
    """
    try:
        yield
    except (UsageError, KernelError):
        raise
    except SyntaxError as error:
        shown = "".join(traceback.format_exception_only(error)).rstrip()
        raise FileError(f"{path} is no Python\n{shown}") from error
    except (Exception, SystemExit) as error:
        own = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename) == path.absolute()
        ]
        place = f"{path}:{own[-1]}" if own else str(path)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        advice = (
            'put what only a script does below `if __name__ == "__main__":`'
            if isinstance(error, SystemExit)
            else "mend that line, or what it calls"
        )
        raise FileError(f"{place}: {text}, while {doing}\n  help: {advice}") from error
