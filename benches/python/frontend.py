"""What the frontend costs: compiling a kernel of 100 lines, a layer of 1,000 lines, and calling a compiled function."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from measure import Result, paired

HIDDEN, ROWS, CHUNK = 512, 16, 64


def kernel_text(steps: int) -> str:
    """A kernel in the style of model kernels: a chunked loop over elementwise steps, `4 + 4 * steps` lines."""
    lines = ["@pl.jit", "def kernel(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):"]
    for step in range(steps):
        source = "x" if step == 0 else "out"
        lines += [
            f'    with pl.at(level=pl.Level.CORE_GROUP, name_hint="step_{step}"):',
            f"        for k in pl.range(0, {HIDDEN}, CHUNK):",
            f"            t = pl.cast({source}[:, k : k + CHUNK], pl.FP32)",
            "            out[:, k : k + CHUNK] = pl.add(pl.mul(t, w[:, k : k + CHUNK]), EPS)",
        ]
    return "\n".join([*lines, "    return out", ""])


def layer_text(functions: int) -> str:
    """A layer of `functions` inline functions of about 48 lines, each called once by the entry."""
    lines: list[str] = []
    for number in range(functions):
        lines += ["@pl.jit.inline", f"def block_{number}(x: pl.Tensor, w: pl.Tensor, out: pl.Tensor):"]
        lines += [f"    tmp_{number} = pl.create_tensor([ROWS, {HIDDEN}], pl.FP32)"]
        for step in range(5):
            source, target = ("x" if step == 0 else f"tmp_{number}"), ("out" if step == 4 else f"tmp_{number}")
            lines += [
                f"    for b in pl.spmd({HIDDEN} // CHUNK, name_hint='block_{number}_{step}'):",
                "        k = b * CHUNK",
                f"        acc = pl.cast({source}[:, k : k + CHUNK], pl.FP32)",
                "        for i in pl.range(4):",
                "            if i % 2 == 0:",
                "                acc = pl.mul(acc, w[:, k : k + CHUNK])",
                "            else:",
                "                acc = pl.add(acc, EPS)",
                f"        {target}[:, k : k + CHUNK] = pl.exp(pl.neg(acc))",
            ]
        lines += ["    return out", ""]
    lines += ["@pl.jit", "def kernel(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):"]
    lines += [f"    h = pl.create_tensor([ROWS, {HIDDEN}], pl.FP32)", "    h = block_0(x, w, h)"]
    lines += [f"    h = block_{number}(h, w, h)" for number in range(1, functions - 1)]
    lines += [f"    out = block_{functions - 1}(h, w, out)", "    return out", ""]
    return "\n".join(lines)


def module_of(text: str, directory: str, name: str) -> ModuleType:
    """The text as an imported module."""
    head = f"import pypto.language as pl\n\nCHUNK = {CHUNK}\nROWS = {ROWS}\nEPS = 1e-6\n\n\n"
    path = Path(directory) / f"{name}.py"
    path.write_text(head + text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file can be imported"
    assert spec.loader is not None, "a file can be imported"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors() -> tuple[Any, ...]:
    """Arguments of both kernels."""
    return torch.ones(ROWS, HIDDEN), torch.ones(ROWS, HIDDEN), torch.empty(ROWS, HIDDEN)


def first_compile(text: str, name: str, samples: int) -> float:
    """Milliseconds from a fresh module to a compiled program, artifacts on disk included: the least of several.

    Time of this process, so that others on the machine count less.
    """
    from pypto import ir

    times = []
    for sample in range(samples + 1):  # the first one imports what is imported lazily
        with tempfile.TemporaryDirectory() as directory:
            kernel = module_of(text, directory, f"{name}_{sample}").kernel
            start = time.process_time()
            ir.compile(kernel.lower(*tensors()), Path(directory) / "out", dump_passes=False)
            times.append((time.process_time() - start) * 1e3)
    return min(times[1:])


def results() -> list[Result]:
    """Compile times, and a cached call beside the call of the compiled program."""
    small, large = kernel_text(24), layer_text(20)
    rows = [
        Result("compile, kernel of 100 lines", first_compile(small, "small", 10), 30, "ms", _lines(small)),
        Result("compile, layer of 1,000 lines", first_compile(large, "large", 4), 1000, "ms", _lines(large)),
    ]
    return [*rows, cached_call(large)]


def _lines(text: str) -> str:
    return f"{text.count(chr(10))} lines"


def cached_call(text: str) -> Result:
    """What finding the compiled program costs for a function that read the 20 functions of a layer."""
    from pypto.frontend import specialise

    with tempfile.TemporaryDirectory() as directory:
        kernel = module_of(text, directory, "cached").kernel
        arguments = tensors()
        from pypto.runtime import RunConfig

        config = RunConfig(save_kernels_dir=str(Path(directory) / "out"))
        kernel.compile(*arguments, config=config)
        names = {"find": specialise, "kernel": kernel, "arguments": arguments, "config": config}
        found = paired("find(kernel, arguments, {}, config)", "pass", names, calls=500)
    return Result("cached call, beside the launch itself", found.first_ns / 1e3, 15, "us", "median")
