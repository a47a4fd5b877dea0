"""What is done and undone again and again leaves nothing behind: no live byte on the device, no larger process."""

import sys

import pytest
from scripts import output_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the process from /proc")

MIB = 1 << 20

SCRIPT = """
import gc, resource
import sample_kernels

compiled = sample_kernels.compile_add(16, 16)
a, b, c = (torch.ones(16, 16) for _ in range(3))
worker = ChipWorker(RunConfig(device_memory=1 << 20, queue_depth=8))
handle = worker.register(compiled)
resident = worker.alloc_tensor((16, 16), torch.float32, init=a)

def allocate():
    worker.free_tensor(worker.alloc_tensor((16, 16), torch.float32))

def upload():
    worker.free_tensor(worker.alloc_tensor((16, 16), torch.float32, init=a))

def malloc():
    worker.free(worker.malloc(1000))

def register():
    mine = worker.register(compiled)
    mine(a, b, c)
    mine.unregister()

def bind():
    bound = handle.bind(resident, b, c)
    bound()
    bound.update(a=a)
    bound()

def submit():
    handle.submit(resident, b).result()

def refuse():
    try:
        handle(a, b, a)
    except ValueError:
        pass

def reopen():
    with ChipWorker(RunConfig(device_memory=1 << 20, device_id=1)) as other:
        other.alloc_tensor((16, 16), torch.float32)
        other.register(compiled).submit(a, b)

def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def run(step, times):
    for _ in range(times):
        step()

import logging
logging.disable()  # `reopen` forgets a tensor, and close says so each time
step, times = {step}, {times}
run(step, max(times // 5, 200))
before, live, kept = resident_bytes(), worker.memory_stats()["live"], handle.cid
run(step, times)
print(resident_bytes() - before, worker.memory_stats()["live"] - live, worker.register(compiled).cid - kept)
worker.free_tensor(resident)
print(worker.memory_stats()["live"], worker.counters()["registrations"])
worker.close()
"""


def grown(step: str, times: int) -> int:
    """By how many bytes a process is larger after `times` more of them."""
    script = SCRIPT.replace("{step}", step).replace("{times}", str(times))
    first, second = output_of(script, timeout=600).splitlines()
    growth, live, registered = map(int, first.split())
    assert (live, registered) == (0, 0)
    assert second == "0 1"
    return growth


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("allocate", 50_000),
        ("upload", 20_000),
        ("malloc", 50_000),
        ("register", 10_000),
        ("bind", 10_000),
        ("submit", 10_000),
        ("refuse", 10_000),
        ("reopen", 200),
    ],
)
def test_what_is_undone_leaves_nothing_behind(step: str, times: int) -> None:
    # The allocators of Python and of libc move by less than this from one look to the next. A leak of the smallest
    # object (an `Arc` with its block, 48 bytes) shows in the long runs, one of a tensor or a binding (1 KiB) in all of
    # 10,000; a worker that stays has threads with their stacks.
    assert grown(step, times) < 2 * MIB


@pytest.mark.heavy
@pytest.mark.parametrize("step", ["allocate", "upload", "malloc"])
def test_a_million_allocations_leave_nothing_behind(step: str) -> None:
    assert grown(step, 1_000_000) < 2 * MIB, "not even three bytes for each"
