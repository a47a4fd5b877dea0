//! How deep statements nest, and the stack that takes: all that walks a program calls itself once for each level.
//!
//! Reading the frontend's data takes some 2.2 KiB of stack for a level, lowering some 1.1 KiB (release builds). The thread
//! that registers a program is the caller's, who may have given it 64 KiB, so deep programs get a thread of their own.

use super::{Function, Program, ProgramError, Stmt, StmtKind};
use serde::de::{Deserialize, Deserializer, Error as _};
use std::cell::Cell;
use std::thread;

/// Deepest nesting of statements. Python's text nests 100 levels at most, and passes add some.
pub const MAX_DEPTH: u32 = 128;
/// What any thread has the stack for.
pub(super) const SHALLOW: u32 = 20;
/// Stack of a thread for deep programs: [`MAX_DEPTH`] levels of a build without optimisation. Only what is used is committed.
const ROOM: usize = 16 << 20;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LIMIT: Cell<u32> = const { Cell::new(MAX_DEPTH) };
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `read`, which deserialises a program; `None` if that nests too deep for threads of any size. Then it is to be
/// repeated [`with_room`].
pub fn shallow<T>(read: impl FnOnce() -> T) -> Option<T> {
    struct Limited;
    impl Drop for Limited {
        fn drop(&mut self) {
            LIMIT.set(MAX_DEPTH);
        }
    }
    LIMIT.set(SHALLOW);
    EXCEEDED.set(false);
    let _limited = Limited;
    let result = read();
    (!EXCEEDED.get()).then_some(result)
}

/// Runs `work` on a thread with the stack that the deepest program takes.
///
/// # Errors
/// [`ProgramError::NoThread`] where the system starts none; `work` does not run then.
///
/// # Panics
/// If `work` does.
pub fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ProgramError> {
    with_stack(ROOM, work)
}

fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Result<T, ProgramError> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
        let worker = worker.map_err(|error| ProgramError::NoThread(error.to_string()))?;
        Ok(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl Program {
    /// Runs `work`, which walks this program, with the stack that it takes.
    ///
    /// # Errors
    /// As for [`with_room`], where it nests deep.
    pub fn walked<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ProgramError> {
        let deep = std::iter::once(&self.entry).chain(&self.kernels).any(Function::is_deep);
        if deep { with_room(work) } else { Ok(work()) }
    }
}

impl Function {
    fn is_deep(&self) -> bool {
        let mut level: Vec<&Stmt> = self.body.iter().collect();
        for _ in 0..SHALLOW {
            level = level.into_iter().flat_map(|stmt| stmt.kind.blocks()).flatten().collect();
        }
        !level.is_empty()
    }
}

impl StmtKind {
    /// The statements inside a statement.
    fn blocks(&self) -> [&[Stmt]; 2] {
        match self {
            Self::For { body, .. } | Self::Order { scalars: body, .. } => [body, &[]],
            Self::While { head, body, .. } => [head, body],
            Self::If { then, orelse, .. } => [then, orelse],
            _ => [&[], &[]],
        }
    }
}

/// Deserialises a body, refusing one that is nested deeper than the limit before the stack can overflow.
pub(super) fn block<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Stmt>, D::Error> {
    struct Level;
    impl Drop for Level {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _level = Level;
    if DEPTH.get() > LIMIT.get() {
        EXCEEDED.set(true);
        return Err(D::Error::custom(format_args!("statements are nested deeper than {MAX_DEPTH} levels")));
    }
    Vec::deserialize(deserializer)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Loc, Operand};
    use super::*;
    use crate::error::ErrorKind;

    pub fn nested(depth: u32) -> Program {
        let mut body = Vec::new();
        for _ in 0..depth {
            let kind = StmtKind::If { cond: Operand::Bool(true), then: body, orelse: vec![] };
            body = vec![Stmt { at: Loc::default(), kind }];
        }
        let entry = Function {
            source: Default::default(),
            name: "entry".into(),
            at: Loc::default(),
            params: vec![],
            scalars: vec![],
            tensors: vec![],
            tiles: vec![],
            body,
        };
        let name = "nested".into();
        Program { name, files: vec![], symbols: vec![], params: vec![], entry, kernels: vec![] }
    }

    #[test]
    fn deep_nesting_is_refused_before_the_stack_overflows() {
        assert!(Program::decode(&nested(MAX_DEPTH - 1).encode()).is_ok());
        assert!(Program::decode(&nested(MAX_DEPTH + 1).encode()).is_err());
        // The guard leaves nothing behind.
        assert!(Program::decode(&nested(1).encode()).is_ok());
    }

    #[test]
    fn what_nests_deep_is_read_where_there_is_room() {
        let (flat, deep) = (nested(SHALLOW - 1).encode(), nested(MAX_DEPTH - 1).encode());
        assert!(shallow(|| Program::decode(&flat)).unwrap().is_ok());
        assert!(shallow(|| Program::decode(&deep)).is_none());
        assert!(with_room(|| Program::decode(&deep)).unwrap().is_ok());
        std::panic::catch_unwind(|| shallow(|| panic!("while it reads"))).unwrap_err();
        assert!(Program::decode(&deep).is_ok(), "the limit is the usual one again");
    }

    #[test]
    fn deep_programs_are_walked_on_a_thread_of_their_own() {
        let here = thread::current().id();
        let walked_on = |depth| nested(depth).walked(|| thread::current().id()).unwrap();
        assert_eq!(walked_on(SHALLOW), here);
        assert_ne!(walked_on(SHALLOW + 1), here);
    }

    #[test]
    fn where_the_system_starts_no_thread_that_is_an_error_and_nothing_runs() {
        // No address space has this much.
        let error = with_stack(1 << 62, || panic!("it must not run")).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Runtime, "no_thread"));
        assert!(error.to_string().starts_with("the program nests more than 20 levels deep"), "{error}");
    }
}
