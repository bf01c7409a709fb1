"""Orders: sets of events that are predicted together, from the orders before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.epochs import EpochRunner
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.model.notes import NoteKind
from tests.learning.grouped_data import grouped, quick


def shop(size: int = 3, **columns: Any) -> Interactions:
    """Grouped customers whose neighbouring events are orders of this size."""
    data = grouped()
    position = np.arange(len(data)) - data.offsets[data.user_rows]
    orders = [f"{user}-{number}" for user, number in zip(data.user_rows, position // size, strict=True)]
    pairs = data.users.ids(data.user_rows), data.items.ids(data.item_rows)
    return Interactions.from_pairs(*pairs, times=position // size, orders=orders, **columns)


def kinds(run: TrainingRun) -> set[NoteKind]:
    return {note.kind for note in run.notes}


def test_orders_of_several_items_are_used_by_default() -> None:
    run = TrainingRun(shop(), quick())
    assert (run.config.history, run.config.recency) == ("orders", 1.0)
    (note,) = [note for note in run.notes if note.kind is NoteKind.ORDERS]
    positions = shop().user_rows * 10_000 + shop().order_positions
    assert note.values["orders"] == len(np.unique(positions))
    assert "items on average" in str(note)


def test_a_recency_makes_the_items_of_an_order_a_sequence() -> None:
    run = TrainingRun(shop(), quick(recency=0.7))
    assert run.config.history == "causal"
    assert NoteKind.ORDERS_NOT_USED in kinds(run)


def test_orders_of_one_item_give_the_points_of_events_without_orders() -> None:
    data = shop(size=1)
    with_orders, without = (train(one, quick(), progress=False) for one in (data, replace(data, orders=None)))
    assert with_orders.config.history == "causal"
    assert np.array_equal(with_orders.item_points, without.item_points)


def test_points_do_not_depend_on_the_order_within_an_order() -> None:
    first, second = shop(tie_seed=0), shop(tie_seed=1)
    assert not np.array_equal(first.item_rows, second.item_rows)
    models = [train(data, quick(), progress=False) for data in (first, second)]
    np.testing.assert_allclose(models[0].item_points, models[1].item_points, rtol=1e-3, atol=1e-3)
    sequences = [train(data, quick(recency=0.7), progress=False) for data in (first, second)]
    assert np.abs(sequences[0].item_points - sequences[1].item_points).max() > 0.05


def test_the_first_order_is_no_target() -> None:
    data = shop()
    run = TrainingRun(data, quick())
    assert run.positives == (data.order_positions > 0).sum()


def test_customers_of_one_order_teach_nothing() -> None:
    data = shop()
    with pytest.raises(InputError, match="no customer has an event to learn from"):
        TrainingRun(replace(data, orders=np.zeros(len(data), np.int32)), quick())


def test_customers_of_one_order_are_counted() -> None:
    data = shop()
    orders = np.where(data.user_rows < 7, 0, data.order_positions)
    (note,) = [
        note
        for note in TrainingRun(replace(data, orders=orders.astype(np.int32)), quick()).notes
        if note.kind is NoteKind.SINGLE_ORDER
    ]
    assert str(note) == "7 customers have a single order and nothing to predict it from: not used in training"


def test_whole_orders_are_held_out() -> None:
    data = shop()
    run = TrainingRun(data, quick(validation=20))
    assert run.held_out is not None
    customers = np.flatnonzero(run.held_out.lengths)
    assert len(customers) == 20
    last = data.order_positions[data.offsets[customers + 1] - 1]
    for customer, position in zip(customers.tolist(), last.tolist(), strict=True):
        own = slice(data.offsets[customer], data.offsets[customer + 1])
        whole = data.item_rows[own][data.order_positions[own] == position]
        assert run.held_out.history(customer).tolist() == whole.tolist()


def test_another_engine_does_not_learn_from_orders() -> None:
    run = TrainingRun(shop(), quick(), make_runner=EpochRunner)
    assert run.config.history == "causal"
    assert NoteKind.ORDERS_NOT_USED in kinds(run)
    with pytest.raises(ConfigError, match="only the local engine learns from orders"):
        TrainingRun(shop(), quick(history="orders"), make_runner=EpochRunner)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "orders", "recency": 0.7}, "all items of which count alike"),
        ({"history": "orders", "model": "symmetric"}, "customers have points of their own"),
    ],
)
def test_orders_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(**options)


def test_times_are_needed_to_learn_from_orders() -> None:
    with pytest.raises(ConfigError, match="history=orders needs times"):
        TrainingRun(replace(grouped(), times=None), quick(history="orders"))


def test_a_model_of_orders_continues_with_data_whose_orders_have_one_item() -> None:
    """The rule that most events have an order with others decides only where `history` is left open."""
    single = shop(size=1)
    assert not single.in_orders
    assert TrainingRun(single, quick()).config.history == "causal"
    assert TrainingRun(single, quick(history="orders")).config.history == "orders"


def test_orders_that_overlap_are_learned_and_held_out_whole() -> None:
    data = shop()
    rows = np.arange(len(data))
    before, after = (
        data.offsets[:-1] + 2,
        data.offsets[:-1] + 3,
    )  # the last event of an order, and the first of the next
    rows[before], rows[after] = after, before
    run = TrainingRun(data.take(rows, data.lengths), quick(validation=0.5))
    assert (np.diff(run.training_data.order_positions)[np.diff(run.training_data.user_rows) == 0] >= 0).all()
    assert run.held_out is not None
    assert run.held_out.orders is not None
    assert run.training_data.orders is not None
    kept = set(zip(run.training_data.user_rows.tolist(), run.training_data.orders.tolist(), strict=True))
    assert kept.isdisjoint(zip(run.held_out.user_rows.tolist(), run.held_out.orders.tolist(), strict=True))
