"""A map of the catalogue: every item as a point of the Poincare disk, and how much of the truth it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import boost, lift
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.reduction.principal_plane import flat_plane, hyperbolic_plane

Method: TypeAlias = Literal["auto", "plane"]
Progress: TypeAlias = Callable[[float], None]
"""Told what share of the work is done."""

RIM = 0.95
"""Poincare radius within which 99 % of the items lie, where the scale of a map is free."""


@dataclass(frozen=True, eq=False)
class DiskMap:
    """Where items are on the disk, how they came there, and what of their neighbourhoods is still true."""

    coordinates: NDArray[np.float32]
    """(n, 2), inside the open unit disk: Poincare coordinates."""
    method: str
    kept: dict[str, float]

    def description(self) -> str:
        """One line for a caption."""
        shares = ", ".join(f"{name} {value:.2f}" for name, value in self.kept.items())
        return f"{self.method} ({shares})" if shares else self.method


def disk_map(
    points: NDArray[Any],
    *,
    geometry: Literal["hyperboloid", "euclidean"],
    counts: NDArray[Any] | None = None,
    method: Method = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> DiskMap:
    """Map points, (n, d + 1) on the hyperboloid or (n, d) in flat space, to the disk."""
    if method not in get_args(Method):
        raise InputError(f"there is no map method {method!r}: use one of {', '.join(get_args(Method))}")
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise InputError(f"points of shape {points.shape} have no map: give at least one row, all of finite numbers")
    if geometry == "hyperboloid" and points.shape[1] == 3:
        precise = lift(points[:, 1:].astype(np.float64))
        centred = precise @ boost(_opposite(einstein_midpoint(precise)))
        return DiskMap(_inside(to_poincare(lift(centred[:, 1:]))), "exact: the model has two dimensions", {})
    if geometry == "hyperboloid":
        plane, kept = hyperbolic_plane(points)
        space = plane[:, 1:]
        radii = np.arcsinh(np.sqrt(squared_norm(space)))
    else:
        space, kept = flat_plane(points)
        radii = np.sqrt(squared_norm(space))
    return DiskMap(_inside(_stretched(space, radii)), "principal plane", {"spread": kept})


def _stretched(space: FloatArray, radii: FloatArray) -> FloatArray:
    """Poincare coordinates in the directions of `space`, with all radii times one number that fills the disk."""
    reach = float(np.quantile(radii, 0.99)) or float(radii.max()) or 1.0
    lengths = np.sqrt(squared_norm(space))
    wanted = np.tanh(radii * (np.arctanh(RIM) / reach))  # a point at distance r of the centre is drawn at tanh(r / 2)
    factors: FloatArray = np.divide(wanted, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return space * factors[:, None]


def _opposite(point: FloatArray) -> FloatArray:
    return lift(-point[..., 1:])


def _inside(coordinates: FloatArray) -> NDArray[np.float32]:
    return coordinates.astype(np.float32)
