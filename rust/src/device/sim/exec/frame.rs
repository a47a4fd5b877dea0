//! The variables of a running function.
#![allow(unsafe_code)] // addresses pass between threads

use crate::device::sim::code::Code;
use crate::program::{Operand, ViewKind};
use crate::shape::{MAX_RANK, Shape};

/// A view of device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub data: *mut u8,
    /// Which tensor parameter of the launch it lies in; [`View::CREATED`] for memory that the launch created.
    pub base: u32,
    pub rank: usize,
    pub dims: [u64; MAX_RANK],
    /// Elements from one index to the next along each axis.
    pub strides: [i64; MAX_RANK],
    /// How many indices along each axis are backed by memory. A box may be larger than what it views.
    pub limits: [u64; MAX_RANK],
}

// SAFETY: a view is an address and numbers; what is done with the address is up to whoever does it.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    pub const CREATED: u32 = u32::MAX;

    pub const NONE: Self = Self {
        data: std::ptr::null_mut(),
        base: Self::CREATED,
        rank: 0,
        dims: [0; MAX_RANK],
        strides: [0; MAX_RANK],
        limits: [0; MAX_RANK],
    };

    /// The whole of a row-major tensor.
    pub fn whole(data: *mut u8, base: u32, shape: &Shape) -> Self {
        let mut view = Self::NONE;
        view.set_whole(data, base, shape);
        view
    }

    /// As [`View::whole`], in place. Axes beyond the rank keep what they had: a view is 200 bytes, and writing all of them for
    /// each argument was a tenth of a small launch.
    pub fn set_whole(&mut self, data: *mut u8, base: u32, shape: &Shape) {
        self.data = data;
        self.base = base;
        self.rank = shape.dims().len();
        let mut stride = 1;
        for (axis, &dim) in shape.dims().iter().enumerate().rev() {
            self.dims[axis] = dim;
            self.limits[axis] = dim;
            self.strides[axis] = stride;
            stride *= dim as i64;
        }
    }

    /// Becomes a copy of `other`, as far as its rank goes.
    pub fn set(&mut self, other: &View) {
        self.data = other.data;
        self.base = other.base;
        self.rank = other.rank;
        for axis in 0..other.rank {
            self.dims[axis] = other.dims[axis];
            self.limits[axis] = other.limits[axis];
            self.strides[axis] = other.strides[axis];
        }
    }

    /// Whether the elements lie row-major without gaps. The stride of an axis of extent 1 does not matter.
    fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        (0..self.rank).rev().all(|axis| {
            let fits = self.dims[axis] == 1 || self.strides[axis] == stride;
            stride = stride.saturating_mul(self.dims[axis] as i64);
            fits && self.dims[axis] <= self.limits[axis]
        })
    }

    /// The view that `kind` makes of this one; `sizes` are the bytes of an element of both.
    pub fn derive(&self, kind: &ViewKind, sizes: [usize; 2], int: impl Fn(Operand) -> i64) -> Result<Self, String> {
        match kind {
            ViewKind::Slice { offsets, extents, keep } => self.slice(offsets, extents, keep, sizes[0], int),
            ViewKind::Reinterpret => self.reinterpret(sizes),
            ViewKind::Reshape { dims } => self.reshape(dims, int),
            ViewKind::Transpose { a, b } => {
                let (a, b) = (*a as usize, *b as usize);
                let mut view = *self;
                view.dims.swap(a, b);
                view.strides.swap(a, b);
                view.limits.swap(a, b);
                Ok(view)
            }
        }
    }

    fn slice(
        &self,
        offsets: &[Operand],
        extents: &[Operand],
        keep: &[u32],
        size: usize,
        int: impl Fn(Operand) -> i64,
    ) -> Result<Self, String> {
        let mut all = *self;
        let mut distance = 0i64;
        for axis in 0..self.rank {
            let (offset, extent) = (int(offsets[axis]), int(extents[axis]));
            if offset < 0 || extent < 0 {
                return Err(format!("slice of axis {axis} at {offset} with extent {extent}; both must be at least 0"));
            }
            all.dims[axis] = extent as u64;
            all.limits[axis] = self.limits[axis].saturating_sub(offset as u64);
            // An offset beyond the memory leaves nothing to access, so the address is never used; clamping it keeps the
            // arithmetic within the tensor.
            distance += offset.min(self.limits[axis] as i64) * self.strides[axis];
        }
        let data = self.data.wrapping_offset((distance * size as i64) as isize);
        let mut view = Self { data, base: self.base, ..Self::NONE };
        view.rank = keep.len();
        for (to, &from) in keep.iter().enumerate() {
            let from = from as usize;
            view.dims[to] = all.dims[from];
            view.limits[to] = all.limits[from];
            view.strides[to] = all.strides[from];
        }
        let dropped = (0..self.rank).filter(|&axis| !keep.contains(&(axis as u32)));
        if dropped.into_iter().any(|axis| all.limits[axis] == 0) {
            view.limits = [0; MAX_RANK];
        }
        Ok(view)
    }

    fn reinterpret(&self, [have, want]: [usize; 2]) -> Result<Self, String> {
        let mut view = *self;
        if have == want {
            return Ok(view);
        }
        let last = self.rank - 1;
        let whole = |elements: i64| (elements * have as i64) % want as i64 == 0;
        let adjacent = self.strides[last] == 1 || self.dims[last] == 1;
        let outer = (0..last).all(|axis| self.dims[axis] == 1 || whole(self.strides[axis]));
        if !adjacent || !outer || !whole(self.dims[last] as i64) || !(self.data as usize).is_multiple_of(want) {
            let shape = Shape::new(&self.dims[..self.rank]).expect("the rank of a view is bounded");
            return Err(format!(
                "reinterpret_view of {shape} elements of {have} bytes as elements of {want}: a row is no whole number of \
                 them, or is not where one can begin; reinterpret the whole tensor, or copy the view"
            ));
        }
        for axis in 0..last {
            view.strides[axis] = self.strides[axis] * have as i64 / want as i64;
        }
        view.strides[last] = 1;
        view.dims[last] = self.dims[last] * have as u64 / want as u64;
        view.limits[last] = self.limits[last] * have as u64 / want as u64;
        Ok(view)
    }

    fn reshape(&self, dims: &[Operand], int: impl Fn(Operand) -> i64) -> Result<Self, String> {
        let mut wanted = [0u64; MAX_RANK];
        for (to, &dim) in wanted.iter_mut().zip(dims) {
            let dim = int(dim);
            *to = u64::try_from(dim).map_err(|_| format!("reshape to an extent of {dim}"))?;
        }
        let shape = Shape::new(&wanted[..dims.len()]).ok_or("reshape to too many axes")?;
        let have = Shape::new(&self.dims[..self.rank]).expect("the rank of a view is bounded");
        if shape.elements().is_none() || shape.elements() != have.elements() {
            return Err(format!("reshape of {have} to {shape}; the number of elements must stay the same"));
        }
        if !self.is_contiguous() {
            return Err(
                "reshape of a tensor view that is not contiguous; reshape the whole tensor, or copy the view".into()
            );
        }
        Ok(Self::whole(self.data, self.base, &shape))
    }
}

/// Scalars and tensor views of one function; made once and used by every launch.
pub(super) struct Frame {
    pub scalars: Vec<u64>,
    pub tensors: Vec<View>,
    pub block: [u64; 2],
}

impl Frame {
    pub fn new(code: &Code) -> Self {
        Self { scalars: vec![0; code.scalars], tensors: vec![View::NONE; code.tensors.len()], block: [0, 1] }
    }

    /// The bits of an operand.
    #[inline]
    pub fn bits(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Int(value) => value as u64,
            Operand::Float(value) => u64::from(value.to_bits()),
            Operand::Bool(value) => u64::from(value),
            Operand::Var(slot) => self.scalars[slot as usize],
        }
    }

    /// An integer operand.
    #[inline]
    pub fn int(&self, operand: Operand) -> i64 {
        self.bits(operand) as i64
    }
}
