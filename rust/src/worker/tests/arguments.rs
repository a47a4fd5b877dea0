//! What a launch accepts, and what it says about the rest.

use super::fake::*;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::program::Dim::{Const, Symbol};
use crate::program::Direction::{In, InOut, Out};
use crate::program::{Number, Param};
use crate::worker::{Value, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A worker and its one program, whose launches do nothing.
fn worker_for(params: Vec<Param>) -> impl Fn(&[Value<'_>]) -> Result<(), Error> {
    let worker = Fake::new(|_| Ok(())).open();
    let registration = worker.register(program("mm", params)).unwrap();
    move |args| run(&worker, &registration, args)
}

fn refusal(launch: &impl Fn(&[Value<'_>]) -> Result<(), Error>, args: &[Value<'_>]) -> (ErrorKind, String) {
    let error = launch(args).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn host_and_resident_tensors_are_refused_with_the_same_words() {
    let worker = Fake::new(|_| Ok(())).open();
    let registration =
        worker.register(program("mm", vec![tensor("w", DType::F16, &[Symbol(0), Const(4)], In)])).unwrap();
    let wrong: &[(&[u64], DType, &str)] = &[
        (
            &[2, 4],
            DType::F32,
            "Parameter 'w' expects dtype FP16 (torch.float16), got FP32 (torch.float32) in a launch of 'mm'. Convert it on the host with .to(torch.float16)",
        ),
        (
            &[2, 5],
            DType::F16,
            "Parameter 'w' expects shape (M, 4), got (2, 5) in a launch of 'mm'. Axis 1 must be 4, not 5",
        ),
        (
            &[8],
            DType::F16,
            "Parameter 'w' expects shape (M, 4), got (8,) in a launch of 'mm'. It must have 2 axes, not 1; .reshape() it, or .view() it on the device, where that is what you mean",
        ),
    ];
    let mut data = [0; 64];
    for (dims, dtype, text) in wrong {
        let buffer = worker.allocate(spec(dims, *dtype)).unwrap();
        for value in [host_as(&mut data, dims, *dtype), resident(&buffer)] {
            let error = run(&worker, &registration, &[value]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Type, "{error}");
            assert_eq!(error.to_string(), *text);
        }
    }
}

#[test]
fn an_output_of_the_wrong_type_is_not_advised_to_be_converted() {
    let launch = worker_for(vec![tensor("c", DType::F16, &[Const(4)], Out)]);
    let (_, text) = refusal(&launch, &[host_as(&mut [0; 16], &[4], DType::F32)]);
    assert!(text.ends_with("Allocate it as torch.float16"), "{text}");
}

#[test]
fn one_symbol_is_one_extent_in_a_launch_and_may_differ_in_the_next() {
    let param = |name, axes: &[_]| tensor(name, DType::U8, axes, In);
    let launch = worker_for(vec![param("a", &[Symbol(0), Symbol(1)]), param("b", &[Symbol(1)])]);
    let (mut a, mut b) = ([0; 64], [0; 64]);
    for (rows, cols) in [(2, 3), (5, 7)] {
        launch(&[host_as(&mut a, &[rows, cols], DType::U8), host_as(&mut b, &[cols], DType::U8)]).unwrap();
    }
    let args = [host_as(&mut a, &[2, 3], DType::U8), host_as(&mut b, &[4], DType::U8)];
    let (kind, text) = refusal(&launch, &args);
    assert_eq!(kind, ErrorKind::Value);
    assert!(
        text.starts_with("Parameter 'b' of 'mm': axis 0 is 4, but N is 3 in this launch (said by parameter 'a')"),
        "{text}"
    );
}

#[test]
fn the_number_of_arguments_must_be_right() {
    let launch = worker_for(vec![tensor("a", DType::U8, &[Const(4)], In), scalar("n", DType::I32, None)]);
    let (kind, text) = refusal(&launch, &[Value::Int(1)]);
    assert_eq!(kind, ErrorKind::Type);
    assert_eq!(text, "\"mm\" expects 2 arguments, got 1. Parameters: ['a', 'n']");
}

#[test]
fn tensors_and_scalars_do_not_stand_for_each_other() {
    let launch = worker_for(vec![tensor("a", DType::U8, &[Symbol(0), Const(4)], In), scalar("n", DType::I32, None)]);
    let mut data = [0; 4];
    let (kind, text) = refusal(&launch, &[Value::Int(3), Value::Int(1)]);
    assert_eq!(kind, ErrorKind::Type);
    assert!(
        text.starts_with("Parameter 'a' expects a UINT8 tensor of shape (M, 4), got the int 3 in a launch of 'mm'"),
        "{text}"
    );
    let a = host_as(&mut data, &[1, 4], DType::U8);
    let (kind, text) = refusal(&launch, &[a, a]);
    assert_eq!(kind, ErrorKind::Type);
    assert!(text.starts_with("Parameter 'n' of 'mm' expects a scalar of type INT32, got a tensor"), "{text}");
    assert_eq!(refusal(&launch, &[a, Value::Bool(true)]).0, ErrorKind::Type);
    assert_eq!(refusal(&launch, &[a, Value::Int(1 << 31)]).0, ErrorKind::Overflow);
}

#[test]
fn scalars_reach_the_device_as_bits_and_a_baked_one_must_be_the_value_of_the_program() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = seen.clone();
    let worker = Fake::new(move |launch| {
        sink.lock().unwrap().extend_from_slice(launch.scalars);
        Ok(())
    })
    .open();
    let params =
        vec![scalar("i", DType::I8, None), scalar("f", DType::F32, None), scalar("k", DType::I8, Some(Number::Int(9)))];
    let registration = worker.register(program("mm", params)).unwrap();
    run(&worker, &registration, &[Value::Int(-1), Value::Float(0.5), Value::Int(9)]).unwrap();
    assert_eq!(*seen.lock().unwrap(), [u64::MAX, u64::from(0.5f32.to_bits()), 9]);
    let wrong = run(&worker, &registration, &[Value::Int(-1), Value::Float(0.5), Value::Bool(true)]);
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Type);
    for other in [8, 1000] {
        let error = run(&worker, &registration, &[Value::Int(-1), Value::Float(0.5), Value::Int(other)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        assert!(error.to_string().starts_with("Parameter 'k' of 'mm' was compiled for 9"), "{error}");
    }
}

#[test]
fn unsupported_and_read_only_tensors_are_refused_with_advice() {
    let launch = worker_for(vec![tensor("c", DType::U8, &[Symbol(0)], InOut)]);
    let (kind, text) = refusal(&launch, &[read_only(&[1, 2])]);
    assert_eq!(kind, ErrorKind::Value);
    assert!(text.contains("read-only") && text.contains("a copy"), "{text}");
    let launch = worker_for(vec![tensor("d", DType::F64, &[Symbol(0)], In)]);
    let (kind, text) = refusal(&launch, &[host_as(&mut [0; 8], &[1], DType::F64)]);
    assert_eq!(kind, ErrorKind::Value);
    assert!(text.contains("Unsupported DeviceTensor dtype FP64"), "{text}");
    let (_, text) = refusal(&launch, &[host_as(&mut [0; 8], &[1 << 61], DType::F64)]);
    assert!(text.contains("'d'"), "{text}");
}

#[test]
fn an_empty_batch_runs_only_where_a_result_has_elements() {
    let ran = Arc::new(AtomicU32::new(0));
    let count = ran.clone();
    let worker = Fake::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
    .open();
    let params = vec![tensor("a", DType::U8, &[Symbol(0)], In), tensor("c", DType::U8, &[Symbol(1)], Out)];
    let registration = worker.register(program("mm", params)).unwrap();
    let launch = |a: &mut [u8], c: &mut [u8]| run(&worker, &registration, &[host(a), host(c)]).unwrap();
    launch(&mut [1], &mut []);
    launch(&mut [], &mut []);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    let mut sum = [9];
    launch(&mut [], &mut sum);
    assert_eq!((ran.load(Ordering::Relaxed), sum), (1, [0]));
    let counters = worker.counters();
    assert_eq!((counters.launches, counters.h2d_bytes, counters.d2h_bytes), (3, 0, 1));
}

#[test]
fn a_declared_extent_cannot_be_zero_in_a_launch() {
    let launch = worker_for(vec![tensor("c", DType::U8, &[Symbol(0), Const(4)], Out)]);
    let (kind, text) = refusal(&launch, &[host_as(&mut [0; 8], &[2, 0], DType::U8)]);
    assert_eq!(kind, ErrorKind::Type);
    assert!(
        text.contains("Parameter 'c' expects shape (M, 4), got (2, 0) in a launch of 'mm'. Axis 1 must be 4, not 0"),
        "{text}"
    );
}

#[test]
fn a_view_must_lie_in_its_buffer() {
    let worker = Fake::new(|_| Ok(())).open();
    let registration = worker.register(program("mm", vec![tensor("a", DType::U8, &[Symbol(0)], In)])).unwrap();
    let buffer = worker.allocate(spec(&[10, 10], DType::U8)).unwrap();
    let [whole, longer] = [100, 101].map(|length| shape(&[length]));
    let view = |shape| Value::Resident { buffer: &buffer, offset: 0, shape, dtype: DType::U8 };
    run(&worker, &registration, &[view(&whole)]).unwrap();
    let error = run(&worker, &registration, &[view(&longer)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(
        error.to_string().contains("a view of 101 bytes exceeds the 100-byte backing of UINT8 (10, 10)"),
        "{error}"
    );
}

#[test]
fn what_the_program_writes_overlaps_nothing() {
    let dims = [Const(16)];
    let param = |name, direction| tensor(name, DType::U8, &dims, direction);
    let params = || vec![param("a", In), param("b", In), param("c", Out), param("d", InOut)];
    let worker = Fake::new(|_| Ok(())).open();
    let registration = worker.register(program("mm", params())).unwrap();
    let mut data = [0u8; 128];
    let base = data.as_mut_ptr();
    let at = |offset: usize| {
        // SAFETY: only the address is used; the fake program touches nothing.
        host(unsafe { std::slice::from_raw_parts_mut(base.add(offset), 16) })
    };
    let launch = |offsets: [usize; 4]| run(&worker, &registration, &offsets.map(at));
    launch([0, 16, 32, 48]).unwrap();
    launch([0, 0, 32, 16]).unwrap();
    launch([8, 0, 24, 64]).unwrap();
    for (offsets, written, other) in [
        ([0, 16, 15, 64], "c", "a"),
        ([0, 32, 31, 64], "c", "b"),
        ([0, 16, 32, 47], "d", "c"),
        ([0, 16, 32, 32], "d", "c"),
        ([40, 0, 64, 30], "d", "a"),
    ] {
        let error = launch(offsets).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value);
        let names = ["'c'", "'d'", "'a'", "'b'"].map(|name| error.to_string().contains(name));
        let expected = ["c", "d", "a", "b"].map(|name| name == written || name == other);
        assert_eq!(names, expected, "{offsets:?}: {error}");
        assert!(error.to_string().contains("Pass separate memory"), "{error}");
    }
}

#[test]
fn a_resident_tensor_may_be_read_twice_but_not_read_and_written() {
    let worker = Fake::adding().open();
    let registration = worker.register(add(4)).unwrap();
    let (a, c) = (upload(&worker, &[1, 2, 3, 4]), upload(&worker, &[0; 4]));
    run(&worker, &registration, &[resident(&a), resident(&a), resident(&c)]).unwrap();
    assert_eq!(download(&worker, &c), [2, 4, 6, 8]);
    let error = run(&worker, &registration, &[resident(&a), resident(&c), resident(&c)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.to_string().starts_with("Parameter 'c' of 'add' is written by the program"), "{error}");
}

#[test]
fn each_way_to_lose_a_buffer_has_its_own_error() {
    let worker: Arc<Worker> = Fake::adding().open();
    let registration = worker.register(add(4)).unwrap();
    let good = upload(&worker, &[0; 4]);
    let out = upload(&worker, &[0; 4]);
    let freed = upload(&worker, &[0; 4]);
    worker.free(&freed).unwrap();
    let alive = Fake::adding().open();
    let foreign = upload(&alive, &[0; 4]);
    let gone = Fake::adding().open();
    let stale = upload(&gone, &[0; 4]);
    gone.close().unwrap();

    for (buffer, code, word, owner) in [
        (&freed, "freed_buffer", "was freed", worker.owner()),
        (&foreign, "foreign_buffer", "belongs to", alive.owner()),
        (&stale, "stale_buffer", "was closed", gone.owner()),
    ] {
        let error = run(&worker, &registration, &[resident(&good), resident(buffer), resident(&out)]).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Value, code));
        let text = error.to_string();
        assert!(text.starts_with("Parameter 'b' of 'add': UINT8 (4,) at 0x"), "{text}");
        assert!(text.contains("allocated at model.py:12"), "{text}");
        assert!(text.contains("is not a live allocation owned by this ChipWorker"), "{text}");
        for part in [word, &worker.owner().to_string(), &owner.to_string()] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
    worker.close().unwrap();
    let error = run(&worker, &registration, &[resident(&good), resident(&good), resident(&out)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Runtime);
    let expected =
        "ChipWorker.run() requires an initialized ChipWorker. Use `with chipworker:` or call ...init() first.";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_registration_runs_on_its_worker_only() {
    let (first, second) = (Fake::adding().open(), Fake::adding().open());
    let registration = first.register(add(4)).unwrap();
    let error = run(&second, &registration, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    let text = error.to_string();
    assert!(text.contains(&first.owner().to_string()) && text.contains(&second.owner().to_string()), "{text}");
}
