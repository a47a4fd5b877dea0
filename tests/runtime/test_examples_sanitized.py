"""Every kernel of `examples/` runs without findings under all sanitizers."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path.relative_to(EXAMPLES) for part in ("kernels", "models") for path in (EXAMPLES / part).glob("*.py"))


def test_the_kernel_of_the_main_job_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "runtime"))
    from resident_weight import MyKernel

    from pypto import ir
    from pypto.runtime import ChipWorker, RunConfig

    compiled = ir.compile(MyKernel, platform="a2a3sim")
    weight, batch, out = torch.ones(1024, 4096).half(), torch.ones(3, 1024).half(), torch.zeros(3, 4096).half()
    with ChipWorker(config=RunConfig(sanitize="race,uninit,bounds")) as w:
        compiled(batch, w.alloc_tensor(weight.shape, weight.dtype, init=weight), out)
    assert torch.equal(out, torch.full_like(out, 1024.0))


@pytest.mark.parametrize("file", FILES, ids=str)
def test_the_example_is_clean(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_SANITIZE", "race,uninit,bounds")
    monkeypatch.setattr(sys, "argv", [str(file)])
    monkeypatch.syspath_prepend(str((EXAMPLES / file).parent))
    runpy.run_path(str(EXAMPLES / file), run_name="__main__")
