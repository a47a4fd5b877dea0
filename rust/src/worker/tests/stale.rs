//! What a launch finds in memory that nobody wrote since an earlier allocation.

use super::fake::*;
use crate::arena::Buffer;
use crate::device::DeviceError;
use crate::dtype::DType;
use crate::program::Direction::{In, Out};
use crate::program::{Dim, Program};
use crate::worker::{Kept, Registration, Value, Worker};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

const LENGTH: u64 = 512;

/// A worker whose programs say that they overwrite what they write, and what its launches saw and do.
struct Bench {
    worker: Arc<Worker>,
    registration: Arc<Registration>,
    /// The last byte of the result before each launch.
    found: Arc<Mutex<Vec<u8>>>,
    fails: Arc<AtomicBool>,
}

impl Bench {
    fn new() -> Self {
        let (found, fails) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
        let (seen, failing, launches) = (found.clone(), fails.clone(), AtomicU8::new(0));
        let mut fake = Fake::new(move |launch| {
            let out = &launch.tensors[1];
            seen.lock().unwrap().push(read(out, bytes(out) - 1));
            write(out, 0, launches.fetch_add(1, Ordering::Relaxed) + 1);
            if failing.load(Ordering::Relaxed) {
                return Err(DeviceError::Unavailable("half-way".into()));
            }
            (1..bytes(out)).for_each(|at| write(out, at, 100));
            Ok(())
        });
        fake.overwrites = true;
        let worker = fake.open();
        let registration = worker.register(copy()).unwrap();
        Self { worker, registration, found, fails }
    }

    /// A tensor in memory that another one has filled with 7.
    fn unwritten(&self) -> Arc<Buffer> {
        let old = upload(&self.worker, &[7; LENGTH as usize]);
        self.worker.free(&old).unwrap();
        self.worker.allocate(spec(&[LENGTH], DType::U8)).unwrap()
    }

    fn launch(&self, out: Value<'_>) -> crate::error::Result<()> {
        let mut x = [1; 4];
        run(&self.worker, &self.registration, &[host(&mut x), out])
    }

    fn found(&self) -> Vec<u8> {
        std::mem::take(&mut self.found.lock().unwrap())
    }
}

/// A program with an input of 4 bytes and an output of any length.
fn copy() -> Arc<Program> {
    let param = |name, dim, direction| tensor(name, DType::U8, &[dim], direction);
    program("copy", vec![param("x", Dim::Const(4), In), param("out", Dim::Symbol(0), Out)])
}

#[test]
fn what_a_repeated_launch_overwrites_is_not_cleared_before() {
    let bench = Bench::new();
    for _ in 0..3 {
        let out = bench.unwritten();
        bench.launch(resident(&out)).unwrap();
        assert_eq!(download(&bench.worker, &out)[1..], [100; LENGTH as usize - 1], "what it wrote stays");
        bench.worker.free(&out).unwrap();
    }
    assert_eq!(bench.found(), [0, 7, 7], "only a launch that repeats the last one knows what it overwrites");
}

#[test]
fn a_launch_that_fails_shows_nothing_of_an_earlier_allocation() {
    let bench = Bench::new();
    bench.launch(resident(&bench.unwritten())).unwrap();
    bench.fails.store(true, Ordering::Relaxed);
    let out = bench.unwritten();
    bench.launch(resident(&out)).unwrap_err();
    assert_eq!(bench.found(), [0, 7]);
    assert_eq!(download(&bench.worker, &out), [0; LENGTH as usize]);
}

#[test]
fn a_buffer_of_which_a_view_is_overwritten_is_cleared() {
    let bench = Bench::new();
    for offset in [0, 8, 8] {
        let buffer = &bench.unwritten();
        let view = Value::Resident { buffer, offset, shape: &shape(&[100]), dtype: DType::U8 };
        bench.launch(view).unwrap();
        let bytes = download(&bench.worker, buffer);
        assert_eq!(bytes[offset as usize + 100..], vec![0; LENGTH as usize - 100 - offset as usize]);
        bench.worker.free(buffer).unwrap();
    }
    assert_eq!(bench.found(), [0, 0, 0]);
}

#[test]
fn an_argument_that_a_prepared_launch_got_rid_of_is_left_alone() {
    let bench = Bench::new();
    let Bench { worker, registration, .. } = &bench;
    bench.launch(resident(&bench.unwritten())).unwrap();
    let kept = |buffer: &Arc<Buffer>| Kept::from(resident(buffer));
    let x = upload(worker, &[1; 4]);
    let (first, second, third) = (bench.unwritten(), bench.unwritten(), bench.unwritten());
    let prepared = worker.enter("launch").unwrap().prepare(registration, vec![kept(&x), kept(&first)]).unwrap();
    worker.enter("update").unwrap().update(&prepared, vec![(1, kept(&second))]).unwrap();
    worker.enter("update").unwrap().update(&prepared, vec![(1, kept(&third))]).unwrap();
    worker.free(&second).unwrap();
    let other = upload(worker, &[9; LENGTH as usize]);
    // SAFETY: there are no host tensors.
    assert!(unsafe { worker.enter("launch").unwrap().launch_prepared(&prepared, &[], &mut || true) }.unwrap());
    assert_eq!(download(worker, &first), [0; LENGTH as usize], "nobody wrote it");
    assert_eq!(download(worker, &other), [9; LENGTH as usize], "it lies where the second was");
    assert_eq!(download(worker, &third)[1..], [100; LENGTH as usize - 1]);
}
