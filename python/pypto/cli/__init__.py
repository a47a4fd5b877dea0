"""The command `pypto`: run, measure, trace and inspect the kernels of a file."""

from pypto.cli.app import app, main

__all__ = ["app", "main"]
