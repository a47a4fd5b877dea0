"""Signal handlers that use the worker whose call they interrupt: an error that says what to do, and never a hang."""

import re

from scripts import output_of

PREPARED = """
worker = ChipWorker(RunConfig(device_memory=16 << 20, queue_depth=1))
device = worker._impl
endless, add = registered(device, core.endless()), registered(device, core.add())
tensors = [torch.ones(16, 16) for _ in range(3)]
said = []

def in_a_handler(call):
    # The first signal calls, the second ends the launch.
    def handler(*_):
        if said:
            raise KeyboardInterrupt
        try:
            said.append(call())
        except RuntimeError as error:
            said.append(error)
    signal.signal(signal.SIGINT, handler)
    interrupt_after(0.4)
    interrupt_after(0.8)

def run_until_the_second_signal():
    try:
        endless(*small, FOREVER)
    except KeyboardInterrupt:
        pass
"""

TEXT = (
    r"called_within (\w+)\(\) was called by a signal handler, or by a finalizer, "
    r"inside another call on the same worker #\d+, and would wait for itself\. "
    r"Note the signal and act after that call, or raise from the handler to end it"
)


def test_a_handler_inside_a_launch_is_told_that_it_would_wait_for_itself() -> None:
    script = f"""{PREPARED}
for call in (
    lambda: add(*tensors),
    lambda: worker.memory_report(),
    lambda: worker.alloc_tensor((4,), torch.float32),
    lambda: worker.close(),
    lambda: [add.submit(*tensors) for _ in range(2)],
    lambda: add.submit(*tensors).result(),
):
    said.clear()
    in_a_handler(call)
    run_until_the_second_signal()
    print(said[0].code, said[0])
    device.synchronize()
add(*tensors)
assert torch.equal(tensors[2], torch.full((16, 16), 2.0)), "the worker goes on"
"""
    said = [re.fullmatch(TEXT, line) for line in output_of(script).splitlines()]
    assert [line and line[1] for line in said] == ["run", "memory_report", "alloc_tensor", "close", "submit", "result"]


def test_a_handler_inside_a_wait_for_another_thread_is_told_too() -> None:
    script = f"""{PREPARED}
launch = threading.Thread(target=lambda: endless(*small, FOREVER), daemon=True)
launch.start()
time.sleep(0.1)
in_a_handler(lambda: worker.memory_report())
try:
    worker.malloc(4)
except KeyboardInterrupt:
    print(said[0].code)
device.close(stop=True)
"""
    assert output_of(script) == "called_within\n"


def test_a_handler_may_use_other_workers_and_ask_what_needs_no_turn() -> None:
    script = f"""{PREPARED}
other = ChipWorker(RunConfig(device_memory=1 << 20, device_id=1))
elsewhere = registered(other._impl, core.add())

def call():
    elsewhere(*tensors)
    return other.memory_report().live, worker.counters()["registrations"], add.submit(*tensors)

in_a_handler(call)
run_until_the_second_signal()
live, registrations, future = said[0]
print(live, registrations, future.result(60))
"""
    assert output_of(script) == "0 2 None\n"
