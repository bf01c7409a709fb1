"""Checks of a dataset folder before anything is computed from it.

Datasets are exchanged between people, and compiled code reads and writes at their rows: a row that is out of range must
be found here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.atomic import MARKER
from lorentzrec.base.library_faults import parquet_faults
from lorentzrec.base.manifest import FolderKind
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.ingest.storage import join

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

AGAIN = "prepare the dataset again with `force`"
DATASET = FolderKind(
    "lorentzrec dataset",
    1,
    "dataset",
    AGAIN,
    {"digest": str, "counts": dict, "columns": list, "parts": dict, "files": dict},
)

LATEST_TIME = 2**53
"""Seconds from 1970 in either direction: beyond it, not every second is a number of double precision."""
DELIVERY_FOLDER = re.compile(r"deliveries/\d{5,9}")
NEXT_ITEM = "next_item_row"
"""A column of the files that training does not read."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "user_row": ("Int32",),
    "item_row": ("Int32",),
    "time": ("Int64", "Float64"),
    "weight": ("Float32",),
    "label": ("Boolean",),
    "order": ("Int32",),
    "part": ("UInt8",),
}
"""Columns of the events in the order of the files and the digest, and their types."""


def check_manifest(content: bytes, address: str) -> dict[str, Any]:
    """The manifest of the dataset at `address`; an `ArtifactError` if it is damaged or of another version."""
    file_address = join(address, MARKER)
    manifest = DATASET.parse(content, file_address)
    if fault := _manifest_fault(manifest):
        raise DATASET.damaged(file_address, fault)
    return manifest


def _manifest_fault(manifest: Mapping[str, Any]) -> str | None:
    counts, columns, parts, files = (manifest[name] for name in ("counts", "columns", "parts", "files"))
    if not all(_is_count(counts.get(name)) for name in ("events", "users", "items")):
        return "its counts are not numbers of events, users and items"
    if not all(map(_is_count, parts.values())):
        return "its parts are not numbers of events"
    if not {"user_row", "item_row"} <= set(map(str, columns)) or set(map(str, columns)) - {*COLUMNS, NEXT_ITEM}:
        return f"its columns are {columns!r}"
    if ("part" in columns) != bool(parts):
        return "it has parts without a column of them, or the column without parts"
    if not isinstance(manifest.get("notes", []), list):
        return "its notes are not a list"
    deliveries = manifest.get("deliveries", [])
    if not isinstance(deliveries, list) or not all(map(_is_delivery, deliveries)):
        return "its deliveries are not as `append` writes them"
    base = manifest.get("base", {"digest": "", "counts": counts})
    if (
        not isinstance(base, dict)
        or not isinstance(base.get("digest"), str)
        or not isinstance(base.get("counts"), dict)
    ):
        return "it does not say what it was before the deliveries"
    if not all(_is_count(base["counts"].get(name)) for name in ("events", "users", "items")):
        return "its counts before the deliveries are not numbers"
    if not isinstance(manifest.get("compacted", []), list):
        return "it does not list the deliveries that are compacted"
    for name, checksum in files.items():
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
            return f"it lists {name!r}, which is not the name of a file in the folder"
        if not isinstance(checksum, str):
            return f"the checksum of {name} is not text"
    return None


def _is_delivery(entry: object) -> bool:
    """Whether an entry has what is needed to read the delivery; its folder has a name that leads nowhere else."""
    if not isinstance(entry, dict) or not isinstance(entry.get("digest"), str):
        return False
    folder = entry.get("folder")
    return folder is None or (isinstance(folder, str) and DELIVERY_FOLDER.fullmatch(folder) is not None)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_vocabulary(
    path: Path, name: str, file_address: str, count: int, columns: list[str] | None = None
) -> tuple[pl.DataFrame, Vocabulary]:
    """The table users.parquet or items.parquet, all of it or some columns, and its ids, `count` by the manifest."""
    import polars as pl

    with parquet_faults(file_address, AGAIN):
        frame = pl.read_parquet(path, columns=columns, glob=False)
        rows, ids = frame["row"], frame["id"]
    if len(frame) != count:
        raise ArtifactError(f"{file_address} has {len(frame):,} rows instead of {count:,}: {AGAIN}")
    if not rows.dtype.is_integer() or not np.array_equal(rows.to_numpy(), np.arange(len(frame))):
        raise ArtifactError(f"{file_address} is damaged (its rows are not numbered 0, 1, 2, ...): {AGAIN}")
    try:
        return frame, Vocabulary(ids, name=name)
    except InputError as error:
        raise ArtifactError(f"{file_address} is damaged ({error}): {AGAIN}") from None


def check_events(
    events: pl.DataFrame, manifest: Mapping[str, Any], file_address: str, files: Mapping[str, Path]
) -> None:
    """Raise an `ArtifactError` that names the column, and if possible the file and row, that cannot be used.

    files: address and local path of each file of the events, in row order.
    """
    counts, parts = manifest["counts"], manifest["parts"]
    if len(events) != counts["events"]:
        raise ArtifactError(f"{file_address}: {len(events):,} events instead of {counts['events']:,}: {AGAIN}")

    def refuse(name: str, wrong: pl.Series, reason: str) -> None:
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise ArtifactError(f"{_row_in(files, row)}: {name} is {events[name][row]}, {reason}: {AGAIN}")

    for name, column in zip(events.columns, events, strict=True):
        if str(column.dtype) not in COLUMNS[name]:
            raise ArtifactError(
                f"{file_address}: column {name} is {column.dtype}, not {' or '.join(COLUMNS[name])}: {AGAIN}"
            )
        refuse(name, column.is_null(), "there is none")
        if column.dtype.is_float():
            refuse(name, ~column.is_finite(), "it must be finite")
        if name == "weight":
            refuse(name, column <= 0, "it must be positive")
        if name == "order":
            refuse(name, column < 0, "it must be at least 0")
        if name == "time":
            far = (column > LATEST_TIME) | (column < -LATEST_TIME)
            refuse(name, far, f"it must be within {LATEST_TIME:,} seconds of 1970")
    for name, limit in {"user_row": counts["users"], "item_row": counts["items"], "part": len(parts)}.items():
        if name in events.columns:
            column = events[name]
            refuse(name, (column < 0) | (column >= limit), f"it must be at least 0 and less than {limit:,}")
    users = events["user_row"]
    refuse("user_row", users.diff() < 0, "events are not sorted by user")
    if "time" in events.columns:
        refuse("time", (events["time"].diff() < 0) & (users.diff() == 0), "it is before the event above it")
    if parts:
        found = np.bincount(events["part"].to_numpy(), minlength=len(parts)).tolist()
        if found != list(parts.values()):
            raise ArtifactError(
                f"{file_address}: the parts have {found} events instead of {list(parts.values())}: {AGAIN}"
            )


def check_other_columns(manifest: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Raise an `ArtifactError` if the files have other columns than the manifest, or next items that do not exist."""
    import polars as pl

    items = manifest["counts"]["items"]
    for address, path in files.items():
        with parquet_faults(address, AGAIN):
            columns = pl.read_parquet_schema(path)
        if set(columns) != set(manifest["columns"]):
            names = f"{', '.join(columns)} instead of {', '.join(map(str, manifest['columns']))}"
            raise ArtifactError(f"{address} has the columns {names}: {AGAIN}")
        if NEXT_ITEM in columns:
            if not columns[NEXT_ITEM].is_integer():
                raise ArtifactError(f"{address}: column {NEXT_ITEM} is {columns[NEXT_ITEM]}, not Int32: {AGAIN}")
            with parquet_faults(address, AGAIN):
                scan = pl.scan_parquet(path, glob=False).select(
                    least=pl.col(NEXT_ITEM).min(), greatest=pl.col(NEXT_ITEM).max()
                )
                least, greatest = scan.collect(engine="streaming").row(0)
            if least is not None and not 0 <= least <= greatest < items:
                wrong = least if least < 0 else greatest
                raise ArtifactError(
                    f"{address}: a {NEXT_ITEM} is {wrong}, it must be at least 0 and less than {items:,}: {AGAIN}"
                )


def _row_in(files: Mapping[str, Path], row: int) -> str:
    """The file and row of an event, which is counted from the first event of the first file."""
    import polars as pl

    for address, path in files.items():
        length = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        if row < length:
            return f"{address} row {row + 1}"
        row -= length
    raise AssertionError("the files have fewer events than were read")
