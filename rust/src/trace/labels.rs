//! What programs and kernels are called, for exports: a span knows only numbers.
//!
//! Kept by content id for the rest of the process, because a trace may be written after its worker is closed. Registering
//! adds a few words for each distinct program, as its span names do.

use super::forks;
use crate::sync::global::{self, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

/// A program's words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Labels {
    /// The program's name.
    pub program: String,
    /// Name and source line (`file:line`, empty where unknown) of each kernel, by its index.
    pub kernels: Vec<(String, String)>,
}

static LABELS: Mutex<Option<HashMap<u64, Arc<Labels>>>> = Mutex::new(None);

/// Remembers a program. Takes a lock, so it belongs where a program is registered.
pub fn set_labels(content_id: u64, labels: Labels) {
    lock().get_or_insert_default().insert(content_id, Arc::new(labels));
}

/// The words of the program with this content id.
pub fn labels(content_id: u64) -> Option<Arc<Labels>> {
    lock().as_ref()?.get(&content_id).cloned()
}

/// The table, while nobody else may touch it.
pub(super) type Lock = MutexGuard<'static, Option<HashMap<u64, Arc<Labels>>>>;

/// Keeps others out of the table; a fork happens under it, so that the child finds the table whole.
pub(super) fn lock() -> Lock {
    forks::survive();
    global::lock(&LABELS)
}
