"""Labels: events that are not targets are part of histories, and are never predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.model.notes import Note, NoteKind
from tests.learning.grouped_data import grouped, quick

DATA = grouped(events=1500)
KINDS: list[dict[str, Any]] = [
    {"model": "asymmetric", "history": "causal"},
    {"model": "asymmetric", "history": "folds"},
    {"model": "symmetric", "loss": "wmrb"},
    {"model": "symmetric", "loss": "bpr"},
]
every_kind = pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(options.values()))


def labelled(data: Interactions, labels: Any) -> Interactions:
    return replace(data, labels=np.asarray(labels, bool))


@every_kind
def test_labels_that_are_all_set_change_nothing(options: dict[str, Any]) -> None:
    plain = train(DATA, quick(**options), progress=False)
    same = train(labelled(DATA, np.ones(len(DATA))), quick(**options), progress=False)
    assert same.item_points.tobytes() == plain.item_points.tobytes()
    assert [epoch.loss for epoch in same.record] == [epoch.loss for epoch in plain.record]


@every_kind
def test_only_labelled_events_are_positives(options: dict[str, Any]) -> None:
    """Three customers: no label, only the first event, and the second and last of three."""
    data = Interactions.from_pairs([1, 1, 2, 2, 3, 3, 3, 4], [1, 2, 3, 4, 1, 3, 5, 6], np.arange(8))
    marked = np.isin(np.arange(8), [2, 5, 6])
    rows = {user: data.users.row(user) for user in (1, 2, 3)}
    in_order = np.argsort(
        np.argsort([rows.get(user, 9) * 10 + place for place, user in enumerate([1, 1, 2, 2, 3, 3, 3, 4])])
    )
    labels = np.zeros(8, bool)
    labels[in_order] = marked
    run = TrainingRun(labelled(data, labels), quick(**options, negative_count=1))
    causal = options.get("history") == "causal"
    assert run.learners.tolist() == sorted([rows[3]] if causal else [rows[2], rows[3]])
    assert run.positives == (2 if causal else 3)
    assert Note(NoteKind.NO_PREDICTABLE_LABEL, {"customers": 3 if causal else 2}) in run.notes


@pytest.mark.parametrize("options", [KINDS[0], KINDS[2]], ids=["asymmetric", "symmetric"])
def test_a_model_ranks_what_is_labelled(options: dict[str, Any]) -> None:
    """Every second event is a purchase, of items that are never viewed: recommendations are what is purchased."""
    random = np.random.default_rng(1)
    users = np.repeat(np.arange(60), 20)
    bought = np.tile(np.arange(20) % 2 == 1, 60)
    items = users % 3 * 20 + random.integers(0, 10, len(users)) + 10 * bought
    data = Interactions.from_pairs(users, items, np.arange(len(users)))
    ids = np.array(data.items.series.to_list())
    purchases = ids % 20 >= 10
    marked = labelled(data, purchases[data.item_rows])
    trained = train(marked, quick(epochs=30, **options), progress=False)
    scores = trained.score_histories(data, np.arange(60))
    best = np.argsort(-scores, axis=1)[:, :5]
    assert purchases[best].mean() > 0.95


def test_labels_without_anything_to_learn_are_refused() -> None:
    with pytest.raises(InputError, match="no customer has an event to learn from: with labels, one must be labelled"):
        train(labelled(DATA, np.zeros(len(DATA))), quick(), progress=False)


@pytest.mark.parametrize("times", [True, False])
def test_validation_holds_labelled_events_out(times: bool) -> None:
    data = DATA if times else replace(DATA, times=None)
    labels = np.random.default_rng(2).random(len(data)) < 0.5
    run = TrainingRun(labelled(data, labels), quick(validation=20))
    assert run.held_out is not None
    assert run.held_out.labels is not None
    assert len(run.held_out) == 20
    assert run.held_out.labels.all()
    assert evaluate(run._model(run._points()), run.held_out, intervals=False)["hr@10"] >= 0
