"""`DeviceTensor`: a typed view of memory that stays on a device.

The class is the extension's own: a launch reads it without looking up an attribute.
"""

from __future__ import annotations

from pypto._pypto import DeviceTensor
from pypto.runtime.stacked_tensor import StackedDeviceTensor

__all__ = ["DeviceTensor", "StackedDeviceTensor"]
