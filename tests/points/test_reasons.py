"""Shares of a history in a recommended item, by hand."""

from __future__ import annotations

from math import cosh, sinh
from typing import Literal

import numpy as np
import pytest

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.points.points import History
from lorentzrec.points.reasons import find_shares
from tests.points.hand_made_points import make_ranker
from tests.serving.small_shop import shop_points


def test_flat_inner_product_by_hand() -> None:
    """Items 2, -1 and -1 on a line have their centre at 0. With recency 1/2 the history 2, -1 has weights 1/2 and 1."""
    points = np.array([[2.0], [-1.0], [-1.0]], np.float32)
    ranker = make_ranker(points, geometry="euclidean", score="inner", recency=0.5)
    distinct, shares, *_ = find_shares(ranker, History(np.array([0, 1, 2])), np.array([0, 1]))
    assert distinct.tolist() == [0, 1, 2]
    # pulls on item 0: 1/4 * 2 * 2, 1/2 * -1 * 2 and 1 * -1 * 2; on item 1: 1/4 * 2 * -1, 1/2 * 1 and 1 * 1
    assert shares.tolist() == [[1, 0, 0], [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]]


def test_flat_distance_by_hand() -> None:
    """Centre 0; pull = w (|x - c|^2 - |x - v|^2) / 2 on v = 3, for x = 3 and x = 1 with weight 1: 9/2 and (1 - 4)/2."""
    points = np.array([[3.0], [1.0], [2.0], [-6.0]], np.float32)
    ranker = make_ranker(points, geometry="euclidean", score="distance")
    assert find_shares(ranker, History(np.array([0, 1])), np.array([0]))[1].tolist() == [[1, 0]]
    # on v = 2: (9 - 1)/2 = 4 for x = 3 and (1 - 1)/2 = 0 for x = 1; on v = 1: (9 - 4)/2 = 5/2 and 1/2
    shares = find_shares(ranker, History(np.array([1, 0])), np.array([2, 1]))[1]
    assert shares.tolist() == [[1, 0], [pytest.approx(5 / 6), pytest.approx(1 / 6)]]


def test_hyperbolic_line_by_hand() -> None:
    """Points at -2, 0 and 2 have their centre at 0, so the pull of x on v is w (cosh(x - 0) - cosh(x - v))."""
    points = np.array([[cosh(place), sinh(place)] for place in (-2, 0, 2, 1, -1)], np.float32)
    ranker = make_ranker(points, geometry="hyperboloid", score="distance", recency=0.5)
    near, here = 0.5 * (cosh(1) - cosh(0)), cosh(2) - cosh(1)
    distinct, shares, *_ = find_shares(ranker, History(np.array([3, 2])), np.array([3]))
    assert distinct.tolist() == [2, 3]
    assert shares[0] == pytest.approx([here / (here + near), near / (here + near)], rel=1e-5)
    # an item on the other side pulls away, and one at the centre pulls nothing
    assert find_shares(ranker, History(np.array([0, 1])), np.array([3]))[1].tolist() == [[0, 0]]


def test_repeated_items_add_up() -> None:
    ranker = make_ranker(shop_points(20, "hyperboloid", 1), geometry="hyperboloid", score="inner")
    distinct, shares, *_ = find_shares(ranker, History(np.array([4, 7, 4, 7, 7])), np.arange(20))
    assert distinct.tolist() == [4, 7]
    alone = find_shares(ranker, History(np.array([4, 7])), np.arange(20))[1]
    odds = np.where(alone > 0, alone * [2, 3], 0)
    total = odds.sum(axis=1, keepdims=True)
    assert shares == pytest.approx(np.divide(odds, total, out=np.zeros_like(odds), where=total > 0))


@pytest.mark.parametrize(
    ("geometry", "score"), [("hyperboloid", "inner"), ("euclidean", "inner"), ("euclidean", "distance")]
)
def test_pulls_add_up_to_the_preference_of_the_query(
    geometry: Literal["hyperboloid", "euclidean"], score: Literal["inner", "distance"]
) -> None:
    """Pulls written out from their definition: the shares are theirs, and their sum is what the query prefers v by."""
    points = shop_points(40, geometry, 2)
    ranker = make_ranker(points, geometry=geometry, score=score, recency=0.7)
    precise = ranker.points.space.precise(points)
    hyperbolic = geometry == "hyperboloid"
    centre = einstein_midpoint(precise) if hyperbolic else precise.mean(axis=0)

    def closeness(x: FloatArray, v: FloatArray) -> float:
        if hyperbolic:
            return float(x[1:] @ v[1:] - x[0] * v[0])
        return float(x @ v) if score == "inner" else -float((x - v) @ (x - v)) / 2

    history = np.array([3, 9, 5])
    weights, compared = [0.49, 0.7, 1.0], 0
    for item in range(40):
        pulls = [
            weight * (closeness(precise[row], precise[item]) - closeness(precise[row], centre))
            for weight, row in zip(weights, history, strict=True)
        ]
        positive = [max(pull, 0) for pull in pulls]
        if sum(positive) > 0:
            compared += 1
            distinct, shares, *_ = find_shares(ranker, History(history), np.array([item]))
            found = dict(zip(distinct.tolist(), shares[0].tolist(), strict=True))
            expected = [pull / sum(positive) for pull in positive]
            assert [found[row] for row in history.tolist()] == pytest.approx(expected)
        query = ranker.query(history)
        scale = _length(precise[history], weights) if hyperbolic else sum(weights)
        assert sum(pulls) == pytest.approx(scale * (closeness(query, precise[item]) - closeness(query, centre)))
    assert compared > 10


def _length(points: FloatArray, weights: list[float]) -> float:
    total = np.array(weights) @ points
    return float(np.sqrt(total[0] ** 2 - total[1:] @ total[1:]))
