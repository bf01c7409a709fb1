"""What runs the pipeline: Polars on this machine, or Spark on many (`spark_engine`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import narwhals as nw

from lorentzrec.ingest.dataset import USERS_PER_BLOCK, EventFile, write_events, write_frame
from lorentzrec.ingest.layouts import FileLayout
from lorentzrec.ingest.reading import FAULT_COLUMNS, scan_events
from lorentzrec.ingest.storage import fetch

if TYPE_CHECKING:
    import polars as pl

Frame = nw.LazyFrame[Any]

EVENTS_PER_FILE = 2**40
"""More events than any file has: the positions of the first events of two files differ by this."""

BUCKET_EVENTS = 16_000_000
"""Events of whole customers that are sorted in memory at once."""


class Engine(Protocol):
    """What differs between engines; everything else is defined once, in `pipeline`."""

    name: str

    def read(self, layouts: Sequence[FileLayout], id_types: dict[str, str]) -> Frame:
        """The typed events of all files with their fault columns and `part`; ids are "String" or "Int64" by role."""

    def persist(self, frame: Frame) -> Frame:
        """The same frame, computed once and stored, for frames that are used more than once."""

    def collect(self, frame: Frame) -> pl.DataFrame:
        """A frame no larger than a vocabulary, in memory."""

    def map_customers(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        """`step` applied to all customers at once, or to groups of whole customers one after another."""

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        """Sort by `order`, which begins with user_row, and write to the dataset folder."""

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        """Write the rejected rows to one file; returns its checksum."""


def read_events(layout: FileLayout, scratch: Path, id_types: dict[str, str], folder: str | None = None) -> pl.LazyFrame:
    """The events of one file with the id types of all files. `folder`: that of relative paths, if not the current."""
    import polars as pl

    path = Path(folder or "", fetch(layout.address, scratch))
    frame = scan_events(path, layout, scratch)
    if name := layout.position_column:
        first = layout.number * EVENTS_PER_FILE
        frame = frame.with_row_index(name).with_columns(pl.col(name).cast(pl.Int64) + first)
    casts = [pl.col(role).cast(getattr(pl, kind)) for role, kind in id_types.items()]
    names = [name for name in [*layout.columns, *FAULT_COLUMNS] if name not in id_types]
    return frame.select(*casts, *names, part=pl.lit(layout.part, pl.Int32))


class PolarsEngine:
    """One machine, all cores. Frames too large for memory are streamed, and stored as Parquet files in `scratch`."""

    name = "polars"

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._stored = 0

    def read(self, layouts: Sequence[FileLayout], id_types: dict[str, str]) -> Frame:
        import polars as pl

        return nw.from_native(pl.concat([read_events(one, self._scratch, id_types) for one in layouts]))

    def persist(self, frame: Frame) -> Frame:
        return self._store([frame])

    def collect(self, frame: Frame) -> pl.DataFrame:
        native: pl.LazyFrame = frame.to_native()
        return native.collect(engine="streaming")

    def map_customers(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        return self._store(step(group) for group in self._divide(frame, key))

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        groups = self._divide(frame, "user_row")
        whole = len(groups) == 1
        return [
            write_events(self.collect(group).sort(order), address, part_count=part_count, whole=whole)
            for group in groups
        ]

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        return write_frame(self.collect(frame), address, name)

    def _store(self, frames: Iterable[Frame]) -> Frame:
        import polars as pl

        paths = []
        for frame in frames:
            self._stored += 1
            paths.append(self._scratch / f"stored-{self._stored:04d}.parquet")
            native: pl.LazyFrame = frame.to_native()
            native.sink_parquet(paths[-1], compression="lz4", statistics=False, maintain_order=False)
        return nw.from_native(pl.scan_parquet(paths, glob=False))

    def _divide(self, frame: Frame, key: str) -> list[Frame]:
        """Groups of whole blocks of customers, with about `BUCKET_EVENTS` events each."""
        import polars as pl

        native: pl.LazyFrame = frame.to_native()
        blocks = (
            native.group_by(pl.col(key) // USERS_PER_BLOCK)
            .agg(events=pl.len())
            .sort(key)
            .with_columns(group=(pl.col("events").cast(pl.Int64).cum_sum() - 1) // BUCKET_EVENTS)
            .group_by("group", maintain_order=True)
            .agg(first=pl.col(key).min())
            .collect(engine="streaming")
        )
        starts = [int(first) * USERS_PER_BLOCK for first in blocks["first"]]
        if len(starts) <= 1:
            return [frame]
        bounds = zip(starts, [*starts[1:], 2**62], strict=True)
        return [frame.filter(nw.col(key) >= start, nw.col(key) < stop) for start, stop in bounds]
