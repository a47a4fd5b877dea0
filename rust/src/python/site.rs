//! Where the user's code stands: the first frame outside of this package.
#![allow(unsafe_code)] // borrows the current frame from the interpreter

use crate::arena::Site;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFrame, PyFrameMethods, PyString};
use std::sync::{Arc, Mutex, PoisonError};

/// File names seen lately. An allocation in a loop finds its file here and shares one string.
static FILES: Mutex<[Option<File>; 16]> = Mutex::new([const { None }; 16]);

/// A file name object, kept alive so that its address identifies it.
struct File {
    name: Py<PyString>,
    /// The path, or `None` for a file of this package.
    path: Option<Arc<str>>,
}

/// The line of user code that called into this package, or `None` where no Python code runs.
pub(super) fn caller(py: Python<'_>) -> Option<Site> {
    // SAFETY: attached; the function returns a borrowed frame or null.
    let top: Option<Bound<'_, PyAny>> = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let mut frame = top?.cast_into::<PyFrame>().ok()?;
    loop {
        let name = frame.code().getattr(pyo3::intern!(py, "co_filename")).ok()?.cast_into::<PyString>().ok()?;
        if let Some(file) = user_path(&name) {
            return Some(Site { file, line: u32::try_from(frame.line_number()).unwrap_or(0) });
        }
        frame = frame.outer()?;
    }
}

fn user_path(name: &Bound<'_, PyString>) -> Option<Arc<str>> {
    let slot = (name.as_ptr().addr() >> 4) % 16;
    // No Python code runs under this lock.
    if let Some(file) = &FILES.lock().unwrap_or_else(PoisonError::into_inner)[slot]
        && file.name.is(name)
    {
        return file.path.clone();
    }
    let text = name.to_string_lossy();
    let path: Option<Arc<str>> = (!text.starts_with(package(name.py()))).then(|| Arc::from(&*text));
    let file = File { name: name.clone().unbind(), path: path.clone() };
    let replaced = FILES.lock().unwrap_or_else(PoisonError::into_inner)[slot].replace(file);
    drop(replaced);
    path
}

/// The directory of this package, with a separator at its end.
fn package(py: Python<'_>) -> &str {
    static DIRECTORY: PyOnceLock<String> = PyOnceLock::new();
    DIRECTORY.get_or_init(py, || {
        let file = || py.import("pypto")?.getattr("__file__")?.extract::<String>();
        // Without a file (a frozen application) no frame is taken for this package.
        file().ok().and_then(|file| Some(file.strip_suffix("__init__.py")?.to_owned())).unwrap_or("\0".to_owned())
    })
}
