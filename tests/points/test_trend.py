"""The trend against its slow reference: customers, every ranking, files, reasons, fallback, and its choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.list_search import ListSearch
from lorentzrec.batch.recommending import BatchOptions, BatchRecommender
from lorentzrec.data import interactions
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.learning.trainer import train
from lorentzrec.learning.trend_choice import choose_trend
from lorentzrec.model.artifact import load
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.fallbacks import Cause
from lorentzrec.points.index import build_index
from lorentzrec.points.native import Question
from lorentzrec.points.points import History
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.points.recommending import RowOptions
from lorentzrec.points.trend import SMOOTHING, Trend, find_trend
from lorentzrec.points.trending import TrendingItems, find_trending
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.points.test_memory import ITEMS, model_of, slow_scores
from tests.points.test_native import KINDS, WIDTHS, random_points
from tests.reference import trend as reference

DAY = 86_400
NOW = 1_000 * DAY


def shop(customers: int = 300, weeks: int = 10, rising: int = 5, *, seed: int = 1) -> Interactions:
    """Customers who buy two items on a day of each week. On the last eight days, half of these are few items."""
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(customers), 2 * weeks)
    days = np.repeat(random.integers(0, 7, customers * weeks) + 7 * np.tile(np.arange(weeks), customers), 2)
    items = random.integers(0, ITEMS, len(users))
    late = (days >= 7 * weeks - 8) & (random.random(len(users)) < 0.5)
    items[late] = random.integers(0, rising, late.sum())
    return Interactions.from_pairs(users, items, days * DAY)


DATA = shop()


def history_of(user: int) -> History:
    assert DATA.times is not None
    span = slice(DATA.offsets[user], DATA.offsets[user + 1])
    return History(DATA.item_rows[span].astype(np.int64), None, DATA.times[span].astype(np.float64))


def trend_of(data: Interactions, weight: float) -> Trend:
    found = find_trend(data, 7, NOW)
    assert found is not None
    return replace(found, weight=weight)


def model_with(geometry: Any = "hyperboloid", score: Any = "distance", weight: float = 0.5) -> Model:
    return model_of(DATA, geometry, score).with_points(trend=trend_of(DATA, weight))


def test_offsets_by_hand() -> None:
    # 15 customers instead of 5, 5 instead of 15, and none of a new item: log 20/10, log 10/20, log 5/5.
    trend = Trend(np.array([15, 5, 0], np.float32), np.array([5, 15, 0], np.float32), 3.0, 7.0, 0.0)
    assert trend.offsets == pytest.approx([3 * np.log(2), -3 * np.log(2), 0])
    assert replace(trend, weight=0.0).offsets is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    days=st.sampled_from([1.0, 2.5, 7.0]),
    ahead=st.booleans(),
    at_once=st.sampled_from([40, 1000]),
)
def test_customers_are_those_of_the_reference(seed: int, days: float, ahead: bool, at_once: int) -> None:
    random = np.random.default_rng(seed)
    count = 900
    users, items = random.integers(0, 60, count), random.integers(0, 12, count)
    times = random.integers(0, 20 * DAY, count)
    times[random.random(count) < 0.5] += 15 * DAY
    now = float(np.sort(times)[-30 if ahead else -1])
    data = Interactions.from_pairs(users, items, times)
    assert data.times is not None
    events = list(zip(data.user_rows.tolist(), data.item_rows.tolist(), data.times.tolist(), strict=True))
    recent, expected = reference.customers(events, len(data.items), days, now)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interactions, "EVENTS_AT_ONCE", at_once)
        found = find_trend(data, days, now)
    if found is None:
        assert min(recent.sum(), count) < 100
        return
    assert found.until == max(time for _, _, time in events if time <= now)
    assert found.recent.tolist() == recent.tolist()
    np.testing.assert_allclose(found.expected, expected, rtol=1e-6)
    slow = reference.offsets(recent.tolist(), expected.tolist(), 0.3, SMOOTHING)
    assert replace(found, weight=0.3).offsets == pytest.approx(slow, rel=1e-4, abs=1e-6)


def test_one_customer_with_a_thousand_events_counts_once() -> None:
    assert DATA.times is not None
    item, newest = DATA.items.id(ITEMS - 1), float(DATA.times.max())
    users, items = [DATA.users.series.gather(DATA.user_rows).to_list(), DATA.items.ids(DATA.item_rows)]
    more = [users[0]] * 1000, [item] * 1000, [newest] * 1000
    data = Interactions.from_pairs(users + more[0], items + more[1], DATA.times.tolist() + more[2])
    before, after = find_trend(DATA, 7, NOW), find_trend(data, 7, NOW)
    assert before is not None
    assert after is not None
    assert 0 <= after.recent[data.items.row(item)] - before.recent[ITEMS - 1] <= 1


@pytest.mark.parametrize(
    ("days", "now"),
    [
        ([0] * 300, NOW),  # all events in one day
        ([0] * 150 + [50] * 150, -1.0),  # all clocks are ahead
        ([0] * 299 + [50], NOW),  # one event is recent
    ],
)
def test_a_clock_that_says_nothing_gives_no_trend(days: list[int], now: float) -> None:
    data = Interactions.from_pairs(np.arange(300), np.arange(300) % 7, np.array(days) * DAY)
    assert find_trend(data, 7, now) is None


def test_events_without_times_give_no_trend() -> None:
    assert find_trend(Interactions.from_pairs([0, 0, 1], ["a", "b", "a"]), 7, NOW) is None


def test_years_without_events_and_clocks_ahead_change_nothing() -> None:
    assert DATA.times is not None
    late = DATA.times >= DATA.times.max() - 7 * DAY + DAY
    shifted = replace(DATA, times=np.where(late, DATA.times + 364 * DAY, DATA.times))
    before, after = find_trend(DATA, 7, NOW), find_trend(shifted, 7, NOW)
    assert before is not None
    assert after is not None
    assert after.recent.tolist() == before.recent.tolist()
    np.testing.assert_allclose(after.expected, before.expected)
    times = DATA.times.copy()
    times[-1] = NOW + DAY
    ahead = find_trend(replace(DATA, times=times), 7, NOW)
    assert ahead is not None
    assert ahead.until == before.until


@pytest.mark.parametrize(("geometry", "score"), KINDS)
@pytest.mark.parametrize("memory", ["none", "ordered", "unordered"])
@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 300),
    k=st.integers(1, 30),
    weight=st.sampled_from([0.01, 0.3, 3.0]),
)
def test_every_way_to_find_candidates_adds_the_offsets(
    geometry: str, score: str, memory: str, seed: int, count: int, k: int, weight: float
) -> None:
    random = np.random.default_rng(seed)
    points = random_points(seed, count, geometry, score, int(random.choice(WIDTHS)), memory=memory)
    recent, usual = (random.integers(0, 50, count).astype(np.float32) for _ in range(2))
    trend = Trend(recent, usual, weight, 7.0, 0.0)
    assert trend.offsets is not None
    points, history = replace(points, trend=trend), History(random.integers(0, count, 5))
    ranker = Ranker(points)
    query = ranker.query(history.items).astype(np.float64)
    expected = points.scorer.exact_scores(query, np.arange(count)) + trend.offsets
    boosts = ranker.boosts(history)
    if boosts is not None:
        expected[boosts.items] += boosts.values
    best = np.argsort(-expected, kind="stable")[:k]
    asked = ranker.add_history(Question(k), history)
    lists = build_index(points, query[None]).raise_by(points.scorer.item_offsets).lists
    ways = {
        "all items": asked,
        "scores": asked._replace(query=query, linear=points.scorer.linear_scores(query[None])[0]),
        "candidates": asked._replace(candidates=np.arange(count)),
        "lists": asked._replace(lists=lists, probes=len(lists), wanted=count),
    }
    for way, question in ways.items():
        answer = points.scorer.rank(question)
        if answer is None:
            assert k > count
            continue
        assert answer.scores == pytest.approx(expected[best], rel=1e-5, abs=1e-5), way
        assert expected[answer.rows] == pytest.approx(expected[best], rel=1e-9, abs=1e-9), way
    scored = ranker.score_all(query[None], history.items, np.array([0, 5]))[0]
    np.testing.assert_allclose(scored, expected, atol=3e-3)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("score", ["distance", "inner"])
def test_every_ranking_is_that_of_all_scores(geometry: str, score: str) -> None:
    model = model_with(geometry, score)
    users = [int(id) for id in DATA.users.ids(np.arange(40))]
    together = model.recommend_many(users=users, k=7, threads=2, exclude_seen=False)
    scored = model.score_histories(DATA, np.arange(40))
    batch = BatchRecommender(model, BatchOptions(k=7, exclude_seen=False)).frame(np.arange(40))["item"].to_list()
    given = DATA.histories_of(np.arange(40))
    queries = model.points.queries(*given.for_queries)
    every, live = np.arange(ITEMS), np.arange(1, ITEMS, 2)
    candidates, _ = best_candidates(model.ranker, queries, np.tile(every, (40, 1)), 7, given, exclude_seen=False)
    index = build_index(model.points, queries)
    indexed = Ranker(model.points, index=replace(index, probes=len(index.lists)))
    packed = Ranker(model.points, live=LiveSet(model.points, live))
    without_memory = model.with_points(memory=None)
    searched = ListSearch(replace(index, probes=len(index.lists)), without_memory.points).search(queries, 7, 7)
    assert model.trend is not None
    assert model.trend.offsets is not None
    for user in range(40):
        history = history_of(user)
        scores: FloatArray = slow_scores(model, history.items) + model.trend.offsets
        best = np.argsort(-scores, kind="stable")
        assert together[user].ids == model.items.ids(best[:7])
        np.testing.assert_allclose(together[user].scores, scores[best[:7]], rtol=1e-5, atol=1e-6)
        assert batch[7 * user : 7 * user + 7] == together[user].ids
        assert candidates[user].tolist() == best[:7].tolist()
        assert indexed.top(queries[user], 7, history=history)[0].tolist() == best[:7].tolist()
        assert packed.top(queries[user], 7, history=history)[0].tolist() == [row for row in best if row % 2][:7]
        np.testing.assert_allclose(scored[user], scores, atol=3e-3)
        alone = model.points.scorer.exact_scores(queries[user], every) + model.trend.offsets
        assert set(searched[user].tolist()) == set(np.argsort(-alone, kind="stable")[:7].tolist())
    similar = model.similar_items(model.items.id(3), k=5)
    assert similar.ids == model.with_points(trend=None).similar_items(model.items.id(3), k=5).ids


def test_few_lists_find_what_offsets_raise() -> None:
    """With as many lists as its recall needs, an index finds what exact ranking finds, after a change of the trend."""
    points = random_points(4, 3000, "hyperboloid", "distance", 8)
    random = np.random.default_rng(4)
    trend = Trend(random.poisson(9, 3000).astype(np.float32), np.full(3000, 9, np.float32), 0.5, 7.0, 0.0)
    points = replace(points, trend=trend)
    queries = points.queries(random.integers(0, 3000, 1800), np.arange(0, 1801, 3))
    index = build_index(points, queries).tune(points.scorer)
    assert index.recall is not None
    assert index.recall > 0.99
    exact, indexed = Ranker(points), Ranker(points, index=index)
    shares = [len(np.intersect1d(exact.top(query, 10)[0], indexed.top(query, 10)[0])) / 10 for query in queries[:200]]
    assert np.mean(shares) > 0.99


def test_trends_are_saved_published_and_reasons(tmp_path: Path) -> None:
    model = model_with(weight=2.0)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    user = int(DATA.users.id(3))
    expected = model.recommend(user=user, reasons=True)
    assert again.recommend(user=user, reasons=True) == expected
    assert expected.reasons is not None
    assert model.trend is not None
    assert model.trend.offsets is not None
    for item, reasons in zip(expected.ids, expected.reasons, strict=True):
        own = [reason for reason in reasons if reason.kind is ReasonKind.TRENDING]
        rises = model.trend.offsets[model.items.row(item)] > 0
        assert [reason.item for reason in own] == ([item] if rises else [])
        assert sum(reason.share for reason in reasons) <= 1 + 1e-9
    assert expected.reasons[0][0].kind is ReasonKind.TRENDING
    write_version(tmp_path / "version", model, index=False)
    bought = [str(item) for item in DATA.history_ids(user)]
    found = Recommender(open_version(tmp_path / "version")).recommend(bought, RankingOptions(reasons=True))
    assert [int(item.id) for item in found.items] == expected.ids
    assert found.items[0].because[0].kind is ReasonKind.TRENDING


def test_who_is_unknown_gets_what_is_popular_in_the_last_days() -> None:
    model = model_with(weight=0.0)
    assert model.trend is not None
    found = model.recommend([], k=5)
    assert found.ids == model.items.ids(np.lexsort((np.arange(ITEMS), -model.item_counts, -model.trend.recent))[:5])
    assert set(found.ids) == set(range(5))
    assert found.scores.tolist() == model.trend.recent[model.items.rows(found.ids)].tolist()
    assert found.fallback == "popular: the history is empty; recent: by customers in the last 7 days"
    earlier = model.with_points(trend=None).recommend([], k=5)
    assert earlier.fallback == "popular: the history is empty"
    empty = DATA.select(np.zeros(len(DATA), bool))
    scores = model.score_histories(empty, np.array([0]))[0]
    assert model.items.ids(np.argsort(-scores, kind="stable")[:5]) == found.ids


def test_training_chooses_a_trend_that_helps() -> None:
    config = TrainingConfig(dimension=8, epochs=3, seed=0)
    model = train(shop(900, 12), config, progress=False)
    assert model.trend is not None
    assert model.trend.weight > 0
    kinds = [note.kind for note in model.note_records]
    assert NoteKind.TREND in kinds
    again = train(shop(900, 12, seed=2), start=model, progress=False)
    assert again.trend is not None
    assert (again.trend.weight, again.trend.days) == pytest.approx((model.trend.weight, model.trend.days))
    assert NoteKind.TREND_KEPT in [note.kind for note in again.note_records]


def test_training_leaves_out_a_trend_that_does_not_help() -> None:
    model = train(shop(900, 12, rising=ITEMS), TrainingConfig(dimension=8, epochs=3, seed=0), progress=False)
    assert model.trend is not None
    assert model.trend.weight == 0
    assert NoteKind.NO_TREND in [note.kind for note in model.note_records]


def test_a_clock_ahead_is_a_note() -> None:
    data = shop(300)
    assert data.times is not None
    times = data.times.copy()
    times[-1] = 1e11
    model = train(replace(data, times=times), TrainingConfig(dimension=4, epochs=1), progress=False)
    notes = [note for note in model.note_records if note.kind is NoteKind.CLOCK_AHEAD]
    assert [note.values for note in notes] == [{"events": 1}]
    assert model.trend is not None
    assert model.trend.until == DATA.times.max()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("times", "kind", "values", "trend"),
    [
        (lambda times: NOW + times % DAY + np.arange(len(times)) % 100, NoteKind.ONE_SPAN, {"days": 99 / DAY}, False),
        (
            lambda times: np.where(np.arange(len(times)) % 10, NOW + 9 * 365 * DAY + times, times / 1000),
            NoteKind.CLOCK_NOT_SET,
            {"events": 600},
            True,
        ),
        (lambda times: np.where(times > 30 * DAY, NOW + times, NOW + times - 900 * DAY), None, {}, True),
    ],
    ids=["one day", "milliseconds among seconds", "years without events"],
)
def test_clocks_that_say_little_are_noted(times: Any, kind: NoteKind | None, values: Any, trend: bool) -> None:
    assert DATA.times is not None
    pairs = DATA.users.ids(DATA.user_rows), DATA.items.ids(DATA.item_rows)
    data = Interactions.from_pairs(*pairs, times(DATA.times).astype(float))
    model = train(data, TrainingConfig(dimension=4, epochs=1, history="causal", memory="auto"), progress=False)
    clocks = {NoteKind.ONE_SPAN, NoteKind.CLOCK_NOT_SET, NoteKind.CLOCK_AHEAD}
    notes = [note for note in model.note_records if note.kind in clocks]
    assert [note.kind for note in notes] == ([] if kind is None else [kind])
    assert [dict(note.values) for note in notes] == ([] if kind is None else [pytest.approx(values)])
    assert (model.trend is not None) == trend


def test_too_few_new_events_choose_nothing() -> None:
    held_out = DATA.select(np.arange(len(DATA)) < 20)
    assert choose_trend(model_of(DATA), held_out, "ndcg@10", NOW) is None


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), largest=st.sampled_from([3, 2**16 + 5]), live=st.booleans())
def test_another_trend_changes_scores_and_popular_items_alone(seed: int, largest: int, live: bool) -> None:
    random = np.random.default_rng(seed)
    count = 60
    points = random_points(seed, count, "hyperboloid", "distance")
    points = replace(points, item_counts=random.integers(0, 4, count))
    rows = np.flatnonzero(random.random(count) < 0.7) if live else None
    index = build_index(points, points.item_points[:3].astype(float))
    first = Ranker(points, index=replace(index, probes=len(index.lists)), live=LiveSet(points, rows))
    trends = [
        None if weight is None else Trend(recent, np.full(count, 9, np.float32), weight, 7.0, 0.0)
        for weight in (0.4, None, 0.0)
        for recent in [random.integers(0, largest, count).astype(np.float32)]
    ]
    history = History(random.integers(0, count, 5))
    ranker = first
    for trend in trends:
        ranker = ranker.with_trend(trend)
        fresh_points = replace(points, trend=trend)
        fresh = Ranker(fresh_points, live=LiveSet(fresh_points, rows))
        found, expected = (one.top(None, 9, history=history) for one in (ranker, fresh))
        assert (found[0].tolist(), found[1].tolist()) == (expected[0].tolist(), expected[1].tolist())
        shown = np.arange(count) if rows is None else rows
        popular = shown[np.argsort(-fresh_points.popularity[shown], kind="stable")]
        assert ranker.live.popular.tolist() == fresh.live.popular.tolist() == popular.tolist()


def test_trending_by_hand() -> None:
    """Rows 0 to 5, and three new items, of which the last two are by events."""
    recent = np.array([3, 30, 2, 40, 9, 60], np.float32)
    usual = np.array([1, 10, 0, 50, 2, 20], np.float32)
    points = replace(random_points(1, 6, "hyperboloid", "distance"), trend=Trend(recent, usual, 0.0, 7.0, 0.0))
    new = NewPoints(random_points(2, 3, "hyperboloid", "distance"), np.array([True, True, True]), 2)
    ranker = Ranker(points, live=LiveSet(points, np.array([0, 1, 2, 3, 5])), new=new)
    items = TrendingItems(ranker, np.array([4, 50, 2], np.float32))
    # (r + 5) / (e + 5): row 7 55/5, 5 65/25, 1 35/15, 6 9/5, 0 8/6. Row 2 and 8 have two customers, 3 fewer than usual,
    # and 4 is not live.
    found = find_trending(items, RowOptions(k=9, event_limit=9))
    assert found.rows.tolist() == [7, 5, 1, 6, 0]
    np.testing.assert_allclose(found.scores, np.log([11, 65 / 25, 35 / 15, 9 / 5, 8 / 6]), rtol=1e-6)
    assert find_trending(items, RowOptions(k=2, excluded=np.array([5]))).rows.tolist() == [1, 6]
    chosen = find_trending(items, RowOptions(allowed=np.array([0, 2, 4, 7]), event_limit=1))
    assert (chosen.rows.tolist(), chosen.fallbacks) == ([7, 0], ())
    nothing = find_trending(items, RowOptions(allowed=np.array([2, 3])))
    assert [one.cause for one in nothing.fallbacks] == [Cause.NOTHING_TRENDING]
    unknown = find_trending(TrendingItems(ranker.with_trend(None), np.zeros(3, np.float32)), RowOptions())
    assert ([one.cause for one in unknown.fallbacks], len(unknown.rows)) == ([Cause.NO_TREND], 0)


def test_wrong_numbers_are_refused() -> None:
    numbers = np.ones(3, np.float32)
    wrongs: list[Any] = [-numbers, np.full(3, np.nan, np.float32), np.ones(3), np.ones(2, np.float32)]
    for wrong in wrongs:
        with pytest.raises(InputError, match="trend of a model"):
            Trend(wrong, numbers, 1.0, 7.0, 0.0)
    points, short = model_of(DATA).points, Trend(numbers, numbers, 1.0, 7.0, 0.0)
    with pytest.raises(InputError, match="other items"):
        replace(points, trend=short)
