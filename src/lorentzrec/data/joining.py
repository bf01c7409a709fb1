"""Events that follow others: one set of vocabularies, and each customer's events one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Integers, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import InputError


def reindex(data: Interactions, users: Vocabulary, items: Vocabulary) -> Interactions:
    """The events in the rows of other vocabularies; those of customers and items that these do not hold are left out.

    Ids of another type are an `InputError`.
    """
    users.refuse_other_type(data.users)
    items.refuse_other_type(data.items)
    if users == data.users and items == data.items:
        return replace(data, users=users, items=items)
    user_rows = data.user_rows if users == data.users else users.rows(data.users.series)[data.user_rows]
    item_rows = items.rows(data.items.series)[data.item_rows].astype(np.int32)
    known = np.flatnonzero((user_rows != UNKNOWN) & (item_rows != UNKNOWN))
    order = known[np.argsort(user_rows[known], kind="stable")]
    lengths = np.bincount(user_rows[order], minlength=len(users))
    return data.take(order, lengths, users=users, items=items, item_rows=item_rows[order])


def concatenate(parts: Sequence[Interactions]) -> Interactions:
    """Events with the same vocabularies as one: for each customer those of the first part, then those of the next.

    Weights and labels that only some parts have are 1 and true in the others; times and orders are kept if all parts
    have them. Equal numbers of orders are one order: see `append` for events of other files.
    """
    import polars as pl

    events = pl.concat([part.to_frame(rows=True) for part in parts], how="diagonal_relaxed")
    if not all(part.ordered for part in parts):
        events = events.drop("time", strict=False)
    notes = parts[0].notes
    if "order" in events.columns and events["order"].null_count():
        events = events.drop("order")
        notes = (*notes, "the orders of some events are not known, so that orders are not used")
    events = events.with_columns(pl.col("^weight$").fill_null(1.0), pl.col("^label$").fill_null(True))
    events = events.sort("user_row", maintain_order=True)
    given = all(part.ties_given for part in parts)
    return Interactions.from_sorted(parts[0].users, parts[0].items, events, notes, ties_given=given)


def append(earlier: Interactions, later: Interactions) -> Interactions:
    """Both, in the union of their vocabularies: the rows of `earlier` do not change. No order is part of both."""
    users, items = earlier.users.union(later.users), earlier.items.union(later.items)
    if earlier.orders is not None and later.orders is not None and len(earlier):
        later = replace(later, orders=later.orders + (earlier.orders.max() + 1))
    return concatenate([reindex(earlier, users, items), reindex(later, users, items)])


def interleave(parts: Sequence[Interactions]) -> Interactions:
    """The events of several deliveries as one, in the union of their vocabularies: ids of the first keep their rows.

    See `interleave_marked`.
    """
    return interleave_marked(parts)[0]


def interleave_marked(parts: Sequence[Interactions]) -> tuple[Interactions, Booleans]:
    """The events of several deliveries as one, and which of them are not of the first delivery.

    A customer's events are in the order of time, and of equal times in the order of the deliveries. Weights and labels
    that only some deliveries have are 1 and true in the others. No order is part of two deliveries.
    """
    first, later = parts[0], parts[1:]
    if not later:
        return first, np.zeros(len(first), bool)
    users, items = (_unite([getattr(part, name) for part in parts]) for name in ("users", "items"))
    user_rows, item_rows = (
        np.concatenate([_rows_in(union, getattr(part, f"{name}s"))[getattr(part, f"{name}_rows")] for part in later])
        for name, union in (("user", users), ("item", items))
    )
    columns: dict[str, list[NDArray[Any]]] = {"times": [_get_times(part) for part in parts]}
    if any(part.weights is not None for part in parts):
        ones = [np.ones(len(part), np.float32) for part in parts]
        columns["weights"] = [
            one if part.weights is None else part.weights for part, one in zip(parts, ones, strict=True)
        ]
    if any(part.labels is not None for part in parts):
        columns["labels"] = [np.ones(len(part), bool) if part.labels is None else part.labels for part in parts]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    if all(part.orders is not None for part in parts):
        orders = [part.orders for part in parts if part.orders is not None]
        begins = make_offsets(np.array([numbers.max(initial=-1) + 1 for numbers in orders]))
        columns["orders"] = [(numbers + begin).astype(np.int32) for numbers, begin in zip(orders, begins, strict=False)]
    elif any(part.orders is not None for part in parts):
        notes = (*notes, "the orders of some deliveries are not known, so that orders are not used")
    earlier = {name: values[0] for name, values in columns.items()}
    added = {name: np.concatenate(values[1:]) for name, values in columns.items()}
    earlier["times"] = earlier["times"].astype(np.result_type(earlier["times"], added["times"]))
    order = np.lexsort((added["times"], user_rows))  # stable
    added = {name: values[order] for name, values in added.items()}
    user_rows, item_rows = user_rows[order], item_rows[order].astype(np.int32)
    lengths = np.pad(first.lengths, (0, len(users) - len(first.users)))
    positions = _find_positions(make_offsets(lengths), earlier["times"], user_rows, added["times"])
    together = Interactions(
        users,
        items,
        make_offsets(lengths + np.bincount(user_rows, minlength=len(users))),
        np.insert(first.item_rows, positions, item_rows),
        **{name: np.insert(values, positions, added[name]) for name, values in earlier.items()},
        ties_given=all(part.ties_given for part in parts),
        deliveries=tuple(digest for part in parts for digest in part.deliveries),
        notes=notes,
    )
    return together, np.insert(np.zeros(len(first), bool), positions, True)


def _unite(vocabularies: Sequence[Vocabulary]) -> Vocabulary:
    """The ids of all, those of the first in front; as text if some are text."""
    import polars as pl

    several = [vocabulary.series for vocabulary in vocabularies]
    kind = pl.String if any(vocabulary.holds_strings for vocabulary in vocabularies) else pl.Int64
    together = pl.concat([series.cast(kind) for series in several]).unique(maintain_order=True)
    return Vocabulary(together, name=vocabularies[0].name)


def _rows_in(union: Vocabulary, vocabulary: Vocabulary) -> Integers:
    import polars as pl

    return union.rows(vocabulary.series.cast(pl.String) if union.holds_strings else vocabulary.series)


def _get_times(part: Interactions) -> NDArray[Any]:
    if part.times is None:
        raise InputError("the events of a delivery have no times, and deliveries are put together by time: give times")
    return part.times


def _find_positions(offsets: Integers, times: NDArray[Any], user_rows: Integers, new_times: NDArray[Any]) -> Integers:
    """Where new events belong among sorted ones: behind all events of their customer that are not newer."""
    starts, positions = offsets[user_rows], offsets[user_rows + 1].copy()
    known = np.flatnonzero(positions > starts)
    late = known[new_times[known] < times[positions[known] - 1]]
    for event in late.tolist():  # few: most events are newer than all that was known before
        own = times[starts[event] : positions[event]]
        positions[event] = starts[event] + np.searchsorted(own, new_times[event], side="right")
    return positions


def take_items(data: Interactions, rows: Integers) -> Interactions:
    """The events of some items, given by their rows, which become the items 0, 1, ... of the result."""
    return reindex(data, data.users, Vocabulary(data.items.series.gather(rows), name=data.items.name))
