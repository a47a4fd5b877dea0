"""Runs compiled programs: workers, device memory, launches, measurements.

```python
cfg = RunConfig(platform="a2a3sim")
with ChipWorker(config=cfg) as w:
    weight = w.alloc_tensor((1024, 4096), torch.float16, init=host_weight)
    compiled(batch, weight, out)
    w.free_tensor(weight)
```
"""

from __future__ import annotations

from pypto._pypto import RegistrationHandle
from pypto.runtime.bench import BenchmarkStats, benchmark
from pypto.runtime.device_tensor import DeviceTensor
from pypto.runtime.log_config import apply_environment, configure_log
from pypto.runtime.log_config import current_level as log_level
from pypto.runtime.run_config import RunConfig
from pypto.runtime.runtime_base import Worker
from pypto.runtime.spans import TraceInvocation, TraceSpan
from pypto.runtime.tensor_spec import ScalarSpec, TensorSpec
from pypto.runtime.worker import ChipWorker

apply_environment()
