"""Maximal marginal relevance against a slow twin, and at its two ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.points.diversity import diversify, pool_size
from tests.points.hand_made_points import make_ranker
from tests.serving.small_shop import shop_points


def slow_choice(distances: list[list[float]], scores: list[float], k: int, diversity: float) -> list[int]:
    """The definition, one candidate at a time."""
    least, greatest, reach = min(scores), max(scores), max(distances[0])
    chosen = [0]
    while len(chosen) < min(k, len(scores)):
        left = [place for place in range(len(scores)) if place not in chosen]
        values = [
            (1 - diversity) * ((scores[place] - least) / (greatest - least) if greatest > least else 0)
            + diversity * (min(distances[place][other] for other in chosen) / reach if reach else 0)
            for place in left
        ]
        chosen.append(left[values.index(max(values))])
    return chosen


@given(
    st.sampled_from(["hyperboloid", "euclidean"]),
    st.integers(1, 25),
    st.integers(1, 30),
    st.floats(0, 1),
    st.integers(0, 1000),
)
def test_against_the_slow_twin(geometry: str, count: int, k: int, diversity: float, seed: int) -> None:
    points = shop_points(30, geometry, seed)
    ranker = make_ranker(points, geometry=geometry, score="distance")
    rows, scores = ranker.top(ranker.query(np.array([seed % 30])), count)
    precise = ranker.points.space.precise(points)[rows]
    distances = [(-ranker.points.scorer.exact_scores(point, rows)).tolist() for point in precise]
    expected = slow_choice(distances, scores.tolist(), k, diversity)
    assert diversify(ranker, rows, scores, k, diversity).tolist() == expected


def test_by_hand() -> None:
    """On a line: the best at 0, its copy at 0.1, another at 3, and the farthest at 5; query at 0."""
    places = np.array([[0.0], [0.1], [3.0], [5.0]], np.float32)
    ranker = make_ranker(places, geometry="euclidean", score="distance")
    rows, scores = ranker.top(np.zeros(1), 4)
    assert diversify(ranker, rows, scores, 4, 0).tolist() == [0, 1, 2, 3]
    # r = 1, 49/50, 2/5, 0. At 1/2 all are equal: 49/100 + 1/100, 1/5 + 3/10 and 0 + 1/2. Less prefers the best ...
    assert diversify(ranker, rows, scores, 2, 0.49).tolist() == [0, 1]
    # ... and a little more diversity prefers the farthest.
    assert diversify(ranker, rows, scores, 2, 0.51).tolist() == [0, 3]
    assert diversify(ranker, rows, scores, 3, 1).tolist() == [0, 3, 2]


@pytest.mark.parametrize(
    ("k", "diversity", "size"), [(10, 0, 10), (10, 0.1, 50), (300, 0.1, 1000), (1000, 1, 1000), (2000, 1, 2000)]
)
def test_the_pool(k: int, diversity: float, size: int) -> None:
    assert pool_size(k, diversity) == size


def test_nothing_to_choose_from() -> None:
    ranker = make_ranker(shop_points(3, "euclidean", 0), geometry="euclidean", score="inner")
    assert len(diversify(ranker, np.empty(0, np.int64), np.empty(0, np.float32), 5, 0.5)) == 0


def test_equal_points_and_scores_keep_their_order() -> None:
    ranker = make_ranker(np.ones((4, 2), np.float32), geometry="euclidean", score="inner")
    assert diversify(ranker, np.arange(4), np.ones(4, np.float32), 3, 0.5).tolist() == [0, 1, 2]
