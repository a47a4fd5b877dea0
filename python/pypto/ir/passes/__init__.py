"""Passes: from the program that was written to one that the device's core can take."""

from __future__ import annotations

from pypto.ir.passes.entry import wrap_kernel_entry
from pypto.ir.passes.on_chip import check_on_chip
from pypto.ir.passes.outline import outline
from pypto.ir.passes.outputs import check_outputs
from pypto.ir.passes.phases import split_phases

__all__ = ["check_on_chip", "check_outputs", "outline", "split_phases", "wrap_kernel_entry"]
