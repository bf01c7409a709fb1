"""What the workers of a service know of one another: a small file of each, from which probes are answered for all."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

FOLDER = "workers"
"""Within the folder that the processes of a service share."""
RECORD_BYTES = 8192
"""The size of every file. It never changes, so that a disk that becomes full does not make a worker seem to hang."""
STALE_SECONDS = 10.0
"""A worker whose event loop has not run for this long does not respond: it writes a record each second."""
HUNG_SECONDS = 60.0
"""A worker whose event loop has not run for this long will not run again: the service is to be restarted."""
_ATTEMPTS = 100


class WorkerRecord(msgspec.Struct, frozen=True):
    """The state of one worker."""

    process: int
    beat: float
    """When its event loop last ran, in seconds of the monotonic clock, which all processes of a machine share."""
    model: str | None
    """The version in use."""
    problem: str | None
    """Why it cannot recommend; None if it can."""
    warnings: list[str]
    written: float = 0.0
    """Also at the end of the file: a reader that finds two times has read while the worker wrote."""


class RecordFile:
    """The file of one worker."""

    def __init__(self, folder: Path, process: int) -> None:
        self._path = folder / FOLDER / str(process)
        self._file = self._open()

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, record: WorkerRecord) -> None:
        if not os.fstat(self._file).st_nlink:  # the temporary folder was cleaned up
            os.close(self._file)
            self._file = self._open()
        stamp = time.monotonic()
        encoded = msgspec.json.encode(msgspec.structs.replace(record, written=stamp))
        if len(encoded) > RECORD_BYTES - 32:
            fewer = [*record.warnings[:5], "there are more warnings, and the log of the service has them"]
            short = [warning[:500] for warning in fewer]
            encoded = msgspec.json.encode(msgspec.structs.replace(record, warnings=short, written=stamp))
        os.pwrite(self._file, encoded.ljust(RECORD_BYTES - 32) + repr(stamp).encode().rjust(32), 0)


def remove_record(folder: Path, process: int) -> None:
    """Remove the record of a worker that has ended."""
    (folder / FOLDER / str(process)).unlink(missing_ok=True)


def read_records(folder: Path) -> list[WorkerRecord]:
    """The records of all workers that run."""
    paths = sorted((folder / FOLDER).glob("*"))
    found = (_read(path) for path in paths if _runs(int(path.name)))
    return [record for record in found if record is not None]


def _read(path: Path) -> WorkerRecord | None:
    """None if the worker has ended meanwhile."""
    for _ in range(_ATTEMPTS):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        with suppress(msgspec.DecodeError, ValueError):
            record = msgspec.json.decode(content[:-32], type=WorkerRecord)
            if float(content[-32:]) == record.written:
                return record
        time.sleep(0.001)
    return None


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def find_problems(records: Sequence[WorkerRecord], expected: int) -> list[str]:
    """Why a service with this many workers is not ready; empty if every worker can recommend."""
    now, problems = time.monotonic(), []
    if (missing := expected - len(records)) > 0:
        problems.append(f"{missing} of {expected} {'worker is' if expected == 1 else 'workers are'} starting")
    for record in records:
        if (seconds := now - record.beat) > STALE_SECONDS:
            problems.append(f"the worker {record.process} has not responded for {seconds:.0f} seconds")
        elif record.problem is not None:
            problems.append(record.problem)
    return list(dict.fromkeys(problems))


def find_hung(records: Sequence[WorkerRecord]) -> list[int]:
    """The workers that will not respond again."""
    now = time.monotonic()
    return [record.process for record in records if now - record.beat > HUNG_SECONDS]


def describe_hung(processes: Sequence[int]) -> str:
    return f"workers hang ({', '.join(map(str, processes))}): restart the service"


def merge_warnings(records: Sequence[WorkerRecord]) -> list[str]:
    """The warnings of all workers, each once."""
    return list(dict.fromkeys(warning for record in records for warning in record.warnings))
