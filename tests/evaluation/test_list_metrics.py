"""Novelty, diversity and Gini coefficient by hand and against every order of ties, and the choice of metrics."""

from __future__ import annotations

from itertools import combinations
from math import log2, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import ConfigError
from lorentzrec.evaluation import list_metrics
from lorentzrec.evaluation.list_metrics import gini
from lorentzrec.evaluation.protocol import evaluate, evaluate_systems
from tests.evaluation.fixed_scores import FixedScores, Pairs, events, random_scores, ranking_tasks

USERS = ["u", "v", "w"]
ITEMS = ["a", "b", "c", "d", "e"]
LISTED = ["novelty", "diversity", "gini"]
pairs = st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(ITEMS)), min_size=1, max_size=8)
tables = st.fixed_dictionaries(
    {user: st.fixed_dictionaries({item: st.sampled_from([-1.0, 0.0, 2.5]) for item in ITEMS}) for user in USERS}
)
TRAIN: Pairs = [("u", "a"), ("u", "b"), ("v", "a"), ("v", "c"), ("v", "d"), ("w", "a")]
TABLE: dict[Id, dict[Id, float]] = {"u": {"a": 9, "b": 8, "d": 7, "c": 6}, "w": {"a": 9, "b": 7, "c": 8, "d": 6}}
TEST: Pairs = [("u", "c"), ("w", "b"), ("w", "d")]


def test_lists_worked_out_by_hand() -> None:
    """u is shown d, c and w is shown c, b: a has 3 of 6 events, all others 1."""
    report = evaluate(FixedScores(events(TRAIN), TABLE), events(TEST), k=2, intervals=False, metrics=LISTED)
    assert list(report.metrics) == ["novelty@2", "diversity@2", "gini@2"]
    assert report["novelty@2"] == pytest.approx(log2(6))
    # d and c have the same customer, v; c and b have none in common.
    diversity = dict(zip(report.users.series.to_list(), report.per_user["diversity@2"].tolist(), strict=True))
    assert diversity == pytest.approx({"u": 0, "w": 1}, abs=1e-12)
    # a, b, c, d appear 0, 1, 2, 1 times: in rising order 0, 1, 1, 2, so (-3 * 0 - 1 + 1 + 3 * 2) / (4 * 4).
    assert report["gini@2"] == pytest.approx(6 / 16)
    assert report.notes == ()


def test_diversity_is_one_minus_the_cosine() -> None:
    """z is shown a and b: a has u, v and w as customers, b has u."""
    model = FixedScores(events([*TRAIN, ("z", "d")]), {"z": {"a": 2, "b": 1}})
    report = evaluate(model, events([("z", "c")]), k=[1, 2], intervals=False, metrics=["diversity"])
    assert report["diversity@2"] == pytest.approx(1 - 1 / sqrt(3))
    assert report["diversity@1"] == 0, "one item has no pairs"


def slow_twin(train: Pairs, test: Pairs, table: dict[Id, dict[Id, float]], k: int) -> dict[str, float]:
    """The definitions, word by word."""
    counts = {item: sum(event[1] == item for event in train) for _, item in train}
    customers = {item: {user for user, other in train if other == item} for item in counts}
    totals, users = dict.fromkeys(["novelty", "diversity"], 0.0), {user for user, _ in test}
    appearances: dict[Id, float] = dict.fromkeys(counts, 0.0)
    for _, _, lists in ranking_tasks(train, test, table, k):
        for listed in lists:
            novelty = [log2(len(train) / counts[item]) for item in listed]
            different = [
                1 - len(customers[one] & customers[other]) / sqrt(len(customers[one]) * len(customers[other]))
                for one, other in combinations(listed, 2)
            ]
            totals["novelty"] += float(np.mean(novelty or [0.0])) / len(lists)
            totals["diversity"] += float(np.mean(different or [0.0])) / len(lists)
            for item in listed:
                appearances[item] += 1 / len(lists)
    spread = sum(abs(one - other) for one in appearances.values() for other in appearances.values())
    total = sum(appearances.values())
    inequality = spread / (2 * len(counts) * total) if total else 0.0
    return {f"{name}@{k}": value / len(users) for name, value in totals.items()} | {f"gini@{k}": inequality}


@given(train=pairs, test=pairs, table=tables, k=st.integers(1, 6))
def test_as_the_slow_twin(
    train: list[tuple[Id, Id]], test: list[tuple[Id, Id]], table: dict[Id, dict[Id, float]], k: int
) -> None:
    train, test = [*train, ("u", "a")], [*test, ("u", "a")]
    report = evaluate(FixedScores(events(train), table), events(test), k=k, intervals=False, metrics=LISTED)
    assert {name: report[name] for name in report.metrics} == pytest.approx(slow_twin(train, test, table, k), abs=1e-6)


def test_blocks_of_lists_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, test, model = random_scores()
    whole = evaluate(model, test, k=[5, 20], metrics=LISTED)
    monkeypatch.setattr(list_metrics, "LISTS_AT_ONCE", 7)
    in_parts = evaluate(model, test, k=[5, 20], metrics=LISTED, threads=3)
    for name, values in whole.per_user.items():
        assert in_parts.per_user[name] == pytest.approx(values, abs=1e-12)
    assert in_parts["gini@5"] == whole["gini@5"]


def test_gini_at_its_ends() -> None:
    assert gini(np.array([3.0, 3.0, 3.0])) == 0
    assert gini(np.array([0.0, 0.0, 0.0, 5.0])) == pytest.approx(3 / 4)
    assert gini(np.zeros(3)) == 0


def test_a_choice_of_metrics() -> None:
    model, test = FixedScores(events(TRAIN), TABLE), events(TEST)
    everything = evaluate(model, test, k=[1, 2])
    chosen = evaluate(model, test, k=[1, 2], metrics=["map", "coverage", "ndcg", "map"])
    assert list(chosen.metrics) == ["map@1", "ndcg@1", "map@2", "ndcg@2", "coverage@1", "coverage@2"]
    for name in ("ndcg@1", "ndcg@2", "coverage@2"):
        assert chosen.metrics[name] == everything.metrics[name], name
    assert list(evaluate(model, test, metrics=["gini"]).metrics) == ["gini@10"]
    sampled = evaluate(model, test, "sampled", k=1, negatives=1, metrics=["mrr", "hr"])
    assert list(sampled.metrics) == ["mrr@1", "hr@1"]
    assert sampled["mrr@1"] == sampled["hr@1"]


def test_both_protocols_have_what_they_can() -> None:
    model, test = FixedScores(events(TRAIN), TABLE), events(TEST)
    both = evaluate_systems({"model": model}, test, 1, negatives=1, metrics=["novelty", "map"])["model"]
    assert {name: list(report.metrics) for name, report in both.items()} == {
        "full": ["novelty@1", "map@1"],
        "sampled": ["map@1"],
    }
    assert list(evaluate_systems({"model": model}, test, 1, negatives=1, metrics=["gini"])["model"]) == ["full"]


@pytest.mark.parametrize(
    ("protocol", "metrics", "message"),
    [
        ("full", ["ncdg"], "there is no metric 'ncdg' of full ranking: give a list of hr, recall, ndcg"),
        ("full", "ndcg", "there is no metric 'ndcg' of full ranking: give a list"),
        ("full", ["ndcg@10"], "there is no metric 'ndcg@10' of full ranking"),
        ("full", [], "there is no metric to compute: give a list of hr"),
        ("sampled", ["novelty"], "there is no metric 'novelty' of sampled ranking"),
    ],
)
def test_metrics_that_do_not_exist(protocol: str, metrics: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(FixedScores(events(TRAIN), TABLE), events(TEST), protocol, 1, negatives=1, metrics=metrics)  # type: ignore[arg-type]
