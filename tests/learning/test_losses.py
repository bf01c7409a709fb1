"""Scores, losses and penalty: values by hand, gradients against differences along geodesics."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.geometry import FloatArray
from tests.reference import euclidean, hyperboloid
from tests.reference.losses import Geometry, LossName, ScoreKind, coincide, loss, penalty, score, score_gradients

GEOMETRIES: list[Geometry] = ["hyperboloid", "euclidean"]
KINDS: list[ScoreKind] = ["inner", "distance"]
LOSSES: list[LossName] = ["bpr", "wmrb", "softmax"]
SEEDS = st.integers(0, 2**32)


def some_points(geometry: Geometry, count: int, seed: int) -> FloatArray:
    space = np.random.default_rng(seed).normal(size=(count, 3))
    return hyperboloid.lift(space) if geometry == "hyperboloid" else space


def check_gradient(
    geometry: Geometry, function: Callable[[FloatArray], FloatArray], point: FloatArray, gradient: FloatArray, seed: int
) -> None:
    """Along a random geodesic, the slope of the function is the inner product of gradient and direction."""
    space = hyperboloid if geometry == "hyperboloid" else euclidean
    direction = space.project_to_tangent(point, np.random.default_rng(seed + 1).normal(size=point.shape))
    step = 1e-5
    ahead, behind = (function(space.exp_map(point, sign * step * direction)) for sign in (1, -1))
    along = score(geometry, "inner", space.project_to_tangent(point, gradient), direction)
    np.testing.assert_allclose((ahead - behind) / (2 * step), along, rtol=1e-6, atol=1e-6)


def test_scores_by_hand() -> None:
    u, v = hyperboloid.lift(np.array([[np.sinh(1.0), 0.0], [0.0, np.sinh(2.0)]]))
    assert score("hyperboloid", "inner", u, v) == pytest.approx(-np.cosh(1) * np.cosh(2))
    assert score("hyperboloid", "distance", u, v) == pytest.approx(-np.arccosh(np.cosh(1) * np.cosh(2)))
    assert score("euclidean", "inner", np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1 * 3 + 2 * 4
    assert score("euclidean", "distance", np.array([1.0, 2.0]), np.array([4.0, 6.0])) == -5


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_score_gradients_equal_differences(geometry: Geometry, kind: ScoreKind, seed: int) -> None:
    u, v = some_points(geometry, 2, seed)
    in_customer, in_item = score_gradients(geometry, kind, u, v)
    check_gradient(geometry, lambda point: score(geometry, kind, point, v), u, in_customer, seed)
    check_gradient(geometry, lambda point: score(geometry, kind, u, point), v, in_item, seed)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_coinciding_points_give_no_direction(geometry: Geometry) -> None:
    u, far = some_points(geometry, 2, 0)
    both = np.stack([u, far])
    assert coincide(geometry, "distance", u, both).tolist() == [True, False]
    assert coincide(geometry, "inner", u, both).tolist() == [False, False]
    for gradients in score_gradients(geometry, "distance", u, both):
        assert (gradients[0] == 0).all()
        assert (gradients[1] != 0).any()
    in_customer, in_item = score_gradients(geometry, "inner", u, both)
    assert in_customer.tolist() == both.tolist()
    assert in_item.tolist() == [u.tolist(), u.tolist()]


def test_bpr_by_hand() -> None:
    value, derivatives = loss("bpr", np.array([1.0, 1 + log(3), 1 - log(3)]))
    assert value == pytest.approx((log(1 + 3) + log(1 + 1 / 3)) / 2)
    assert derivatives == pytest.approx([-(3 / 4 + 1 / 4) / 2, 3 / 4 / 2, 1 / 4 / 2])


def test_wmrb_by_hand() -> None:
    value, derivatives = loss("wmrb", np.array([1.0, 1.5, -2.0, 0.5]), margin=1.0)
    assert value == pytest.approx(log(1 + 1.5 + 0.5))
    assert derivatives == pytest.approx([-2 / 3, 1 / 3, 0, 1 / 3])


def test_softmax_by_hand() -> None:
    value, derivatives = loss("softmax", np.array([1.0, 1 + log(2), 1 + log(3)]))
    assert value == pytest.approx(-log(1 / (1 + 2 + 3)))
    assert derivatives == pytest.approx([-5 / 6, 2 / 6, 3 / 6])


@pytest.mark.parametrize("name", LOSSES)
def test_without_negatives_there_is_nothing_to_lose(name: LossName) -> None:
    value, derivatives = loss(name, np.array([3.0]))
    assert value == 0
    assert derivatives.tolist() == [0]


@pytest.mark.parametrize("name", LOSSES)
def test_large_gaps_stay_finite(name: LossName) -> None:
    for target in (-1e4, 1e4):
        value, derivatives = loss(name, np.array([target, 0.0, 1.0]), scale=10.0)
        assert np.isfinite(value)
        assert np.isfinite(derivatives).all()


@pytest.mark.parametrize("name", LOSSES)
@given(seed=SEEDS)
def test_loss_derivatives_equal_differences(name: LossName, seed: int) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(size=6)
    options = {"scale": random.uniform(0.5, 3), "margin": random.uniform(0, 2), "weight": random.uniform(0.5, 2)}
    _, derivatives = loss(name, scores, **options)
    for place in range(len(scores)):
        shift = np.zeros(6)
        shift[place] = 1e-6
        slope = (loss(name, scores + shift, **options)[0] - loss(name, scores - shift, **options)[0]) / 2e-6
        # near a kink of WMRB the slope of a difference is between those of its sides
        slack = options["weight"] * options["scale"] if name == "wmrb" and near_a_kink(scores, options) else 0
        assert derivatives[place] == pytest.approx(slope, rel=1e-5, abs=1e-5 + slack)


def near_a_kink(scores: FloatArray, options: dict[str, float]) -> bool:
    gaps = options["margin"] + options["scale"] * (scores[1:] - scores[0])
    return bool((np.abs(gaps) < 1e-4).any())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_the_whole_chain_equals_differences(name: LossName, geometry: Geometry, kind: ScoreKind, seed: int) -> None:
    """From the customer's point to the loss: the chain rule as the kernels apply it."""
    customer, *rest = some_points(geometry, 5, seed)
    items = np.stack(rest)

    def whole(point: FloatArray) -> FloatArray:
        return np.asarray(loss(name, score(geometry, kind, point, items), margin=50.0)[0])

    _, derivatives = loss(name, score(geometry, kind, customer, items), margin=50.0)
    in_customer, _ = score_gradients(geometry, kind, customer, items)
    check_gradient(geometry, whole, customer, derivatives @ in_customer, seed)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(seed=SEEDS)
def test_penalty_gradient_equals_differences(geometry: Geometry, seed: int) -> None:
    (point,) = some_points(geometry, 1, seed)
    value, gradient = penalty(geometry, 0.5, point)
    radius = np.arccosh(point[0]) if geometry == "hyperboloid" else np.linalg.norm(point)
    assert value == pytest.approx(0.5 * radius**2)
    check_gradient(geometry, lambda at: penalty(geometry, 0.5, at)[0], point, gradient, seed)
