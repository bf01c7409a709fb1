"""A published version: everything a service needs, in a folder that is written once and never changed.

    manifest.json        its format and name, and size and checksum of every other file
    points.safetensors   item_points; history_points if separate; item_counts; category_codes; map where there is one
    memory.safetensors   offsets, columns and values of the memory, if the model has one
    repeats.safetensors  rates of items, if what customers bought before is recommended again
    attributes.*         see `attribute_points`, if the model has attributes
    items.sqlite         see `item_directory`
    index.faiss          see `index`; only where there are many items

Small files are copied, once for all workers of a service, so that later damage to them cannot affect a worker. Large
ones are mapped as they are: apart from checksums, opening takes the same time for any size. Either way all workers
share the same pages, which matters for speed: points are read from the processor's cache. If a mapped file
is truncated in place, the system kills the workers that read it; nothing in this package does that, since every writer
makes a new file and renames it. A version contains nothing about customers.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec._version import __version__
from lorentzrec.base.atomic import atomic_directory, checksum
from lorentzrec.base.manifest import FolderKind, write_manifest
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, InputError, LorentzrecError
from lorentzrec.model.artifact import (
    MEMORY_ENTRY,
    REPEATS,
    REPEATS_ENTRY,
    check_points,
    describe_memory,
    describe_repeats,
    memory_arrays,
    point_arrays,
    read_memory,
    read_repeats,
    write_arrays,
)
from lorentzrec.points.composing import AttributePoints
from lorentzrec.points.index import (
    EXTRA,
    INDEX,
    INDEXED_ITEMS,
    Index,
    build_index,
    is_installed,
    open_index,
    sample_queries,
)
from lorentzrec.points.points import Points
from lorentzrec.points.space import Space
from lorentzrec.serving.versions.attribute_points import VersionAttributes, read_attributes, write_attributes
from lorentzrec.serving.versions.item_directory import ItemDirectory, describe_items, write_item_directory

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
        "geometry": ("hyperboloid", "euclidean"),
        "score": ("inner", "distance"),
        "recency": lambda value: type(value) in (int, float) and 0 < value <= 1,
        "memory": (MEMORY_ENTRY, None),
        "repeats": (REPEATS_ENTRY, None),
        "name": str,
        "created": str,
        "model": {"model": ("asymmetric", "symmetric")},
        "data_digest": str,
        "items": int,
        "described_items": int,
        "dimension": int,
        "metrics": (dict, None),
        "check": (dict, None),
        "files": {...: {"sha256": str, "bytes": int}},
        "index": ({"kind": str, "probes": int, "recall": float}, None),
        "map": ({"method": str}, None),
        "event_weights": ({...: lambda value: type(value) in (int, float) and 0 < value < math.inf}, None),
        "notes": ([str], None),
    },
)
POINTS = "points.safetensors"
MEMORY = "memory.safetensors"
ATTRIBUTES = "attributes.json"
ITEMS = "items.sqlite"
READ_BYTES = 64 * 2**20
"""Files of up to this size are copied before use, so that truncating them does no harm; larger ones are mapped."""
TYPES = {"F32": "<f4", "I64": "<i8", "I32": "<i4"}
"""The names of our array types in safetensors."""
SPACE = ("geometry", "score", "recency")
"""What a ranker needs to know of a model's config."""

logger = logging.getLogger("lorentzrec.serving")


@dataclass(frozen=True, eq=False)
class Version:
    """An opened version. Immutable, and safe to use from many threads."""

    folder: Path
    manifest: dict[str, Any]
    points: Points
    items: ItemDirectory
    category_codes: NDArray[np.int32]
    """The index of each item's category in `categories`; -1 for none."""
    map: NDArray[np.float32] | None
    """The position of each item in the Poincaré disk."""
    index: Index | None = None
    attributes: VersionAttributes | None = None
    notes: tuple[str, ...] = ()
    """For the operator of a service."""

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def newest_time(self) -> float | None:
        """Unix seconds of the newest event that its model was trained on, if known."""
        newest = self.manifest.get("data", {}).get("newest")
        return None if newest is None else float(newest)

    @property
    def event_weights(self) -> dict[str, float]:
        """Weights of the kinds of events; empty if all are equal. Versions of 0.1 have no such entry."""
        return dict(self.manifest.get("event_weights", {}))

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
    progress: Callable[[str, float], None] = lambda *_: None,
) -> dict[str, Any]:
    """Write what a service needs of `model` to `folder` atomically; returns the manifest.

    items: a table with the column id and any of title, category, price and image.
    disk_map: a position in the Poincaré disk for each item.
    index: build one, if there are enough items for it to pay.
    event_weights: kind of event -> weight, as the model's data were prepared with.
    parent: the version that is current now.
    progress: called with the name of each long step, and 0.
    """
    table, codes, categories, notes = describe_items(model.items.series, model.item_counts, items)
    arrays: dict[str, NDArray[Any]] = {"item_counts": model.item_counts, "category_codes": codes}
    if disk_map is not None:
        arrays["map"] = _checked_map(disk_map.coordinates, len(model.items))
    created = datetime.now(UTC)
    with atomic_directory(folder) as partial:
        described = _write_model(partial, model, arrays)
        progress("writing the item directory", 0.0)
        write_item_directory(partial / ITEMS, table, categories)
        described_index: dict[str, Any] | None = None
        if index and len(model.items) >= INDEXED_ITEMS:
            if is_installed():
                progress("building the index", 0.0)
                queries = sample_queries(model.points, model.histories)
                described_index = build_index(model.points, queries, partial / INDEX)
            else:
                notes.append(f"{len(model.items):,} items are ranked exactly, not by an index: {EXTRA}, publish again")
        manifest = {
            "format": VERSION.name,
            "format_version": VERSION.version,
            "name": f"{created:%Y%m%dT%H%M%S}-{created.microsecond:06x}",
            "created": created.isoformat(timespec="seconds"),
            "package": __version__,
            "parent": parent,
            "fingerprint": model.fingerprint,
            "parent_fingerprint": model.parent,
            "data": {"oldest": model.oldest_time, "newest": model.newest_time},
            "model": model.config.to_dict(),
            "data_digest": model.data_digest,
            "items": len(model.items),
            "described_items": len(table) - table["title"].null_count(),
            **described,
            "dimension": model.config.dimension,
            "metrics": model.metrics,
            "check": None if model.check is None else model.check.to_dict(),
            "files": {
                file.name: {"sha256": checksum(file), "bytes": file.stat().st_size}
                for file in sorted(partial.iterdir())
            },
            "index": described_index,
            "map": disk_map and {"method": disk_map.method, "kept": disk_map.kept},
            "event_weights": dict(event_weights or {}),
            "notes": notes,
        }
        write_manifest(partial, manifest)
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
    manifest = VERSION.read(folder)
    arrays, points, attributes = _read_model(folder, manifest, copies)
    items, count = ItemDirectory(folder / ITEMS), manifest["items"]
    if len(items) != count:
        raise VERSION.damaged(folder / ITEMS, f"it has {len(items)} items and the manifest {count}")
    codes = arrays["category_codes"]
    if count and not -1 <= codes.min() <= codes.max() < len(items.categories):
        raise VERSION.damaged(folder / POINTS, f"a category is outside of the {len(items.categories)} in {ITEMS}")
    index: Index | None = None
    notes: tuple[str, ...] = ()
    if manifest["index"] is not None and is_installed():
        index = open_index(folder / INDEX, manifest["index"], points, mapped=_is_mapped(folder / INDEX))
    elif manifest["index"] is not None:
        notes = (f"version {manifest['name']} has an index, but items are ranked exactly without faiss: {EXTRA}",)
    return Version(
        folder=folder,
        manifest=manifest,
        points=points,
        items=items,
        category_codes=codes,
        map=arrays.get("map"),
        index=index,
        attributes=attributes,
        notes=notes,
    )


def drop_copies(version: Version, copies: Path) -> None:
    """Remove the copies of a version's files. A process that still maps them can continue to use them."""
    for path in copies.glob(f"{version.folder.name}.*"):
        path.unlink(missing_ok=True)


def read_arrays(path: Path, copies: Path | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, read-only; those of a large file are mapped, which safetensors cannot do."""
    content = _content(path, copies)
    try:
        start = 8 + int(content[:8].view("<u8")[0])
        header = json.loads(content[8:start].tobytes())
        header.pop("__metadata__", None)
        return {
            name: content[start:][slice(*entry["data_offsets"])].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise VERSION.damaged(path, f"its header does not fit its content: {error}") from error


def _content(path: Path, copies: Path | None) -> NDArray[np.uint8]:
    if not _is_mapped(path) and (copies is None or (path := _copy(path, copies)).parent != copies):
        content = np.fromfile(path, np.uint8)
        content.flags.writeable = False
        return content
    return np.memmap(path, np.uint8, mode="r").view(np.ndarray)


def _copy(path: Path, copies: Path) -> Path:
    """A copy of the file as it is now, made by the first process that needs it; `path` if it cannot be made."""
    state = path.stat()
    copy = copies / f"{path.parent.name}.{path.stem}.{state.st_ino}-{state.st_mtime_ns}"
    if not copy.exists():
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        try:
            copies.mkdir(exist_ok=True)
            shutil.copyfile(path, partial)
            partial.replace(copy)
        except OSError as error:
            logger.warning("each worker reads its own %s, since there can be no common copy: %s", path.name, error)
            return path
    return copy


def _is_mapped(path: Path) -> bool:
    return path.stat().st_size > READ_BYTES


def _check_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], count: int, width: int) -> None:
    """Check the arrays of `count` items with points of `width` coordinates."""
    expected = {
        "item_points": ("<f4", (count, width)),
        "history_points": ("<f4", (count, width)),
        "map": ("<f4", (count, 2)),
        "item_counts": ("<i8", (count,)),
        "category_codes": ("<i4", (count,)),
    }
    for name, (dtype, shape) in expected.items():
        array = arrays.get(name)
        missing = array is None and name not in ("history_points", "map")
        if missing or (array is not None and (array.dtype, array.shape) != (np.dtype(dtype), shape)):
            raise VERSION.damaged(path, f"{name} is not {dtype} {shape}")


def _write_model(folder: Path, model: Model, further: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Write what ranks and places items, with `further` arrays, and return its description."""
    arrays = point_arrays(model.item_points, model.history_points, "item_points")
    for name, points in arrays.items():
        check_points(Path("the model"), name, points, model.config.geometry == "hyperboloid")
    write_arrays(folder / POINTS, {**arrays, **further})
    described = {name: getattr(model.config, name) for name in SPACE}
    if model.memory is not None:
        described["memory"] = describe_memory(model.memory)
        write_arrays(folder / MEMORY, memory_arrays(model.memory))
    if model.repeats is not None:
        described["repeats"] = describe_repeats(model.repeats)
        write_arrays(folder / REPEATS, {"rates": model.repeats.rates})
    if model.attributes is not None:
        write_attributes((folder / ATTRIBUTES).with_suffix(""), model.attributes)
    return described


def _read_model(
    folder: Path, manifest: Mapping[str, Any], copies: Path | None
) -> tuple[dict[str, NDArray[Any]], Points, VersionAttributes | None]:
    """What `_write_model` wrote: the arrays next to the points, and what ranks and places items."""
    arrays, count = read_arrays(folder / POINTS, copies), manifest["items"]
    width = manifest["dimension"] + (manifest["geometry"] == "hyperboloid")
    _check_arrays(folder / POINTS, arrays, count, width)
    memory = None
    if manifest.get("memory"):  # versions of 0.1 have none
        memory = read_memory(read_arrays(folder / MEMORY, copies), manifest["memory"])
        if memory.item_count != count:
            raise VERSION.damaged(folder / MEMORY, f"it has {memory.item_count} items and the manifest {count}")
    repeats = None
    if manifest.get("repeats"):
        repeats = read_repeats(read_arrays(folder / REPEATS, copies), manifest["repeats"])
    attributes = None
    if ATTRIBUTES in manifest["files"]:  # nor these
        values = folder / ATTRIBUTES
        attributes = read_attributes(values, read_arrays(values.with_suffix(".safetensors"), copies), width)
    item_points = arrays.pop("item_points")
    points = Points(
        item_points,
        arrays.pop("history_points", item_points),
        arrays["item_counts"],
        Space(*(manifest[name] for name in SPACE)),
        memory,
        None
        if attributes is None
        else AttributePoints(
            Vocabulary([*attributes.rows], name="attribute"),
            tuple(attributes.columns.values()),
            np.zeros(count + 1, np.int64),
            np.empty(0, np.int32),
            attributes.points,
            attributes.history_points,
            manifest["model"]["attribute_weight"],
        ),
        repeats,
    )
    return arrays, points, attributes


def _checked_map(disk_map: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    if disk_map.shape != (count, 2) or disk_map.dtype != np.float32:
        raise InputError(
            f"the map is {disk_map.dtype} {disk_map.shape}: give float32 ({count}, 2), a position for each item"
        )
    outside = ~(np.square(disk_map.astype(np.float64)).sum(axis=1) < 1)
    if outside.any():
        raise InputError(f"row {int(outside.argmax())} of the map is not inside the unit disk: make the map again")
    return disk_map
