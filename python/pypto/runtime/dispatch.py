"""Calls of a compiled program that name no worker."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime import active, programs
from pypto.runtime.active import Binding
from pypto.runtime.run_config import RunConfig
from pypto.runtime.worker import ChipWorker

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram

logger = logging.getLogger("pypto.runtime.dispatch")
"""Says when a device is opened without being asked for."""

_implicit: dict[tuple[Binding, bool], ChipWorker] = {}
"""By binding, and whether programs may use the DMA engine between chips."""
_lock = threading.Lock()


def dispatch(compiled: CompiledProgram, args: tuple[Any, ...], config: RunConfig | None = None) -> Any:
    """Runs `compiled(*args, config=config)`.

    The launch goes to the innermost active worker of the program's platform (or the platform and device of `config`).
    Without one it goes to a worker that is made for the purpose, once for each device, and lives until exit.

    Raises:
        See `ChipWorker.run`.
    """
    if config is None:
        # The usual case, short: the innermost worker has run the program before, and it is the one to find.
        worker = active.innermost()
        if worker is not None and worker.device_id == 0:
            known = worker._launchers.get(id(compiled))
            if known is not None and known.fits and known.compiled() is compiled:
                return known.handle(*args)
    # The platform is not compared with the program's: where they differ, `config` asked for it.
    launcher = worker_for(compiled, config)._launcher(compiled)
    return launcher.handle(*args) if config is None else launcher.launch(compiled, args, config)


def worker_for(compiled: CompiledProgram, config: RunConfig | None = None) -> ChipWorker:
    """The worker that a call without one uses."""
    if config is not None and not isinstance(config, RunConfig):
        raise failures.BAD_CONFIG(f"config must be a RunConfig, got {type(config).__name__}")
    platform, device_id = (compiled.platform, 0) if config is None else (config.platform, config.device_id)
    runtime = programs.runtime_name(compiled)
    sdma = programs.needs_sdma(compiled)
    found = ChipWorker.current(level=2, platform=platform, device_id=device_id, runtime=runtime, require_sdma=sdma)
    return found if found is not None else _implicit_worker(Binding(2, platform, device_id, runtime), sdma, config)


def _implicit_worker(binding: Binding, sdma: bool, config: RunConfig | None) -> ChipWorker:
    key = (binding, sdma)
    with _lock:
        worker = _implicit.get(key)
        if worker is None or not worker.initialized:
            config = config or RunConfig(platform=binding.platform, device_id=binding.device_id)
            worker = ChipWorker(config, runtime=binding.runtime, enable_sdma=sdma)
            _implicit[key] = worker
            logger.info(
                "no ChipWorker for %s is active: opened one that lives until exit. "
                "Use `with ChipWorker(config=RunConfig(...)):` to decide where programs run",
                worker.binding,
            )
        return worker


def _forget_parent() -> None:
    """A forked child opens devices of its own."""
    global _lock
    _lock = threading.Lock()
    _implicit.clear()


os.register_at_fork(after_in_child=_forget_parent)
