"""What this machine and this installation are, for whoever compares figures."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import pypto

_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_vnni", "avx512_fp16", "amx_tile")


def facts() -> dict[str, str]:
    """Versions, processor, memory and settings by name, in words for people."""
    import torch

    cpus = sorted(os.sched_getaffinity(0))
    flags = _cpu_words("flags")
    return {
        "pypto": pypto.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": importlib.metadata.version("numpy"),
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "vector instructions": ", ".join(name for name in _FEATURES if name in flags) or "none of those used here",
        "CPUs of this process": f"{len(cpus)} of {os.cpu_count()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "huge pages": _selected(_HUGE_PAGES),
        "PYPTO_ISA": os.environ.get("PYPTO_ISA") or "not set",
    }


def processor() -> str:
    """The processor's own name, its architecture where it has none."""
    return " ".join(_cpu_words("model name")) or platform.machine()


def _cpu_words(key: str) -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(key)), [])


def _selected(path: Path) -> str:
    """The word in brackets of a kernel setting."""
    try:
        text = path.read_text()
    except OSError:
        return "not known to this kernel"
    return text.partition("[")[2].partition("]")[0] or text.strip()
