"""Preparation on Spark: the pipeline's engine for data too large for one machine.

Tasks read event files with the readers of this package (one task per file, or per slice of a large Parquet file), Spark
joins, counts and sorts, and tasks write and hash the dataset's files. The driver handles counts, vocabularies and
checksums, never the events. The package must be installed where the tasks run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from lorentzrec.data.event_order import Ties
from lorentzrec.ingest.dataset import USERS_PER_BLOCK, EventFile, write_events, write_frame
from lorentzrec.ingest.engine import Frame, read_events
from lorentzrec.ingest.layouts import FileLayout
from lorentzrec.ingest.reading import FAULT_COLUMNS
from lorentzrec.ingest.spark_session import in_tasks, report_in_one_line, spark_session
from lorentzrec.ingest.storage import fetch_outline

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

EVENTS_PER_TASK = 2_000_000
"""Events that one task reads from a Parquet file, or sorts and writes."""

_ReadTask = tuple[FileLayout, int, int | None]
"""A file, the first of its events to read, and how many; None: all."""

_TYPES = {
    "part": "int",
    **dict.fromkeys(("weight", "rating", "quantity"), "double"),
    **dict.fromkeys(("time", "sequence", "line"), "bigint"),
}
_ARROW = {"bigint": "int64", "double": "float64", "int": "int32", "string": "string"}


@contextmanager
def spark_engine(**session: Any) -> Iterator[SparkEngine]:
    """An engine for `prepare`; the arguments are those of `spark_session`."""
    with spark_session(**session, name="lorentzrec prepare") as started:
        yield SparkEngine(started)


class SparkEngine:
    """See `engine.Engine` for the meaning of each method."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    def read(self, layouts: Sequence[FileLayout], id_types: dict[str, str]) -> Frame:
        tasks = [task for one in layouts for task in _read_tasks(one)]
        types = {role: "bigint" if kind == "Int64" else "string" for role, kind in id_types.items()}
        names = [*layouts[0].columns, *FAULT_COLUMNS, "part"]
        columns = {name: types.get(name) or _TYPES.get(name, "string") for name in names}
        numbers = self._session.range(0, len(tasks), 1, len(tasks))
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        folder = str(Path.cwd())  # a task runs in a folder of its own
        reading = in_tasks(_read, tasks=tasks, folder=folder, id_types=id_types, columns=columns)
        events: Frame = nw.from_native(numbers.mapInArrow(reading, schema))
        return self.persist(events)

    def persist(self, frame: Frame) -> Frame:
        # A checkpoint, not a cache: plans contain the plans of the frames they use, and would double with every step.
        # It is stored in the session's spark.checkpoint.dir, or on the disks of the executors.
        from pyspark import StorageLevel

        native = frame.to_native()
        with report_in_one_line():
            if self._session.conf.get("spark.checkpoint.dir", None):
                native = native.checkpoint()
            else:
                native = native.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
        stored: Frame = nw.from_native(native)
        return stored

    def collect(self, frame: Frame) -> pl.DataFrame:
        import polars as pl

        with report_in_one_line():
            table = pl.from_arrow(frame.to_native().toArrow())
        assert isinstance(table, pl.DataFrame)
        return table

    def map_customers(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        return step(frame)

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        from pyspark.sql import functions as F  # noqa: N812

        native = frame.to_native()
        with report_in_one_line():
            tasks = -(-native.count() // EVENTS_PER_TASK)
            # Ranges of blocks, not of customers: a block is never divided.
            ranged = native.withColumn("block", F.floor(F.col("user_row") / F.lit(USERS_PER_BLOCK)))
            ranged = ranged.repartitionByRange(tasks, "block").sortWithinPartitions(*order).drop("block")
            schema = "name string, checksum string, part_counts array<bigint>, blocks binary, ties array<bigint>"
            task = in_tasks(_write, write=lambda frame: asdict(write_events(frame, address, part_count=part_count)))
            written = ranged.mapInArrow(task, schema).collect()
        return [
            EventFile(row.name, row.checksum, tuple(row.part_counts), bytes(row.blocks), Ties(*row.ties))
            for row in written
        ]

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        one = frame.to_native().coalesce(1)
        task = in_tasks(_write, write=lambda frame: {"checksum": write_frame(frame, address, name)})
        with report_in_one_line():
            (row,) = one.mapInArrow(task, "checksum string").collect()
        return str(row.checksum)


def _read_tasks(layout: FileLayout) -> Iterator[_ReadTask]:
    if layout.format != "parquet":
        yield layout, 0, None
        return
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        path = fetch_outline(layout.address, Path(scratch))
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    for start in range(0, max(rows, 1), EVENTS_PER_TASK):
        yield layout, start, EVENTS_PER_TASK


def _read(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[_ReadTask],
    folder: str,
    id_types: dict[str, str],
    columns: dict[str, str],
) -> Iterator[pa.RecordBatch]:
    """In a task: the events of the files whose numbers come in."""
    import polars as pl
    import pyarrow as pa

    schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])
    for batch in batches:
        for number in batch.column(0).to_pylist():
            layout, start, length = tasks[number]
            with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
                events = read_events(layout, Path(scratch), id_types, folder).slice(start, length)
                sound = events.filter(pl.col("fault").is_null()).with_columns(file=None, line=None, text=None)
                for frame in (sound, events.filter(pl.col("fault").is_not_null())):
                    for piece in frame.select(list(columns)).collect_batches(chunk_size=100_000):
                        table = piece.to_arrow(compat_level=pl.CompatLevel.oldest())
                        yield from table.cast(schema).combine_chunks().to_batches()


def _write(
    batches: Iterator[pa.RecordBatch], write: Callable[[pl.DataFrame], dict[str, Any]]
) -> Iterator[pa.RecordBatch]:
    """In a task: the record of the file that `write` makes of all rows, if there are any."""
    import polars as pl
    import pyarrow as pa

    together = list(batches)
    if sum(batch.num_rows for batch in together):
        frame = pl.from_arrow(pa.Table.from_batches(together))
        assert isinstance(frame, pl.DataFrame)
        yield pa.RecordBatch.from_pylist([write(frame)])
