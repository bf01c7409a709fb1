"""Events that are found one by one."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.next_events import next_events

DATA = Interactions.from_pairs(
    ["ann", "ann", "ann", "bob", "cyd", "cyd"], ["a", "b", "c", "a", "b", "d"], [1, 8, 9, 9, 2, 9]
)


def test_every_event_has_the_history_before_it() -> None:
    assert DATA.times is not None
    task = next_events(DATA, DATA.times >= 8)
    names = [
        (DATA.items.ids(task.histories.history(row)), DATA.items.ids(task.test.history(row)))
        for row in range(len(task.test.users))
    ]
    assert sorted(names) == [(["a"], ["b"]), (["a", "b"], ["c"]), (["b"], ["d"])]


def test_some_events_at_random() -> None:
    task = next_events(DATA, np.ones(len(DATA), bool), limit=2)
    assert len(task.test) == 2
    assert task.test.lengths.tolist() == [1, 1]


def test_only_targets_are_found() -> None:
    labelled = Interactions.from_pairs(["ann"] * 3, ["a", "b", "c"], [1, 2, 3], labels=[True, False, True])
    task = next_events(labelled, np.ones(3, bool))
    assert labelled.items.ids(task.test.item_rows) == ["c"]
    assert labelled.items.ids(task.histories.item_rows) == ["a", "b"]


def test_events_of_an_order_are_found_from_earlier_orders() -> None:
    data = Interactions.from_pairs(["ann"] * 5, ["a", "b", "c", "d", "e"], [1, 1, 2, 2, 3])
    task = next_events(data, np.ones(5, bool))
    found = {
        data.items.id(int(task.test.history(row)[0])): sorted(data.items.ids(task.histories.history(row)))
        for row in range(len(task.test.users))
    }
    assert found == {"c": ["a", "b"], "d": ["a", "b"], "e": ["a", "b", "c", "d"]}
