"""Masses of items: every ranking adds them, files keep them, new items and vectors for other tools have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import Interactions, Model
from lorentzrec.base.manifest import FolderKind
from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.list_search import ListSearch
from lorentzrec.batch.recommending import BatchOptions, BatchRecommender
from lorentzrec.data.arrays import Groups
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.model.artifact import load
from lorentzrec.points.files import read_points, write_points
from lorentzrec.points.index import build_index
from lorentzrec.points.placement import CustomerEvents, find_surroundings, place_new_items
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.points.trend import Trend
from lorentzrec.points.vectors import item_vectors, query_vectors
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.points.test_memory import ITEMS, slow_scores
from tests.points.test_native import KINDS, random_points
from tests.points.test_trend import DATA, history_of, model_with

MASSES = np.random.default_rng(5).normal(0, 0.7, ITEMS).astype(np.float32)


def massive(geometry: Any = "hyperboloid", score: Any = "distance") -> Model:
    """A model with memory and masses, and without a trend."""
    return model_with(geometry, score).with_points(trend=None, masses=MASSES)


def with_masses(seed: int, count: int, geometry: str, score: str, spread: float = 0.7) -> Points:
    random = np.random.default_rng(seed)
    points = random_points(seed, count, geometry, score, 8)
    counts = random.poisson(9, count).astype(np.int64)
    return replace(points, masses=random.normal(0, spread, count).astype(np.float32), item_counts=counts)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_every_ranking_is_that_of_all_scores(geometry: str, score: str, tmp_path: Path) -> None:
    model = massive(geometry, score)
    model.save(tmp_path / "model")
    write_version(tmp_path / "version", model, index=False)
    served = Recommender(open_version(tmp_path / "version"))
    users = [int(id) for id in DATA.users.ids(np.arange(20))]
    together = load(tmp_path / "model").recommend_many(users=users, k=7, threads=2, exclude_seen=False)
    batch = BatchRecommender(model, BatchOptions(k=7, exclude_seen=False)).frame(np.arange(20))["item"].to_list()
    given = DATA.histories_of(np.arange(20))
    queries = model.points.queries(*given.for_queries)
    every, live = np.arange(ITEMS), np.arange(1, ITEMS, 2)
    candidates, _ = best_candidates(model.ranker, queries, np.tile(every, (20, 1)), 7, given, exclude_seen=False)
    index = build_index(model.points, queries)
    indexed = Ranker(model.points, index=replace(index, probes=len(index.lists)))
    packed = Ranker(model.points, live=LiveSet(model.points, live))
    alone = model.with_points(memory=None).points
    searched = ListSearch(replace(index, probes=len(index.lists)), alone).search(queries, 7, 7)
    scored = model.score_histories(DATA, np.arange(20))
    for user in range(20):
        history = history_of(user)
        scores = slow_scores(model, history.items) + MASSES
        best = np.argsort(-scores, kind="stable")
        assert together[user].ids == model.items.ids(best[:7])
        np.testing.assert_allclose(together[user].scores, scores[best[:7]], rtol=1e-5, atol=1e-5)
        assert batch[7 * user : 7 * user + 7] == together[user].ids
        assert candidates[user].tolist() == best[:7].tolist()
        assert indexed.top(queries[user], 7, history=history)[0].tolist() == best[:7].tolist()
        assert packed.top(queries[user], 7, history=history)[0].tolist() == [row for row in best if row % 2][:7]
        bought = [str(item) for item in model.items.ids(history.items)]
        found = served.recommend(bought, RankingOptions(7), exclude_seen=False).items
        assert [int(item.id) for item in found] == together[user].ids
        by_points = model.points.scorer.exact_scores(queries[user], every) + MASSES
        assert set(searched[user].tolist()) == set(np.argsort(-by_points, kind="stable")[:7].tolist())
        np.testing.assert_allclose(scored[user], scores, atol=3e-3)
    similar = model.similar_items(model.items.id(3), k=5)
    assert similar.ids == model.with_points(masses=None).similar_items(model.items.id(3), k=5).ids


def test_masses_and_trend_add_up() -> None:
    model = massive()
    trend = Trend(np.arange(ITEMS, dtype=np.float32), np.full(ITEMS, 9, np.float32), 0.3, 7.0, 0.0)
    both = model.with_points(trend=trend).points
    assert trend.offsets is not None
    assert both.item_offsets == pytest.approx(MASSES + trend.offsets, rel=1e-6)
    plain, query = massive().points, both.query(np.arange(5))
    for trended, offsets in ((plain.with_trend(trend), both.item_offsets), (both.with_trend(None), MASSES)):
        expected = plain.scorer.exact_scores(query, np.arange(ITEMS)) + offsets
        ranker = Ranker(plain).with_trend(trended.trend)
        assert ranker.top(query, 5)[0].tolist() == np.argsort(-expected, kind="stable")[:5].tolist()
        assert trended.scorer.item_offsets == pytest.approx(offsets, rel=1e-6)
    assert both.take(np.array([4, 2])).item_offsets == pytest.approx(MASSES[[4, 2]])


def test_a_mass_is_no_reason() -> None:
    """What is popular by its mass is not called trending, and shares still add up to no more than 1."""
    model = massive().with_points(masses=np.linspace(0, 9, ITEMS).astype(np.float32))
    found = model.recommend(user=int(DATA.users.id(3)), reasons=True)
    assert found.reasons is not None
    for reasons in found.reasons:
        assert all(reason.kind is not ReasonKind.TRENDING for reason in reasons)
        assert sum(reason.share for reason in reasons) <= 1 + 1e-9


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_few_lists_find_what_masses_raise(geometry: str, spread: float) -> None:
    """With as many lists as its recall needs, an index finds what exact ranking finds, with large masses as well."""
    points = with_masses(4, 3000, geometry, "distance", spread)
    queries = points.queries(np.random.default_rng(4).integers(0, 3000, 1200), np.arange(0, 1201, 3))
    index = build_index(points, queries).tune(points.scorer)
    exact, indexed = Ranker(points), Ranker(points, index=index)
    shares = [len(np.intersect1d(exact.top(query, 10)[0], indexed.top(query, 10)[0])) / 10 for query in queries[:150]]
    assert np.mean(shares) > 0.99


def test_files_keep_masses_and_name_damaged_ones(tmp_path: Path) -> None:
    points = with_masses(1, 30, "hyperboloid", "distance")
    kind = FolderKind("a test", 1, "test", "make it again", {})
    entry = write_points(tmp_path, points)
    manifest = {"points": entry, "files": {"points.safetensors": "", "masses.safetensors": ""}}
    found = read_points(tmp_path, manifest, kind)
    assert found.masses is not None
    np.testing.assert_array_equal(found.masses, points.masses)
    assert not found.masses.flags.writeable
    assert points.masses is not None
    wrong = points.masses.copy()
    wrong[3] = np.nan
    write_points(tmp_path, replace(points, masses=wrong))
    with pytest.raises(Exception, match="masses of items are not finite numbers"):
        read_points(tmp_path, manifest, kind)
    with pytest.raises(InputError, match="the masses of a model are float32"):
        replace(points, masses=wrong[:7])


def test_masses_are_part_of_the_fingerprint() -> None:
    model = massive()
    assert model.fingerprint != model.with_points(masses=MASSES + 1).fingerprint
    assert model.with_points(masses=None).fingerprint == model_with().fingerprint


def test_a_new_item_has_the_mass_of_what_is_like_it() -> None:
    points = with_masses(2, 40, "hyperboloid", "distance")
    masses = points.masses
    assert masses is not None
    surroundings, usual = find_surroundings(points), float(np.median(masses))
    assert surroundings.mass == pytest.approx(usual)
    # Items 40 to 43: two events of one customer; like items 3 and 5; of category 1; one event and like item 7.
    rows = np.array([1, 40, 2, 40, 3, 43])
    histories = CustomerEvents(np.array([0, 4, 6]), rows)
    codes = np.arange(40) % 3
    like = Groups.from_lists([[], [3, 5], [], [7]])
    wanted = (np.array([UNKNOWN, UNKNOWN, 1, UNKNOWN]), codes)
    found, placed = place_new_items(points, 4, histories, surroundings, like=like, categories=wanted)
    assert placed.all()
    expected = [usual, (masses[3] + masses[5]) / 2, np.median(masses[codes == 1]), (usual + masses[7]) / 2]
    assert found.masses == pytest.approx(expected, rel=1e-5)
    without, _ = place_new_items(replace(points, masses=None), 4, histories, surroundings, like=like)
    assert without.masses is None


def test_new_items_are_ranked_with_their_masses() -> None:
    """A heavy new item is first, the same item with a small mass is last."""
    points = with_masses(3, 30, "hyperboloid", "distance")
    both = points.take(np.array([11, 11]))
    new = replace(both, masses=np.array([50, -50], np.float32))
    ranker = Ranker(points, new=NewPoints(new, np.ones(2, bool)))
    query = points.query(np.array([4, 8]))
    rows, scores = ranker.top(query, 32)
    assert (rows[0], rows[-1]) == (30, 31)
    assert scores[0] - scores[-1] == pytest.approx(100, rel=1e-5)
    joined = Points.concatenate([points, new])
    assert joined.masses is not None
    assert joined.masses.tolist() == [*points.masses.tolist(), 50, -50]  # type: ignore[union-attr]


@pytest.mark.parametrize(("geometry", "score"), KINDS)
@pytest.mark.parametrize("spread", [None, 0.2, 0.7])
def test_products_of_vectors_have_the_best_items(geometry: str, score: str, spread: float | None) -> None:
    """At least 9.9 of ten are among the first 20, or if nothing is approximate among the first ten, but for ties."""
    points = with_masses(7, 2000, geometry, score, spread or 0.0)
    points = replace(points, masses=None) if spread is None else points
    queries = points.queries(np.random.default_rng(8).integers(0, 2000, 600), np.arange(0, 601, 6))
    products = query_vectors(points, queries).astype(np.float64) @ item_vectors(points).T.astype(np.float64)
    approximate = spread is not None and score == "distance"
    shares = []
    for query, row in zip(queries, products, strict=True):
        best = points.scorer.exact_scores(query, np.arange(2000)) + (0 if points.masses is None else points.masses)
        first = np.argsort(-row)[: 20 if approximate else 11]
        shares.append(len(np.intersect1d(np.argsort(-best, kind="stable")[:10], first)))
    assert np.mean(shares) >= 9.9


def test_an_item_of_mass_0_changes_nothing() -> None:
    data: Interactions = DATA
    model = massive().with_points(masses=np.zeros(ITEMS, np.float32))
    plain = model.with_points(masses=None)
    users = [int(id) for id in data.users.ids(np.arange(10))]
    for one, other in zip(model.recommend_many(users=users), plain.recommend_many(users=users), strict=True):
        assert one.ids == other.ids
