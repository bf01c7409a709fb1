"""The blocks of an epoch as batches for Keras: the customers and negatives are those of the compiled kernels."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import gather_groups, offsets_of
from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.epochs import block_bounds, epoch_key, find_learners, order_of
from lorentzrec.learning.kernels.blocks import draw_negatives
from lorentzrec.learning.kernels.numbers import FOLDS, NEGATIVES, key_for, permuted
from lorentzrec.learning.tables import BLOCK_ROWS, FOLDED_BLOCK_ROWS
from lorentzrec.model.config import ResolvedConfig

Rows = NDArray[np.int32]
Batch = dict[str, NDArray[Any]]


class Blocks(keras.utils.PyDataset):  # type: ignore[misc]
    """One batch per block of customers; `epoch` chooses which (the first is 1).

    A batch is a dictionary. Distinct rows are found here, so that a step reads and writes each of them once, and all
    else refers to them by place:

    item_rows, history_rows: distinct rows of the two tables (only item_rows if they are one), padded with a spare row
    events: places of the events in the history table's rows, with event_owners, event_weights, and event_steps: their
    numbers in a history, or with folds their folds
    targets: places in item_rows, with target_weights (0: none). With causal histories, target i is event i, and its
    query is the midpoint of the events before it
    query_owners, query_folds, target_queries: with folds, a query is the midpoint of its owner's events outside a fold
    negatives: places in item_rows; seen: (owners, negatives), those that an owner has interacted with

    Lengths are rounded up to a few sizes, so that few shapes are compiled.
    """

    def __init__(self, data: Interactions, config: ResolvedConfig, epochs: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.data, self.config = data, config
        self.folded = config.history == "folds"
        self.separate = config.targets == "separate"
        self.epoch = 1
        self._targets, self.learners, self.positives = find_learners(data, config)
        self._rows = FOLDED_BLOCK_ROWS if self.folded else BLOCK_ROWS
        self._weights = np.ones(len(data), np.float32) if data.weights is None else data.weights
        self._labels = np.ones(len(data), bool) if data.labels is None else data.labels
        self._items = np.require(data.item_rows, requirements="W")  # numba would compile again for a read-only array
        self._last_cut: tuple[int, NDArray[np.int64], NDArray[np.int64]] = (0, self.learners, self.learners)
        # Keras takes the number of batches from the first epoch, so that shorter ones are filled up with empty batches
        self._length = max(len(self._cut(epoch)[1]) - 1 for epoch in range(1, epochs + 1))
        self.without_negative = np.zeros(self._length, np.int64)
        """Customers of each batch who have interacted with all its negatives; of the batches made last."""

    def __len__(self) -> int:
        return self._length

    def positives_of_blocks(self) -> NDArray[np.int64]:
        """Targets in each batch of the current epoch."""
        order, bounds = self._cut(self.epoch)
        counts = np.diff(offsets_of(self._targets[order])[bounds])
        return np.append(counts, np.zeros(self._length - len(counts), np.int64))

    def _cut(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The customers of an epoch in order, and where its blocks begin and end."""
        if self._last_cut[0] != epoch:
            order = order_of(self.learners, self.config.seed, epoch)
            self._last_cut = epoch, order, block_bounds(self.data.lengths[order], self._rows)
        return self._last_cut[1:]

    def __getitem__(self, number: int) -> Batch:
        epoch = self.epoch
        order, bounds = self._cut(epoch)
        empty = number >= len(bounds) - 1
        block = self._block(epoch, order[:1] if empty else order[bounds[number] : bounds[number + 1]])
        self.without_negative[number] = 0 if empty else block["seen"].all(axis=1).sum()
        return self._padded(block, empty=empty)

    def _block(self, epoch: int, customers: NDArray[np.int64]) -> Batch:
        """The arrays of a block as long as they are, with item rows in place of places."""
        key, data, config = epoch_key(self.config.seed, epoch), self.data, self.config
        lengths = data.lengths[customers]
        owners, events = gather_groups(data.offsets, customers)
        steps = events - data.offsets[customers][owners]
        items = self._items[events]
        predicted = self._labels[events]
        queries: Batch = {}
        if self.folded:
            steps = np.concatenate(
                [
                    _folds(int(length), config.folds, np.uint64(key_for(key, FOLDS, customer)))
                    for length, customer in zip(lengths, customers, strict=True)
                ]
            )
            parts = np.minimum(lengths, config.folds)
            query_owners = np.repeat(np.arange(len(customers), dtype=np.int32), parts)
            queries = {
                "query_owners": query_owners,
                "query_folds": np.arange(len(query_owners)) - offsets_of(parts)[query_owners],
                "target_queries": offsets_of(parts)[owners] + steps,
            }
        else:
            predicted &= steps > 0
        negatives = np.zeros(min(config.negative_count, len(data.items)), np.int32)
        bits = np.zeros(len(data.items) // 32 + 1, np.uint32)
        own_key = np.uint64(key_for(key, NEGATIVES, customers[0]))
        draw_negatives(negatives, bits, self._items, len(data.items), config.sampler == "popularity", own_key)
        by_row = np.argsort(negatives)
        found = np.minimum(np.searchsorted(negatives, items, sorter=by_row), len(negatives) - 1)
        hits = negatives[by_row[found]] == items
        seen = np.zeros((len(customers), len(negatives)), bool)
        seen[owners[hits], by_row[found[hits]]] = True
        return queries | {
            "events": items,
            "event_owners": owners,
            "event_steps": steps,
            "event_weights": self._weights[events],
            "target_weights": self._weights[events] * predicted,
            "predicted": predicted,
            "negatives": negatives,
            "seen": seen,
        }

    def _padded(self, block: Batch, *, empty: bool) -> Batch:
        """Places in place of rows, and lengths rounded up."""
        items, negatives, predicted = block["events"], block["negatives"], block["predicted"]
        size = rounded(len(items), 128)
        spare = len(self.data.items)
        parts = [items[predicted], negatives, *([] if self.separate else [items])]
        item_rows, places = np.unique(np.concatenate(parts), return_inverse=True)
        targets = np.zeros(len(items), np.int64)
        targets[predicted], places = np.split(places, [len(parts[0])])
        rows = {"item_rows": _fill(item_rows, size + len(negatives), spare)}
        if self.separate:
            history_rows, events = np.unique(items, return_inverse=True)
            rows["history_rows"] = _fill(history_rows, size, spare)
        else:
            events = places[len(negatives) :]
        if self.folded:
            queries = rounded(len(block["query_owners"]), 32)
            rows["query_owners"] = _fill(block["query_owners"], queries, -2)
            rows["query_folds"] = _fill(block["query_folds"], queries)
            rows["target_queries"] = _fill(block["target_queries"], size)
        return rows | {
            "events": _fill(events, size),
            "event_owners": _fill(block["event_owners"], size, -1),
            "event_steps": _fill(block["event_steps"], size),
            "event_weights": _fill(block["event_weights"], size, dtype=np.float32),
            "targets": _fill(targets, size),
            "target_weights": _fill(block["target_weights"] * (not empty), size, dtype=np.float32),
            "negatives": places[: len(negatives)].astype(np.int32),
            "seen": np.pad(block["seen"], ((0, size // 2 - len(block["seen"])), (0, 0))),
        }


def _folds(length: int, count: int, key: Any) -> NDArray[np.int64]:
    """The fold of each event of a history."""
    count = min(length, count)
    folds = np.empty(length, np.int64)
    for fold in range(count):
        for card in range(fold * length // count, (fold + 1) * length // count):
            folds[permuted(card, length, key)] = fold
    return folds


def rounded(count: int, least: int) -> int:
    """The next of least * 1, 1.5, 2, 3, 4, 6, 8, ..."""
    size = least
    while size < count:
        if size * 3 // 2 >= count:
            return size * 3 // 2
        size *= 2
    return size


def _fill(values: NDArray[Any], length: int, filler: int = 0, dtype: type[np.generic] = np.int32) -> NDArray[Any]:
    filled = np.full(length, filler, dtype)
    filled[: len(values)] = values
    return filled
