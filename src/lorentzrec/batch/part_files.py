"""A table that is computed in parts: a part that is written is not computed again after a failure."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.atomic import atomic_directory, atomic_file, write_text
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".parquet", ".csv", ".jsonl")
"""Suffixes of tables."""
PARTS = "part-*.parquet"
"""The files of a table without suffix, which is a folder."""
PART = re.compile(r"part-\d{5,}\.parquet")
"""The names of such files; those of Spark's own tables have more in them."""
_KEY = "_key"


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def key_of(*values: Any) -> str:
    """A short text that differs if any of the values does."""
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def refuse_other_formats(out: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Raise an `InputError` if the suffix is not that of a known format."""
    if out.suffix not in ("", *formats):
        known = ", ".join(formats)
        raise InputError(f"{out}: unknown format {out.suffix}: end the name in {known}, or nothing for a folder")


def unfinished_folder(out: Path, key: str) -> Path:
    """A folder next to `out` for its parts, with those of an earlier run that had the same key."""
    refuse_other_formats(out)
    folder = out.resolve().with_name(f".{out.name}.unfinished")
    if not folder.parent.is_dir():
        raise InputError(f"cannot write {out}: {folder.parent} is not a folder; create it first")
    if folder.exists() and ((folder / _KEY).read_text() if (folder / _KEY).is_file() else None) != key:
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    write_text(folder / _KEY, key)
    return folder


def finish_parts(folder: Path, out: Path) -> int:
    """Make `out` of all parts in a folder, in the format of its suffix, and remove the folder; the number of rows.

    The parts stay in the folder until `out` is complete, so that after a failure they are not computed again.
    """
    import polars as pl

    frame = pl.scan_parquet(sorted(folder.glob(PARTS)), glob=False)
    rows = int(frame.select(pl.len()).collect().item())
    if out.suffix:
        with atomic_file(out) as partial:
            sink_table(frame, partial)
    else:
        with atomic_directory(out, marker=part_name(0)) as partial:
            for part in folder.glob(PARTS):
                try:
                    (partial / part.name).hardlink_to(part)
                except OSError:  # a file system without links
                    shutil.copyfile(part, partial / part.name)
    shutil.rmtree(folder)
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
            columns += [pl.col(name).arr.get(place).alias(f"{name}_{place}") for place in range(kind.size)]
        else:
            columns.append(pl.col(name))
    return frame.select(columns)
