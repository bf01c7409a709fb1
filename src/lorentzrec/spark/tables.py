"""The tables of a run as ranges of rows in files, and the copies that several workers changed merged into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.ingest.storage import join
from lorentzrec.learning.engine import MAXIMUM_RADIUS, Table
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.spark.scratch import Damaged, read_arrays, write_arrays

State: TypeAlias = dict[str, NDArray[Any]]
"""Arrays of a `Table` by name, a row per point: `points`, `squared`, with Adam `momentum` and `steps`, and for items
that have masses `masses` and `mass_squared`."""

BYTES_PER_RANGE = 32 * 2**20
"""Of one table. A task merges one range of rows of all tables."""


def range_bounds(item_count: int, dimension: int) -> list[int]:
    """Where ranges of rows begin, and the end."""
    ranges = max(1, -(-item_count * (dimension + 2) * 4 // BYTES_PER_RANGE))
    return [item_count * number // ranges for number in range(ranges + 1)]


def view_states(histories: Table, items: Table, config: ResolvedConfig) -> dict[str, State]:
    """The arrays of the tables with a row per point, without the columns that only fill up a row: views, not copies."""
    tables = {"items": items} if histories is items else {"items": items, "histories": histories}
    return {side: _view_state(side, table, config) for side, table in tables.items()}


def _view_state(side: str, table: Table, config: ResolvedConfig) -> State:
    names = ["points", "squared", *(("momentum", "steps") if config.optimiser == "adam" else ())]
    if side == "items" and config.massive:
        names += ["masses", "mass_squared"]
    state: State = {name: getattr(table, name) for name in names}
    return {name: array[:, : config.dimension + 1] if array.ndim == 2 else array for name, array in state.items()}


def cut_ranges(states: dict[str, State], bounds: Sequence[int]) -> Iterator[dict[str, State]]:
    """The rows of one range after another: views, not copies."""
    for first, last in pairwise(bounds):
        yield {side: {name: array[first:last] for name, array in state.items()} for side, state in states.items()}


def write_range(folder: str, number: int, sides: dict[str, State], name: str = "merged") -> str:
    """Write the state of a range, or what a worker changed in it; returns the checksum of the file."""
    flat = {f"{side}.{array}": values for side, arrays in sides.items() for array, values in arrays.items()}
    return write_arrays(_range_file(folder, number, name), flat)


def read_range(folder: str, number: int, checksum: str, name: str = "merged") -> dict[str, State]:
    sides: dict[str, State] = {}
    for key, values in read_arrays(_range_file(folder, number, name), checksum).items():
        side, _, array = key.partition(".")
        sides.setdefault(side, {})[array] = values
    return sides


def _range_file(folder: str, number: int, name: str) -> str:
    return join(folder, f"{name}-{number:04d}.safetensors")


def write_states(folder: str, bounds: Sequence[int], states: dict[str, State]) -> list[str]:
    """Write whole tables in ranges; returns the checksums of the files."""
    return [write_range(folder, number, state) for number, state in enumerate(cut_ranges(states, bounds))]


def load_states(folder: str, checksums: Sequence[str], bounds: Sequence[int], states: dict[str, State]) -> None:
    """Read whole tables into the arrays of `states`."""
    for number, sides in enumerate(cut_ranges(states, bounds)):
        found = read_range(folder, number, checksums[number])
        for side, state in sides.items():
            for name, array in state.items():
                values = found.get(side, {}).get(name)
                if values is None or values.shape != array.shape:
                    raise Damaged(f"{folder} does not fit the run: remove it and train again")
                array[...] = values


def find_changes(before: State, after: State) -> State:
    """The rows in which two states differ: their numbers as `rows`, and their state after the round."""
    different = np.zeros(len(before["squared"]), bool)
    for name, array in before.items():
        unequal = array != after[name]
        different |= unequal.any(axis=1) if unequal.ndim == 2 else unequal
    rows = np.flatnonzero(different).astype(np.int32)
    return {"rows": rows} | {name: array[rows] for name, array in after.items()}


def merge(before: State, copies: Sequence[State], *, hyperbolic: bool) -> State:
    """The state after a round that began with `before` and was run by several workers, each with its changes.

    A row that no worker changed stays, and one that a single worker changed is taken from that worker. Otherwise, with
    n copies x_k of a point x_0 and S = sum_k x_k, the centroid is c = S / sqrt(-<S, S>), in flat space the mean, and
    the merged point is exp_x0(sqrt(n) log_x0(c)): sqrt(n) times as far. A mass goes sqrt(n) times as far as the mean.
    Adagrad's sum becomes a_0 + mean_k (a_k - a_0), so that the next steps are up to sqrt(n) times as long as with the
    sum. docs/lab/scale.md has the measurements behind both. Adam's averages are averaged, and its count of steps is
    that of the copy with the most.
    """
    count = len(before["squared"])
    changed_by = np.zeros(count, np.int64)
    for copy in copies:
        changed_by[copy["rows"]] += 1
    merged = {name: array.copy() for name, array in before.items()}
    several = np.flatnonzero(changed_by > 1)
    index = np.full(count, -1, np.int64)
    index[several] = np.arange(len(several))
    totals = {name: np.zeros((len(several), *before[name].shape[1:])) for name in before}
    for copy in copies:
        rows = copy["rows"]
        alone = changed_by[rows] == 1
        for name in before:
            merged[name][rows[alone]] = copy[name][alone]
            indices, values = index[rows[~alone]], copy[name][~alone]
            if name == "steps":
                totals[name][indices] = np.maximum(totals[name][indices], values)
            else:
                totals[name][indices] += values
    for name, total in totals.items():
        start, counts = before[name][several].astype(np.float64), changed_by[several].astype(np.float64)
        if total.ndim == 2:
            counts = counts[:, None]
        if name == "points":
            total = _far(start, normalise_sum(total) if hyperbolic else total / counts, np.sqrt(counts), hyperbolic)
        elif name == "masses":
            total = _far(start, total / counts, np.sqrt(counts), hyperbolic=False)
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
