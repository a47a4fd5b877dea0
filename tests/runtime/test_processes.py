"""Ctrl-C, fork, and the end of the process. Each case is a process of its own."""

import pytest
from scripts import output_of, run_script


def test_ctrl_c_ends_a_launch_within_half_a_second_and_the_worker_goes_on() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless, add = registered(device, core.endless()), registered(device, core.add())
    for _ in range(2):
        interrupt_after(0.3)
        begin = time.monotonic()
        try:
            endless(*small, FOREVER)
            print("ended")
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 0.3 + 0.5
            print("interrupted")
        a, b, c = torch.randn(16, 16), torch.randn(16, 16), torch.empty(16, 16)
        add(a, b, c)
        print(torch.equal(c, a + b))
    device.close()
    """
    assert output_of(script).split() == ["interrupted", "True"] * 2


def test_what_a_signal_handler_raises_ends_the_launch() -> None:
    script = """
    class Stop(Exception):
        pass

    def handler(*_):
        raise Stop("from the handler")

    signal.signal(signal.SIGINT, handler)
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    interrupt_after(0.2)
    try:
        registered(device, core.endless())(*small, FOREVER)
    except Stop as error:
        print(error)
    """
    assert output_of(script) == "from the handler\n"


def test_a_handler_that_only_notes_the_signal_does_not_end_the_launch() -> None:
    script = """
    noted = []
    signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless = registered(device, core.endless())
    count, seconds = 1 << 16, 0.0
    while seconds < 0.5:
        noted.clear()
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        endless(*small, count)
        seconds = time.monotonic() - begin
        timer.join()
        count *= 2
    print(len(noted), torch.equal(small[2], small[0] + small[1]))
    """
    assert output_of(script) == "1 True\n"


def test_ctrl_c_ends_the_wait_for_a_launch_of_another_thread() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless = registered(device, core.endless())
    running = threading.Thread(target=lambda: endless(*small, FOREVER), daemon=True)
    running.start()
    time.sleep(0.2)
    interrupt_after(0.3)
    begin = time.monotonic()
    try:
        device.malloc(4)
    except KeyboardInterrupt:
        assert time.monotonic() - begin < 0.3 + 0.5
        print("interrupted")
    device.close(stop=True)
    """
    assert output_of(script) == "interrupted\n"


def test_other_threads_run_while_the_device_works() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless = registered(device, core.endless())
    thread = threading.Thread(target=lambda: endless(*small, FOREVER), daemon=True)
    thread.start()
    begin = time.monotonic()
    ticks = 0
    while time.monotonic() - begin < 1.0:
        time.sleep(0.001)
        ticks += 1
    # A thread that holds the interpreter would allow a few of them: one for each time it looks for signals.
    print(ticks > 100)
    device.close(stop=True)
    """
    assert output_of(script) == "True\n"


def test_a_forked_child_gets_an_error_instead_of_a_hang() -> None:
    script = """
    worker = ChipWorker()
    device = worker._impl
    handle = registered(device, core.add())
    tensor = worker.alloc_tensor((16, 16), torch.float32)
    tensors = [torch.zeros(16, 16) for _ in range(3)]
    child = os.fork()
    if child == 0:
        for call in (
            lambda: handle(*tensors),
            lambda: worker.alloc_tensor((16,), torch.float32),
            lambda: worker.free_tensor(tensor),
            lambda: worker.malloc(4),
            lambda: worker.copy_to(tensor, tensors[0]),
            lambda: worker.memory_report(),
            lambda: tensor.to_host(),
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
        own(*tensors)
        worker.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    handle(*tensors)
    print("the parent goes on")
    """
    done = run_script(script)
    assert (done.returncode, done.stdout) == (0, "the parent goes on\n"), done.stderr


def test_a_child_that_is_forked_while_a_launch_runs_gets_the_error_too() -> None:
    script = """
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    endless = registered(device, core.endless())
    threading.Thread(target=lambda: endless(*small, FOREVER), daemon=True).start()
    time.sleep(0.2)
    child = os.fork()
    if child == 0:
        try:
            device.malloc(4)
        except RuntimeError:
            sys.exit(7)
        sys.exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    device.close(stop=True)
    """
    output_of(script)


@pytest.mark.parametrize("entered", [False, True], ids=["constructed", "entered"])
def test_a_process_ends_with_an_open_worker(entered: bool) -> None:
    script = f"""
    worker = ChipWorker()
    if {entered}:
        worker.__enter__()
    tensor = worker.alloc_tensor((16, 16), torch.float32)
    handle = registered(worker._impl, core.add())
    print("end")
    """
    done = run_script(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_process_ends_while_daemon_threads_launch_and_wait() -> None:
    script = """
    worker = ChipWorker()
    endless, add = (registered(worker._impl, program) for program in (core.endless(), core.add()))
    stopped = []

    def launch(handle, *args):
        try:
            handle(*args)
        except RuntimeError as error:
            os.write(1, f"{error}\\n".encode())

    threading.Thread(target=launch, args=(endless, *small, FOREVER), daemon=True).start()
    time.sleep(0.2)
    tensors = [torch.zeros(16, 16) for _ in range(3)]
    for _ in range(3):
        threading.Thread(target=launch, args=(add, *tensors), daemon=True).start()
    time.sleep(0.1)
    """
    done = run_script(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the launch was stopped: its ChipWorker is being closed at exit" in done.stdout


def test_a_process_that_dies_by_an_exception_ends() -> None:
    done = run_script("""
    worker = ChipWorker()
    tensor = worker.alloc_tensor((16, 16), torch.float32)
    raise ValueError("the program's own")
    """)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "ValueError: the program's own"
