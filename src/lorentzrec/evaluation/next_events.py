"""Every event on its own: the task of finding it from what its customer did before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lorentzrec.data.arrays import Booleans, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary


class NextEvents(NamedTuple):
    """The arguments of `evaluate`, with a customer per event."""

    test: Interactions
    histories: Interactions


def next_events(data: Interactions, chosen: Booleans, *, most: int | None = None, seed: int = 0) -> NextEvents:
    """The `chosen` events of `data` as a test: each is to be found from all earlier events of its customer.

    Events that are the first of their customer, or not targets, are left out. most: that many, at random.
    """
    if data.labels is not None:
        chosen = chosen & data.labels
    events = np.flatnonzero(chosen)
    starts = data.offsets[data.user_rows[events].astype(np.int64)]
    able = events > starts
    events, starts = events[able], starts[able]
    if most is not None and len(events) > most:
        places = np.sort(np.random.default_rng(seed).choice(len(events), most, replace=False))
        events, starts = events[places], starts[places]
    users = Vocabulary.numbered(len(events), name="user")
    spans = np.stack([starts, events], axis=1).ravel()
    _, before = gather_groups(spans, np.arange(0, len(spans), 2))
    changes: dict[str, Any] = {"users": users, "labels": None, "notes": ()}
    test = data.take(events, np.ones(len(events), np.int64), **changes)
    return NextEvents(test, data.take(before, events - starts, **changes))
