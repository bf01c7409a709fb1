"""What was bought after, or together with, what: a sparse item-item matrix next to the points.

Points generalise, and forget rare pairs that do repeat. The memory of a history is

    m_j = sum_i w_i B_ij,

the rows of B that belong to its items i, weighted.

Events with an order: B_ij = C_ij C_i^-0.5 (C_j / C)^-0.3, with C_ij the number of times that j followed i within five
steps, each step further weighing 0.7 as much, C_i the events of i, and C the events per item; w_i = 0.6 per step back
from the newest item. Events without order: B = D_i^-0.7 R' D_u^-1 R D_i^-0.3, with R who interacted with what, D_u and
D_i the degrees of customers and items; w_i = 1, and m is divided by its maximum. Only the strongest neighbours of each
item are stored, 8 bytes each.

An item's score rises by its boost, weight * log(1 + 20 m_j): the score is the logarithm of a probability, up to a
factor, and so is the boost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import (
    Booleans,
    Floats,
    Integers,
    are_lists_of_entries,
    count_pairs,
    gather_groups,
    make_mask,
    make_offsets,
    spans_within,
    strongest_entries,
)
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError

STEPS, STEP_DECAY = 5, 0.7
RECENCY = 0.6
LEAST_RECENCY = 1e-3
"""Items of a history that weigh less than this are left out: of an ordered history, the newest 14 items count."""
KNOWN_COUNT, FOUND_COUNT = 0.5, 0.3
KNOWN_DEGREE, FOUND_DEGREE = 0.7, 0.3
"""Exponents for an item of the history and for its neighbour: of events with an order, and of degrees without. Chosen
on validation events of Toys, Sports and MovieLens 1M, and of gowalla."""
SHARPNESS = 20.0
LARGEST_WEIGHT = 1e30
"""Boosts with a larger weight would not be numbers of single precision."""
PAIRS_AT_ONCE = 1_000_000
"""Pairs of events, or of items and their neighbours, that are in memory at a time: about 50 MB. More of them are
slower, too."""
CELLS_PER_PAIR = 32
"""Above this many cells per stored neighbour, summing by sorting is faster than in an array of all cells."""


class Boosts(NamedTuple):
    """What memory and repeats add to scores, as flat arrays: boosts of `items`, rising for each history."""

    history_indices: Integers
    """The index of the history."""
    items: Integers
    sums: Floats
    """m_j."""
    weight: float
    added: Floats | None = None
    """What repeats add; None if they add nothing to any item."""

    @property
    def values(self) -> Floats:
        values = self.weight * np.log1p(SHARPNESS * self.sums)
        return values if self.added is None else values + self.added

    def with_repeats(self, repeats: Boosts, item_count: int) -> Boosts:
        """The boosts of this memory and those of repeats, of the same histories."""
        index, known = self._find(repeats, item_count)
        values, added = repeats.values, np.zeros(len(self.items))
        added[index[known]] = values[known]
        if known.all():
            return self._replace(added=added)
        at, new = index[~known], repeats.where(~known)
        return Boosts(
            np.insert(self.history_indices, at, new.history_indices),
            np.insert(self.items, at, new.items),
            np.insert(self.sums, at, 0.0),
            self.weight,
            np.insert(added, at, values[~known]),
        )

    def at(self, repeats: Boosts, item_count: int) -> Boosts:
        """`with_repeats`, for the items of the repeats alone."""
        index, known = self._find(repeats, item_count)
        sums = np.zeros(len(known))
        sums[known] = self.sums[index[known]]
        return repeats._replace(sums=sums, weight=self.weight)

    def _find(self, others: Boosts, item_count: int) -> tuple[Integers, Booleans]:
        """Where each of the others is, or would be, among these; and whether it is."""
        own, wanted = (boosts.history_indices * item_count + boosts.items for boosts in (self, others))
        index = np.searchsorted(own, wanted)
        known = np.zeros(len(wanted), bool)
        if len(own):
            known = own[np.minimum(index, len(own) - 1)] == wanted
        return index, known

    def where(self, chosen: NDArray[Any] | slice) -> Boosts:
        """Those with these indices, in this slice, or where `chosen` is true."""
        added = None if self.added is None else self.added[chosen]
        return Boosts(self.history_indices[chosen], self.items[chosen], self.sums[chosen], self.weight, added)


@dataclass(frozen=True, eq=False)
class Memory:
    """The neighbours of item i are `columns[offsets[i]:offsets[i + 1]]`, in rising order, with their `values`."""

    offsets: Integers
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    ordered: bool
    """True: B counts what came after an item, and recent items weigh more. False: what came with it."""
    weight: float = 1.0
    """In the unit of the score."""

    def __post_init__(self) -> None:
        if (
            not are_lists_of_entries(self.offsets, self.columns, self.values)
            or not ((self.values > 0) & np.isfinite(self.values)).all()
            or not 0 <= self.weight <= LARGEST_WEIGHT
        ):
            raise InputError("the arrays of a memory are not the neighbours of its items: build it again")

    def __len__(self) -> int:
        """The number of stored neighbours."""
        return len(self.columns)

    @property
    def item_count(self) -> int:
        return len(self.offsets) - 1

    def with_weight(self, weight: float) -> Memory:
        return replace(self, weight=weight)

    def to_csr(self) -> Any:
        """A SciPy sparse matrix, which shares the arrays."""
        from scipy import sparse

        return sparse.csr_array((self.values, self.columns, self.offsets), (self.item_count, self.item_count))

    def take(self, rows: Integers) -> Memory:
        """The same with item `rows[i]` as item i; `rows` is a permutation."""
        matrix = self.to_csr()[rows][:, rows]
        matrix.sort_indices()
        return replace(
            self,
            offsets=matrix.indptr.astype(np.int64),
            columns=matrix.indices.astype(np.int32, copy=False),
            values=matrix.data,
        )

    def with_neighbours(
        self, items: Integers, neighbours: Integers, values: NDArray[Any], item_count: int | None = None
    ) -> Memory:
        """The same with more neighbours, one for each of `items`; and with more items, if `item_count` is higher."""
        order = np.lexsort((neighbours, items))
        items, neighbours = items[order], neighbours[order].astype(np.int32)
        count = item_count or self.item_count
        offsets = np.pad(self.offsets, (0, count - self.item_count), mode="edge")
        first, last = offsets[items], offsets[items + 1]  # a binary search in all of their rows at once
        while len(searched := np.flatnonzero(first < last)):
            middle = (first[searched] + last[searched]) // 2
            before = self.columns[middle] < neighbours[searched]
            first[searched[before]] = middle[before] + 1
            last[searched[~before]] = middle[~before]
        return replace(
            self,
            offsets=offsets + make_offsets(np.bincount(items, minlength=count)),
            columns=_insert(self.columns, first, neighbours),
            values=_insert(self.values, first, values[order].astype(np.float32)),
        )

    def item_weights(self, ages: Integers, event_weights: NDArray[Any] | None = None) -> Floats:
        """w_i of items that are `ages` steps back."""
        weights = np.power(RECENCY, ages.astype(np.float64)) if self.ordered else np.ones(len(ages))
        weights[weights < LEAST_RECENCY] = 0
        return weights if event_weights is None else weights * event_weights

    def boosts(self, histories: NDArray[Any], offsets: Integers, event_weights: NDArray[Any] | None = None) -> Boosts:
        """The boosts of each of some histories of item rows, oldest first; the g-th is
        `histories[offsets[g]:offsets[g + 1]]`."""
        if len(offsets) <= 2:
            return self._boosts(histories, offsets, event_weights)
        pairs = np.diff(make_offsets(np.diff(self.offsets)[histories])[offsets])
        found = []
        for first, last in spans_within(pairs, PAIRS_AT_ONCE):
            span = slice(offsets[first], offsets[last])
            shares = None if event_weights is None else event_weights[span]
            some = self._boosts(histories[span], offsets[first : last + 1] - offsets[first], shares)
            found.append((some.history_indices + first, some.items, some.sums))
        indices, items, sums = map(np.concatenate, zip(*found, strict=True))
        return Boosts(indices, items, sums, self.weight)

    def _boosts(self, histories: NDArray[Any], offsets: Integers, event_weights: NDArray[Any] | None) -> Boosts:
        """The boosts of histories with few pairs of items and their neighbours together."""
        count, items = len(offsets) - 1, self.item_count
        owners = np.repeat(np.arange(count), np.diff(offsets))
        weights = self.item_weights(offsets[1:][owners] - 1 - np.arange(offsets[0], offsets[-1]), event_weights)
        used = np.flatnonzero(weights)
        if not len(used):
            return Boosts(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), self.weight)
        givers, pairs = gather_groups(self.offsets, histories[used].astype(np.int64, copy=False))
        cells: NDArray[Any] = self.columns[pairs]
        parts: NDArray[Any] = self.values[pairs]
        if self.ordered or event_weights is not None:
            parts = parts * weights[used][givers]
        if count > 1:
            cells = cells + (owners[used] * items)[givers]
        if count * items > CELLS_PER_PAIR * len(cells):
            found, position = np.unique(cells, return_inverse=True)
            sums: Floats = np.bincount(position, parts, len(found)).astype(np.float64, copy=False)
        else:
            table = np.bincount(cells, parts, count * items).astype(np.float64, copy=False)
            found = np.flatnonzero(table > 0)  # several times faster than that of the numbers
            sums = table[found]
        if count == 1:
            history_indices, columns = np.zeros(len(found), np.int64), found.astype(np.int64, copy=False)
            greatest = sums.max(initial=0)
        else:
            history_indices = found // items
            columns = found - history_indices * items
            starts = np.flatnonzero(np.diff(history_indices, prepend=-1))
            greatest = np.repeat(np.maximum.reduceat(sums, starts), np.diff(np.append(starts, len(sums))))
        return Boosts(history_indices, columns, sums if self.ordered else sums / greatest, self.weight)

    def contributions(self, known: NDArray[Any], weights: NDArray[Any], items: NDArray[Any]) -> Floats:
        """(items, known): w_i B_ij, the part of each of the `known` items, with these weights, in the memory of
        `items`."""
        parts = np.zeros((len(items), len(known)))
        owners, pairs = gather_groups(self.offsets, known.astype(np.int64))
        order = np.argsort(items)
        found = np.searchsorted(items, self.columns[pairs], sorter=order)
        found = order[np.minimum(found, len(items) - 1)]
        equal = items[found] == self.columns[pairs]
        parts[found[equal], owners[equal]] = self.values[pairs[equal]] * weights[owners[equal]]
        return parts


def _insert(array: NDArray[Any], indices: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """`numpy.insert` at rising indices, which takes ten times as long for a hundred million numbers."""
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    pieces, end = [], 0
    stretches = pairwise([*starts.tolist(), len(indices)])
    for position, (start, stop) in zip(indices[starts].tolist(), stretches, strict=True):
        pieces += [array[end:position], values[start:stop]]
        end = position
    return np.concatenate([*pieces, array[end:]])


def empty_memory(items: int, *, ordered: bool) -> Memory:
    """A memory of no events."""
    return Memory(np.zeros(items + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), ordered)


def build_memory(data: Interactions, neighbours: int, *, ordered: bool, found_count: float = FOUND_COUNT) -> Memory:
    """The memory of these events: the `neighbours` strongest of each item, among equal ones those with lower rows.

    found_count: the exponent of C_j / C.
    Time and memory are linear in the pairs of events, of which some are held at a time.
    """
    from scipy import sparse

    blocks = _transitions(data, found_count, _masses(data)) if ordered else _common_customers(data)
    strong = sparse.vstack([strongest_entries(block, neighbours).astype(np.float32) for block in blocks], "csr")
    return Memory(strong.indptr.astype(np.int64), strong.indices.astype(np.int32), strong.data, ordered)


def remember(memory: Memory, data: Interactions, new: Booleans, item_counts: Integers | None = None) -> Memory:
    """The memory with all pairs of the `new` items, which it does not have yet.

    item_counts: the events of each item; None: those in `data`.
    """
    customers = make_mask(data.user_rows[new[data.item_rows]], len(data.users))
    some = data.select(customers[data.user_rows])
    if memory.ordered:
        blocks = _transitions(some, FOUND_COUNT, _masses(data) if item_counts is None else np.maximum(item_counts, 1.0))
    else:
        blocks = _common_customers(some, _degrees(data) if item_counts is None else np.maximum(item_counts, 1.0))
    first, found = 0, []
    for block in blocks:
        pairs = block.tocoo()
        items = first + pairs.row
        about = (new[items] | new[pairs.col]) & (pairs.data > 0)
        found.append((items[about], pairs.col[about], pairs.data[about]))
        first += block.shape[0]
    owners, neighbours, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return memory.with_neighbours(owners, neighbours, values, len(data.items))


def _masses(data: Interactions) -> Floats:
    """The summed weights of the events of each item; 1 for items without events, which are not used."""
    masses = np.bincount(data.item_rows, data.weights, len(data.items)).astype(np.float64, copy=False)
    masses[masses == 0] = 1
    return masses


def _degrees(data: Interactions) -> Floats:
    """The customers of each item; 1 for items without events."""
    return np.maximum(np.bincount(data.incidence().indices, minlength=len(data.items)), 1.0)


def _transitions(data: Interactions, found_count: float, masses: Floats) -> Iterator[Any]:
    """Sparse blocks of C_ij C_i^-0.5 (C_j / C)^-found_count, with C the `masses`: rows of some items, all columns."""
    from scipy import sparse

    item_rows, weights, labels = data.item_rows, data.weights, data.labels
    events = np.argsort(item_rows, kind="stable")
    firsts = make_offsets(data.item_counts)
    known, found = masses**-KNOWN_COUNT, (masses / masses.mean()) ** -found_count
    for start, end in spans_within(STEPS * data.item_counts, PAIRS_AT_ONCE):
        before = events[firsts[start] : firsts[end]]
        last = data.offsets[data.user_rows[before].astype(np.int64) + 1]
        block = sparse.csr_array((end - start, len(data.items)))
        for step in range(1, STEPS + 1):
            earlier = before[before + step < last]
            later = earlier + step
            counted = item_rows[earlier] != item_rows[later]
            if labels is not None:
                counted &= labels[later]
            earlier, later = earlier[counted], later[counted]
            value = STEP_DECAY ** (step - 1) * known[item_rows[earlier]] * found[item_rows[later]]
            if weights is not None:
                value *= weights[earlier] * weights[later]
            cells = (item_rows[earlier] - start, item_rows[later])
            block = block + sparse.csr_array((value, cells), block.shape)
        yield block


def _common_customers(data: Interactions, item_degrees: Floats | None = None) -> Iterator[Any]:
    """Sparse blocks of D_i^-0.7 R' D_u^-1 R D_i^-0.3 without its diagonal.

    item_degrees: D_i; None: that of these customers.
    """
    from scipy import sparse

    seen = data.incidence()
    targets = seen if data.labels is None else data.select(data.labels).incidence()
    pairs, degrees = count_pairs(seen), np.diff(seen.indptr)
    shares = np.repeat(1 / np.maximum(degrees, 1), degrees)
    by_item = sparse.csr_array((shares, seen.indices, seen.indptr), seen.shape).T.tocsr()
    del shares, seen
    if item_degrees is None:
        item_degrees = np.maximum(np.diff(by_item.indptr), 1.0)
    known = item_degrees**-KNOWN_DEGREE
    targets.data = (item_degrees**-FOUND_DEGREE)[targets.indices]
    for start, end in spans_within(pairs, PAIRS_AT_ONCE):
        block = sparse.diags_array(known[start:end]) @ (by_item[start:end] @ targets)
        own = np.repeat(np.arange(start, end), np.diff(block.indptr)) == block.indices
        block.data[own] = 0
        yield block
