//! What keeps the memory of a host array where it is until the launch that uses it is over.
//!
//! A launch that is waited for needs none of this: its arguments are on the caller's stack. A queued one runs while the
//! caller goes on, so the memory must outlive whatever becomes of the array. Three things take it away from under a
//! reference, and each is stopped in the only way that its library leaves:
//!
//! * `t.resize_(...)` gives a storage of torch other memory. Torch closes a storage to that when numpy looks at it.
//! * `t.share_memory_()`, also called for tensors that are sent to another process, moves a storage. Torch lets only one
//!   thread at a time move a storage, by a table of those that are being moved; a [`Mooring`] stands in it for a queued one.
//! * `array.resize(..., refcheck=False)` frees the memory of a numpy array, unless somebody holds a weak reference to it.

use super::codes::Edge;
use super::dlpack::{BufferTensor, CapsuleTensor};
use crate::fork;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyWeakrefReference};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What owns the memory of an array beside the object itself.
pub(super) enum Keep {
    /// A capsule of DLPack, or a weak reference.
    Object(#[expect(dead_code, reason = "held only to be dropped after the memory was used")] Py<PyAny>),
    /// A storage of torch.
    Storage(Moored),
    Buffer(#[expect(dead_code, reason = "as above")] BufferTensor),
}

impl Keep {
    /// Holds the memory of a torch tensor, or of an array that is like one, once that is moored too.
    ///
    /// Holding the tensor itself is not enough: `t.data = other` gives it other storage and ends the old one. A capsule of
    /// DLPack holds no more than the storage does, at ten times the price.
    ///
    /// # Errors
    /// What torch raises.
    pub(super) fn memory_of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let storage = match object.call_method0(intern!(py, "untyped_storage")) {
            Ok(storage) => storage,
            // Another producer of the same protocol.
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
                return Ok(Self::Object(CapsuleTensor::request(object)?.into_capsule().unbind()));
            }
            Err(error) => return Err(error),
        };
        if storage.call_method0(intern!(py, "resizable"))?.is_truthy()? {
            // Numpy looks through a tensor of its own: not every tensor has an element type or a state that numpy takes.
            let torch = py.import(intern!(py, "torch"))?;
            let keywords = PyDict::new(py);
            keywords.set_item(intern!(py, "dtype"), torch.getattr(intern!(py, "uint8"))?)?;
            keywords.set_item(intern!(py, "device"), intern!(py, "cpu"))?;
            let window = torch.call_method(intern!(py, "empty"), (0,), Some(&keywords))?;
            window.call_method1(intern!(py, "set_"), (&storage,))?;
            window.call_method0(intern!(py, "numpy"))?;
        }
        Ok(Self::Storage(Moored { storage: storage.unbind(), key: None }))
    }

    /// Holds the memory of a numpy array whose buffer is held already: that of the array that it is a view of, at the end.
    pub(super) fn array(object: &Bound<'_, PyAny>, keep: &mut Vec<Self>) {
        let base = intern!(object.py(), "base");
        let mut next = Some(object.clone());
        while let Some(array) = next {
            // Bytes, and other objects without weak references, do not resize while somebody looks at their buffer.
            let Ok(weak) = PyWeakrefReference::new(&array) else { return };
            keep.push(Self::Object(weak.into_any().unbind()));
            next = array.getattr(base).ok().filter(|owner| !owner.is_none());
        }
    }
}

/// The table of storages that are being moved to shared memory, by their addresses, and its lock. Torch without it moves
/// storages of queued launches, as nobody can be asked not to.
struct Harbour {
    lock: Py<PyAny>,
    moving: Py<PyAny>,
}

impl Harbour {
    fn get(py: Python<'_>) -> Option<&'static Self> {
        static HARBOUR: PyOnceLock<Option<Harbour>> = PyOnceLock::new();
        let find = || {
            let module = py.import("torch.storage").ok()?;
            let part = |name: &str| module.getattr(name).ok().map(Bound::unbind);
            Some(Self { lock: part("_share_memory_lock")?, moving: part("_share_memory_map")? })
        };
        HARBOUR.get_or_init(py, find).as_ref()
    }

    /// Uses the table while nobody else does.
    fn locked<'py>(&self, py: Python<'py>, work: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<()>) -> PyResult<()> {
        let Ok(moving) = self.moving.bind(py).cast::<PyDict>() else { return Ok(()) };
        let lock = self.lock.bind(py);
        lock.call_method0(intern!(py, "acquire"))?;
        let done = work(moving);
        lock.call_method0(intern!(py, "release"))?;
        done
    }
}

/// Stands for a storage that queued launches use, where torch looks for one that another thread is moving.
#[pyclass(frozen, module = "pypto._pypto")]
struct Mooring {
    storage: Py<PyAny>,
    launches: AtomicUsize,
    generation: u32,
}

#[pymethods]
impl Mooring {
    /// What torch does to wait until the other thread is done, before it moves the storage itself.
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        // In a forked child nobody launches; and what is shared already is not moved.
        let is_free = fork::generation() != self.generation
            || self.storage.bind(py).call_method0(intern!(py, "is_shared"))?.is_truthy()?;
        if is_free { Ok(()) } else { Err(Self::refusal()) }
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, _exc: &Bound<'_, PyTuple>) {}
}

impl Mooring {
    #[cold]
    fn refusal() -> PyErr {
        Edge::StorageMoved.error(
            "a queued launch uses the memory of this tensor, and moving it to shared memory would take it away. Call \
             share_memory_() (or send the tensor to another process) before submit(), or after the result",
        )
    }
}

/// A storage of torch that stays where it is from [`moor`] on, as long as this lives.
pub(super) struct Moored {
    storage: Py<PyAny>,
    /// Its address, by which the table has it.
    key: Option<Py<PyAny>>,
}

impl Moored {
    fn enter(&mut self, moving: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = moving.py();
        let key = self.storage.bind(py).getattr(intern!(py, "_cdata"))?;
        let generation = fork::generation();
        let there = moving.get_item(&key)?;
        match there.as_ref().map(|there| there.cast::<Mooring>()) {
            Some(Ok(there)) if there.get().generation == generation => {
                there.get().launches.fetch_add(1, Ordering::Relaxed);
            }
            Some(Err(_)) => {
                return Err(Edge::StorageMoved.error(
                    "another thread moves the memory of this tensor to shared memory; wait for it before submit()",
                ));
            }
            // Nobody, or a launch of the parent.
            _ => {
                let (storage, launches) = (self.storage.clone_ref(py), AtomicUsize::new(1));
                moving.set_item(&key, Py::new(py, Mooring { storage, launches, generation })?)?;
            }
        }
        self.key = Some(key.unbind());
        Ok(())
    }

    fn leave(&mut self, moving: &Bound<'_, PyDict>) -> PyResult<()> {
        let Some(key) = self.key.take() else { return Ok(()) };
        let Some(there) = moving.get_item(&key)? else { return Ok(()) };
        let Ok(mooring) = there.cast::<Mooring>() else { return Ok(()) };
        let is_last = mooring.get().generation == fork::generation()
            && mooring.get().launches.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last { moving.del_item(key) } else { Ok(()) }
    }
}

impl Drop for Moored {
    fn drop(&mut self) {
        if self.key.is_none() {
            return;
        }
        // At the end of the interpreter nobody moves anything any more.
        Python::try_attach(|py| {
            let left = Harbour::get(py).map(|harbour| harbour.locked(py, |moving| self.leave(moving)));
            if let Some(Err(error)) = left {
                error.write_unraisable(py, Some(self.storage.bind(py)));
            }
        });
    }
}

/// Sees to it that no storage among `keep` is moved until [`cast_off`]. One lock for all: it costs as much as the rest.
///
/// # Errors
/// `RuntimeError` where another thread moves one at this moment.
pub(super) fn moor(py: Python<'_>, keep: &mut [Keep]) -> PyResult<()> {
    for_storages(py, keep, Moored::enter)
}

/// Lets go of all.
pub(super) fn cast_off(py: Python<'_>, mut keep: Vec<Keep>) {
    if let Err(error) = for_storages(py, &mut keep, Moored::leave) {
        error.write_unraisable(py, None);
    }
}

fn for_storages(
    py: Python<'_>,
    keep: &mut [Keep],
    what: fn(&mut Moored, &Bound<'_, PyDict>) -> PyResult<()>,
) -> PyResult<()> {
    let mut storages = keep.iter_mut().filter_map(|keep| match keep {
        Keep::Storage(storage) => Some(storage),
        _ => None,
    });
    let mut first = storages.next();
    match Harbour::get(py).filter(|_| first.is_some()) {
        Some(harbour) => harbour.locked(py, |moving| {
            first.take().into_iter().chain(storages).try_for_each(|storage| what(storage, moving))
        }),
        None => Ok(()),
    }
}
