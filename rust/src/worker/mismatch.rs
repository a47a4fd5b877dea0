//! What is said about an argument that does not fit its parameter: both sides, and what to do.

use super::error::WorkerError;
use super::value::Value;
use crate::dtype::DType;
use crate::program::{Dim, Direction, Param, Program};
use crate::shape::Shape;

pub(super) fn parameter(program: &Program, param: &Param) -> String {
    format!("Parameter '{}' of '{}'", param.name, program.name)
}

pub(super) fn wrong_count(program: &Program, got: usize) -> WorkerError {
    let names: Vec<_> = program.params.iter().map(|param| format!("'{}'", param.name)).collect();
    let (program, expected) = (program.name.clone(), program.params.len());
    WorkerError::ArgumentCount { program, expected, got, parameters: names.join(", ") }
}

/// A tensor parameter, for messages.
pub(super) struct Expected<'a> {
    pub program: &'a Program,
    pub param: &'a Param,
    pub index: u32,
    pub dtype: DType,
    pub dims: &'a [Dim],
    pub direction: Direction,
}

impl Expected<'_> {
    pub fn is_written(&self) -> bool {
        self.direction != Direction::In
    }

    pub fn what(&self) -> String {
        parameter(self.program, self.param)
    }

    /// The declared shape as Python would print it, with the names of symbols: `(M, 1024)`.
    fn shape(&self) -> String {
        let mut text = String::from("(");
        for (axis, dim) in self.dims.iter().enumerate() {
            text += if axis > 0 { ", " } else { "" };
            match dim {
                Dim::Const(extent) => text += &extent.to_string(),
                Dim::Symbol(symbol) => text += &self.program.symbols[*symbol as usize],
            }
        }
        text + if self.dims.len() == 1 { ",)" } else { ")" }
    }

    pub fn value(&self, text: String) -> WorkerError {
        WorkerError::ArgumentValue(format!("{}: {text}", self.what()))
    }

    fn expects(&self, expected: &str, got: &str, fix: &str) -> WorkerError {
        // Programs look for these words: the name of the program may not stand between them.
        let (param, program) = (&self.param.name, &self.program.name);
        WorkerError::ArgumentType(format!(
            "Parameter '{param}' expects {expected}, got {got} in a launch of '{program}'. {fix}"
        ))
    }

    pub fn no_tensor(&self, arg: &Value<'_>) -> WorkerError {
        let got = match arg {
            Value::Int(value) => format!("the int {value}"),
            Value::Large(value) => format!("the int {value}"),
            Value::Float(value) => format!("the float {value}"),
            _ => "a bool".into(),
        };
        let (dtype, shape) = (self.dtype.with_article(), self.shape());
        self.expects(&format!("{dtype} tensor of shape {shape}"), &got, "Pass a torch.Tensor or a DeviceTensor")
    }

    pub fn wrong_dtype(&self, got: DType) -> WorkerError {
        let dtype = self.dtype;
        let fix = match self.direction {
            // On the host, as a device tensor cannot be converted.
            Direction::In => format!("Convert it on the host with .to(torch.{})", dtype.torch_name()),
            _ => format!("Allocate it as torch.{}", dtype.torch_name()),
        };
        let named = |dtype: DType| format!("{dtype} (torch.{})", dtype.torch_name());
        self.expects(&format!("dtype {}", named(dtype)), &named(got), &fix)
    }

    pub fn wrong_shape(&self, got: &Shape) -> WorkerError {
        let detail = if got.len() == self.dims.len() {
            let differs = |(axis, dim): (usize, &Dim)| match dim {
                Dim::Const(extent) if *extent != got[axis] => Some((axis, *extent)),
                _ => None,
            };
            let (axis, extent) = self.dims.iter().enumerate().find_map(differs).unwrap_or_default();
            format!("Axis {axis} must be {extent}, not {}", got[axis])
        } else {
            format!(
                "It must have {} axes, not {}; .reshape() it, or .view() it on the device, where that is what you mean",
                self.dims.len(),
                got.len()
            )
        };
        self.expects(&format!("shape {}", self.shape()), &got.to_string(), &detail)
    }

    pub fn wrong_symbol(&self, symbol: u32, axis: usize, got: u64, known: u64, first: u32) -> WorkerError {
        let name = &self.program.symbols[symbol as usize];
        let first = &self.program.params[first as usize].name;
        self.value(format!(
            "axis {axis} is {got}, but {name} is {known} in this launch (said by parameter '{first}'). Pass tensors that agree on {name}"
        ))
    }
}
