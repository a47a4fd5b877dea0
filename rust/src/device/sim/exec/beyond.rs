//! Reports of the bounds sanitizer: what is accessed beyond what there is, or what is valid of it.

use super::checked::Running;
use super::inspect::Subject;
use super::report::Reporter;
use super::valid::Reach;
use crate::device::findings::{Action, BoxOf, Finding, FindingKind};
use crate::device::sim::sanitize::tasks::Tasks;
use crate::program::Loc;

/// Who accesses something, and where.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    /// `None` for the entry.
    pub running: Option<Running>,
    pub at: Loc,
    pub tasks: &'a Tasks,
}

/// The site of what a checker looks at: it borrows no more of the checker than that.
macro_rules! site {
    ($checker:ident) => {
        $crate::device::sim::exec::beyond::Site { running: $checker.running, at: $checker.at, tasks: &$checker.tasks }
    };
}
pub(super) use site;

impl Site<'_> {
    fn kernel(&self) -> Option<u32> {
        self.running.map(|running| running.kernel)
    }
}

impl Reporter<'_> {
    /// An access to elements that a tensor does not have.
    pub fn outside(&mut self, site: Site<'_>, reach: &Reach<'_>) {
        let memory = self.reached(site, reach);
        let dims: Vec<i64> = memory.shape.iter().map(|&dim| dim as i64).collect();
        let axis = reach.beyond(&dims).unwrap_or(0);
        let (access, tensor, remedy) = (reached_along(reach, axis), &memory.tensor, remedy(reach, "exists"));
        let message = format!("{access} of {tensor:?}, which has {} elements there; {remedy}", dims[axis]);
        self.bounds(site, reach.action, message, memory);
    }

    /// An access to elements that a tensor has and that are not valid.
    pub fn beyond_valid(&mut self, site: Site<'_>, reach: &Reach<'_>, axis: usize, valid: i64) {
        let memory = self.reached(site, reach);
        let (access, tensor, remedy) = (reached_along(reach, axis), &memory.tensor, remedy(reach, "is valid"));
        let message = format!("{access} of {tensor:?}, of which only {valid} are valid there; {remedy}");
        self.bounds(site, reach.action, message, memory);
    }

    /// An access to a tensor of which more is declared valid than there is.
    pub fn too_much_valid(&mut self, site: Site<'_>, reach: &Reach<'_>, axis: usize, valid: i64) {
        let memory = self.reached(site, reach);
        let (tensor, extent) = (&memory.tensor, memory.shape[axis]);
        let remedy = if valid < 0 { "pl.max(n, 0)".into() } else { format!("pl.min(n, {extent})") };
        let message = format!(
            "a valid_shape of {valid} along axis {axis} of {tensor:?}, which has {extent} elements there; give it {remedy}"
        );
        self.bounds(site, reach.action, message, memory);
    }

    /// The box that is accessed.
    fn reached(&self, site: Site<'_>, reach: &Reach<'_>) -> BoxOf {
        let kernel = site.kernel();
        BoxOf {
            tensor: self.name(kernel, reach.slot),
            dtype: self.function(kernel).tensors[reach.slot as usize].dtype,
            shape: reach.view.dims[..reach.view.rank].to_vec(),
            offsets: reach.offsets.to_vec(),
            extents: reach.extents.iter().map(|&extent| extent.max(0) as u64).collect(),
        }
    }

    /// A read of an element of a tile that is not valid.
    pub fn invalid_element(&mut self, site: Site<'_>, tile: u32, index: [i64; 2], valid: [i64; 2]) {
        let message = format!(
            "a read of element {index:?} of a tile, of which {} x {} elements are valid: what lies outside is undefined; \
             pl.fillpad gives it a value",
            valid[0], valid[1]
        );
        let memory = self.in_tile(site, tile, index.to_vec(), vec![1, 1]);
        self.bounds(site, Action::Read, message, memory);
    }

    /// An element that a tile does not have.
    pub fn missing_element(&mut self, site: Site<'_>, tile: u32, index: [i64; 2], action: Action) {
        let memory = self.in_tile(site, tile, index.to_vec(), vec![1, 1]);
        let message = format!(
            "an access to element {index:?} of a tile of {:?}; put it into an `if` that leaves such indices out (`and` and \
             `or` evaluate both sides)",
            memory.shape
        );
        self.bounds(site, action, message, memory);
    }

    fn in_tile(&self, site: Site<'_>, tile: u32, offsets: Vec<i64>, extents: Vec<u64>) -> BoxOf {
        let slot = self.function(site.kernel()).tiles[tile as usize];
        let shape = vec![slot.rows.into(), slot.cols.into()];
        BoxOf { tensor: "tile".into(), dtype: slot.dtype, shape, offsets, extents }
    }

    /// A store of more of a tile than is valid.
    pub fn invalid_tile(&mut self, site: Site<'_>, tile: u32, region: [i64; 2], valid: [i64; 2]) {
        let message = format!(
            "{} x {} elements of a tile are stored, and only {} x {} of them are valid: what lies outside is undefined; \
             pl.fillpad gives it a value",
            region[0], region[1], valid[0], valid[1]
        );
        let extents = region.iter().map(|&extent| extent.max(0) as u64).collect();
        let memory = self.in_tile(site, tile, vec![0, 0], extents);
        self.bounds(site, Action::Read, message, memory);
    }

    /// An index that counts nothing.
    pub fn bad_index(&mut self, site: Site<'_>, subject: &Subject<'_>, index: i64, limit: i64) {
        let kernel = site.kernel();
        let function = self.function(kernel);
        let (tensor, dtype, shape) = match subject {
            Subject::Tensor(slot, view) => {
                let dtype = function.tensors[*slot as usize].dtype;
                (self.name(kernel, *slot), dtype, view.dims[..view.rank].to_vec())
            }
            Subject::Tile(slot) => {
                let tile = function.tiles[*slot as usize];
                ("tile".to_owned(), tile.dtype, vec![tile.rows.into(), tile.cols.into()])
            }
        };
        let message = format!("an index of {index}, where {tensor:?} has indices from 0 to {}", limit - 1);
        let memory = BoxOf { tensor, dtype, shape, offsets: vec![index], extents: vec![1] };
        self.bounds(site, Action::Read, message, memory);
    }

    fn bounds(&mut self, site: Site<'_>, action: Action, message: String, memory: BoxOf) {
        let running = site.running.map(|running| (running.task, running.block));
        let accesses = vec![self.access(running, site.at, action, memory.clone(), site.tasks)];
        self.add(
            FindingKind::Bounds,
            site.at,
            site.at,
            Finding { kind: FindingKind::Bounds, message, accesses, memory },
        );
    }
}

/// Where along an axis an access goes.
fn reached_along(reach: &Reach<'_>, axis: usize) -> String {
    let (offset, extent) = (reach.offsets[axis], reach.extents[axis].max(0));
    format!("an access to [{offset}:{}] along axis {axis}", offset.saturating_add(extent))
}

/// What to do about an access to more than what `there`.
fn remedy(reach: &Reach<'_>, there: &str) -> String {
    if reach.extents.iter().all(|&extent| extent == 1) {
        return "put it into an `if` that leaves such indices out (`and` and `or` evaluate both sides)".into();
    }
    format!("make the box smaller, or pass valid_shape with the extent that {there}")
}
