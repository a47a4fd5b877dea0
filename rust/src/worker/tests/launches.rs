//! What a launch copies, keeps and leaves behind.

use super::fake::*;
use crate::device::DeviceError;
use crate::dtype::DType;
use crate::program::Dim::{Const, Symbol};
use crate::program::Direction::{In, InOut, Out};
#[cfg(not(feature = "trace-off"))]
use crate::trace;
use crate::worker::{Counters, Value, Worker};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

#[test]
fn directions_decide_what_is_copied() {
    let worker = Fake::new(|launch| {
        write(&launch.tensors[1], 0, read(&launch.tensors[0], 0));
        write(&launch.tensors[2], 0, read(&launch.tensors[2], 0) + 1);
        Ok(())
    })
    .open();
    let params =
        [("a", In), ("b", Out), ("c", InOut)].map(|(name, direction)| tensor(name, DType::U8, &[Symbol(0)], direction));
    let registration = worker.register(program("k", params.into())).unwrap();
    let counted = |args: &[Value<'_>]| {
        let before = worker.counters();
        run(&worker, &registration, args).unwrap();
        let after = worker.counters();
        (after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes)
    };
    let (a, mut b, mut c) = ([7; 100], [0xee; 100], [40; 100]);
    assert_eq!(counted(&[read_only(&a), host(&mut b), host(&mut c)]), (200, 200));
    assert_eq!((b[0], c[0], c[99]), (7, 41, 40));
    assert_eq!(b[1..], [0; 99], "an output is not uploaded, and what the program leaves alone is zero");

    let [da, db, dc] = [&a, &b, &c].map(|data| upload(&worker, data));
    assert_eq!(counted(&[resident(&da), resident(&db), resident(&dc)]), (0, 0));
    assert_eq!(download(&worker, &dc)[0], 42);
    assert_eq!(counted(&[resident(&da), host(&mut b), resident(&dc)]), (0, 100));
    let Counters { launches, registrations, .. } = worker.counters();
    assert_eq!((launches, registrations), (3, 1));
}

#[test]
fn an_upload_is_a_snapshot() {
    let worker = Fake::adding().open();
    let registration = worker.register(add(4)).unwrap();
    let mut data = vec![3; 4];
    let weight = upload(&worker, &data);
    data.fill(99);
    drop(data);
    for k in 0..5 {
        let (mut x, mut out) = ([k; 4], [0; 4]);
        run(&worker, &registration, &[host(&mut x), resident(&weight), host(&mut out)]).unwrap();
        assert_eq!(out, [k + 3; 4]);
    }
}

#[test]
fn results_of_an_earlier_launch_do_not_come_back() {
    for (poison, unwritten) in [(false, 0), (true, 0xff)] {
        let worker = Fake::new(|launch| {
            let rows = bytes(&launch.tensors[0]) / 2;
            (0..rows).for_each(|index| write(&launch.tensors[0], index, 1));
            Ok(())
        })
        .open_with(1 << 20, poison);
        let old = upload(&worker, &[7; 1000]);
        worker.free(&old).unwrap();
        let registration = worker.register(program("half", vec![tensor("c", DType::U8, &[Symbol(0)], Out)])).unwrap();
        let fresh = worker.allocate(spec(&[1000], DType::U8)).unwrap();
        run(&worker, &registration, &[resident(&fresh)]).unwrap();
        let expected = [[1; 500], [unwritten; 500]].concat();
        assert_eq!(download(&worker, &fresh), expected);
        for length in [2000, 1000] {
            let mut out = vec![9; length];
            run(&worker, &registration, &[host(&mut out)]).unwrap();
            assert_eq!(out, [vec![1; length / 2], vec![unwritten; length / 2]].concat());
        }
    }
}

#[test]
fn two_programs_take_turns() {
    let worker = Fake::adding().open();
    let sum = worker.register(add(4)).unwrap();
    let double = worker
        .register(program(
            "double",
            vec![tensor("a", DType::U8, &[Const(4)], In), tensor("b", DType::U8, &[Const(4)], Out)],
        ))
        .unwrap();
    assert_eq!((sum.cid(), double.cid()), (0, 1));
    assert_ne!(sum.content_id(), double.content_id());
    for _ in 0..100 {
        let (mut a, mut b, mut out) = ([2; 4], [3; 4], [0; 4]);
        run(&worker, &sum, &[host(&mut a), host(&mut b), host(&mut out)]).unwrap();
        assert_eq!(out, [5; 4]);
        run(&worker, &double, &[host(&mut a), host(&mut out)]).unwrap();
        assert_eq!(out, [2; 4]);
    }
}

#[test]
fn equal_programs_share_a_registration() {
    let worker = Fake::adding().open();
    let first = worker.register(add(4)).unwrap();
    assert!(Arc::ptr_eq(&first, &worker.register(add(4)).unwrap()));
    assert!(Arc::ptr_eq(&first, &worker.register(first.program().clone()).unwrap()));
    assert_eq!(worker.register(add(5)).unwrap().cid(), 1);
    assert_eq!(worker.counters().registrations, 2);
    let again = Fake::adding().open().register(add(4)).unwrap();
    assert_eq!(again.content_id(), first.content_id());
}

#[test]
fn memory_that_launches_keep_is_counted_reused_and_given_back() {
    let places = Arc::new(Mutex::new(Vec::new()));
    let sink = places.clone();
    let mut fake = Fake::new(move |launch| {
        let created = launch.workspace.reserve(5000).unwrap();
        let place = [launch.tensors[0].data, launch.scratch, created].map(|pointer| pointer as usize);
        assert_eq!(place.map(|place| place % 256), [0; 3]);
        sink.lock().unwrap().push(place);
        Ok(())
    });
    fake.scratch = 3000;
    let worker = fake.open();
    let registration = worker.register(program("k", vec![tensor("a", DType::U8, &[Symbol(0)], In)])).unwrap();
    let mut data = vec![0; 10_000];
    for length in [1000, 1000, 1100, 10_000, 1000] {
        run(&worker, &registration, &[host(&mut data[..length])]).unwrap();
    }
    let seen = places.lock().unwrap().clone();
    assert!(seen[..3].windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    assert!(seen.iter().all(|place| place[1..] == seen[0][1..]), "{seen:?}");
    assert_eq!(seen[3], seen[4]);
    let report = worker.memory_report();
    assert_eq!(report.scratch, 3072 + 5120);
    assert!((10_000..13_000).contains(&report.staging), "{}", report.staging);
    assert_eq!((report.live, report.count()), (0, 0));
    worker.unregister(&registration).unwrap();
    assert_eq!(worker.memory_report().staging, 0);
    run(&worker, &registration, &[host(&mut data)]).unwrap();
}

#[test]
fn what_launches_keep_gives_way_to_an_allocation() {
    let worker = Fake::adding().open_with(64 << 10, false);
    let registration = worker.register(add(16 << 10)).unwrap();
    let [mut a, mut b, mut c] = [1, 2, 0].map(|value| vec![value; 16 << 10]);
    run(&worker, &registration, &[host(&mut a), host(&mut b), host(&mut c)]).unwrap();
    assert!(worker.memory_report().staging >= 48 << 10);
    worker.allocate(spec(&[65 << 10], DType::U8)).unwrap_err();
    assert!(worker.memory_report().staging >= 48 << 10, "a request that cannot succeed costs the others nothing");
    let all = worker.allocate(spec(&[64 << 10], DType::U8)).unwrap();
    let error = run(&worker, &registration, &[host(&mut a), host(&mut b), host(&mut c)]).unwrap_err();
    assert_eq!(error.code(), "out_of_memory");
    worker.free(&all).unwrap();
    run(&worker, &registration, &[host(&mut a), host(&mut b), host(&mut c)]).unwrap();
    assert_eq!(c, [3; 16 << 10]);
}

/// What each launch of a program with tensors `a` and `c` of `M` bytes and a scalar says about the one before.
fn told(launches: impl FnOnce(&Worker, &dyn Fn(&[Value<'_>]) -> Option<bool>)) {
    let repeats = Arc::new(Mutex::new(None));
    let sink = repeats.clone();
    let worker = Fake::new(move |launch| {
        *sink.lock().unwrap() = Some(launch.repeats);
        let fails = launch.scalars[0] == 99;
        if fails { Err(DeviceError::OutOfMemory("as asked".into())) } else { Ok(()) }
    })
    .open();
    let params = vec![
        tensor("a", DType::U8, &[Symbol(0)], In),
        tensor("c", DType::U8, &[Symbol(0)], Out),
        scalar("n", DType::I32, None),
    ];
    let registration = worker.register(program("k", params)).unwrap();
    launches(&worker, &|args| {
        let _ = run(&worker, &registration, args);
        repeats.lock().unwrap().take()
    });
}

#[test]
fn the_device_is_told_when_extents_and_scalars_are_those_of_the_launch_before() {
    told(|worker, launch| {
        let [a, b, c, d] = [10, 10, 10, 20].map(|bytes| upload(worker, &vec![0; bytes]));
        let n = Value::Int;
        assert_eq!(launch(&[resident(&a), resident(&c), n(1)]), Some(false), "the first");
        assert_eq!(launch(&[resident(&a), resident(&c), n(1)]), Some(true));
        assert_eq!(launch(&[resident(&b), resident(&c), n(1)]), Some(true), "another buffer");
        assert_eq!(launch(&[resident(&b), resident(&c), n(2)]), Some(false), "another scalar");
        assert_eq!(launch(&[resident(&b), resident(&c), n(2)]), Some(true));
        let [ten, twenty] = [10, 20].map(|bytes| shape(&[bytes]));
        let view = |buffer, shape| Value::Resident { buffer, offset: 0, shape, dtype: DType::U8 };
        assert_eq!(launch(&[view(&d, &ten), resident(&c), n(2)]), Some(true), "a view of these extents");
        assert_eq!(launch(&[view(&d, &twenty), host(&mut [0; 20]), n(2)]), Some(false), "other extents");
        assert_eq!(launch(&[resident(&d), host(&mut [0; 20]), n(2)]), Some(true), "another host tensor");
        assert_eq!(launch(&[resident(&d), host(&mut [0; 20]), n(99)]), Some(false), "one that fails");
        assert_eq!(launch(&[resident(&d), host(&mut [0; 20]), n(99)]), Some(true), "the device has seen these");
    });
}

#[test]
fn a_launch_like_the_last_one_is_checked_like_the_first() {
    told(|worker, launch| {
        let [a, b, c] = [10, 10, 10].map(|bytes| upload(worker, &vec![0; bytes]));
        let n = Value::Int;
        let good = [resident(&a), resident(&c), n(1)];
        assert_eq!(launch(&good), Some(false));
        assert_eq!(launch(&good), Some(true));
        let eleven = shape(&[11]);
        let foreign = upload(&Fake::adding().open(), &[0; 10]);
        let wrong = [
            [resident(&c), resident(&c), n(1)],
            [resident(&foreign), resident(&c), n(1)],
            [resident(&a), read_only(&[0; 10]), n(1)],
            [Value::Resident { buffer: &a, offset: 0, shape: &eleven, dtype: DType::U8 }, resident(&c), n(1)],
            [Value::Resident { buffer: &a, offset: 0, shape: a.shape(), dtype: DType::I8 }, resident(&c), n(1)],
            [resident(&a), resident(&c), Value::Float(1.0)],
            [resident(&a), resident(&c), n(1 << 40)],
            [n(1), resident(&c), n(1)],
        ];
        for args in &wrong {
            assert_eq!(launch(args), None, "{args:?}");
            assert_eq!(launch(args), None, "again: {args:?}");
            assert_eq!(launch(&good), Some(false), "what was refused counts as nothing");
            assert_eq!(launch(&good), Some(true));
        }
        assert_eq!(launch(&good[..2]), None, "too few");
        assert_eq!(launch(&good), Some(false));
        worker.free(&a).unwrap();
        assert_eq!(launch(&good), None, "freed");
        assert_eq!(launch(&[resident(&b), resident(&c), n(1)]), Some(false));
    });
}

#[test]
fn a_registration_tells_the_estimate_of_the_device() {
    let worker = Fake::adding().open();
    assert_eq!(worker.register(add(1000)).unwrap().estimate_ns(), 3000);
    let session = worker.enter("test").unwrap();
    assert!(worker.try_enter("test").unwrap().is_none(), "nobody waits");
    drop(session);
    assert!(worker.try_enter("test").unwrap().is_some());
}

#[cfg(not(feature = "trace-off"))]
#[test]
fn a_launch_leaves_the_span_tree_of_the_contract() {
    let worker = Fake::adding().open_with(1 << 20, true);
    let registration = worker.register(add(100)).unwrap();
    let recording = trace::enable();
    let (mut a, mut c) = ([0; 100], [0; 100]);
    let b = upload(&worker, &[1; 100]);
    run(&worker, &registration, &[host(&mut a), resident(&b), host(&mut c)]).unwrap();
    // Other tests may launch meanwhile: the launch is told by its program.
    let spans = recording.drain().spans;
    let is_mine =
        |span: &&trace::SpanRecord| span.arg == registration.content_id() && span.name == trace::names::CHIP_RUN;
    let mine = spans.iter().filter(is_mine).map(|span| span.invocation).max().unwrap();
    let spans: Vec<_> = spans.into_iter().filter(|span| span.invocation == mine).collect();
    let expected = "chip.run\n  bind\n    args args=3\n  h2d bytes=100\n    a bytes=100\n  runner_run\n    device_wall [dev]\n  d2h bytes=100\n    c bytes=100\n  validate\n";
    assert_eq!(trace::tree(&spans), expected);

    // What the names say is true: a span lies within the one that its name lies in, and beside its siblings.
    let parent = |span: &trace::SpanRecord| span.name.text().strip_suffix(span.name.leaf()).unwrap().to_owned();
    for span in spans.iter().filter(|span| span.name.depth() > 0) {
        let around = spans.iter().find(|other| format!("{}.", other.name.text()) == parent(span)).unwrap();
        assert!(around.begin_ns <= span.begin_ns && span.end_ns() <= around.end_ns(), "{around:?} {span:?}");
        for other in spans.iter().filter(|other| other.name != span.name && parent(other) == parent(span)) {
            assert!(other.end_ns() <= span.begin_ns || span.end_ns() <= other.begin_ns, "{other:?} {span:?}");
        }
    }
}

proptest! {
    /// Whatever mix of host and resident arguments and whatever lengths: the results are those of the program.
    #[test]
    fn host_and_resident_arguments_give_the_same_results(
        launches in prop::collection::vec((1usize..700, any::<[bool; 3]>(), any::<u8>()), 1..12),
        poison: bool,
    ) {
        let worker = Fake::adding().open_with(1 << 16, poison);
        let params = [("a", In), ("b", In), ("c", Out)]
            .map(|(name, direction)| tensor(name, DType::U8, &[Symbol(0)], direction));
        let registration = worker.register(program("add", params.into())).unwrap();
        for (length, is_resident, seed) in launches {
            let mut data: [Vec<u8>; 3] = [1, 3, 5].map(|step| (0..length).map(|i| seed.wrapping_add((i * step) as u8)).collect());
            let expected: Vec<u8> = data[0].iter().zip(&data[1]).map(|(a, b)| a.wrapping_add(*b)).collect();
            let buffers: Vec<_> = (0..3).map(|i| is_resident[i].then(|| upload(&worker, &data[i]))).collect();
            let args: Vec<_> = data.iter_mut().zip(&buffers).map(|(data, buffer)| match buffer {
                Some(buffer) => resident(buffer),
                None => host(data),
            }).collect();
            run(&worker, &registration, &args).unwrap();
            let result = buffers[2].as_ref().map_or_else(|| data[2].clone(), |buffer| download(&worker, buffer));
            prop_assert_eq!(result, expected);
            for buffer in buffers.iter().flatten() {
                worker.free(buffer).unwrap();
            }
        }
        prop_assert_eq!(worker.memory_report().live, 0);
    }
}
