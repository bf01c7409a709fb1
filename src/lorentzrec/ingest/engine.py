"""What runs the pipeline: Polars on this machine, here; Spark on many, in `lorentzrec.scale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import narwhals as nw

from lorentzrec.ingest.dataset import USERS_A_BLOCK, EventFile, write_events
from lorentzrec.ingest.reading import FAULT_COLUMNS, events_of
from lorentzrec.ingest.sources import Layout, Source
from lorentzrec.ingest.storage import fetched

if TYPE_CHECKING:
    import polars as pl

Frame = nw.LazyFrame[Any]

EVENTS_OF_A_FILE = 2**40
"""More events than one file has: the distance between the numbers of the first events of two files."""

BUCKET_EVENTS = 16_000_000
"""Events of whole customers that are ordered in memory at once."""


@dataclass(frozen=True)
class EventInput:
    """One event file, looked at and found usable."""

    address: str
    source: Source
    layout: Layout
    part: int
    """0 for training events, 1 for the test events of the split `given`."""
    number: int = 0
    """Its place among the files, which decides the order of events where that is the order of the files."""

    @property
    def columns(self) -> list[str]:
        """Of its events, without those about faults."""
        positions = {"time"} if self.source.ordered else {"sequence"} if self.source.ties == "file" else set()
        return [*self.layout.roles, *sorted(positions)]


class Engine(Protocol):
    """The few things that each engine does in its own way; everything else is one definition in `pipeline`."""

    name: str

    def read(self, inputs: Sequence[EventInput], id_types: dict[str, str]) -> Frame:
        """The typed events of all files with their fault columns and `part`; ids are "String" or "Int64" by role."""

    def kept(self, frame: Frame) -> Frame:
        """The same frame computed once, for use more than once."""

    def collected(self, frame: Frame) -> pl.DataFrame:
        """A frame no larger than a vocabulary, in memory."""

    def by_customer(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        """`step` applied to all customers, or to bunches of whole customers one after another."""

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        """Sort by `order`, which begins with user_row, and write to the dataset folder."""

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        """Write the rejected rows to one file; its checksum."""


def typed_events(
    event_input: EventInput, scratch: Path, id_types: dict[str, str], folder: str | None = None
) -> pl.LazyFrame:
    """The events of one file with the id types of all files. `folder`: where relative paths begin, if not here."""
    import polars as pl

    path = Path(folder or "", fetched(event_input.address, scratch))
    frame = events_of(path, event_input.source, event_input.layout, event_input.address, scratch)
    if event_input.source.ordered or event_input.source.ties == "file":
        name = "time" if event_input.source.ordered else "sequence"
        first = event_input.number * EVENTS_OF_A_FILE
        frame = frame.with_row_index(name).with_columns(pl.col(name).cast(pl.Int64) + first)
    casts = [pl.col(role).cast(getattr(pl, kind)) for role, kind in id_types.items()]
    names = [name for name in [*event_input.columns, *FAULT_COLUMNS] if name not in id_types]
    return frame.select(*casts, *names, part=pl.lit(event_input.part, pl.Int32))


def dataset_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a dataset in its types, which engines without small or unsigned integers cannot give."""
    import polars as pl

    types = {
        "user_row": pl.Int32,
        "item_row": pl.Int32,
        "time": None,
        "weight": pl.Float32,
        "label": pl.Boolean,
        "part": pl.UInt8,
    }
    return frame.select(
        pl.col(name).cast(kind) if kind else pl.col(name) for name, kind in types.items() if name in frame.columns
    )


class PolarsEngine:
    """One machine, all cores. Frames too large for memory are streamed, and kept as Parquet files in `scratch`."""

    name = "polars"

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._kept = 0

    def read(self, inputs: Sequence[EventInput], id_types: dict[str, str]) -> Frame:
        import polars as pl

        return nw.from_native(pl.concat([typed_events(one, self._scratch, id_types) for one in inputs]))

    def kept(self, frame: Frame) -> Frame:
        return self._scan([self._sink(frame)])

    def collected(self, frame: Frame) -> pl.DataFrame:
        native: pl.LazyFrame = frame.to_native()
        return native.collect(engine="streaming")

    def by_customer(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        return self._scan([self._sink(step(bunch)) for bunch in self._bunches(frame, key)])

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        bunches = list(self._bunches(frame, "user_row"))
        return [
            write_events(
                dataset_columns(self.collected(bunch).sort(order)),
                address,
                part_count=part_count,
                whole=len(bunches) == 1,
            )
            for bunch in bunches
        ]

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        from lorentzrec.ingest.dataset import write_frame

        return write_frame(self.collected(frame), address, name)

    def _sink(self, frame: Frame) -> Path:
        self._kept += 1
        path = self._scratch / f"kept-{self._kept:04d}.parquet"
        native: pl.LazyFrame = frame.to_native()
        native.sink_parquet(path, compression="lz4", statistics=False, maintain_order=False)
        return path

    def _scan(self, paths: Sequence[Path]) -> Frame:
        import polars as pl

        return nw.from_native(pl.scan_parquet(list(paths), glob=False))

    def _bunches(self, frame: Frame, key: str) -> Iterator[Frame]:
        """Whole blocks of customers, together about `BUCKET_EVENTS` events each."""
        import polars as pl

        native: pl.LazyFrame = frame.to_native()
        blocks = (
            native.group_by(pl.col(key) // USERS_A_BLOCK)
            .agg(events=pl.len())
            .sort(key)
            .with_columns(bunch=(pl.col("events").cast(pl.Int64).cum_sum() - 1) // BUCKET_EVENTS)
            .group_by("bunch", maintain_order=True)
            .agg(first=pl.col(key).min())
            .collect(engine="streaming")
        )
        starts = [int(first) * USERS_A_BLOCK for first in blocks["first"]]
        if len(starts) <= 1:
            yield frame
            return
        for start, stop in zip(starts, [*starts[1:], 2**62], strict=True):
            yield frame.filter(nw.col(key) >= start, nw.col(key) < stop)
