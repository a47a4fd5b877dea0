"""Queued launches and Ctrl-C, fork, and the end of the process. Each case is a process of its own."""

from scripts import output_of, run_script


def test_ctrl_c_ends_the_wait_for_a_launch_which_goes_on() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless = registered(device, core.endless())
    future = endless.submit(*small, FOREVER)
    for wait in (future.result, device.synchronize, lambda: device.malloc(4)):
        interrupt_after(0.2)
        try:
            wait()
        except KeyboardInterrupt:
            print("interrupted", future.done())
    device.close(stop=True)
    print(future.exception(0).code)
    """
    assert output_of(script) == "interrupted False\n" * 3 + "launch_stopped\n"


def test_ctrl_c_ends_the_wait_for_room_in_the_queue() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20, queue_depth=1)
    endless = registered(device, core.endless())
    first = endless.submit(*small, FOREVER)
    interrupt_after(0.2)
    try:
        endless.submit(*small, 1)
    except KeyboardInterrupt:
        print("interrupted", first.done())
    device.close(stop=True)
    """
    assert output_of(script) == "interrupted False\n"


def test_a_forked_child_can_neither_submit_nor_wait() -> None:
    script = """
    worker = ChipWorker()
    handle, endless = registered(worker._impl, core.add()), registered(worker._impl, core.endless())
    tensors = [torch.zeros(16, 16) for _ in range(3)]
    bound = handle.bind(*tensors)
    busy = endless.submit(*small, FOREVER)
    child = os.fork()
    if child == 0:
        for call in (
            lambda: handle.submit(*tensors), bound.submit, bound, lambda: bound.update(a=tensors[0]),
            worker.synchronize, busy.result, busy.exception,
        ):
            try:
                call()
            except RuntimeError as error:
                assert "belongs to the parent process and cannot be used after fork()" in str(error), error
            else:
                raise SystemExit("no error")
        worker.close()
        worker.init()
        own = registered(worker._impl, core.add())
        own.submit(*tensors).result(60)
        worker.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    worker._close(stop=True)
    print(busy.exception(0).code)
    """
    done = run_script(script)
    assert (done.returncode, done.stdout) == (0, "launch_stopped\n"), done.stderr


def test_a_process_ends_with_launches_in_the_queue_and_their_futures_say_why() -> None:
    script = """
    worker = ChipWorker()
    add, endless = registered(worker._impl, core.add()), registered(worker._impl, core.endless())
    tensors = [torch.zeros(16, 16) for _ in range(3)]

    def told(future):
        os.write(1, f"{future.exception().code}\\n".encode())

    for future in [endless.submit(*small, FOREVER), *(add.submit(*tensors) for _ in range(3))]:
        future.add_done_callback(told)
    """
    done = run_script(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "launch_stopped\n" * 4


def test_a_process_ends_with_a_queue_that_has_nothing_to_do() -> None:
    script = """
    worker = ChipWorker()
    add = registered(worker._impl, core.add())
    add.submit(*[torch.zeros(16, 16) for _ in range(3)]).result(60)
    raw = _pypto.Worker("a2a3sim", capacity=1 << 20)
    registered(raw, core.add()).submit(*[torch.zeros(16, 16) for _ in range(3)]).result(60)
    print("end")
    """
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
