"""Items without events: what is held out, and the baselines."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.cold import AmongItems, AttributeNeighbours, CategoryPopularity, hold_out_items

DATA = Interactions.from_pairs(
    np.repeat(np.arange(40), 6), np.random.default_rng(1).integers(0, 30, 240), times=np.arange(240)
)
TRAIN, TEST = DATA.split("leave_last_out")
ATTRIBUTES = ItemAttributes.from_frame(
    pl.DataFrame({"item": range(30), "group": [f"g{number % 3}" for number in range(30)]})
)


def test_cold_items_have_no_training_event() -> None:
    task = hold_out_items(TRAIN, TEST, 0.2, seed=3)
    assert len(task.cold_items) == 6
    cold = set(task.cold_items.series.to_list())
    assert not cold & set(task.train.items.series.to_list())
    assert set(task.cold.items.ids(task.cold.item_rows)) <= cold
    assert not set(task.warm.items.ids(task.warm.item_rows)) & cold
    assert len(task.train) == len(task.histories) < len(TRAIN)
    assert task.histories.items.series.to_list() == [*task.train.items.series, *task.cold_items.series]
    again, other = hold_out_items(TRAIN, TEST, 0.2, seed=3), hold_out_items(TRAIN, TEST, 0.2, seed=4)
    assert again.cold_items == task.cold_items
    assert other.cold_items != task.cold_items


def test_customers_who_are_held_out_have_histories_and_are_not_trained_on() -> None:
    train, history, test = DATA.split("held_out_customers", share=0.4)
    task = hold_out_items(train, test, 0.2, histories=history)
    cold = set(task.cold_items.series.to_list())
    for part, found in ((train, task.train), (train, task.learned), (history, task.histories)):
        for row in range(len(DATA.users)):
            kept = [item for item in part.items.ids(part.history(row)) if item not in cold]
            assert found.items.ids(found.history(row)) == kept
    tested = set(task.cold.user_rows.tolist()) | set(task.warm.user_rows.tolist())
    assert tested == set(np.flatnonzero(task.histories.lengths).tolist())
    assert len(tested) > 5
    assert not task.train.lengths[list(tested)].any()
    shared = hold_out_items(TRAIN, TEST, 0.2)
    assert shared.histories is shared.learned


def test_some_items_are_ranked_before_all_others() -> None:
    task = hold_out_items(TRAIN, TEST, 0.2)
    scores = AmongItems(Popularity(task.histories), task.cold_items).score_histories(task.histories, np.array([0]))
    first = scores[0].argsort()[::-1][: len(task.cold_items)]
    assert {task.histories.items.id(int(row)) for row in first} == set(task.cold_items.series.to_list())


def test_a_category_counts_by_its_events() -> None:
    scores = CategoryPopularity(TRAIN, ATTRIBUTES).score_histories(TRAIN, np.array([0, 1]))
    for row, item in enumerate(TRAIN.items.series.to_list()):
        members = [one for one, other in enumerate(TRAIN.items.series.to_list()) if other % 3 == item % 3]
        assert scores[1, row] == TRAIN.item_counts[members].sum()


def test_neighbours_share_attributes_with_the_newest_items() -> None:
    data = Interactions.from_pairs([1, 1, 2], [0, 1, 2], times=[1, 2, 3])
    frame = pl.DataFrame({"item": [0, 1, 2, 3, 4], "group": ["a", "b", "c", "a", "b"]})
    attributes = ItemAttributes.from_frame(frame)
    everything = Interactions.from_pairs([1, 1, 2, 3, 3], [0, 1, 2, 3, 4], times=[1, 2, 3, 4, 5])
    system = AttributeNeighbours(everything, attributes)
    row = everything.users.row(1)
    scores = system.score_histories(everything, np.array([row]))[0]
    by_item = {item: scores[everything.items.row(item)] for item in range(5)}
    assert by_item[4] == pytest.approx(1.0)
    assert by_item[3] == pytest.approx(0.7)
    assert by_item[2] == 0
    assert len(data) == 3


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="share=1"):
        hold_out_items(TRAIN, TEST, 1)
    with pytest.raises(InputError, match="0 events of cold items"):
        hold_out_items(TRAIN, TEST, 0.001)
