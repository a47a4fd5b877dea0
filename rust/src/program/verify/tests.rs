//! Tile operations: the table accepts what it describes, refuses everything else, and never panics.

use super::{ProgramError, verify};
use crate::dtype::{DType, Rounding};
use crate::program::{
    Arg, ArgRule, Direction, FnParam, Function, Loc, OpCode, Operand, PartlyValid, Program, ScalarType, Stmt, StmtKind,
    TensorSlot, TileOp, TileSlot,
};
use proptest::prelude::*;

const DTYPES: [DType; 7] = [DType::F32, DType::F16, DType::I32, DType::U32, DType::I8, DType::I64, DType::Bool];
/// Extents of the tile slots of each type.
const SHAPES: [(u32, u32); 4] = [(4, 8), (4, 1), (1, 8), (8, 4)];

/// A kernel with every combination of type and shape as a tile slot, a matrix of each type, one scalar of each type.
fn program(op: TileOp) -> Program {
    let function = |name: &str| Function {
        source: Default::default(),
        name: name.into(),
        at: Loc::default(),
        params: vec![],
        scalars: vec![],
        tensors: vec![],
        tiles: vec![],
        body: vec![],
    };
    let tiles = DTYPES.iter().flat_map(|&dtype| SHAPES.map(|(rows, cols)| TileSlot { dtype, rows, cols })).collect();
    let tensors: Vec<TensorSlot> = DTYPES.iter().map(|&dtype| TensorSlot { dtype, rank: 2 }).collect();
    let kernel = Function {
        source: Default::default(),
        params: (0..tensors.len() as u32).map(|slot| FnParam::Tensor { slot, direction: Direction::InOut }).collect(),
        scalars: vec![ScalarType::Int, ScalarType::Float, ScalarType::Bool],
        tensors,
        tiles,
        body: vec![Stmt { at: Loc::default(), kind: StmtKind::Tile(op) }],
        ..function("kernel")
    };
    let (files, symbols, params) = (vec![], vec![], vec![]);
    Program { name: "p".into(), files, symbols, params, entry: function("entry"), kernels: vec![kernel] }
}

fn check(op: &TileOp) -> Result<(), String> {
    verify(&program(op.clone())).map_err(|error| match error {
        ProgramError::Invalid { message, .. } => message,
        other => panic!("{other}"),
    })
}

/// Some arguments that an operation may have, from a small set; most are wrong.
fn candidates(rule: ArgRule) -> Vec<Arg> {
    let tiles = (0..(DTYPES.len() * SHAPES.len()) as u32).map(Arg::Tile);
    let scalars = [Operand::Int(1), Operand::Float(1.0), Operand::Bool(true)].map(Arg::Scalar);
    match rule {
        ArgRule::Tile(..) => tiles.collect(),
        ArgRule::Either(..) => tiles.chain(scalars).collect(),
        ArgRule::Tensor(_) | ArgRule::Target => (0..DTYPES.len() as u32).map(Arg::Tensor).collect(),
        _ => scalars.to_vec(),
    }
}

/// A form of `op` that is accepted: the first that the table allows, found argument by argument.
fn accepted(op: OpCode) -> TileOp {
    let rule = op.rule();
    let outs: Vec<Option<u32>> =
        if rule.out.is_some() { (0..(DTYPES.len() * SHAPES.len()) as u32).map(Some).collect() } else { vec![None] };
    let mut wanted: Vec<ArgRule> = rule.args.to_vec();
    if wanted.last() == Some(&ArgRule::Box) {
        wanted.pop();
        wanted.extend([ArgRule::Int; 4]);
    }
    for out in outs {
        let mut forms: Vec<Vec<Arg>> = vec![vec![]];
        for &rule in &wanted {
            // Two of each are enough, and keep the product small.
            forms = forms
                .iter()
                .flat_map(|form| candidates(rule).into_iter().map(|arg| [&form[..], &[arg]].concat()))
                .filter(|form| !fails_early(op, out, form, wanted.len()))
                .take(40)
                .collect();
        }
        for args in forms {
            let found = tile_op(op, out, args);
            if check(&found).is_ok() {
                return found;
            }
        }
    }
    panic!("no form of {} is accepted", op.name());
}

fn tile_op(op: OpCode, out: Option<u32>, args: Vec<Arg>) -> TileOp {
    let mode = (op == OpCode::Cast).then_some(Rounding::Rint);
    TileOp { op, out, args, region: [Operand::Int(1), Operand::Int(1)], mode }
}

/// Whether the arguments so far are refused for another reason than that some are missing.
fn fails_early(op: OpCode, out: Option<u32>, args: &[Arg], all: usize) -> bool {
    let missing = args.len() < all;
    match check(&tile_op(op, out, args.to_vec())) {
        Ok(()) => false,
        Err(message) => {
            !(missing
                && (message.contains("more arguments")
                    || message.contains("as many extents")
                    || message.contains("a box of rank")))
        }
    }
}

#[test]
fn every_operation_has_a_form_that_is_accepted_and_none_with_an_argument_less_or_more() {
    for &op in OpCode::ALL {
        let form = accepted(op);
        for change in 0..form.args.len() {
            let mut less = form.clone();
            less.args.remove(change);
            assert!(check(&less).is_err(), "{} without argument {change}", op.name());
        }
        let mut more = form.clone();
        more.args.push(Arg::Scalar(Operand::Int(1)));
        assert!(check(&more).is_err(), "{} with one argument more", op.name());
        let mut other = form.clone();
        other.out = if form.out.is_some() { None } else { Some(0) };
        assert!(check(&other).is_err(), "{} with the other kind of result", op.name());
        let mut large = form;
        large.region = [Operand::Int(9), Operand::Int(9)];
        assert!(check(&large).is_err(), "{} with a region larger than any slot", op.name());
    }
}

#[test]
fn messages_say_what_is_wrong() {
    let add = |b| tile_op(OpCode::Add, Some(0), vec![Arg::Tile(0), b]);
    assert_eq!(check(&add(Arg::Tile(8))).unwrap_err(), "add: an argument of INT32 for FP32");
    assert_eq!(check(&add(Arg::Tensor(0))).unwrap_err(), "add: wrong arguments");
    let out_of_range = tile_op(
        OpCode::Random,
        Some(12),
        [vec![Arg::Scalar(Operand::Int(0)); 6], vec![Arg::Scalar(Operand::Int(33))]].concat(),
    );
    assert_eq!(check(&out_of_range).unwrap_err(), "random: Int(33) is no constant from 1 to 32");
    let full = tile_op(OpCode::RowSum, Some(0), vec![Arg::Tile(0), Arg::Scalar(Operand::Int(1))]);
    assert_eq!(check(&full).unwrap_err(), "row_sum: the result and its region have one column");
}

#[test]
fn what_is_declared_valid_has_an_integer_for_each_axis() {
    let check = |tensor, extents: &[Operand]| {
        let mut program = program(tile_op(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Tile(0)]));
        program.kernels[0].source.valid.push(PartlyValid { tensor, extents: extents.to_vec() });
        verify(&program).map_err(|error| error.to_string())
    };
    assert!(check(0, &[Operand::Int(3), Operand::Var(0)]).is_ok());
    assert!(check(0, &[Operand::Int(3)]).unwrap_err().ends_with("1 valid extents for rank 2"));
    for (tensor, extent) in
        [(99, Operand::Int(3)), (0, Operand::Var(99)), (0, Operand::Var(1)), (0, Operand::Bool(true))]
    {
        assert!(check(tensor, &[Operand::Int(3), extent]).is_err());
    }
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        (-2i64..10).prop_map(Operand::Int),
        any::<i64>().prop_map(Operand::Int),
        any::<f32>().prop_map(Operand::Float),
        any::<bool>().prop_map(Operand::Bool),
        (0u32..5).prop_map(Operand::Var),
    ]
}

fn argument() -> impl Strategy<Value = Arg> {
    prop_oneof![(0u32..30).prop_map(Arg::Tile), (0u32..9).prop_map(Arg::Tensor), operand().prop_map(Arg::Scalar)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_operation_with_any_arguments_is_accepted_or_refused(
        op in prop::sample::select(OpCode::ALL),
        out in prop::option::of(0u32..30),
        args in proptest::collection::vec(argument(), 0..9),
        region in [operand(), operand()],
        cast in any::<bool>(),
    ) {
        let mode = cast.then_some(Rounding::Floor);
        let _ = check(&TileOp { op, out, args, region, mode });
    }
}
