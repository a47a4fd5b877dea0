"""What belongs to tiles is refused beside tensors, and the other way round."""

from pathlib import Path

import pytest

from pypto import ir

REFUSED = {
    "pl.row_sum(t)": "pl.row_sum of a tile needs 'tmp_tile'",
    "pl.row_max(pl.add(t, t))": "pl.row_max of a tile needs 'tmp_tile'",
    "pl.row_argmin(t)": "pl.row_argmin of a tile needs 'tmp_tile'",
    "pl.col_argmax(t)": "pl.col_argmax of a tile needs 'tmp_tile'",
    "pl.row_min(t, 3)": "'tmp_tile' must be a tile, got an INDEX scalar",
    "pl.row_prod(t, x)": "'tmp_tile' must be a tile, got pl.Tensor[[8, 16], pl.FP32]",
    "pl.row_sum(x, t)": "'tmp_tile' belongs to tiles, and this is a tensor",
    "pl.row_sum(x[0:4, :], t)": "'tmp_tile' belongs to tiles, and this is a tensor",
    "pl.row_sum(pl.mul(x, 2.0), tmp_tile=pl.mul(x, 2.0))": "'tmp_tile' belongs to tiles, and this is a tensor",
    "pl.col_sum(x, t)": "'tmp_tile' belongs to tiles, and this is a tensor",
    "pl.relu(x)": "pl.relu works on tiles, got pl.Tensor[[8, 16], pl.FP32]",
    "pl.lrelu(x, 0.5)": "pl.lrelu works on tiles",
    "pl.batch_matmul(x, x)": "pl.batch_matmul works on tiles",
}


def lowered(expression: str, tmp_path: Path) -> ir.Program:
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n@pl.jit.incore\n"
        "def kernel(x: pl.Tensor[[8, 16], pl.FP32]):\n"
        f"    t = pl.load(x, [0, 0], [8, 16])\n    y = {expression}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["kernel"].lower()


@pytest.mark.parametrize("expression", list(REFUSED))
def test_what_belongs_to_the_other_level_is_refused(expression: str, tmp_path: Path) -> None:
    with pytest.raises(ir.KernelTypeError) as caught:
        lowered(expression, tmp_path)
    (diagnostic,) = caught.value.diagnostics
    assert REFUSED[expression] in diagnostic.message


@pytest.mark.parametrize(
    "expression",
    [
        "pl.row_sum(t, t)",
        "pl.row_sum(t, tmp_tile=pl.create_tile([8, 16], dtype=pl.FP32))",
        "pl.row_sum(x)",
        "pl.row_sum(x, None)",
        "pl.row_sum(x[0:4, :])",
        "pl.row_sum(pl.full([8, 16], dtype=pl.FP32, value=1.0), t)",
        "pl.col_sum(t)",
        "pl.col_sum(t, t)",
        "pl.col_max(t)",
        "pl.relu(t)",
        "pl.relu(pl.mul(x, 2.0))",
        "pl.relu(x[0:4, :])",
        "pl.xor(pl.cast(t, pl.INT32), pl.cast(t, pl.INT32))",
    ],
)
def test_each_level_has_its_own_spelling(expression: str, tmp_path: Path) -> None:
    program = lowered(expression, tmp_path)
    assert ir.python_print(program)
