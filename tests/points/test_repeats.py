"""Repeats against their slow reference: rates, boosts, every ranking, files, reasons and the choice in training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.recommending import BatchOptions, BatchRecommender
from lorentzrec.data import interactions
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.evaluation.protocol import evaluate, evaluate_variants
from lorentzrec.geometry import FloatArray
from lorentzrec.learning.repeat_choice import (
    USUAL_DECAY,
    USUAL_HALF_LIFE,
    USUAL_WEIGHT,
    choose_repeats,
    has_repeats,
)
from lorentzrec.learning.trainer import train
from lorentzrec.model.artifact import load
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points import scoring
from lorentzrec.points.index import build_index
from lorentzrec.points.points import History
from lorentzrec.points.ranking import LiveSet, Ranker, Variant
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.points.repeats import Repeats, find_rates
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.points.test_memory import ITEMS, model_of, slow_scores
from tests.reference import repeats as reference

DAY = 86_400


def shop(customers: int = 60, orders: int = 6) -> Interactions:
    """Customers who order one of their three favourites and two other items every week."""
    random = np.random.default_rng(1)
    users, items, times = [], [], []
    for user in range(customers):
        favourites = random.integers(0, ITEMS, 3)
        for week in range(orders):
            users += [user] * 3
            items += [random.choice(favourites), *random.integers(0, ITEMS, 2)]
            times += [7 * DAY * week + user] * 3
    users += [0] * ITEMS
    items += range(ITEMS)
    times += [0] * ITEMS
    return Interactions.from_pairs(users, items, times)


DATA = shop()


def model_with(geometry: Any = "hyperboloid", score: Any = "distance", weight: float = 0.5) -> Model:
    return model_of(DATA, geometry, score).with_points(repeats=Repeats(find_rates(DATA), weight, 20.0, 0.9))


def all_scores(model: Model, history: History) -> FloatArray:
    """Of all items, by points, memory and repeats."""
    assert model.repeats is not None
    rule = model.repeats.rates, model.repeats.weight, model.repeats.half_life
    given = history.items.tolist(), history.times, history.weights
    added = reference.boosts(*rule, *given, model.repeats.order_decay)
    found: FloatArray = slow_scores(model, history.items) + added
    return found


def best_rows(scores: FloatArray, eligible: Any, k: int) -> list[int]:
    rows = np.asarray(eligible)
    found: list[int] = rows[np.argsort(-scores[rows], kind="stable")][:k].tolist()
    return found


@pytest.mark.parametrize("events_at_once", [1, 30, 1_000_000])
def test_rates_are_those_of_the_reference(events_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactions, "EVENTS_AT_ONCE", events_at_once)
    np.testing.assert_allclose(find_rates(DATA), reference.rates(DATA), rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    histories=st.lists(st.lists(st.integers(0, ITEMS - 1), max_size=9), min_size=1, max_size=4),
    half_life=st.sampled_from([None, 0.5, 30.0]),
    order_decay=st.sampled_from([1.0, 0.9, 0.2]),
    timed=st.booleans(),
    weighted=st.booleans(),
)
def test_boosts_are_those_of_the_reference(
    histories: list[list[int]], half_life: float | None, order_decay: float, timed: bool, weighted: bool
) -> None:
    random = np.random.default_rng(len(histories))
    repeats = Repeats(find_rates(DATA), 0.7, half_life, order_decay)
    items, offsets = np.concatenate([*histories, []]).astype(np.int64), np.cumsum([0, *map(len, histories)])
    times = np.where(random.random(len(items)) < 0.2, np.nan, random.integers(0, 5, len(items)) * 9.0 * DAY)
    weights = random.uniform(0.2, 2, len(items)) if weighted else None
    found = repeats.boosts(items, offsets, weights, times if timed else None)
    dense = np.zeros((len(histories), ITEMS))
    dense[found.history_indices, found.items] = found.values
    for place, history in enumerate(histories):
        own = slice(offsets[place], offsets[place + 1])
        given_weights = None if weights is None else weights[own]
        of_events = times[own] if timed else None
        expected = reference.boosts(repeats.rates, 0.7, half_life, history, of_events, given_weights, order_decay)
        np.testing.assert_allclose(dense[place], expected, rtol=1e-6)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("score", ["distance", "inner"])
@pytest.mark.parametrize("weight", [0.05, 2.0])
@pytest.mark.parametrize("remembers", [False, True])
def test_every_ranking_is_that_of_all_scores(geometry: str, score: str, weight: float, remembers: bool) -> None:
    model = model_with(geometry, score, weight)
    users, every = [int(id) for id in DATA.users.ids(np.arange(60))], np.arange(ITEMS)
    assert model.memory is not None
    rated = {user: all_scores(model, history_of(user)) for user in range(60)}
    if not remembers:
        alone = model.with_points(memory=model.memory.with_weight(0.0))
        rated = {user: all_scores(alone, history_of(user)) for user in range(60)}
        model = model.with_points(memory=None)
    together = model.recommend_many(users=users, k=7, threads=2)
    scored = model.score_histories(DATA, np.arange(60))
    batch = BatchRecommender(model, BatchOptions(k=7)).frame(np.arange(60))["item"].to_list()
    given = DATA.histories_of(np.arange(60))
    queries = model.points.queries(*given.for_queries)
    few = np.tile(np.arange(0, ITEMS, 2), (60, 1))
    candidates, _ = best_candidates(model.ranker, queries, np.tile(every, (60, 1)), 7, given, exclude_seen=False)
    near, _ = best_candidates(model.ranker, queries, few, 4, given, exclude_seen=False)
    live = np.arange(1, ITEMS, 2)
    packed = Ranker(model.points, live=LiveSet(model.points, live))
    index = build_index(model.points, queries)
    indexed = Ranker(model.points, index=replace(index, probes=len(index.lists)))
    for user, scores in rated.items():
        history, best = history_of(user), best_rows(scores, every, 7)
        assert together[user].ids == model.items.ids(np.array(best))
        np.testing.assert_allclose(together[user].scores, scores[best], rtol=1e-5, atol=1e-6)
        assert batch[7 * user : 7 * user + 7] == together[user].ids
        assert candidates[user].tolist() == best
        ids = model.items.ids(history.items)
        assert history.times is not None
        assert model.recommend(ids, k=7, times=history.times.tolist()).ids == together[user].ids
        unseen = np.setdiff1d(every, history.items)
        assert model.recommend(ids, k=5, exclude_seen=True).ids == model.items.ids(
            np.array(best_rows(scores, unseen, 5))
        )
        rows, _ = packed.top(queries[user], 5, history=history)
        assert rows.tolist() == best_rows(scores, live, 5)
        assert indexed.top(queries[user], 4, history=history)[0].tolist() == best_rows(scores, every, 4)
        assert set(best_rows(scores, np.union1d(few[0], history.items), 1)) & set(near[user].tolist())
        order = np.argsort(-scored[user], kind="stable")
        np.testing.assert_allclose(scores[order], np.sort(scores)[::-1], atol=3e-3)


def history_of(user: int) -> History:
    assert DATA.times is not None
    span = slice(DATA.offsets[user], DATA.offsets[user + 1])
    return History(DATA.item_rows[span].astype(np.int64), None, DATA.times[span].astype(np.float64))


@pytest.mark.parametrize(("geometry", "score"), [("hyperboloid", "distance"), ("euclidean", "distance")])
def test_variants_of_a_model_have_the_scores_of_models_of_their_own(geometry: Any, score: Any) -> None:
    """In all digits, in any order of the variants, and for a customer without a history."""
    model = model_of(DATA, geometry, score)
    few = DATA.select(DATA.user_rows != 5)
    repeats = [Repeats(find_rates(DATA), weight, days, 0.9) for weight, days in ((0.5, 20.0), (4.0, None))]
    variants = [Variant(weight, other) for weight in (0.0, 2.0, 0.0, 0.3) for other in (None, *repeats)]
    users = np.arange(12)
    for (weight, other), scores in zip(variants, model.score_variants(variants, few, users), strict=True):
        assert model.memory is not None
        own = model.with_points(memory=model.memory.with_weight(weight), repeats=other)
        assert own.ranker.variant == (weight, other)
        assert (scores == own.score_histories(few, users)).all()
        scores[:] = np.nan  # what a caller does with scores changes no other


def test_scores_are_raised_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    repeats = Repeats(find_rates(DATA), 0.5, 20.0, 0.9)
    model, users = model_of(DATA).with_points(repeats=repeats), np.arange(12)
    at_once = model.score_histories(DATA, users)
    monkeypatch.setattr(scoring, "BOOSTS_AT_ONCE", 5)
    assert (model.score_histories(DATA, users) == at_once).all()


def test_variants_are_measured_as_models_of_their_own() -> None:
    model = model_of(DATA)
    held_out = Interactions.from_pairs(np.arange(20), np.arange(20) % ITEMS)
    variants = [Variant(weight, None) for weight in (0.0, 1.0)]
    score = partial(model.score_variants, variants)
    found = evaluate_variants(model, score, 2, held_out, "ndcg@5", candidates="all", threads=2)
    for variant, values in zip(variants, found, strict=True):
        assert model.memory is not None
        own = model.with_points(memory=model.memory.with_weight(variant.memory_weight))
        report = evaluate(own, held_out, k=5, candidates="all", intervals=False)
        assert (values == report.per_user["ndcg@5"]).all()
    with pytest.raises(InputError, match="no training histories"):
        evaluate_variants(replace(model, histories=None), score, 2, held_out, "ndcg@5")


def test_repeats_are_saved_published_and_reasons(tmp_path: Path) -> None:
    model = model_with(weight=5.0)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    user = int(DATA.users.id(3))
    expected = model.recommend(user=user, reasons=True)
    assert again.recommend(user=user, reasons=True) == expected
    assert expected.reasons is not None
    bought = DATA.history_ids(user)
    for item, reasons in zip(expected.ids, expected.reasons, strict=True):
        assert (reasons[0].kind is ReasonKind.BOUGHT_BEFORE) == (item in bought)
        if item in bought:
            assert (reasons[0].item, reasons[0].bought) == (item, bought.count(item))
        assert sum(reason.share for reason in reasons) <= 1 + 1e-9
    assert expected.ids[0] in bought
    write_version(tmp_path / "version", model, index=False)
    history = history_of(3)
    assert history.times is not None
    found = Recommender(open_version(tmp_path / "version")).recommend(
        [str(id) for id in bought], RankingOptions(reasons=True), times=history.times.tolist()
    )
    assert [int(item.id) for item in found.items] == expected.ids
    assert found.items[0].because[0].kind is ReasonKind.BOUGHT_BEFORE


def test_what_is_only_viewed_is_not_a_repeat() -> None:
    model = model_with(weight=50.0)
    first, second, viewed = model.items.ids(np.array([3, 8, 11]))
    assert set(model.recommend([first, second], k=2).ids) == {first, second}
    found = model.recommend([first, second], context=[viewed], k=ITEMS).ids
    assert set(found[:2]) == {first, second}
    assert viewed not in found
    assert model.similar_items(first, k=ITEMS).ids.count(first) == 0


def test_wrong_times_and_rates_are_refused() -> None:
    model = model_with()
    for times, text in (([1.0], "1 times of 2 events"), ([None, 1], "not times"), (["x", 1], "not times")):
        with pytest.raises(InputError, match=text):
            model.recommend(model.items.ids(np.array([1, 2])), times=times)
    with pytest.raises(InputError, match="repeats of a model"):
        Repeats(np.zeros(3, np.float32), 1.0)
    with pytest.raises(InputError, match="repeats of a model"):
        Repeats(np.ones(3, np.float32), 1.0, order_decay=1.5)
    with pytest.raises(InputError, match="other items"):
        model.with_points(repeats=Repeats(np.ones(3, np.float32), 1.0))


def test_training_finds_that_customers_buy_again() -> None:
    data = shop(600)
    model = train(data, TrainingConfig(dimension=4, epochs=2))
    assert model.repeats is not None
    (note,) = [note for note in model.note_records if note.kind is NoteKind.REPEATS]
    assert note.values["repeats"] > note.values["unseen"]
    assert not has_repeats(data.select(data.item_rows < 0), data)
    without = train(data, TrainingConfig(dimension=4, epochs=2, memory="none"))
    assert without.repeats is None


def test_repeats_that_do_not_help_are_not_chosen() -> None:
    """Each customer buys new items only, but for one."""
    users, items = np.repeat(np.arange(40), 9), np.tile(np.arange(9), 40) + np.repeat(np.arange(40) % 20, 9)
    data = Interactions.from_pairs(users, items, np.tile(np.arange(9), 40))
    model = model_of(data)
    held_out = Interactions.from_pairs([*range(1, 40), 0], [(9 + user) % 20 for user in range(1, 40)] + [int(items[0])])
    choice = choose_repeats(model, held_out, "ndcg@10")
    assert choice.customers == 40
    assert choice.weight == 0


def test_usual_repeats_are_kept_unless_others_are_clearly_better() -> None:
    """What was bought last is bought next, so any weight and any decay are equally good."""
    users, items = np.repeat(np.arange(40), 3), np.tile([3, 4, 5], 40)
    data = Interactions.from_pairs([*users, 99], [*items, 19], [*np.tile(np.arange(3), 40), 0])
    choice = choose_repeats(model_of(data), Interactions.from_pairs(range(40), [5] * 40), "ndcg@1")
    assert (choice.weight, choice.half_life, choice.order_decay) == (USUAL_WEIGHT, USUAL_HALF_LIFE, USUAL_DECAY)
