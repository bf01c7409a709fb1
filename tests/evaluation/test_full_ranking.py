"""Full ranking against a twin that sorts every list in every order of ties."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation import held_out
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.list_metrics import popularity_quantiles
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.report import render_counts
from tests.evaluation.fixed_scores import FixedScores, Pairs, events, random_scores, ranking_tasks

USERS = ["u", "v", "w"]
ITEMS = ["a", "b", "c", "d", "e"]
pairs = st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(ITEMS)), min_size=1, max_size=8)
tables = st.fixed_dictionaries(
    {user: st.fixed_dictionaries({item: st.sampled_from([-1.0, 0.0, 2.5]) for item in ITEMS}) for user in USERS}
)


def slow_twin(train: Pairs, test: Pairs, table: dict[Id, dict[Id, float]], k: int) -> dict[str, float]:
    """The definitions, word by word."""
    counts = {item: sum(event[1] == item for event in train) for _, item in train}
    quantile: dict[Id, Any] = {
        item: np.mean([(other < count) + (other == count) / 2 for other in counts.values()])
        for item, count in counts.items()
    }
    totals = dict.fromkeys(["hr", "recall", "ndcg", "mrr", "popularity"], 0.0)
    missed_by_all: dict[Id, Any] = dict.fromkeys(counts, 1.0)
    users = {user for user, _ in test}
    for wanted, candidates, lists in ranking_tasks(train, test, table, k):
        for listed in lists:
            hits = [place for place, item in enumerate(listed, start=1) if item in wanted]
            ideal = sum(1 / log2(place + 1) for place in range(1, min(k, len(wanted)) + 1))
            totals["hr"] += bool(hits) / len(lists)
            totals["recall"] += len(hits) / len(wanted) / len(lists)
            totals["ndcg"] += sum(1 / log2(place + 1) for place in hits) / ideal / len(lists)
            totals["mrr"] += (1 / hits[0] if hits else 0) / len(lists)
            totals["popularity"] += float(np.mean([quantile[item] for item in listed] or [0.0])) / len(lists)
        for item in candidates:
            missed_by_all[item] *= np.mean([item not in listed for listed in lists])
    expected = {f"{name}@{k}": total / len(users) for name, total in totals.items()}
    return expected | {f"coverage@{k}": float(np.mean([1 - missed for missed in missed_by_all.values()]))}


@given(train=pairs, test=pairs, table=tables, k=st.integers(1, 6))
def test_as_the_slow_twin(
    train: list[tuple[Id, Id]], test: list[tuple[Id, Id]], table: dict[Id, dict[Id, float]], k: int
) -> None:
    train = [*train, ("u", "a")]
    test = [*test, ("u", "a")]  # one customer with a history and one item that the model knows
    report = evaluate(FixedScores(events(train), table), events(test), k=k, intervals=False)
    expected = slow_twin(train, test, table, k)
    assert {name: report[name] for name in report.metrics} == pytest.approx(expected, abs=1e-6)


def test_a_list_worked_out_by_hand() -> None:
    train = events([("u", "a"), ("u", "b"), ("v", "a"), ("v", "c"), ("v", "d"), ("w", "a")])
    table: dict[Id, dict[Id, float]] = {"u": {"a": 9, "b": 8, "d": 7, "c": 6}, "w": {"a": 9, "b": 7, "c": 8, "d": 6}}
    report = evaluate(
        FixedScores(train, table), events([("u", "c"), ("w", "b"), ("w", "d")]), k=[1, 2], intervals=False
    )
    # Without the histories, u is shown d, c and wants c; w is shown c, b, d and wants b and d.
    assert report["hr@1"] == 0
    assert report["hr@2"] == 1
    assert report["recall@2"] == pytest.approx((1 + 1 / 2) / 2)
    assert report["ndcg@2"] == pytest.approx((1 / log2(3) + (1 / log2(3)) / (1 + 1 / log2(3))) / 2)
    assert report["mrr@2"] == pytest.approx(1 / 2)
    assert report["coverage@1"] == 2 / 4  # d and c
    assert report["coverage@2"] == 3 / 4
    # a has 3 training events, b, c and d have 1: quantiles (3 + 1/2) / 4 and (3/2) / 4.
    assert report["popularity@2"] == pytest.approx(3 / 8)


def test_scores_all_equal_are_chance() -> None:
    """Ten items, one in each history, one held out: nine candidates in any order."""
    users = [f"u{number}" for number in range(10)]
    train = events([(user, number) for number, user in enumerate(users)])
    report = evaluate(
        FixedScores(train, {}), events([(user, (number + 1) % 10) for number, user in enumerate(users)]), k=3
    )
    assert report["hr@3"] == pytest.approx(3 / 9)
    assert report["recall@3"] == pytest.approx(3 / 9)
    assert report["ndcg@3"] == pytest.approx((1 + 1 / log2(3) + 1 / 2) / 9)
    assert report["mrr@3"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 9)
    assert report["coverage@3"] == pytest.approx(1 - (1 - 3 / 9) ** 9)  # each item is a candidate of nine customers
    assert report["popularity@3"] == pytest.approx(1 / 2)


def test_a_repeat_purchase_can_be_found() -> None:
    """u bought a before and buys it again; b, also bought before, stays out of the way."""
    train = events([("u", "a"), ("u", "b"), ("v", "c"), ("v", "d")])
    table: dict[Id, dict[Id, float]] = {"u": {"b": 9, "c": 8, "a": 7, "d": 6}}
    report = evaluate(FixedScores(train, table), events([("u", "a")]), k=2, intervals=False)
    assert report["mrr@2"] == pytest.approx(1 / 2)
    assert report.counts["in_history"] == 1
    assert report.counts["in_history"] == 1
    assert set(render_counts({"in_history": 1})) < set(report.notes)


def test_fewer_candidates_than_places() -> None:
    train = events([("u", "a"), ("u", "b"), ("v", "c")])
    report = evaluate(FixedScores(train, {"u": {"a": 9, "c": 1}}), events([("u", "c")]), k=20, intervals=False)
    assert report["mrr@20"] == 1
    assert report["coverage@20"] == pytest.approx(1 / 3)
    assert report["popularity@20"] == pytest.approx(1 / 2)


def test_an_empty_list_is_worth_nothing() -> None:
    """The history of u has every item of the model, and the item to find is unknown to it."""
    train = events([("u", "a"), ("u", "b"), ("v", "a")])
    report = evaluate(FixedScores(train, {}), events([("u", "new"), ("v", "b")]), k=2, intervals=False)
    assert [report[f"{name}@2"] for name in ("hr", "recall", "ndcg", "mrr")] == [1 / 2] * 4
    assert report.per_user["popularity@2"].tolist() == [0, 1 / 4]


def test_scores_at_the_end_of_their_range_are_candidates() -> None:
    lowest = float(np.finfo(np.float32).min)
    train = events([("u", "a"), ("v", "b"), ("v", "c")])
    report = evaluate(FixedScores(train, {"u": {"b": lowest, "c": lowest}}), events([("u", "b")]), k=1, intervals=False)
    assert report["hr@1"] == pytest.approx(1 / 2)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test, model = random_scores()
    whole = evaluate(model, test, k=[1, 5, 20])
    monkeypatch.setattr(held_out, "CELLS_PER_BLOCK", 120)
    assert len(list(held_out.hold_out(test, train, train.items, train.item_counts, None, 0).blocks())) == 10
    blocks = evaluate(model, test, k=[1, 5, 20])
    for name, values in whole.per_user.items():
        np.testing.assert_allclose(blocks.per_user[name], values, rtol=1e-12)
    for name, metric in whole.metrics.items():
        assert blocks.metrics[name] == pytest.approx(metric)
    for threads in (1, 3):
        assert evaluate(model, test, k=[1, 5, 20], threads=threads).metrics == blocks.metrics, "to the last digit"


def test_popularity_quantiles() -> None:
    """Counts 5, 1, 1, 3: 3 1/2 items up to the first, half of two for the twins, 2 1/2 for the last; of four."""
    assert popularity_quantiles(np.array([5, 1, 1, 3])).tolist() == [3.5 / 4, 1 / 4, 1 / 4, 2.5 / 4]


@pytest.mark.parametrize(("candidates", "expected"), [("all", 1 / 2), ("new", 1), ("repeats", 1 / 2), ("unseen", 1)])
def test_candidates_by_hand(candidates: Candidates, expected: float) -> None:
    """Ann has a and b and buys b and c. By score: a, c, d, b. Reciprocal rank of the first item that was found."""
    histories = events([("ann", "a"), ("ann", "b"), ("bob", "c"), ("bob", "d")])
    model = FixedScores(histories, {"ann": {"a": 4, "c": 3, "d": 2, "b": 1}})
    report = evaluate(model, events([("ann", "b"), ("ann", "c")]), candidates=candidates, metrics=["mrr"])
    assert report["mrr@10"] == expected


def test_customers_without_such_items_are_left_out_and_unknown_items_are_new() -> None:
    histories = events([("ann", "a"), ("bob", "b")])
    model = FixedScores(histories, {"ann": {"b": 1}, "bob": {"b": 1}})
    test = events([("ann", "z"), ("ann", "b"), ("bob", "b")])
    new = evaluate(model, test, candidates="new", k=1, metrics=["recall"])
    assert (new.users.series.to_list(), new["recall@1"], new.counts["events"]) == (["ann"], 1 / 2, 2)
    repeats = evaluate(model, test, candidates="repeats", k=1, metrics=["recall"])
    assert (repeats.users.series.to_list(), repeats["recall@1"], repeats.counts["events"]) == (["bob"], 1, 1)
    with pytest.raises(InputError, match="no customer has such items"):
        evaluate(model, events([("ann", "b")]), candidates="repeats")
    with pytest.raises(ConfigError, match="no candidates 'some'"):
        evaluate(model, test, candidates="some")  # type: ignore[arg-type]
