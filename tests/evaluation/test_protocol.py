"""`evaluate`: ids that differ, customers without history, samples, intervals, and invalid options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import evaluate
from tests.evaluation.fixed_scores import FixedScores, events

TRAIN = events([("u", "a"), ("u", "b"), ("v", "a"), ("v", "c"), ("w", "d"), ("w", "a")])
TABLE: dict[Id, dict[Id, float]] = {
    "u": {"c": 3, "d": 2},
    "v": {"d": 2, "b": 1},
    "w": {"b": 2, "c": 1},
    "new": {"d": 4, "c": 3, "b": 2, "a": 1},
}
MODEL = FixedScores(TRAIN, TABLE)


def test_a_test_file_with_other_rows() -> None:
    """The same result whether the test shares the model's vocabularies or has its own, in another order."""
    pairs: list[tuple[Id, Id]] = [("w", "c"), ("u", "c"), ("w", "b")]
    own_rows = events(pairs)
    assert own_rows.items != TRAIN.items
    whole = events([*_pairs(TRAIN), *pairs])
    keep = np.array([TRAIN.history_ids(user).count(item) == 0 for user, item in _pairs(whole)])
    shared = whole.select(keep)
    assert shared.users.series.to_list() != own_rows.users.series.to_list()
    first, second = evaluate(MODEL, own_rows, k=2), evaluate(MODEL, shared, k=2)
    assert first["ndcg@2"] == pytest.approx(second["ndcg@2"])
    assert first["ndcg@2"] == pytest.approx(1)
    assert first.counts == second.counts


def _pairs(data: Interactions) -> list[tuple[Id, Id]]:
    return list(zip(data.users.ids(data.user_rows), data.items.ids(data.item_rows), strict=True))


def test_unknown_items_are_counted_misses() -> None:
    report = evaluate(MODEL, events([("u", "c"), ("u", "x"), ("v", "y")]), k=2, intervals=False)
    assert report["recall@2"] == (1 / 2 + 0) / 2
    assert report.counts["unknown_items"] == 2
    assert "2 held-out items are not known to the model: counted as misses" in report.notes


@pytest.mark.parametrize("k", [np.int64(2), np.array([2, 1]), [np.int32(1), 2]])
def test_lengths_of_lists_may_be_numpy_integers(k: Any) -> None:
    test = events([("u", "c"), ("v", "b")])
    report = evaluate(MODEL, test, k=k, intervals=False)
    assert report["recall@2"] == evaluate(MODEL, test, k=2, intervals=False)["recall@2"] == 1


def test_only_targets_are_looked_for() -> None:
    pairs: list[tuple[Id, Id]] = [("u", "c"), ("u", "d"), ("v", "b")]
    users, items = zip(*pairs, strict=True)
    bought = Interactions.from_pairs(users, items, labels=[True, False, False])
    report = evaluate(MODEL, bought, k=1, intervals=False)
    assert report["recall@1"] == 1
    assert (report.counts["users"], report.counts["events"]) == (1, 1)


def test_untrained_items_are_counted() -> None:
    whole = events([*_pairs(TRAIN), ("u", "z")])
    train = whole.select(whole.item_rows != whole.items.row("z"))
    report = evaluate(FixedScores(train, {"u": {"z": 1}}), events([("u", "z")]), k=1)
    assert report["hr@1"] == 1
    assert report.counts["untrained_items"] == 1


def test_a_customer_without_history_is_evaluated() -> None:
    report = evaluate(MODEL, events([("u", "c"), ("new", "a")]), k=4, intervals=False)
    assert report["mrr@4"] == pytest.approx((1 + 1 / 4) / 2)
    assert report.counts["without_history"] == 1
    assert "1 customer has no history: evaluated with an empty one" in report.notes


def test_a_repeated_event_is_one_item() -> None:
    test = Interactions.from_pairs(["u", "u", "u"], ["c", "c", "d"], times=[1, 2, 3])
    report = evaluate(MODEL, test, k=1, intervals=False)
    assert report["recall@1"] == 1 / 2
    assert (report.counts["events"], report.counts["repeated_events"]) == (2, 1)


def test_histories_of_new_customers() -> None:
    """Strong generalisation: no customer of the test is in training; one event is of an item the model never saw."""
    histories = events([("x", "d"), ("x", "never"), ("y", "a")])
    model = FixedScores(TRAIN, {"x": {"d": 9, "c": 2, "b": 1}, "y": {"b": 5}}, carried=False)
    report = evaluate(model, events([("x", "c"), ("y", "c")]), k=1, histories=histories, intervals=False)
    assert report.per_user["hr@1"].tolist() == [1, 0]
    assert report.counts["unknown_history_events"] == 1
    assert report.counts["in_history"] == 0


def test_notes_of_the_data_are_kept() -> None:
    test = TRAIN.select(TRAIN.item_rows == 0, notes=("the shop was closed in May",))
    assert evaluate(MODEL, test, k=1).notes[0] == "the shop was closed in May"


def test_a_sample_of_customers() -> None:
    pairs: list[tuple[Id, Id]] = [(number, number % 7) for number in range(50)]
    model = Popularity(events(pairs))
    test = events([(number, (number + 1) % 7) for number in range(50)])
    whole, sample, again = (evaluate(model, test, k=2, users=users, seed=4) for users in (None, 20, 20))
    assert (whole.counts["users_left_out"], sample.counts["users_left_out"]) == (0, 30)
    assert sample.users == again.users
    assert len(sample.users) == sample.counts["users"] == sample.counts["events"] == 20
    np.testing.assert_array_equal(
        sample.per_user["ndcg@2"], whole.per_user["ndcg@2"][whole.users.rows(sample.users.series)]
    )
    assert evaluate(model, test, k=2, users=20, seed=5).users != sample.users
    assert evaluate(model, test, k=2, users=50).users == whole.users


def test_intervals_are_those_of_the_mean() -> None:
    """200 customers, half of whom find their item: the mean is 1/2, its standard error sqrt(1/4 / 200)."""
    table: dict[Id, dict[Id, float]] = {number: {"a0": 1, "a1": 0} for number in range(200)}
    train = events([(number, "seen") for number in range(200)] + [(200, "a0"), (200, "a1")])
    test = events([(number, f"a{number % 2}") for number in range(200)])
    metric = evaluate(FixedScores(train, table), test, k=1).metrics["hr@1"]
    assert metric.value == 1 / 2
    assert metric.low is not None
    assert metric.high is not None
    error = np.sqrt(1 / 4 / 200)
    assert metric.low == pytest.approx(1 / 2 - 1.96 * error, abs=0.3 * error)
    assert metric.high == pytest.approx(1 / 2 + 1.96 * error, abs=0.3 * error)
    report = evaluate(FixedScores(train, table), test, k=1, intervals=False)
    assert all(metric.low is metric.high is None for metric in report.metrics.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "half"}, "no protocol 'half': choose full or sampled"),
        ({"k": 0}, "whole numbers of at least 1"),
        ({"k": []}, "whole numbers of at least 1"),
        ({"users": 0}, "users=0"),
        ({"seed": -1}, "seed=-1"),
        ({"protocol": "sampled", "k": 11, "negatives": 10}, "k=11 with 10 negatives always hits"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(MODEL, events([("u", "c")]), **options)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (TRAIN.select(np.zeros(len(TRAIN), bool)), "has no target"),
        (events([("u", "x"), ("v", "y")]), "knows none of the 2 held-out items"),
        (events([("u", 1)]), "knows none of the 1 held-out items .*strings.*integers"),
        (events([("stranger", "a")]), "none of the 1 test customers has a history"),
        (events([(7, "a")]), r"users are .u. .string. on one side and 7 .integer. on the other"),
    ],
)
def test_tests_that_cannot_be_used(test: Interactions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(MODEL, test)


def test_a_model_without_histories() -> None:
    with pytest.raises(InputError, match="pass the events before the test as histories="):
        evaluate(FixedScores(TRAIN, TABLE, carried=False), events([("u", "c")]))


class Wrong(FixedScores):
    def __init__(self, scores: NDArray[np.float32]) -> None:
        super().__init__(TRAIN, {})
        self.scores = scores

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.scores


def test_scores_that_are_no_numbers() -> None:
    scores = np.zeros((1, 4), np.float32)
    scores[0, TRAIN.items.row("c")] = np.nan
    with pytest.raises(InputError, match="scores item 'c' for user 'u' as nan"):
        evaluate(Wrong(scores), events([("u", "c")]))


def test_scores_of_the_wrong_shape() -> None:
    with pytest.raises(InputError, match=r"returned an array of shape \(1, 3\): return \(1, 4\)"):
        evaluate(Wrong(np.zeros((1, 3), np.float32)), events([("u", "c")]))
