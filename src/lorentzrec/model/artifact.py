"""A model as a folder: arrays as safetensors, ids as Parquet, everything else as JSON. No file in it can run code.

points.safetensors      see `points.files`; so are the files of memory, repeats and attributes
items.parquet           row, id
users.parquet           row, id, if the model has users
user_points.safetensors user_points of a symmetric model
histories.safetensors   offsets, item_rows and, if known, times, weights, labels and orders of the training histories,
                        unless left out
optimiser.safetensors   sums of squared gradients per row, and Adam's counts of steps, if known
manifest.json           points, config, record, metrics, check, notes, and size and checksum of every other file; sealed

A published version has the same files of points and the same entries of `describe_model`: see `serving.versions`.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec._version import __version__
from lorentzrec.base.array_files import read_arrays, write_arrays
from lorentzrec.base.atomic import MARKER, atomic_directory, checksum, read_directory
from lorentzrec.base.library_faults import first_line, parquet_faults
from lorentzrec.base.manifest import FILES_ENTRY, FolderKind, Shape, describe_files, write_manifest
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.geometry.hyperboloid import distance_to_origin
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.files import POINTS, POINTS_ENTRY, check_array, check_points, read_points, write_points

if TYPE_CHECKING:
    import polars as pl

MODEL_ENTRIES: dict[str, Shape] = {
    "points": POINTS_ENTRY,
    "config": dict,
    "data_digest": str,
    "newest_time": (float, None),
    "metrics": {...: lambda value: type(value) in (int, float)},  # also NaN
    "check": (dict, None),
    "region": (dict, None),
    "files": FILES_ENTRY,
}
"""Entries of the manifests of models and of published versions."""
MODEL = FolderKind(
    "lorentzrec model",
    1,
    "model",
    "save it again",
    {
        **MODEL_ENTRIES,
        "record": [dict],
        "notes": [{"kind": str}],
        "users": (int, None),
        "history_events": (int, None),
        "ties_given": (bool, None),
        "deliveries": ([str], None),
    },
)

ITEMS, USERS, USER_POINTS = "items.parquet", "users.parquet", "user_points.safetensors"
HISTORIES, OPTIMISER = "histories.safetensors", "optimiser.safetensors"
_HISTORY_TYPES = {
    "offsets": np.int64,
    "item_rows": np.int32,
    "weights": np.float32,
    "labels": np.bool_,
    "orders": np.int32,
}
PRIVATE = (USERS, USER_POINTS, HISTORIES)
"""Files about customers, which only the owner may read."""


def save_model(model: Model, path: str | Path, *, histories: bool = True) -> None:
    """Write `model` to the folder `path` atomically; an older model there is replaced."""
    saved = model.histories if histories else None
    users = model.users if saved is not None or model.user_points is not None else None
    with atomic_directory(path) as folder:
        points = write_points(folder, model.points)
        _write_ids(folder / ITEMS, model.items)
        if users is not None:
            _write_ids(folder / USERS, users)
        if model.user_points is not None:
            write_arrays(folder / USER_POINTS, {"user_points": model.user_points})
        if saved is not None:
            write_arrays(folder / HISTORIES, {"offsets": saved.offsets, **saved.event_columns()})
        if model.optimiser_state is not None:
            write_arrays(folder / OPTIMISER, model.optimiser_state)
        for name in PRIVATE:
            if (folder / name).exists():
                (folder / name).chmod(0o600)
        manifest = {
            "format": MODEL.name,
            "format_version": MODEL.version,
            **describe_model(model),
            "points": points,
            "users": None if users is None else len(users),
            "history_events": None if saved is None else len(saved),
            "ties_given": None if saved is None else saved.ties_given,
            "deliveries": [] if saved is None else list(saved.deliveries),
            "notes": [note.to_dict() for note in model.note_records],
            "record": [epoch.to_dict() for epoch in model.record],
            "files": describe_files(folder),
        }
        write_manifest(folder, manifest)


def describe_model(model: Model) -> dict[str, Any]:
    """What the manifests of a model and of its published version say in the same words, except points and files."""
    return {
        "versions": {"lorentzrec": __version__, "python": platform.python_version(), "numpy": np.__version__},
        "config": model.config.to_dict(),
        "data_digest": model.data_digest,
        "fingerprint": model.fingerprint,
        "parent_fingerprint": model.parent,
        "oldest_time": model.oldest_time,
        "newest_time": model.newest_time,
        "region": _describe_region(model),
        "metrics": model.metrics,
        "check": None if model.check is None else model.check.to_dict(),
    }


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
        if checksum(folder / name) != expected["sha256"]:
            raise MODEL.damaged(folder / name, f"its checksum is not the one in {MARKER}")
    return _read_model(folder, manifest)


def _read_model(folder: Path, manifest: dict[str, Any]) -> Model:
    files = manifest["files"]
    try:
        points = read_points(folder, manifest, MODEL)
        items = Vocabulary(_read_ids(folder / ITEMS)["id"], name="item")
        users = Vocabulary(_read_ids(folder / USERS)["id"], name="user") if USERS in files else None
        histories = None
        if users is not None and HISTORIES in files:
            histories = _read_histories(folder / HISTORIES, users, items, manifest)
        model = Model(
            config=ResolvedConfig.from_mapping(manifest["config"]),
            items=items,
            points=points,
            users=users,
            user_points=read_arrays(folder / USER_POINTS, MODEL)["user_points"] if USER_POINTS in files else None,
            histories=histories,
            oldest_time=manifest.get("oldest_time"),
            newest_time=manifest.get("newest_time"),
            parent=manifest.get("parent_fingerprint"),
            optimiser_state=read_arrays(folder / OPTIMISER, MODEL) if OPTIMISER in files else None,
            record=tuple(EpochRecord.from_dict(epoch) for epoch in manifest["record"]),
            data_digest=manifest["data_digest"],
            metrics=manifest["metrics"],
            note_records=tuple(map(Note.from_dict, manifest["notes"])),
            check=None if manifest.get("check") is None else RealityCheck.from_dict(manifest["check"]),
        )
    except (ArtifactError, OSError, MemoryError):
        raise
    except Exception as error:  # of NumPy and Polars: files of strangers may break any of them
        raise MODEL.damaged(folder, f"its files do not make a model: {first_line(error)}") from error
    check_points(folder, points, MODEL)
    if model.user_points is not None:
        check_array(folder / USER_POINTS, "user_points", model.user_points, points.space, MODEL)
    return model


def _read_histories(path: Path, users: Vocabulary, items: Vocabulary, manifest: dict[str, Any]) -> Interactions:
    arrays = read_arrays(path, MODEL)
    for name, dtype in _HISTORY_TYPES.items():
        if name in arrays and arrays[name].dtype != dtype:
            raise MODEL.damaged(path, f"its {name} are {arrays[name].dtype}, not {np.dtype(dtype)}")
    if "times" in arrays and arrays["times"].dtype not in (np.int64, np.float64):
        raise MODEL.damaged(path, f"its times are {arrays['times'].dtype}, not seconds")
    try:
        return Interactions(
            users,
            items,
            arrays["offsets"],
            arrays["item_rows"],
            arrays.get("times"),
            arrays.get("weights"),
            arrays.get("labels"),
            arrays.get("orders"),
            ties_given=bool(manifest.get("ties_given")),
            deliveries=tuple(manifest.get("deliveries") or ()),
        )
    except InputError as error:
        raise MODEL.damaged(path, f"it does not fit the users and items: {error}") from error


def _describe_region(model: Model) -> dict[str, float] | None:
    """How much of hyperbolic space the items use: the radius of 95 % of them, and the share of those farther from the
    origin than 1, where the curvature of space begins to matter."""
    if not model.config.hyperbolic:
        return None
    radii = distance_to_origin(model.item_points.astype(np.float64))
    return {"radius": float(np.quantile(radii, 0.95)), "share_beyond_1": float(np.mean(radii > 1))}


def _write_ids(path: Path, vocabulary: Vocabulary) -> None:
    import polars as pl

    rows = np.arange(len(vocabulary), dtype=np.int64)
    pl.DataFrame({"row": rows, "id": vocabulary.series}).write_parquet(path)


def _read_ids(path: Path) -> pl.DataFrame:
    import polars as pl

    with parquet_faults(path, "copy the model again, or save it again"):
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    if not np.array_equal(frame["row"].to_numpy(), np.arange(len(frame))):
        raise MODEL.damaged(path, "its rows are not numbered 0, 1, 2 and so on")
    return frame
