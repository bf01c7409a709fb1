"""The customers of one worker: every n-th of a dataset's, as arrays in one file.

Rows are numbered by frequency, so that every n-th customer gives all workers the same mix of long and short histories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import gather_groups, offsets_of
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.ingest.dataset import open_dataset


def read_shard(
    address: str, digest: str, held_out: NDArray[np.int64], worker: int, workers: int
) -> dict[str, NDArray[Any]]:
    """The events of the customers `worker`, `worker + workers`, ... of a dataset's training part, without those that
    are held out: `lengths` of their histories, `item_rows`, and `weights` and `labels` if there are any.

    held_out: places of events in the training part.
    """
    import polars as pl

    dataset = open_dataset(address)
    if dataset.digest != digest:
        raise InputError(f"{address} was changed during training: train again")
    names = [name for name in ("weight", "label") if name in dataset.manifest["columns"]]
    events = (
        dataset.scan_training()
        .select("user_row", "item_row", *names)
        .with_row_index("place")
        .filter(pl.col("user_row") % workers == worker)
        .collect(engine="streaming")
    )
    if len(held_out):
        events = events.filter(~pl.col("place").is_in(held_out))
    count = -(-(dataset.manifest["counts"]["users"] - worker) // workers)
    lengths = np.bincount(events["user_row"].to_numpy() // workers, minlength=count).astype(np.int32)
    return {"lengths": lengths} | {f"{name}s": events[name].to_numpy() for name in ("item_row", *names)}


def left_out(data: Interactions, learned: Interactions) -> NDArray[np.int64]:
    """Places of the events of `data` that are not in `learned`, which lacks at most one event of a customer."""
    shorter = np.flatnonzero(data.lengths != learned.lengths)
    positions, events = gather_groups(data.offsets, shorter)
    within = events - data.offsets[shorter][positions]
    # the same place in the other history; the last event has no counterpart
    others = np.minimum(within, learned.lengths[shorter][positions] - 1) + learned.offsets[shorter][positions]
    differs = within == data.lengths[shorter][positions] - 1
    for name, values in data.event_columns().items():
        differs |= values[events] != learned.event_columns()[name][others]
    first = np.flatnonzero(differs)
    return events[first[np.unique(positions[first], return_index=True)[1]]]


def interactions_of(arrays: dict[str, Any], item_count: int) -> Interactions:
    """A shard as interactions with numbers as ids."""
    lengths = arrays.pop("lengths")
    users, items = Vocabulary.numbered(len(lengths), name="user"), Vocabulary.numbered(item_count, name="item")
    return Interactions(users, items, offsets_of(lengths.astype(np.int64)), **arrays)
