"""A map of the catalogue: every item as a point of the Poincare disk, and how much of the truth it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import boost, lift
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.reduction.neighbour_map import Progress, neighbour_map
from lorentzrec.reduction.neighbours import Geometry
from lorentzrec.reduction.principal_plane import flat_plane, hyperbolic_plane
from lorentzrec.reduction.truth import centrality, kept_by

Method: TypeAlias = Literal["auto", "exact", "levels", "neighbours", "plane"]

METHODS = {
    "exact": "the model itself, which has two dimensions, with its midpoint at the centre",
    "levels": "neighbours kept together, the radius by the distance to the model's centre",
    "neighbours": "neighbours kept together, the radius free",
    "plane": "principal plane, radii stretched to fill the disk",
}
PLANE_RIM = 0.95
"""Poincare radius within which 99 % of the points of a stretched plane lie."""
INNERMOST_OF_RIM = 1 - 2.0**-20
"""Where points are drawn that float32 would put on the circle itself."""


@dataclass(frozen=True, eq=False)
class DiskMap:
    """Where items are on the disk, how they came there, and what of the model is still true there."""

    coordinates: NDArray[np.float32]
    """(n, 2), inside the open unit disk: Poincare coordinates."""
    method: str
    """One of `METHODS`."""
    kept: dict[str, float]
    """See `truth.kept_by`. Also `spread` (share of it that a plane holds) and `on the rim` (points that lie so far
    out that they had to be moved inside), where they are."""

    def description(self) -> str:
        """One line for a caption."""
        numbers = ", ".join(f"{name} {value:.2g}" for name, value in self.kept.items())
        return METHODS[self.method] + (f"; kept: {numbers}" if numbers else "")


def disk_map(
    points: NDArray[Any],
    *,
    geometry: Geometry,
    counts: NDArray[Any] | None = None,
    method: Method = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> DiskMap:
    """Map points, (n, d + 1) on the hyperboloid or (n, d) in flat space, to the disk.

    counts: popularity; of more points than can be laid out in half a minute, the popular ones are, and the others are
    placed among them.
    method: one of `METHODS`, or `auto`: exact for a hyperboloid of two dimensions, levels for one of more, neighbours
    for flat space, which has no centre to speak of. `docs/map.md` compares them.

    The same seed gives the same map on the same machine, whatever the threads.
    """
    method = _checked(points, geometry, counts, method)
    told = progress or (lambda _share: None)
    told(0.0)
    kept: dict[str, float] = {}
    if method == "exact":
        places = _centred(lift(points[:, 1:].astype(np.float64)))
    elif method == "plane" or len(points) < 3:
        method = "plane"
        places, kept["spread"] = _stretched_plane(points, geometry)
    else:
        order = centrality(points, geometry) if method == "levels" else None
        places = neighbour_map(points, geometry, counts=counts, centrality=order, seed=seed, progress=told)
    kept |= kept_by(places, points, geometry, seed)
    coordinates, moved = _inside(to_poincare(places))
    if moved:
        kept["on the rim"] = float(moved)
    told(1.0)
    return DiskMap(coordinates, method, kept)


def _checked(points: NDArray[Any], geometry: Geometry, counts: NDArray[Any] | None, method: Method) -> Method:
    """The method to use, or an error that says what is wrong."""
    if method not in get_args(Method):
        raise InputError(f"there is no map method {method!r}: use one of {', '.join(get_args(Method))}")
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise InputError(f"points of shape {points.shape} have no map: give at least one row, all of finite numbers")
    if counts is not None and len(counts) != len(points):
        raise InputError(f"there are {len(points)} points and {len(counts)} counts: give one for each")
    flat = geometry == "hyperboloid" and points.shape[1] == 3
    if method == "exact" and not flat:
        raise InputError("the map is exact only for a hyperboloid of two dimensions: leave the method out")
    if method != "auto":
        return method
    return "exact" if flat else "levels" if geometry == "hyperboloid" else "neighbours"


def _centred(places: FloatArray) -> FloatArray:
    """Moved by the isometry that carries the midpoint to the centre."""
    middle = normalise_sum(places.sum(axis=0))
    return lift((places @ boost(lift(-middle[1:])))[:, 1:])


def _stretched_plane(points: NDArray[Any], geometry: Geometry) -> tuple[FloatArray, float]:
    """The principal plane with all radii times one number that fills the disk, and the share of spread it holds."""
    if geometry == "hyperboloid":
        plane, spread = hyperbolic_plane(points)
        space = plane[:, 1:]
        lengths = np.sqrt(squared_norm(space))
        radii = np.arcsinh(lengths)
    else:
        space, spread = flat_plane(points)
        radii = lengths = np.sqrt(squared_norm(space))
    reach = float(np.quantile(radii, 0.99)) or float(radii.max()) or 1.0
    wanted = np.sinh(radii * (2 * np.arctanh(PLANE_RIM) / reach))  # distance r is drawn at tanh(r / 2)
    factors: FloatArray = np.divide(wanted, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return lift(space * factors[:, None]), spread


def _inside(coordinates: FloatArray) -> tuple[NDArray[np.float32], int]:
    """As float32, and how many points its rounding would have put on or beyond the circle."""
    lengths = np.sqrt(squared_norm(coordinates))
    outside = lengths > INNERMOST_OF_RIM
    coordinates = coordinates / np.maximum(1, lengths / INNERMOST_OF_RIM)[:, None]
    return coordinates.astype(np.float32), int(outside.sum())
