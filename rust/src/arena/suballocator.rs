//! Suballocator (stub).

/// A block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Node.
    pub(super) node: u32,
    /// Offset in granules.
    pub(super) offset: u64,
    /// Size in granules.
    pub(super) size: u64,
}
