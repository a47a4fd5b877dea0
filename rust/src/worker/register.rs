//! Programs that are ready to run: made once, keyed by content.

use super::bind::Bound;
use super::error::WorkerError;
use super::residency::{ProgramUse, UploadUse};
use super::{Open, Session};
use crate::arena::{Arena, ArenaError, Chunk, Owner, Purpose};
use crate::device::Executable;
use crate::error::Result;
use crate::id::WorkerId;
use crate::program::{Direction, Loc, Param, ParamKind, Program};
use crate::trace::{self, Labels, Name, names};
use std::collections::HashMap;
use std::sync::Arc;

/// A program that is ready to run on one worker. Equal programs have one registration. It stays inspectable after its
/// worker is closed.
#[derive(Debug)]
pub struct Registration {
    owner: Arc<Owner>,
    cid: u64,
    content_id: u64,
    estimate_ns: u64,
    program: Arc<Program>,
}

impl Registration {
    /// The number of the program among the distinct programs of its worker, from 0.
    pub fn cid(&self) -> u64 {
        self.cid
    }

    /// A hash of the program, the same in every process: what spans of its launches carry as `hid`.
    pub fn content_id(&self) -> u64 {
        self.content_id
    }

    /// An estimate of the time that the device needs for a launch, in nanoseconds, copies excluded: for the choice
    /// whether to release the Python lock for it.
    pub fn estimate_ns(&self) -> u64 {
        self.estimate_ns
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The worker that made it.
    pub fn worker(&self) -> WorkerId {
        self.owner.id()
    }

    /// The worker that made it, with its name.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }
}

/// The registrations of one worker, by number.
#[derive(Default)]
pub(super) struct Registry {
    pub entries: Vec<Registered>,
    by_content: HashMap<Box<[u8]>, usize>,
}

/// What [`Session::residency`] answers.
pub struct ResidencyReport {
    /// Each host tensor that was an argument, in no order.
    pub arguments: Vec<UploadUse>,
    /// Each program by its number: how often it was registered, and how it was used.
    pub programs: Vec<(Arc<Registration>, u64, ProgramUse)>,
}

/// What a worker keeps for a registration.
pub(super) struct Registered {
    pub loaded: Loaded,
    /// The arguments of its last launch that was not prepared.
    pub bound: Bound,
}

/// The program of a registration, and the memory that its launches share.
pub(super) struct Loaded {
    pub registration: Arc<Registration>,
    /// How often a program that is equal to it was registered.
    pub asked: u64,
    pub executable: Box<dyn Executable>,
    /// Scratch memory of the executable, if it needs any.
    pub scratch: Option<Chunk>,
    /// Where host arguments are staged; grows to the largest launch.
    pub staging: Option<Chunk>,
    /// The last [`Bound::version`] that was given to a binding.
    pub versions: u64,
    /// The version that the device saw last.
    pub seen: u64,
    /// Names of the spans of the copies in and out, by parameter.
    pub spans: Vec<(Name, Name)>,
    /// Tensors that the program writes: their place among the tensors, and the size of an element.
    pub written: Vec<(usize, u64)>,
}

impl Loaded {
    /// Gives the staging memory back.
    pub fn release_staging(&mut self, arena: &mut Arena) {
        self.staging.take().into_iter().for_each(|chunk| arena.release(chunk));
    }
}

impl Open {
    /// Makes the staging memory of a registration at least this large. Its contents do not survive.
    pub(super) fn grow_staging(&mut self, cid: usize, needed: u64) -> Result<(), ArenaError> {
        let entry = &mut self.registry.entries[cid].loaded;
        if needed <= entry.staging.as_ref().map_or(0, Chunk::bytes) {
            return Ok(());
        }
        entry.release_staging(&mut self.arena);
        // A quarter more, so that a batch which grows row by row does not grow the staging memory each time.
        let roomy = needed.saturating_add(needed / 4);
        let _reserve = trace::span(names::RESERVE, 0, roomy);
        let take = |arena: &mut Arena, bytes| arena.reserve(bytes, Purpose::Staging);
        let chunk = self.with_reclaim(|arena| take(arena, roomy).or_else(|_| take(arena, needed)))?;
        self.registry.entries[cid].loaded.staging = Some(chunk);
        Ok(())
    }
}

impl Session<'_> {
    /// Makes a program ready. A program that is equal to one registered before shares its registration: nothing is
    /// compiled again, and the number of distinct programs does not grow.
    ///
    /// # Errors
    /// What the device says about the program; [`crate::arena::ArenaError::OutOfMemory`] for its scratch memory;
    /// [`WorkerError::Closed`].
    pub fn register(&mut self, program: Arc<Program>) -> Result<Arc<Registration>> {
        let (owner, tally) = (&self.worker.owner, &self.worker.tally);
        let open = self.open.as_mut().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        // Comparing addresses is sound because the registration keeps its program alive.
        let entries = &mut open.registry.entries;
        if let Some(known) = entries.iter_mut().find(|known| Arc::ptr_eq(&known.loaded.registration.program, &program))
        {
            known.loaded.asked += 1;
            return Ok(known.loaded.registration.clone());
        }
        let content = program.encode();
        if let Some(&known) = open.registry.by_content.get(content.as_slice()) {
            let known = &mut entries[known].loaded;
            known.asked += 1;
            return Ok(known.registration.clone());
        }
        let content_id = fnv1a(&content);
        let prewarm = trace::span(names::PREWARM, 0, content_id);
        let executable = open.device.compile(&program)?;
        drop(prewarm);
        let scratch = match executable.scratch_bytes() {
            0 => None,
            bytes => {
                let _reserve = trace::span(names::RESERVE, 0, bytes);
                Some(open.with_reclaim(|arena| arena.reserve(bytes, Purpose::Scratch))?)
            }
        };
        trace::set_labels(content_id, labels_of(&program));
        let cid = open.registry.entries.len();
        let bound = Bound::for_program(&program);
        let spans = program.params.iter().map(|Param { name, .. }| {
            (trace::intern(&format!("chip.run.h2d.{name}")), trace::intern(&format!("chip.run.d2h.{name}")))
        });
        let spans = spans.collect();
        let (owner, estimate_ns) = (owner.clone(), executable.estimated_ns());
        let registration = Arc::new(Registration { owner, cid: cid as u64, content_id, estimate_ns, program });
        open.registry.by_content.insert(content.into_boxed_slice(), cid);
        let (registration_kept, written) = (registration.clone(), written(registration.program()));
        let loaded = Loaded {
            registration: registration_kept,
            asked: 1,
            executable,
            scratch,
            staging: None,
            versions: 0,
            seen: 0,
            spans,
            written,
        };
        open.registry.entries.push(Registered { loaded, bound });
        tally.registrations.add(1);
        Ok(registration)
    }

    /// What was counted about host arguments, with the program of each, and how often each program was registered and
    /// used; `None` where the worker was opened with [`ResidencyMode::Off`].
    ///
    /// # Errors
    /// [`WorkerError::Closed`].
    pub fn residency(&mut self) -> Result<Option<ResidencyReport>> {
        let owner = &self.worker.owner;
        let open = self.open.as_ref().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        let Some(residency) = &open.residency else { return Ok(None) };
        let record = residency.record();
        let programs = open.registry.entries.iter().zip(0..);
        let programs =
            programs.map(|(entry, cid)| (entry.loaded.registration.clone(), entry.loaded.asked, record.program(cid)));
        Ok(Some(ResidencyReport { arguments: record.arguments().cloned().collect(), programs: programs.collect() }))
    }

    /// Gives back the device memory that a registration keeps between launches. It can still launch (other handles may
    /// share it) and then takes memory again. Does nothing after close.
    ///
    /// # Errors
    /// [`WorkerError::ForeignRegistration`].
    pub fn unregister(&mut self, registration: &Registration) -> Result<()> {
        check_registration(registration, &self.worker.owner)?;
        if let Some(Open { arena, registry, .. }) = self.open.as_mut() {
            registry.entries[registration.cid as usize].loaded.release_staging(arena);
        }
        Ok(())
    }
}

/// What traces call the program and its kernels.
fn labels_of(program: &Program) -> Labels {
    let source = |Loc(file, line, _): Loc| {
        program.files.get(file as usize).map_or_else(String::new, |file| format!("{file}:{line}"))
    };
    let kernels = program.kernels.iter().map(|kernel| (kernel.name.clone(), source(kernel.at))).collect();
    Labels { program: program.name.clone(), kernels }
}

/// The tensors that a program writes: their place among its tensors, and the size of an element.
fn written(program: &Program) -> Vec<(usize, u64)> {
    let tensors = program.params.iter().filter_map(|param| match param.kind {
        ParamKind::Tensor { dtype, direction, .. } => Some((dtype.size() as u64, direction)),
        ParamKind::Scalar { .. } => None,
    });
    let written = tensors.enumerate().filter(|&(_, (_, direction))| direction != Direction::In);
    written.map(|(tensor, (item, _))| (tensor, item)).collect()
}

/// 64-bit FNV-1a. Not `std`'s hasher: that one may change with the compiler.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whether `owner` made the registration.
pub(super) fn check_registration(registration: &Registration, owner: &Arc<Owner>) -> Result<(), WorkerError> {
    if registration.worker() == owner.id() {
        return Ok(());
    }
    let program = registration.program.name.clone();
    Err(WorkerError::ForeignRegistration { program, registered: registration.owner.clone(), asked: owner.clone() })
}
