"""Dislikes push a midpoint away, and leave a sum that has one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import distance, minkowski_squared_norm
from lorentzrec.geometry.repulsion import find_flat_share, find_share
from lorentzrec.points.space import Space
from tests.geometry.hyperbolic_points import points, polar_point, vectors
from tests.reference.repulsion import find_query

COUNT = 5
HYPERBOLOID, FLAT = Space("hyperboloid", "inner"), Space("euclidean", "inner")
SIGNED = arrays(np.float64, COUNT, elements=st.floats(0.05, 3) | st.floats(-3, -0.05)).filter(lambda w: w.max() > 0)
NEAR = points(COUNT, radius=3.0)


def split(batch: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.maximum(weights, 0) @ batch, np.maximum(-weights, 0) @ batch


@given(NEAR, SIGNED)
def test_midpoint_with_dislikes_equals_the_reference(batch: FloatArray, weights: FloatArray) -> None:
    assert_allclose(HYPERBOLOID.midpoint(batch, weights), find_query(batch, weights, hyperbolic=True), atol=1e-6)


@given(vectors(COUNT, 3, 3.0), SIGNED)
def test_flat_midpoint_with_dislikes_equals_the_reference(batch: FloatArray, weights: FloatArray) -> None:
    assert_allclose(FLAT.midpoint(batch, weights), find_query(batch, weights, hyperbolic=False), atol=1e-9)


@given(points(COUNT, radius=6.0), SIGNED.map(lambda w: np.where(w < 0, 1e6 * w, w)))
def test_the_sum_stays_time_like_however_much_is_disliked(batch: FloatArray, weights: FloatArray) -> None:
    liked, disliked = split(batch, weights)
    total = liked - find_share(liked, disliked) * disliked
    left = -minkowski_squared_norm(total) / -minkowski_squared_norm(liked)
    assert left >= 1 / 4 - 1e-3
    assert total[0] > 0


@given(NEAR, SIGNED)
def test_the_midpoint_moves_away_and_by_log_two_at_most(batch: FloatArray, weights: FloatArray) -> None:
    liked = HYPERBOLOID.midpoint(batch, np.maximum(weights, 0))
    pushed = HYPERBOLOID.midpoint(batch, weights)
    assert distance(liked, pushed) <= np.log(2) + 1e-6
    if weights.min() < 0:
        disliked = HYPERBOLOID.midpoint(batch, np.maximum(-weights, 0))
        assert distance(disliked, pushed) >= distance(disliked, liked) - 1e-6


@given(vectors(COUNT, 3, 3.0), SIGNED)
def test_the_flat_midpoint_moves_away_and_by_their_distance_at_most(batch: FloatArray, weights: FloatArray) -> None:
    if weights.min() > 0:
        return
    liked = FLAT.midpoint(batch, np.maximum(weights, 0))
    disliked = FLAT.midpoint(batch, np.maximum(-weights, 0))
    away = FLAT.midpoint(batch, weights) - liked
    gap = liked - disliked
    assert np.linalg.norm(away) <= np.linalg.norm(gap) + 1e-9
    assert away @ gap >= -1e-9


def test_one_dislike_by_hand() -> None:
    """On a line: the items 0 and 1, of which the second is disliked a quarter as much, and as much, as the first is
    liked."""
    line = np.array([[0.0], [1.0]])
    assert FLAT.midpoint(line, np.array([1.0, -0.25])).tolist() == [pytest.approx(-1 / 3)]  # -1/4 / (3/4)
    assert FLAT.midpoint(line, np.array([1.0, -1.0])).tolist() == [-1.0]  # -1/2 / (1/2)
    # Next to each other, points of the hyperboloid are like those of a line.
    sheet = polar_point(np.array([0.0, 1e-3]), np.ones((2, 1)))
    assert HYPERBOLOID.midpoint(sheet, np.array([1.0, -1.0]))[1] == pytest.approx(-1e-3, rel=1e-5)


def test_without_dislikes_nothing_is_taken_away() -> None:
    total = np.array([[2.0, 1.0, 0.0]])
    assert find_share(total, np.zeros((1, 3))).tolist() == [0]
    assert find_flat_share(np.array([2.0]), np.zeros(1)).tolist() == [0]
