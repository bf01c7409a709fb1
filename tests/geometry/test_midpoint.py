"""The Einstein midpoint as Klein's formula, as a centre and under differentiation; compared with the Frechet mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import from_klein, to_klein
from lorentzrec.geometry.hyperboloid import (
    boost,
    distance,
    lift,
    minkowski_dot,
    minkowski_gradient,
    minkowski_squared_norm,
    origin,
    project_to_tangent,
    squared_lorentzian_distance,
)
from lorentzrec.geometry.midpoint import einstein_midpoint, normalise_sum
from lorentzrec.geometry.sums import weighted_sum
from lorentzrec_paper.midpoints import einstein_midpoint_as_printed, frechet_mean, frechet_mean_by_iterations
from tests.geometry.hyperbolic_points import gradient_by_differences, points, polar_point, rotations, vectors
from tests.reference.midpoint import midpoint_gradient

COUNT = 5


def weights(count: int = COUNT) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float64, count, elements=st.floats(0.1, 3))


def on_the_geodesic(*alphas: float) -> FloatArray:
    """Points (cosh(alpha), sinh(alpha)) of the one-dimensional sheet, where alpha is a signed distance."""
    return polar_point(np.array(alphas), np.ones((len(alphas), 1)))


def alpha_of(point: FloatArray) -> FloatArray:
    return np.arcsinh(point[..., 1])


@given(points(COUNT), weights())
def test_midpoint_is_the_klein_formula(batch: FloatArray, weight: FloatArray) -> None:
    klein = to_klein(batch)
    gamma = 1 / np.sqrt(1 - (klein**2).sum(axis=-1))
    assert_allclose(gamma, batch[:, 0], atol=1e-9)
    expected = (weight * gamma) @ klein / (weight * gamma).sum()
    assert_allclose(einstein_midpoint(batch, weight), from_klein(expected), atol=1e-8)


@given(points(COUNT), weights(), points(1), rotations())
def test_midpoint_goes_along_with_isometries(
    batch: FloatArray, weight: FloatArray, goal: FloatArray, rotation: FloatArray
) -> None:
    isometry = rotation.T @ boost(goal[0])
    moved = einstein_midpoint(batch @ isometry, weight)
    assert_allclose(moved, einstein_midpoint(batch, weight) @ isometry, rtol=1e-7, atol=1e-7)


@given(points(COUNT), weights())
def test_midpoint_minimises_the_squared_lorentzian_distances(batch: FloatArray, weight: FloatArray) -> None:
    centre = einstein_midpoint(batch, weight)

    def cost(point: FloatArray) -> FloatArray:
        total: FloatArray = weight @ squared_lorentzian_distance(point, batch)
        return total

    assert_allclose(gradient_by_differences(cost, centre), 0, atol=1e-4)
    assert_allclose(project_to_tangent(centre, weighted_sum(batch, weight)), 0, atol=1e-8)


@given(points(COUNT), weights())
def test_sum_is_at_least_as_long_as_the_weights(batch: FloatArray, weight: FloatArray) -> None:
    """n^2 = sum_ij w_i w_j cosh(d_ij) = W^2 + sum_(i<j) w_i w_j q_ij."""
    pairs = squared_lorentzian_distance(batch[:, None], batch[None, :])
    expected = weight.sum() ** 2 + weight @ pairs @ weight / 2
    assert_allclose(-minkowski_squared_norm(weighted_sum(batch, weight)), expected, rtol=1e-9)


def test_midpoint_of_one_point_is_the_point() -> None:
    point = lift(np.array([[0.3, -2.0]]))
    assert_allclose(einstein_midpoint(point, np.array([7.0])), point[0])


def test_printed_midpoint_by_hand() -> None:
    """With gamma = cosh^2 the midpoint of alpha = 0 and 2 is not 1, and it depends on where the origin is."""
    expected = np.arctanh(np.sinh(2) * np.cosh(2) / (1 + np.cosh(2) ** 2))  # 1.474
    assert_allclose(alpha_of(einstein_midpoint_as_printed(on_the_geodesic(0, 2))), expected)
    assert_allclose(alpha_of(einstein_midpoint(on_the_geodesic(0, 2))), 1)
    moved = on_the_geodesic(0, 2) @ boost(on_the_geodesic(-1)[0])
    assert_allclose(alpha_of(einstein_midpoint_as_printed(moved)), 0, atol=1e-12)
    assert expected - 1 > 0.4


@given(vectors(1, 3, 2.0), vectors(1, 4, 3.0))
def test_midpoint_gradient_equals_differences(space: FloatArray, gradient: FloatArray) -> None:
    """f(S) = <h, S / n> differentiated in each of the four ambient coordinates of S."""
    total = 2.5 * lift(space[0])
    step = 1e-6 * np.eye(4)
    ahead, behind = (minkowski_dot(gradient[0], normalise_sum(total + sign * step)) for sign in (1, -1))
    expected = minkowski_gradient((ahead - behind) / 2e-6)
    assert_allclose(midpoint_gradient(total, gradient[0]), expected, rtol=1e-5, atol=1e-5)


@given(points(COUNT, radius=2.0), weights(), vectors(1, 4, 1.0))
def test_gradient_of_a_history_point_equals_differences(
    batch: FloatArray, weight: FloatArray, gradient: FloatArray
) -> None:
    """Through the whole chain: x_2 moves along the sheet, S with it, and the midpoint with S."""

    def function(point: FloatArray) -> FloatArray:
        return minkowski_dot(gradient[0], einstein_midpoint(np.stack([*batch[:2], point, *batch[3:]]), weight))

    chain = weight[2] * midpoint_gradient(weighted_sum(batch, weight), gradient[0])
    assert_allclose(project_to_tangent(batch[2], chain), gradient_by_differences(function, batch[2]), atol=1e-5)


def test_ranking_by_distance_is_ranking_by_the_sum_of_inner_products() -> None:
    rng = np.random.default_rng(1)
    history, items, weight = lift(rng.normal(size=(7, 4))), lift(rng.normal(size=(500, 4))), rng.uniform(0.1, 2, 7)
    by_distance = np.argsort(distance(einstein_midpoint(history, weight), items))
    inner_products = minkowski_dot(history[:, None], items[None, :])
    assert by_distance.tolist() == np.argsort(-(weight @ inner_products)).tolist()


@given(points(COUNT), weights())
def test_frechet_mean_has_no_gradient(batch: FloatArray, weight: FloatArray) -> None:
    mean = frechet_mean(batch, weight, tolerance=1e-9)

    def cost(point: FloatArray) -> FloatArray:
        total: FloatArray = weight @ distance(point, batch) ** 2
        return total

    assert_allclose(gradient_by_differences(cost, mean), 0, atol=1e-4)


@given(points(2))
def test_frechet_mean_of_two_points_is_their_midpoint(pair: FloatArray) -> None:
    assert_allclose(frechet_mean(pair, tolerance=1e-9), einstein_midpoint(pair), atol=1e-7)


@given(points(COUNT), points(1), rotations())
def test_frechet_mean_goes_along_with_isometries(batch: FloatArray, goal: FloatArray, rotation: FloatArray) -> None:
    isometry = rotation.T @ boost(goal[0])
    moved = frechet_mean(batch @ isometry, tolerance=1e-8)
    assert_allclose(moved, frechet_mean(batch, tolerance=1e-8) @ isometry, rtol=1e-5, atol=1e-5)


def test_means_of_three_points_by_hand() -> None:
    """On a geodesic the Frechet mean is the mean of the alphas; the midpoint leans to the far point, here by 11 %."""
    three = on_the_geodesic(0, 0, 2)
    assert_allclose(alpha_of(frechet_mean(three, tolerance=1e-12)), 2 / 3)
    midpoint = alpha_of(einstein_midpoint(three))
    assert_allclose(midpoint, np.arctanh(np.sinh(2) / (2 + np.cosh(2))))
    assert_allclose(midpoint / (2 / 3), 1.11, atol=0.005)
    twice = frechet_mean(on_the_geodesic(0, 2), np.array([2.0, 1.0]), tolerance=1e-12)
    assert_allclose(alpha_of(twice), 2 / 3)


def test_frechet_mean_of_spread_points_converges() -> None:
    far = polar_point(np.linspace(5, 7, 6), np.eye(6))
    mean = frechet_mean(far, tolerance=1e-9)
    cost = (distance(mean, far) ** 2).sum()
    assert cost < (distance(einstein_midpoint(far), far) ** 2).sum()
    assert cost < (distance(origin(6), far) ** 2).sum()


def test_frechet_mean_says_when_it_has_not_converged() -> None:
    with pytest.raises(InputError, match=r"gradient of 0\.0\d+ after 1 iterations .*allow more iterations"):
        frechet_mean(on_the_geodesic(0, 0, 2), iterations=1)
    with pytest.raises(InputError, match="after 0 iterations"):
        frechet_mean(on_the_geodesic(0, 0, 2), iterations=0)


def test_ten_iterations_leave_a_thousandth() -> None:
    """From alpha = 0 with the mean at 2/3 the error halves ten times: 2/3 (1 - 2^-10)."""
    ten = frechet_mean_by_iterations(on_the_geodesic(0, 0, 2))
    assert_allclose(alpha_of(ten), 2 / 3 * (1 - 2**-10))
    three = frechet_mean_by_iterations(on_the_geodesic(0, 0, 2), iterations=3, learning_rate=0.25)
    assert_allclose(alpha_of(three), 2 / 3 * (1 - 0.75**3))


def test_no_history_has_no_midpoint() -> None:
    sums = np.array([[2.0, 0.5], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"row \[1\] has no midpoint, as -<S, S> is .*positive weight"):
        normalise_sum(sums)
    with pytest.raises(InputError, match="none of negative"):
        einstein_midpoint(on_the_geodesic(0, 2), np.array([-1.0, -1.0]))
    for mean in (frechet_mean, frechet_mean_by_iterations, einstein_midpoint_as_printed):
        with pytest.raises(InputError, match="positive weight"):
            mean(on_the_geodesic(0, 2), np.zeros(2))


def test_batches_and_dtype() -> None:
    rng = np.random.default_rng(5)
    batch, weight = lift(rng.normal(size=(4, COUNT, 3))), rng.uniform(0.5, 2, (4, COUNT))
    for function in (einstein_midpoint, einstein_midpoint_as_printed, frechet_mean_by_iterations, frechet_mean):
        result = function(batch, weight)
        assert result.shape == (4, 4)
        assert_allclose(result[2], function(batch[2], weight[2]), atol=1e-5)
        narrow = function(batch.astype(np.float32), weight)
        assert narrow.dtype == np.float32
        assert_allclose(narrow, result, atol=1e-4)
    total = weighted_sum(batch, weight).astype(np.float32)
    assert midpoint_gradient(total, total).dtype == np.float32
