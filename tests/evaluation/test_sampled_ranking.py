"""The paper's protocol: negatives are drawn from the right items, and are the same for all models."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id
from lorentzrec.evaluation import held_out
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.report import render_counts
from lorentzrec.evaluation.sampled_ranking import draw_others
from tests.evaluation.fixed_scores import FixedScores, events


class ByRow(FixedScores):
    """Scores an item by its number alone, so that the rank of a held-out item shows which negatives were drawn."""

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.tile(self.items.series.to_numpy().astype(np.float32), (len(user_rows), 1))


def many_events(seed: int, count: int) -> list[tuple[Id, Id]]:
    generator = np.random.default_rng(seed)
    return [(f"u{user}", int(item)) for user, item in generator.integers(0, [30, 200], (count, 2))]


TRAIN = [*many_events(0, 400), *(("everything", item) for item in range(200))]
TEST = many_events(1, 60)


@given(excluded=st.sets(st.integers(0, 19), max_size=20), wanted=st.integers(0, 25), seed=st.integers(0, 5))
def test_draws_are_distinct_and_unexcluded(excluded: set[int], wanted: int, seed: int) -> None:
    drawn = draw_others(np.array(sorted(excluded), np.int64), 20, wanted, np.random.default_rng(seed)).tolist()
    assert len(set(drawn)) == len(drawn) == min(wanted, 20 - len(excluded))
    assert set(drawn) <= set(range(20)) - excluded


def test_every_unexcluded_item_is_as_likely() -> None:
    generator = np.random.default_rng(0)
    drawn = np.concatenate([draw_others(np.array([0, 3, 4]), 8, 2, generator) for _ in range(5000)])
    counts = np.bincount(drawn, minlength=8)
    assert counts[[0, 3, 4]].tolist() == [0, 0, 0]
    # 10,000 draws on five items: each 2,000 times, with a standard deviation of sqrt(5000 * 2/5 * 3/5) = 35.
    assert np.abs(counts[[1, 2, 5, 6, 7]] - 2000).max() < 5 * 35


def test_all_unexcluded_items_by_hand() -> None:
    """Six items. u has a and is to find b and c: three are left, fewer than five, so that nothing is left to chance."""
    train = events([("u", "a"), *(("v", item) for item in "abcdef")])
    table: dict[Id, dict[Id, float]] = {"u": {"a": 9, "d": 8, "b": 7, "c": 6, "e": 6, "f": 1}}
    report = evaluate(FixedScores(train, table), events([("u", "b"), ("u", "c")]), "sampled", k=[1, 2], negatives=5)
    # b is second of d, b, e, f. c is second or third of d, c, e, f: it ties with e. Neither a nor b competes with c.
    assert report["hr@1"] == 0
    assert report["hr@2"] == pytest.approx((1 + 1 / 2) / 2)
    assert report["ndcg@2"] == pytest.approx((1 / log2(3) + 1 / 2 * 1 / log2(3)) / 2)
    assert report.counts["few_negatives"] == 1
    assert report.notes == render_counts({"few_negatives": 1, "negatives": 5})
    assert set(report.metrics) == {"hr@1", "ndcg@1", "hr@2", "ndcg@2"}


def test_an_unknown_item_is_a_miss() -> None:
    train = events([("u", "a"), *(("v", item) for item in "abcdef")])
    table: dict[Id, dict[Id, float]] = {"u": {"b": 1}}
    report = evaluate(FixedScores(train, table), events([("u", "b"), ("u", "new")]), "sampled", k=1, negatives=4)
    assert report["hr@1"] == 1 / 2
    assert report.counts["unknown_items"] == 1


def test_scores_all_equal_are_chance() -> None:
    report = evaluate(FixedScores(events(TRAIN), {}), events(TEST), "sampled", k=10, negatives=100)
    assert report["hr@10"] == pytest.approx(10 / 101)
    assert report["ndcg@10"] == pytest.approx(sum(1 / log2(rank + 1) for rank in range(1, 11)) / 101)


def test_the_question_depends_on_seed_and_customer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ByRow(events(TRAIN), {})
    first = evaluate(model, events(TEST), "sampled", k=[1, 5, 20], negatives=20, seed=1)
    other_seed = evaluate(model, events(TEST), "sampled", k=[1, 5, 20], negatives=20, seed=2)
    assert (first.per_user["ndcg@5"] != other_seed.per_user["ndcg@5"]).any()

    # The same customers in other rows (one more customer, who comes first) and in other blocks.
    monkeypatch.setattr(held_out, "CELLS_PER_BLOCK", 600)
    more = [*TEST, *(("everything", item) for item in range(30))]
    second = evaluate(model, events(more), "sampled", k=[1, 5, 20], negatives=20, seed=1)
    assert second.users.id(0) == "everything"
    rows = second.users.rows(first.users.series)
    assert len(rows) > 20
    assert (rows != np.arange(len(rows))).any()
    for name, values in first.per_user.items():
        np.testing.assert_array_equal(second.per_user[name][rows], values)
