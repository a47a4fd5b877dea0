//! Calls of handles and bound launches by the vectorcall protocol: arguments arrive on the interpreter's stack.
//!
//! PyO3 gives a class with `__call__` the older protocol, for which the interpreter makes a tuple in every call and PyO3
//! another slice of it: 250 of the 1,350 instructions of an empty launch. So the class gets the newer protocol in addition.
#![allow(unsafe_code)] // sets fields of a type object and reads arguments where the interpreter put them

use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::PyTuple;
use std::ffi::c_ulong;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Once;

/// The function that the interpreter calls; each handle holds a pointer to it where the type says.
pub(super) type Vectorcall = ffi::vectorcallfunc;

/// A class whose objects are called.
pub(super) trait Callable: PyClass<Frozen = True> + Sync {
    /// The field that holds [`entry`] of the class.
    fn vectorcall(&self) -> &Vectorcall;

    /// Runs once for the class.
    fn once() -> &'static Once;

    /// `object(*args, config=config)`.
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
        config: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>>;
}

/// The only value of a [`Vectorcall`] in an object of the class.
pub(super) const fn entry<T: Callable>() -> Vectorcall {
    enter::<T>
}

/// Announces the protocol for the class of `object`. Called with each new object: where the function pointer lies in an
/// object is known from an object only.
pub(super) fn announce<T: Callable>(object: &Bound<'_, T>) {
    T::once().call_once(|| {
        let offset = ptr::from_ref(object.get().vectorcall()).addr() - object.as_ptr().addr();
        let class = object.as_any().get_type_ptr();
        // SAFETY: attached; the type is a heap type of this module that nobody inherits from, every instance has the
        // pointer at this offset, and `__call__` does the same. Flags are a `c_ulong` in every build.
        unsafe {
            (*class).tp_vectorcall_offset = offset as ffi::Py_ssize_t;
            *(&raw mut (*class).tp_flags).cast::<c_ulong>() |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
            ffi::PyType_Modified(class);
        }
    });
}

/// # Safety
/// The interpreter's promise: attached; `callable` is a `T`; `args` has as many borrowed objects as `nargsf` and
/// `keywords` say; they outlive the call.
unsafe extern "C" fn enter<T: Callable>(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the promise above.
    let py = unsafe { Python::assume_attached() };
    // A panic must not unwind into the interpreter.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the promise above.
        let object = unsafe { Borrowed::from_ptr(py, callable).cast_unchecked::<T>() };
        // SAFETY: as above; the flag bit of `nargsf` is removed.
        let positional = unsafe { ffi::PyVectorcall_NARGS(nargsf) } as usize;
        let named = match keywords.is_null() {
            true => None,
            // SAFETY: as above: a tuple of names.
            false => Some(unsafe { Borrowed::from_ptr(py, keywords).cast_unchecked::<PyTuple>() }),
        };
        // SAFETY: as above. `Bound` is a transparent pointer; a slice of it neither takes nor gives back references.
        let all = unsafe { slice(args.cast::<Bound<'_, PyAny>>(), positional + named.map_or(0, |named| named.len())) };
        let (positional, values) = all.split_at(positional);
        let config = named.map_or(Ok(None), |named| config_of(<T as PyClass>::NAME, &named, values))?;
        object.get().call(py, positional, config)
    }));
    let error = match outcome {
        Ok(Ok(result)) => return result.into_ptr(),
        Ok(Err(error)) => error,
        Err(panic) => PanicException::new_err(panic_text(&*panic)),
    };
    error.restore(py);
    ptr::null_mut()
}

/// # Safety
/// `data` has `len` entries, or `len` is 0.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// The value of `config=`; another keyword is an error, `None` counts as absent.
fn config_of<'a, 'py>(
    class: &str,
    names: &Bound<'py, PyTuple>,
    values: &'a [Bound<'py, PyAny>],
) -> PyResult<Option<&'a Bound<'py, PyAny>>> {
    let mut config = None;
    for (name, value) in names.iter().zip(values) {
        if !name.eq("config")? {
            return Err(PyTypeError::new_err(format!(
                "{class}.__call__() got an unexpected keyword argument '{name}'"
            )));
        }
        config = (!value.is_none()).then_some(value);
    }
    Ok(config)
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panic in the runtime").to_owned()
}
