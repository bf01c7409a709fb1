"""Every event on its own: the task of finding it from what its customer did before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lorentzrec.data.arrays import Booleans, Integers, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary


class NextEvents(NamedTuple):
    """The arguments of `evaluate`, with a customer per event."""

    test: Interactions
    histories: Interactions


def next_events(data: Interactions, chosen: Booleans, *, limit: int | None = None, seed: int = 0) -> NextEvents:
    """The `chosen` events of `data` as a test: each is to be found from all earlier events of its customer, and where
    events are in orders from the orders before its own.

    Events that are the first of their customer, or not targets, are left out. limit: that many, at random.
    """
    if data.labels is not None:
        chosen = chosen & data.labels
    events = np.flatnonzero(chosen)
    starts = data.offsets[data.user_rows[events].astype(np.int64)]
    ends = _order_starts(data)[events] if data.in_orders else events
    eligible = ends > starts
    events, starts, ends = events[eligible], starts[eligible], ends[eligible]
    if limit is not None and len(events) > limit:
        sample = np.sort(np.random.default_rng(seed).choice(len(events), limit, replace=False))
        events, starts, ends = events[sample], starts[sample], ends[sample]
    users = Vocabulary.numbered(len(events), name="user")
    spans = np.stack([starts, ends], axis=1).ravel()
    _, before = gather_groups(spans, np.arange(0, len(spans), 2))
    changes: dict[str, Any] = {"users": users, "labels": None, "notes": ()}
    test = data.take(events, np.ones(len(events), np.int64), **changes)
    return NextEvents(test, data.take(before, ends - starts, **changes))


def _order_starts(data: Interactions) -> Integers:
    """For each event, the position of the first event of its order."""
    orders = data.offsets[data.user_rows] + data.order_positions
    first = np.full(len(data), len(data), np.int64)
    np.minimum.at(first, orders, np.arange(len(data)))
    found: Integers = first[orders]
    return found
