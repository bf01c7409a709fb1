"""The events that a model has not seen: how they are read, and how good the model is on them before it learns them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import interleave, reindex
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.ingest.dataset import Dataset
from lorentzrec.model.model import Model


def read_events(model: Model, dataset: Dataset) -> tuple[Interactions, bool]:
    """All events of a dataset, and whether those that the model was trained on are its own histories: then only the
    deliveries that it does not know are read."""
    earlier = model.histories
    if earlier is not None and earlier.times is not None:
        new = dataset.read_new(earlier.deliveries)
        if new is not None:
            return interleave([earlier, *(with_types_of(model, one) for one in new)]), True
    dataset.verify()
    return with_types_of(model, next(iter(dataset.named_parts().values()))), False


def with_types_of(model: Model, events: Interactions) -> Interactions:
    """The events with ids as text where those of the model are: in a CSV file, 7 may be a number or text."""
    users, items = with_type_of(model.users, events.users), with_type_of(model.items, events.items)
    return replace(events, users=users, items=items)


def with_type_of(known: Vocabulary | None, ids: Vocabulary) -> Vocabulary:
    """Ids as text if the known ones are."""
    import polars as pl

    text = known is not None and known.holds_strings
    return Vocabulary(ids.series.cast(pl.String), name=ids.name) if text else ids


def select_first_new(
    model: Model, data: Interactions, new: Booleans, chosen: Booleans | bool = True
) -> tuple[Interactions, Interactions]:
    """A test of the model: the first new order, or event, of each customer who has earlier events; and these events.

    new: which events of `data` the model has not seen. chosen: which of them may be in the test.
    """
    earlier = reindex(data.select(~new), data.users, model.items)
    targets = new & chosen & (earlier.lengths > 0)[data.user_rows]
    targets &= (model.items.rows(data.items.series) != UNKNOWN)[data.item_rows]
    if data.labels is not None:
        targets &= data.labels
    positions = data.order_positions if model.config.history == "orders" else np.arange(len(data))
    first = np.full(len(data.users), len(data))
    np.minimum.at(first, data.user_rows[targets], positions[targets])
    return data.select(targets & (positions == first[data.user_rows])), earlier
