"""Rows: blocks, synchronisation, pipes between cores, tasks, arrays and prefetch."""

from __future__ import annotations

from pypto.language.ops.table import Rows

row = Rows()

row(
    "get_block_idx",
    "Index of the block in its task; 0 outside `pl.spmd`.",
    rule="block_scalar",
    core="block_idx",
    pl="",
    tensor="",
    tile="",
)
row("get_block_num", "Number of blocks of the task.", rule="block_scalar", core="block_num", pl="", tensor="", tile="")
row("get_subblock_idx", "Index of the vector lane, or 0.", rule="lane_index", pl="", tensor="", tile="")
row("aiv_shard", "The half of the current lane.", rule="lane_only", pl="x, span=None", tile="x, span=None")
row("aic_gather", "Joins the halves of both lanes.", rule="lane_only", pl="x, span=None", tile="x, span=None")

_EVENT = "Order between the pipes of a core, which run in program order here: nothing to do."
row("sync_set", _EVENT, rule="nothing", system="event_id, *, pipe, ffts_mode=None, core_type=None, span=None")
row("sync_wait", _EVENT, rule="nothing", system="event_id, *, pipe, core_type=None, span=None")
row("set_ffts", _EVENT, rule="nothing", system="workspace, *, span=None")
row(
    "syncall",
    "Barrier over all blocks: what each wrote before it, all may read after it. At the top level of a kernel.",
    rule="syncall",
    system="*, core_type='mix', mode='hard', gm_workspace=None, used_cores=None, span=None",
)
row(
    "cacheinvalid",
    "Cache control: nothing to do on this device.",
    rule="nothing",
    system="tensor=None, shapes=None, offsets=None, *, span=None",
)
_PIPE = "Explicit pipe between the cube and the vector core."
_PIPES = "explicit pipes between the cube and the vector core"
for _name, _signature in (
    ("tpush_to_aiv", "tile, *, split, lane_stride=None, id=None, span=None"),
    ("tpush_to_aic", "tile, *, split, id=None, span=None"),
    ("tfree_to_aic", "tile, span=None, *, split=None, id=None"),
    ("tfree_to_aiv", "tile, span=None, *, split=None, id=None"),
    ("tpop_from_aic", "*, shape=None, dtype=None, split=0, lane_stride=None, id=None, span=None"),
    ("tpop_from_aiv", "*, shape=None, dtype=None, split=0, id=None, span=None"),
    ("reserve_buffer", "*, name, size, base=AUTO, span=None"),
    ("import_peer_buffer", "*, name, peer_func, span=None"),
):
    row(_name, _PIPE, lacks=_PIPES, pl=_signature, system=_signature)
for _name in ("aic_initialize_pipe", "aiv_initialize_pipe"):
    row(_name, _PIPE, lacks=_PIPES, pl="*args, **kwargs")
row("task_invalid", "The id of no task.", rule="task_id", system="*, span=None")
row("task_dummy", "An empty task; the result is its id.", rule="task_id", system="*, deps")
row("available_cluster_count", "Clusters of the chip: 24, as the 910B has.", rule="clusters", system="*, span=None")
row("available_aiv_count", "Vector cores of the chip: 48.", rule="vector_cores", system="*, span=None")

row(
    "array_create",
    "A small on-core array: numbers are 0 until they are assigned.",
    rule="array_create",
    array="create(extent, dtype)",
)
row("get_element", "One element of an array: `a[i]`.", rule="get_element", array="array, index")
row(
    "update_element",
    "Replaces one element of an array: `a[i] = v`.",
    rule="update_element",
    array="array, index, value",
)

row("make_context", "Context for prefetches: a hint.", rule="handle", prefetch="")
row("async_prefetch", "Starts a prefetch: a hint.", rule="handle", prefetch="src, ctx")
row("session", "Session for prefetches: a hint.", rule="handle", prefetch="ctx")
row("wait", "Waits for a prefetch: a hint.", rule="nothing", prefetch="event, session_handle")
