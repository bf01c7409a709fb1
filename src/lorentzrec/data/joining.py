"""Events that follow others: one set of vocabularies, and each customer's events one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary


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


def take_items(data: Interactions, rows: Integers) -> Interactions:
    """The events of some items, given by their rows, which become the items 0, 1, ... of the result."""
    return reindex(data, data.users, Vocabulary(data.items.series.gather(rows), name=data.items.name))
