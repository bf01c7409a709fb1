"""Array types, masks of rows, rank correlation, and groups in flat arrays: g is `values[offsets[g]:offsets[g + 1]]`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]


def mask_of(rows: NDArray[np.integer[Any]], count: int) -> Booleans:
    """Which of `count` rows are among `rows`."""
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask


def offsets_of(counts: NDArray[np.integer[Any]]) -> Integers:
    """Where each group starts, and at the end the total, from the sizes of the groups."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def gather_groups(offsets: Integers, groups: Integers) -> tuple[Integers, Integers]:
    """The rows of some groups, one after another: for each row its position in `groups`, and its index."""
    lengths = offsets[groups + 1] - offsets[groups]
    positions = np.repeat(np.arange(len(groups)), lengths)
    rows = np.repeat(offsets[groups] - offsets_of(lengths)[:-1], lengths)
    rows += np.arange(len(rows))
    return positions, rows


def spans_within(sizes: NDArray[Any], most: int) -> Iterator[tuple[int, int]]:
    """All groups in spans of consecutive ones, from the first to before the second number: each as long as their sizes
    sum to at most `most`, or a single group that is larger."""
    totals = offsets_of(sizes)
    start = 0
    while start < len(sizes):
        end = int(np.searchsorted(totals, totals[start] + most, side="right")) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def rank_correlation(left: NDArray[Any], right: NDArray[Any]) -> float | None:
    """Spearman's, from -1 to 1; None if it is not defined, because all values of either are equal or there are none."""
    from scipy.stats import rankdata

    if not len(left) or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])


def update_digest(digest: hashlib._Hash, arrays: Iterable[NDArray[Any]]) -> None:
    """Add arrays to a running hash in a byte order that does not depend on the machine."""
    for array in arrays:
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
