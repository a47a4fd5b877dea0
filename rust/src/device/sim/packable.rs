//! Which parameters of a program are right operands of its products, and how they are packed.
//!
//! A weight comes to a product through views (a slice for each layer, a transpose) and through the parameters of kernels.
//! The form is that of the whole parameter: [`crate::kernels::matmul::MatMul::can_use`] says which parts of it serve.

use super::code::{Code, Inst, Mem, Param, Step};
use super::lower::Lowered;
use crate::device::{Packable, PackedForm};
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::kernels::matmul::{MatMul, MatMulSpec};
use crate::program::{Direction, LaunchArg, ParamKind, Program, ViewKind};
use crate::shape::Shape;

/// A parameter of a function, and whether it is seen transposed.
type Root = (usize, bool);

/// For each tensor slot the parameters (by position among all) that it may view.
fn roots(code: &Code) -> Vec<Vec<Root>> {
    let mut roots = vec![Vec::new(); code.tensors.len()];
    for (position, param) in code.params.iter().enumerate() {
        if let Param::Tensor(slot) = *param {
            roots[slot as usize].push((position, false));
        }
    }
    // A slot may be assigned more than once, in loops also before its source in the text.
    loop {
        let mut changed = false;
        for inst in &code.insts {
            let Inst::View { dst, src, kind } = inst else { continue };
            if *kind == ViewKind::Reinterpret {
                continue; // a packed form holds elements of the parameter's type
            }
            let flips = matches!(kind, ViewKind::Transpose { .. });
            for (position, turned) in roots[*src as usize].clone() {
                let root = (position, turned != flips);
                if !roots[*dst as usize].contains(&root) {
                    roots[*dst as usize].push(root);
                    changed = true;
                }
            }
        }
        if !changed {
            return roots;
        }
    }
}

/// The parameters of `program` of which a packed form helps. Where products take one in several forms, the first counts.
pub(super) fn packable(program: &Program, lowered: &Lowered) -> Vec<Packable> {
    let kernels: Vec<Vec<(Root, DType)>> = lowered.kernels.iter().map(operands).collect();
    let entry = roots(&lowered.entry);
    let mut found: Vec<Packable> = Vec::new();
    for inst in &lowered.entry.insts {
        let Inst::Launch { kernel, args, .. } = inst else { continue };
        for &((position, turned), dtype) in &kernels[*kernel as usize] {
            let LaunchArg::Tensor(slot) = args[position] else { continue };
            for &(param, outside) in &entry[slot as usize] {
                let read = matches!(program.params[param].kind, ParamKind::Tensor { direction: Direction::In, .. });
                let is_tensor = |param: &&crate::program::Param| matches!(param.kind, ParamKind::Tensor { .. });
                let tensor = program.params[..param].iter().filter(is_tensor).count();
                if read && found.iter().all(|known| known.tensor != tensor) {
                    found.push(Packable { tensor, form: PackedForm { dtype, transposed: turned != outside } });
                }
            }
        }
    }
    found
}

/// The parameters of a kernel that are right operands of its products.
fn operands(code: &Code) -> Vec<(Root, DType)> {
    let roots = roots(code);
    let products = code.steps.iter().filter_map(|step| match step {
        Step::MatMul(product) => Some(product),
        _ => None,
    });
    let boxes = products.filter_map(|product| match &product.b.mem {
        Mem::Box(spec) => Some((spec, product.trans[1])),
        _ => None,
    });
    boxes
        .flat_map(|(spec, trans)| {
            let turned = move |&(position, turned): &Root| ((position, turned != trans), spec.dtype);
            roots[spec.tensor as usize].iter().map(turned).collect::<Vec<_>>()
        })
        .collect()
}

/// The kernels that pack a form.
pub(super) fn packer(form: PackedForm, isa: Isa) -> Option<MatMul> {
    let out = if form.dtype == DType::I8 { DType::I32 } else { DType::F32 };
    MatMul::new(MatMulSpec { dtype: form.dtype, a_trans: false, b_trans: form.transposed, out }, isa)
}

/// Inner extent and columns of the right operand that a matrix is.
pub(super) fn operand_extents(form: PackedForm, shape: &Shape) -> [usize; 2] {
    let (cols, outer) = shape.split_last().unwrap_or((&1, &[]));
    let (rows, cols) = (outer.iter().product::<u64>() as usize, *cols as usize);
    if form.transposed { [cols, rows] } else { [rows, cols] }
}
