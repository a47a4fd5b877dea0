//! Parts and other shapes of a device tensor, and the rules for handing it to other libraries.

use super::codes::Edge;
use super::numbers::{self, ShapeRule, type_name};
use crate::shape::{MAX_RANK, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyTuple};

/// `kDLCPU`, device 0.
pub(super) const CPU: (i64, i64) = (1, 0);

/// A part of a tensor that lies in one piece.
pub(super) struct Part {
    /// Number of its first element.
    pub(super) first: u64,
    pub(super) shape: Shape,
}

/// The part of a tensor of shape `whole` that `t[index]` is: ints, slices of step 1, one `...`.
///
/// # Errors
/// `TypeError` for another index, `IndexError` where there is no such element, `ValueError` where nothing is left or what
/// is left does not lie in one piece.
pub(super) fn part(whole: &Shape, index: &Bound<'_, PyAny>) -> PyResult<Part> {
    let single = [index.clone()];
    let indices = index.cast::<PyTuple>().map_or(&single[..], |tuple| tuple.as_slice());
    let ellipses = indices.iter().filter(|index| index.is_instance_of::<PyEllipsis>()).count();
    let given = indices.len() - ellipses;
    if ellipses > 1 || given > whole.len() {
        let text = format!("{given} indices and {ellipses} ellipses for a tensor of {} dimensions", whole.len());
        return Err(Edge::IndexRange.error(text));
    }
    let mut axes = whole.iter().zip((0..whole.len()).rev());
    let (mut first, mut kept, mut rank) = (0u64, [0u64; MAX_RANK], 0);
    // Whether what is kept so far has more than one piece if anything behind it is cut.
    let mut must_be_whole = false;
    let mut take = |axis: &Bound<'_, PyAny>, extent: u64, behind: u64| -> PyResult<()> {
        let (start, length) = match range(axis, extent)? {
            Range::One(start) => (start, 1),
            Range::Many(start, length) => {
                (kept[rank], rank) = (length, rank + 1);
                (start, length)
            }
        };
        if must_be_whole && length != extent {
            return Err(Edge::PartHasGaps.error(format!(
                "this part of a tensor of shape {whole} does not lie in one piece, so no view can have it. Take whole \
                 rows, or slice a copy: t.to_host()[...]"
            )));
        }
        must_be_whole |= length > 1;
        first += start * behind;
        Ok(())
    };
    let stride = |behind: usize| whole[whole.len() - behind..].iter().product::<u64>();
    let all = PySlice::full(index.py()).into_any();
    for index in indices {
        if index.is_instance_of::<PyEllipsis>() {
            for _ in given..whole.len() {
                let (&extent, behind) = axes.next().expect("the number of indices was checked");
                take(&all, extent, stride(behind))?;
            }
        } else {
            let (&extent, behind) = axes.next().expect("the number of indices was checked");
            take(index, extent, stride(behind))?;
        }
    }
    for (&extent, behind) in axes {
        take(&all, extent, stride(behind))?;
    }
    if rank == 0 {
        return Err(Edge::BadExtent.error(format!(
            "one element of a tensor of shape {whole} would have no dimension, and such tensors do not exist: use a \
             slice of one, t[i:i + 1]"
        )));
    }
    Ok(Part { first, shape: Shape::new(&kept[..rank]).expect("not more axes than the whole") })
}

enum Range {
    /// An axis that goes.
    One(u64),
    /// Start and length of an axis that stays.
    Many(u64, u64),
}

fn range(index: &Bound<'_, PyAny>, extent: u64) -> PyResult<Range> {
    if let Ok(slice) = index.cast::<PySlice>() {
        let indices = slice.indices(extent as isize)?;
        if indices.step != 1 {
            let text =
                format!("a slice of a device tensor has step 1, got {}: slice a copy, t.to_host()", indices.step);
            return Err(Edge::PartHasGaps.error(text));
        }
        if indices.slicelength == 0 {
            let text = format!("{} of an axis of {extent} is empty, and empty tensors do not exist", index.repr()?);
            return Err(Edge::BadExtent.error(text));
        }
        return Ok(Range::Many(indices.start as u64, indices.slicelength as u64));
    }
    if !index.is_instance_of::<PyInt>() || index.is_instance_of::<PyBool>() {
        return Err(Edge::BadIndex.error(format!(
            "a device tensor is indexed by ints, slices and `...`, got {}: index a copy, t.to_host()",
            type_name(index)
        )));
    }
    let position: Option<i64> = index.extract().ok();
    let from_start = position.map(|position| if position < 0 { position + extent as i64 } else { position });
    match from_start.filter(|position| (0..extent as i64).contains(position)) {
        Some(position) => Ok(Range::One(position as u64)),
        None => Err(Edge::IndexRange.error(format!("index {index} is out of range for an axis of {extent}"))),
    }
}

/// The shape that `t.view(*shape)` asks for: ints or one sequence of them, at most one of them -1 for what is left.
///
/// # Errors
/// `TypeError` for what is no int, `ValueError` for another number of elements.
pub(super) fn reshaped(whole: &Shape, shape: &Bound<'_, PyTuple>) -> PyResult<Shape> {
    const RULE: ShapeRule = ShapeRule { of: "view", positive: "must be all positive, but for one -1" };
    let first = shape.iter().next();
    let listed = first.filter(|first| shape.len() == 1 && !first.is_instance_of::<PyInt>());
    let mut items: Vec<Bound<'_, PyAny>> = match listed {
        Some(sequence) => match sequence.try_iter() {
            Ok(items) => items.collect::<PyResult<_>>()?,
            Err(_) => vec![sequence],
        },
        None => shape.iter().collect(),
    };
    let elements = whole.elements().unwrap_or(0);
    let is_open = |item: &Bound<'_, PyAny>| item.extract::<i64>().is_ok_and(|extent| extent == -1);
    if let Some(open) = items.iter().position(is_open) {
        let others = items.iter().enumerate().filter(|&(at, _)| at != open);
        let product = others.map(|(_, item)| item.extract::<u64>().unwrap_or(0)).try_fold(1u64, u64::checked_mul);
        let rest = product.filter(|&product| product > 0).map_or(0, |product| elements / product);
        // Where this is not what is missing, the comparison below says so; what is no extent, the rule.
        items[open] = rest.max(1).into_pyobject(shape.py())?.into_any();
    }
    let shape = numbers::shape(PyTuple::new(shape.py(), items)?.as_any(), &RULE)?;
    if shape.elements() != Some(elements) {
        return Err(Edge::ViewElements.error(format!(
            "a tensor of shape {whole} has {elements} elements and cannot be viewed with shape {shape}"
        )));
    }
    Ok(shape)
}

/// Refuses to share memory. A view in another library could not know when the memory is freed and given to another
/// tensor, and what it writes would not reach the packed form of a weight.
pub(super) fn require_copy(copy: Option<bool>, method: &str) -> PyResult<()> {
    if copy == Some(false) {
        return Err(Edge::NotShared.error(format!(
            "{method}(copy=False): device memory is not shared with other libraries, only copied. Leave copy out"
        )));
    }
    Ok(())
}

/// Refuses to hand out memory that the CPU cannot read.
pub(super) fn require_cpu(stream: Option<&Bound<'_, PyAny>>, device: Option<(i64, i64)>) -> PyResult<()> {
    if stream.is_some() || device.is_some_and(|device| device != CPU) {
        return Err(Edge::NotShared.error(
            "__dlpack__(): a device tensor is handed over as a copy in CPU memory: stream must be None, and dl_device (1, 0)",
        ));
    }
    Ok(())
}
