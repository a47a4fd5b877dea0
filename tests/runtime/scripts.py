"""Runs a script in a process of its own: for what ends or forks the process."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).parent

PREAMBLE = """
import os, signal, sys, threading, time
import torch
import core_programs as core
from pypto import _pypto
from pypto.runtime import ChipWorker, RunConfig

# Whoever runs the tests in the background of a shell passes an ignored SIGINT on to them.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt_after(seconds):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

def registered(device, program):
    return device.register(program, owner=None, compiled=None, output_indices=[], has_return=False)

small = [torch.randn(1, 16), torch.randn(1, 16), torch.empty(1, 16)]
FOREVER = 2**62
"""


def run_script(script: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PREAMBLE) + textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def output_of(script: str, timeout: float = 60) -> str:
    done = run_script(script, timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
