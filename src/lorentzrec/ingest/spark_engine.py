"""Preparation on Spark: the pipeline's engine for data too large for one machine.

Tasks read event files with the readers of this package (one task per file, or per slice of a large Parquet file), Spark
joins, counts and sorts, and tasks write and hash the dataset's files. The driver handles counts, vocabularies and
checksums, never the events. The package must be installed where the tasks run.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import narwhals as nw

from lorentzrec.errors import InputError, how_to_get
from lorentzrec.ingest.dataset import USERS_PER_BLOCK, EventFile, write_events, write_frame
from lorentzrec.ingest.engine import EventInput, Frame, read_events
from lorentzrec.ingest.storage import credentials, fetch_outline

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

EVENTS_PER_TASK = 2_000_000
"""Events that one task reads from a Parquet file, or sorts and writes."""

_TYPES = {"part": "int", "weight": "double", "rating": "double"} | dict.fromkeys(("time", "sequence", "line"), "bigint")
_ARROW = {"bigint": "int64", "double": "float64", "int": "int32", "string": "string"}


@dataclass(frozen=True)
class _ReadTask:
    event_input: EventInput
    folder: str
    """The current folder of the driver: a task runs in a folder of its own."""
    start: int = 0
    length: int | None = None


@contextmanager
def spark_engine(
    *, master: str | None = None, remote: str | None = None, session: Any = None, memory: str = "4g"
) -> Iterator[SparkEngine]:
    """An engine for `prepare`: on an existing session, on Spark Connect (`remote="sc://host:15002"`), or on a new
    session (`master`, by default all cores of this machine), which is stopped at the end.

    `memory`: for the one process of a local master.
    """
    if sum(option is not None for option in (master, remote, session)) > 1:
        raise InputError("master, remote and session name three different places: give one of them")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError(f"the spark engine needs pyspark: {how_to_get('spark')}, and Java 17 or newer") from None
    own = session is None
    if own:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder: Any = SparkSession.builder
        if remote is not None:
            if remote.startswith("sc://"):
                _check_listening(remote)
            builder = builder.remote(remote)
        else:
            master = master or "local[*]"
            builder = builder.master(master).appName("lorentzrec prepare")
            if master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                settings = {
                    "spark.driver.memory": memory,
                    "spark.ui.enabled": "false",
                    "spark.ui.showConsoleProgress": "false",
                    "spark.sql.shuffle.partitions": "16",
                    "spark.log.level": "ERROR",
                }
                for name, value in settings.items():
                    builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:  # Java missing, a master that does not respond, ...: each has a type of its own
            raise InputError(f"Spark does not start at {remote or master} ({_first_line(error)}): check it") from None
    try:
        yield SparkEngine(session)
    finally:
        if own:
            session.stop()


def _check_listening(remote: str) -> None:
    """Spark Connect retries for minutes where no server listens; a user wants to know at once."""
    address = urlsplit(remote.partition(";")[0])
    host, port = address.hostname or "localhost", address.port or 15002
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise InputError(f"no server at {host}:{port} ({error}): start Spark Connect there, or check it") from None


class SparkEngine:
    """See `engine.Engine` for the meaning of each method."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    def read(self, inputs: Sequence[EventInput], id_types: dict[str, str]) -> Frame:
        tasks = [task for one in inputs for task in _read_tasks(one)]
        types = {role: "bigint" if kind == "Int64" else "string" for role, kind in id_types.items()}
        names = [*inputs[0].columns, "file", "line", "fault", "text", "part"]
        columns = {name: types.get(name) or _TYPES.get(name, "string") for name in names}
        numbers = self._session.range(0, len(tasks), 1, len(tasks))
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        reading = _task(_read, tasks=tasks, id_types=id_types, columns=columns)
        events: Frame = nw.from_native(numbers.mapInArrow(reading, schema))
        return self.persist(events)

    def persist(self, frame: Frame) -> Frame:
        # A checkpoint, not a cache: plans contain the plans of the frames they use, and would double with every step.
        # It is stored in the session's spark.checkpoint.dir, or on the disks of the executors.
        from pyspark import StorageLevel

        native = frame.to_native()
        with _report_in_one_line():
            if self._session.conf.get("spark.checkpoint.dir", None):
                native = native.checkpoint()
            else:
                native = native.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
        stored: Frame = nw.from_native(native)
        return stored

    def collect(self, frame: Frame) -> pl.DataFrame:
        import polars as pl

        with _report_in_one_line():
            table = pl.from_arrow(frame.to_native().toArrow())
        assert isinstance(table, pl.DataFrame)
        return table

    def map_customers(self, frame: Frame, key: str, step: Callable[[Frame], Frame]) -> Frame:
        return step(frame)

    def write_events(self, frame: Frame, order: Sequence[str], address: str, part_count: int) -> list[EventFile]:
        from pyspark.sql import functions as F  # noqa: N812

        native = frame.to_native()
        with _report_in_one_line():
            tasks = -(-native.count() // EVENTS_PER_TASK)
            # Ranges of blocks, not of customers: a block is never divided.
            ranged = native.withColumn("block", F.floor(F.col("user_row") / F.lit(USERS_PER_BLOCK)))
            ranged = ranged.repartitionByRange(tasks, "block").sortWithinPartitions(*order).drop("block")
            schema = "name string, checksum string, part_counts array<bigint>, blocks binary"
            written = ranged.mapInArrow(_task(_write, address=address, part_count=part_count), schema).collect()
        return [EventFile(row.name, row.checksum, tuple(row.part_counts), bytes(row.blocks)) for row in written]

    def write_rejected(self, frame: Frame, address: str, name: str) -> str:
        one = frame.to_native().coalesce(1)
        with _report_in_one_line():
            (row,) = one.mapInArrow(_task(_write_rejected, address=address, name=name), "checksum string").collect()
        return str(row.checksum)


def _task(work: Callable[..., Iterator[pa.RecordBatch]], **options: Any) -> Callable[..., Iterator[pa.RecordBatch]]:
    """`work` for `mapInArrow`, with the driver's credentials for remote storage."""
    return partial(_with_credentials, work=partial(work, **options), environment=credentials())


def _with_credentials(
    batches: Iterator[pa.RecordBatch],
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    environment: dict[str, str],
) -> Iterator[pa.RecordBatch]:
    os.environ.update(environment)
    yield from work(batches)


def _read_tasks(event_input: EventInput) -> Iterator[_ReadTask]:
    if event_input.layout.format != "parquet":
        yield _ReadTask(event_input, str(Path.cwd()))
        return
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        path = fetch_outline(event_input.layout.label, Path(scratch))
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    for start in range(0, max(rows, 1), EVENTS_PER_TASK):
        yield _ReadTask(event_input, str(Path.cwd()), start, EVENTS_PER_TASK)


def _read(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[_ReadTask],
    id_types: dict[str, str],
    columns: dict[str, str],
) -> Iterator[pa.RecordBatch]:
    """In a task: the events of the files whose numbers come in."""
    import polars as pl
    import pyarrow as pa

    schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task = tasks[number]
            with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
                events = read_events(task.event_input, Path(scratch), id_types, task.folder)
                events = events.slice(task.start, task.length)
                sound = events.filter(pl.col("fault").is_null()).with_columns(file=None, line=None, text=None)
                for frame in (sound, events.filter(pl.col("fault").is_not_null())):
                    for piece in frame.select(list(columns)).collect_batches(chunk_size=100_000):
                        table = piece.to_arrow(compat_level=pl.CompatLevel.oldest())
                        yield from table.cast(schema).combine_chunks().to_batches()


def _frame_of(batches: Iterator[pa.RecordBatch]) -> pl.DataFrame | None:
    import polars as pl
    import pyarrow as pa

    together = list(batches)
    if not sum(batch.num_rows for batch in together):
        return None
    frame = pl.from_arrow(pa.Table.from_batches(together))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _write(batches: Iterator[pa.RecordBatch], address: str, part_count: int) -> Iterator[pa.RecordBatch]:
    """In a task: one file of the dataset from the sorted events of whole blocks of customers."""
    import pyarrow as pa

    frame = _frame_of(batches)
    if frame is not None:
        yield pa.RecordBatch.from_pylist([asdict(write_events(frame, address, part_count=part_count))])


def _write_rejected(batches: Iterator[pa.RecordBatch], address: str, name: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    frame = _frame_of(batches)
    if frame is not None:
        yield pa.RecordBatch.from_pylist([{"checksum": write_frame(frame, address, name)}])


@contextmanager
def _report_in_one_line() -> Iterator[None]:
    """Errors of this package arrive from a task wrapped in two stack traces: find their message."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        ours = re.findall(r"lorentzrec\.errors\.\w+: (.+)", str(error))
        if ours:
            raise InputError(ours[-1]) from None
        raised = re.findall(r"^ *\w*(?:Error|Exception): .+", str(error), re.MULTILINE)
        reason = raised[-1].strip() if raised else _first_line(error)
        raise InputError(f"Spark could not finish ({reason}): see its log") from error


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]
