"""Events that follow others: one set of vocabularies, and each customer's events one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lorentzrec.data.arrays import Integers, offsets_of
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
    columns: dict[str, Any] = data.event_columns() | {"item_rows": item_rows}
    return replace(
        data,
        users=users,
        items=items,
        offsets=offsets_of(np.bincount(user_rows[order], minlength=len(users))),
        **{name: values[order] for name, values in columns.items()},
    )


def concatenate(parts: Sequence[Interactions]) -> Interactions:
    """Events with the same vocabularies as one: for each customer those of the first part, then those of the next.

    Weights and labels that only some parts have are 1 and true in the others; times are kept if all parts have them.
    """
    user_rows = np.concatenate([part.user_rows for part in parts])
    order = np.argsort(user_rows, kind="stable")
    columns: dict[str, Any] = {"item_rows": [part.item_rows for part in parts], "times": None}
    if all(part.times is not None for part in parts):
        columns["times"] = [part.times for part in parts]
    for name, dtype in (("weights", np.float32), ("labels", bool)):
        known = [getattr(part, name) for part in parts]
        if any(values is not None for values in known):
            columns[name] = [
                np.ones(len(part), dtype) if values is None else values
                for part, values in zip(parts, known, strict=True)
            ]
    joined: dict[str, Any] = {
        name: None if arrays is None else np.concatenate(arrays)[order] for name, arrays in columns.items()
    }
    return replace(parts[0], offsets=offsets_of(np.bincount(user_rows, minlength=len(parts[0].users))), **joined)


def append(earlier: Interactions, later: Interactions) -> Interactions:
    """Both, in the union of their vocabularies: the rows of `earlier` do not change."""
    users, items = earlier.users.union(later.users), earlier.items.union(later.items)
    return concatenate([reindex(earlier, users, items), reindex(later, users, items)])


def take_items(data: Interactions, rows: Integers) -> Interactions:
    """The events of some items, given by their rows, which become the items 0, 1, ... of the result."""
    return reindex(data, data.users, Vocabulary(data.items.series.gather(rows), name=data.items.name))
