"""Parameters: dynamic extents, fixed and runtime scalars, what a cached program depends on."""

import numpy as np
import pytest
import torch
from checking import empty, f32, program_of, run, verified

import pypto.language as pl
from pypto import ir
from pypto.ir import KernelTypeError
from pypto.runtime import RunConfig

M = pl.dynamic("M")


@pl.jit.incore
def rows(x: pl.Tensor[[M, 32], pl.FP32], out: pl.Out[pl.Tensor[[M, 32], pl.FP32]]):
    for start in pl.range(0, M, 16):
        valid = pl.min(16, M - start)
        t = pl.load(x, [start, 0], [16, 32], valid_shape=[valid, 32])
        out = pl.store(pl.add(t, 1.0), [start, 0], out)
    return out


@pl.jit
def any_rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = rows(x, out)
    return out


@pytest.mark.parametrize("count", [1, 16, 40])
def test_one_program_serves_every_extent(count: int) -> None:
    x = f32(count, 32)
    program = program_of(rows, f32(5, 32), empty(5, 32))
    _, out = run(program, x, empty(count, 32))
    np.testing.assert_array_equal(out, x + 1)


def test_dynamic_extents_of_a_callee_are_dynamic_in_its_caller() -> None:
    core = verified(program_of(any_rows, f32(5, 32), empty(5, 32)))
    assert core["symbols"] == ["M"]
    assert core["params"][0]["kind"]["Tensor"]["dims"] == [{"Symbol": 0}, {"Const": 32}]
    assert core["params"][1]["kind"]["Tensor"]["dims"] == [{"Symbol": 0}, {"Const": 32}]


@pl.jit
def bound(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    out.bind_dynamic(0, M)
    n, _ = x.shape
    for i in pl.spmd(n):
        out[i : i + 1, :] = pl.mul(x[i : i + 1, 0:32], pl.cast(pl.dim(x, 0) + M, pl.FP32))
    return out


def test_bind_dynamic_shape_and_dim_agree() -> None:
    x = f32(5, 32)
    program = program_of(bound, f32(2, 32), empty(2, 32))
    _, out = run(program, x, empty(5, 32))
    np.testing.assert_array_equal(out, x * 10)


def test_the_same_key_gives_the_same_object(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    first = rows.compile(torch.ones(5, 32), torch.ones(5, 32))
    assert rows.compile(torch.ones(40, 32), torch.ones(40, 32)) is first
    assert rows.compile(torch.ones(5, 32)) is first  # the output is left out, and returned
    assert rows.compile() is first


@pytest.mark.parametrize("field", ["analyze_auto_scopes_for_deps", "dump_ptoas_passes"])
def test_what_steers_the_real_chip_is_part_of_the_key(field, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    other = rows.compile(config=RunConfig(**{field: True}))
    assert other is not rows.compile(config=RunConfig())
    assert rows.compile(config=RunConfig(**{field: True})) is other


@pl.jit
def fixed(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:n] = x[:, 0:n]
    return out


def test_02_scalar_arguments_are_compile_time_constants() -> None:
    x = f32(4, 32)
    for n in (8, 16):
        out = run(fixed, x, n, empty(4, 32))[-1]
        np.testing.assert_array_equal(out[:, :n], x[:, :n])
        assert np.isnan(out[:, n:]).all()
    core = verified(program_of(fixed, x, 8, empty(4, 32)))
    assert core["params"][1] == {"name": "n", "kind": {"Scalar": {"dtype": "INT64", "baked": {"Int": 8}}}}


@pl.jit
def runtime(x: pl.Tensor[[4, 32], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n):
            out[i : i + 1, :] = x[i : i + 1, :]
    return out


def test_a_scalar_given_as_RUNTIME_stays_a_parameter() -> None:
    x = f32(4, 32)
    program = runtime.lower(n=pl.RUNTIME)
    out = run(program, x, 2, empty(4, 32))[-1]
    np.testing.assert_array_equal(out[:2], x[:2])
    assert np.isnan(out[2:]).all()
    assert verified(program)["params"][1]["kind"] == {"Scalar": {"dtype": "INT32", "baked": None}}


def test_compiling_without_arguments_needs_complete_annotations() -> None:
    with pytest.raises(TypeError, match=r"parameter 'x' is a bare 'pl.Tensor'"):
        fixed.compile(n=1)
    missing = r"parameter 'n' is a scalar and got no value(?s:.)*help: give a number, or pl.RUNTIME"
    with pytest.raises(TypeError, match=missing):
        runtime.compile()


@pl.jit
def shifted(
    x: pl.Tensor[[4, 32], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 32], pl.FP32]],
    up: pl.Scalar[pl.BOOL],
    by: pl.Scalar[pl.FP32] = 1.0,
):
    with pl.at(level=pl.Level.CORE_GROUP):
        if up:
            out[:] = pl.add(x, by)
        else:
            out[:] = pl.sub(x, by)
    return out


def test_a_number_with_a_default_may_be_left_out_where_outputs_are_given() -> None:
    x, out = torch.ones(4, 32), torch.zeros(4, 32)
    assert shifted(x, out, True) is None
    assert out[0, 0] == 2
    assert shifted(x, False, 3.0)[0, 0] == -2  # as many arguments, all of them inputs


def test_unknown_and_surplus_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'm'; it has x, n, out"):
        runtime.compile(m=1)
    with pytest.raises(TypeError, match=r"takes 3 arguments \(x, n, out\), got 4"):
        runtime.compile(1, 2, 3, 4)
    with pytest.raises(OverflowError, match=r"'n' is an INT32 scalar: 4294967296 is not between") as overflow:
        runtime.lower(n=2**32)
    with pytest.raises(TypeError, match=r"got 'x' twice") as twice:
        runtime.lower(1, x=2)
    first = runtime.fn.__code__.co_firstlineno + 1
    for caught in (overflow, twice):  # where the parameter is declared
        assert str(caught.value).startswith(f"{__file__}:{first}:")


def test_arguments_that_contradict_annotations_are_refused() -> None:
    with pytest.raises(ValueError, match=r"parameter 'x' is declared \[4, 32\], got a tensor of shape \[4, 33\]"):
        runtime.lower(f32(4, 33), 1, empty(4, 32))
    with pytest.raises(
        TypeError,
        match=r"parameter 'x' is declared FP32, got FP16(?s:.)*help: convert it with \.astype\(\"float32\"\)$",
    ):
        runtime.lower(f32(4, 32).astype(np.float16), 1, empty(4, 32))
    with pytest.raises(TypeError, match=r"float64, which is not supported\s[^|]*help: convert it with \.astype"):
        fixed.lower(f32(4, 32).astype(np.float64), 1, empty(4, 32))
    with pytest.raises(
        TypeError, match=r"is declared FP32, got FP16\s[^|]*help: convert it with \.to\(torch\.float32\)"
    ):
        runtime.lower(torch.zeros(4, 32, dtype=torch.float16), 1, empty(4, 32))


FACTOR = 2.0


@pl.jit
def captured(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, FACTOR)
    return out


def test_captured_constants_are_part_of_the_cache_key(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    x, out = f32(4, 8), empty(4, 8)
    first = captured.compile(x, out)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    second = captured.compile(x, out)
    assert second is not first
    assert run(second.program, x, out)[-1] == pytest.approx(x * 5)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert captured.compile(x, out) is first


def test_a_program_whose_dynamic_extent_no_parameter_has_is_refused() -> None:
    unused = pl.dynamic("unused")

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(unused):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 1, :] = x[i : i + 1, :]
        return out

    with pytest.raises(ir.KernelValueError, match=r'pl.dynamic\("unused"\) is no extent of a parameter of \'kernel\''):
        kernel.lower(f32(4, 8), f32(4, 8))


def test_string_annotations_work() -> None:
    @pl.jit
    def kernel(x: "pl.Tensor", out: "pl.Out[pl.Tensor[[4, 8], pl.FP32]]"):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
        return out

    x = f32(4, 8)
    np.testing.assert_array_equal(run(kernel, x, empty(4, 8))[-1], x)


def test_bad_annotations_are_reported_together() -> None:
    @pl.jit
    def kernel(x: "pl.Tenor", y: "list", out: "pl.Out[pl.FP32]"):
        pass

    with pytest.raises(KernelTypeError) as caught:
        kernel.lower(1, 2, 3)
    text = str(caught.value)
    assert "3 mistakes in this kernel" in text
    assert (
        "parameter 'x': module 'pypto.language.unified' has no attribute 'Tenor'" in text
        or "no attribute 'Tenor'" in text
    )
    assert "parameter 'y': <class 'list'> is not a type of the language" in text
    assert "parameter 'out': pl.Out wraps a tensor" in text


def test_declared_tensors_that_are_not_supported_say_why() -> None:
    import pypto.language.distributed as pld

    for annotation, text in (
        (pl.Tensor[[4, 8], pl.FP8E5M2], r"8-bit floats \(matmul_mx\), which are not supported"),
        (pl.Tensor[[4, 8], pl.INT4], "INT4 packs two elements into a byte, and packed types are not supported"),
        (pl.Tensor[[4, 8], pl.FP32, pl.TensorView(valid_shape=[2, 8])], r"a pl.TensorView stands in @pl.function only"),
        (pl.Tensor[[4, 8], pl.FP32, "NZ"], r"a layout such as pl\.NZ, or a pl\.TensorView, got 'NZ'"),
        (pld.DistributedTensor[[4, 8], pl.FP32], "programs over several ranks are not supported"),
    ):

        @pl.jit
        def kernel(x: annotation):
            pass

        with pytest.raises(KernelTypeError, match=text):
            kernel.lower()


def test_a_layout_is_a_label_and_index_elements_are_64_bit_integers() -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[4, 8], pl.INDEX, pl.NZ], out: pl.Out[pl.Tensor[[4, 8], pl.INT64]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)
        return out

    core = verified(kernel.lower())
    assert core["params"][0]["kind"]["Tensor"]["dtype"] == "INT64"


class Settings:
    """What an author keeps outside kernels."""

    def __init__(self, factor: float, shifts: list[float], table: dict[str, float]) -> None:
        self.factor = factor
        self.shifts = shifts
        self.table = table


def test_what_captured_objects_hold_is_part_of_the_cache_key(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    settings = Settings(2.0, [1.0, 2.0], {"scale": 0.5})

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.mul(pl.add(pl.mul(x, settings.factor), settings.shifts[1]), settings.table["scale"])
        return out

    def result() -> np.ndarray:
        return run(kernel, x, empty(4, 8))[1]

    x = f32(4, 8)
    first = kernel.compile(x, empty(4, 8))
    assert kernel.compile(x, empty(4, 8)) is first
    np.testing.assert_allclose(result(), (x * 2 + 2) / 2, rtol=1e-6)
    for change in (
        lambda: setattr(settings, "factor", 3.0),
        lambda: settings.shifts.__setitem__(1, 5.0),
        lambda: settings.table.__setitem__("scale", 1.0),
    ):
        change()
        assert kernel.compile(x, empty(4, 8)) is not first
    np.testing.assert_allclose(result(), x * 3 + 5, rtol=1e-6)
    settings.factor, settings.shifts[1], settings.table["scale"] = 2.0, 2.0, 0.5
    assert kernel.compile(x, empty(4, 8)) is first  # what was compiled before serves again


SHARE, COLS, ON = np.float32(0.1), np.int64(16), np.bool_(True)


@pl.jit
def of_numpy(x: pl.Tensor[[4, COLS], pl.FP32], out: pl.Out[pl.Tensor[[4, COLS], pl.FP32]], s: pl.Scalar[pl.FP32]):
    if ON:
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, COLS])
            out = pl.store(pl.div(pl.mul(t, SHARE), s), [0, 0], out)
    return out


def test_numbers_of_numpy_are_numbers_outside_and_as_arguments() -> None:
    x = f32(4, 16)
    for divisor in (np.float32(2), np.int64(4), np.float16(0.5)):
        out = np.zeros_like(x)
        of_numpy(x, out, divisor)
        np.testing.assert_array_equal(out, x * SHARE / np.float32(divisor))


def test_programs_for_the_two_zeros_differ_and_one_serves_every_nan() -> None:
    x, out = np.abs(f32(4, 16)) + 1, np.zeros((4, 16), np.float32)
    for divisor in (0.0, -0.0):
        of_numpy(x, out, divisor)
        np.testing.assert_array_equal(out, np.full_like(x, np.copysign(np.inf, divisor)))
    assert of_numpy.compile(x, out, float("nan")) is of_numpy.compile(x, out, float("nan"))
