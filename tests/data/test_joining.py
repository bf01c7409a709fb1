"""Events after others."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import append, reindex, take_items
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError

EARLIER = Interactions.from_pairs(["ann", "ann", "bob"], ["tea", "cup", "tea"], [1, 2, 1])
LATER = Interactions.from_pairs(["cyd", "ann", "ann"], ["pot", "pot", "jam"], [3, 4, 5], weights=[2.0, 3.0, 4.0])


def test_later_events_follow_those_of_the_same_customer() -> None:
    both = append(EARLIER, LATER)
    histories = {user: both.history_ids(user) for user in ("ann", "bob", "cyd")}
    assert histories == {"ann": ["tea", "cup", "pot", "jam"], "bob": ["tea"], "cyd": ["pot"]}
    assert both.items.series[:2].equals(EARLIER.items.series), "known rows do not change"
    assert both.weights is not None
    assert both.weights[: both.offsets[1]].tolist() == [1, 1, 3, 4]
    assert both.times is not None
    assert both.times.tolist() == [1, 2, 4, 5, 1, 3]


def test_events_without_labels_are_targets_and_whole_seconds_become_fractions() -> None:
    later = Interactions.from_pairs(["ann", "bob"], ["cup", "cup"], [2.5, 3.5], labels=[True, False])
    both = append(EARLIER, later)
    assert both.labels is not None
    assert both.labels.tolist() == [True, True, True, True, False]
    assert both.times is not None
    assert both.times.tolist() == [1, 2, 2.5, 1, 3.5]
    assert append(later, EARLIER).labels is not None


def test_times_are_lost_if_one_part_has_none() -> None:
    without = Interactions(EARLIER.users, EARLIER.items, EARLIER.offsets, EARLIER.item_rows)
    assert append(without, LATER).times is None


def test_rows_of_other_vocabularies() -> None:
    users, items = Vocabulary(["bob", "x", "ann"], name="user"), Vocabulary(["cup", "y", "tea"], name="item")
    moved = reindex(EARLIER, users, items)
    assert moved.lengths.tolist() == [1, 0, 2]
    assert moved.history_ids("ann") == ["tea", "cup"]


def test_ids_of_two_types_are_an_error() -> None:
    with pytest.raises(InputError, match=r"items are 'tea' .string. on one side and 7 .integer. on the other"):
        append(EARLIER, Interactions.from_pairs(["ann"], [7], [1]))


def test_some_items() -> None:
    both = append(EARLIER, LATER)
    kept = take_items(both, np.array([both.items.row("pot"), both.items.row("tea")]))
    assert kept.items.series.to_list() == ["pot", "tea"]
    assert kept.history_ids("ann") == ["tea", "pot"]
