//! Which tensor slots may name the same memory. Two arguments of a launch that overlap are refused when one is written
//! (`worker`), so the parameters of an entry are apart; a kernel may be called with two views of one tensor.

use crate::program::{FnParam, Function, LaunchArg, Program, Stmt, StmtKind};
use fixedbitset::FixedBitSet;

/// For each tensor slot of a function, the memories that it may name.
pub(super) struct Alias {
    roots: Vec<FixedBitSet>,
}

impl Alias {
    /// Whether two slots may name the same bytes.
    pub fn may(&self, a: u32, b: u32) -> bool {
        !self.roots[a as usize].is_disjoint(&self.roots[b as usize])
    }

    /// The memories of an entry: one for each parameter, one for each `create`.
    pub fn of_entry(entry: &Function) -> Self {
        let mut creates = 0;
        walk(&entry.body, &mut |stmt| creates += usize::from(matches!(stmt.kind, StmtKind::Create { .. })));
        let size = entry.params.len() + creates;
        let mut alias = Self { roots: vec![FixedBitSet::with_capacity(size); entry.tensors.len()] };
        for (root, param) in entry.params.iter().enumerate() {
            if let FnParam::Tensor { slot, .. } = param {
                alias.roots[*slot as usize].insert(root);
            }
        }
        let mut root = entry.params.len();
        walk(&entry.body, &mut |stmt| {
            if let StmtKind::Create { dst, .. } = stmt.kind {
                alias.roots[dst as usize].insert(root);
                root += 1;
            }
        });
        alias.follow_views(&entry.body);
        alias
    }

    /// The memories of each kernel: its parameters, joined where some launch passes views of one memory for both.
    pub fn of_kernels(program: &Program, entry: &Alias) -> Vec<Self> {
        let mut all: Vec<Self> = program
            .kernels
            .iter()
            .map(|kernel| {
                let size = kernel.params.len();
                let mut alias = Self { roots: vec![FixedBitSet::with_capacity(size); kernel.tensors.len()] };
                for (root, param) in kernel.params.iter().enumerate() {
                    if let FnParam::Tensor { slot, .. } = param {
                        alias.roots[*slot as usize].insert(root);
                    }
                }
                alias
            })
            .collect();
        walk(&program.entry.body, &mut |stmt| {
            let StmtKind::Launch { kernel, args, .. } = &stmt.kind else { return };
            let callee = &program.kernels[*kernel as usize];
            for (i, (a, slot_a)) in args.iter().zip(&callee.params).enumerate() {
                for (j, (b, slot_b)) in args.iter().zip(&callee.params).enumerate().skip(i + 1) {
                    let (LaunchArg::Tensor(a), LaunchArg::Tensor(b)) = (a, b) else { continue };
                    let (FnParam::Tensor { slot: slot_a, .. }, FnParam::Tensor { slot: slot_b, .. }) = (slot_a, slot_b)
                    else {
                        continue;
                    };
                    if entry.may(*a, *b) {
                        let roots = &mut all[*kernel as usize].roots;
                        roots[*slot_a as usize].insert(j);
                        roots[*slot_b as usize].insert(i);
                    }
                }
            }
        });
        for (alias, kernel) in all.iter_mut().zip(&program.kernels) {
            alias.follow_views(&kernel.body);
        }
        all
    }

    /// A view names what its source names. Slots are variables, so this is repeated until nothing changes.
    fn follow_views(&mut self, body: &[Stmt]) {
        loop {
            let mut changed = false;
            walk(body, &mut |stmt| {
                if let StmtKind::View { dst, src, .. } = stmt.kind {
                    let source = self.roots[src as usize].clone();
                    let target = &mut self.roots[dst as usize];
                    changed |= !source.is_subset(target);
                    target.union_with(&source);
                }
            });
            if !changed {
                return;
            }
        }
    }
}

/// Calls `visit` for each statement, nested ones included, in source order.
pub(super) fn walk(body: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        visit(stmt);
        match &stmt.kind {
            StmtKind::For { body, .. } => walk(body, visit),
            StmtKind::While { head, body, .. } => {
                walk(head, visit);
                walk(body, visit);
            }
            StmtKind::If { then, orelse, .. } => {
                walk(then, visit);
                walk(orelse, visit);
            }
            _ => {}
        }
    }
}
