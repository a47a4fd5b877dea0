//! Whole lives of a worker whose device fails somewhere: each failure is told where it happens and loses nothing.

use super::failing::{Failing, Faults, LENGTH, SCRATCH, Step, numbered};
use super::fake::{host, read_only, resident, spec};
use crate::arena::Buffer;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::id::DeviceAddr;
use crate::worker::{HostTensor, Kept, Line, Prepared, Registration, Value, Worker, WorkerConfig};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;

const CAPACITY: u64 = 2 << 20;
const SLOTS: usize = 4;

/// How a launch is made.
#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    Bound,
    /// As the thread of a queue does it: with a place that was taken before.
    Queued,
}

/// An argument: the tensor in a slot, or host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Slot(usize),
    Host(u8),
}

/// What somebody does with a worker. What the state does not allow is left out.
#[derive(Clone, Debug)]
enum Op {
    Allocate(usize, Option<u8>),
    Malloc(u8),
    Free(usize),
    Register(usize),
    Unregister(usize),
    CopyTo(usize, u8),
    CopyFrom(usize),
    Launch(usize, How, [Place; 3]),
}

/// A worker, and what must be true of it. All bytes of a tensor are the same.
struct Life {
    worker: Arc<Worker>,
    faults: Arc<Faults>,
    line: Line,
    slots: [Option<(Arc<Buffer>, u8)>; SLOTS],
    programs: [Option<Arc<Registration>>; 2],
    bound: [Option<Prepared>; 2],
    launches: u64,
    /// Memory without a type that is live.
    raw: usize,
}

impl Life {
    fn begin(planned: Vec<(Step, u64)>) -> Self {
        let faults = Faults::new(planned);
        let device = Box::new(Failing(faults.clone()));
        let residency = crate::worker::ResidencyMode::Off;
        let config =
            WorkerConfig { name: None, device, capacity: CAPACITY, poison: false, packed_share: 0.5, residency };
        let worker = Worker::open(config).unwrap();
        worker.enter("test").unwrap().open.as_mut().unwrap().arena.refusals().at = faults.refusals();
        Self {
            worker,
            faults,
            line: Line::default(),
            slots: Default::default(),
            programs: Default::default(),
            bound: Default::default(),
            launches: 0,
            raw: 0,
        }
    }

    /// How many requests for memory were refused.
    fn refused(&self) -> u64 {
        self.worker.enter("test").unwrap().open.as_mut().unwrap().arena.refusals().refused
    }

    /// Does it again until it succeeds. Each error must be the one that was planned, and leave the accounts in order.
    fn persist<T>(&self, mut action: impl FnMut() -> Result<T>) -> T {
        for _ in 0..=self.faults.planned() {
            let (fired, refused) = (self.faults.fired().len(), self.refused());
            let error = match action() {
                Ok(value) => return value,
                Err(error) => error,
            };
            self.check_accounts();
            match self.faults.fired()[fired..] {
                [] => {
                    assert!(self.refused() > refused, "an error out of nothing: {error}");
                    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
                }
                [step] => check_error(step, &error),
                ref several => panic!("{several:?} in one call, which should have ended with the first"),
            }
        }
        panic!("more failures than were planned");
    }

    /// Every byte is somebody's or free.
    fn check_accounts(&self) {
        let report = self.worker.memory_report();
        let live: u64 = report.live_buffers.iter().map(|buffer| buffer.bytes().next_multiple_of(256)).sum();
        assert_eq!(report.free + report.staging + report.scratch + report.packed + live, CAPACITY);
        assert_eq!(report.count(), self.slots.iter().flatten().count() + self.raw, "a buffer that nobody has");
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Allocate(slot, value) => {
                self.run(&Op::Free(slot));
                let spec = || spec(&[LENGTH as u64], DType::U8);
                let buffer = self.persist(|| match value {
                    None => self.worker.allocate(spec()),
                    // SAFETY: the source has the bytes of the tensor.
                    Some(value) => unsafe { self.worker.allocate_from(spec(), [value; LENGTH].as_ptr()) },
                });
                self.slots[slot] = Some((buffer, value.unwrap_or(0)));
                self.run(&Op::CopyFrom(slot));
            }
            Op::Malloc(value) => {
                let addr = self.persist(|| self.worker.malloc(100, None));
                self.raw = 1;
                // SAFETY: 100 bytes.
                self.persist(|| unsafe { self.worker.copy_to(addr, [value; 100].as_ptr(), 100) });
                self.worker.free_raw(addr).unwrap();
                self.raw = 0;
            }
            Op::Free(slot) => {
                if let Some((buffer, _)) = self.slots[slot].take() {
                    self.worker.free(&buffer).unwrap();
                }
            }
            Op::Register(number) => {
                let cid = self.programs[number].as_ref().map(|known| known.cid());
                let registration = self.persist(|| self.worker.register(numbered(number)));
                assert!(cid.is_none_or(|cid| cid == registration.cid()));
                self.programs[number] = Some(registration);
            }
            Op::Unregister(number) => {
                if let Some(registration) = &self.programs[number] {
                    self.worker.unregister(registration).unwrap();
                }
            }
            Op::CopyTo(slot, value) => {
                let Some((buffer, _)) = &self.slots[slot] else { return };
                // SAFETY: the source has the bytes of the tensor.
                self.persist(|| unsafe { self.worker.copy_to(buffer.addr(), [value; LENGTH].as_ptr(), LENGTH as u64) });
                self.slots[slot].as_mut().unwrap().1 = value;
                self.run(&Op::CopyFrom(slot));
            }
            Op::CopyFrom(slot) => {
                let Some((buffer, value)) = &self.slots[slot] else { return };
                assert!(self.read(buffer.addr()).iter().all(|byte| byte == value), "slot {slot} is not all {value}");
            }
            Op::Launch(number, how, places) => self.launch(number, how, places),
        }
        self.check_accounts();
    }

    fn read(&self, addr: DeviceAddr) -> Vec<u8> {
        let mut data = vec![0; LENGTH];
        // SAFETY: the vector has the bytes of the tensor.
        self.persist(|| unsafe { self.worker.copy_from(data.as_mut_ptr(), addr, LENGTH as u64) });
        data
    }

    fn launch(&mut self, number: usize, how: How, places: [Place; 3]) {
        let value_of = |place| match place {
            Place::Host(value) => Some(value),
            Place::Slot(slot) => self.slots[slot].as_ref().map(|(_, value)| *value),
        };
        let (Some(registration), Some(a), Some(b)) =
            (self.programs[number].clone(), value_of(places[0]), value_of(places[1]))
        else {
            return;
        };
        let is_inplace = matches!(places[2], Place::Slot(_)) && places[..2].contains(&places[2]);
        if is_inplace || value_of(places[2]).is_none() {
            return;
        }
        let expected = a.wrapping_add(b).wrapping_add(if number == 1 { 100 } else { 0 });
        let [a, b, mut out] = [vec![a; LENGTH], vec![b; LENGTH], vec![9; LENGTH]];
        let mut prepared = self.bound[number].take();
        self.persist(|| {
            out.fill(9);
            let args = [(places[0], read_only(&a)), (places[1], read_only(&b)), (places[2], host(&mut out))];
            let args = args.map(|(place, host)| match place {
                Place::Host(_) => host,
                Place::Slot(slot) => resident(&self.slots[slot].as_ref().unwrap().0),
            });
            let outcome = match how {
                // SAFETY: the host tensors outlive the call.
                How::Plain => unsafe { self.worker.launch(&registration, &args, &mut || true) },
                How::Queued => self.queued(&registration, &args),
                How::Bound => self.bound(&registration, &mut prepared, &args),
            };
            if outcome.as_ref().is_err_and(|error| error.code() != "copy_failed") {
                assert!(out.iter().all(|&byte| byte == 9), "a launch that failed wrote to the host");
            }
            outcome
        });
        self.bound[number] = prepared;
        self.launches += 1;
        assert_eq!(self.worker.counters().launches, self.launches);
        match places[2] {
            Place::Host(_) => assert!(out.iter().all(|&byte| byte == expected), "{out:?} is not all {expected}"),
            Place::Slot(slot) => {
                self.slots[slot].as_mut().unwrap().1 = expected;
                self.run(&Op::CopyFrom(slot));
            }
        }
    }

    fn queued(&self, registration: &Registration, args: &[Value<'_>]) -> Result<()> {
        let kept: Vec<Kept> = args.iter().map(|&arg| Kept::from(arg)).collect();
        let ticket = self.line.join();
        let launch = || {
            let mut session = self.line.wait(ticket, || self.worker.try_enter("run"), || Ok(()))?;
            let values: Vec<Value<'_>> = kept.iter().map(Kept::value).collect();
            // SAFETY: the host tensors outlive the call.
            let outcome = unsafe { session.launch(registration, &values, &mut || true) };
            drop(session);
            self.line.next();
            outcome
        };
        thread::scope(|scope| scope.spawn(launch).join().unwrap())
    }

    fn bound(
        &self,
        registration: &Arc<Registration>,
        prepared: &mut Option<Prepared>,
        args: &[Value<'_>; 3],
    ) -> Result<()> {
        let kept = || args.iter().map(|&arg| Kept::from(arg));
        let mut session = self.worker.enter("run")?;
        match prepared {
            None => *prepared = Some(session.prepare(registration, kept().collect())?),
            Some(prepared) => session.update(prepared, kept().enumerate().collect())?,
        }
        let hosts: Vec<(usize, HostTensor)> = (0..)
            .zip(args)
            .filter_map(|(param, arg)| if let Value::Host(host) = arg { Some((param, *host)) } else { None })
            .collect();
        // SAFETY: the host tensors outlive the call.
        assert!(unsafe { session.launch_prepared(prepared.as_ref().unwrap(), &hosts, &mut || true) }?);
        Ok(())
    }

    /// Gives everything back and closes; how many failures there were.
    fn end(mut self) -> usize {
        (0..SLOTS).for_each(|slot| self.run(&Op::Free(slot)));
        (0..2).for_each(|number| self.run(&Op::Unregister(number)));
        let report = self.worker.memory_report();
        assert_eq!((report.live, report.staging, report.packed), (0, 0, 0));
        self.worker.enter("test").unwrap().open.as_mut().unwrap().reclaim();
        let report = self.worker.memory_report();
        let registered = self.programs.iter().flatten().count();
        assert_eq!(report.scratch, SCRATCH * registered as u64, "scratch memory of no program");
        assert_eq!(report.free, CAPACITY - report.scratch);
        assert_eq!(self.faults.loaded(), registered);
        let failures = self.faults.fired().len() + self.refused() as usize;
        let closed = self.worker.close().unwrap();
        assert!(closed.leaked.is_empty() && closed.damage.is_none());
        assert_eq!(self.faults.loaded(), 0, "close drops the programs");
        failures
    }
}

/// The error of a step, which says which one it was.
fn check_error(step: Step, error: &Error) {
    let (code, kind) = match step {
        Step::Copy => ("copy_failed", ErrorKind::Runtime),
        Step::Kernel => ("device_fault", ErrorKind::Runtime),
        Step::Compile => ("platform_unavailable", ErrorKind::Runtime),
        Step::Allocate => unreachable!("the arena refuses"),
    };
    assert_eq!((error.code(), error.kind()), (code, kind), "{error}");
    assert!(error.to_string().contains(&format!("{step:?} ")), "{error}");
}

/// A life in which everything happens, and each kind of launch often enough to pack, to grow and to repeat itself.
fn ordinary() -> Vec<Op> {
    use How::{Bound, Plain, Queued};
    use Place::{Host, Slot};
    let mut life = vec![Op::Allocate(0, Some(1)), Op::Allocate(1, Some(2)), Op::Allocate(2, None), Op::Malloc(3)];
    life.extend([Op::Register(0), Op::Register(1), Op::Register(0)]);
    for how in [Plain, Bound, Queued] {
        let launches = [
            [Slot(0), Slot(1), Slot(2)],
            [Slot(0), Slot(1), Slot(2)],
            [Host(5), Slot(1), Host(0)],
            [Host(6), Host(7), Slot(2)],
            [Host(8), Host(9), Host(0)],
        ];
        life.extend(launches.map(|places| Op::Launch(0, how, places)));
        life.extend([Op::Launch(1, how, launches[0]), Op::CopyTo(1, 30), Op::Launch(1, how, launches[2])]);
        life.extend([Op::Unregister(1), Op::Free(0), Op::Allocate(0, Some(4)), Op::Launch(1, how, launches[0])]);
    }
    life
}

fn live(ops: &[Op], planned: Vec<(Step, u64)>) -> usize {
    let mut life = Life::begin(planned);
    ops.iter().for_each(|op| life.run(op));
    life.end()
}

#[test]
fn whatever_fails_in_a_life_is_told_there_loses_nothing_and_works_the_second_time() {
    assert_eq!(live(&ordinary(), vec![]), 0);
    for (step, least) in [(Step::Allocate, 12), (Step::Copy, 50), (Step::Kernel, 24), (Step::Compile, 2)] {
        let failed = (0..).take_while(|&n| live(&ordinary(), vec![(step, n)]) == 1).count();
        assert!(failed >= least, "only {failed} times {step:?}");
    }
}

#[test]
fn memory_that_is_refused_again_after_everything_was_given_up_is_an_error_that_loses_nothing() {
    let failed =
        (0..).take_while(|&n| live(&ordinary(), (n..n + 3).map(|n| (Step::Allocate, n)).collect()) > 0).count();
    assert!(failed >= 12, "only {failed} times");
}

fn any_op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS;
    let place = prop_oneof![3 => slot.clone().prop_map(Place::Slot), 1 => any::<u8>().prop_map(Place::Host)];
    let how = prop_oneof![Just(How::Plain), Just(How::Bound), Just(How::Queued)];
    prop_oneof![
        3 => (slot.clone(), any::<Option<u8>>()).prop_map(|(slot, value)| Op::Allocate(slot, value)),
        1 => any::<u8>().prop_map(Op::Malloc),
        1 => slot.clone().prop_map(Op::Free),
        2 => (0..2usize).prop_map(Op::Register),
        1 => (0..2usize).prop_map(Op::Unregister),
        2 => (slot.clone(), any::<u8>()).prop_map(|(slot, value)| Op::CopyTo(slot, value)),
        1 => slot.prop_map(Op::CopyFrom),
        8 => (0..2usize, how, [place.clone(), place.clone(), place])
            .prop_map(|(number, how, places)| Op::Launch(number, how, places)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_calls_and_failures_loses_anything(
        ops in prop::collection::vec(any_op(), 1..60),
        planned in prop::collection::vec(
            (prop_oneof![Just(Step::Allocate), Just(Step::Copy), Just(Step::Kernel), Just(Step::Compile)], 0..40u64),
            0..12,
        ),
    ) {
        live(&ops, planned);
    }
}
