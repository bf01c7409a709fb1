"""A model as a folder: arrays as safetensors, ids as Parquet, everything else as JSON. No file in it can run code.

points.safetensors     item_points; history_points if separate; user_points if symmetric
items.parquet          row, id, count
users.parquet          row, id, if the model has users
memory.safetensors     offsets, columns and values of the memory, if the model has one
repeats.safetensors    rates of items, if what customers bought before is recommended again
histories.safetensors  offsets, item_rows and, if any, weights of the training histories, unless left out; with repeats
                       also times
attributes.parquet     row, id of the attributes, if the model was trained with any
attributes.safetensors their points; history_points if separate; offsets and rows of those that each item has
optimiser.safetensors  sums of squared gradients per row, and Adam's counts of steps, if known
manifest.json          versions, config, record, metrics, notes, check, and the checksum of every file, itself included
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec._version import __version__
from lorentzrec.base.atomic import MARKER, atomic_directory, checksum, read_directory
from lorentzrec.base.library_faults import first_line, parquet_faults
from lorentzrec.base.manifest import FolderKind, Shape, write_manifest
from lorentzrec.data.attributes import AttributeColumn
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.geometry.hyperboloid import distance_to_origin, lift
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.composing import AttributePoints
from lorentzrec.points.memory import Memory
from lorentzrec.points.points import Points
from lorentzrec.points.repeats import Repeats

if TYPE_CHECKING:
    import polars as pl

MEMORY_ENTRY: dict[Any, Shape] = {"ordered": bool, "weight": float}
"""What a manifest must say of a memory."""
REPEATS_ENTRY: dict[Any, Shape] = {"weight": float, "half_life": (float, None)}
"""What a manifest must say of repeats."""
MODEL = FolderKind(
    "lorentzrec model",
    1,
    "model",
    "save it again",
    {
        "config": dict,
        "data_digest": str,
        "record": [dict],
        "metrics": {...: lambda value: type(value) in (int, float)},  # also NaN
        "notes": [{"kind": str}],
        "files": {...: str},
        "newest_time": (float, None),
        "memory": (MEMORY_ENTRY, None),
        "repeats": (REPEATS_ENTRY, None),
        "attributes": ([{"name": str, "edges": list}], None),
        "items": (int, None),
        "users": (int, None),
        "history_events": (int, None),
        "region": (dict, None),
        "check": (dict, None),
    },
)

POINTS, ITEMS, USERS, HISTORIES = "points.safetensors", "items.parquet", "users.parquet", "histories.safetensors"
MEMORY, REPEATS, OPTIMISER = "memory.safetensors", "repeats.safetensors", "optimiser.safetensors"
ATTRIBUTES, ATTRIBUTE_POINTS = "attributes.parquet", "attributes.safetensors"

SHEET_TOLERANCE = 1e-5
"""Relative error allowed in a stored x0 = sqrt(1 + |x|^2): above the rounding of float32, below any real damage."""


def save_model(model: Model, path: str | Path, *, histories: bool = True) -> None:
    """Write `model` to the folder `path` atomically; an older model there is replaced."""
    saved = model.histories if histories else None
    users = model.users if saved is not None or model.user_points is not None else None
    points = point_arrays(model.item_points, model.history_points, "item_points")
    if model.user_points is not None:
        points["user_points"] = model.user_points
    with atomic_directory(path) as folder:
        write_arrays(folder / POINTS, points)
        if model.memory is not None:
            write_arrays(folder / MEMORY, memory_arrays(model.memory))
        if model.repeats is not None:
            write_arrays(folder / REPEATS, {"rates": model.repeats.rates})
        if model.attributes is not None:
            _write_ids(folder / ATTRIBUTES, model.attributes.values)
            write_arrays(folder / ATTRIBUTE_POINTS, _attribute_arrays(model.attributes))
        if model.optimiser_state is not None:
            write_arrays(folder / OPTIMISER, dict(model.optimiser_state))
        _write_ids(folder / ITEMS, model.items, count=model.item_counts)
        if users is not None:
            _write_ids(folder / USERS, users)
        if saved is not None:
            columns = {"weights": saved.weights, "times": None if model.repeats is None else saved.times}
            known = {name: column for name, column in columns.items() if column is not None}
            write_arrays(folder / HISTORIES, {"offsets": saved.offsets, "item_rows": saved.item_rows, **known})
        for name in (USERS, HISTORIES):
            if (folder / name).exists():
                (folder / name).chmod(0o600)  # only the owner may read what customers did
        manifest = {
            "format": MODEL.name,
            "format_version": MODEL.version,
            "versions": {"lorentzrec": __version__, "python": platform.python_version(), "numpy": np.__version__},
            "config": model.config.to_dict(),
            "data_digest": model.data_digest,
            "oldest_time": model.oldest_time,
            "newest_time": model.newest_time,
            "parent": model.parent,
            "memory": None if model.memory is None else describe_memory(model.memory),
            "repeats": None if model.repeats is None else describe_repeats(model.repeats),
            "attributes": None if model.attributes is None else [asdict(column) for column in model.attributes.columns],
            "region": _describe_region(model),
            "items": len(model.items),
            "users": None if users is None else len(users),
            "history_events": None if saved is None else len(saved),
            "metrics": model.metrics,
            "check": None if model.check is None else model.check.to_dict(),
            "notes": [note.to_dict() for note in model.note_records],
            "record": [epoch.to_dict() for epoch in model.record],
            "files": {file.name: checksum(file) for file in sorted(folder.iterdir())},
        }
        write_manifest(folder, manifest)


def load(path: str | Path) -> Model:
    """Read a model that `Model.save` wrote. Checks every byte, every shape, and that every point is on the sheet."""
    try:
        return read_directory(path, _read_folder)
    except OSError as error:
        raise ArtifactError(f"cannot read the model {path} ({error}): check the disk and the permissions") from error


def _read_folder(folder: Path) -> Model:
    if not folder.is_dir():
        raise ArtifactError(f"there is no model folder {folder}: check the path, or train and save a model first")
    manifest = MODEL.read(folder)
    if not {POINTS, ITEMS} <= manifest["files"].keys():
        raise MODEL.damaged(folder / MARKER, f"it does not list {POINTS} and {ITEMS}")
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder / name} is missing: copy the whole model folder again")
        if checksum(folder / name) != expected:
            raise MODEL.damaged(folder / name, f"its checksum is not the one in {MARKER}")
    return _read_model(folder, manifest)


def _read_model(folder: Path, manifest: dict[str, Any]) -> Model:
    try:
        points, item_frame = _read_arrays(folder / POINTS), _read_ids(folder / ITEMS)
        items = Vocabulary(item_frame["id"], name="item")
        users = Vocabulary(_read_ids(folder / USERS)["id"], name="user") if USERS in manifest["files"] else None
        histories = None
        if users is not None and HISTORIES in manifest["files"]:
            histories = _read_histories(folder / HISTORIES, users, items)
        config = ResolvedConfig.from_mapping(manifest["config"])
        model = Model(
            config=config,
            items=items,
            points=Points(
                points["item_points"],
                points.get("history_points", points["item_points"]),
                item_frame["count"].to_numpy(),
                config.space,
                read_memory(_read_arrays(folder / MEMORY), manifest["memory"]) if manifest.get("memory") else None,
                _read_attributes(folder, items, manifest["attributes"], config.attribute_weight)
                if manifest.get("attributes")
                else None,
                read_repeats(_read_arrays(folder / REPEATS), manifest["repeats"]) if manifest.get("repeats") else None,
            ),
            users=users,
            user_points=points.get("user_points"),
            histories=histories,
            oldest_time=manifest.get("oldest_time"),
            newest_time=manifest.get("newest_time"),
            parent=manifest.get("parent"),
            optimiser_state=_read_arrays(folder / OPTIMISER) if OPTIMISER in manifest["files"] else None,
            record=tuple(EpochRecord.from_dict(epoch) for epoch in manifest["record"]),
            data_digest=manifest["data_digest"],
            metrics=manifest["metrics"],
            note_records=tuple(map(Note.from_dict, manifest["notes"])),
            check=None if manifest.get("check") is None else RealityCheck.from_dict(manifest["check"]),
        )
    except (ArtifactError, OSError, MemoryError):
        raise
    except Exception as error:  # of NumPy, safetensors, Polars: files of strangers may break any of them
        raise MODEL.damaged(folder, f"its files do not make a model: {first_line(error)}") from error
    files = {POINTS: points}
    if model.attributes is not None:
        files[ATTRIBUTE_POINTS] = point_arrays(model.attributes.points, model.attributes.history_points)
    for file, arrays in files.items():
        for name, array in arrays.items():
            check_points(folder / file, name, array, model.config.hyperbolic)
    return model


def _read_histories(path: Path, users: Vocabulary, items: Vocabulary) -> Interactions:
    arrays = _read_arrays(path)
    for name, dtype in {"offsets": np.int64, "item_rows": np.int32, "weights": np.float32}.items():
        if name in arrays and arrays[name].dtype != dtype:
            raise MODEL.damaged(path, f"its {name} are {arrays[name].dtype}, not {np.dtype(dtype)}")
    if "times" in arrays and arrays["times"].dtype not in (np.int64, np.float64):
        raise MODEL.damaged(path, f"its times are {arrays['times'].dtype}, not seconds")
    try:
        return Interactions(
            users, items, arrays["offsets"], arrays["item_rows"], arrays.get("times"), arrays.get("weights")
        )
    except InputError as error:
        raise MODEL.damaged(path, f"it does not fit the users and items: {error}") from error


def point_arrays(
    points: NDArray[np.float32], history_points: NDArray[np.float32], name: str = "points"
) -> dict[str, NDArray[np.float32]]:
    """The arrays of a file of points, which has history points only if they are others."""
    return {name: points} if history_points is points else {name: points, "history_points": history_points}


def _attribute_arrays(attributes: AttributePoints) -> dict[str, NDArray[Any]]:
    points = point_arrays(attributes.points, attributes.history_points)
    return {**points, "offsets": attributes.offsets, "rows": attributes.rows}


def _read_attributes(folder: Path, items: Vocabulary, columns: list[dict[str, Any]], weight: float) -> AttributePoints:
    """The inverse of `_attribute_arrays`."""
    arrays, path = _read_arrays(folder / ATTRIBUTE_POINTS), folder / ATTRIBUTE_POINTS
    values = Vocabulary(_read_ids(folder / ATTRIBUTES)["id"], name="attribute")
    offsets, rows = arrays["offsets"], arrays["rows"]
    if (
        (offsets.dtype, offsets.shape, rows.dtype) != (np.dtype(np.int64), (len(items) + 1,), np.dtype(np.int32))
        or (offsets[0], offsets[-1]) != (0, len(rows))
        or (np.diff(offsets) < 0).any()
        or not ((rows >= 0) & (rows < len(values))).all()
    ):
        raise MODEL.damaged(path, "its offsets and rows do not fit the items and attributes")
    read = tuple(AttributeColumn(**column | {"edges": tuple(column["edges"])}) for column in columns)
    points = arrays["points"], arrays.get("history_points", arrays["points"])
    return AttributePoints(values, read, offsets, rows, *points, weight)


def check_points(path: Path, name: str, points: NDArray[np.float32], hyperbolic: bool) -> None:
    """An error that names the first row that is not finite or not on the sheet; some rows at a time spare memory."""
    if points.ndim != 2 or points.dtype != np.float32:
        raise MODEL.damaged(path, f"{name} is {points.dtype} {points.shape}, not a float32 point per row")
    for start in range(0, len(points), 65_536):
        block = points[start : start + 65_536].astype(np.float64)
        right = np.isfinite(block).all(axis=1)
        if hyperbolic:
            with np.errstate(invalid="ignore"):
                right &= np.abs(lift(block[:, 1:])[:, 0] - block[:, 0]) <= SHEET_TOLERANCE * block[:, 0]
        if not right.all():
            place = "on the hyperboloid" if hyperbolic else "finite"
            raise MODEL.damaged(path, f"row {start + int(right.argmin())} of {name} is not {place}")


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays as safetensors, readable for whoever may read the folder."""
    from safetensors.numpy import save_file

    path.touch()
    permissions = path.stat().st_mode
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    path.chmod(permissions)  # save_file makes its files private, also to the user that runs a service


def memory_arrays(memory: Memory) -> dict[str, NDArray[Any]]:
    return {"offsets": memory.offsets, "columns": memory.columns, "values": memory.values}


def describe_memory(memory: Memory) -> dict[str, Any]:
    """What a manifest says of a memory."""
    return {"ordered": memory.ordered, "weight": memory.weight, "neighbours": len(memory)}


def read_memory(arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> Memory:
    """The inverse of `memory_arrays` and `describe_memory`."""
    return Memory(**arrays, ordered=description["ordered"], weight=description["weight"])


def describe_repeats(repeats: Repeats) -> dict[str, Any]:
    """What a manifest says of repeats."""
    return {"weight": repeats.weight, "half_life": repeats.half_life}


def read_repeats(arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> Repeats:
    """Repeats from their array of rates and `describe_repeats`."""
    return Repeats(arrays["rates"], description["weight"], description["half_life"])


def _describe_region(model: Model) -> dict[str, float] | None:
    """How much of hyperbolic space the items use: the radius of 95 % of them, and the share of those farther from the
    origin than 1, where the curvature of space begins to matter."""
    if not model.config.hyperbolic:
        return None
    radii = distance_to_origin(model.item_points.astype(np.float64))
    return {"radius": float(np.quantile(radii, 0.95)), "share_beyond_1": float(np.mean(radii > 1))}


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load_file

    return load_file(path)


def _write_ids(path: Path, vocabulary: Vocabulary, **columns: NDArray[Any]) -> None:
    import polars as pl

    rows = np.arange(len(vocabulary), dtype=np.int64)
    pl.DataFrame({"row": rows, "id": vocabulary.series, **columns}).write_parquet(path)


def _read_ids(path: Path) -> pl.DataFrame:
    import polars as pl

    with parquet_faults(path, "copy the model again, or save it again"):
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    if not np.array_equal(frame["row"].to_numpy(), np.arange(len(frame))):
        raise MODEL.damaged(path, "its rows are not numbered 0, 1, 2 and so on")
    return frame
