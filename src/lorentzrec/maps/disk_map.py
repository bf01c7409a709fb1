"""A map of the catalogue: every item as a point of the Poincare disk, and how well the map preserves the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import rank_correlation
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.charts import from_poincare, to_poincare
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import boost, lift
from lorentzrec.geometry.midpoint import einstein_midpoint, normalise_sum
from lorentzrec.maps.neighbour_map import Progress, neighbour_map
from lorentzrec.maps.neighbours import Geometry, nearest_neighbours, without_own
from lorentzrec.maps.principal_plane import principal_plane

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

Method: TypeAlias = Literal["auto", "exact", "levels", "neighbours", "plane"]

METHODS = {
    "exact": "the model itself, which has two dimensions, with its midpoint at the centre",
    "levels": "neighbours kept together, the radius by the distance to the model's centre",
    "neighbours": "neighbours kept together, the radius free",
    "plane": "principal plane, radii stretched to fill the disk",
}
PLANE_RIM = 0.95
"""Poincare radius that contains 99 % of the points of a stretched plane."""
INNERMOST_OF_RIM = 1 - 2.0**-20
"""Radius of points that float32 would round to the circle itself."""

SAMPLED = 1_000
"""Points whose neighbourhoods are compared."""


@dataclass(frozen=True, eq=False)
class DiskMap:
    """The positions of items on the disk, the method, and how well it preserves the model."""

    coordinates: NDArray[np.float32]
    """(n, 2), inside the open unit disk: Poincare coordinates."""
    method: str
    """One of `METHODS`."""
    kept: dict[str, float]
    """See `measure_map`. Also `spread` (the share of it that a plane preserves) and `on the rim` (the number of
    points that had to be moved inside), where they apply."""

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
    progress: Progress = lambda _: None,
) -> DiskMap:
    """Map points, (n, d + 1) on the hyperboloid or (n, d) in flat space, to the disk.

    counts: popularity; if there are too many points to lay out in half a minute, only the popular ones are, and the
    others are placed among them.
    method: one of `METHODS`, or `auto`: exact for a hyperboloid of two dimensions, levels for one of more, neighbours
    for flat space, which has no centre. `docs/lab/map.md` compares them.

    The same seed gives the same map on the same machine, for any number of threads.
    """
    method = _choose_method(points, geometry, counts, method)
    progress(0.0)
    kept: dict[str, float] = {}
    if method == "exact":
        positions = _centre(lift(points[:, 1:].astype(np.float64)))
    elif method == "plane" or len(points) < 3:
        method = "plane"
        positions, kept["spread"] = _stretch_plane(points, geometry)
    else:
        order = centrality(points, geometry) if method == "levels" else None
        positions = neighbour_map(points, geometry, counts=counts, centrality=order, seed=seed, progress=progress)
    kept |= measure_map(positions, points, geometry, seed)
    coordinates, moved = _move_inside(to_poincare(positions))
    if moved:
        kept["on the rim"] = float(moved)
    progress(1.0)
    return DiskMap(coordinates, method, kept)


def make_disk_map(
    model: Model, *, method: Method = "auto", seed: int = 0, progress: Progress = lambda _: None
) -> DiskMap:
    """The map of the items of a model."""
    return disk_map(
        model.item_points,
        geometry=model.config.geometry,
        counts=model.item_counts,
        method=method,
        seed=seed,
        progress=progress,
    )


def customer_coordinates(
    coordinates: NDArray[np.float32], histories: Interactions, user_rows: NDArray[Any]
) -> NDArray[np.float32]:
    """The Einstein midpoint on the map of each customer's history: Poincare coordinates (n, 2).

    `coordinates` are those of the items of `histories`.
    """
    positions = from_poincare(coordinates.astype(np.float64))
    midpoints = [einstein_midpoint(positions[histories.history(int(row))]) for row in user_rows]
    return to_poincare(np.reshape(midpoints, (-1, 3))).astype(np.float32)


def sample_customers(histories: Interactions, count: int, seed: int = 0) -> NDArray[np.int64]:
    """The rows of `count` random customers with events, in ascending order."""
    active = np.flatnonzero(np.diff(histories.offsets) > 0)
    if count > len(active):
        raise InputError(f"there are {len(active):,} customers with events, not {count:,}: give a smaller number")
    return np.sort(np.random.default_rng(seed).choice(active, count, replace=False))


def _choose_method(points: NDArray[Any], geometry: Geometry, counts: NDArray[Any] | None, method: Method) -> Method:
    """Check the arguments and return the method to use."""
    if method not in get_args(Method):
        raise InputError(f"there is no map method {method!r}: use one of {', '.join(get_args(Method))}")
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise InputError(f"points of shape {points.shape} cannot be mapped: give at least one row of finite numbers")
    if counts is not None and len(counts) != len(points):
        raise InputError(f"there are {len(points)} points and {len(counts)} counts: give one for each")
    flat = geometry == "hyperboloid" and points.shape[1] == 3
    if method == "exact" and not flat:
        raise InputError("the map is exact only for a hyperboloid of two dimensions: leave the method out")
    if method != "auto":
        return method
    return "exact" if flat else "levels" if geometry == "hyperboloid" else "neighbours"


def _centre(positions: FloatArray) -> FloatArray:
    """Apply the isometry that moves the midpoint to the centre."""
    middle = normalise_sum(positions.sum(axis=0))
    return lift((positions @ boost(lift(-middle[1:])))[:, 1:])


def _stretch_plane(points: NDArray[Any], geometry: Geometry) -> tuple[FloatArray, float]:
    """The principal plane with all radii scaled to fill the disk, and the share of the spread it preserves."""
    space, spread = principal_plane(points, geometry)
    lengths = np.sqrt(squared_norm(space))
    radii = np.arcsinh(lengths) if geometry == "hyperboloid" else lengths
    reach = float(np.quantile(radii, 0.99)) or float(radii.max()) or 1.0
    wanted = np.sinh(radii * (2 * np.arctanh(PLANE_RIM) / reach))  # distance r is drawn at tanh(r / 2)
    factors: FloatArray = np.divide(wanted, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return lift(space * factors[:, None]), spread


def _move_inside(coordinates: FloatArray) -> tuple[NDArray[np.float32], int]:
    """The coordinates as float32, and the number of points that rounding would put on or outside the circle."""
    lengths = np.sqrt(squared_norm(coordinates))
    outside = lengths > INNERMOST_OF_RIM
    coordinates = coordinates / np.maximum(1, lengths / INNERMOST_OF_RIM)[:, None]
    return coordinates.astype(np.float32), int(outside.sum())


def measure_map(positions: FloatArray, points: NDArray[Any], geometry: Geometry, seed: int) -> dict[str, float]:
    """Compare the map (positions on the hyperboloid, (n, 3)) with the model.

    neighbours@10: the share of a point's 10 nearest neighbours that are among its 10 nearest on the map.
    distances: the rank correlation of distances between sampled points.
    centre: the rank correlation of distances to the midpoint, for hyperbolic models.
    A number that is not defined (fewer than three points, or all distances equal) is left out.
    """
    if len(points) < 3:
        return {}
    sample = np.random.default_rng(seed).permutation(len(points))[:SAMPLED]
    true = without_own(nearest_neighbours(points, points[sample], 11, geometry)[0], sample)
    found = without_own(nearest_neighbours(positions, positions[sample], 11, "hyperboloid")[0], sample)
    kept = {
        "neighbours@10": float((true[:, :, None] == found[:, None, :]).any(axis=2).mean()),
        "distances": rank_correlation(
            _distances(points, sample, geometry), _distances(positions, sample, "hyperboloid")
        ),
    }
    if geometry == "hyperboloid":
        kept["centre"] = rank_correlation(centrality(points, geometry), positions[:, 0])
    return {name: value for name, value in kept.items() if value is not None}


def centrality(points: NDArray[Any], geometry: Geometry) -> FloatArray:
    """The distance of each point to the midpoint of all."""
    if geometry == "euclidean":
        return euclidean.distance(points, points.mean(axis=0, dtype=np.float64))
    middle = normalise_sum(points.sum(axis=0, dtype=np.float64))
    return np.arccosh(np.maximum(-hyperboloid.minkowski_dot(points, middle), 1))


def _distances(points: NDArray[Any], rows: NDArray[np.int64], geometry: Geometry) -> FloatArray:
    """The distance from each of the rows to the next."""
    distance = hyperboloid.distance if geometry == "hyperboloid" else euclidean.distance
    return distance(points[rows[:-1]], points[rows[1:]])
