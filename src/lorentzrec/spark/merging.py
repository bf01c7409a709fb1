"""Merging the copies of a table that several workers have changed in one round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry.midpoint import normalise_sum

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


def merge(before: State, copies: Sequence[Changes], *, hyperbolic: bool, adagrad: bool) -> dict[str, NDArray[Any]]:
    """The state after a round that began with `before` and was run by several workers.

    A row that no worker changed stays, and one that a single worker changed is taken from that worker. Otherwise, with
    copies k of a point, S = sum_k w_k x_k, and the merged point is S / sqrt(-<S, S>), the Lorentz centroid (in flat
    space the mean). The weight w_k is what the copy added to Adagrad's sum, its gradient mass; it is 1 with other
    optimisers. Adagrad's sums add up: a_0 + sum_k (a_k - a_0), as if one worker had made all the steps. Adam's averages
    are averaged, and its count of steps is that of the copy with the most.
    """
    count = len(before["squared"])
    changed_by = np.zeros(count, np.int32)
    for rows, _ in copies:
        changed_by[rows] += 1
    merged = {name: array.copy() for name, array in before.items()}
    several = np.flatnonzero(changed_by > 1)
    place = np.full(count, -1, np.int64)
    place[several] = np.arange(len(several))
    totals = {name: np.zeros((len(several), *before[name].shape[1:])) for name in before}
    masses = np.zeros(len(several))
    for rows, state in copies:
        alone = changed_by[rows] == 1
        for name, array in state.items():
            merged[name][rows[alone]] = array[alone]
        shared = rows[~alone]
        mass = np.ones(len(shared))
        if adagrad:
            added = state["squared"][~alone].astype(np.float64) - before["squared"][shared]
            totals["squared"][place[shared]] += added
            mass = np.maximum(added, np.finfo(np.float32).tiny)  # a row can move without a gradient worth adding
        masses[place[shared]] += mass
        for name in set(state) - ({"squared"} if adagrad else set()):
            values = state[name][~alone].astype(np.float64)
            if name == "steps":
                totals[name][place[shared]] = np.maximum(totals[name][place[shared]], values)
            else:
                totals[name][place[shared]] += values * (mass[:, None] if values.ndim == 2 else mass)
    for name, total in totals.items():
        if name == "squared" and adagrad:
            total += before[name][several]
        elif name != "steps":
            total /= masses[:, None] if total.ndim == 2 else masses
        if name == "points" and hyperbolic:
            total = normalise_sum(total)
        merged[name][several] = total
    return merged
