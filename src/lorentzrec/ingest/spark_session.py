"""A Spark session, and what every job on it needs: credentials in its tasks, and errors in one line."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lorentzrec.base.library_faults import first_line, require_extra
from lorentzrec.errors import InputError, TrainingError
from lorentzrec.ingest.storage import credentials

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def spark_session(
    *,
    master: str | None = None,
    session: Any = None,
    memory: str = "4g",
    name: str = "lorentzrec",
) -> Iterator[Any]:
    """A session: an existing one, or a new one, which is stopped at the end: at `master`, by default all cores of this
    machine, or on Spark Connect (`master="sc://host:15002"`).

    `memory`: for the one process of a local master.
    """
    if master is not None and session is not None:
        raise InputError("master and session name two different places: give one of them")
    with require_extra("spark", "the spark engine needs {name}", ", and Java 17 or newer"):
        from pyspark.sql import SparkSession
    own = session is None
    if own:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder: Any = SparkSession.builder
        master = master or "local[*]"
        if master.startswith("sc://"):
            _check_listening(master, 15002, "Spark Connect")
            builder = builder.remote(master)
        else:
            if master.startswith("spark://"):
                _check_listening(master.partition(",")[0], 7077, "Spark's master")
            builder = builder.master(master).appName(name)
            if master.startswith("local"):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                settings = {
                    "spark.driver.memory": memory,
                    "spark.ui.enabled": "false",
                    "spark.ui.showConsoleProgress": "false",
                    "spark.sql.shuffle.partitions": "16",
                    "spark.log.level": "ERROR",
                }
                for setting, value in settings.items():
                    builder = builder.config(setting, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:  # Java missing, a master that does not respond, ...: each has a type of its own
            raise InputError(f"Spark does not start at {master} ({first_line(error)}): check it") from None
    try:
        yield session
    finally:
        if own:
            session.stop()


def _check_listening(url: str, default_port: int, what: str) -> None:
    """Spark retries for minutes where no server listens; a user wants to know at once."""
    address = urlsplit(url.partition(";")[0])
    host, port = address.hostname or "localhost", address.port or default_port
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise InputError(f"no server at {host}:{port} ({error}): start {what} there, or check it") from None


def in_tasks(
    work: Callable[..., Iterator[pa.RecordBatch]], /, **options: Any
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """`work` for `mapInArrow`, with the driver's credentials for remote storage."""
    return partial(_with_credentials, work=partial(work, **options), environment=credentials())


def _with_credentials(
    batches: Iterator[pa.RecordBatch],
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    environment: dict[str, str],
) -> Iterator[pa.RecordBatch]:
    os.environ.update(environment)
    yield from work(batches)


_LACKS = (
    (
        "too little memory",
        r"[\w.]*MemoryError.*|Cannot allocate memory|failed to map segment|Python worker exited unexpectedly"
        r"|exceeding (?:physical )?memory limits|code:? 137",
        "set spark.executor.memory, spark.executor.memoryOverhead or spark.executor.pyspark.memory higher, "
        "or use more workers",
    ),
    (
        "a full disk",
        r"No space left on device|Disk quota exceeded|File too large",
        "make room there, or set TMPDIR and spark.local.dir to another disk",
    ),
)
"""Resources that a worker may lack: name, pattern of the error, advice. If the system kills a worker for its memory,
the only sign is its exit."""


@contextmanager
def report_in_one_line() -> Iterator[None]:
    """Errors of this package arrive from a task wrapped in two stack traces: find their message."""
    from pyspark.errors import PySparkException

    errors: list[type[Exception]] = [PySparkException]
    with suppress(ImportError):  # a client of Spark Connect may come without it
        from py4j.protocol import Py4JJavaError

        errors.append(Py4JJavaError)
    try:
        yield
    except tuple(errors) as error:
        ours = re.findall(r"lorentzrec\.(?:\w+\.)+(\w+): (.+)", str(error))
        if ours:
            kind, message = ours[-1]
            raise (TrainingError if kind == "TrainingError" else InputError)(message) from None
        if re.search(r"ModuleNotFoundError: No module named 'lorentzrec", str(error)):
            raise InputError("the workers have no lorentzrec of this version: install it where the tasks run") from None
        for lack, signs, action in _LACKS:
            if sign := re.search(signs, str(error)):
                raise InputError(f"a worker has {lack} ({sign[0][:200]}): {action}, then run it again") from error
        raised = re.findall(r"^ *\w*(?:Error|Exception): .+", str(error), re.MULTILINE)
        reason = raised[-1].strip() if raised else first_line(error)
        raise InputError(f"Spark could not finish ({reason}): see its log") from error
