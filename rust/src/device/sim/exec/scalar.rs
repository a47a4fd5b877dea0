//! Scalar operations. Integers are 64-bit and wrap, floats are binary32.

use crate::program::{ScalarOp, ScalarType};

/// The result bits of `op` on argument bits of type `kind`.
pub(super) fn apply(op: ScalarOp, kind: ScalarType, a: u64, b: u64, block: [u64; 2]) -> u64 {
    match kind {
        ScalarType::Int => int(op, a as i64, b as i64, block),
        ScalarType::Float => float(op, f32::from_bits(a as u32), f32::from_bits(b as u32)),
        ScalarType::Bool => boolean(op, a != 0, b != 0),
    }
}

fn int(op: ScalarOp, a: i64, b: i64, block: [u64; 2]) -> u64 {
    use ScalarOp::*;
    let value = match op {
        Copy => a,
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Mul => a.wrapping_mul(b),
        FloorDiv => floor_div(a, b),
        Mod => a.wrapping_sub(b.wrapping_mul(floor_div(a, b))) * i64::from(b != 0),
        Shl => a.checked_shl(shift(b)).unwrap_or(0),
        Shr => a >> shift(b).min(63),
        Min => a.min(b),
        Max => a.max(b),
        Neg => a.wrapping_neg(),
        BitNot => !a,
        WrapI8 => i64::from(a as i8),
        WrapI16 => i64::from(a as i16),
        WrapI32 => i64::from(a as i32),
        WrapU8 => i64::from(a as u8),
        WrapU16 => i64::from(a as u16),
        WrapU32 => i64::from(a as u32),
        Eq => i64::from(a == b),
        Ne => i64::from(a != b),
        Lt => i64::from(a < b),
        Le => i64::from(a <= b),
        Gt => i64::from(a > b),
        Ge => i64::from(a >= b),
        ToBool => i64::from(a != 0),
        ToFloat => return u64::from((a as f32).to_bits()),
        BlockIdx => return block[0],
        BlockNum => return block[1],
        Div | Not | And | Or | ToInt | RoundF16 | RoundBF16 => unreachable!("verified: {op:?} takes no integers"),
    };
    value as u64
}

/// A negative or huge count shifts everything out.
fn shift(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let quotient = a.wrapping_div(b);
    let inexact = a.wrapping_rem(b) != 0;
    quotient - i64::from(inexact && (a < 0) != (b < 0))
}

fn float(op: ScalarOp, a: f32, b: f32) -> u64 {
    use ScalarOp::*;
    let truth = |value: bool| u64::from(value);
    let value = match op {
        Copy => a,
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        FloorDiv => (a / b).floor(),
        Mod => a - b * (a / b).floor(),
        Min => a.min(b),
        Max => a.max(b),
        Neg => -a,
        RoundF16 => half::f16::from_f32(a).to_f32(),
        RoundBF16 => half::bf16::from_f32(a).to_f32(),
        Eq => return truth(a == b),
        Ne => return truth(a != b),
        Lt => return truth(a < b),
        Le => return truth(a <= b),
        Gt => return truth(a > b),
        Ge => return truth(a >= b),
        ToBool => return truth(a != 0.0),
        ToInt => return (a as i64) as u64,
        _ => unreachable!("verified: {op:?} takes no floats"),
    };
    u64::from(value.to_bits())
}

fn boolean(op: ScalarOp, a: bool, b: bool) -> u64 {
    use ScalarOp::*;
    match op {
        Copy => u64::from(a),
        Not => u64::from(!a),
        And => u64::from(a && b),
        Or => u64::from(a || b),
        Eq => u64::from(a == b),
        Ne => u64::from(a != b),
        ToInt => u64::from(a),
        ToFloat => u64::from(f32::from(u8::from(a)).to_bits()),
        _ => unreachable!("verified: {op:?} takes no truth values"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_floors_and_the_remainder_has_the_sign_of_the_divisor() {
        for (a, b, quotient, remainder) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1)] {
            assert_eq!(int(ScalarOp::FloorDiv, a, b, [0, 1]) as i64, quotient, "{a} // {b}");
            assert_eq!(int(ScalarOp::Mod, a, b, [0, 1]) as i64, remainder, "{a} % {b}");
        }
    }

    #[test]
    fn no_integer_operation_panics_at_the_edges() {
        use crate::program::ScalarRule;
        let edges = [i64::MIN, -1, 0, 1, 63, 64, i64::MAX];
        for &op in ScalarOp::ALL {
            let takes_ints = match op.rule() {
                ScalarRule::Same(_, types) | ScalarRule::Compare(types) | ScalarRule::Convert(types, _) => {
                    types.contains(&ScalarType::Int)
                }
                ScalarRule::Query => true,
            };
            for a in edges {
                for b in edges {
                    if takes_ints {
                        int(op, a, b, [0, 1]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_zero_divisor_yields_zero() {
        assert_eq!(int(ScalarOp::FloorDiv, 5, 0, [0, 1]), 0);
        assert_eq!(int(ScalarOp::Mod, 5, 0, [0, 1]), 0);
    }
}
