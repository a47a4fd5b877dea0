"""Kernels on blocks of rows, one call each."""

import pypto.language as pl


@pl.jit.incore
def softmax_block(x: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INDEX]):
    """Softmax of 16 rows; one reciprocal for a row, as torch does it."""
    tile = pl.load(x, [row, 0], [16, x.shape[1]])
    scratch = pl.create_tile([16, x.shape[1]], dtype=pl.FP32)
    powers = pl.exp(pl.row_expand_sub(tile, pl.row_max(tile, scratch)))
    result = pl.row_expand_mul(powers, pl.recip(pl.row_sum(powers, scratch)))
    return pl.store(result, [row, 0], out)


@pl.jit
def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """All rows in blocks."""
    for row in pl.range(0, x.shape[0], 16):
        out = softmax_block(x, out, row)
    return out


@pl.jit.incore
def layer_norm_block(
    x: pl.Tensor, weight: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INDEX]
):
    """Layer norm of 4 rows."""
    tile = pl.load(x, [row, 0], [4, x.shape[1]])
    scratch = pl.create_tile([4, x.shape[1]], dtype=pl.FP32)
    mean = pl.mul(pl.row_sum(tile, scratch), 1.0 / 4096)
    centred = pl.row_expand_sub(tile, mean)
    variance = pl.mul(pl.row_sum(pl.mul(centred, centred), scratch), 1.0 / 4096)
    normed = pl.row_expand_mul(centred, pl.rsqrt(pl.add(variance, 1e-5)))
    weights = pl.load(weight, [0, 0], [1, x.shape[1]])
    biases = pl.load(bias, [0, 0], [1, x.shape[1]])
    result = pl.col_expand_add(pl.col_expand_mul(normed, weights), biases)
    return pl.store(result, [row, 0], out)


@pl.jit
def layer_norm(x: pl.Tensor, weight: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """All rows in blocks."""
    for row in pl.range(0, x.shape[0], 4):
        out = layer_norm_block(x, weight, bias, out, row)
    return out


@pl.jit.incore
def rms_norm_block(x: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INDEX]):
    """RMS norm of 4 rows."""
    tile = pl.load(x, [row, 0], [4, x.shape[1]])
    scratch = pl.create_tile([4, x.shape[1]], dtype=pl.FP32)
    mean = pl.mul(pl.row_sum(pl.mul(tile, tile), scratch), 1.0 / 4096)
    normed = pl.row_expand_mul(tile, pl.rsqrt(pl.add(mean, 1e-5)))
    result = pl.col_expand_mul(normed, pl.load(weight, [0, 0], [1, x.shape[1]]))
    return pl.store(result, [row, 0], out)


@pl.jit
def rms_norm(x: pl.Tensor, weight: pl.Tensor, out: pl.Out[pl.Tensor]):
    """All rows in blocks."""
    for row in pl.range(0, x.shape[0], 4):
        out = rms_norm_block(x, weight, out, row)
    return out


@pl.jit.incore
def eight_block(x: pl.Tensor, out: pl.Out[pl.Tensor], row: pl.Scalar[pl.INDEX]):
    """Eight operations on 8 rows."""
    tile = pl.add(pl.mul(pl.load(x, [row, 0], [8, x.shape[1]]), 1.5), 0.25)
    tile = pl.add(pl.mul(pl.maximum(tile, 0.0), 0.75), 0.5)
    tile = pl.mul(pl.sub(pl.minimum(tile, 3.0), 0.125), 1.25)
    return pl.store(tile, [row, 0], out)


@pl.jit
def eight(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """All rows in blocks."""
    for row in pl.range(0, x.shape[0], 8):
        out = eight_block(x, out, row)
    return out


@pl.jit.incore
def eight_block_in_place(x: pl.InOut[pl.Tensor], row: pl.Scalar[pl.INDEX]):
    """Eight operations on 8 rows, written where they were read."""
    tile = pl.add(pl.mul(pl.load(x, [row, 0], [8, x.shape[1]]), 1.5), 0.25)
    tile = pl.add(pl.mul(pl.maximum(tile, 0.0), 0.75), 0.5)
    tile = pl.mul(pl.sub(pl.minimum(tile, 3.0), 0.125), 1.25)
    return pl.store(tile, [row, 0], x)


@pl.jit
def eight_in_place(x: pl.InOut[pl.Tensor]):
    """All rows in blocks."""
    for row in pl.range(0, x.shape[0], 8):
        x = eight_block_in_place(x, row)
    return x
