"""The customers of one worker: every n-th of a dataset's, as arrays in one file.

Rows are numbered by frequency, so that every n-th customer gives all workers the same mix of long and short histories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import offsets_of
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


def interactions_of(arrays: dict[str, Any], item_count: int) -> Interactions:
    """A shard as interactions with numbers as ids."""
    lengths = arrays.pop("lengths")
    users, items = Vocabulary.numbered(len(lengths), name="user"), Vocabulary.numbered(item_count, name="item")
    return Interactions(users, items, offsets_of(lengths.astype(np.int64)), **arrays)
