"""A machine of one CPU: many workers in threads, long launches, and an idle process that rests."""

import os
import subprocess
import sys

SCRIPT = """
import os
os.sched_setaffinity(0, {next(iter(os.sched_getaffinity(0)))})

import threading, time
import torch
torch.set_num_threads(1)
import sample_kernels
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

program = sample_kernels.compile_add()
wrong = []

def use_a_worker(seed):
    generator = torch.Generator().manual_seed(seed)
    with ChipWorker(config=RunConfig()) as w:
        handle = w.register(program)
        for _ in range(20):
            a, b = (torch.randn(128, 128, generator=generator) for _ in range(2))
            c = torch.empty(128, 128)
            handle(a, b, c)
            if not torch.equal(c, a + b):
                wrong.append(seed)

threads = [threading.Thread(target=use_a_worker, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
print("threads")

# Small integers: every partial sum is exact in FP32, so the long sum is too.
long = ir.compile(sample_kernels.RepeatedMatmul, platform="a2a3sim")
a = torch.eye(128)
b = torch.randint(0, 8, (128, 128), generator=torch.Generator().manual_seed(0)).float()
out = torch.empty(128, 128)
with ChipWorker(config=RunConfig()) as w:
    n, seconds = 512, 0.0
    while seconds <= 1.0:
        n *= 2
        assert 7 * n < 2**24, "this processor is too fast for sums that stay exact"
        begin = time.perf_counter()
        w.run(long, a, b, out, n)
        seconds = time.perf_counter() - begin
        assert torch.equal(out, n * b)
    print("long")

    begin = time.process_time()
    time.sleep(2)
    assert time.process_time() - begin < 0.05 * 2, time.process_time() - begin
    print("idle")
"""


def test_eight_workers_a_long_launch_and_rest_on_one_cpu() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["threads", "long", "idle"]
