"""Points of the hyperboloid in keras.ops, given by their space part alone: the time part is sqrt(1 + x . x).

Every vector is the space part of a point, so nothing that Keras does to a variable (weight decay, averages, half
precision on disk) can leave the hyperboloid. A gradient in the space part is the gradient in this chart.

Inner products of points far from the origin are small differences of large numbers. They are computed in float64 and
returned as float32; gradients are computed in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from lorentzrec.keras.backend import Tensor, custom_gradient, float64
from lorentzrec.learning.engine import COINCIDENT_DISTANCE

_SMALLEST_GAP = COINCIDENT_DISTANCE**2 / 2


def find_time(points: Tensor) -> Tensor:
    """The time part, with a last axis of 1."""
    return ops.sqrt(1.0 + ops.sum(points * points, axis=-1, keepdims=True))


def _ambient(points: Tensor) -> Tensor:
    return ops.concatenate([find_time(points), points], axis=-1)


def _in_chart(points: Tensor, gradient: Tensor) -> Tensor:
    """The gradient in the space part, from one in all d + 1 coordinates."""
    return gradient[..., 1:] + gradient[..., :1] / find_time(points) * points


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


def products(queries: Tensor, points: Tensor) -> Tensor:
    """<u, v> in float32, as the compiled kernels have it: (q, d), (n, d) -> (q, n)."""
    return -_matmul(_ambient(queries), _transposed(_signed(points)))


@custom_gradient
def pair_gaps(queries: Tensor, points: Tensor) -> Any:
    """-<u, v> - 1 of each pair: (..., d), (..., d) -> (...)."""
    with float64():
        left, right = ops.cast(queries, "float64"), ops.cast(points, "float64")
        product = find_time(left)[..., 0] * find_time(right)[..., 0] - ops.sum(left * right, axis=-1)
        value = ops.cast(ops.maximum(product - 1.0, 0.0), "float32")

    def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, Tensor]:
        slopes = _upstream(args, upstream)[..., None]
        return _in_chart(queries, slopes * _signed(points)), _in_chart(points, slopes * _signed(queries))

    return value, gradient


def _signed(points: Tensor) -> Tensor:
    """The gradient of -<u, v> in u, as a row vector: (v0, -v1, ...)."""
    return ops.concatenate([find_time(points), -points], axis=-1)


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


def find_scores(gap: Tensor, score: str) -> Tensor:
    """From -<u, v> - 1 to the score: <u, v>, or minus the distance."""
    return -distances(gap) if score == "distance" else -1.0 - gap


@custom_gradient
def midpoints(weights: Tensor, points: Tensor) -> Any:
    """The Einstein midpoint S / sqrt(-<S, S>), S = sum_i w_i x_i, for each row of weights: (..., q, n), (..., n, d) ->
    (..., q, d). Where all weights are zero it is the origin."""
    with float64():
        wide = ops.cast(weights, "float64")
        total = _matmul(wide, _ambient(ops.cast(points, "float64")))
        value, divisor = _normalised(total, ops.sum(wide, axis=-1, keepdims=True))

    def gradient(*args: Any, upstream: Any = None) -> tuple[Tensor, Tensor]:
        of_sum = _gradient_of_sum(value, divisor, _upstream(args, upstream))
        by_points = _in_chart(points, _matmul(_transposed(weights), of_sum))
        return _matmul(of_sum, _transposed(_ambient(points))), by_points

    return value, gradient


class Places(NamedTuple):
    """Where events are, in histories one after another. Without orders, every event is an order."""

    steps: Tensor
    """The number of each event in its history, from 0."""
    orders: Tensor
    """The number of its order in its history, from 0."""
    before: Tensor
    """The last event of the order before its own; 0 if there is none."""
    after: Tensor
    """The first event of the order after its own; 0 if there is none."""


def midpoints_before(points: Tensor, weights: Tensor, places: Places, recency: float) -> Tensor:
    """The midpoint of the orders before that of each event: points (n, d) -> (n, d). In the first order of a history it
    is the origin.

    recency: factor on the weight of an event per order back.
    """
    later = (places.orders > 0)[:, None]

    @custom_gradient
    def of_points(points: Tensor) -> Any:
        with float64():
            wide = ops.cast(weights, "float64")[:, None]
            terms = wide * ops.concatenate([_ambient(ops.cast(points, "float64")), ops.ones_like(wide)], axis=-1)
            sums = ops.take(_decayed_sums(terms, places, recency), places.before, axis=0)
            sums = ops.cast(later, "float64") * sums
            value, divisor = _normalised(sums[:, :-1], sums[:, -1:])

        def gradient(*args: Any, upstream: Any = None) -> Tensor:
            of_sum = _gradient_of_sum(value, divisor, _upstream(args, upstream))
            sums = _decayed_sums(of_sum, places, recency, backward=True)
            following = ops.take(ops.cast(later, "float32") * sums, places.after, axis=0)
            return _in_chart(points, weights[:, None] * following)

        return value, gradient

    return of_points(points)


def _decayed_sums(terms: Tensor, places: Places, recency: float, *, backward: bool = False) -> Tensor:
    """sum_j recency^(o_t - o_j) x_j over the events j of a history up to each event t, with o_j the order of j;
    backward, recency^(o_j - o_t) x_j from each event on.

    By doubling: sums over 2 k events are those over k and, decayed, those over the k before, so that a history of n
    events takes log2 n passes. A roll moves nothing from one history to another, since a step is less than a place.
    """

    # What an event adds to the power of recency from one event to the next.
    starts = ops.cast(places.orders != ops.roll(places.orders, 1), terms.dtype)
    base = ops.cast(recency, terms.dtype)

    def add(shift: Any, decays: Tensor, sums: Tensor) -> tuple[Any, Tensor, Tensor]:
        """decays: from the event `shift` places before to each event."""
        share = (ops.cast(places.steps >= shift, sums.dtype) * decays)[:, None]
        moved = ops.roll(share * sums, -shift, axis=0) if backward else share * ops.roll(sums, shift, axis=0)
        return 2 * shift, decays * ops.roll(decays, shift, axis=0), sums + moved

    decays = 1 + (base - 1) * starts
    count = terms.shape[0]
    if count is None:  # TensorFlow traces one graph for blocks of all lengths
        longest = ops.max(places.steps)
        first = ops.cast(1, places.steps.dtype), decays, terms
        return ops.while_loop(lambda shift, *_: shift <= longest, add, first)[2]
    shift = 1
    while shift < count:
        shift, decays, terms = add(shift, decays, terms)
    return terms


def _normalised(total: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """The midpoint of a sum S with weights W in all, and what S was divided by, both as float32."""
    time, space = total[..., :1], total[..., 1:]
    # -<S, S> >= W^2; only rounding takes it below
    squared = ops.maximum(time * time - ops.sum(space * space, axis=-1, keepdims=True), mass * mass)
    length = ops.where(mass > 0.0, ops.sqrt(squared), 1.0)
    return ops.cast(space / length, "float32"), ops.cast(length, "float32")


def _gradient_of_sum(midpoint: Tensor, divisor: Tensor, slopes: Tensor) -> Tensor:
    along = ops.sum(slopes * midpoint, axis=-1, keepdims=True)
    return ops.concatenate([-along * find_time(midpoint), slopes + along * midpoint], axis=-1) / divisor


def riemannian(points: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The Riemannian gradient h = g + x (x . g), space part, and its squared length g . g + (x . g)^2."""
    along = ops.sum(points * gradient, axis=-1, keepdims=True)
    squared = ops.sum(gradient * gradient, axis=-1, keepdims=True) + along * along
    return gradient + along * points, squared
