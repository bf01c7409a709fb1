"""A published version: what a service needs of a model, in a folder that is written once and never changed.

    points.safetensors   see `points.files`; so are the files of memory, repeats and attributes: files of the model
    items.sqlite         see `item_directory`
    items.safetensors    category_codes; map where there is one
    columns.safetensors  the other columns of the items, see `item_columns`
    index.safetensors    see `index`; only where there are many items
    manifest.json        its format and name, the entries of the model, and size and checksum of every other file

The files of points are those of the model's own folder, byte by byte. Ids are in items.sqlite. A version contains
nothing about customers. How its arrays are copied or mapped is in `base.array_files`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.array_files import Arrays, open_arrays, write_arrays
from lorentzrec.base.atomic import atomic_directory
from lorentzrec.base.manifest import FolderKind, describe_files, write_manifest
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.errors import ArtifactError, InputError, LorentzrecError
from lorentzrec.model.artifact import MODEL_ENTRIES, describe_model
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.points.files import check_points, read_points, write_points
from lorentzrec.points.index import (
    INDEX,
    INDEXED_ITEMS,
    Index,
    build_index,
    check_recall,
    read_index,
    sample_queries,
    write_index,
)
from lorentzrec.points.points import Points
from lorentzrec.serving.versions.item_columns import describe_columns, open_columns, write_columns
from lorentzrec.serving.versions.item_directory import ItemDirectory, describe_items, write_item_directory
from lorentzrec.serving.versions.measured_days import DAYS_ENTRY, MeasuredDay, describe_days, read_days

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.maps.disk_map import DiskMap
    from lorentzrec.model.model import Model

VERSION = FolderKind(
    "lorentzrec version",
    1,
    "version",
    "publish the model again",
    {
        **MODEL_ENTRIES,
        "config": {"model": ("asymmetric", "symmetric"), "history": str},
        "name": str,
        "created": str,
        "described_items": int,
        "index": ({"kind": str, "probes": int, "recall": float}, None),
        "map": ({"method": str}, None),
        "event_weights": {...: lambda value: type(value) in (int, float) and 0 < value < math.inf},
        "publish_notes": [str],
        "compared": ({"version": str, "overlap@10": (float, None)}, None),
        "days": DAYS_ENTRY,
    },
)
ITEMS = "items.sqlite"
ITEM_ARRAYS = "items.safetensors"
COLUMNS = "columns.safetensors"


@dataclass(frozen=True, eq=False)
class Version:
    """An opened version. Immutable, and safe to use from many threads."""

    folder: Path
    manifest: dict[str, Any]
    points: Points
    items: ItemDirectory
    category_codes: NDArray[np.int32]
    """The index of each item's category in `categories`; -1 for none."""
    columns: ItemColumns
    """What filters and rules ask for, the category included."""
    map: NDArray[np.float32] | None
    """The position of each item in the Poincaré disk."""
    index: Index | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def newest_time(self) -> float | None:
        """Unix seconds of the newest event that its model was trained on, if known."""
        newest = self.manifest.get("newest_time")
        return None if newest is None else float(newest)

    @property
    def created(self) -> datetime:
        return datetime.fromisoformat(self.manifest["created"])

    @property
    def check(self) -> RealityCheck | None:
        """The reality check of its model, if there was one, and this release can read it."""
        described = self.manifest.get("check")
        try:
            return None if described is None else RealityCheck.from_dict(described)
        except (TypeError, KeyError):  # of a later release: a service needs it only to show it
            return None

    @property
    def compared(self) -> tuple[str | None, float | None]:
        """The version that was current before it, and the overlap@10 with it, as the gate measured it."""
        found = self.manifest.get("compared") or {}
        return found.get("version"), found.get("overlap@10")

    @property
    def days(self) -> list[MeasuredDay] | None:
        """What the daily job measured before it published this version, oldest first; None if it was not that job."""
        return read_days(self.manifest.get("days"))

    @property
    def event_weights(self) -> dict[str, float]:
        """Weights of the kinds of events; empty if all are equal."""
        return dict(self.manifest["event_weights"])

    @property
    def categories(self) -> list[str]:
        return self.items.categories


def write_version(
    folder: Path,
    model: Model,
    *,
    items: pl.DataFrame | None = None,
    disk_map: DiskMap | None = None,
    index: bool = True,
    event_weights: Mapping[str, float] | None = None,
    parent: str | None = None,
    days: Sequence[MeasuredDay] | None = None,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> dict[str, Any]:
    """Write what a service needs of `model` to `folder` atomically; returns the manifest.

    items: a table with the column id and any of title, category, price and image; all others are for filters and rules.
    disk_map: a position in the Poincaré disk for each item.
    index: build one, if there are enough items for it to pay.
    event_weights: kind of event -> weight, as the model's data were prepared with.
    parent: the version that is current now.
    days: what the daily job measured on the last days, oldest first.
    progress: called with the name of each long step, and 0.
    """
    table, codes, categories, notes = describe_items(model.items.series, model.item_counts, items)
    arrays: Arrays = {"category_codes": codes}
    if disk_map is not None:
        arrays["map"] = _checked_map(disk_map.coordinates, len(model.items))
    check_points(Path("the model"), model.points, VERSION)
    created = datetime.now(UTC)
    with atomic_directory(folder) as new:
        points = write_points(new, model.points)
        write_arrays(new / ITEM_ARRAYS, arrays)
        write_columns(new / COLUMNS, describe_columns(model.items.series, items))
        progress("writing the item directory", 0.0)
        write_item_directory(new / ITEMS, table, categories)
        described_index: dict[str, Any] | None = None
        if index and len(model.items) >= INDEXED_ITEMS:
            progress("building the index", 0.0)
            made = build_index(model.points, sample_queries(model.points, model.histories))
            made = made.tune(model.points.scorer)
            check_recall(made)
            described_index = write_index(new / INDEX, made)
        manifest = {
            "format": VERSION.name,
            "format_version": VERSION.version,
            "name": f"{created:%Y%m%dT%H%M%S}-{created.microsecond:06x}",
            "created": created.isoformat(timespec="seconds"),
            "parent": parent,
            **describe_model(model),
            "points": points,
            "described_items": len(table) - table["title"].null_count(),
            "index": described_index,
            "map": disk_map and {"method": disk_map.method, "kept": disk_map.kept},
            "event_weights": dict(event_weights or {}),
            "publish_notes": notes,
            **({} if days is None else {"days": describe_days(days)}),
            "files": describe_files(new),
        }
        write_manifest(new, manifest)
    return manifest


def open_version(folder: Path, *, copies: Path | None = None) -> Version:
    """Open a version whose files were compared with its manifest, as `Store.fetch` does.

    Any damage is an `ArtifactError`, even if the checksums fit.

    copies: a private folder for copies of small files, which processes with the same folder share; `drop_copies`
        removes them. Without it, each process reads small files into its own memory.
    """
    try:
        return _open_version(folder, copies)
    except LorentzrecError:
        raise
    except OSError as error:
        raise ArtifactError(f"cannot read {folder} ({error}): check the disk and the permissions") from error
    except Exception as error:
        raise VERSION.damaged(folder, f"{type(error).__name__}: {' '.join(str(error).split())}") from error


def _open_version(folder: Path, copies: Path | None) -> Version:
    manifest, read = VERSION.read(folder), partial(open_arrays, copies=copies)
    points, arrays = read_points(folder, manifest, VERSION, read), read(folder / ITEM_ARRAYS, VERSION)
    check_points(folder, points, VERSION)
    items, count = ItemDirectory(folder / ITEMS), len(points)
    if len(items) != count:
        raise VERSION.damaged(folder / ITEMS, f"it has {len(items)} items and the manifest {count}")
    codes, disk_map = arrays.get("category_codes"), arrays.get("map")
    if codes is None or (codes.dtype, codes.shape) != (np.dtype(np.int32), (count,)):
        raise VERSION.damaged(folder / ITEM_ARRAYS, "it has no category code for each item")
    if count and not -1 <= codes.min() <= codes.max() < len(items.categories):
        raise VERSION.damaged(folder / ITEM_ARRAYS, f"a category is outside of the {len(items.categories)} in {ITEMS}")
    if disk_map is not None and (disk_map.dtype, disk_map.shape) != (np.dtype(np.float32), (count, 2)):
        raise VERSION.damaged(folder / ITEM_ARRAYS, "its map has no position for each item")
    columns = open_columns(read(folder / COLUMNS, VERSION), count, items.categories, codes)
    index: Index | None = None
    if manifest["index"] is not None:
        index = read_index(folder / INDEX, read(folder / INDEX, VERSION), manifest["index"], points, VERSION)
    return Version(folder, manifest, points, items, codes, columns, disk_map, index)


def drop_copies(version: Version, copies: Path) -> None:
    """Remove the copies of a version's files. A process that still maps them can continue to use them."""
    for path in copies.glob(f"{version.folder.name}.*"):
        path.unlink(missing_ok=True)


def _checked_map(disk_map: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    if disk_map.shape != (count, 2) or disk_map.dtype != np.float32:
        raise InputError(
            f"the map is {disk_map.dtype} {disk_map.shape}: give float32 ({count}, 2), a position for each item"
        )
    outside = ~(np.square(disk_map.astype(np.float64)).sum(axis=1) < 1)
    if outside.any():
        raise InputError(f"row {int(outside.argmax())} of the map is not inside the unit disk: make the map again")
    return disk_map
