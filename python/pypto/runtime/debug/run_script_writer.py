"""Writes `debug/run.py` into a compiled directory, as compiling does unless `PYPTO_EMIT_DEBUG_RUNNER` is off."""

from __future__ import annotations

from pypto.ir.run_script import write_run_script

__all__ = ["write_run_script"]
