"""The events that a model has not seen: how they are read, and how good the model is on them before it learns them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lorentzrec.data.arrays import Booleans, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import interleave_marked, reindex
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.evaluation.reality_check import Baselines
from lorentzrec.ingest.dataset import Dataset
from lorentzrec.learning.warm_start import with_items_of
from lorentzrec.model.model import Model


@dataclass(frozen=True, eq=False)
class NewEvents:
    """All events so far, and which of them a model has not seen. Immutable, so that several stages may use it."""

    data: Interactions
    """The items that are in the model have the first rows."""
    new: Booleans
    late: int
    """How many of the new ones are not newer than all that the model was trained on."""
    items: Vocabulary
    """Those of the model."""
    own: bool = False
    """Whether the other events are the histories of the model, so that only deliveries which it does not know were
    read."""

    @cached_property
    def earlier(self) -> Interactions:
        """The events that are not new, in the rows of the model's items."""
        return reindex(self.data.select(~self.new), self.data.users, self.items)

    @cached_property
    def baselines(self) -> Baselines:
        """Baselines that know the earlier events."""
        return Baselines(self.earlier)

    def release(self) -> None:
        """Free the memory of the earlier events and the baselines; they are made again when they are needed."""
        for name in ("earlier", "baselines"):
            self.__dict__.pop(name, None)


def read_new_events(model: Model, dataset: Dataset) -> NewEvents:
    """All events of a dataset, and which of them are new to the model. If the model has its histories, only the
    deliveries that it does not know are read."""
    earlier = model.histories
    if earlier is not None and earlier.times is not None:
        new = dataset.read_new(earlier.deliveries)
        if new is not None:
            return find_new_events(model, *interleave_marked([earlier, *(with_types_of(model, one) for one in new)]))
    dataset.verify()
    return find_new_events(model, with_types_of(model, next(iter(dataset.named_parts().values()))))


def find_new_events(model: Model, data: Interactions, delivered: Booleans | None = None) -> NewEvents:
    """All items of the model and all events of `data`, and which of these are new; see `mark_new_events`."""
    return mark_new_events(model, with_items_of(model, data), delivered)


def mark_new_events(model: Model, data: Interactions, delivered: Booleans | None = None) -> NewEvents:
    """Which events of `data` the model was not trained on: those that are newer than all that it was trained on, and
    older ones whose customer has no event with the item in its histories.

    delivered: which events are not of the model's own histories; None: this is not known.
    """
    candidates = np.ones(len(data), bool) if delivered is None else delivered
    if data.times is None or model.newest_time is None:
        new, late = candidates & ~_in_histories(model, data, candidates), 0
    else:
        new = candidates & (data.times > model.newest_time)
        late = 0
        if model.histories is not None:
            older = candidates & ~new
            late_events = older & ~_in_histories(model, data, older)
            new, late = new | late_events, int(late_events.sum())
    return NewEvents(data, new, late, model.items, own=delivered is not None)


def _in_histories(model: Model, data: Interactions, chosen: Booleans) -> Booleans:
    """Whether the customer of each of the chosen events has interacted with its item in the training data of the
    model; false for the others."""
    found = np.zeros(len(data), bool)
    known = model.histories
    events = np.flatnonzero(chosen)
    if known is None or not len(events):
        return found
    customers = np.unique(data.user_rows[events])
    rows = known.users.rows(data.users.series.gather(customers))
    owners, of_known = gather_groups(known.offsets, rows[rows != UNKNOWN])
    users = customers[rows != UNKNOWN][owners].astype(np.int64)
    items = data.items.rows(known.items.series)[known.item_rows[of_known]]
    pairs = (users * len(data.items) + items)[items != UNKNOWN]
    found[events] = np.isin(data.user_rows[events].astype(np.int64) * len(data.items) + data.item_rows[events], pairs)
    return found


def with_types_of(model: Model, events: Interactions) -> Interactions:
    """The events with ids as text where those of the model are: in a CSV file, 7 may be a number or text."""
    users, items = with_type_of(model.users, events.users), with_type_of(model.items, events.items)
    return replace(events, users=users, items=items)


def with_type_of(known: Vocabulary | None, ids: Vocabulary) -> Vocabulary:
    """Ids as text if the known ones are."""
    import polars as pl

    text = known is not None and known.holds_strings
    return Vocabulary(ids.series.cast(pl.String), name=ids.name) if text else ids


def select_first_new(model: Model, found: NewEvents, chosen: Booleans | bool = True) -> Interactions:
    """A test of the model: the first new order, or event, of each customer who has earlier events.

    chosen: which events may be in the test.
    """
    data = found.data
    targets = found.new & chosen & (found.earlier.lengths > 0)[data.user_rows]
    targets &= (model.items.rows(data.items.series) != UNKNOWN)[data.item_rows]
    if data.labels is not None:
        targets &= data.labels
    positions = data.order_positions if model.config.history == "orders" else np.arange(len(data))
    first = np.full(len(data.users), len(data))
    np.minimum.at(first, data.user_rows[targets], positions[targets])
    return data.select(targets & (positions == first[data.user_rows]))
