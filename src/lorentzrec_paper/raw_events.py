"""The events of files as they are, before any filter and in the order of the files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import InputError
from lorentzrec.ingest.layouts import Layout, detect_layout
from lorentzrec.ingest.reading import FAULT_COLUMNS, INTEGER, fault_error, scan_events
from lorentzrec.ingest.sources import Source
from lorentzrec.ingest.storage import fetch, list_files, parquet_faults

if TYPE_CHECKING:
    import polars as pl


def read_raw_events(address: str | Path, source: Source) -> tuple[pl.DataFrame, Layout]:
    """All events at an address, in memory; an `InputError` for the first fault."""
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        frames, layouts = [], []
        for file in list_files(address, name=source.file_name):
            path = fetch(file.address, Path(scratch))
            layouts.append(detect_layout(path, source, file.address))
            frames.append(scan_events(path, layouts[-1], Path(scratch)))
        with parquet_faults(address, "check the files", InputError):
            events = pl.concat(frames, how="vertical_relaxed")
            faults = events.filter(pl.col("fault").is_not_null()).head(1).collect()
            if len(faults):
                raise fault_error(faults.row(0, named=True))
            frame = events.drop(FAULT_COLUMNS).collect()
    if len(frame) == 0:
        raise InputError(f"{address} holds no events: give at least one")
    return frame, layouts[0]


def parse_ids(ids: pl.Series, spelled: bool) -> pl.Series:
    """Ids as integers if they are `spelled` in text and every one has the spelling of an integer ("7", not "07")."""
    import polars as pl

    return ids.cast(pl.Int64) if spelled and ids.dtype == pl.String and ids.str.contains(INTEGER).all() else ids
