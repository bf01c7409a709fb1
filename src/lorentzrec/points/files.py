"""The files of points, the same in the folder of a model and in a published version.

points.safetensors      item_points; history_points if separate; item_counts
memory.safetensors      offsets, columns and values of the memory, if there is one
repeats.safetensors     rates of items, if what customers bought before is recommended again
trend.safetensors       customers of items in the last days and expected ones, if the events have a clock
masses.safetensors      a number per item, if the model learned any
similarity.safetensors  offsets, columns and values of similar items, unless points alone find them
complements.safetensors offsets, columns, values and counts of what was bought together, if there are orders
attributes.safetensors  points of the attributes; history_points if separate; offsets and rows of those that each item
                        has; text and text_offsets of their values

The entry `points` of the manifest has the rest: the space, the numbers of items and dimensions, and an entry for each
component. A component is a field of `Points` that may be None. `COMPONENTS` has all of them; a new one needs a line
there, and nothing else here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.array_files import Arrays, read_arrays, write_arrays
from lorentzrec.base.manifest import FolderKind, Shape
from lorentzrec.data.arrays import make_offsets
from lorentzrec.data.attributes import AttributeColumn
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.points.attribute_points import AttributePoints
from lorentzrec.points.complements import Complements
from lorentzrec.points.memory import Memory
from lorentzrec.points.points import Points
from lorentzrec.points.repeats import Repeats
from lorentzrec.points.similarity import Similarity
from lorentzrec.points.space import Space
from lorentzrec.points.trend import Trend

POINTS = "points.safetensors"
SHEET_TOLERANCE = 1e-5
"""Relative error allowed in a stored x0 = sqrt(1 + |x|^2): above the rounding of float32, below any real damage."""
ROWS_AT_ONCE = 65_536
"""Points that are checked at a time, to spare memory."""


class Component(NamedTuple):
    """How a component is stored: its arrays in the file NAME.safetensors, if it has any, the rest in the manifest."""

    shape: Shape
    """What the manifest must say of it."""
    split: Callable[[Any], tuple[Arrays, dict[str, Any]]]
    """From the component to its arrays and its entry in the manifest."""
    join: Callable[[Arrays, Mapping[str, Any]], Any]
    """The inverse. Whatever it raises means damage."""


def _split_memory(memory: Memory) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"offsets": memory.offsets, "columns": memory.columns, "values": memory.values}
    return arrays, {"ordered": memory.ordered, "weight": memory.weight, "neighbours": len(memory)}


def _join_memory(arrays: Arrays, described: Mapping[str, Any]) -> Memory:
    return Memory(**arrays, ordered=described["ordered"], weight=described["weight"])


def _split_repeats(repeats: Repeats) -> tuple[Arrays, dict[str, Any]]:
    described = {"weight": repeats.weight, "half_life": repeats.half_life, "order_decay": repeats.order_decay}
    return {"rates": repeats.rates}, described


def _join_repeats(arrays: Arrays, described: Mapping[str, Any]) -> Repeats:
    return Repeats(arrays["rates"], described["weight"], described["half_life"], described["order_decay"])


def _split_trend(trend: Trend) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"recent": trend.recent, "expected": trend.expected}
    return arrays, {"weight": trend.weight, "days": trend.days, "until": trend.until}


def _join_trend(arrays: Arrays, described: Mapping[str, Any]) -> Trend:
    return Trend(arrays["recent"], arrays["expected"], *(described[name] for name in ("weight", "days", "until")))


def _split_masses(masses: NDArray[np.float32]) -> tuple[Arrays, dict[str, Any]]:
    return {"masses": masses}, {}


def _join_masses(arrays: Arrays, described: Mapping[str, Any]) -> NDArray[np.float32]:
    masses: NDArray[np.float32] = arrays["masses"]
    if masses.dtype != np.float32 or masses.ndim != 1 or not np.isfinite(masses).all():
        raise InputError("the masses of items are not finite numbers")
    return masses


def _split_similarity(similarity: Similarity) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"offsets": similarity.offsets, "columns": similarity.columns, "values": similarity.values}
    return arrays, {"neighbours": len(similarity.columns)}


def _join_similarity(arrays: Arrays, described: Mapping[str, Any]) -> Similarity:
    return Similarity(**arrays)


def _split_complements(complements: Complements) -> tuple[Arrays, dict[str, Any]]:
    arrays = {name: getattr(complements, name) for name in ("offsets", "columns", "values", "counts")}
    return arrays, {"pairs": len(complements.columns), "point_weight": complements.point_weight}


def _join_complements(arrays: Arrays, described: Mapping[str, Any]) -> Complements:
    return Complements(**arrays, point_weight=described["point_weight"])


def _split_attributes(attributes: AttributePoints) -> tuple[Arrays, dict[str, Any]]:
    texts = [str(value).encode() for value in attributes.values]
    arrays = {
        **_name_points("points", attributes.points, attributes.history_points),
        "offsets": attributes.offsets,
        "rows": attributes.rows,
        "text": np.frombuffer(b"".join(texts), np.uint8),
        "text_offsets": make_offsets(np.array([len(text) for text in texts], np.int64)),
    }
    return arrays, {"weight": attributes.weight, "columns": [asdict(column) for column in attributes.columns]}


def _join_attributes(arrays: Arrays, described: Mapping[str, Any]) -> AttributePoints:
    offsets, rows, points = arrays["offsets"], arrays["rows"], arrays["points"]
    bounds, text = arrays["text_offsets"].tolist(), arrays["text"].tobytes()
    texts = [text[start:end].decode() for start, end in pairwise(bounds)]
    values = Vocabulary(texts, name="attribute")
    if (
        (offsets.dtype, offsets.ndim, rows.dtype, rows.ndim) != (np.dtype(np.int64), 1, np.dtype(np.int32), 1)
        or (offsets[0], offsets[-1]) != (0, len(rows))
        or (np.diff(offsets) < 0).any()
        or not ((rows >= 0) & (rows < len(values))).all()
    ):
        raise InputError("the offsets and rows of the attributes do not fit the items and attributes")
    columns = tuple(AttributeColumn(**column | {"edges": tuple(column["edges"])}) for column in described["columns"])
    history_points = arrays.get("history_points", points)
    return AttributePoints(values, columns, offsets, rows, points, history_points, described["weight"])


COMPONENTS: dict[str, Component] = {
    "memory": Component({"ordered": bool, "weight": float}, _split_memory, _join_memory),
    "repeats": Component(
        {"weight": float, "half_life": (float, None), "order_decay": float}, _split_repeats, _join_repeats
    ),
    "trend": Component({"weight": float, "days": float, "until": float}, _split_trend, _join_trend),
    "masses": Component({}, _split_masses, _join_masses),
    "similarity": Component({"neighbours": int}, _split_similarity, _join_similarity),
    "complements": Component({"pairs": int, "point_weight": float}, _split_complements, _join_complements),
    "attributes": Component(
        {
            "weight": lambda value: type(value) in (int, float) and 0 < value < math.inf,
            "columns": [{"name": str, "kind": ("path", "values", "number"), "edges": [float]}],
        },
        _split_attributes,
        _join_attributes,
    ),
}
"""By the field of `Points`."""
POINTS_ENTRY: dict[Any, Shape] = {
    "items": int,
    "dimension": int,
    "geometry": ("hyperboloid", "euclidean"),
    "score": ("inner", "distance"),
    "recency": lambda value: type(value) in (int, float) and 0 < value <= 1,
    "by_orders": bool,
    **{name: (component.shape, None) for name, component in COMPONENTS.items()},
}
"""What the entry `points` of a manifest must be."""


def write_points(folder: Path, points: Points) -> dict[str, Any]:
    """Write the files of `points` and return the entry `points` of the manifest."""
    arrays: Arrays = _name_points("item_points", points.item_points, points.history_points)
    write_arrays(folder / POINTS, arrays | {"item_counts": points.item_counts})
    entry = {"items": len(points), "dimension": points.dimension, **points.space._asdict()}
    for name, component in COMPONENTS.items():
        part, entry[name] = getattr(points, name), None
        if part is not None:
            arrays, entry[name] = component.split(part)
            if arrays:
                write_arrays(folder / component_file(name), arrays)
    return entry


def read_points(
    folder: Path,
    manifest: Mapping[str, Any],
    kind: FolderKind,
    read: Callable[[Path, FolderKind], Arrays] = read_arrays,
) -> Points:
    """The inverse of `write_points`. Points are not checked one by one: see `check_points`.

    manifest: with the entries `points` and `files`, both of the right form.
    read: `open_arrays` spares memory.
    """
    entry, arrays = manifest["points"], read(folder / POINTS, kind)
    _check_arrays(folder / POINTS, arrays, entry, kind)
    components = {}
    for name, component in COMPONENTS.items():
        if entry.get(name) is not None:
            path = folder / component_file(name)
            found = read(path, kind) if path.name in manifest["files"] else {}
            try:
                components[name] = component.join(found, entry[name])
            except Exception as error:  # files of strangers may break anything
                raise kind.damaged(path, f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    item_points, space = arrays["item_points"], Space(*(entry[name] for name in Space._fields))
    history_points = arrays.get("history_points", item_points)
    try:
        return Points(item_points, history_points, arrays["item_counts"], space, **components)
    except InputError as error:
        raise kind.damaged(folder, error) from error


def check_points(folder: Path, points: Points, kind: FolderKind) -> None:
    """An error that names the first point that is not finite or not on the sheet, of items and of attributes."""
    for name, array in _name_points("item_points", points.item_points, points.history_points).items():
        check_array(folder / POINTS, name, array, points.space, kind)
    if (attributes := points.attributes) is not None:
        for name, array in _name_points("points", attributes.points, attributes.history_points).items():
            check_array(folder / component_file("attributes"), name, array, points.space, kind)


def check_array(path: Path, name: str, points: NDArray[np.float32], space: Space, kind: FolderKind) -> None:
    """An error that names the first row that is not finite or not on the sheet."""
    if points.ndim != 2 or points.dtype != np.float32:
        raise kind.damaged(path, f"{name} is {points.dtype} {points.shape}, not a float32 point per row")
    for start in range(0, len(points), ROWS_AT_ONCE):
        with np.errstate(invalid="ignore"):
            block = points[start : start + ROWS_AT_ONCE].astype(np.float64)
            valid = np.isfinite(block).all(axis=1)
            if space.hyperbolic:
                valid &= np.abs(lift(block[:, 1:])[:, 0] - block[:, 0]) <= SHEET_TOLERANCE * block[:, 0]
        if not valid.all():
            expected = "on the hyperboloid" if space.hyperbolic else "finite"
            raise kind.damaged(path, f"row {start + int(valid.argmin())} of {name} is not {expected}")


def component_file(name: str) -> str:
    """The file with the arrays of a component."""
    return f"{name}.safetensors"


def _check_arrays(path: Path, arrays: Arrays, entry: Mapping[str, Any], kind: FolderKind) -> None:
    """Check the types and shapes of the arrays in the file of points."""
    count, width = entry["items"], entry["dimension"] + (entry["geometry"] == "hyperboloid")
    expected: dict[str, tuple[Any, tuple[int, ...]]] = {
        "item_points": (np.float32, (count, width)),
        "item_counts": (np.int64, (count,)),
        "history_points": (np.float32, (count, width)),
    }
    if unknown := arrays.keys() - expected:
        raise kind.damaged(path, f"it has other arrays than points: {', '.join(sorted(unknown))}")
    for name, (dtype, shape) in expected.items():
        array = arrays.get(name)
        missing = array is None and name != "history_points"
        if missing or (array is not None and (array.dtype, array.shape) != (np.dtype(dtype), shape)):
            raise kind.damaged(path, f"{name} is not {np.dtype(dtype)} {shape}")


def _name_points(name: str, points: NDArray[np.float32], history_points: NDArray[np.float32]) -> Arrays:
    """The arrays of a file of points, which has history points only if they are others."""
    return {name: points} if history_points is points else {name: points, "history_points": history_points}
