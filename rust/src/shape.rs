//! Shapes of tensors: a small array of extents, copied by value so that the launch path allocates nothing.

use std::fmt;
use std::ops::Deref;

/// The largest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// Extents of a tensor, outermost first. At most [`MAX_RANK`] of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    rank: u8,
    dims: [u64; MAX_RANK],
}

impl Shape {
    /// A shape with these extents, or `None` where there are more than [`MAX_RANK`].
    pub fn new(dims: &[u64]) -> Option<Self> {
        if dims.len() > MAX_RANK {
            return None;
        }
        let mut all = [0; MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Some(Self { rank: dims.len() as u8, dims: all })
    }

    /// The extents.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..usize::from(self.rank)]
    }

    /// The number of elements, or `None` where it exceeds 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.dims().iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
    }
}

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.dims()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints as Python prints a tuple: `(16, 4096)`, `(7,)`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, dim) in self.dims().iter().enumerate() {
            if axis > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str(if self.rank == 1 { ",)" } else { ")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_like_a_python_tuple() {
        assert_eq!(Shape::new(&[16, 4096]).unwrap().to_string(), "(16, 4096)");
        assert_eq!(Shape::new(&[7]).unwrap().to_string(), "(7,)");
    }

    #[test]
    fn rejects_what_does_not_fit() {
        assert!(Shape::new(&[1; MAX_RANK + 1]).is_none());
        assert_eq!(Shape::new(&[u64::MAX, 2]).unwrap().elements(), None);
    }
}
