"""Merging the copies of a table that several workers have changed in one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.learning.kernels.structures import MAXIMUM_RADIUS

State: TypeAlias = Mapping[str, NDArray[Any]]
"""Arrays of a `Table` by name, a row per point: `points`, `squared`, and with Adam `momentum` and `steps`."""


class Changes(NamedTuple):
    """What one worker changed in a round."""

    rows: NDArray[np.int32]
    """Distinct."""
    state: State
    """Of these rows, after the round."""


def find_changes(before: State, after: State) -> Changes:
    """The rows in which two states differ."""
    different = np.zeros(len(before["squared"]), bool)
    for name, array in before.items():
        unequal = array != after[name]
        different |= unequal.any(axis=1) if unequal.ndim == 2 else unequal
    rows = np.flatnonzero(different).astype(np.int32)
    return Changes(rows, {name: array[rows] for name, array in after.items()})


def merge(before: State, copies: Sequence[Changes], *, hyperbolic: bool) -> dict[str, NDArray[Any]]:
    """The state after a round that began with `before` and was run by several workers.

    A row that no worker changed stays, and one that a single worker changed is taken from that worker. Otherwise, with
    n copies x_k of a point x_0 and S = sum_k x_k, the centroid is c = S / sqrt(-<S, S>), in flat space the mean, and
    the merged point is exp_x0(sqrt(n) log_x0(c)): sqrt(n) times as far. Adagrad's sum becomes a_0 + mean_k (a_k - a_0),
    so that the next steps are up to sqrt(n) times as long as with the sum. docs/scale.md has the measurements behind
    both. Adam's averages are averaged, and its count of steps
    is that of the copy with the most.
    """
    count = len(before["squared"])
    changed_by = np.zeros(count, np.int64)
    for rows, _ in copies:
        changed_by[rows] += 1
    merged = {name: array.copy() for name, array in before.items()}
    several = np.flatnonzero(changed_by > 1)
    place = np.full(count, -1, np.int64)
    place[several] = np.arange(len(several))
    totals = {name: np.zeros((len(several), *before[name].shape[1:])) for name in before}
    for rows, state in copies:
        alone = changed_by[rows] == 1
        for name, array in state.items():
            merged[name][rows[alone]] = array[alone]
            places, values = place[rows[~alone]], array[~alone]
            if name == "steps":
                totals[name][places] = np.maximum(totals[name][places], values)
            else:
                totals[name][places] += values
    for name, total in totals.items():
        start, counts = before[name][several].astype(np.float64), changed_by[several].astype(np.float64)
        if total.ndim == 2:
            counts = counts[:, None]
        if name == "points":
            total = _far(start, normalise_sum(total) if hyperbolic else total / counts, np.sqrt(counts), hyperbolic)
        elif name != "steps":
            total /= counts
        merged[name][several] = total
    return merged


def _far(start: FloatArray, target: FloatArray, factor: FloatArray, hyperbolic: bool) -> FloatArray:
    """The point `factor` times as far from `start` as `target`, in its direction, and within the largest radius."""
    if not hyperbolic:
        return start + factor * (target - start)
    start = hyperboloid.lift(start[:, 1:])  # float32 has too few digits for differences
    space = hyperboloid.exp_map(start, factor * hyperboloid.log_map(start, target))[:, 1:]
    length = np.linalg.norm(space, axis=1, keepdims=True)
    return hyperboloid.lift(space * np.minimum(1, np.sinh(MAXIMUM_RADIUS) / np.maximum(length, 1)))
