"""What commands write: checked before the work begins, not after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base import atomic
from lorentzrec.base.atomic import MARKER, atomic_directory, atomic_file, write_text
from lorentzrec.base.library_faults import how_to_install
from lorentzrec.batch.part_files import FIRST_PART, FORMATS, PARTS, refuse_other_formats, sink_table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def kind_of_folder(folder: Path) -> str | None:
    """What a folder written by this package is, by its manifest; None if it is none of these."""
    try:
        manifest = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return str(manifest["format"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def refuse_unwritable(out: Path, kind: str) -> None:
    """Raise an `InputError` if a result of this kind cannot be written to the folder `out`.

    A folder of another kind, such as the dataset that is being read, is not replaced.
    """
    if (found := kind_of_folder(out)) not in (None, kind):
        raise InputError(f"{out} holds something else ({found}): choose another name, or remove it first")
    atomic.refuse_unwritable(out)


def refuse_target(out: Path, *, force: bool, formats: tuple[str, ...] = FORMATS) -> None:
    """Raise an `InputError` if the suffix is not that of a known format, or the target exists."""
    refuse_other_formats(out, formats)
    foreign = out.is_dir() and any(not path.match(PARTS) for path in out.iterdir())
    if foreign or out.is_dir() != (out.suffix == "" and out.exists()):
        raise InputError(f"{out} is a {'folder' if out.is_dir() else 'file'} of something else: choose another name")
    if out.exists() and not force:
        raise InputError(f"{out} already exists: choose another name, or overwrite it with `force`")


def write_table(frame: pl.DataFrame, out: Path) -> None:
    """Write a table atomically, in the format of its suffix; without one, as a folder with a Parquet file, which is its
    marker."""
    folder = out.suffix == ""
    with atomic_directory(out, marker=FIRST_PART) if folder else atomic_file(out) as partial:
        sink_table(frame.lazy(), partial / FIRST_PART if folder else partial)


def write_results(folder: Path, name: str, result: Any, plot: Callable[[Path], None]) -> list[str]:
    """Write NAME.json, NAME.png and NAME.svg to a folder; returns a note if there is no matplotlib to plot with."""
    write_text(folder / f"{name}.json", json.dumps(result, indent=2))
    if find_spec("matplotlib") is None:
        return [f"there is no plot because matplotlib is not installed: {how_to_install('plots')}"]
    for suffix in ("png", "svg"):
        plot(folder / f"{name}.{suffix}")
    return []
