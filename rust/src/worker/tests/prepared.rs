//! Prepared launches: the same results and the same refusals as plain ones.

use super::fake::*;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::program::Dim::Symbol;
use crate::program::Direction::{In, Out};
use crate::worker::{HostTensor, Kept, Prepared, Registration, Value, Worker, WorkerError};
use std::sync::{Arc, Mutex};

fn prepare(worker: &Worker, registration: &Arc<Registration>, args: &[Value<'_>]) -> Result<Prepared> {
    worker.enter("bind")?.prepare(registration, args.iter().map(|&arg| Kept::from(arg)).collect())
}

fn update(worker: &Worker, prepared: &Prepared, changes: &[(usize, Value<'_>)]) -> Result<()> {
    let changes = changes.iter().map(|&(param, arg)| (param, Kept::from(arg))).collect();
    worker.enter("update")?.update(prepared, changes)
}

fn launch(worker: &Worker, prepared: &Prepared, hosts: &[(usize, HostTensor)]) -> Result<bool> {
    // SAFETY: the host tensors of the tests outlive the call.
    unsafe { worker.enter("run")?.launch_prepared(prepared, hosts, &mut || true) }
}

fn host_tensor(value: Value<'_>) -> HostTensor {
    let Value::Host(host) = value else { panic!("{value:?} is no host tensor") };
    host
}

#[test]
fn it_runs_with_what_the_buffers_hold_then_and_with_what_replaced_them() {
    let worker = Fake::adding().open();
    let registration = worker.register(add(3)).unwrap();
    let [a, b, c, other] = [[1; 3], [2; 3], [0; 3], [10; 3]].map(|data| upload(&worker, &data));
    let prepared = prepare(&worker, &registration, &[resident(&a), resident(&b), resident(&c)]).unwrap();
    assert!(launch(&worker, &prepared, &[]).unwrap());
    assert_eq!(download(&worker, &c), [3; 3]);
    update(&worker, &prepared, &[(0, resident(&other))]).unwrap();
    assert!(launch(&worker, &prepared, &[]).unwrap());
    assert_eq!(download(&worker, &c), [12; 3]);
    update(&worker, &prepared, &[(2, resident(&b)), (1, resident(&c))]).unwrap();
    assert!(launch(&worker, &prepared, &[]).unwrap());
    assert_eq!(download(&worker, &b), [22; 3]);
}

#[test]
fn host_tensors_are_those_of_the_call() {
    let worker = Fake::adding().open();
    let registration = worker.register(add(3)).unwrap();
    let (mut first, mut second, mut out) = ([1; 3], [5; 3], [0; 3]);
    let b = upload(&worker, &[2; 3]);
    let prepared = prepare(&worker, &registration, &[host(&mut first), resident(&b), host(&mut out)]).unwrap();
    for (data, expected) in [(&mut first, 3), (&mut second, 7)] {
        let hosts = [(0, host_tensor(host(data))), (2, host_tensor(host(&mut out)))];
        assert!(launch(&worker, &prepared, &hosts).unwrap());
        assert_eq!(out, [expected; 3]);
    }
    let hosts = [(1, host_tensor(host(&mut first))), (2, host_tensor(host(&mut out)))];
    assert!(!launch(&worker, &prepared, &hosts).unwrap(), "parameter 1 has no host tensor");
    assert!(!launch(&worker, &prepared, &[]).unwrap(), "two parameters have host tensors");
    let same = host_tensor(host(&mut out));
    let error = launch(&worker, &prepared, &[(0, same), (2, same)]).unwrap_err();
    assert!(error.to_string().contains("its memory overlaps that of parameter 'a'"), "{error}");
    let error = launch(&worker, &prepared, &[(0, same), (2, same)]).unwrap_err();
    assert!(error.to_string().contains("its memory overlaps that of parameter 'a'"), "the second time too: {error}");
}

#[test]
fn what_was_freed_or_is_refused_never_runs() {
    let worker = Fake::adding().open();
    let registration = worker.register(add(3)).unwrap();
    let [a, b, c, gone] = [[1; 3], [2; 3], [0; 3], [10; 3]].map(|data| upload(&worker, &data));
    worker.free(&gone).unwrap();
    let prepared = prepare(&worker, &registration, &[resident(&a), resident(&b), resident(&c)]).unwrap();
    for (changes, text) in [
        (vec![(0, resident(&gone))], "it was freed"),
        (vec![(1, resident(&a)), (0, resident(&c))], "its memory overlaps"),
        (vec![(0, Value::Int(3))], "Parameter 'a' expects a UINT8 tensor of shape (3,), got the int 3"),
    ] {
        let error = update(&worker, &prepared, &changes).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        launch(&worker, &prepared, &[]).unwrap();
        assert_eq!(download(&worker, &c), [3; 3], "a refused update changed something");
    }
    worker.free(&b).unwrap();
    for _ in 0..2 {
        let error = launch(&worker, &prepared, &[]).unwrap_err();
        assert!(matches!(error, Error::Worker(WorkerError::FreedBuffer { .. })), "{error}");
    }
    update(&worker, &prepared, &[(1, resident(&a))]).unwrap();
    assert!(launch(&worker, &prepared, &[]).unwrap());
    assert_eq!(download(&worker, &c), [2; 3]);
    worker.close().unwrap();
    let error = launch(&worker, &prepared, &[]).unwrap_err();
    assert!(matches!(error, Error::Worker(WorkerError::Closed { .. })), "{error}");
}

#[test]
fn another_worker_does_not_launch_it() {
    let [worker, other] = [Fake::adding().open(), Fake::adding().open()];
    let registration = worker.register(add(3)).unwrap();
    let [a, b, c] = [[1; 3], [2; 3], [0; 3]].map(|data| upload(&worker, &data));
    let prepared = prepare(&worker, &registration, &[resident(&a), resident(&b), resident(&c)]).unwrap();
    let error = launch(&other, &prepared, &[]).unwrap_err();
    assert!(matches!(error, Error::Worker(WorkerError::ForeignRegistration { .. })), "{error}");
}

#[test]
fn the_device_is_told_a_repetition_only_where_extents_and_scalars_are_those_that_it_saw_last() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let worker = Fake::new(move |launch| {
        log.lock().unwrap().push(launch.repeats);
        Ok(())
    })
    .open();
    let dims = [Symbol(0)];
    let params =
        vec![tensor("x", DType::U8, &dims, In), tensor("y", DType::U8, &dims, Out), scalar("n", DType::I32, None)];
    let registration = worker.register(program("p", params)).unwrap();
    let [x, y, other] = [[1; 3], [2; 3], [3; 3]].map(|data| upload(&worker, &data));
    let [long_x, long_y] = [[1; 5], [2; 5]].map(|data| upload(&worker, &data));
    let three = |n| [resident(&x), resident(&y), Value::Int(n)];
    let short = prepare(&worker, &registration, &three(1)).unwrap();
    let twin = prepare(&worker, &registration, &three(1)).unwrap();
    let long = prepare(&worker, &registration, &[resident(&long_x), resident(&long_y), Value::Int(1)]).unwrap();
    let expect = |step: &str, repeats: bool, run: &dyn Fn()| {
        told.lock().unwrap().clear();
        run();
        assert_eq!(*told.lock().unwrap(), [repeats], "{step}");
    };
    let prepared = |prepared: &Prepared| assert!(launch(&worker, prepared, &[]).unwrap());
    expect("the first launch", false, &|| prepared(&short));
    expect("the same again", true, &|| prepared(&short));
    expect("another one like it", true, &|| prepared(&twin));
    expect("other extents", false, &|| prepared(&long));
    expect("the first extents again", false, &|| prepared(&short));
    update(&worker, &short, &[(0, resident(&other))]).unwrap();
    expect("another buffer", true, &|| prepared(&short));
    update(&worker, &short, &[(2, Value::Int(2))]).unwrap();
    expect("another number", false, &|| prepared(&short));
    expect("the old number", false, &|| prepared(&twin));
    expect("a plain launch of other extents", false, &|| {
        run(&worker, &registration, &[resident(&long_x), resident(&long_y), Value::Int(7)]).unwrap();
    });
    expect("after it", false, &|| prepared(&twin));
}
