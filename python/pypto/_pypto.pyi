"""The Rust extension module: device memory, launches, tracing, and the simulated chip.

`pypto.runtime` is the interface for users; what is documented there is not repeated here. The types are in `_native`,
one file for each part.
"""

from pypto._native.launch import BoundLaunch, Program, QueuedLaunch, RegistrationHandle, check_arguments
from pypto._native.memory import MemoryReport, MemoryScope
from pypto._native.profile import instruction_set, measure_peaks, take_profile, take_tasks
from pypto._native.tensor import Buffer, DeviceTensor
from pypto._native.trace import Recording, TraceFile, mirror_trace, trace_available
from pypto._native.trace import _Span as _Span
from pypto._native.worker import Worker

__all__ = [
    "MAX_CORES",
    "BoundLaunch",
    "Buffer",
    "DeviceTensor",
    "MemoryReport",
    "MemoryScope",
    "Program",
    "QueuedLaunch",
    "Recording",
    "RegistrationHandle",
    "TraceFile",
    "Worker",
    "__version__",
    "check_arguments",
    "instruction_set",
    "measure_peaks",
    "mirror_trace",
    "take_profile",
    "take_tasks",
    "trace_available",
]

__version__: str
MAX_CORES: int
"""The most cores that a simulated chip can have."""
