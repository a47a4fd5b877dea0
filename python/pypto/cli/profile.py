"""`pypto profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from pypto.cli.load import load
from pypto.cli.session import Request, compile_for, host_arguments
from pypto.runtime.profiling import Profile, profile


@dataclass(frozen=True)
class View:
    """A profile as a table, and where its plot is."""

    profile: Profile
    roofline: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return self.profile.to_dict()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, and where the plot is."""
        yield self.profile
        if self.roofline is not None:
            yield f"roofline in {self.roofline}"


def profile_kernel(request: Request, launches: int, fresh_peaks: bool = False) -> Profile:
    """Profiles a kernel with the arguments that the command line gives; all of them are resident, as in `profile()`."""
    kernel = load(request.target)
    args = list(host_arguments(kernel, request).values())
    compiled = compile_for(kernel, args)
    return profile(compiled, *args, launches=launches, cores=request.cores or 1, fresh_peaks=fresh_peaks)
