"""What a user waits for before the first number: importing, then the way from kernel source to a result."""

from __future__ import annotations

from pathlib import Path

from measure import Result, median_of_processes

IMPORT = """
import time
begin = time.perf_counter()
import pypto
print(time.perf_counter() - begin)
import sys
assert "torch" not in sys.modules
"""

# The kernel's file is compiled and run by Python inside the measured time, like everything that follows from it: the
# frontend, the registration, opening the device, the first launch. Imports and torch's own first softmax are not.
FIRST_RESULT = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch
import pypto.frontend, pypto.language, pypto.ir, pypto.runtime
x, out = torch.randn(128, 128), torch.empty(128, 128)
wanted = torch.softmax(x, -1)
begin = time.perf_counter()
import row_kernels
row_kernels.softmax(x, out)
print((time.perf_counter() - begin) * 1e3)
torch.testing.assert_close(out, wanted)
"""


def results() -> list[Result]:
    """Each in new processes."""
    return [
        Result("import pypto, without torch", median_of_processes(IMPORT), 0.15, "s"),
        Result("kernel source to first result, softmax of 128x128", median_of_processes(FIRST_RESULT), 10.0, "ms"),
    ]
