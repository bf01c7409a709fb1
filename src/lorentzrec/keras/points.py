"""Points of the hyperboloid in keras.ops, given by their space part alone: the time part is sqrt(1 + x . x).

Every vector is the space part of a point, so nothing that Keras does to a variable (weight decay, averages, half
precision on disk) can leave the hyperboloid. A gradient in the space part is the gradient in this chart.

Inner products of points far from the origin are small differences of large numbers. They are computed in float64 and
returned as float32; gradients are computed in float32.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from lorentzrec.keras.backend import Tensor, custom_gradient, float64
from lorentzrec.learning.kernels.structures import COINCIDENT_DISTANCE

_SMALLEST_GAP = COINCIDENT_DISTANCE**2 / 2


def time_of(points: Tensor) -> Tensor:
    """The time part, with a last axis of 1."""
    return ops.sqrt(1.0 + ops.sum(points * points, axis=-1, keepdims=True))


def _ambient(points: Tensor) -> Tensor:
    return ops.concatenate([time_of(points), points], axis=-1)


def _in_chart(points: Tensor, gradient: Tensor) -> Tensor:
    """The gradient in the space part, from one in all d + 1 coordinates."""
    return gradient[..., 1:] + gradient[..., :1] / time_of(points) * points


def _transposed(matrix: Tensor) -> Tensor:
    return ops.swapaxes(matrix, -1, -2)


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """Unlike `ops.matmul`, in float64 where the factors are: on PyTorch that one makes them float32."""
    return left @ right


def _upstream(args: tuple[Any, ...], upstream: Any) -> Tensor:
    """What back ends pass to the gradient of `ops.custom_gradient`: torch by name."""
    return args[0] if upstream is None else upstream


@custom_gradient
def gaps(queries: Tensor, points: Tensor) -> Any:
    """-<u, v> - 1 = cosh d(u, v) - 1 for each query u and point v: (..., q, d), (..., n, d) -> (..., q, n)."""
    with float64():
        left, right = ops.cast(queries, "float64"), ops.cast(points, "float64")
        product = _matmul(_ambient(left), _transposed(_signed(right)))
        value = ops.cast(ops.maximum(product - 1.0, 0.0), "float32")

    def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, Tensor]:
        slopes = _upstream(args, upstream)
        by_queries = _matmul(slopes, _signed(points))
        by_points = _matmul(_transposed(slopes), _signed(queries))
        return _in_chart(queries, by_queries), _in_chart(points, by_points)

    return value, gradient


@custom_gradient
def pair_gaps(queries: Tensor, points: Tensor) -> Any:
    """-<u, v> - 1 of each pair: (..., d), (..., d) -> (...)."""
    with float64():
        left, right = ops.cast(queries, "float64"), ops.cast(points, "float64")
        product = time_of(left)[..., 0] * time_of(right)[..., 0] - ops.sum(left * right, axis=-1)
        value = ops.cast(ops.maximum(product - 1.0, 0.0), "float32")

    def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, Tensor]:
        slopes = _upstream(args, upstream)[..., None]
        return _in_chart(queries, slopes * _signed(points)), _in_chart(points, slopes * _signed(queries))

    return value, gradient


def _signed(points: Tensor) -> Tensor:
    """The gradient of -<u, v> in u, as a row vector: (v0, -v1, ...)."""
    return ops.concatenate([time_of(points), -points], axis=-1)


@custom_gradient
def distances(gap: Tensor) -> Any:
    """d = arccosh(1 + gap). Coinciding points have the distance 0 and no direction: a gradient of zero."""
    apart = gap >= _SMALLEST_GAP
    safe = ops.where(apart, gap, 1.0)
    sinh = ops.sqrt(safe * (safe + 2.0))
    value = ops.where(apart, ops.log(1.0 + safe + sinh), 0.0)

    def gradient(*args: Any, upstream: Any = None) -> Tensor:
        return _upstream(args, upstream) * ops.where(apart, 1.0 / sinh, 0.0)

    return value, gradient


def scores_of(gap: Tensor, score: str) -> Tensor:
    """From -<u, v> - 1 to the score: <u, v>, or minus the distance."""
    return -distances(gap) if score == "distance" else -1.0 - gap


@custom_gradient
def midpoints(weights: Tensor, points: Tensor) -> Any:
    """The Einstein midpoint S / sqrt(-<S, S>), S = sum_i w_i x_i, for each row of weights: (..., q, n), (..., n, d) ->
    (..., q, d). Where all weights are zero it is the origin."""
    with float64():
        wide = ops.cast(weights, "float64")
        total = _matmul(wide, _ambient(ops.cast(points, "float64")))
        mass = ops.sum(wide, axis=-1, keepdims=True)
        time, space = total[..., :1], total[..., 1:]
        # -<S, S> >= W^2 for a sum of points with weights W in all; only rounding takes it below
        squared = ops.maximum(time * time - ops.sum(space * space, axis=-1, keepdims=True), mass * mass)
        length = ops.where(mass > 0.0, ops.sqrt(squared), 1.0)
        value, divisor = ops.cast(space / length, "float32"), ops.cast(length, "float32")

    def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, Tensor]:
        slopes = _upstream(args, upstream)
        along = ops.sum(slopes * value, axis=-1, keepdims=True)
        of_sum = ops.concatenate([-along * time_of(value), slopes + along * value], axis=-1) / divisor
        by_points = _in_chart(points, _matmul(_transposed(weights), of_sum))
        return _matmul(of_sum, _transposed(_ambient(points))), by_points

    return value, gradient


def riemannian(points: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The Riemannian gradient h = g + x (x . g), space part, and its squared length g . g + (x . g)^2."""
    along = ops.sum(points * gradient, axis=-1, keepdims=True)
    squared = ops.sum(gradient * gradient, axis=-1, keepdims=True) + along * along
    return gradient + along * points, squared
