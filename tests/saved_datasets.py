"""Interactions written as a dataset, for tests that need one without preparing files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from lorentzrec.data.interactions import Interactions
from lorentzrec.ingest.dataset import Dataset, new_dataset, open_dataset, write_events


def save_dataset(parts: Mapping[str, Interactions] | Interactions, address: str | Path) -> Dataset:
    """Write interactions, or the named parts of a split, as a dataset."""
    named = {"": parts} if isinstance(parts, Interactions) else dict(parts)
    first = next(iter(named.values()))
    frames = [
        part.to_frame(rows=True).with_columns(
            part.items.series.gather(part.item_rows).alias("item_id"),
            *([] if "" in named else [pl.lit(number, pl.UInt8).alias("part")]),
        )
        for number, part in enumerate(named.values())
    ]
    events = pl.concat(frames)
    # Equal times keep their order.
    keys = ("user_row", "time") if first.ordered else ("user_row", "item_id", "weight", "label", "part")
    events = events.sort([name for name in keys if name in events.columns], maintain_order=True)
    with new_dataset(address) as draft:
        draft.begin()
        for vocabulary, rows in ((first.users, events["user_row"]), (first.items, events["item_row"])):
            count = np.bincount(rows, minlength=len(vocabulary)).astype(np.int64)
            row = np.arange(len(vocabulary), dtype=np.int32)
            draft.write_vocabulary(pl.DataFrame({"row": row, "id": vocabulary.series, "count": count}), vocabulary.name)
        file = write_events(events, draft.address, part_count=len(named), whole=True)
        names = () if "" in named else tuple(named)
        record = {"notes": list(first.notes), **({"ties": "given"} if first.ties_given else {})}
        draft.finish(columns=events.columns, events=[file], parts=names, record=record)
    return open_dataset(address)
