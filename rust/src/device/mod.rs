//! The device contract, and the devices that keep it. A new platform is one folder here.
//!
//! A device turns a [`Program`] into an [`Executable`] once, at registration, and runs it many times. It owns no user
//! memory: the worker gives it addresses.

pub mod findings;
pub mod profile;
pub mod sim;

use crate::dtype::DType;
use crate::error::ErrorKind;
use crate::program::{Loc, Program, ProgramError};
use crate::shape::Shape;
use findings::Findings;
use profile::{Profile, TaskOf};

/// One opened device.
pub trait Device: Send + Sync {
    /// The name in `RunConfig.platform`.
    fn platform(&self) -> &'static str;

    /// How many cores it has.
    fn cores(&self) -> usize;

    /// Whether its launches only look at what launches elsewhere do: they are no launches of the program in a trace.
    fn is_observing(&self) -> bool {
        false
    }

    /// Verifies `program`, resolves its kernels and plans its scratch memory.
    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError>;

    /// Bytes of the packed form of a matrix. Leading extents of `shape` count as rows.
    fn packed_bytes(&self, form: PackedForm, shape: &Shape) -> u64 {
        let _ = (form, shape);
        0
    }

    /// Packs a matrix, so that products with it need not.
    ///
    /// # Safety
    /// `matrix` is row-major and valid for its shape and the element type of `form`, `dst` for
    /// [`Device::packed_bytes`] bytes aligned to 64; nobody writes either meanwhile.
    #[allow(unsafe_code)]
    unsafe fn pack(&self, form: PackedForm, matrix: &TensorArg, dst: *mut u8) {
        let _ = (form, matrix, dst);
    }

    /// What lies in these bytes of device memory is of nobody from now on, whatever is read there: they were allocated.
    fn memory_is_fresh(&self, data: *const u8, bytes: u64) {
        let _ = (data, bytes);
    }

    /// These bytes of device memory were set by the caller, without a copy.
    fn memory_is_set(&self, data: *const u8, bytes: u64) {
        let _ = (data, bytes);
    }

    /// Copies `bytes` from host memory to device memory. After an error the target holds anything.
    ///
    /// # Errors
    /// [`DeviceError::Transfer`].
    ///
    /// # Safety
    /// Both ranges are valid for `bytes` and do not overlap; nobody writes either meanwhile.
    #[allow(unsafe_code)]
    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError>;

    /// Whether `bytes` bytes of device memory are those of host memory. A device that would have to copy them to know
    /// answers no.
    ///
    /// # Safety
    /// Both ranges are valid for reads of `bytes`; nobody writes either meanwhile.
    #[allow(unsafe_code)]
    unsafe fn equals(&self, memory: *const u8, host: *const u8, bytes: usize) -> bool {
        let _ = (memory, host, bytes);
        false
    }

    /// Copies `bytes` from device memory to host memory. After an error the target holds anything.
    ///
    /// # Errors
    /// [`DeviceError::Transfer`].
    ///
    /// # Safety
    /// As for [`Device::copy_in`].
    #[allow(unsafe_code)]
    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError>;
}

/// A program made ready for one device.
pub trait Executable: Send {
    /// Bytes of scratch memory that a launch needs. The worker reserves them once, at registration.
    fn scratch_bytes(&self) -> u64;

    /// An estimate of the work of one launch in nanoseconds of one core. The caller releases the Python lock only for
    /// launches that are longer than the release.
    fn estimated_ns(&self) -> u64;

    /// The tensor parameters of which a packed form helps.
    fn packable(&self) -> &[Packable] {
        &[]
    }

    /// Whether a launch that [repeats](Launch::repeats) the last one writes every byte of this tensor parameter and reads
    /// none of it. Then nobody sees what was there, and the caller need not clear it. `false` is always right.
    fn overwrites(&self, tensor: usize) -> bool {
        let _ = tensor;
        false
    }

    /// What the launches since the last call took, step by step; `None` from a device that does not profile.
    fn take_profile(&mut self) -> Option<Profile> {
        None
    }

    /// The tasks of the last launch in program order; `None` from a device that does not follow them.
    fn take_tasks(&mut self) -> Option<Vec<TaskOf>> {
        None
    }

    /// Runs the program once and returns when it is done.
    ///
    /// # Safety
    /// `launch.tensors` and `launch.scalars` match the parameters of the program: number, rank, element type, extents,
    /// and each address is valid for its extents. A tensor that the program writes overlaps no other. `launch.scratch`
    /// has [`Executable::scratch_bytes`] bytes.
    #[allow(unsafe_code)]
    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError>;
}

/// What one launch works on.
pub struct Launch<'a> {
    /// The tensor parameters in order: row-major device memory.
    pub tensors: &'a [TensorArg],
    /// The scalar parameters in order: integers as two's complement, floats as the bits of a binary32, truth values 0 or 1.
    pub scalars: &'a [u64],
    /// The extents of all tensors and the scalars are those of the last launch of this executable, however that ended.
    /// Addresses may differ. What the device worked out for them then still holds.
    pub repeats: bool,
    /// Packed forms of the tensors, one for each [`Executable::packable`], null where there is none; may be empty.
    pub packed: &'a [*const u8],
    /// Scratch memory of the executable, 256-byte aligned.
    pub scratch: *mut u8,
    /// Memory for what the program creates in this launch.
    pub workspace: &'a mut dyn Workspace,
    /// Asked now and then (at least every 50 ms) on the calling thread; `false` stops the launch with
    /// [`DeviceError::Interrupted`].
    pub poll: &'a mut dyn FnMut() -> bool,
    /// Number of this launch in the process, for trace records.
    pub invocation: u32,
}

/// How a matrix is packed. Every device packs equal forms alike, whatever the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedForm {
    /// Element type.
    pub dtype: DType,
    /// The matrix is the transpose of the right operand: rows are its columns.
    pub transposed: bool,
}

/// A tensor parameter that is only read, and as the right operand of matrix products.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packable {
    /// Which of [`Launch::tensors`].
    pub tensor: usize,
    /// The form that the products take.
    pub form: PackedForm,
}

/// A tensor argument.
#[derive(Clone, Copy, Debug)]
pub struct TensorArg {
    /// First element.
    pub data: *mut u8,
    /// Extents.
    pub shape: Shape,
}

/// Device memory that lives for one launch.
pub trait Workspace {
    /// `bytes` bytes, 256-byte aligned, undefined contents, valid to the end of the launch.
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError>;
}

/// A device that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program breaks a rule or uses what this device does not have.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// `poll` asked to stop. The device is ready for the next launch; what the launch or the copy wrote so far stays.
    #[error("{what} was interrupted")]
    Interrupted {
        /// The launch or the copy.
        what: String,
    },
    /// A statement failed while it ran: an access outside a tensor, a negative extent.
    #[error("{program}: {file}:{line}: {message}", line = at.1)]
    Fault {
        /// Name of the program.
        program: String,
        /// Source file.
        file: String,
        /// Place in it.
        at: Loc,
        /// What went wrong and what to do.
        message: String,
    },
    /// The sanitizers of `RunConfig(sanitize=)` found faults: races, reads of what nothing wrote, accesses out of bounds or to what
    /// is not valid. The launch ran to its end; the attribute `findings` has them as objects.
    #[error("{0}")]
    Sanitizer(Box<Findings>),
    /// Memory for what the program creates could not be had.
    #[error("{0}")]
    OutOfMemory(String),
    /// A copy between host and device failed. What it was to write holds anything; a tensor that was being allocated does
    /// not exist. Try again; where it fails again, close the worker and open another one.
    #[error("{0}")]
    Transfer(String),
    /// A platform that cannot be opened here.
    #[error("{0}")]
    Unavailable(String),
}

impl DeviceError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            DeviceError::Program(error) => error.kind(),
            DeviceError::Interrupted { .. } => ErrorKind::Interrupted,
            DeviceError::Fault { .. } => ErrorKind::Runtime,
            DeviceError::Sanitizer(_) => ErrorKind::Runtime,
            DeviceError::OutOfMemory(_) => ErrorKind::Memory,
            DeviceError::Transfer(_) => ErrorKind::Runtime,
            DeviceError::Unavailable(_) => ErrorKind::Runtime,
        }
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            DeviceError::Program(error) => error.code(),
            DeviceError::Interrupted { .. } => "interrupted",
            DeviceError::Fault { .. } => "device_fault",
            DeviceError::Sanitizer(_) => "sanitizer_findings",
            DeviceError::OutOfMemory(_) => "workspace_exhausted",
            DeviceError::Transfer(_) => "copy_failed",
            DeviceError::Unavailable(_) => "platform_unavailable",
        }
    }
}
