"""The errors of the Python half, each with its stable code, its cause and its cure.

An exception that is raised from here has its code in the attribute `code`, as those of the extension have, so that a
program can react to one kind of error without looking at texts. `docs/errors.md` lists all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """One kind of error. Calling it with a text makes the exception.

    Attributes:
        code: The stable name.
        exception: Its class.
        why: Cause and cure, for the table.
    """

    code: str
    exception: type[Exception]
    why: str

    def __call__(self, text: str) -> Exception:
        """The exception with this text and the code."""
        error = self.exception(text)
        error.code = self.code  # type: ignore[attr-defined]
        return error


WORKER_CLOSED = Failure(
    "worker_closed", RuntimeError, "The worker has no open device. Use `with worker:`, or call `init()`."
)
HANDLE_CLOSED = Failure(
    "handle_closed", RuntimeError, "The handle was unregistered, or its worker was closed. Register the program again."
)
CLEANUP_PENDING = Failure(
    "cleanup_pending", RuntimeError, "A foreign device could neither be opened nor closed. Call `close()` until it can."
)
NOT_A_BUFFER = Failure("not_a_buffer", TypeError, "`malloc()` of a foreign device returned something without a `base`.")
BAD_ADDRESS = Failure("bad_address", ValueError, "A device or host address is no positive int.")
UNKNOWN_ADDRESS = Failure("unknown_address", ValueError, "An address that no live allocation begins at.")
BAD_SIZE = Failure("bad_size", ValueError, "A number of bytes is no positive int.")
WORKER_ID = Failure("worker_id", ValueError, "The worker has no such device, or the tensor lies on another one of it.")
WORKER_ACTIVE = Failure(
    "worker_already_active", ValueError, "A worker with the same binding is active here. Use the outer one."
)
WRONG_CONTEXT = Failure(
    "wrong_context", ValueError, "A worker is left in another thread or task than it was entered in."
)
NO_SDMA = Failure("no_sdma", RuntimeError, "The active worker was made without `enable_sdma=True`, which is needed.")
BAD_LEVEL = Failure("bad_level", ValueError, "Only level 2, one chip, is supported here.")
BASE_NOT_INITIALISED = Failure(
    "base_not_initialised", TypeError, "A subclass of `Worker` did not call `super().__init__()`."
)
RAW_TENSOR = Failure("raw_tensor", TypeError, "A device tensor made from a bare address. Use `alloc_tensor()`.")
STALE_TENSOR = Failure(
    "stale_tensor", ValueError, "The tensor was freed, or its address belongs to a newer allocation."
)
NOT_A_DEVICE_TENSOR = Failure(
    "not_a_device_tensor", TypeError, "Something that is no `DeviceTensor` where one is needed."
)
NOT_A_BENCHMARK = Failure("not_a_benchmark", TypeError, "Something that is no `BenchmarkStats` where one is needed.")
BAD_BENCHMARK_RECORD = Failure(
    "bad_benchmark_record", ValueError, "A kept benchmark that cannot be read. Measure again, or upgrade."
)
NOT_A_WORKER = Failure("not_a_worker", TypeError, "Something that is no `ChipWorker` where one is needed.")
BAD_CONFIG = Failure("bad_config", TypeError, "`config` is no `RunConfig`.")
NOT_AN_ARRAY = Failure("not_an_array", TypeError, "Something that is no array where one is needed.")
MASKED_ARRAY = Failure("masked_array", TypeError, "The array has a mask. Pass `.filled(value)`, or `.data`.")
ARRAY_DTYPE = Failure("unsupported_array_dtype", TypeError, "The device has no such element type. Convert the array.")
BAD_EXTENT = Failure("bad_extent", ValueError, "A shape is empty or has an extent below 1.")
BAD_SHAPE = Failure("bad_shape", TypeError, "A shape holds something else than ints.")
BAD_DTYPE = Failure("bad_dtype", TypeError, "Something that is no `torch.dtype`.")
INIT_MISMATCH = Failure("init_mismatch", ValueError, "`init` has another shape or dtype than the tensor.")
UNREADABLE_ARRAY = Failure(
    "unreadable_array", ValueError, "`init` has no data that could be copied. Pass a dense tensor."
)
ARGUMENT_COUNT = Failure("argument_count", TypeError, "The wrong number of arguments. The text lists the parameters.")
DYNAMIC_OUTPUT = Failure(
    "dynamic_output", ValueError, "An output with a dynamic extent was left out. Pass all tensors."
)
PLATFORM_MISMATCH = Failure(
    "platform_mismatch", ValueError, "The program was compiled for another platform than the worker has."
)
RUNTIME_MISMATCH = Failure(
    "runtime_mismatch", ValueError, "The program was compiled for another kind of runtime than the worker has."
)
UNKNOWN_PLATFORM = Failure("unknown_platform", ValueError, "No such platform. The text lists those that exist.")
NOT_COMPILED = Failure("not_compiled", TypeError, "Something that is no compiled program. Compile it first.")
PLOT_FORMAT = Failure("plot_format", ValueError, "Plots are written as PNG or SVG, by the ending of the file's name.")
MISSING_EXTRA = Failure(
    "missing_extra", RuntimeError, "A library of an optional extra is not installed. The text says which extra."
)
TRACE_FORMAT = Failure("trace_format", ValueError, "No trace format belongs to the ending of the file's name.")
SETTING_TYPE = Failure("setting_type", TypeError, "A setting has the wrong type. The text says what it may be.")
SETTING_VALUE = Failure("setting_value", ValueError, "A setting has a value that it cannot have. The text says which.")
SETTINGS_CONFLICT = Failure("settings_conflict", ValueError, "Two settings exclude each other. Leave one out.")
BAD_SWITCH = Failure(
    "bad_switch",
    ValueError,
    "An environment variable has a value that it cannot have. The text lists those that it can.",
)
ADVISOR_OFF = Failure(
    "advisor_off", RuntimeError, 'The worker counts no host arguments. Open it with `RunConfig(residency="advise")`.'
)
NO_SPANS = Failure(
    "no_spans",
    RuntimeError,
    "This build, or the device of somebody else's, records no spans, which `benchmark` is made of.",
)
LOST_SPANS = Failure("lost_spans", RuntimeError, "Buffers of the trace were full, so launches are missing.")
UNKNOWN_METRIC = Failure("unknown_metric", ValueError, "No such metric. The text lists those that exist.")
SEVERAL_DISPATCHES = Failure(
    "several_dispatches", ValueError, "Several launches of a round match. Choose one by `pid` and `slot`."
)
NO_SUCH_LAUNCH = Failure("no_such_launch", IndexError, "Fewer launches were measured.")
GOLDEN_DIFFERS = Failure(
    "golden_differs", AssertionError, "Outputs differ from what they should be. The text says where."
)
GOLDEN_COUNT = Failure("golden_count", ValueError, "More or fewer expected outputs than the program writes.")
GOLDEN_NAME = Failure("golden_name", KeyError, "There is no such output. The text lists those that there are.")
GOLDEN_TYPE = Failure("golden_type", TypeError, "Expected outputs are tensors or arrays; a function returns them.")
GOLDEN_MISSING = Failure("golden_missing", FileNotFoundError, "Golden data is not there. Write it with `write_golden`.")
NO_DUMPS = Failure("no_dumps", FileNotFoundError, "No passes were dumped. Compile with `dump_passes=True`.")
BAD_SPECS = Failure("bad_specs", ValueError, "Descriptions of arguments that fit nothing or each other.")
BAD_INIT_VALUE = Failure("bad_init_value", TypeError, "`init_value` is nothing that a tensor can be made of.")
STACK_MISMATCH = Failure("stack_mismatch", ValueError, "Shards that do not make one stacked tensor.")
STACK_INDEX = Failure("stack_index", IndexError, "A stacked tensor has no such shard, or fewer axes.")
STACK_LEADING = Failure("stack_leading_index", TypeError, "The leading index of a stacked tensor is an int.")
STACK_PARTIAL = Failure("stack_partial", ValueError, "Only whole shards of a stacked tensor can be taken.")
PASS_CONTEXT = Failure(
    "pass_context", RuntimeError, "A setting that the active `PassContext` decides was given again. Set it there."
)
NOT_SUPPORTED = Failure("not_supported", NotImplementedError, "The name exists in PyPTO and not in this version.")
NOT_A_PROGRAM = Failure(
    "not_a_program", TypeError, "Something that is neither a `@pl.program` class nor a jit function."
)
SEVERAL_ENTRIES = Failure("several_entries", TypeError, "A program with several entries. Choose one by its name.")
NO_SUCH_ENTRY = Failure("no_such_entry", KeyError, "The program has no entry of this name.")
ARTIFACT_MISSING = Failure(
    "artifact_missing", FileNotFoundError, "A file of a compiled directory is not there. Recompile."
)
ARTIFACT_MALFORMED = Failure(
    "artifact_malformed", ValueError, "A file of a compiled directory is malformed. Recompile."
)


def with_place(place: str, error: Exception) -> Exception:
    """The same kind of error, whose text begins with where it happened."""
    placed = type(error)(f"{place}: {error}")
    placed.code = getattr(error, "code", "")  # type: ignore[attr-defined]
    return placed


ALL = tuple(value for value in globals().values() if isinstance(value, Failure))
"""Every kind of error, in order."""
