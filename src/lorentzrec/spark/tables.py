"""The tables of a run as ranges of rows in files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.ingest.storage import join
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.spark.merging import Changes
from lorentzrec.spark.scratch import Damaged, read_arrays, write_arrays

BYTES_PER_RANGE = 32 * 2**20
"""Of one table. A task merges one range of rows of all tables."""


def range_bounds(item_count: int, dimension: int) -> list[int]:
    """Where ranges of rows begin, and the end."""
    ranges = max(1, -(-item_count * (dimension + 2) * 4 // BYTES_PER_RANGE))
    return [item_count * number // ranges for number in range(ranges + 1)]


def state_of(table: Table, config: ResolvedConfig) -> dict[str, NDArray[Any]]:
    """The arrays of a table with a row per point, without the columns that only fill up a row: views, not copies."""
    names = ("points", "squared", "momentum", "steps") if config.optimiser == "adam" else ("points", "squared")
    state: dict[str, NDArray[Any]] = {name: getattr(table, name) for name in names}
    return {name: array[:, : config.dimension + 1] if array.ndim == 2 else array for name, array in state.items()}


def write_range(folder: str, number: int, sides: dict[str, dict[str, NDArray[Any]]], name: str = "merged") -> str:
    """Write the state of a range, or what a worker changed in it; returns the checksum of the file."""
    flat = {f"{side}.{array}": values for side, arrays in sides.items() for array, values in arrays.items()}
    return write_arrays(_range_file(folder, number, name), flat)


def read_range(folder: str, number: int, checksum: str, name: str = "merged") -> dict[str, dict[str, NDArray[Any]]]:
    sides: dict[str, dict[str, NDArray[Any]]] = {}
    for key, values in read_arrays(_range_file(folder, number, name), checksum).items():
        side, _, array = key.partition(".")
        sides.setdefault(side, {})[array] = values
    return sides


def _range_file(folder: str, number: int, name: str) -> str:
    return join(folder, f"{name}-{number:04d}.safetensors")


def write_states(folder: str, bounds: Sequence[int], states: dict[str, dict[str, NDArray[Any]]]) -> list[str]:
    """Write whole tables in ranges; returns the checksums of the files."""
    return [
        write_range(folder, number, {side: rows_of(state, first, last) for side, state in states.items()})
        for number, (first, last) in enumerate(pairwise(bounds))
    ]


def load_states(
    folder: str, checksums: Sequence[str], bounds: Sequence[int], states: dict[str, dict[str, NDArray[Any]]]
) -> None:
    """Read whole tables into the arrays of `states`."""
    for number, (first, last) in enumerate(pairwise(bounds)):
        found = read_range(folder, number, checksums[number])
        for side, state in states.items():
            for name, array in state.items():
                values = found.get(side, {}).get(name)
                if values is None or values.shape != array[first:last].shape:
                    raise Damaged(f"{folder} does not fit the run: remove it and train again")
                array[first:last] = values


def rows_of(state: dict[str, NDArray[Any]], first: int, last: int) -> dict[str, NDArray[Any]]:
    return {name: array[first:last] for name, array in state.items()}


def changes_within(changes: Changes, first: int, last: int) -> dict[str, NDArray[Any]]:
    """The changes in a range of rows, for `write_range`; rows are counted from the start of the range."""
    begin, end = np.searchsorted(changes.rows, [first, last])
    return {"rows": changes.rows[begin:end] - np.int32(first)} | {
        name: array[begin:end] for name, array in changes.state.items()
    }


def changes_of(arrays: dict[str, NDArray[Any]]) -> Changes:
    """The inverse of `changes_within`, relative to the range."""
    return Changes(arrays["rows"], {name: array for name, array in arrays.items() if name != "rows"})
