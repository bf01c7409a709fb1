"""Splits: hand-written expectations for small data, and laws that hold for any data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data import splitting
from lorentzrec.data.event_order import KEY_RANGE, random_key
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import RULES, EventColumns, register_split, split
from lorentzrec.errors import ConfigError, InputError

DAY = 86_400


def events(*rows: tuple[str, str, int]) -> Interactions:
    users, items, times = zip(*rows, strict=True)
    return Interactions.from_pairs(list(users), list(items), list(times))


def triples(part: Interactions) -> list[tuple[Any, Any, Any]]:
    """(user, item, time) of every event, sorted."""
    times = part.times if part.times is not None else [None] * len(part)
    rows = zip(part.users.ids(part.user_rows), part.items.ids(part.item_rows), times, strict=True)
    return sorted(rows, key=repr)


SMALL = events(
    ("ann", "a", 1),
    ("ann", "b", 2),
    ("ann", "c", 3),
    ("ann", "d", 4),
    ("bob", "b", 9),
    ("bob", "a", 5),
    ("cat", "e", 7),
)


def test_leave_last_out_takes_the_newest_event_of_everyone_with_two() -> None:
    train, test = split(SMALL, "leave_last_out")
    assert triples(test) == [("ann", "d", 4), ("bob", "b", 9)]
    assert triples(train) == [("ann", "a", 1), ("ann", "b", 2), ("ann", "c", 3), ("bob", "a", 5), ("cat", "e", 7)]
    assert test.notes == train.notes == ("1 customer with fewer than 2 events stays entirely in training",)
    assert train.items is SMALL.items
    assert train.users is SMALL.users


def test_leave_last_two_needs_three_events() -> None:
    train, validation, test = split(SMALL, "leave_last_two")
    assert triples(test) == [("ann", "d", 4)]
    assert triples(validation) == [("ann", "c", 3)]
    assert len(train) == 5
    assert test.notes == ("2 customers with fewer than 3 events stay entirely in training",)


def test_equal_times_do_not_decide_which_item_is_last() -> None:
    tied = events(*((f"u{number}", item, 5) for number in range(300) for item in "abc"))
    _, test = split(tied, "leave_last_out")
    counts = [sum(item == one for _, item, _ in triples(test)) for one in "abc"]
    assert all(70 < count < 130 for count in counts), counts


def test_last_days_cuts_at_the_newest_time_of_all() -> None:
    data = events(
        ("ann", "a", 0),
        ("ann", "b", 3 * DAY),  # exactly 7 days before the end: still training
        ("ann", "c", 3 * DAY + 1),
        ("bob", "a", 10 * DAY),  # seen first in the test week
        ("cat", "a", 1 * DAY),
        ("cat", "b", 10 * DAY),
    )
    train, test = split(data, "last_days", days=7)
    assert triples(train) == [("ann", "a", 0), ("ann", "b", 3 * DAY), ("cat", "a", 1 * DAY)]
    assert triples(test) == [("ann", "c", 3 * DAY + 1), ("cat", "b", 10 * DAY)]
    assert test.notes == ("1 event left out, of 1 customer first seen after training ends",)


def test_unseen_items_leave_the_test_part_and_are_counted() -> None:
    train, test = split(SMALL, "leave_last_out", drop_unseen_items=True)
    assert triples(test) == [("bob", "b", 9)]
    assert test.notes[-1] == "1 test event removed because their item has no training event"
    assert len(train) == 5


def test_weights_and_times_stay_with_their_events() -> None:
    data = Interactions.from_pairs(["u", "u", "u"], ["a", "b", "c"], [30, 10, 20], [3.0, 1.0, 2.0])
    train, test = split(data, "leave_last_out")
    assert test.weights is not None
    assert train.weights is not None
    assert test.weights.tolist() == [3.0]
    assert train.weights.tolist() == [1.0, 2.0]


def test_without_times_last_is_random_with_a_note() -> None:
    users = np.repeat(np.arange(3000), 3)
    items = np.tile(np.arange(3), 3000)
    data = Interactions.from_pairs(users, items)
    train, test = split(data, "leave_last_out", seed=1)
    assert len(test) == 3000
    assert train.lengths.tolist() == [2] * 3000
    assert test.notes == ("without times, leave_last_out takes events of each customer at random",)
    assert all(900 < count < 1100 for count in test.item_counts)  # 1000 each, six standard deviations are 155
    again = split(data, "leave_last_out", seed=1)[1]
    other = split(data, "leave_last_out", seed=2)[1]
    assert again.digest == test.digest
    assert other.digest != test.digest


def test_without_times_leave_last_two_takes_two_different_events() -> None:
    data = Interactions.from_pairs(np.repeat(np.arange(500), 3), np.tile(np.arange(3), 500))
    train, validation, test = split(data, "leave_last_two", seed=3)
    for part in (train, validation, test):
        assert part.lengths.tolist() == [1] * 500
    pairs = {tuple(row) for row in np.stack([validation.item_rows, test.item_rows], axis=1).tolist()}
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}


def test_random_takes_about_the_ratio_and_leaves_everyone_one_event() -> None:
    data = Interactions.from_pairs(np.repeat(np.arange(2000), 10), np.tile(np.arange(10), 2000))
    train, test = split(data, "random", ratio=0.3, seed=5)
    assert len(train) + len(test) == 20_000
    assert abs(len(test) / 20_000 - 0.3 * 9 / 10) < 0.02  # one event in ten is protected
    crowd = Interactions.from_pairs(np.arange(2000) // 2, np.arange(2000))
    assert split(crowd, "random", ratio=0.99, seed=5)[0].lengths.min() == 1


def test_held_out_customers_have_no_training_events() -> None:
    data = Interactions.from_pairs(np.repeat(np.arange(1000), 4), np.tile(np.arange(4), 1000), np.arange(4000))
    train, history, test = split(data, "held_out_customers", share=0.25, seed=2)
    held = test.lengths > 0
    assert abs(held.mean() - 0.25) < 0.06
    assert (train.lengths[held] == 0).all()
    assert (train.lengths[~held] == 4).all()
    assert (history.lengths[held] == 3).all()
    assert test.items.ids(test.item_rows) == [3] * int(held.sum())


def test_given_shares_the_vocabularies_and_leaves_out_unknown_customers() -> None:
    train = events(("ann", "a", 1), ("bob", "b", 2), ("bob", "a", 3))
    later = events(("dan", "a", 9), ("ann", "new", 8), ("ann", "b", 7), ("bob", "a", 6))
    first, test = split(train, "given", test=later)
    assert triples(test) == [("ann", "b", 7), ("ann", "new", 8), ("bob", "a", 6)]
    assert triples(first) == triples(train)
    assert first.items == test.items
    assert len(train.items) == 2  # the caller's own data stay as they were
    assert test.notes == ("1 test event left out because their customer has no training event",)
    kept = split(train, "given", test=later, drop_unseen_items=True)[1]
    assert triples(kept) == [("ann", "b", 7), ("bob", "a", 6)]


def test_given_refuses_parts_that_do_not_fit() -> None:
    numbers = Interactions.from_pairs([1], ["a"], [1])
    with pytest.raises(InputError, match=r"users are .ann. .string. on one side and 1 .integer. on the other"):
        split(SMALL, "given", test=numbers)
    with pytest.raises(InputError, match="one of the two parts has times"):
        split(SMALL, "given", test=Interactions.from_pairs(["ann"], ["a"]))
    with pytest.raises(ConfigError, match="takes test="):
        split(SMALL, "given")


def test_wrong_names_and_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="no split 'leave_one': use one of leave_last_out, leave_last_two, last_days"):
        split(SMALL, "leave_one")
    with pytest.raises(ConfigError, match="last_days has no option 'weeks': use days, drop_unseen_items"):
        split(SMALL, "last_days", weeks=1)
    with pytest.raises(ConfigError, match=r"ratio is 1\.5"):
        split(SMALL, "random", ratio=1.5)
    with pytest.raises(ConfigError, match="days is 0"):
        split(SMALL, "last_days", days=0)
    with pytest.raises(InputError, match="needs times"):
        split(Interactions.from_pairs([1, 1], [1, 2]), "last_days")
    with pytest.raises(InputError, match="leaves the test part without events"):
        split(events(("ann", "a", 1), ("bob", "a", 2)), "leave_last_out")


def test_random_key_equals_its_definition_in_python_integers() -> None:
    users = np.array([0, 1, 2**31 - 1, 2**40], np.int64)
    for user, key in zip(users.tolist(), random_key(7, users).tolist(), strict=True):
        expected = (user + 7 * 1_000_003 + 12_345) % KEY_RANGE
        expected = pow(expected * 1_640_531_527 + 748_932_582, 2, KEY_RANGE)
        expected = pow(expected * 1_566_083_941 + 362_436_069, 2, KEY_RANGE)
        assert key == expected * 1_812_433_253 % KEY_RANGE


def test_random_key_is_spread_evenly() -> None:
    keys = random_key(3, np.repeat(np.arange(1000), 100), np.tile(np.arange(100), 1000))
    counts = np.histogram(keys, bins=50, range=(0, KEY_RANGE))[0]
    # A chi-squared variable of 49 degrees of freedom: mean 49, standard deviation 10.
    assert ((counts - 2000) ** 2 / 2000).sum() < 110
    grid = keys.reshape(1000, 100)
    for ours, theirs in ((grid[:, :-1], grid[:, 1:]), (grid[:-1], grid[1:]), (grid[:-1, :-1], grid[1:, 1:])):
        assert abs(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1]) < 0.02  # six standard deviations
    # Pairs of neighbours over a 10 x 10 board, 990 in each field on average: no lattice shows.
    board = np.histogram2d(grid[:, :-1].ravel(), grid[:, 1:].ravel(), bins=10, range=[(0, KEY_RANGE)] * 2)[0]
    assert ((board - 990) ** 2 / 990).sum() < 99 + 6 * np.sqrt(2 * 99)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(0, 20 * DAY)), min_size=1, max_size=40),
    st.sampled_from(sorted(RULES)),
    st.booleans(),
    st.integers(0, 5),
)
def test_parts_are_disjoint_and_everyone_in_test_is_known(
    rows: list[tuple[int, int, int]], how: str, timed: bool, seed: int
) -> None:
    users, items, times = (list(column) for column in zip(*rows, strict=True))
    data = Interactions.from_pairs(users, items, times if timed else None)
    options: dict[str, Any] = {} if how == "last_days" else {"seed": seed}
    try:
        parts = split(data, how, **options)
    except InputError:
        return  # nothing to test, or no times: refused with a reason
    together = sorted((row for part in parts for row in triples(part)), key=repr)
    if how == "last_days":
        assert set(together) <= set(triples(data))
    else:
        assert together == triples(data)
    known = parts[1] if how == "held_out_customers" else parts[0]
    assert (known.lengths[parts[-1].lengths > 0] > 0).all()
    if timed and how not in ("random", "folds"):
        newest = [part.times[part.offsets[1:][part.lengths > 0] - 1] for part in (known, parts[-1])]  # type: ignore[index]
        both = (known.lengths > 0) & (parts[-1].lengths > 0)
        assert (newest[0][both[known.lengths > 0]] <= newest[1][both[parts[-1].lengths > 0]]).all()


def test_each_event_is_in_the_test_of_one_fold() -> None:
    users = [user for user in range(40) for _ in range(user % 7 + 1)]
    data = Interactions.from_pairs(users, [f"i{row % 9}" for row in range(len(users))], list(range(len(users))))
    tests = [split(data, "folds", count=3, fold=fold, seed=4)[1] for fold in range(3)]
    alone = {user for user in range(40) if user % 7 == 0}
    tested = [row for test in tests for row in triples(test)]
    assert sorted(tested) == sorted(row for row in triples(data) if row[0] not in alone)
    sizes = [len(test) for test in tests]
    assert max(sizes) - min(sizes) < len(data) / 10
    assert (np.stack([test.lengths for test in tests]).max(axis=0) <= np.ceil(data.lengths / 3)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 1}, "count is 1: give a whole number of at least 2"),
        ({"count": 2.5}, "count is 2.5: give a whole number of at least 2"),
        ({"count": float("nan")}, "count is nan: give a whole number of at least 2"),
        ({"count": float("inf")}, "count is inf: give a whole number of at least 2"),
        ({"fold": 5}, "fold is 5: give a whole number from 0 to 4"),
        ({"fold": 0.5}, "fold is 0.5"),
    ],
)
def test_impossible_folds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split(SMALL, "folds", **options)


def labelled(*rows: tuple[str, str, int, bool]) -> Interactions:
    users, items, times, labels = zip(*rows, strict=True)
    return Interactions.from_pairs(list(users), list(items), list(times), labels=list(labels))


# The items that each customer views, or buys (+), at times 1, 2, ...
VISITS = {"ann": "b c c+ d d+ e", "bob": "a b+", "cat": "a+ b", "dan": "a b"}
SHOP = labelled(
    *(
        (user, event.rstrip("+"), time, event.endswith("+"))
        for user, events in VISITS.items()
        for time, event in enumerate(events.split(), 1)
    )
)


def test_the_last_target_is_held_out_with_all_later_events() -> None:
    train, test = split(SHOP, "leave_last_out")
    assert triples(test) == [("ann", "d", 5), ("ann", "e", 6), ("bob", "b", 2)]
    assert test.labels is not None
    assert test.labels.sum() == 2
    assert len(train) == 9
    assert "2 customers" in train.notes[0]


def test_events_between_two_held_out_targets_belong_to_the_first_part() -> None:
    train, validation, test = split(SHOP, "leave_last_two")
    assert triples(train)[:2] == [("ann", "b", 1), ("ann", "c", 2)]
    assert triples(validation) == [("ann", "c", 3), ("ann", "d", 4)]
    assert triples(test) == [("ann", "d", 5), ("ann", "e", 6)]


def test_without_times_only_targets_are_held_out() -> None:
    users, items = SHOP.users.ids(SHOP.user_rows), SHOP.items.ids(SHOP.item_rows)
    data = Interactions.from_pairs(users, items, labels=SHOP.labels)
    train, test = split(data, "leave_last_out", seed=3)
    assert test.labels is not None
    assert test.labels.all()
    assert set(test.users.ids(test.user_rows)) == {"ann"}  # the only one with two targets
    assert len(train) + len(test) == len(data)


OPTIONS: dict[str, dict[str, Any]] = {
    "last_days": {"days": 3 / DAY},
    "next_order": {"days": 3 / DAY},
    "held_out_customers": {"share": 0.6},
    "random": {"ratio": 0.5},
}


@pytest.mark.parametrize("how", sorted(RULES))
def test_targets_everywhere_split_as_no_labels_do(how: str) -> None:
    with_labels = labelled(*((*row, True) for row in triples(SMALL)))
    options: dict[str, Any] = OPTIONS.get(how, {})
    for plain, marked in zip(split(SMALL, how, **options), split(with_labels, how, **options), strict=True):
        assert triples(plain) == triples(marked)


def test_labels_that_are_not_true_or_false_are_refused() -> None:
    with pytest.raises(InputError, match="true or false per event"):
        Interactions.from_pairs(["a"], ["b"], labels=["buy"])
    with pytest.raises(InputError, match="no event is a target"):
        Interactions.from_pairs(["a"], ["b"], labels=[False])


ORDERS = Interactions.from_pairs(
    ["ann"] * 6 + ["bob"] * 2 + ["cat"] * 2,
    ["a", "b", "c", "d", "e", "f", "a", "b", "c", "d"],
    [1, 1, 2 * DAY, 2 * DAY, 9 * DAY, 10 * DAY, 3 * DAY, 3 * DAY, 9 * DAY, 9 * DAY],
    orders=["1", "1", "2", "2", "3", "3", "4", "4", "5", "5"],
)


def test_positions_of_orders() -> None:
    assert ORDERS.order_positions.tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 0, 0]
    by_time = Interactions.from_pairs(["ann"] * 4, ["a", "b", "c", "d"], [1, 1, 2, 3])
    assert by_time.order_positions.tolist() == [0, 0, 1, 2]
    sequence = Interactions.from_pairs(["ann"] * 3, ["a", "b", "c"], [1, 1, 2], ties="given")
    assert sequence.order_positions.tolist() == [0, 1, 2]


def test_an_order_whose_events_are_apart_is_one() -> None:
    data = Interactions.from_pairs(["ann"] * 3, ["a", "b", "c"], [1, 2, 3], orders=["x", "y", "x"])
    assert data.order_positions.tolist() == [0, 1, 0]


def test_leave_last_order_out_takes_whole_orders() -> None:
    train, test = split(ORDERS, "leave_last_order_out")
    assert triples(test) == [("ann", "e", 9 * DAY), ("ann", "f", 10 * DAY)]
    assert len(train) == 8
    assert test.notes[-1] == "2 customers with fewer than 2 orders stay entirely in training"


def test_next_order_is_the_first_one_after_the_split_time() -> None:
    """Ann's third order begins after day 1.5 and is not the first to do so; bob and cat are unknown by then."""
    train, test = split(ORDERS, "next_order", days=8.5)
    assert triples(test) == [("ann", "c", 2 * DAY), ("ann", "d", 2 * DAY)]
    assert triples(train) == [("ann", "a", 1), ("ann", "b", 1)]
    assert test.notes[-1].startswith("6 events left out, of orders after the first one that is held out")
    with pytest.raises(ConfigError, match="days is 0"):
        split(ORDERS, "next_order", days=0)


def test_orders_that_overlap_are_put_together() -> None:
    data = Interactions.from_pairs(["ann"] * 4, ["a", "b", "c", "d"], [1, 2, 3, 4], orders=["x", "y", "x", "y"])
    together = data.with_orders_together()
    assert together.items.ids(together.item_rows) == ["a", "c", "b", "d"]
    assert together.order_positions.tolist() == [0, 0, 1, 1]
    assert ORDERS.with_orders_together() is ORDERS


@pytest.fixture
def own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "RULES", dict(splitting.RULES))


@pytest.mark.usefixtures("own_rules")
def test_a_split_of_ones_own_has_its_options_and_parts() -> None:
    @register_split("by_position", ("validation", "test"), needs_times=True)
    def by_position(columns: EventColumns, *, tested: int = 2) -> dict[str, Any]:
        return {"validation": columns.position == tested - 1, "test": columns.position == tested}

    data = Interactions.from_pairs(["ann"] * 4, list("abcd"), [1, 2, 3, 4])
    assert [triples(part) for part in split(data, "by_position")] == [
        [("ann", "a", 1), ("ann", "d", 4)],
        [("ann", "b", 2)],
        [("ann", "c", 3)],
    ]
    assert triples(split(data, "by_position", tested=3)[2]) == [("ann", "d", 4)]
    with pytest.raises(ConfigError, match="the split by_position has no option 'ratio': use tested, "):
        split(data, "by_position", ratio=0.5)
    with pytest.raises(InputError, match="needs times"):
        split(Interactions.from_pairs(["ann"] * 4, list("abcd")), "by_position")


@pytest.mark.usefixtures("own_rules")
def test_masks_that_are_none_are_refused() -> None:
    data = Interactions.from_pairs(["ann"] * 4, list("abcd"), [1, 2, 3, 4])
    masks: dict[str, Any] = {}
    register_split("mine", ("validation", "test"))(lambda events: masks)
    for wrong, message in (
        ({}, "gives masks for : give them for validation, test"),
        (
            {"validation": np.ones(3, bool), "test": np.ones(4, bool)},
            "of validation is not an array of 4 booleans",
        ),
        ({"validation": np.ones(4, bool), "test": np.ones(4)}, "mask of test is not an array of 4 booleans"),
        ({"validation": np.ones(4, bool), "test": np.ones(4, bool)}, "puts an event into two parts"),
    ):
        masks.clear()
        masks.update(wrong)
        with pytest.raises(ConfigError, match=message):
            split(data, "mine")
    with pytest.raises(ConfigError, match="random is a split of lorentzrec: give another name"):
        register_split("random")(lambda events: {})
    with pytest.raises(ConfigError, match="the last one has to be 'test'"):
        register_split("mine", ("validation",))(lambda events: {})
