"""Candidates of many customers against ranking one customer at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec import Interactions
from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.list_search import ListSearch
from lorentzrec.data.interactions import Histories
from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.points.index import build_index
from lorentzrec.points.memory import build_memory
from lorentzrec.points.native import Question
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from tests.points.hand_made_points import make_ranker

ITEMS, CUSTOMERS, K = 800, 60, 7
KINDS = [("hyperboloid", "distance"), ("hyperboloid", "inner"), ("euclidean", "distance"), ("euclidean", "inner")]
NEVER = np.array([4, 9, 30])


def random_ranker(geometry: Any, score: Any, memory: str = "none") -> Ranker:
    random = np.random.default_rng(3)
    space = random.normal(0, 1, (ITEMS, 5))
    space[20] = space[21]  # equal scores: the lower row is first
    points = (hyperboloid.lift(space) if geometry == "hyperboloid" else space).astype(np.float32)
    users, items = random.integers(0, 300, 6000), random.integers(0, ITEMS, 6000)
    data = Interactions.from_pairs(np.append(users, np.full(ITEMS, 300)), np.append(items, np.arange(ITEMS)))
    remembered = None if memory == "none" else build_memory(data, 40, ordered=memory == "ordered").with_weight(0.7)
    return make_ranker(points, geometry=geometry, score=score, recency=0.8, memory=remembered)


def random_histories(*, weighted: bool) -> tuple[list[History], NDArray[np.int64]]:
    """Some with an item twice, and one with an item that is never recommended."""
    random = np.random.default_rng(5)
    lengths = random.integers(1, 40, CUSTOMERS)
    histories = []
    for length in lengths:
        items = random.integers(0, ITEMS, length)
        items[-1] = items[0]
        histories.append(History(items, random.uniform(0.2, 3, length) if weighted else None))
    histories[0].items[0] = NEVER[0]
    return histories, np.append(0, np.cumsum(lengths))


def expected_of(ranker: Ranker, queries: FloatArray, histories: list[History]) -> list[Any]:
    excluded = [np.concatenate([NEVER, history.items]) for history in histories]
    return ranker.top_many(queries, K, excluded, histories=histories)


@pytest.mark.parametrize("memory", ["none", "ordered", "unordered"])
@pytest.mark.parametrize(("geometry", "score"), KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_among_all_items_the_best_are_those_of_exact_ranking(
    geometry: str, score: str, memory: str, weighted: bool
) -> None:
    ranker = random_ranker(geometry, score, memory)
    histories, offsets = random_histories(weighted=weighted)
    items = np.concatenate([history.items for history in histories])
    weights = np.concatenate([history.weights for history in histories]) if weighted else None
    queries = ranker.points.queries(items, offsets, weights)
    everything = np.tile(np.random.default_rng(0).permutation(ITEMS), (CUSTOMERS, 1))
    rows, scores = best_candidates(ranker, queries, everything, K, Histories(items, offsets, weights), NEVER)
    for found, values, (best, exact) in zip(rows, scores, expected_of(ranker, queries, histories), strict=True):
        assert found.tolist() == best.tolist()
        np.testing.assert_allclose(values, exact, rtol=1e-6)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_boosted_items_need_not_be_found(geometry: str, score: str) -> None:
    ranker = random_ranker(geometry, score, "ordered")
    histories, offsets = random_histories(weighted=False)
    items = np.concatenate([history.items for history in histories])
    queries = ranker.points.queries(items, offsets)
    # The index finds the 100 items nearest to each query.
    nearest = np.stack([ranker.top(query, 100)[0] for query in queries])
    rows, _ = best_candidates(ranker, queries, nearest, K, Histories(items, offsets, None), NEVER)
    expected = expected_of(ranker, queries, histories)
    assert all(found.tolist() == best.tolist() for found, (best, _) in zip(rows, expected, strict=True))
    assert any(np.setdiff1d(best, near).size for (best, _), near in zip(expected, nearest, strict=True))


def test_too_few_items_are_left() -> None:
    ranker = random_ranker("hyperboloid", "distance")
    histories = np.array([1, 2, 3, 4])
    queries = ranker.points.queries(histories, np.array([0, 2, 4]))
    found = np.array([[1, 2, 5, 6, -1], [5, 6, 7, 8, 9]])
    rows, scores = best_candidates(ranker, queries, found, 4, Histories(histories, np.array([0, 2, 4]), None), NEVER)
    assert (rows[0] == -1).all()
    assert (scores[0] == -np.inf).all()
    assert sorted(rows[1]) == [5, 6, 7, 8]


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_lists_are_searched_for_many_queries_as_for_one(geometry: str, score: str) -> None:
    ranker = random_ranker(geometry, score)
    histories, offsets = random_histories(weighted=False)
    queries = ranker.points.queries(np.concatenate([history.items for history in histories]), offsets)
    index = replace(build_index(ranker.points, queries), probes=20)
    found = ListSearch(index, ranker.points).search(queries, 30, 10)
    for query, ours in zip(queries, found, strict=True):
        asked = Question(30, query, lists=index.lists, probes=20, wanted=60)
        theirs = ranker.points.scorer.rank(asked)
        assert theirs is not None
        assert len(np.intersect1d(ours, theirs.rows)) >= 29  # the last one may differ by rounding
    too_many = ListSearch(index, ranker.points).search(queries[:2], ITEMS + 5, 10)
    assert (np.sort(too_many, axis=1)[:, :5] == -1).all()
