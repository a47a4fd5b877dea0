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
        FloorDivU64 | ModU64 | ShrU64 | MinU64 | MaxU64 | LtU64 | LeU64 | GtU64 | GeU64 | U64ToFloat => {
            return unsigned(op, a as u64, b as u64);
        }
        Div | Not | And | Or | ToInt | ToU64 | RoundF16 | RoundBF16 => {
            unreachable!("verified: {op:?} takes no integers")
        }
    };
    value as u64
}

fn unsigned(op: ScalarOp, a: u64, b: u64) -> u64 {
    use ScalarOp::*;
    match op {
        FloorDivU64 => a.checked_div(b).unwrap_or(0),
        ModU64 => a.checked_rem(b).unwrap_or(0),
        ShrU64 => u32::try_from(b).ok().and_then(|count| a.checked_shr(count)).unwrap_or(0),
        MinU64 => a.min(b),
        MaxU64 => a.max(b),
        LtU64 => u64::from(a < b),
        LeU64 => u64::from(a <= b),
        GtU64 => u64::from(a > b),
        GeU64 => u64::from(a >= b),
        U64ToFloat => u64::from((a as f32).to_bits()),
        _ => unreachable!("{op:?} has a sign"),
    }
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
        ToU64 => return a as u64,
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
    fn integers_without_sign_use_all_64_bits() {
        let (high, low) = (u64::MAX, 3u64);
        let apply = |op, a: u64, b: u64| int(op, a as i64, b as i64, [0, 1]);
        assert_eq!(apply(ScalarOp::FloorDivU64, high, low), high / 3);
        assert_eq!(apply(ScalarOp::ModU64, high, 16), 15);
        assert_eq!(apply(ScalarOp::ShrU64, high, 60), 15);
        assert_eq!(apply(ScalarOp::ShrU64, high, 64), 0);
        assert_eq!(apply(ScalarOp::MinU64, high, low), low);
        assert_eq!(apply(ScalarOp::MaxU64, high, low), high);
        for (op, truth) in
            [(ScalarOp::LtU64, false), (ScalarOp::LeU64, false), (ScalarOp::GtU64, true), (ScalarOp::GeU64, true)]
        {
            assert_eq!(apply(op, high, low), u64::from(truth), "{op:?}");
        }
        assert_eq!(f32::from_bits(apply(ScalarOp::U64ToFloat, 1 << 63, 0) as u32), 9_223_372_036_854_775_808.0);
        assert_eq!(float(ScalarOp::ToU64, 9_223_372_036_854_775_808.0, 0.0), 1 << 63);
        assert_eq!(float(ScalarOp::ToU64, -1.0, 0.0), 0);
    }

    #[test]
    fn a_zero_divisor_yields_zero() {
        for op in [ScalarOp::FloorDiv, ScalarOp::Mod, ScalarOp::FloorDivU64, ScalarOp::ModU64] {
            assert_eq!(int(op, 5, 0, [0, 1]), 0, "{op:?}");
        }
    }
}
