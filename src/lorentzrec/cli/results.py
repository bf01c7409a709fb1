"""What commands write: checked before the work begins, not after it."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.atomic import MARKER, atomic_directory, atomic_file
from lorentzrec.errors import InputError
from lorentzrec.serving.part_files import PARTS, part_name, sink_table

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".parquet", ".csv", ".jsonl")
FIRST_PART = part_name(0)
"""Marks a table without suffix, which is a folder."""


class _Writable(Exception):  # noqa: N818 - not an error: it undoes a write that would succeed
    """The folder can be written."""


def kind_of_folder(folder: Path) -> str | None:
    """What a folder written by this package is, by its manifest; None if it is none of these."""
    try:
        manifest = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return str(manifest.get("kind") or manifest["format"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def refuse_unwritable(out: Path, kind: str) -> None:
    """Raise an `InputError` if a result of this kind cannot be written to the folder `out`.

    A folder of another kind, such as the dataset that is being read, is not replaced.
    """
    if (found := kind_of_folder(out)) not in (None, kind):
        raise InputError(f"{out} holds something else ({found}): choose another name, or remove it first")
    with suppress(_Writable), atomic_directory(out):
        raise _Writable


def refuse_target(out: Path, *, force: bool, formats: tuple[str, ...] = FORMATS) -> None:
    """Raise an `InputError` if the suffix is not that of a known format, or the target exists."""
    if out.suffix not in ("", *formats):
        known = ", ".join(formats)
        raise InputError(f"{out}: unknown format {out.suffix}: end the name in {known}, or nothing for a folder")
    foreign = out.is_dir() and any(not path.match(PARTS) for path in out.iterdir())
    if foreign or out.is_dir() != (out.suffix == "" and out.exists()):
        raise InputError(f"{out} is a {'folder' if out.is_dir() else 'file'} of something else: choose another name")
    if out.exists() and not force:
        raise InputError(f"{out} already exists: choose another name, or overwrite it with `force`")


def write_table(blocks: Iterable[pl.DataFrame], out: Path) -> int:
    """Write the blocks as one table in the format of its suffix, atomically; returns the number of rows.

    Blocks wait on disk until all are there, so that only one is in memory.
    """
    import polars as pl

    rows = 0
    with atomic_directory(out, marker=FIRST_PART) if out.suffix == "" else atomic_file(out) as partial:
        scratch = partial if out.suffix == "" else partial.with_name(f".lorentzrec-{secrets.token_hex(4)}")
        scratch.mkdir(exist_ok=True)
        try:
            for number, block in enumerate(blocks):
                block.write_parquet(scratch / part_name(number))
                rows += len(block)
            if scratch != partial:
                sink_table(pl.scan_parquet(scratch / PARTS), partial)
        finally:
            if scratch != partial:
                shutil.rmtree(scratch, ignore_errors=True)
    return rows
