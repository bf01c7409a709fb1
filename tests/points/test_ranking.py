"""Ranking against hand-made numbers and against a full sort."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import cosh, sinh
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from lorentzrec.base.threads import SINGLE_THREADED_BLAS
from lorentzrec.geometry import FloatArray
from lorentzrec.model.recommendations import Recommendations
from lorentzrec.points import points as points_module
from lorentzrec.points import scoring
from lorentzrec.points.space import Space
from tests.points.hand_made_points import make_ranker

Geometry = Literal["hyperboloid", "euclidean"]
Score = Literal["inner", "distance"]
COMBINATIONS: list[tuple[Geometry, Score]] = [
    ("hyperboloid", "inner"),
    ("hyperboloid", "distance"),
    ("euclidean", "inner"),
    ("euclidean", "distance"),
]


def line(*places: float) -> NDArray[np.float32]:
    """Points of the hyperbolic line at signed distances from the origin."""
    return np.array([[cosh(place), sinh(place)] for place in places], np.float32)


def random_points(seed: int, count: int, geometry: Geometry, dimension: int = 6) -> NDArray[np.float32]:
    space = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    if geometry == "euclidean":
        return space
    return np.concatenate([np.sqrt(1 + (space**2).sum(axis=1, keepdims=True)), space], axis=1)


def slow_scores(query: FloatArray, items: NDArray[np.float32], geometry: Geometry, score: Score) -> list[float]:
    """The definitions, one item at a time."""
    expected = []
    for item in items.astype(np.float64):
        product = float(query[1:] @ item[1:] - query[0] * item[0])
        if geometry == "hyperboloid":
            expected.append(product if score == "inner" else -float(np.arccosh(max(-product, 1.0))))
        else:
            expected.append(float(query @ item) if score == "inner" else -float(np.sqrt(((query - item) ** 2).sum())))
    return expected


def test_recency_weighs_the_newest_one() -> None:
    half = Space("euclidean", "inner", 0.5)
    assert half.recency_weights(3).tolist() == [1 / 4, 1 / 2, 1]
    assert half.recency_weights(3, np.array([2, 1, 3])).tolist() == [2 / 4, 1 / 2, 3]
    assert Space("euclidean", "inner").recency_weights(4).tolist() == [1, 1, 1, 1]
    assert half.recency_weights(0).tolist() == []


def test_query_of_a_hyperbolic_history() -> None:
    ranker = make_ranker(line(1, 2, 5), geometry="hyperboloid", score="inner")
    # Half-way on the line, in either order.
    assert ranker.query(np.array([0, 2])) == pytest.approx([cosh(3), sinh(3)], rel=1e-6)
    assert ranker.query(np.array([1])) == pytest.approx([cosh(2), sinh(2)], rel=1e-6)
    # Weights a and b pull equally: a sinh(p - 1) = b sinh(5 - p). Here a = 6 * 1/2 by recency and b = 1.
    recent = make_ranker(line(1, 2, 5), geometry="hyperboloid", score="inner", recency=0.5)
    time, space = recent.query(np.array([0, 2]), np.array([6.0, 1.0]))
    place = float(np.arcsinh(space))
    assert time == pytest.approx(cosh(place))
    assert 3 * sinh(place - 1) == pytest.approx(sinh(5 - place), rel=1e-5)


def test_query_of_a_flat_history() -> None:
    points = np.array([[0, 0], [4, 8]], np.float32)
    ranker = make_ranker(points, geometry="euclidean", score="inner", recency=0.5)
    # Weights 1/2 and 1: (0 / 2 + 4) / (3 / 2), and with event weights 2 and 3: 3 * 4 / (1 + 3).
    assert ranker.query(np.array([0, 1])).tolist() == pytest.approx([4 / (3 / 2), 8 / (3 / 2)])
    assert ranker.query(np.array([0, 1]), np.array([2, 3])).tolist() == [12 / 4, 24 / 4]


def test_histories_are_made_of_history_points() -> None:
    ranker = make_ranker(line(1, 2), line(-3, 4), geometry="hyperboloid", score="distance")
    assert ranker.query(np.array([0])) == pytest.approx([cosh(-3), sinh(-3)], rel=1e-6)
    rows, scores = ranker.top(ranker.query(np.array([0])), 2)
    assert rows.tolist() == [0, 1]
    assert scores.tolist() == pytest.approx([-4, -5], rel=1e-6)


def test_scores_by_hand() -> None:
    query, rows = np.array([cosh(1), sinh(1)]), np.arange(3)
    items = line(-1, 1, 1.5)
    hyperbolic = make_ranker(items, geometry="hyperboloid", score="distance").points.scorer.exact_scores(query, rows)
    assert hyperbolic.tolist() == pytest.approx([-2, 0, -1 / 2], abs=1e-6)
    inner = make_ranker(items, geometry="hyperboloid", score="inner").points.scorer.exact_scores(query, rows)
    assert inner.tolist() == pytest.approx([-cosh(2), -1, -cosh(1 / 2)], rel=1e-6)
    flat = np.array([[3, 4], [0, 0]], np.float32)
    by_product = make_ranker(flat, geometry="euclidean", score="inner").points.scorer
    assert by_product.exact_scores(np.array([1.0, 2.0]), rows[:2]).tolist() == [11, 0]
    by_distance = make_ranker(flat, geometry="euclidean", score="distance").points.scorer
    assert by_distance.exact_scores(np.zeros(2), rows[:2]).tolist() == [-5, 0]


@pytest.mark.parametrize(("geometry", "score"), COMBINATIONS)
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 60), st.data())
def test_top_is_a_sort_by_the_definition(
    geometry: Geometry, score: Score, seed: int, k: int, data: st.DataObject
) -> None:
    items = random_points(seed, 50, geometry)
    rows = st.lists(st.integers(0, 49), max_size=40)
    excluded = np.array(data.draw(rows), np.int64)
    allowed = data.draw(st.none() | rows.map(lambda values: np.array(values, np.int64)))
    ranker = make_ranker(items, geometry=geometry, score=score, recency=0.7)
    query = ranker.query(np.array([3, 1, 4]))
    slow = slow_scores(query, items, geometry, score)
    left = set(range(50) if allowed is None else allowed.tolist()) - set(excluded.tolist())
    expected = sorted(left, key=lambda row: (-slow[row], row))[:k]
    found, scores = ranker.top(query, k, excluded, allowed)
    assert found.tolist() == expected
    assert scores == pytest.approx([slow[row] for row in expected], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("geometry", "score"), COMBINATIONS)
def test_linear_scores_have_the_order_of_the_scores(geometry: Geometry, score: Score) -> None:
    items = random_points(5, 200, geometry)
    ranker = make_ranker(items, geometry=geometry, score=score)
    queries = np.stack([ranker.query(np.array([row, row + 1, row + 2])) for row in range(20)])
    linear = ranker.points.scorer.linear_scores(queries)
    assert linear.shape == (20, 200)
    assert linear.dtype == np.float32
    for query, row in zip(queries, linear, strict=True):
        exact = ranker.points.scorer.exact_scores(query, np.arange(200))
        assert np.argsort(-row).tolist() == np.argsort(-exact).tolist()
        assert ranker.points.scorer.linear_scores(query[None])[0] == pytest.approx(row, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("score", ["inner", "distance"])
def test_near_points_far_out_keep_their_order(score: Score) -> None:
    # Fifty neighbours five units from the origin, 1/1000 apart across: <u, v> in float32 cannot separate them.
    angles = np.arange(1, 51) / 1000 / sinh(5)
    space = sinh(5) * np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    items = np.concatenate([np.sqrt(1 + (space**2).sum(axis=1, keepdims=True)), space], axis=1)[::-1].copy()
    ranker = make_ranker(items, geometry="hyperboloid", score=score)
    query = np.array([cosh(5), sinh(5), 0.0])
    linear = ranker.points.scorer.linear_scores(query[None])[0]
    assert np.argsort(-linear, kind="stable").tolist() != list(range(49, -1, -1))
    for k in range(1, 51):
        assert ranker.top(query, k)[0].tolist() == list(range(49, 49 - k, -1))
    if score == "distance":
        assert ranker.top(query, 10)[1] == pytest.approx(-np.arange(1, 11) / 1000, rel=0.02)


@pytest.mark.parametrize(("geometry", "score"), COMBINATIONS)
def test_many_queries_get_the_answers_of_one(geometry: Geometry, score: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    items = random_points(7, 300, geometry)
    items[100:200] = items[:100]  # ties between rows in different blocks of the product
    ranker = make_ranker(items, geometry=geometry, score=score)
    generator = np.random.default_rng(7)
    queries = np.stack([ranker.query(generator.integers(0, 300, 4)) for _ in range(23)])
    excluded = [generator.integers(0, 300, 5) for _ in range(22)] + [None]
    allowed = np.arange(0, 300, 2)
    for block_bytes, threads in ((1, 2), (4 * 300 * 5, 2), (4 * 300 * 5, 1), (2**24, None)):
        monkeypatch.setattr(scoring, "BLOCK_BYTES", block_bytes)
        many = ranker.top_many(queries, 8, excluded, allowed, threads)
        for query, out, (rows, scores) in zip(queries, excluded, many, strict=True):
            one_rows, one_scores = ranker.points.scorer.top(query, 8, out, allowed)
            assert rows.tolist() == one_rows.tolist()
            assert scores.tolist() == one_scores.tolist()


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("block_bytes", [1, 2**10, 2**24])
def test_many_histories_get_the_queries_of_one(
    geometry: Geometry, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(9)
    ranker = make_ranker(random_points(9, 50, geometry), geometry=geometry, score="inner", recency=0.8)
    lengths = generator.integers(1, 9, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows, weights = generator.integers(0, 50, offsets[-1]), generator.uniform(0.5, 2, offsets[-1])
    monkeypatch.setattr(points_module, "BLOCK_BYTES", block_bytes)
    for event_weights in (None, weights):
        expected = [
            ranker.query(rows[start:end], None if event_weights is None else event_weights[start:end])
            for start, end in pairwise(offsets)
        ]
        np.testing.assert_allclose(ranker.points.queries(rows, offsets, event_weights), expected, rtol=1e-12)
    assert ranker.points.queries(rows[:0], offsets[:1]).shape == (0, ranker.points.item_points.shape[1])


def test_equal_points_come_in_the_order_of_their_rows() -> None:
    ranker = make_ranker(line(*[1.0] * 40), geometry="hyperboloid", score="distance")
    rows, scores = ranker.top(np.array([cosh(2), sinh(2)]), 3, np.array([1]))
    assert rows.tolist() == [0, 2, 3]
    assert scores.tolist() == pytest.approx([-1, -1, -1], rel=1e-6)


def test_nothing_left_and_nobody_asking() -> None:
    ranker = make_ranker(line(1, 2), geometry="hyperboloid", score="inner")
    rows, scores = ranker.top(np.array([1.0, 0.0]), 5, np.array([0, 1]))
    assert (rows.tolist(), scores.tolist()) == ([], [])
    assert ranker.top(np.array([1.0, 0.0]), 5)[0].tolist() == [0, 1]
    assert ranker.top_many(np.empty((0, 2)), 5, []) == []


def blas_threads() -> set[int]:
    """Of the libraries with one limit for all threads: faiss brings one with OpenMP, where each thread has its own."""
    libraries = threadpool_info()
    return {library["num_threads"] for library in libraries if library.get("threading_layer") == "pthreads"}


def test_any_thread_can_hold_blas_to_one_and_any_other_can_let_it_go() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for first, last in ((one, other), (other, one)):
            before = blas_threads()
            with threadpool_limits(3, "blas"):
                first.submit(SINGLE_THREADED_BLAS.__enter__).result()
                assert blas_threads() == {1}
                last.submit(SINGLE_THREADED_BLAS.__exit__).result()
                assert blas_threads() == {3}
            assert blas_threads() == before


def test_threads_of_blas_are_given_back_by_the_last_who_ranks() -> None:
    with threadpool_limits(2, "blas"):
        with SINGLE_THREADED_BLAS:
            with SINGLE_THREADED_BLAS:
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        ranker = make_ranker(line(1, 2), geometry="hyperboloid", score="inner")
        ranker.top_many(np.array([[1.0, 0.0]] * 4), 1, [None] * 4, threads=2)
        ranker.top(np.array([1.0, 0.0]), 1)
        assert blas_threads() == {2}


def test_recommendations_read_as_pairs() -> None:
    result = Recommendations(["a", "b"], np.array([0.5, 0.25], np.float32))
    assert list(result) == [("a", 0.5), ("b", 0.25)]
    assert len(result) == 2
    assert result.fallback is None


@pytest.mark.parametrize(("geometry", "score"), COMBINATIONS)
def test_few_allowed_items_are_ranked_as_among_all(geometry: Geometry, score: Score) -> None:
    ranker = make_ranker(random_points(5, 300, geometry), geometry=geometry, score=score)
    query = ranker.query(np.array([1, 2, 3]))
    allowed, excluded = np.array([7, 299, 41, 7, 150, 3, 222, 41]), np.array([3, 150, 9])
    rows, scores = ranker.top(query, 3, excluded, allowed)
    expected = slow_scores(query, ranker.points.item_points, geometry, score)
    assert rows.tolist() == sorted([7, 41, 222, 299], key=lambda row: -expected[row])[:3]
    assert scores == pytest.approx([expected[row] for row in rows], rel=1e-5)
    assert sorted(ranker.top(query, 10, allowed=allowed)[0].tolist()) == [3, 7, 41, 150, 222, 299]
    assert len(ranker.top(query, 3, allowed, allowed)[0]) == 0


def test_many_threads_rank_at_once() -> None:
    """A product through BLAS, its threads limited for each query, hung here."""
    ranker = make_ranker(random_points(3, 20_000, "hyperboloid", 50), geometry="hyperboloid", score="distance")
    queries = [ranker.query(np.arange(start, start + 3)) for start in range(8)]
    alone = [ranker.top(query, 10)[0] for query in queries]
    with ThreadPoolExecutor(48) as pool:
        together = pool.map(lambda turn: ranker.top(queries[turn % 8], 10)[0], range(2000), timeout=120)
        assert all(np.array_equal(rows, alone[turn % 8]) for turn, rows in enumerate(together))
