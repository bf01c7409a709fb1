"""Orders: sets of events that are predicted together, from the orders before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorentzrec.data import interactions
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning import recency_choice
from lorentzrec.learning import run as run_module
from lorentzrec.learning.epochs import EpochRunner
from lorentzrec.learning.recency_choice import EPOCHS
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.points import read_history
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


def test_a_given_recency_counts_orders() -> None:
    run = TrainingRun(shop(), quick(recency=0.7))
    assert (run.config.history, run.config.recency) == ("orders", 0.7)
    assert kinds(run).isdisjoint({NoteKind.RECENCY, NoteKind.RECENCY_KEPT})


def test_causal_histories_make_the_items_of_an_order_a_sequence() -> None:
    run = TrainingRun(shop(), quick(history="causal"))
    assert run.config.history == "causal"
    assert NoteKind.ORDERS_NOT_USED in kinds(run)


def test_equal_times_are_orders_unless_they_are_a_sequence() -> None:
    data = replace(shop(), orders=None)
    assert data.in_orders
    assert TrainingRun(data, quick()).config.history == "orders"
    assert not replace(data, ties_given=True).in_orders
    assert TrainingRun(replace(data, ties_given=True), quick()).config.history == "causal"


def test_one_order_or_time_for_all_events_teaches_nothing() -> None:
    data = shop()
    for alone in (replace(data, times=np.zeros(len(data))), replace(data, times=np.full(len(data), 5.0), orders=None)):
        if alone.orders is not None:
            alone = replace(alone, orders=np.zeros(len(data), np.int32))
        with pytest.raises(InputError, match=r"every customer has a single order.*: check the columns of orders and"):
            TrainingRun(alone, quick())
        assert TrainingRun(alone, quick(history="folds")).positives == len(data)


def test_an_order_id_of_two_customers_is_an_order_of_each() -> None:
    data = Interactions.from_pairs(["a", "b"], ["x", "y"], [0, 0], orders=["1", "1"])
    assert data.order_positions.tolist() == [0, 0]
    assert not data.in_orders


def test_an_order_with_different_times_is_one_order() -> None:
    data = Interactions.from_pairs(["a"] * 3, ["x", "y", "z"], [0, 1, 2], orders=["1", "1", "2"])
    assert data.order_ages is not None
    assert data.order_ages.tolist() == [1, 1, 0]


@pytest.mark.parametrize("recency", [0.5, 1.0])
def test_queries_weigh_orders_as_training_does(recency: float) -> None:
    """The running sum of the kernels, written as ages: an order weighs less than the order after it."""
    data = shop()
    model = train(data, quick(recency=recency), progress=False)
    user = int(np.argmax(data.lengths))
    own = slice(data.offsets[user], data.offsets[user + 1])
    positions = data.order_positions[own]
    weights = recency ** (positions.max() - positions).astype(float)
    points = model.points.precise_histories(data.item_rows[own])
    expected = model.points.space.midpoint(points, weights)
    np.testing.assert_allclose(model.points.query(*read_history(data, user).for_query), expected, rtol=1e-9)
    given = data.histories_of(np.array([user]))
    np.testing.assert_allclose(model.points.queries(*given.for_queries)[0], expected, rtol=1e-9)


def test_recency_is_chosen_by_seed_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recency_choice, "FEWEST_CUSTOMERS", 5)
    data = shop()
    runs = [TrainingRun(data, quick(epochs=EPOCHS, seed=1)) for _ in range(2)]
    assert runs[0].config == runs[1].config
    choice = {NoteKind.RECENCY, NoteKind.RECENCY_KEPT}
    assert len(kinds(runs[0]) & choice) == 1
    (note,) = [note for note in runs[0].notes if note.kind in choice]
    assert note.values["recency"] == runs[0].config.recency
    assert note.values["customers"] >= 5
    assert not kinds(TrainingRun(data, quick(epochs=EPOCHS, history="causal"))) & choice


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
    decayed = [train(data, quick(recency=0.7), progress=False) for data in (first, second)]
    np.testing.assert_allclose(decayed[0].item_points, decayed[1].item_points, rtol=1e-3, atol=1e-3)
    sequences = [train(data, quick(history="causal"), progress=False) for data in (first, second)]
    assert np.abs(sequences[0].item_points - sequences[1].item_points).max() > 0.05


def test_the_first_order_is_no_target() -> None:
    data = shop()
    run = TrainingRun(data, quick())
    assert run.positives == (data.order_positions > 0).sum()


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


def test_another_engine_learns_from_orders() -> None:
    run = TrainingRun(shop(), quick(), make_runner=EpochRunner)
    assert run.config.history == "orders"
    assert NoteKind.ORDERS in kinds(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
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


def test_orders_and_times_are_histories() -> None:
    model = train(shop(), quick(recency=0.5), progress=False)
    a, b, c = model.items.ids([0, 1, 2])
    by_orders = model.recommend_orders([[a, b], [c]], k=5)
    assert by_orders == model.recommend([a, b, c], times=[1, 1, 7], k=5)
    assert by_orders == model.recommend_orders([[b, a], [c]], k=5)
    assert model.recommend_many([[a, b, c]], times=[[1, 1, 7]], k=5)[0] == by_orders
    query, sequence = (model.score([model.items.id(9)], history) for history in ([a, b], [b, a]))
    assert query != sequence
    with pytest.raises(InputError, match="the times of a history fall"):
        model.recommend([a, b, c], times=[3, 2, 1])
    with pytest.raises(InputError, match="there are 1 times of 3 events"):
        model.recommend([a, b, c], times=[1])


def test_a_new_item_is_placed_by_the_orders_before_it() -> None:
    data = shop()
    model = train(data, quick(recency=0.5), progress=False)
    items = model.items.ids([0, 1, 2, 3])

    def place(with_it: int) -> Any:
        """The new item is bought with one item, after an order of two others."""
        events = Interactions.from_pairs(
            [998] * 4, [items[0], items[1], 999, items[with_it]], [1e9, 1e9, 1e9 + 1, 1e9 + 1]
        )
        extended = replace(model, histories=replace(data, orders=None)).add_items(events=events)
        return extended.item_points[extended.items.row(999)]

    np.testing.assert_allclose(place(2), place(3))
    earlier = model.points.query(np.array([0, 1]), None, np.array([0, 0]))
    together = model.points.query(np.array([0, 1, 2]), None, np.array([1, 1, 0]))
    scores = model.points.space.score_points(place(2).astype(float), np.array([earlier, together]))
    assert scores[0] > scores[1]


def test_first_purchases_are_in_no_earlier_order() -> None:
    data = Interactions.from_pairs([1, 1, 1, 2, 1, 1, 2], [5, 5, 6, 5, 5, 7, 5], times=[0, 0, 0, 1, 2, 2, 3])
    assert data.times is not None
    events = zip(data.users.ids(data.user_rows), data.items.ids(data.item_rows), data.times, strict=True)
    again = [event for event, first in zip(events, data.first_purchases, strict=True) if not first]
    assert again == [(1, 5, 2), (2, 5, 3)]


def test_held_out_orders_are_learned_after_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    data, config = shop(), quick(memory="auto", recency=1.0)
    reserved = TrainingRun(data, config)
    assert reserved.newest_orders is not None
    learned = train(data, config, progress=False)
    (note,) = [note for note in learned.note_records if note.kind is NoteKind.NEWEST_LEARNED]
    assert note.values["orders"] == int((reserved.newest_orders.lengths > 0).sum())
    monkeypatch.setattr(run_module, "NEWEST_EPOCHS", 0)
    without = train(data, config, progress=False)

    def find(model: Model) -> float:
        points, newest = model.with_points(memory=None, repeats=None), reserved.newest_orders
        assert newest is not None
        return evaluate(points, newest, histories=reserved.training_data, intervals=False)["ndcg@10"]

    assert find(learned) > find(without)
    sequences = TrainingRun(data, quick(memory="auto", history="causal"))
    assert sequences.halves is not None
    assert sequences.newest_orders is None


@pytest.mark.parametrize("events_at_once", [1, 3, 1_000_000])
def test_orders_of_some_customers_at_a_time_are_those_of_all(
    events_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of six events are in orders of several events; of seven, fewer than half."""
    monkeypatch.setattr(interactions, "EVENTS_AT_ONCE", events_at_once)
    users, times = ["x", "x", "x", "y", "y", "z"], [1, 1, 1, 1, 2, 1]
    assert Interactions.from_pairs(users, list("abcdef"), times).in_orders
    assert not Interactions.from_pairs([*users, "z"], list("abcdefg"), [*times, 2]).in_orders


def test_events_of_some_customers_are_alone_in_the_rows_of_all() -> None:
    data = Interactions.from_pairs(["x", "x", "y", "z", "z"], list("abcde"), [1, 2, 1, 1, 2])
    rows = data.users.rows(data.users.series)[[data.users.row("z"), data.users.row("x")]]
    some = data.of_customers(rows)
    assert [some.history_ids(user) for user in ("x", "y", "z")] == [["a", "b"], [], ["d", "e"]]
    assert len(data.of_customers(rows[:0])) == 0
