"""The Rust extension module."""

from typing import Any, final

__version__: str

@final
class Program:
    """A verified program, as the runtime keeps it."""

    def __new__(cls, data: dict[str, Any]) -> Program:
        """Reads and verifies plain program data.

        Raises:
            ValueError: The data is malformed, or breaks a rule of the program format.
        """

    @staticmethod
    def decode(data: bytes) -> Program:
        """Reads what `encode` wrote.

        Raises:
            ValueError: The bytes are not an encoded program, are damaged, or were written by another version.
        """

    def encode(self) -> bytes:
        """The program as bytes, for `decode`."""

    @property
    def name(self) -> str:
        """Name of the entry function."""
