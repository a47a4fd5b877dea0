//! Errors that are found before the core is asked: objects of Python that are no arrays, sizes, shapes or addresses.

use super::errors::exception;
use crate::error::ErrorKind;
use pyo3::prelude::*;

macro_rules! edge_errors {
    ($($(#[doc = $doc:literal])+ $variant:ident $code:literal $kind:ident;)*) => {
        /// What can be wrong with an object that Python passes. The doc of each says why, and what to do; the table of
        /// errors in the documentation is made of it.
        #[derive(Clone, Copy)]
        pub(super) enum Edge {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Edge {
            /// The exception with this text.
            pub(super) fn error(self, text: impl Into<String>) -> PyErr {
                match self { $(Edge::$variant => exception(ErrorKind::$kind, $code, text.into()),)* }
            }
        }
    };
}

edge_errors! {
    /// An argument for a tensor parameter is no array. Pass a torch tensor, a device tensor, or another array.
    NotAnArray "not_an_array" Type;
    /// The array has a mask, and the device knows none. Pass `.filled(value)`, or `.data`.
    MaskedArray "masked_array" Type;
    /// The elements are not in row-major order without gaps. Call `.contiguous()`.
    NotContiguous "not_contiguous" Value;
    /// The elements are stored with the opposite sign, as torch can. Call `.resolve_neg()`.
    NegatedView "negated_view" Value;
    /// The storage of the tensor was resized and does not hold all of it. Pass a tensor that owns its memory.
    StorageResized "storage_resized" Value;
    /// A queued launch uses memory that `share_memory_()` would move, or a tensor is submitted while another thread moves
    /// it. Share before `submit()`, or after the result.
    StorageMoved "storage_moved" Runtime;
    /// A function of numpy was given a device tensor, and would download it. Say so: `t.numpy()`, or `t.to_host()`.
    NumpyFunction "numpy_function" Type;
    /// A value was looked for in a device tensor (`1 in t`), and all of it would be downloaded. Say so:
    /// `1 in t.to_host()`.
    NotSearched "not_searched" Type;
    /// The tensor has no memory: it is fake, functional, or its storage was freed. Pass a tensor with data.
    NoMemory "no_memory" Value;
    /// The tensor is in another device's memory. Call `.cpu()`.
    NotOnCpu "not_on_cpu" Value;
    /// The device has no such element type. Convert the array.
    UnsupportedArrayDtype "unsupported_array_dtype" Type;
    /// The tensor stores something else than its elements: it is sparse or quantized. Call `.to_dense()` or `.dequantize()`.
    NotDense "not_dense" Type;
    /// Whoever made the array cannot say where it lies. The text quotes why.
    UnreadableArray "unreadable_array" Value;
    /// The array may only be read, and would be written. Pass a writable one.
    ReadOnly "read_only" Value;
    /// More than 8 dimensions. Reshape it.
    TooManyAxes "too_many_axes" Value;
    /// An extent is below 1 or beyond 63 bits, or there is none. Zero-dimensional and empty tensors do not exist.
    BadExtent "bad_extent" Value;
    /// A shape holds something else than ints. Pass a tuple of ints; nothing is truncated.
    BadShape "bad_shape" Type;
    /// Something that is no `torch.dtype`. Pass one.
    BadDtype "bad_dtype" Type;
    /// A dtype that the device cannot store. The text lists those that it can.
    UnsupportedDtype "unsupported_dtype" Value;
    /// A trace cannot be written in this format. The ending of the file's name chooses it; the text lists them.
    TraceFormat "trace_format" Value;
    /// A device address is no positive int below 2**63. Pass what `malloc()` returned, or a tensor's `data_ptr`.
    BadAddress "bad_address" Value;
    /// A host address that cannot be one: too small, or a device address. A copy has one side on the host.
    BadHostAddress "bad_host_address" Value;
    /// A number of bytes is no positive int.
    BadSize "bad_size" Value;
    /// More bytes than any memory has.
    TooLarge "allocation_too_large" Memory;
    /// A tensor of more bytes than any memory has.
    TensorTooLarge "tensor_too_large" Value;
    /// A copy of more bytes than one of its sides has. Leave `nbytes` out to copy all of it.
    CopyTooLong "copy_too_long" Value;
    /// The two sides of a copy have different dtypes or sizes.
    SidesDiffer "sides_differ" Value;
    /// Both sides of a copy are addresses, so the copy has no size. Pass `nbytes`.
    SizeMissing "size_missing" Type;
    /// The two sides of a copy are exchanged, or one is neither an address nor a tensor.
    WrongSide "wrong_side" Type;
    /// `init` has another shape or dtype than the tensor. Nothing was allocated.
    InitMismatch "init_mismatch" Value;
    /// A scalar parameter got something else than a number of its kind. Convert it.
    WrongScalar "wrong_scalar" Type;
    /// A number that its parameter cannot hold.
    ScalarRange "scalar_range" Overflow;
    /// The wrong number of arguments.
    ArgumentCount "argument_count" Type;
    /// Something that is no `DeviceTensor` where one is needed.
    NotADeviceTensor "not_a_device_tensor" Type;
    /// A device tensor that was made from a bare address: nobody vouches for it. Use `alloc_tensor()`.
    RawTensor "raw_tensor" Value;
    /// As above.
    RawTensorType "raw_tensor" Type;
    /// A tensor made from a bare address that lies in somebody's live memory. Free the tensor that `alloc_tensor()` returned.
    StaleTensor "stale_tensor" Value;
    /// A device tensor with memory behind it was pickled. That memory belongs to a worker of this process; pickle
    /// `to_host()`.
    TensorPickled "tensor_pickled" Type;
    /// A view is larger than its allocation.
    ViewTooLarge "view_too_large" Value;
    /// A view owns no memory, so it cannot be freed or used as a context manager. Do that with the tensor that it views.
    ViewOwnsNothing "view_owns_nothing" Value;
    /// A part of a device tensor that does not lie in one piece. Take whole rows, or copy with `to_host()` and slice that.
    PartHasGaps "part_has_gaps" Value;
    /// An index of a device tensor is neither an int nor a slice of ints with step 1.
    BadIndex "bad_index" Type;
    /// A device tensor has no such row, or fewer axes than there are indices.
    IndexRange "index_out_of_range" Index;
    /// A device tensor cannot be viewed with this shape: it has another number of elements.
    ViewElements "view_elements" Value;
    /// Device memory cannot be shared with another library, only copied. Leave `copy=False` and other devices out.
    NotShared "not_shared" Buffer;
    /// The worker that the tensor was on does not exist any more.
    WorkerGone "worker_gone" Runtime;
    /// `buffer=` of a device tensor is no allocation: it has no int `base`, or no `tensor()`.
    BadBuffer "bad_buffer" Type;
    /// `buffer=` of a device tensor begins at another address.
    BufferMismatch "buffer_mismatch" Value;
    /// The handle was unregistered, or its worker was closed. Register the program again.
    HandleClosed "handle_closed" Runtime;
    /// The worker of a bound launch was closed. Register the program on an open worker, and bind again.
    WorkerClosed "worker_closed" Runtime;
    /// A keyword of `update()` is no parameter of the program. The text lists those that it has.
    UnknownParameter "unknown_parameter" Type;
    /// An argument of a bound launch is asked for by something else than a position or a name.
    WrongKey "wrong_key" Type;
    /// An output that each call of a bound launch makes cannot be replaced. Bind with the output to choose it.
    OutputMade "output_made" Value;
    /// A signal handler or a finalizer that runs inside a call on a worker calls the same worker, and would wait for itself.
    /// Note the signal and act after the call, or raise from the handler to end it.
    CalledWithin "called_within" Runtime;
    /// The launch was ended because the interpreter exits.
    LaunchStopped "launch_stopped" Runtime;
    /// An output with a dynamic extent was left out. Pass all tensors.
    DynamicOutput "dynamic_output" Value;
    /// The outputs of a program are not among its parameters, or twice.
    BadOutputs "bad_outputs" Value;
    /// `config` is no `RunConfig`.
    BadConfig "bad_config" Type;
    /// No such platform. The text lists those that exist.
    UnknownPlatform "unknown_platform" Value;
    /// The platform exists and cannot be opened here. The text says what is missing.
    PlatformUnavailable "platform_unavailable" Runtime;
    /// A number of cores that no chip has, in `RunConfig(cores=)` or `PYPTO_CORES`.
    BadCores "bad_cores" Value;
    /// `PYPTO_ISA` names no instruction set, or one that this processor does not have.
    BadIsa "bad_isa" Value;
    /// The data of a program is not what the frontend writes. Compile it again.
    MalformedProgram "malformed_program" Value;
    /// A recording is over. Make a new one.
    RecordingStopped "recording_stopped" Runtime;
}
