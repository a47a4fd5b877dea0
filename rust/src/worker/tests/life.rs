//! From open to close, with other threads and other processes around.

use super::fake::*;
use crate::arena::BufferState;
use crate::dtype::DType;
use crate::error::ErrorKind;
use crate::program::Dim::Symbol;
use crate::program::Direction::In;
use crate::worker::{FreeOutcome, Value, Worker, WorkerConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

#[test]
fn a_capacity_of_zero_is_refused() {
    let config = WorkerConfig {
        name: None,
        device: Box::new(Fake::adding()),
        capacity: 0,
        poison: false,
        packed_share: 0.5,
        residency: crate::worker::ResidencyMode::Off,
    };
    let error = Worker::open(config).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.to_string().contains("RunConfig(device_memory=...)"), "{error}");
}

#[test]
fn a_registration_of_another_worker_is_refused_with_both_named() {
    let (asked, other) = (Fake::adding().open(), Fake::adding().open());
    let theirs = other.register(add(4)).unwrap();
    let refused = [
        run(&asked, &theirs, &[]).unwrap_err(),
        asked.unregister(&theirs).unwrap_err(),
        asked.enter("run").unwrap().check(&theirs, &[]).unwrap_err(),
    ];
    let text = format!(
        "the registration of \"add\" belongs to {}, not to {}. Register the program on this worker",
        other.owner(),
        asked.owner()
    );
    for error in refused {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Value, "foreign_registration"));
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn arguments_are_checked_without_a_launch() {
    let worker = Fake::new(|_| panic!("nothing is launched")).open();
    let params = vec![tensor("a", DType::U8, &[Symbol(0)], In), scalar("n", DType::I32, None)];
    let registration = worker.register(program("mm", params)).unwrap();
    let mut data = [0; 4];
    let mut check = |value| worker.enter("run").unwrap().check(&registration, &[host(&mut data), value]);
    assert_eq!(check(Value::Int(-1)).unwrap(), [u64::MAX]);
    assert_eq!(check(Value::Bool(true)).unwrap_err().code(), "argument_type");
    assert_eq!(worker.counters().launches, 0);
    worker.close().unwrap();
    let error = worker.enter("run").unwrap().check(&registration, &[]).unwrap_err();
    assert_eq!(error.code(), "worker_closed");
}

#[test]
fn close_frees_what_was_forgotten_names_it_and_happens_once() {
    let fake = Fake::adding();
    let ended = fake.ended.clone();
    let worker = fake.open();
    let registration = worker.register(add(4)).unwrap();
    let forgotten = [(); 8].map(|()| worker.allocate(spec(&[512, 16], DType::F32)).unwrap());
    let raw = worker.malloc(100, None).unwrap();
    worker.free(&forgotten[3]).unwrap();
    let report = worker.close().unwrap();
    assert!(report.damage.is_none());
    let leaked: Vec<_> = report.leaked.iter().map(|buffer| buffer.addr()).collect();
    let mut expected: Vec<_> = forgotten.iter().map(|buffer| buffer.addr()).chain([raw]).collect();
    expected.remove(3);
    assert_eq!(leaked, expected);
    assert!(report.leaked[0].describe().ends_with("allocated at model.py:12"));
    assert_eq!(*ended.lock().unwrap(), ["add", "device"], "callables end before the device");

    assert!(worker.close().unwrap().leaked.is_empty());
    assert!(!worker.is_open());
    let after = worker.memory_report();
    assert_eq!((after.live, after.reserved, after.count()), (0, 0, 0));
    assert_eq!(forgotten[0].state(), BufferState::WorkerClosed);
    assert_eq!(worker.free(&forgotten[0]).unwrap(), FreeOutcome::AlreadyFreed);
    worker.unregister(&registration).unwrap();
}

#[test]
fn every_operation_of_a_closed_worker_says_what_to_do() {
    let worker = Fake::adding().open();
    let buffer = upload(&worker, &[1; 4]);
    worker.close().unwrap();
    let mut data = [0; 4];
    // SAFETY: four bytes each.
    let copies = unsafe {
        [
            ("alloc_tensor", worker.allocate_from(spec(&[4], DType::U8), data.as_ptr()).err()),
            ("copy_to", worker.copy_to(buffer.addr(), data.as_ptr(), 4).err()),
            ("copy_from", worker.copy_from(data.as_mut_ptr(), buffer.addr(), 4).err()),
        ]
    };
    let others = [
        ("alloc_tensor", worker.allocate(spec(&[4], DType::U8)).err()),
        ("malloc", worker.malloc(4, None).err()),
        ("free", worker.free_raw(buffer.addr()).err()),
        ("register", worker.register(add(4)).err()),
    ];
    for (operation, error) in copies.into_iter().chain(others) {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Runtime);
        let expected = format!("ChipWorker.{operation}() requires an initialized ChipWorker. Use `with chipworker:`");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn a_worker_that_is_dropped_unclosed_ends_its_buffers() {
    let fake = Fake::adding();
    let ended = fake.ended.clone();
    let worker = fake.open();
    let buffer = upload(&worker, &[1; 4]);
    drop(worker);
    assert_eq!(buffer.state(), BufferState::WorkerClosed);
    assert_eq!(*ended.lock().unwrap(), ["device"]);
}

#[test]
fn launches_of_many_threads_take_turns() {
    let busy = AtomicBool::new(false);
    let worker = Fake::new(move |launch| {
        assert!(!busy.swap(true, Ordering::SeqCst), "two launches at once");
        let tensor = &launch.tensors[0];
        write(tensor, 0, read(tensor, 0) + 1);
        busy.store(false, Ordering::SeqCst);
        Ok(())
    })
    .open();
    let count = program(
        "count",
        vec![tensor("n", DType::U8, &[crate::program::Dim::Const(1)], crate::program::Direction::InOut)],
    );
    let registration = worker.register(count).unwrap();
    let total = upload(&worker, &[0]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    run(&worker, &registration, &[resident(&total)]).unwrap();
                    let mine = worker.allocate(spec(&[100], DType::U8)).unwrap();
                    assert_eq!(worker.free(&mine).unwrap(), FreeOutcome::Freed);
                }
            });
        }
    });
    assert_eq!(download(&worker, &total), [200]);
}

#[test]
fn close_waits_for_the_running_launch_and_the_waiting_ones_get_an_error() {
    let (started, go_on) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
    let (begin, hold) = (started.clone(), go_on.clone());
    let finished = Arc::new(AtomicBool::new(false));
    let done = finished.clone();
    let worker = Fake::new(move |_| {
        begin.wait();
        while !hold.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Ordering::SeqCst);
        Ok(())
    })
    .open();
    let registration = worker.register(program("long", vec![])).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| run(&worker, &registration, &[]));
        started.wait();
        let second = scope.spawn(|| run(&worker, &registration, &[]));
        let closer = scope.spawn(|| {
            let report = worker.close();
            (report, finished.load(Ordering::SeqCst))
        });
        while worker.is_open() {
            thread::sleep(Duration::from_millis(1));
        }
        go_on.store(true, Ordering::SeqCst);
        first.join().unwrap().unwrap();
        let (report, was_finished) = closer.join().unwrap();
        assert!(report.unwrap().leaked.is_empty() && was_finished);
        assert_eq!(second.join().unwrap().unwrap_err().code(), "worker_closed");
    });
}

#[test]
fn a_forked_child_gets_an_error_at_once_even_while_the_worker_is_entered() {
    let worker = Fake::adding().open();
    let session = worker.enter("test").unwrap();
    // SAFETY: the child only calls what is tested and leaves without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |code: &str| code == "worker_forked";
        let answers = [
            worker.malloc(4, None).is_err_and(|error| refused(error.code()) && error.kind() == ErrorKind::Runtime),
            worker.close().is_err_and(|error| refused(error.code())),
            worker.try_enter("run").is_err_and(|error| error.to_string().contains("cannot be used after fork()")),
            worker.memory_report().capacity == 0,
            Fake::adding().open().malloc(4, None).is_ok(),
        ];
        drop(session);
        drop(worker);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if answers == [true; 5] { 0 } else { 1 }) };
    }
    drop(session);
    let mut status = 0;
    // SAFETY: waits for the child above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw something else than the error");
    assert!(worker.malloc(4, None).is_ok());
}
