"""Dislikes in histories: the query, what is excluded, what takes them back, and many histories at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.learning.trainer import train
from lorentzrec.points.dislikes import find_taken_back, settle
from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.points.points import History, Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.recommending import RowOptions, RowQuery, recommend_rows
from lorentzrec.points.repeats import Repeats
from lorentzrec.points.space import Space
from tests.reference.repulsion import find_query

ROWS = np.array([3, 8, 3, 20, 11])
WEIGHTS = np.array([1.0, -1.0, 2.0, -0.5, 1.0])
GEOMETRIES = pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])


def make_shop(geometry: Any, **parts: Any) -> Points:
    space = np.random.default_rng(5).normal(size=(30, 3)).astype(np.float32)
    time = np.sqrt(1 + (space**2).sum(axis=1, keepdims=True))
    points = np.concatenate([time, space], axis=1) if geometry == "hyperboloid" else space
    return Points(points, points, np.arange(30)[::-1].copy(), Space(geometry, "distance", 0.8), **parts)


@GEOMETRIES
def test_query_equals_the_reference(geometry: Any) -> None:
    points = make_shop(geometry)
    weights = WEIGHTS * 0.8 ** np.arange(5)[::-1]
    expected = find_query(points.precise_histories(ROWS), weights, hyperbolic=geometry == "hyperboloid")
    np.testing.assert_allclose(points.query(ROWS, WEIGHTS), expected, rtol=1e-9)
    offsets = np.array([0, 5, 7, 8])
    many = points.queries(np.append(ROWS, [1, 2, 9]), offsets, np.append(WEIGHTS, [1.0, 1.0, 2.0]))
    np.testing.assert_allclose(many[0], expected, rtol=1e-9)
    np.testing.assert_allclose(many[1], points.query(np.array([1, 2])), rtol=1e-6)
    np.testing.assert_allclose(many[2], points.query(np.array([9])), rtol=1e-6)


@GEOMETRIES
def test_lists_are_those_of_the_query_without_what_is_disliked(geometry: Any) -> None:
    points = make_shop(geometry, repeats=Repeats(np.ones(30, np.float32), 0.5))
    ranker = Ranker(points)
    asked = [RowQuery(ROWS, WEIGHTS), RowQuery(np.array([4]))]
    both = recommend_rows(ranker, asked, RowOptions(k=30))
    alone = recommend_rows(ranker, asked[:1], RowOptions(k=30))[0]
    assert both[0].rows.tolist() == alone.rows.tolist()
    assert {8, 20}.isdisjoint(alone.rows.tolist())
    assert len(alone.rows) == 28, "what was bought may be bought again"
    liked = History(ROWS, WEIGHTS).liked
    expected = ranker.top(points.query(ROWS, WEIGHTS), 30, np.array([8, 20]), None, liked)
    assert alone.rows.tolist() == expected[0].tolist()
    assert alone.fallbacks == ()
    assert recommend_rows(ranker, asked[:1], RowOptions(k=30, exclude_seen=False))[0].rows.tolist() == [*alone.rows]


@GEOMETRIES
def test_lists_turn_away_from_what_is_disliked(geometry: Any) -> None:
    ranker = Ranker(make_shop(geometry))

    def mean_distance(liked: int, disliked: int, weight: float) -> float:
        """Of five items from the disliked one, which is excluded in any case."""
        query = RowQuery(np.array([liked, disliked]), np.array([1.0, -weight]))
        if weight == 0:
            query = RowQuery(np.array([liked]))
        found = recommend_rows(ranker, [query], RowOptions(k=5, excluded=np.array([disliked])))[0].rows
        point, *others = ranker.precise_items(np.append(disliked, found))
        return float(np.mean(ranker.points.space.distance(point, np.array(others))))

    pairs = [(liked, disliked) for liked in range(8) for disliked in range(8) if liked != disliked]
    without, little, much = (np.mean([mean_distance(*pair, weight) for pair in pairs]) for weight in (0, 0.2, 1.0))
    assert without < little < much


def test_nothing_but_dislikes_are_popular_items_without_them() -> None:
    ranker = Ranker(make_shop("hyperboloid"))
    found = recommend_rows(ranker, [RowQuery(np.array([0, 2, -1]), -np.ones(3))], RowOptions(k=3))[0]
    assert found.rows.tolist() == [1, 3, 4]
    assert [one.kind for one in found.fallbacks] == [FallbackKind.POPULAR, FallbackKind.PARTIAL]
    assert str(found.fallbacks[0]) == (
        "popular: the customer likes nothing of the history, and what they dislike is left out"
    )


def test_reasons_are_what_is_liked() -> None:
    ranker = Ranker(make_shop("hyperboloid"))
    found = recommend_rows(ranker, [RowQuery(ROWS, WEIGHTS)], RowOptions(k=20, reasons=True))[0]
    assert found.reasons is not None
    given = {reason.row for reasons in found.reasons for reason in reasons}
    assert given == {3, 11}


def test_a_later_event_takes_a_dislike_back() -> None:
    items, weights = np.array([5, 5, 6, 6, 7]), np.array([-1.0, 1.0, 1.0, -1.0, -1.0])
    assert find_taken_back(items, weights).tolist() == [True, False, False, False, False]
    looked_at = np.array([1.0, np.nan, 2.0, 3.0, 4.0])
    assert not find_taken_back(items, weights, looked_at).any(), "to look at an item is not to like it"
    owners = np.array([0, 1, 1, 1, 1])
    assert not find_taken_back(items, weights, owners=owners).any(), "somebody else likes it"
    settled = settle(History(items, weights))
    assert settled.items.tolist() == [5, 6, 6, 7]
    assert settled.disliked.tolist() == [6, 7]
    assert settled.liked.items.tolist() == [5, 6]


def test_training_refuses_dislikes() -> None:
    data = Interactions.from_pairs(["a", "a", "b", "b"], ["x", "y", "y", "z"], times=[1, 2, 3, 4])
    with pytest.raises(InputError, match="dislikes, and nothing is learned from them: leave them out"):
        train(replace(data, weights=np.array([1, -1, 1, 1], np.float32)), progress=False)
    with pytest.raises(InputError, match=r"weight of event 2 is 0\.0: weights are finite and not 0"):
        replace(data, weights=np.array([1, 0, 1, 1], np.float32))
