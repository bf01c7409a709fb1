"""A table that is computed in parts: a part that is whole is not computed again after a failure.

FOLDER/_key                     of everything that the results depend on
FOLDER/part-00003.parquet       a part
FOLDER/_part-00003.parquet.json its key, rows and checksum, written after it: without them, the part is not whole
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_directory, atomic_file, checksum, locked_directory
from lorentzrec.errors import InputError
from lorentzrec.ingest.storage import NotFound, fetch, join, read_content, read_record, write_file, write_record

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".parquet", ".csv", ".jsonl")
"""Suffixes of tables."""
PARTS, FIRST_PART = "part-*.parquet", "part-00000.parquet"
"""The files of a table without suffix, which is a folder."""
PART = re.compile(r"part-\d{5,}\.parquet")
"""The names of such files; those of Spark's own tables have more in them."""
_KEY = "_key"


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def hash_key(*values: Any) -> str:
    """A short text that differs if any of the values does."""
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def refuse_other_formats(out: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Raise an `InputError` if the suffix is not that of a known format."""
    if out.suffix not in ("", *formats):
        known = ", ".join(formats)
        raise InputError(f"{out}: unknown format {out.suffix}: end the name in {known}, or nothing for a folder")


@dataclass(frozen=True)
class Part:
    """What is known of a part that is whole."""

    rows: int
    again: bool = False
    """An earlier run had written it, and it was damaged."""


@dataclass(frozen=True)
class PartFiles:
    """The parts of one table in a folder, which may be remote: any process may write any of them."""

    folder: str
    key: str

    def find(self, number: int) -> Part | None:
        """A part of an earlier run with the same key; None if it is missing, incomplete or damaged."""
        record = read_record(self._record(number)) or {}
        if record.get("key") != self.key:
            return None
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch, suppress(FileNotFoundError, NotFound):
            if checksum(fetch(self.path(number), Path(scratch))) == record.get("sha256"):
                return Part(int(record["rows"]))
        return None

    def write(self, number: int, frame: pl.DataFrame) -> Part:
        """Write a part, and then the record that says so."""
        record = read_record(self._record(number))
        unreadable = record is None and read_content(self._record(number)) is not None
        again = unreadable or (record is not None and record.get("key") == self.key)
        with write_file(self.path(number)) as file:
            frame.write_parquet(file)
            digest = checksum(file)
        write_record(self._record(number), {"key": self.key, "rows": len(frame), "sha256": digest})
        return Part(len(frame), again)

    def path(self, number: int) -> str:
        return join(self.folder, part_name(number))

    def _record(self, number: int) -> str:
        return join(self.folder, f"_{part_name(number)}.json")

    def clear(self) -> None:
        """Remove everything from the folder, which is on this machine, except the key."""
        for path in Path(self.folder).iterdir():
            if path.name != _KEY:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def drop_customers(self, users: Sequence[str], count: int) -> int:
        """Remove the rows of some customers from the first `count` parts; returns how many of them had any."""
        import polars as pl

        dropped = 0
        for number in range(count) if users else ():
            with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
                frame = pl.read_parquet(fetch(self.path(number), Path(scratch)), glob=False)
            unwanted = frame["user"].is_in(users)
            if unwanted.any():
                dropped += frame.filter(unwanted)["user"].n_unique()
                self.write(number, frame.filter(~unwanted))
        return dropped


@contextmanager
def unfinished_parts(out: Path, key: str) -> Iterator[PartFiles]:
    """The parts of the table `out` in a folder next to it, with those of an earlier run that had the same key.

    While one process has them, another one that would write the same table gets an `InputError`.
    """
    refuse_other_formats(out)
    folder = out.resolve().with_name(f".{out.name}.unfinished")
    if not folder.parent.is_dir():
        raise InputError(f"cannot write {out}: {folder.parent} is not a folder; create it first")
    with locked_directory(folder) as locked:
        if not locked:
            raise InputError(f"another run is writing {out}: wait until it ends, or choose another name")
        parts = PartFiles(str(folder), key)
        if read_record(str(folder / _KEY)) != {"key": key}:
            parts.clear()
            write_record(str(folder / _KEY), {"key": key})
        yield parts


def finish_parts(parts: PartFiles, out: Path, count: int) -> int:
    """Make `out` of the first `count` parts, in the format of its suffix, and remove their folder; the number of rows.

    The parts stay in the folder until `out` is complete, so that after a failure they are not computed again.
    """
    import polars as pl

    files = [Path(parts.path(number)) for number in range(count)]
    frame = pl.scan_parquet(files, glob=False)
    rows = int(frame.select(pl.len()).collect().item())
    if out.suffix:
        with atomic_file(out) as partial:
            sink_table(frame, partial)
    else:
        with atomic_directory(out, marker=part_name(0)) as partial:
            for part in files:
                try:
                    (partial / part.name).hardlink_to(part)
                except OSError:  # a file system without links
                    shutil.copyfile(part, partial / part.name)
    shutil.rmtree(parts.folder)
    return rows


def sink_table(frame: pl.LazyFrame, path: Path) -> None:
    """Write a table in the format of the suffix, without holding it in memory."""
    if path.suffix == ".csv":
        _flat(frame).sink_csv(path)
    elif path.suffix == ".jsonl":
        frame.sink_ndjson(path)
    elif path.suffix == ".parquet":
        frame.sink_parquet(path)


def _flat(frame: pl.LazyFrame) -> pl.LazyFrame:
    """With one column per coordinate of a point, because CSV has no arrays."""
    import polars as pl

    columns: list[pl.Expr] = []
    for name, kind in frame.collect_schema().items():
        if isinstance(kind, pl.Array):
            columns += [pl.col(name).arr.get(index).alias(f"{name}_{index}") for index in range(kind.size)]
        else:
            columns.append(pl.col(name))
    return frame.select(columns)
