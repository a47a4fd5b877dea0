//! Whole-tile operations, and elementwise ones on 64-bit integers: steps of their own.

use super::super::functions::is_element_scalar;
use super::super::graph::{NodeId, NodeOp};
use super::super::unsupported;
use super::homes::changes_in_place;
use super::{Outside, Scheduler};
use crate::device::DeviceError;
use crate::device::sim::code::{BlockMem, BlockStep, BoxSpec, Extent, Mem, MemUse, ScalarUse, Step, TileMem, WholeUse};
use crate::dtype::DType;
use crate::kernels::block::{Block, BlockOp, Combine, Compare};
use crate::program::{Loc, OpCode, Operand};

impl Scheduler<'_> {
    /// An operation that is no part of a chain.
    pub(super) fn whole(&mut self, id: NodeId, op: OpCode, tensor: Option<u32>, pos: usize) -> Result<(), DeviceError> {
        self.flush(pos)?;
        let node = &self.graph.nodes[id];
        let scatters =
            matches!(op, OpCode::ScatterCols | OpCode::ScatterFlat | OpCode::ScatterStride | OpCode::ScatterRows);
        let mut inputs = &node.inputs[..];
        let mut place = None;
        if scatters {
            place = self.take_over(id, pos, true)?;
            inputs = &inputs[1..];
        } else if op == OpCode::FillPad && self.places[inputs[0]].is_some() {
            place = self.take_over(id, pos, false)?;
        }
        if let (OpCode::ScatterTensor, Some(tensor)) = (op, tensor) {
            self.before_tensor_changes(tensor, pos)?;
        }
        let mut mems = Vec::new();
        for (at, &input) in inputs.iter().enumerate() {
            // Bytes and flat indices count through the slot.
            let whole = at == 0 && matches!(op, OpCode::GatherBytes | OpCode::ScatterRows);
            if whole || matches!(self.graph.nodes[input].op, NodeOp::Fill) {
                self.in_memory(input, pos)?;
            }
            let value = &self.graph.nodes[input];
            let (region, bound) = (value.region, [value.rows, value.cols]);
            mems.push(self.argument(input, Extent::FULL, (region, bound), pos)?);
        }
        if !node.is_effect() {
            let mem = self.result_place(id, place, &mems, tensor, pos)?;
            mems.insert(0, self.result(mem, node.dtype, node.region, [node.rows, node.cols]));
        }
        let scalars = node.scalars.iter().enumerate().map(|(at, &value)| {
            let dtype = match is_element_scalar(op, at) {
                true => inputs.first().map_or(node.dtype, |&input| self.graph.nodes[input].dtype),
                false => DType::I64,
            };
            ScalarUse { value, dtype }
        });
        let scalars = scalars.collect();
        let tensor = tensor.map(|slot| {
            let dtype = self.function.tensors[slot as usize].dtype;
            WholeUse { slot, dtype, write: node.is_effect() }
        });
        self.push_block(whole_op(op), mems, scalars, tensor, node.region, [node.rows, node.cols], (id, node.at))
    }

    /// Where an operation leaves its result: in device memory, if all that follows is to store it; else in `place`, where
    /// it changes its first argument, or in a home of its own.
    fn result_place(
        &mut self,
        id: NodeId,
        place: Option<TileMem>,
        arguments: &[BlockMem],
        tensor: Option<u32>,
        pos: usize,
    ) -> Result<Mem, DeviceError> {
        let node = &self.graph.nodes[id];
        if !changes_in_place(node) {
            let operands: Vec<&MemUse> = arguments.iter().filter_map(BlockMem::memory).collect();
            if let Some(spec) = self.direct_store(id, &operands, tensor, Some(node.dtype), pos)? {
                return Ok(Mem::Box(spec));
            }
        }
        let home = place.unwrap_or_else(|| self.pick_home(id, pos, None));
        self.places[id] = Some(home);
        Ok(Mem::Tile(home))
    }

    /// Whether an operation writes all of its region: its argument has all that it takes.
    fn fills(&self, id: NodeId, op: BlockOp) -> bool {
        let node = &self.graph.nodes[id];
        let argument = || self.graph.nodes[node.inputs[0]].region;
        match op {
            BlockOp::Copy => true,
            BlockOp::Transpose => argument() == [node.region[1], node.region[0]],
            BlockOp::ColReduce(_) => argument()[1] == node.region[1],
            _ => false,
        }
    }

    /// An elementwise operation or a reduction with 64-bit elements.
    pub(super) fn wide(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        self.flush(pos)?;
        let node = &self.graph.nodes[id];
        let op = match node.op {
            NodeOp::Cast(mode) if self.graph.nodes[node.inputs[0]].dtype != node.dtype => BlockOp::Cast(mode),
            NodeOp::Cast(_) | NodeOp::Expand => BlockOp::Copy,
            NodeOp::Unary(op) | NodeOp::Binary(op) => BlockOp::Combine(combine(op)),
            NodeOp::Compare(op) => BlockOp::Compare(comparison(op)),
            NodeOp::Select => BlockOp::Select,
            NodeOp::RowReduce(op) => BlockOp::RowReduce(combine(op)),
            ref other => unreachable!("{other:?} is no elementwise operation"),
        };
        let mut mems = Vec::new();
        for &input in &node.inputs {
            self.reachable(input, node, pos)?;
            let value = &self.graph.nodes[input];
            let reduces = matches!(node.op, NodeOp::RowReduce(_));
            let rows = value.rows > 1 || node.rows == 1;
            let extent = Extent { rows, cols: reduces || value.cols > 1 || node.cols == 1 };
            // All that the operation reads must be there, also what its argument's own region leaves undefined.
            let (mut region, mut bound) = (node.region, [node.rows, node.cols]);
            if let (true, Some(cols)) = (reduces, node.scalar()) {
                (region[1], bound[1]) = (cols, value.cols);
            }
            for (axis, spans) in [extent.rows, extent.cols].into_iter().enumerate() {
                if !spans {
                    (region[axis], bound[axis]) = (Operand::Int(1), 1);
                }
            }
            mems.push(self.argument(input, extent, (region, bound), pos)?);
        }
        let mut scalars = Vec::new();
        match (&node.op, node.scalar()) {
            (NodeOp::RowReduce(_), Some(value)) => scalars.push(ScalarUse { value, dtype: DType::I64 }),
            (_, Some(value)) => {
                let dtype = self.graph.nodes[node.inputs[0]].dtype;
                mems.push(BlockMem::Scalar(ScalarUse { value, dtype }));
            }
            // The second argument of an operation of one is 0.
            (NodeOp::Unary(_), None) => {
                mems.push(BlockMem::Scalar(ScalarUse { value: Operand::Int(0), dtype: node.dtype }));
            }
            _ => {}
        }
        let home = self.pick_home(id, pos, None);
        self.places[id] = Some(home);
        mems.insert(0, self.result(Mem::Tile(home), node.dtype, node.region, [node.rows, node.cols]));
        self.push_block(op, mems, scalars, None, node.region, [node.rows, node.cols], (id, node.at))
    }

    pub(super) fn wide_store(&mut self, id: NodeId, spec: &BoxSpec, pos: usize) -> Result<(), DeviceError> {
        self.flush(pos)?;
        let node = &self.graph.nodes[id];
        self.reachable(node.inputs[0], node, pos)?;
        let bound = [node.rows, node.cols];
        let source = self.argument(node.inputs[0], Extent::FULL, (node.region, bound), pos)?;
        let target = self.result(Mem::Box(spec.clone()), node.dtype, node.region, bound);
        self.push_block(BlockOp::Copy, vec![target, source], vec![], None, node.region, bound, (id, node.at))
    }

    /// One step that copies 64-bit elements of a value which is in memory, or waiting.
    pub(super) fn wide_copy(
        &mut self,
        id: NodeId,
        to: Mem,
        region: [Operand; 2],
        bound: [u32; 2],
        at: Loc,
    ) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        let source = match self.outside(id) {
            Outside::Fill(value) => BlockMem::Scalar(ScalarUse { value, dtype: node.dtype }),
            Outside::Mem(mem) => {
                let mem = MemUse { mem, dtype: node.dtype, extent: Extent::FULL, write: false };
                BlockMem::Mem { mem, span: region, bound }
            }
        };
        let target = self.result(to, node.dtype, region, bound);
        self.push_block(BlockOp::Copy, vec![target, source], vec![], None, region, bound, (id, at))
    }

    /// An argument of which the region in `part` is used, at most its bound: a waiting load, window or fill as it is, else
    /// scratch memory.
    fn argument(
        &mut self,
        id: NodeId,
        extent: Extent,
        part: ([Operand; 2], [u32; 2]),
        pos: usize,
    ) -> Result<BlockMem, DeviceError> {
        let node = &self.graph.nodes[id];
        if self.places[id].is_none() {
            match node.op {
                NodeOp::Load(_) | NodeOp::Fill => {}
                NodeOp::Extract => drop(self.in_memory(node.inputs[0], pos)?),
                _ => drop(self.in_memory(id, pos)?),
            }
        }
        Ok(match self.outside(id) {
            Outside::Fill(value) => BlockMem::Scalar(ScalarUse { value, dtype: node.dtype }),
            Outside::Mem(mem) => BlockMem::Mem {
                mem: MemUse { mem, dtype: node.dtype, extent, write: false },
                span: part.0,
                bound: part.1,
            },
        })
    }

    fn result(&self, mem: Mem, dtype: DType, span: [Operand; 2], bound: [u32; 2]) -> BlockMem {
        BlockMem::Mem { mem: MemUse { mem, dtype, extent: Extent::FULL, write: true }, span, bound }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a step, each once")]
    fn push_block(
        &mut self,
        op: BlockOp,
        mems: Vec<BlockMem>,
        scalars: Vec<ScalarUse>,
        tensor: Option<WholeUse>,
        region: [Operand; 2],
        bound: [u32; 2],
        (id, at): (NodeId, Loc),
    ) -> Result<(), DeviceError> {
        let mut dtypes: Vec<DType> = mems
            .iter()
            .map(|mem| match mem {
                BlockMem::Mem { mem, .. } => mem.dtype,
                BlockMem::Scalar(scalar) => scalar.dtype,
            })
            .collect();
        dtypes.extend(tensor.map(|tensor| tensor.dtype));
        let block = Block::new(op, &dtypes, self.isa)
            .ok_or_else(|| unsupported(at, format!("{op:?} of {}", dtypes.last().copied().unwrap_or(DType::I64))))?;
        let fills = self.fills(id, op);
        let step = Step::Block(BlockStep { block, region, bound, mems, scalars, tensor, fills });
        let account = self.out.accounts.is_some().then(|| match op {
            BlockOp::Copy if !self.graph.nodes[id].is_effect() => self.copy_account(id, step.mems().count()),
            _ => self.single_account(id, self.graph.nodes[id].dtype, &step),
        });
        self.out.push_step(step, at, account);
        Ok(())
    }
}

/// The kernel of an operation that only whole tiles have.
fn whole_op(op: OpCode) -> BlockOp {
    use OpCode::*;
    match op {
        Iota => BlockOp::Iota,
        Tri => BlockOp::Tri,
        Random => BlockOp::Random,
        ColSum | ColMax | ColMin | ColProd => BlockOp::ColReduce(combine(op)),
        RowArgmax => BlockOp::RowArg(Compare::Gt),
        RowArgmin => BlockOp::RowArg(Compare::Lt),
        ColArgmax => BlockOp::ColArg(Compare::Gt),
        ColArgmin => BlockOp::ColArg(Compare::Lt),
        Transpose => BlockOp::Transpose,
        FillPad => BlockOp::FillPad,
        PartAdd | PartMul | PartMax | PartMin => BlockOp::Part(combine(op)),
        GatherCols => BlockOp::GatherCols,
        GatherFlat => BlockOp::GatherFlat,
        GatherStride => BlockOp::GatherStride,
        GatherBytes => BlockOp::GatherBytes,
        GatherCmpIndex => BlockOp::GatherCompare { count: false },
        GatherCmpCount => BlockOp::GatherCompare { count: true },
        GatherTensor => BlockOp::GatherTensor,
        ScatterCols => BlockOp::ScatterCols,
        ScatterFlat => BlockOp::ScatterFlat,
        ScatterStride => BlockOp::ScatterStride,
        ScatterRows => BlockOp::ScatterRows,
        ScatterTensor => BlockOp::ScatterTensor,
        Sort32 => BlockOp::Sort32,
        MergeSort => BlockOp::MergeSort,
        MergeLists => BlockOp::MergeLists,
        other => unreachable!("{other:?} is lowered elsewhere"),
    }
}

/// The function of two elements behind an operation; one of a single argument gets 0 as the second.
fn combine(op: OpCode) -> Combine {
    use OpCode::*;
    match op {
        Add | ColSum | RowSum | PartAdd => Combine::Add,
        Sub => Combine::Sub,
        Mul | ColProd | RowProd | PartMul => Combine::Mul,
        Div => Combine::Div,
        Fmod => Combine::Fmod,
        Rem => Combine::Rem,
        Maximum | Relu | ColMax | RowMax | PartMax => Combine::Max,
        Minimum | ColMin | RowMin | PartMin => Combine::Min,
        BitAnd => Combine::And,
        BitOr => Combine::Or,
        BitXor => Combine::Xor,
        Shl => Combine::Shl,
        Shr => Combine::Shr,
        Neg => Combine::Neg,
        Abs => Combine::Abs,
        BitNot => Combine::Not,
        other => unreachable!("{other:?} combines no elements"),
    }
}

fn comparison(op: OpCode) -> Compare {
    match op {
        OpCode::CmpEq => Compare::Eq,
        OpCode::CmpNe => Compare::Ne,
        OpCode::CmpLt => Compare::Lt,
        OpCode::CmpLe => Compare::Le,
        OpCode::CmpGt => Compare::Gt,
        OpCode::CmpGe => Compare::Ge,
        other => unreachable!("{other:?} is no comparison"),
    }
}
