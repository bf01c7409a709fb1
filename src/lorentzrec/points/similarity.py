"""How often two items were bought by the same customers, and together: what similar items are found by.

    v_ij = (c_ij + 2 t_ij) / 3

c_ij is the cosine between the customers of i and of j, in which a customer with n items counts n^-0.25. t_ij is the
cosine between their orders; in histories without orders, the events of i and j that are within five steps of one
another, each step further counting 0.7 as much, over the square root of the product of their events, at most 1. Without
times, t_ij is left out and v_ij is c_ij.

A popular item has a long column, so it is similar to few items. Both exponents, the weight of t and that of the angle
in `similar.py` were chosen on held-out customers of Complete Journey, MovieLens 1M and a synthetic shop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import (
    Floats,
    Integers,
    are_lists_of_entries,
    count_pairs,
    make_mask,
    make_offsets,
    spans_within,
    strongest_entries,
    sum_columns,
)
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError

NEIGHBOURS = 50
"""Neighbours that are stored of each item, 8 bytes each."""
CUSTOMER_EXPONENT = 0.25
TOGETHER = 2.0
"""The weight of what was bought together, relative to that of the same customers."""
STEPS, STEP_DECAY = 5, 0.7
LONGEST_HISTORY = 1_000
"""Of longer histories, the newest items of this number count, which bounds time and memory."""
PAIRS_AT_ONCE = 1_000_000
"""Pairs of items that building holds in memory, at most 80 MB, unless an item alone has more."""


@dataclass(frozen=True, eq=False)
class Similarity:
    """The neighbours of item i are `columns[offsets[i]:offsets[i + 1]]`, in rising order, with their `values` v_ij."""

    offsets: Integers
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        if (
            not are_lists_of_entries(self.offsets, self.columns, self.values)
            or not ((self.values > 0) & (self.values <= 1.001)).all()
        ):
            raise InputError("the arrays of a similarity are not the neighbours of its items: train the model again")

    @property
    def item_count(self) -> int:
        return len(self.offsets) - 1

    def neighbours(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The neighbours of an item and their values; none of an item beyond those that are stored."""
        span = slice(*self.offsets[item : item + 2]) if item < self.item_count else slice(0)
        return self.columns[span], self.values[span]

    def extend(self, item_count: int) -> Similarity:
        """The same with more items, which have no neighbours."""
        return replace(self, offsets=np.pad(self.offsets, (0, item_count - self.item_count), mode="edge"))


def build_similarity(data: Interactions, *, ordered: bool, neighbours: int = NEIGHBOURS) -> Similarity:
    """The `neighbours` most similar items of each item, by these events.

    ordered: whether the order of events means something; if not, only customers are compared.
    """
    from scipy import sparse

    recent = data
    if data.lengths.max(initial=0) > LONGEST_HISTORY:
        recent = data.select(np.repeat(data.offsets[1:], data.lengths) - np.arange(len(data)) <= LONGEST_HISTORY)
    by_orders, by_steps = ordered and recent.in_orders, ordered and recent.ordered and not recent.in_orders
    share = 1 / (1 + TOGETHER) if by_orders or by_steps else 1.0
    groups = _normalise(recent.incidence(), CUSTOMER_EXPONENT, np.sqrt(share))
    if by_orders:
        orders = _normalise(list_orders(recent)[0], 0.0, np.sqrt(1 - share))
        groups = sparse.vstack([groups, orders], "csr")
        del orders
    by_item = groups.T.tocsr()
    if by_steps:
        events, firsts = np.argsort(recent.item_rows, kind="stable"), make_offsets(recent.item_counts)
    blocks = []
    for start, end in spans_within(count_pairs(groups), PAIRS_AT_ONCE):
        block = by_item[start:end] @ groups
        if by_steps:
            of_items = np.sort(events[firsts[start] : firsts[end]])
            block = block + _close_steps(recent, of_items, start, end) * (1 - share)
        own = np.repeat(np.arange(start, end), np.diff(block.indptr)) == block.indices
        block.data[own] = 0
        blocks.append(strongest_entries(block, neighbours).astype(np.float32))
    strong = sparse.vstack(blocks, "csr")
    return Similarity(strong.indptr.astype(np.int64), strong.indices.astype(np.int32), strong.data)


def _normalise(groups: Any, exponent: float, factor: float) -> Any:
    """Sparse (groups, items) with columns of this length, in which a group with n items counts n^-exponent. `groups`
    has an entry of 1 for each item of a group, and is changed."""
    sizes = np.diff(groups.indptr)
    groups.data = np.repeat(np.maximum(sizes, 1.0) ** (-exponent / 2), sizes)
    lengths = np.sqrt(sum_columns(groups, 2))
    groups.data *= (1 / np.where(lengths > 0, lengths, 1))[groups.indices]
    groups.data *= factor
    return groups


def list_orders(data: Interactions) -> tuple[Any, NDArray[np.integer[Any]]]:
    """Sparse (orders, items): 1 for each item of an order; and the order of each event."""
    from scipy import sparse

    # The first event of a customer has a higher number than all orders of the customers before.
    numbers = np.repeat(data.offsets[:-1], data.lengths) + data.order_positions
    distinct = make_mask(numbers, len(data))
    orders = (np.cumsum(distinct, dtype=np.int32 if len(data) < 2**31 else np.int64) - 1)[numbers]
    del numbers
    entries = np.ones(len(data), np.float32), (orders, data.item_rows)
    matrix = sparse.csr_array(entries, (int(distinct.sum()), len(data.items)))
    matrix.data[:] = 1  # SciPy adds up repeated events
    return matrix, orders


def _close_steps(data: Interactions, events: Integers, start: int, end: int) -> Any:
    """t_ij for the items i from `start` to before `end`, whose events these are, and all items j, of a history without
    orders."""
    from scipy import sparse

    owners = data.user_rows[events].astype(np.int64)
    bounds = data.offsets[owners], data.offsets[owners + 1]
    lengths: Floats = np.maximum(data.item_counts, 1) ** -0.5
    block = sparse.csr_array((end - start, len(data.items)))
    for step in (sign * size for size in range(1, STEPS + 1) for sign in (-1, 1)):
        others = events + step
        inside = (others >= bounds[0]) & (others < bounds[1])
        items, found = data.item_rows[events[inside]], data.item_rows[others[inside]]
        values = STEP_DECAY ** (abs(step) - 1) * lengths[items] * lengths[found]
        block = block + sparse.csr_array((values, (items - start, found)), block.shape)
    block.data = np.minimum(block.data, 1)
    return block
