"""What users of such runtimes have hit: for each report the tests that would show it here, or why it cannot happen.

Rows `a` are of PyPTO's own runtime, rows `b` of its peers; the first words say what was seen. A test whose name begins
with `test_field_report_` was written for its row, the others hold what they say and the row is a case of it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CONFORMANCE = "tests/conformance"
RUNTIME = "tests/runtime"
CORE = "rust/src"


@dataclass(frozen=True)
class Row:
    """One report.

    Attributes:
        seen: What the user saw.
        tests: `file::name` of what would show it here.
        cannot: Why it cannot happen here, where there is no test.
    """

    seen: str
    tests: tuple[str, ...] = ()
    cannot: str = ""


def held(seen: str, *tests: str) -> Row:
    """A report that tests hold."""
    return Row(seen, tests)


def cannot(seen: str, why: str) -> Row:
    """A report of something that this runtime does not have."""
    return Row(seen, cannot=why)


def own(row: str, rest: str) -> str:
    return f"{CONFORMANCE}/test_field_report_rows.py::test_field_report_{row}_{rest}"


ROWS = {
    "a01": held(
        "a hundred implicit calls open a hundred devices",
        f"{RUNTIME}/test_dispatch.py::test_without_one_a_device_is_opened_once_and_said_once",
    ),
    "a02": held(
        "a launch looks at every live tensor",
        f"{CONFORMANCE}/test_dispatch_cost.py::test_1136_live_tensors_cost_a_launch_no_more_than_3",
    ),
    "a03": held(
        "scratch memory is taken and given back in every launch",
        "tests/rust/steady_launch.rs::a_steady_launch_allocates_nothing",
    ),
    "a04": held(
        "a launch prepares memory as large as the device",
        own("a16", "a_device_larger_than_the_machine_opens_and_takes_only_what_is_touched"),
        f"{CONFORMANCE}/test_directions_decide_copies.py::test_in_goes_to_the_device_and_out_comes_back",
    ),
    "a05": held(
        "a read-only cache is copied back",
        f"{CONFORMANCE}/test_directions_decide_copies.py::test_an_input_on_a_read_only_page_is_only_read",
        f"{CONFORMANCE}/test_directions_decide_copies.py::test_a_resident_tensor_is_not_copied_whatever_its_direction",
    ),
    "a06": held(
        "an address is used or freed on a worker that never had it",
        f"{RUNTIME}/test_wrong_memory.py::test_a_tensor_of_another_worker",
        f"{RUNTIME}/test_wrong_memory.py::test_an_address_names_the_tensor_behind_it",
    ),
    "a07": held(
        "a program runs another one's kernel", own("a07", "a_program_at_the_address_of_a_collected_one_runs_itself")
    ),
    "a08": held(
        "the wrong one of two programs runs",
        f"{CONFORMANCE}/test_programs_on_one_worker_stay_apart.py::"
        "test_two_programs_called_in_turn_and_in_random_order_each_compute_their_own",
    ),
    "a09": held(
        "half of the right fp16 value",
        f"{CONFORMANCE}/test_rounding_to_fp16.py::test_a_carry_out_of_the_mantissa_reaches_the_exponent",
        f"{CONFORMANCE}/test_rounding_to_fp16.py::test_fp32_rounds_to_the_nearest_even_fp16_at_every_midpoint",
    ),
    "a10": held(
        "a wrong extent is accepted where another one is dynamic, and host tensors are not checked",
        f"{RUNTIME}/test_bad_input.py::test_one_rule_for_tensors_wherever_they_are",
        f"{CORE}/worker/tests/arguments.rs::host_and_resident_tensors_are_refused_with_the_same_words",
    ),
    "a11": held(
        "records of several writers on one line of standard error make wrong times",
        f"{CONFORMANCE}/test_benchmark_counts.py::test_there_is_one_sample_of_each_clock_for_each_round_amid_noise",
    ),
    "a12": held(
        "a benchmark without samples reads as 0 us",
        f"{CONFORMANCE}/test_benchmark_counts.py::"
        "test_without_spans_there_is_an_error_with_the_reason_instead_of_an_empty_result",
        f"{RUNTIME}/test_bench.py::test_launches_that_the_trace_lost_are_no_samples",
    ),
    "a13": held(
        "threads that spin hang on few processors",
        f"{CONFORMANCE}/test_one_cpu.py::test_eight_workers_a_long_launch_and_rest_on_one_cpu",
        f"{CORE}/device/sim/pool/tests.rs::an_idle_pool_uses_no_cpu",
    ),
    "a14": held(
        "a slow launch is ended by a watchdog that counts turns of a loop",
        f"{CONFORMANCE}/test_one_cpu.py::test_eight_workers_a_long_launch_and_rest_on_one_cpu",
    ),
    "a15": cannot("a limit meant for the device ends the simulator", "no launch has a time limit; Ctrl-C ends one"),
    "a16": held(
        "opening the simulator takes all memory at once",
        own("a16", "a_device_larger_than_the_machine_opens_and_takes_only_what_is_touched"),
        f"{CORE}/arena/storage.rs::memory_is_committed_by_touch_and_starts_as_zero",
    ),
    "a17": held("children of a killed test run on for days", own("a17", "a_worker_starts_no_process")),
    "a18": held("each launch sleeps while it waits", own("a18", "no_launch_sleeps_between_two_looks_at_the_device")),
    "a19": held(
        "a thousand equal arguments are described anew in each launch",
        f"{CONFORMANCE}/test_dispatch_cost.py::test_142_arguments_cost_at_most_142_thirds_of_3",
    ),
    "a20": held(
        "the first launch builds what registering should have", own("a20", "registering_builds_and_no_launch_does")
    ),
    "a21": held(
        "an upload sends what the memory held earlier",
        own("a21", "a_launch_reads_the_host_as_it_is_at_that_moment"),
        f"{CONFORMANCE}/test_resident_is_a_snapshot.py::"
        "test_later_edits_and_the_end_of_the_host_tensor_do_not_reach_the_device",
    ),
    "a22": held(
        "a tensor made after the worker is garbage to it",
        own("a22", "tensors_made_after_the_worker_was_opened_are_read_whatever_made_them"),
    ),
    "a23": held(
        "close frees nothing of what it should",
        f"{CONFORMANCE}/test_close_frees_what_was_forgotten.py::test_close_names_each_forgotten_tensor_and_its_line",
        f"{CORE}/worker/tests/life.rs::close_frees_what_was_forgotten_names_it_and_happens_once",
    ),
    "a24": held(
        "freeing with a wrong worker_id does nothing, silently",
        f"{RUNTIME}/test_runtime_base.py::test_a_tensor_of_another_device_is_told_apart",
        f"{RUNTIME}/test_worker.py::test_worker_id_is_zero",
    ),
    "a25": held(
        "an upload that fails leaks its memory",
        f"{CONFORMANCE}/test_failed_upload_leaves_nothing.py::test_a_thousand_refused_uploads_leak_no_byte",
    ),
    "a26": held(
        "wrong numbers where a loop writes what an earlier task reads",
        f"{RUNTIME}/test_packed_weights.py::test_a_random_schedule_gives_what_the_order_of_the_program_gives",
        f"{CORE}/device/sim/tests/tasks.rs::tasks_that_run_at_once_leave_what_tasks_in_order_leave",
    ),
    "a27": held(
        "what a kernel skips of an output shows another tensor",
        f"{CONFORMANCE}/test_unwritten_output.py::test_an_output_given_by_the_caller",
        f"{CONFORMANCE}/test_unwritten_output.py::test_an_output_that_the_runtime_returns",
    ),
    "a28": held(
        "a copy into a part of a tensor is refused",
        f"{RUNTIME}/test_worker.py::test_copies_take_ranges_inside_an_allocation",
    ),
    "a29": held(
        "what the runtime keeps for itself is missing in the report of free memory",
        f"{CORE}/worker/tests/launches.rs::memory_that_launches_keep_is_counted_reused_and_given_back",
        f"{RUNTIME}/test_worker.py::test_the_report_names_what_is_live",
    ),
    "a30": held(
        "memory that is exhausted is reported as nearly empty",
        f"{CONFORMANCE}/test_pool.py::test_exhaustion_names_requested_live_free_and_largest_block_and_loses_nothing",
    ),
    "a31": held(
        "a request that fits exactly is refused",
        f"{CONFORMANCE}/test_pool.py::test_what_fits_exactly_is_given_again_and_again",
        f"{CORE}/arena/suballocator_tests.rs::behaves_like_the_simplest_allocator",
    ),
    "a32": held(
        "registering succeeds and the first launch says that the program does not build",
        f"{CORE}/worker/tests/faults.rs::a_program_that_does_not_compile_leaves_nothing_behind",
    ),
    "a33": held(
        "a launch loads a program without anybody noticing", f"{RUNTIME}/test_worker.py::test_programs_are_loaded_once"
    ),
    "a34": held("each call reads the program again", own("a34", "a_program_is_read_once_however_often_it_is_called")),
    "a35": held(
        "tracing costs where it is off",
        "tests/rust/trace.rs::nothing_is_recorded_while_no_guard_lives",
        "tests/rust/steady_launch.rs::a_steady_launch_allocates_nothing",
    ),
    "a36": cannot("a timeline does not load for its counter events", "spans are exported as text; no counters exist"),
    "a37": cannot(
        "tracing changes what it measures",
        "there is one level: 32 bytes for each span into memory of its thread, formatted after the launch",
    ),
    "a38": held(
        "the simulator has no device time",
        "tests/test_main_job.py::test_the_device_wall_is_part_of_the_host_wall_and_never_zero",
    ),
    "a39": held(
        "one failed launch fails those after it",
        f"{RUNTIME}/test_bad_input.py::test_errors_leave_the_worker_usable",
        f"{CORE}/worker/tests/faults.rs::a_launch_that_fails_copies_nothing_out_and_the_next_one_works",
    ),
    "a40": held(
        "close races with init and launches",
        f"{RUNTIME}/test_threads.py::test_threads_open_use_and_close_one_worker_in_any_order",
        f"{RUNTIME}/test_threads.py::test_many_threads_close_at_once",
    ),
    "a41": held(
        "the second device of a process crashes",
        f"{RUNTIME}/test_worker.py::test_nothing_old_lives_on_the_next_device",
    ),
    "a42": held(
        "two runtimes or two workers in one process disturb each other",
        own("a42", "workers_of_both_kinds_of_runtime_and_of_two_devices_share_a_process"),
    ),
    "a43": held(
        "a task waits for ever and nothing says for what",
        "tests/frontend/test_barriers.py::test_23_a_barrier_stands_in_a_loop_of_any_number_of_rounds",
        "tests/frontend/test_tasks.py::test_tasks_run_in_program_order_whatever_their_ids_say",
    ),
    "a44": held(
        "a conversion drops its rounding mode",
        "tests/operations/test_conversions.py::test_every_reachable_pair_converts_hop_by_hop_in_every_mode",
    ),
    "a45": held(
        "an element type is missing in the simulator",
        "tests/operations/test_matrix.py::test_every_dtype_and_size_on_every_instruction_set",
    ),
    "a46": held(
        "1e100 becomes infinity and 300 becomes 44",
        f"{RUNTIME}/test_scalar_arguments.py::test_ints_beyond_their_range_are_refused",
        f"{RUNTIME}/test_scalar_arguments.py::test_floats_beyond_their_range_are_refused",
        f"{RUNTIME}/test_scalar_arguments.py::test_ctypes_values_are_of_exactly_the_declared_type",
    ),
    "a47": held(
        "a tensor with gaps is read as if it had none",
        f"{CONFORMANCE}/test_layout.py::test_what_has_gaps_is_refused_with_its_name_and_the_remedy",
    ),
    "a48": held(
        "the kernel of before runs after a constant was changed",
        "tests/frontend/test_specialisation.py::test_captured_constants_are_part_of_the_cache_key",
    ),
    "a49": held(
        "what an older version compiled is run",
        f"{RUNTIME}/test_program.py::test_data_of_another_form_is_refused",
        "tests/ir/test_artifacts.py::test_a_field_that_cannot_be_is_a_value_error_that_names_the_file",
    ),
    "a50": held(
        "naming the output folder turns caching off",
        own("a50", "where_directories_are_made_does_not_decide_what_is_compiled_again"),
    ),
    "a51": cannot("kernels are assembled one after the other", "no outside tool assembles kernels"),
    "a52": cannot("one kernel takes its assembler very long", "no outside tool assembles kernels"),
    "a53": cannot("most of a test is the reference", "the reference is the caller's own function; nothing is repeated"),
    "a54": held(
        "an error has no line",
        "tests/frontend/test_diagnostics.py::test_the_report_has_place_line_caret_message_and_help",
    ),
    "a55": held(
        "an expected output of another shape passes, and differences are not shown",
        own("a55", "an_expected_output_of_another_shape_is_a_difference_and_not_spread"),
        f"{RUNTIME}/test_golden.py::test_twenty_differences_are_listed",
    ),
    "a56": held(
        "the example of the documentation does not run",
        "tests/docs/test_pages.py::test_the_blocks_of_the_page_run_and_print_what_it_shows",
        f"{RUNTIME}/test_worker.py::test_a_program_for_another_platform_is_refused_with_both_named",
    ),
    "a57": held(
        "a checkout that is not built fails with a riddle",
        own("a57", "an_extension_that_is_not_built_is_told_from_a_bug"),
    ),
    "a58": held("a child forked among threads dies", own("a17", "a_worker_starts_no_process")),
    "a59": held("a name in a list is corrupt", f"{RUNTIME}/test_bad_input.py::test_an_unknown_platform_is_refused"),
    "a60": cannot(
        "launches in a row each wait for the host", "a launch runs in the calling thread: no wait lies between"
    ),
    "b61": held(
        "memory is free and in pieces", f"{CONFORMANCE}/test_pool.py::test_a_fragmented_pool_reports_its_largest_hole"
    ),
    "b62": held(
        "no memory, while a block that fits is free",
        f"{CORE}/arena/suballocator_tests.rs::an_exact_hole_is_found_behind_many_smaller_ones_of_its_bin",
        f"{CORE}/arena/tests.rs::out_of_memory_gives_the_numbers_and_a_remedy_and_changes_nothing",
    ),
    "b63": held(
        "what the runtime keeps is not given back before it refuses",
        f"{CORE}/worker/tests/launches.rs::what_launches_keep_gives_way_to_an_allocation",
        f"{CONFORMANCE}/test_pool.py::test_a_bigger_tensor_fits_where_a_smaller_one_was",
    ),
    "b64": held(
        "writes behind an end stay unseen, and buffers outlive their pool",
        f"{CORE}/worker/tests/faults.rs::poison_names_the_buffer_or_parameter_that_was_overrun",
        f"{RUNTIME}/test_device_tensor.py::test_to_host_says_when_the_worker_is_gone",
    ),
    "b65": held(
        "a report of the memory takes minutes", own("b65", "a_report_of_the_memory_costs_less_than_what_it_reports")
    ),
    "b66": held(
        "small launches are mostly the handling of arguments",
        f"{CONFORMANCE}/test_dispatch_cost.py::test_142_arguments_cost_at_most_142_thirds_of_3",
    ),
    "b67": held(
        "an output that is also an input hangs; a freed tensor gives a riddle",
        f"{RUNTIME}/test_bad_input.py::test_an_output_overlaps_no_other_argument",
        f"{CONFORMANCE}/test_use_after_free.py::test_a_launch_with_a_freed_tensor_is_refused_and_says_which",
    ),
    "b68": held(
        "functions that nobody has keep their programs",
        f"{RUNTIME}/test_worker.py::test_a_worker_holds_no_compiled_program",
    ),
    "b69": held(
        "memory of another device or with gaps gives wrong numbers",
        f"{RUNTIME}/test_host_arrays.py::test_memory_of_another_device_is_refused",
        f"{RUNTIME}/test_host_arrays.py::test_gaps_between_elements_are_refused",
    ),
    "b70": held(
        "a copy that nobody asked for",
        f"{CONFORMANCE}/test_directions_decide_copies.py::test_a_resident_tensor_is_not_copied_whatever_its_direction",
    ),
    "b71": held(
        "bf16 is read as the integer that it lies in",
        "tests/operations/test_matrix.py::test_every_dtype_and_size_on_every_instruction_set",
    ),
    "b72": held(
        "an object for each argument of each launch",
        f"{RUNTIME}/test_handle.py::test_a_launch_leaves_the_reference_counts_of_its_arguments_alone",
        f"{CONFORMANCE}/test_dispatch_cost.py::test_142_arguments_cost_at_most_142_thirds_of_3",
    ),
    "b73": held(
        "arguments are bound anew in each launch",
        f"{CORE}/worker/tests/launches.rs::a_launch_like_the_last_one_is_checked_like_the_first",
    ),
    "b74": held(
        "host and device are measured with one clock",
        f"{RUNTIME}/test_bench.py::test_one_sample_of_each_kind_for_each_round",
    ),
    "b75": held(
        "an empty tensor ends the process", f"{CONFORMANCE}/test_empty_batch.py::test_nothing_is_copied_or_run"
    ),
    "b76": held(
        "a tensor of 4 GB reads as zeros",
        f"{CONFORMANCE}/test_beyond_4_gib.py::test_copies_and_kernels_reach_every_part_of_it",
        f"{CORE}/arena/tests.rs::memory_beyond_32_bits_is_addressed_right",
    ),
    "b77": held(
        "the stride of an axis of one fails a check",
        f"{CONFORMANCE}/test_layout.py::test_a_stride_along_an_axis_of_one_says_nothing_about_the_layout",
    ),
    "b78": held(
        "the layout of one of several arguments is not checked",
        f"{CONFORMANCE}/test_layout.py::test_what_has_gaps_is_refused_with_its_name_and_the_remedy",
    ),
    "b79": held(
        "a copy to the host returns before it is done",
        f"{RUNTIME}/test_worker.py::test_big_copies_arrive_whole",
    ),
    "b80": held(
        "a thread with the interpreter and one with a lock wait for each other",
        f"{RUNTIME}/test_threads.py::test_threads_share_a_worker",
        f"{RUNTIME}/test_processes.py::test_other_threads_run_while_the_device_works",
    ),
    "b81": held(
        "Ctrl-C is ignored",
        f"{RUNTIME}/test_processes.py::test_ctrl_c_ends_a_launch_within_half_a_second_and_the_worker_goes_on",
        f"{RUNTIME}/test_processes.py::test_ctrl_c_ends_the_wait_for_a_launch_of_another_thread",
    ),
    "b82": held(
        "a forked child hangs",
        f"{RUNTIME}/test_processes.py::test_a_forked_child_gets_an_error_instead_of_a_hang",
        f"{CORE}/device/sim/pool/tests.rs::a_forked_child_runs_everything_itself_and_drops_the_pool_without_hanging",
    ),
    "b83": cannot("a wheel does not load in a build without the interpreter's lock", "wheels name their one Python"),
    "b84": cannot("a wheel needs a newer C library", "that is how wheels are built, which no test of the code shows"),
    "b85": held(
        "an interpreter inside the process crashes, or threads at exit do",
        own("b85", "an_interpreter_inside_the_process_imports_or_is_refused_and_nothing_crashes"),
        f"{RUNTIME}/test_processes.py::test_a_process_ends_while_daemon_threads_launch_and_wait",
    ),
    "b86": held(
        "warnings about leaks at exit", f"{RUNTIME}/test_processes.py::test_a_process_ends_with_an_open_worker"
    ),
    "b87": held(
        "the simulator cuts where the device rounds",
        f"{CONFORMANCE}/test_rounding_to_fp16.py::test_fp32_rounds_to_the_nearest_even_bf16_at_every_midpoint",
    ),
    "b88": held(
        "memory of the simulator is zero and hides bugs",
        f"{CONFORMANCE}/test_unwritten_output.py::test_a_new_tensor_without_init",
        f"{CORE}/arena/poison.rs::new_memory_is_not_a_number_in_every_float_type",
    ),
}


def test_every_report_is_listed_once_in_order() -> None:
    assert list(ROWS) == [f"a{number:02}" for number in range(1, 61)] + [f"b{number}" for number in range(61, 89)]


@pytest.mark.parametrize("row", ROWS)
def test_a_report_names_tests_that_exist_or_why_it_cannot_happen(row: str) -> None:
    assert ROWS[row].seen
    assert bool(ROWS[row].tests) != bool(ROWS[row].cannot)
    for test in ROWS[row].tests:
        path, name = test.split("::")
        keyword = "fn" if path.endswith(".rs") else "def"
        assert re.search(rf"^\s*{keyword} {name}\(", (ROOT / path).read_text(), re.MULTILINE), test


def test_a_test_that_was_written_for_a_report_is_named_after_it() -> None:
    written = re.findall(
        r"^def (test_field_report_\w+)", (ROOT / CONFORMANCE / "test_field_report_rows.py").read_text(), re.M
    )
    assert written
    for name in written:
        row = name.removeprefix("test_field_report_").split("_")[0]
        assert any(test.endswith(f"::{name}") for test in ROWS[row].tests), name
