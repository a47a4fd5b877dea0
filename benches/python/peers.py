"""The libraries that the benches compare with, as statements of a contest; one that is not installed adds nothing.

`pip install .[bench]` brings those that are not needed otherwise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from measure import Contest

OPTIONAL = ("onnxruntime", "onnx", "jax", "openvino", "numba")


def installed(name: str) -> bool:
    """Whether a peer is there."""
    return importlib.util.find_spec(name) is not None


def versions() -> dict[str, str]:
    """Versions of those that are installed; the others as "skipped"."""
    optional = {name: version(name) if installed(name) else "skipped: not installed" for name in OPTIONAL}
    return {"numpy": np.__version__, "torch": torch.__version__} | optional


def add_onnxruntime(
    contest: Contest,
    nodes: list[tuple[str, list[str], dict[str, Any]]],
    inputs: dict[str, torch.Tensor],
    out: torch.Tensor,
) -> None:
    """A chain of nodes, each of which takes the result before it as its first input; inputs and output are bound.

    Args:
        contest: What to add to.
        nodes: Name of the operator, names of its inputs ("" for the result before), attributes.
        inputs: FP32 tensors by name; all but the first are constants of the model.
        out: The result of the last node.
    """
    if not (installed("onnxruntime") and installed("onnx")):
        return
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    made, before = [], ""
    for number, (operator, names, attributes) in enumerate(nodes):
        result = "out" if number + 1 == len(nodes) else f"value_{number}"
        made.append(helper.make_node(operator, [name or before for name in names], [result], **attributes))
        before = result
    first, *constants = inputs
    value = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(tensor.shape))
        for name, tensor in ((first, inputs[first]), ("out", out))
    ]
    held = [numpy_helper.from_array(inputs[name].numpy(), name) for name in constants]
    graph = helper.make_graph(made, "graph", value[:1], value[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = contest.threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, name, tensor in ((binding.bind_input, first, inputs[first]), (binding.bind_output, "out", out)):
        bind(name, "cpu", 0, "float32", list(tensor.shape), tensor.data_ptr())
    contest.add("ONNX Runtime", "run(binding)", {"run": session.run_with_iobinding, "binding": binding})


def add_openvino(contest: Contest, build: Callable[[Any, Any], Any], x: torch.Tensor, out: torch.Tensor) -> None:
    """A model of one parameter: `build(opset, parameter)` makes its result."""
    if not installed("openvino"):
        return
    import openvino
    from openvino import opset13 as opset

    parameter = opset.parameter(list(x.shape), openvino.Type.f32)
    model = openvino.Model([build(opset, parameter)], [parameter])
    settings = {"INFERENCE_NUM_THREADS": contest.threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(x.numpy(), shared_memory=True))
    request.set_output_tensor(openvino.Tensor(out.numpy(), shared_memory=True))
    contest.add("OpenVINO", "infer()", {"infer": request.infer})


def add_jax(contest: Contest, function: Callable[[Any, Any], Any], x: torch.Tensor, *, donate: bool = False) -> None:
    """`function(jax.numpy, x)`, compiled; with `donate` each call takes the result of the one before as its own."""
    if not installed("jax"):
        return
    import jax

    compiled = jax.jit(lambda value: function(jax.numpy, value), donate_argnums=0 if donate else ())
    box = [jax.numpy.array(x.numpy())]
    target = "box[0] = " if donate else ""
    contest.add("JAX", f"{target}run(box[0]).block_until_ready()", {"run": compiled, "box": box})


def add_numba(contest: Contest, source: str, name: str, arguments: tuple[torch.Tensor, ...]) -> None:
    """The function `name` of `source`, a text that uses `prange`, compiled for arrays like the arguments."""
    if not installed("numba"):
        return
    import math

    import numba

    space: dict[str, Any] = {"prange": numba.prange, "math": math}
    exec(source, space)
    run = numba.njit(parallel=contest.threads > 1, fastmath=True)(space[name])
    arrays = {f"array_{number}": tensor.numpy() for number, tensor in enumerate(arguments)}
    contest.add("numba", f"run({', '.join(arrays)})", arrays | {"run": run})


def add_compiled(contest: Contest, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The function under `torch.compile`, without gradients; skipped where torch finds no compiler that it can use."""
    from torch._inductor.exc import InductorError

    run = torch.compile(function, dynamic=False)
    names = {f"argument_{number}": argument for number, argument in enumerate(arguments)}
    try:
        run(*arguments)
    except InductorError:
        return
    contest.add("torch.compile", f"run({', '.join(names)})", names | {"run": run})
