//! From addresses to what an author knows: tensors by name, boxes of them, tasks by kernel and line.

use super::frame::View;
use crate::device::findings::{Access, Action, BoxOf, Finding, FindingKind, Findings, MOST_FINDINGS};
use crate::device::sim::sanitize::area::Area;
use crate::device::sim::sanitize::log::Touch;
use crate::device::sim::sanitize::tasks::Tasks;
use crate::dtype::DType;
use crate::program::{Function, Loc, Program};
use std::collections::{BTreeMap, HashSet};

/// A tensor of the launch: a parameter, or what the launch created.
struct Object {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    base: usize,
    tracked: bool,
}

impl Object {
    fn bytes(&self) -> usize {
        self.dims.iter().product::<u64>() as usize * self.dtype.size()
    }

    /// Place of the element with this byte along each axis.
    fn place(&self, byte: usize) -> Vec<i64> {
        let mut rest = ((byte - self.base) / self.dtype.size()) as u64;
        let mut place = vec![0; self.dims.len()];
        for (at, &dim) in place.iter_mut().zip(&self.dims).rev() {
            *at = (rest % dim) as i64;
            rest /= dim;
        }
        place
    }

    fn whole(&self, offsets: Vec<i64>, extents: Vec<u64>) -> BoxOf {
        BoxOf { tensor: self.name.clone(), dtype: self.dtype, shape: self.dims.clone(), offsets, extents }
    }

    /// The box from one byte to another; what is no box counts as a run of elements of the flattened tensor.
    fn between(&self, first: usize, last: usize, elements: Option<u64>) -> BoxOf {
        let (from, to) = (self.place(first), self.place(last));
        let is_box = from.iter().zip(&to).all(|(from, to)| from <= to);
        let extents: Vec<u64> = from.iter().zip(&to).map(|(from, to)| (to - from + 1).max(0) as u64).collect();
        let count = extents.iter().product::<u64>();
        if is_box && elements.is_none_or(|elements| elements == count) {
            return self.whole(from, extents);
        }
        let element = |byte: usize| ((byte - self.base) / self.dtype.size()) as u64;
        let shape = vec![self.dims.iter().product()];
        let (offsets, extents) = (vec![element(first) as i64], vec![element(last) - element(first) + 1]);
        BoxOf { tensor: self.name.clone(), dtype: self.dtype, shape, offsets, extents }
    }

    fn area(&self, area: &Area) -> BoxOf {
        let (first, end) = area.bounds();
        self.between(first, end - 1, Some(area.bytes() / self.dtype.size() as u64))
    }
}

/// Collects the findings of a launch.
pub(super) struct Reporter<'a> {
    program: &'a Program,
    objects: Vec<Object>,
    by_base: BTreeMap<usize, u32>,
    findings: Findings,
    /// What was reported: one finding for each pair of lines, however often they run.
    seen: HashSet<(FindingKind, Loc, Loc, String)>,
    /// Tensors of which a read of what nobody wrote was reported.
    unwritten: HashSet<u32>,
}

impl<'a> Reporter<'a> {
    pub fn new(program: &'a Program) -> Self {
        Self {
            program,
            objects: Vec::new(),
            by_base: BTreeMap::new(),
            findings: Findings { program: program.name.clone(), ..Findings::default() },
            seen: HashSet::new(),
            unwritten: HashSet::new(),
        }
    }

    /// A tensor of the entry begins to exist, or takes the place of another.
    pub fn adds(&mut self, slot: u32, view: &View) -> u32 {
        let (name, dtype) = (self.name(None, slot), self.program.entry.tensors[slot as usize].dtype);
        let dims = view.dims[..view.rank].to_vec();
        let number = self.objects.len() as u32;
        self.objects.push(Object { name, dtype, dims, base: view.data as usize, tracked: true });
        self.by_base.insert(view.data as usize, number);
        number
    }

    pub fn bytes_of(&self, object: u32) -> usize {
        self.objects[object as usize].bytes()
    }

    fn at_address(&self, address: usize) -> Option<u32> {
        let (_, &number) = self.by_base.range(..=address).next_back()?;
        let object = &self.objects[number as usize];
        (address < object.base + object.bytes()).then_some(number)
    }

    /// The tensor that an area lies in.
    pub fn object_of(&self, area: &Area) -> Option<u32> {
        self.at_address(area.bounds().0)
    }

    /// Nobody waits because of the tensor behind this view.
    pub fn untrack(&mut self, view: &View) {
        if let Some(object) = self.at_address(view.data as usize) {
            self.objects[object as usize].tracked = false;
        }
    }

    pub fn is_tracked(&self, view: &View) -> bool {
        self.at_address(view.data as usize).is_none_or(|object| self.objects[object as usize].tracked)
    }

    pub fn is_some(&self) -> bool {
        !self.findings.findings.is_empty()
    }

    /// The findings, if there are any.
    pub fn end(self, fault: Option<String>) -> Option<Findings> {
        self.is_some().then_some(Findings { fault, ..self.findings })
    }

    /// Two accesses without an order.
    pub fn race(&mut self, object: u32, first: &Touch, second: &Touch, tasks: &Tasks) {
        let of = &self.objects[object as usize];
        let Some((from, to)) = first.area.common(&second.area) else { return };
        let memory = of.between(from, to, None);
        let accesses = vec![self.touch(object, first, tasks), self.touch(object, second, tasks)];
        let message = match first.task == second.task {
            true => format!(
                "blocks {} and {} of one task touch the same memory; only pl.system.syncall orders blocks",
                first.block, second.block
            ),
            false => {
                "two tasks touch the same memory, and nothing declares an order: give the later one the id of the \
                      earlier in deps="
                    .to_owned()
            }
        };
        self.add(
            FindingKind::Race,
            first.at,
            second.at,
            Finding { kind: FindingKind::Race, message, accesses, memory },
        );
    }

    /// A read of a byte that nobody wrote.
    pub fn unwritten(&mut self, object: u32, byte: usize, touch: &Touch, tasks: &Tasks) {
        if !self.unwritten.insert(object) {
            return;
        }
        let of = &self.objects[object as usize];
        let memory = of.between(byte, byte, None);
        let message = format!(
            "a read of memory that nothing wrote, first at {:?}; write it before, or give init_value=",
            memory.offsets
        );
        let accesses = vec![self.touch(object, touch, tasks)];
        let finding = Finding { kind: FindingKind::Uninit, message, accesses, memory };
        self.add(FindingKind::Uninit, touch.at, touch.at, finding);
    }

    pub(super) fn add(&mut self, kind: FindingKind, first: Loc, second: Loc, finding: Finding) {
        let key = |at: Loc| (at.0, at.1, at.2);
        let (first, second) = if key(first) <= key(second) { (first, second) } else { (second, first) };
        if !self.seen.insert((kind, first, second, finding.memory.tensor.clone())) {
            return;
        }
        if self.findings.findings.len() < MOST_FINDINGS {
            self.findings.findings.push(finding);
        } else {
            self.findings.more += 1;
        }
    }

    fn touch(&self, object: u32, touch: &Touch, tasks: &Tasks) -> Access {
        let memory = self.objects[object as usize].area(&touch.area);
        self.access(Some((touch.task, touch.block)), touch.at, touch.action, memory, tasks)
    }

    pub(super) fn access(
        &self,
        running: Option<(u32, u64)>,
        at: Loc,
        action: Action,
        memory: BoxOf,
        tasks: &Tasks,
    ) -> Access {
        let task = running.map(|(task, _)| tasks.get(task));
        let launch = task.map_or(at, |task| task.at);
        let kernel = task.and_then(|task| task.kernel);
        Access {
            action,
            kernel: self.function(kernel).name.clone(),
            block: running.map_or(0, |(_, block)| block),
            blocks: task.map_or(1, |task| task.blocks),
            file: self.file(at),
            line: at.1,
            launch_file: self.file(launch),
            launch_line: launch.1,
            memory,
        }
    }

    pub(super) fn function(&self, kernel: Option<u32>) -> &'a Function {
        kernel.map_or(&self.program.entry, |kernel| &self.program.kernels[kernel as usize])
    }

    pub(super) fn name(&self, kernel: Option<u32>, slot: u32) -> String {
        let named = self.function(kernel).source.tensors.get(slot as usize);
        named.filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| "a tensor".into())
    }

    fn file(&self, at: Loc) -> String {
        self.program.files.get(at.0 as usize).cloned().unwrap_or_default()
    }
}
