"""Where the time of a launch goes, and what the machine can do."""

from typing import Any

from pypto._native.launch import RegistrationHandle

def take_profile(handle: RegistrationHandle) -> dict[str, Any] | None:
    """The steps of the last launch with their times, as plain data; None where its worker observes no profile."""

def take_tasks(handle: RegistrationHandle) -> list[dict[str, Any]] | None:
    """The tasks of the last launch and what they waited for; None where its worker observes no tasks."""

def measure_peaks(threads: int) -> dict[str, Any]:
    """What that many threads of this machine can do, measured now: bytes and operations in a second."""

def instruction_set() -> str:
    """The instruction set that kernels use: `avx512`, `avx2` or `generic`."""
