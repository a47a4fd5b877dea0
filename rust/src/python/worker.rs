//! `Worker`: one opened device. `pypto.runtime.ChipWorker` gives it a life cycle and a place in the context.
#![allow(unsafe_code)] // hands addresses of host arrays to the core's copies

use super::codes::Edge;
use super::handle::RegistrationHandle;
use super::host::{HostArray, Role};
use super::memory::{self, MemoryReport, MemoryScope};
use super::numbers::{self, ShapeRule};
use super::program::Program;
use super::shared::{Shared, detached};
use super::tensor::{self, DeviceTensor, Resident};
use super::transfer::{self, HostEnd};
use super::{buffer::Buffer, dtypes, errors, platform, residency, trace, vectorcall, way};
use crate::arena::{self, BufferKind, BufferSpec, Scope};
use crate::error::Error;
use crate::id::DeviceAddr;
use crate::worker::{FreeOutcome, ResidencyMode, WorkerConfig};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// How `alloc_tensor` words its complaints about shapes.
const RULE: ShapeRule = ShapeRule { of: "alloc_tensor", positive: "must contain only positive dimensions" };

/// One opened device with its memory and its registrations.
#[pyclass(frozen, weakref, module = "pypto._pypto")]
pub(super) struct Worker {
    shared: Arc<Shared>,
}

#[pymethods]
impl Worker {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords of one Python call")]
    #[pyo3(signature = (platform, device_id = 0, *, capacity, poison = false, packed_weights = 0.5, cores = None, schedule_seed = None, sanitize = Vec::new(), observe = None, queue_depth = 64, name = None, residency = "off"))]
    fn new(
        py: Python<'_>,
        platform: &str,
        device_id: i64,
        capacity: u64,
        poison: bool,
        packed_weights: f64,
        cores: Option<usize>,
        schedule_seed: Option<u64>,
        sanitize: Vec<String>,
        observe: Option<&str>,
        queue_depth: usize,
        name: Option<String>,
        residency: &str,
    ) -> PyResult<Self> {
        let device = platform::open(platform, device_id, cores, schedule_seed, &sanitize, observe)?;
        let residency = match residency {
            "auto" => ResidencyMode::Auto,
            "advise" => ResidencyMode::Advise,
            _ => ResidencyMode::Off,
        };
        let config = WorkerConfig { name, device, capacity, poison, packed_share: packed_weights, residency };
        let core = detached(py, || crate::worker::Worker::open(config))?;
        Ok(Self { shared: Shared::new(core, queue_depth, residency != ResidencyMode::Off) })
    }

    #[getter]
    fn id(&self) -> u64 {
        self.shared.core().id().get()
    }

    #[getter]
    fn name(&self) -> &str {
        self.shared.core().name()
    }

    #[getter]
    fn platform(&self) -> &'static str {
        self.shared.core().platform()
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.shared.core().is_open()
    }

    #[getter]
    fn is_mine(&self) -> bool {
        self.shared.is_mine()
    }

    #[pyo3(signature = (shape, dtype, init = None, *, zeroed = false, scope = None))]
    fn alloc_tensor(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        init: Option<&Bound<'_, PyAny>>,
        zeroed: bool,
        scope: Option<&Bound<'_, MemoryScope>>,
    ) -> PyResult<DeviceTensor> {
        let (shape, dtype) = (numbers::shape(shape, &RULE)?, dtypes::from_torch(dtype)?);
        let init = init.map(|init| HostArray::read(init, Role::Named("init"))).transpose()?;
        if let Some(init) = &init
            && (init.shape, init.dtype) != (shape, dtype)
        {
            return Err(Edge::InitMismatch.error(format!(
                "init must have shape={shape} dtype=torch.{}, got shape={} dtype=torch.{}",
                dtype.torch_name(),
                init.shape,
                init.dtype.torch_name()
            )));
        }
        let (scope, site) = memory::origin(py, scope);
        let spec = BufferSpec { shape, dtype, site, scope };
        let mut session = self.shared.enter(py, "alloc_tensor")?;
        let buffer = match &init {
            None if zeroed => session.allocate_zeroed(spec),
            None => session.allocate(spec),
            Some(init) => way::copy(py, &self.shared, init.bytes(), |poll| {
                // SAFETY: `init` was read just now, has exactly the bytes of the tensor, and its object outlives the call.
                unsafe { session.allocate_from(spec, init.data, poll) }
            })?,
        }?;
        drop(session);
        let resident = Resident::whole(buffer, Arc::downgrade(&self.shared));
        Ok(DeviceTensor::of(resident, shape, dtype))
    }

    fn free_tensor(&self, py: Python<'_>, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let tensor = tensor::expect(tensor, "free_tensor()")?;
        let mut session = self.shared.enter(py, "free_tensor")?;
        let Some(resident) = tensor.resident() else {
            // A bare pointer owns nothing. Where it points at live memory, freeing that would take it from its owner.
            return match session.find(DeviceAddr(tensor.addr())) {
                Ok((owner, _)) => Err(Edge::StaleTensor.error(format!(
                    "free_tensor(): stale DeviceTensor: its address belongs to another allocation, {owner}. Free the \
                     tensor that alloc_tensor() returned"
                ))),
                Err(_) => Ok(false),
            };
        };
        if resident.is_view {
            return Err(tensor::not_its_own("free_tensor()", resident));
        }
        Ok(session.free(&resident.buffer)? == FreeOutcome::Freed)
    }

    #[pyo3(signature = (nbytes, *, scope = None))]
    fn malloc(
        &self,
        py: Python<'_>,
        nbytes: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, MemoryScope>>,
    ) -> PyResult<u64> {
        let bytes = numbers::malloc_size(nbytes)?.ok_or_else(|| {
            Edge::TooLarge.error(format!("malloc failed: nbytes={nbytes} is more than any device memory has"))
        })?;
        let (scope, site) = memory::origin(py, scope);
        Ok(self.shared.enter(py, "malloc")?.malloc(bytes, site, scope)?.0)
    }

    fn free(&self, py: Python<'_>, ptr: &Bound<'_, PyAny>) -> PyResult<()> {
        let addr = DeviceAddr(numbers::address(ptr, "ptr")?);
        let mut session = self.shared.enter(py, "free")?;
        session.free_raw(addr).map_err(|error| errors::about("Parameter 'ptr' of free()", error))
    }

    #[pyo3(signature = (dst, src, nbytes = None))]
    fn copy_to(
        &self,
        py: Python<'_>,
        dst: &Bound<'_, PyAny>,
        src: &Bound<'_, PyAny>,
        nbytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (method, name) = ("copy_to", "dst_dev_ptr");
        let (copy, host) = self.shared.measured(py, (method, name), (dst, src), || {
            let host = HostEnd::read(src, "src_host_ptr")?;
            Ok((transfer::plan(method, name, dst, &host, nbytes)?, host))
        })?;
        self.shared.upload(py, &copy, &host)
    }

    #[pyo3(signature = (dst, src, nbytes = None))]
    fn copy_from(
        &self,
        py: Python<'_>,
        dst: &Bound<'_, PyAny>,
        src: &Bound<'_, PyAny>,
        nbytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (method, name) = ("copy_from", "src_dev_ptr");
        let (copy, host) = self.shared.measured(py, (method, name), (src, dst), || {
            let host = HostEnd::read(dst, "dst_host_ptr")?;
            host.require_writable("dst_host_ptr")?;
            Ok((transfer::plan(method, name, src, &host, nbytes)?, host))
        })?;
        self.shared.download(py, &copy, &host)
    }

    fn check_tensor(&self, py: Python<'_>, tensor: &Bound<'_, PyAny>, label: &str) -> PyResult<()> {
        let tensor = tensor::expect(tensor, label)?;
        match tensor.resident() {
            Some(resident) => Ok(self.shared.enter(py, "run")?.check_buffer(&resident.buffer, || label.to_owned())?),
            None => Err(Edge::RawTensor.error(format!("{label}: {}", tensor::not_resident(tensor, py)))),
        }
    }

    fn buffer(&self, py: Python<'_>, ptr: &Bound<'_, PyAny>) -> PyResult<Option<Buffer>> {
        let addr = DeviceAddr(numbers::address(ptr, "ptr")?);
        let found = self.shared.enter(py, "buffer")?.find(addr);
        Ok(found
            .ok()
            .filter(|(_, offset)| *offset == 0)
            .map(|(buffer, _)| Buffer::new(Resident::whole(buffer, Arc::downgrade(&self.shared)))))
    }

    #[pyo3(signature = (program, *, owner, compiled, output_indices, has_return))]
    fn register(
        &self,
        py: Python<'_>,
        program: &Program,
        owner: Py<PyAny>,
        compiled: Py<PyAny>,
        output_indices: Vec<usize>,
        has_return: bool,
    ) -> PyResult<Py<RegistrationHandle>> {
        let program = program.core().clone();
        let mut seen = vec![false; program.params.len()];
        for &index in &output_indices {
            match seen.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(Edge::BadOutputs.error(format!("output index {index} is given twice"))),
                None => {
                    let count = program.params.len();
                    return Err(
                        Edge::BadOutputs.error(format!("output index {index} is out of range for {count} parameters"))
                    );
                }
            }
        }
        let mut session = self.shared.enter(py, "register")?;
        let registration = detached(py, || session.register(program))?;
        drop(session);
        trace::flush_mirror(py);
        let shared = self.shared.clone();
        let handle = RegistrationHandle::new(shared, registration, owner, compiled, output_indices, has_return);
        let handle = Bound::new(py, handle)?;
        vectorcall::announce(&handle);
        Ok(handle.unbind())
    }

    #[pyo3(signature = (*, stop = false))]
    fn close(&self, py: Python<'_>, stop: bool) -> PyResult<(Vec<String>, Option<PyErr>)> {
        if stop {
            self.shared.stop();
        }
        // Wait where Ctrl-C can end the wait; `Worker::close` itself waits without looking up.
        drop(self.shared.enter(py, "close")?);
        let report = detached(py, || self.shared.core().close())?;
        self.shared.queue().end_and_wait(py)?;
        if stop {
            // A thread that came back to the interpreter while it is being torn down would be killed in the middle.
            detached(py, || self.shared.settle());
        }
        let leaked = report.leaked.iter().map(ToString::to_string).collect();
        Ok((leaked, report.damage.map(|damage| Error::from(damage).into())))
    }

    /// Waits for everything that was launched before, and for the futures of what was queued.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let mut session = self.shared.enter(py, "synchronize")?;
        session.check_open()?;
        drop(session);
        self.shared.queue().wait_for_all(py)
    }

    fn memory_report(&self, py: Python<'_>) -> PyResult<MemoryReport> {
        Ok(MemoryReport::new(self.shared.enter(py, "memory_report")?.memory_report(), &self.shared))
    }

    /// A view of each tensor that is allocated now; memory of `malloc` has no type and is none.
    fn live_tensors(&self, py: Python<'_>) -> PyResult<Vec<DeviceTensor>> {
        let report = self.shared.enter(py, "memory_report")?.memory_report();
        let tensors = report.live_buffers.into_iter().filter(|buffer| buffer.kind() == BufferKind::Tensor);
        let view = |buffer: Arc<arena::Buffer>| {
            let (shape, dtype) = (*buffer.shape(), buffer.dtype());
            DeviceTensor::of(Resident::whole(buffer, Arc::downgrade(&self.shared)), shape, dtype)
        };
        Ok(tensors.map(view).collect())
    }

    #[pyo3(signature = (tag, budget, outer = None, site = None))]
    fn memory_scope(
        &self,
        py: Python<'_>,
        tag: &str,
        budget: Option<u64>,
        outer: Option<&Bound<'_, MemoryScope>>,
        site: Option<(String, u32)>,
    ) -> PyResult<MemoryScope> {
        let tag = self.shared.enter(py, "memory_budget")?.tag(tag)?;
        let outer = outer.map(|outer| outer.get().core());
        Ok(MemoryScope::new(Scope { tag, budget, outer }, site))
    }

    fn timeline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timeline = self.shared.enter(py, "memory_snapshot")?.timeline()?;
        memory::timeline(py, &timeline)
    }

    fn residency<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = self.shared.enter(py, "advice")?.residency()?;
        report.map(|report| residency::report(py, &report)).transpose()
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.shared.core().counters();
        let dict = PyDict::new(py);
        dict.set_item("launches", counters.launches)?;
        dict.set_item("h2d_bytes", counters.h2d_bytes)?;
        dict.set_item("d2h_bytes", counters.d2h_bytes)?;
        dict.set_item("registrations", counters.registrations)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        format!("Worker({}, {})", self.shared.core().platform(), self.shared.core().owner())
    }
}
