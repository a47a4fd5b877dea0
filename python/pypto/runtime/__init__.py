"""Runs compiled programs: workers, device memory, launches, measurements.

```python
cfg = RunConfig(platform="a2a3sim")
compiled = ir.compile(MyKernel, platform=cfg.platform)
with ChipWorker(config=cfg) as w:
    weight = w.alloc_tensor((1024, 4096), torch.float16, init=host_weight)
    for batch in batches:
        out = torch.empty(batch.shape[0], 4096, dtype=torch.float16)
        compiled(batch, weight, out)  # the weight stays where it is
    w.free_tensor(weight)
```

Errors are builtin exceptions (`TypeError`, `ValueError`, `RuntimeError`, `OverflowError`) whose text says what to do;
those of the device and its memory have a stable name in their attribute `code`. Where device memory runs out it is a
`pypto.OutOfMemoryError`, which is both a `MemoryError` and a `RuntimeError`.
"""

from __future__ import annotations

from pypto._pypto import BoundLaunch, MemoryReport, MemoryScope, RegistrationHandle
from pypto.runtime.advice import Advice
from pypto.runtime.bench import BenchmarkStats, benchmark
from pypto.runtime.device_tensor import DeviceTensor
from pypto.runtime.futures import LaunchFuture
from pypto.runtime.golden import validate_golden
from pypto.runtime.log_config import apply_environment, configure_log
from pypto.runtime.log_config import current_level as log_level
from pypto.runtime.profiling import Peaks, Profile, peaks, profile, task_graph
from pypto.runtime.run_config import RunConfig
from pypto.runtime.runner import RunResult, compile_program, execute_compiled, run
from pypto.runtime.runtime_base import Worker
from pypto.runtime.sanitizers import SanitizerError
from pypto.runtime.spans import TraceInvocation, TraceSpan
from pypto.runtime.stacked_tensor import StackedDeviceTensor
from pypto.runtime.tensor_spec import ScalarSpec, TensorSpec
from pypto.runtime.unsupported import (
    DistributedRunHandle,
    DistributedWorker,
    ensure_pto_isa_root,
    execute_distributed_compiled,
    pto_isa_include_dir,
)
from pypto.runtime.worker import ChipWorker

__all__ = [
    "Advice",
    "BenchmarkStats",
    "BoundLaunch",
    "ChipWorker",
    "DeviceTensor",
    "DistributedRunHandle",
    "DistributedWorker",
    "LaunchFuture",
    "MemoryReport",
    "MemoryScope",
    "Peaks",
    "Profile",
    "RegistrationHandle",
    "RunConfig",
    "RunResult",
    "SanitizerError",
    "ScalarSpec",
    "StackedDeviceTensor",
    "TensorSpec",
    "TraceInvocation",
    "TraceSpan",
    "Worker",
    "benchmark",
    "compile_program",
    "configure_log",
    "ensure_pto_isa_root",
    "execute_compiled",
    "execute_distributed_compiled",
    "log_level",
    "peaks",
    "profile",
    "pto_isa_include_dir",
    "run",
    "task_graph",
    "validate_golden",
]

apply_environment()
