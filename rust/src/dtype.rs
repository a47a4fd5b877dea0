//! Element types of tensors and tiles.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! dtypes {
    ($($variant:ident $name:literal $size:literal $kind:ident $torch:literal $doc:literal;)*) => {
        /// The type of one element. Names in the serialised form are those of `pypto.language` (`FP32`, `INT8`, ...).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum DType {
            $(#[doc = $doc] #[serde(rename = $name)] $variant,)*
        }

        impl DType {
            /// All element types, in declaration order.
            pub const ALL: &'static [DType] = &[$(DType::$variant,)*];

            /// The name in `pypto.language`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self { $(DType::$variant => $size,)* }
            }

            /// What the bits of an element mean.
            pub const fn kind(self) -> DTypeKind {
                match self { $(DType::$variant => DTypeKind::$kind,)* }
            }

            /// The name in torch, without the `torch.` prefix.
            pub const fn torch_name(self) -> &'static str {
                match self { $(DType::$variant => $torch,)* }
            }
        }
    };
}

/// What the bits of an element mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DTypeKind {
    /// IEEE binary floating point, or bfloat16.
    Float,
    /// Two's complement integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// One byte, 0 or 1.
    Bool,
    /// Bits without a meaning here: they may be stored.
    Stored,
}

dtypes! {
    F32 "FP32" 4 Float "float32" "IEEE binary32.";
    F16 "FP16" 2 Float "float16" "IEEE binary16.";
    BF16 "BF16" 2 Float "bfloat16" "The upper half of a binary32.";
    I8 "INT8" 1 Signed "int8" "8-bit integer.";
    I16 "INT16" 2 Signed "int16" "16-bit integer.";
    I32 "INT32" 4 Signed "int32" "32-bit integer.";
    I64 "INT64" 8 Signed "int64" "64-bit integer.";
    U8 "UINT8" 1 Unsigned "uint8" "8-bit unsigned integer.";
    U16 "UINT16" 2 Unsigned "uint16" "16-bit unsigned integer.";
    U32 "UINT32" 4 Unsigned "uint32" "32-bit unsigned integer.";
    Bool "BOOL" 1 Bool "bool" "Truth value in one byte.";
    F64 "FP64" 8 Float "float64" "IEEE binary64: may be stored, has no arithmetic on the device.";
    U64 "UINT64" 8 Unsigned "uint64" "64-bit unsigned integer: may be stored, has no arithmetic on the device.";
    C64 "COMPLEX64" 8 Stored "complex64" "Two binary32.";
    C128 "COMPLEX128" 16 Stored "complex128" "Two binary64.";
    F8E4M3 "FP8E4M3FN" 1 Stored "float8_e4m3fn" "8-bit float without infinities.";
    F8E5M2 "FP8E5M2" 1 Stored "float8_e5m2" "8-bit float.";
    F8E8M0 "FP8E8M0" 1 Stored "float8_e8m0fnu" "A power of two.";
    F4x2 "FP4X2" 1 Stored "float4_e2m1fn_x2" "Two 4-bit floats.";
}

impl DType {
    /// Whether a kernel can compute with this type; the others can only be allocated and copied.
    pub const fn is_dispatchable(self) -> bool {
        !matches!(self, DType::F64 | DType::U64) && !matches!(self.kind(), DTypeKind::Stored)
    }

    /// Whether elements are floating point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), DTypeKind::Float)
    }

    /// Finds a type by its name in `pypto.language`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// Finds a type by its torch name, without the `torch.` prefix.
    pub fn from_torch_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.torch_name() == name)
    }

    /// The name in a sentence, "an FP32", "a UINT8": the article goes with how the first letter is read.
    pub fn with_article(self) -> String {
        let article = if self.name().starts_with(['F', 'H', 'I']) { "an" } else { "a" };
        format!("{article} {self}")
    }
}

/// Rounding of a conversion from floating point to integers. Conversions to floating point always round to nearest even.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// C conversion: toward zero.
    None,
    /// Nearest, ties to even.
    Rint,
    /// Nearest, ties away from zero.
    Round,
    /// Toward minus infinity.
    Floor,
    /// Toward plus infinity.
    Ceil,
    /// Toward zero.
    Trunc,
    /// To odd where inexact.
    Odd,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_type_again() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(DType::from_torch_name(dtype.torch_name()), Some(dtype));
        }
        assert_eq!(DType::from_name("FP8"), None);
    }

    #[test]
    fn the_article_goes_with_the_first_letter() {
        let named = |name| DType::from_name(name).unwrap().with_article();
        assert_eq!(
            ["FP32", "INT8", "UINT8", "BF16", "BOOL"].map(named),
            ["an FP32", "an INT8", "a UINT8", "a BF16", "a BOOL"]
        );
    }
}
