"""The hyperboloid's formulas against their definitions, by hand and by differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.geometry.hyperboloid import require_points
from tests.geometry.hyperbolic_points import (
    DIMENSION,
    basis_at,
    gradient_by_differences,
    points,
    polar_point,
    rotations,
    tangent_at,
    vectors,
)
from tests.reference.hyperboloid import (
    boost,
    descent_step,
    distance,
    distance_gradient,
    distance_to_origin,
    exp_map,
    lift,
    log_map,
    minkowski_dot,
    minkowski_gradient,
    minkowski_squared_norm,
    origin,
    parallel_transport,
    precise,
    project_to_tangent,
    riemannian_gradient,
    squared_distance_to_origin,
    squared_distance_to_origin_gradient,
    squared_lorentzian_distance,
    tangent_norm,
)

ORIGIN = origin(DIMENSION)


def test_minkowski_dot_by_hand() -> None:
    left, right = np.array([2.0, 1.0, 3.0]), np.array([5.0, -1.0, 4.0])
    assert minkowski_dot(left, right) == -2 * 5 + 1 * -1 + 3 * 4
    assert minkowski_squared_norm(left) == -4 + 1 + 9


def test_lift_by_hand() -> None:
    assert_array_equal(lift(np.array([[2.0, 2.0], [0.0, 0.0]])), [[3, 2, 2], [1, 0, 0]])  # 3^2 = 1 + 2^2 + 2^2
    assert_array_equal(lift(np.array([3 / 4])), [5 / 4, 3 / 4])


def test_a_stored_point_is_precise_again() -> None:
    """Far out, x0 in float32 is off by more than 1/1000, and the point is off the sheet by as much times x0."""
    stored = lift(np.array([[12345.0, 0.1], [0.25, 0.0]])).astype(np.float32)
    wide = precise(stored)
    assert wide.dtype == np.float64
    assert_array_equal(wide[:, 1:], stored[:, 1:])
    assert_allclose(minkowski_squared_norm(wide), -1, atol=1e-7)
    assert abs(minkowski_squared_norm(stored.astype(np.float64))[0] + 1) > 0.1


@given(vectors(4, DIMENSION, 100.0))
def test_lift_is_on_the_sheet(space: FloatArray) -> None:
    lifted = lift(space)
    assert_array_equal(lifted[:, 1:], space)
    assert_allclose(minkowski_squared_norm(lifted), -1, atol=1e-11)
    assert (lifted[:, 0] >= 1).all()


def test_origin_is_the_lift_of_nothing() -> None:
    assert_array_equal(origin(2), [1, 0, 0])
    assert origin(2, np.float32).dtype == np.float32


@given(points(2))
def test_exp_map_undoes_log_map(pair: FloatArray) -> None:
    point, target = pair
    tangent = log_map(point, target)
    assert_allclose(minkowski_dot(point, tangent), 0, atol=1e-9)
    assert_allclose(tangent_norm(point, tangent), distance(point, target), atol=1e-9)
    assert_allclose(exp_map(point, tangent), target, atol=1e-8)


@given(points(1), vectors(1, DIMENSION, 3.0))
def test_log_map_undoes_exp_map(point: FloatArray, space: FloatArray) -> None:
    tangent = tangent_at(point, space)
    assert_allclose(log_map(point, exp_map(point, tangent)), tangent, atol=1e-8)


@given(points(1), vectors(1, DIMENSION, 3.0))
def test_exp_map_lands_on_the_sheet_at_the_right_distance(point: FloatArray, space: FloatArray) -> None:
    tangent = tangent_at(point, space)
    landed = exp_map(point, tangent)
    assert_allclose(minkowski_squared_norm(landed), -1, atol=1e-9)
    assert_allclose(distance(point, landed), tangent_norm(point, tangent), atol=1e-9)


def test_log_map_keeps_the_digits_of_near_points() -> None:
    point = polar_point(np.array(3.0), np.array([0.6, 0.8, 0.0]))
    tangent = 1e-9 * basis_at(point)
    assert_allclose(log_map(point, exp_map(point, tangent)), tangent, rtol=1e-5, atol=1e-13)


def test_exp_map_of_zero_and_log_map_of_itself() -> None:
    point = lift(np.array([0.3, -2.0, 1.0]))
    assert_array_equal(exp_map(point, np.zeros(4)), point)
    assert_array_equal(log_map(point, point), np.zeros(4))


@given(points(3))
def test_distance_is_a_metric(triple: FloatArray) -> None:
    first, second, third = triple
    assert distance(first, first) == 0
    assert distance(first, second) == distance(second, first)
    assert distance(first, third) <= distance(first, second) + distance(second, third) + 1e-9


@given(points(2))
def test_distance_is_the_arccosh(pair: FloatArray) -> None:
    cosh = np.maximum(-minkowski_dot(*pair), 1)
    # An error e in cosh(d) near 1 is one of sqrt(2 e) in d: that loss is the reason for the other form.
    assert_allclose(distance(*pair), np.arccosh(cosh), atol=1e-5)
    assert_allclose(squared_lorentzian_distance(*pair), 2 * (cosh - 1), atol=1e-10)


def test_distance_by_hand() -> None:
    east, north = polar_point(np.array([2.0, 1.0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    west = polar_point(np.array(0.5), np.array([-1.0, 0.0]))
    assert_allclose(distance(origin(2), east), 2)
    assert_allclose(distance(west, east), 2 + 0.5)
    assert_allclose(np.cosh(distance(east, north)), np.cosh(2) * np.cosh(1))  # Pythagoras in hyperbolic space


@given(points(2), points(1), rotations())
def test_distance_is_invariant_under_isometries(pair: FloatArray, goal: FloatArray, rotation: FloatArray) -> None:
    moved = pair @ rotation.T @ boost(goal[0])
    assert_allclose(distance(*moved), distance(*pair), atol=1e-5)
    assert_allclose(squared_lorentzian_distance(*moved), squared_lorentzian_distance(*pair), rtol=1e-8, atol=1e-10)


def polar_distance(first: FloatArray, second: FloatArray) -> FloatArray:
    """Distance of two space parts by radius r, s and direction a, b, in float64: no two large numbers are subtracted.

    cosh(d) - 1 = 2 sinh((r - s) / 2)^2 + sinh(r) sinh(s) |a - b|^2 / 2
    """
    lengths = [np.linalg.norm(space.astype(np.float64), axis=-1) for space in (first, second)]
    between = np.linalg.norm(first / lengths[0][:, None] - second / lengths[1][:, None], axis=-1)
    halves = (np.arcsinh(lengths[0]) - np.arcsinh(lengths[1])) / 2
    exact: FloatArray = np.arccosh(1 + 2 * np.sinh(halves) ** 2 + lengths[0] * lengths[1] * between**2 / 2)
    return exact


@pytest.mark.parametrize(
    ("radius", "separation", "bound"),
    [
        (0.5, 1e-2, 5e-6),
        (2, 1e-2, 5e-6),
        (5, 1e-2, 1e-4),
        (5, 1.0, 5e-4),
        (7, 0.2, 5e-3),
        (0.5, None, 1e-6),
        (7, None, 1e-6),
    ],
)
def test_distance_keeps_its_digits_in_float32(radius: float, separation: float | None, bound: float) -> None:
    """Steps of one length from points of one radius, and (None) pairs of that radius whose directions are unrelated."""
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(2, 200, 8))
    first, second = polar_point(
        np.full((2, 200), radius), directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    )
    if separation is not None:
        steps = polar_point(np.full(200, separation), second[:, 1:] / np.sinh(radius))
        second = (steps[:, None, :] @ boost(first))[:, 0]
    narrow = [lift(point[:, 1:].astype(np.float32)) for point in (first, second)]
    measured, exact = distance(*narrow), polar_distance(narrow[0][:, 1:], narrow[1][:, 1:])
    assert measured.dtype == np.float32
    assert np.median(np.abs(measured - exact) / exact) < bound


def test_arccosh_would_lose_them() -> None:
    near = lift(np.array([[74.0, 0.0], [74.0, 0.01]], np.float32))
    assert_allclose(distance(*near), 0.01, rtol=1e-4)
    assert abs(np.arccosh(np.maximum(-minkowski_dot(*near), 1)) - 0.01) > 0.005


@given(points(1), vectors(1, DIMENSION + 1, 3.0))
def test_projection_is_tangent_and_done_once(point: FloatArray, vector: FloatArray) -> None:
    tangent = project_to_tangent(point, vector)
    assert_allclose(minkowski_dot(point, tangent), 0, atol=1e-9)
    assert_allclose(project_to_tangent(point, tangent), tangent, atol=1e-7)
    assert_allclose(vector - tangent, -minkowski_dot(point, vector)[:, None] * point, atol=1e-9)


@given(points(1), vectors(1, DIMENSION, 3.0))
def test_tangent_norm_is_the_root_of_the_minkowski_norm(point: FloatArray, space: FloatArray) -> None:
    tangent = tangent_at(point, space)
    assert_allclose(tangent_norm(point, tangent) ** 2, minkowski_squared_norm(tangent), atol=1e-9)


@given(points(2))
def test_gradient_of_the_inner_product_is_sinh_of_the_distance_long(pair: FloatArray) -> None:
    """f(v) = <u, v> has the Minkowski gradient u; the length of its tangent part needs the score only."""
    u, v = pair
    length = tangent_norm(v, project_to_tangent(v, u))
    assert_allclose(length, np.sinh(distance(u, v)), rtol=1e-7, atol=1e-7)
    assert_allclose(length**2, minkowski_dot(u, v) ** 2 - 1, rtol=1e-7, atol=1e-7)


def test_tangent_norm_survives_where_the_minkowski_norm_does_not() -> None:
    point = polar_point(np.array(12.0, np.float32), np.array([1.0], np.float32))
    tangent = point[::-1]  # (sinh r, cosh r): the outward unit vector
    assert_allclose(tangent_norm(point, tangent), 1, atol=0.03)
    assert abs(float(minkowski_squared_norm(tangent)) - 1) > 0.5


@given(points(2), vectors(2, DIMENSION, 3.0))
def test_transport_keeps_tangency_and_inner_products(pair: FloatArray, spaces: FloatArray) -> None:
    tangents = tangent_at(pair[0], spaces)
    carried = parallel_transport(pair[0], pair[1], tangents)
    assert_allclose(minkowski_dot(pair[1], carried), 0, atol=1e-7)
    assert_allclose(minkowski_dot(*carried), minkowski_dot(*tangents), atol=1e-7)
    assert_allclose(parallel_transport(pair[1], pair[0], carried), tangents, atol=1e-7)


@given(points(2))
def test_transport_follows_the_geodesic(pair: FloatArray) -> None:
    start, end = pair
    assert_allclose(parallel_transport(start, end, log_map(start, end)), -log_map(end, start), atol=1e-8)


@given(points(1), vectors(1, DIMENSION, 2.0))
def test_transport_turns_the_tangent_of_its_own_geodesic(point: FloatArray, space: FloatArray) -> None:
    """Carried along -rate m, a momentum m becomes cosh(n) m - |m| sinh(n) x with n = rate |m|."""
    momentum, rate = tangent_at(point, space), 0.7
    norm = tangent_norm(point, momentum)[:, None]
    turned = np.cosh(rate * norm) * momentum - norm * np.sinh(rate * norm) * point
    assert_allclose(parallel_transport(point, exp_map(point, -rate * momentum), momentum), turned, atol=1e-8)


@given(points(1))
def test_boost_carries_the_origin_and_keeps_the_inner_product(goal: FloatArray) -> None:
    matrix = boost(goal)[0]
    metric = np.diag([-1.0, 1.0, 1.0, 1.0])
    assert_allclose(ORIGIN @ matrix, goal[0], atol=1e-12)
    assert_allclose(matrix @ metric @ matrix.T, metric, atol=1e-10)
    back = boost(lift(-goal[0, 1:]))
    assert_allclose(matrix @ back, np.eye(4), atol=1e-10)


def test_boost_by_hand() -> None:
    """Along one axis two boosts are one by the sum: rapidities add as velocities do not."""
    alpha = polar_point(np.array([0.5, 1.5, 2.0]), np.ones((3, 1)))
    assert_allclose(alpha[0] @ boost(alpha[1]), alpha[2])


def test_minkowski_gradient_flips_the_time_part() -> None:
    assert_array_equal(minkowski_gradient(np.array([[1.0, 2.0, 3.0]])), [[-1, 2, 3]])


def quadratic(point: FloatArray) -> FloatArray:
    """A function of the ambient coordinates: f = x0 x1 + x2^2 - 3 x3, with the gradient (x1, x0, 2 x2, -3)."""
    return point[..., 0] * point[..., 1] + point[..., 2] ** 2 - 3 * point[..., 3]


def quadratic_gradient(point: FloatArray) -> FloatArray:
    return np.stack([point[..., 1], point[..., 0], 2 * point[..., 2], np.full_like(point[..., 3], -3)], axis=-1)


@given(points(1, radius=1.5))
def test_riemannian_gradient_equals_differences(point: FloatArray) -> None:
    gradient = riemannian_gradient(point[0], quadratic_gradient(point[0]))
    assert_allclose(gradient, gradient_by_differences(quadratic, point[0]), atol=1e-5)


@given(points(1, radius=1.5), vectors(1, DIMENSION, 1.0))
def test_riemannian_gradient_is_the_steepest_direction(point: FloatArray, space: FloatArray) -> None:
    """No unit direction climbs faster than the gradient's own, which climbs at the rate of its length."""
    gradient = riemannian_gradient(point, quadratic_gradient(point))
    steepness = tangent_norm(point, gradient)
    step = 1e-5

    def slope(tangent: FloatArray) -> FloatArray:
        unit = tangent / tangent_norm(point, tangent)[:, None]
        return (quadratic(exp_map(point, step * unit)) - quadratic(exp_map(point, -step * unit))) / (2 * step)

    other = tangent_at(point, space + np.array([1.0, 0.1, 0.2]))
    assert slope(other) <= steepness + 1e-5
    if steepness > 1e-3:
        assert_allclose(slope(gradient), steepness, atol=1e-4)


@given(points(2, radius=2.0))
def test_distance_gradient_equals_differences(pair: FloatArray) -> None:
    point, target = pair
    assume(distance(point, target) > 0.01)  # near the cusp, differences of step 1e-5 are too coarse
    gradient = distance_gradient(point, target)
    assert_allclose(gradient, gradient_by_differences(lambda x: distance(x, target), point), atol=1e-5)
    ambient = -target / np.sinh(distance(point, target))
    assert_allclose(project_to_tangent(point, ambient), gradient, atol=1e-7)


def test_distance_gradient_has_length_one_except_on_the_diagonal() -> None:
    point = lift(np.array([0.5, -1.0, 2.0]))
    targets = np.stack([exp_map(point, length * basis_at(point)[0]) for length in (1e-8, 1e-3, 5.0)])
    assert_allclose(tangent_norm(point, distance_gradient(point, targets)), 1, rtol=1e-6)
    assert_array_equal(distance_gradient(point, point), np.zeros(4))


@given(points(1), vectors(1, DIMENSION + 1, 1.0), st.floats(1e-3, 1), st.floats(-2, 2))
def test_descent_step_is_the_three_steps(
    point: FloatArray, gradient: FloatArray, learning_rate: float, multiple: float
) -> None:
    three_steps = exp_map(point, -learning_rate * project_to_tangent(point, gradient))
    tolerance = 1e-9 * float(np.max(three_steps[:, 0]))
    assert_allclose(descent_step(point, gradient, learning_rate), three_steps, atol=tolerance)
    assert_allclose(descent_step(point, gradient + multiple * point, learning_rate), three_steps, atol=tolerance)


def test_descent_step_without_gradient_stays() -> None:
    point = lift(np.array([0.5, -1.0, 2.0]))
    assert_array_equal(descent_step(point, np.zeros(4), 0.1), point)


@given(points(1))
def test_distance_to_origin_is_a_distance(point: FloatArray) -> None:
    assert_allclose(distance_to_origin(point), distance(ORIGIN, point), atol=1e-9)


@given(points(1))
def test_squared_distance_to_origin_and_its_gradient(point: FloatArray) -> None:
    assert_allclose(squared_distance_to_origin(point), distance(ORIGIN, point) ** 2, atol=1e-9)
    gradient = project_to_tangent(point, squared_distance_to_origin_gradient(point))
    assert_allclose(gradient, -2 * log_map(point, ORIGIN), atol=1e-8)
    assert_allclose(gradient[0], gradient_by_differences(squared_distance_to_origin, point[0]), atol=1e-4)


def test_squared_distance_to_origin_gradient_at_the_origin() -> None:
    assert_array_equal(squared_distance_to_origin_gradient(ORIGIN), -2 * ORIGIN)


ONE_ARGUMENT: list[Callable[..., FloatArray]] = [
    lift,
    boost,
    minkowski_squared_norm,
    minkowski_gradient,
    distance_to_origin,
    squared_distance_to_origin,
    squared_distance_to_origin_gradient,
]
TWO_ARGUMENTS: list[Callable[..., FloatArray]] = [
    minkowski_dot,
    squared_lorentzian_distance,
    distance,
    distance_gradient,
    project_to_tangent,
    riemannian_gradient,
    tangent_norm,
    exp_map,
    log_map,
    lambda point, gradient: descent_step(point, gradient, 0.1),
    lambda point, target: parallel_transport(point, target, log_map(point, target)),
]
CALLS: list[tuple[Callable[..., FloatArray], int]] = [(function, 1) for function in ONE_ARGUMENT]
CALLS += [(function, 2) for function in TWO_ARGUMENTS]


@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_dtype_and_batches(function: Callable[..., FloatArray], arguments: int) -> None:
    """float32 stays float32; leading axes are a loop; one operand may be shared; a NaN is never hidden."""
    rng = np.random.default_rng(0)
    batch = [lift(rng.normal(size=(2, 3, DIMENSION))) for _ in range(arguments)]
    result = function(*batch)
    assert function(*(array.astype(np.float32) for array in batch)).dtype == np.float32
    assert result.dtype == np.float64
    assert_allclose(result[1, 2], function(*(array[1, 2] for array in batch)))
    if arguments == 2:
        assert_allclose(function(batch[0][1, 2], batch[1])[1, 2], result[1, 2])
    batch[0][0, 0, :] = np.nan
    assert np.isnan(function(*batch)[0, 0]).any()


def test_a_point_off_the_sheet_is_refused() -> None:
    """(5, 0, 0) has <x, x> = -25; a space part of (3, 4) needs the time part sqrt(26)."""
    with pytest.raises(ValueError, match="time part is 5, and its space part needs 1: use `lift`"):
        require_points("point", [5.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"needs 5\.09902"):
        require_points("points", [[1, 0, 0], [5, 3, 4]])
    points = require_points("points", [[1, 0, 0], [np.sqrt(26), 3, 4]])
    assert points.dtype == np.float64
    assert_array_equal(require_points("points", lift(np.ones((2, 3), np.float32))).dtype, np.float32)
    with pytest.raises(ValueError, match="points has a row"):
        require_points("points", [[np.nan, 0, 0]])


def test_lists_of_numbers_are_points_too() -> None:
    assert hyperboloid.lift([3.0, 4.0]) == pytest.approx([26**0.5, 3, 4])
    assert hyperboloid.distance([26**0.5, 3.0, 4.0], [1.0, 0.0, 0.0]) == pytest.approx(np.arcsinh(5))
