//! A device that fails, and programs that write where they should not: the worker stays usable and nothing is lost.

use super::fake::*;
use crate::device::DeviceError;
use crate::error::ErrorKind;
use crate::program::Loc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_program_that_does_not_compile_leaves_nothing_behind() {
    let mut fake = Fake::adding();
    fake.refuses = true;
    let worker = fake.open();
    let before = worker.memory_report();
    for _ in 0..3 {
        let error = worker.register(add(4)).unwrap_err();
        assert_eq!(error.to_string(), "the fake compiler is out of order");
    }
    assert_eq!(worker.memory_report().free, before.free);
    assert_eq!(worker.counters().registrations, 0);
}

#[test]
fn a_program_whose_scratch_memory_does_not_fit_is_refused_and_can_be_registered_later() {
    let mut fake = Fake::adding();
    fake.scratch = 48 << 10;
    let worker = fake.open_with(64 << 10, false);
    let big = worker.allocate(spec(&[32 << 10], crate::dtype::DType::U8)).unwrap();
    assert_eq!(worker.register(add(4)).unwrap_err().kind(), ErrorKind::Memory);
    worker.free(&big).unwrap();
    assert_eq!(worker.register(add(4)).unwrap().cid(), 0);
}

#[test]
fn a_launch_that_fails_copies_nothing_out_and_the_next_one_works() {
    let fails = Arc::new(AtomicBool::new(true));
    let switch = fails.clone();
    let worker = Fake::new(move |launch| {
        write(&launch.tensors[2], 0, 5);
        launch.workspace.reserve(1000)?;
        if !switch.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (program, file) = ("add".into(), "kernel.py".into());
        Err(DeviceError::Fault { program, file, at: Loc(0, 3, 0), message: "row 5 of 4".into() })
    })
    .open();
    let registration = worker.register(add(4)).unwrap();
    let (mut a, mut b, mut c) = ([0; 4], [0; 4], [9; 4]);
    let mut launch = || run(&worker, &registration, &[host(&mut a), host(&mut b), host(&mut c)]);
    let error = launch().unwrap_err();
    assert_eq!(error.to_string(), "add: kernel.py:3: row 5 of 4");
    let kept = worker.memory_report();
    for _ in 0..10 {
        launch().unwrap_err();
    }
    assert_eq!(worker.memory_report().free, kept.free, "failed launches do not pile up memory");
    fails.store(false, Ordering::Relaxed);
    launch().unwrap();
    assert_eq!(c, [5, 0, 0, 0]);
    assert_eq!(worker.counters().launches, 1);
    assert_eq!(worker.counters().d2h_bytes, 4);
}

#[test]
fn an_interrupted_launch_leaves_the_worker_usable() {
    let worker = Fake::new(|launch| {
        if (launch.poll)() { Ok(()) } else { Err(DeviceError::Interrupted { what: "the launch of \"add\"".into() }) }
    })
    .open();
    let registration = worker.register(add(4)).unwrap();
    let buffers = [(); 3].map(|()| upload(&worker, &[1; 4]));
    let args = [resident(&buffers[0]), resident(&buffers[1]), resident(&buffers[2])];
    // SAFETY: there are no host tensors.
    let error = unsafe { worker.launch(&registration, &args, &mut || false) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    run(&worker, &registration, &args).unwrap();
}

#[test]
fn a_kernel_that_panics_does_not_lock_the_others_out() {
    let worker = Fake::new(|launch| {
        assert!(launch.scalars.is_empty(), "the scalar makes it panic");
        Ok(())
    })
    .open();
    let bad = worker.register(program("bad", vec![scalar("n", crate::dtype::DType::I32, None)])).unwrap();
    let good = worker.register(program("good", vec![])).unwrap();
    let panics = std::panic::AssertUnwindSafe(|| run(&worker, &bad, &[crate::worker::Value::Int(1)]));
    assert!(std::panic::catch_unwind(panics).is_err());
    run(&worker, &good, &[]).unwrap();
    assert!(worker.close().unwrap().leaked.is_empty());
}

#[test]
fn poison_names_the_buffer_or_parameter_that_was_overrun() {
    let worker = Fake::new(|launch| {
        write(&launch.tensors[2], 6, 1);
        Ok(())
    })
    .open_with(1 << 20, true);
    let registration = worker.register(add(4)).unwrap();
    let [a, b, c] = [(); 3].map(|()| upload(&worker, &[1; 4]));
    let error = run(&worker, &registration, &[resident(&a), resident(&b), resident(&c)]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Runtime, "guard_violated"));
    let text = error.to_string();
    assert!(text.starts_with("found after a launch of 'add': memory behind the end of UINT8 (4,)"), "{text}");
    assert!(
        text.contains(&c.addr().to_string()) && text.ends_with("6 bytes from its base, 2 behind its end"),
        "{text}"
    );

    let mut out = [0; 4];
    let error = run(&worker, &registration, &[resident(&a), resident(&b), host(&mut out)]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Runtime, "guard_violated"));
    let expected =
        "\"add\" wrote behind the end of parameter 'c': the first bad byte is 6 bytes from its start, 2 behind its end";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn close_finds_an_overrun_too_and_closes_nevertheless() {
    let worker = Fake::adding().open_with(1 << 20, true);
    let buffer = upload(&worker, &[1; 4]);
    {
        let session = worker.enter("test").unwrap();
        let open = session.open.as_ref().unwrap();
        // SAFETY: the guard follows the four bytes.
        unsafe { open.arena.pointer(&buffer).add(5).write(0) };
    }
    let report = worker.close().unwrap();
    assert!(report.damage.unwrap().to_string().starts_with("found at close"));
    assert_eq!(report.leaked.len(), 1);
}
