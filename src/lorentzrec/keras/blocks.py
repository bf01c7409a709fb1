"""The blocks of an epoch as batches for Keras: the customers and negatives are those of the compiled kernels."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import gather_groups, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.engine import EpochBlocks
from lorentzrec.model.config import ResolvedConfig

Rows = NDArray[np.int32]
Batch = dict[str, NDArray[Any]]


class Blocks(keras.utils.PyDataset):  # type: ignore[misc]
    """One batch per block of customers; `epoch` chooses which (the first is 1).

    A batch is a dictionary. Distinct rows are found here, so that a step reads and writes each of them once, and all
    else refers to them by index:

    item_rows, history_rows: distinct rows of the two tables (only item_rows if they are one), padded with a spare row
    events: indices of the events in the history table's rows, with event_owners, event_weights, and event_steps: their
    numbers in a history, or with folds their folds
    event_orders: the number of an event's order in its history; where orders are not used, every event is an order.
    event_before, event_after: the last event of the order before, and the first of the order after; 0 if there is none
    targets: indices in item_rows, with target_weights (0: none). Without folds, target i is event i, and its query is
    the midpoint of the orders before it
    query_owners, query_folds, target_queries: with folds, a query is the midpoint of its owner's events outside a fold
    negatives: indices in item_rows; seen: (owners, negatives), those that an owner has interacted with

    Lengths are rounded up to a few sizes, so that few shapes are compiled.
    """

    def __init__(self, data: Interactions, config: ResolvedConfig, epochs: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.data, self.config = data, config
        self.folded = config.history == "folds"
        self.separate = config.targets == "separate"
        self.epoch = 1
        self._epochs = EpochBlocks(data, config)
        self._cut = lru_cache(maxsize=1)(self._epochs.cut)
        self.positives = self._epochs.positives
        self._weights = np.ones(len(data), np.float32) if data.weights is None else data.weights
        self._labels = np.ones(len(data), bool) if data.labels is None else data.labels
        # Keras takes the number of batches from the first epoch, so that shorter ones are filled up with empty batches
        self._length = max(len(self._cut(epoch).positives) for epoch in range(1, epochs + 1))
        self.without_negative = np.zeros(self._length, np.int64)
        """Customers of each batch who have interacted with all its negatives; of the batches made last."""

    def __len__(self) -> int:
        return self._length

    def positives_of_blocks(self) -> NDArray[np.int64]:
        """Targets in each batch of the current epoch."""
        counts = self._cut(self.epoch).positives
        return np.append(counts, np.zeros(self._length - len(counts), np.int64))

    def __getitem__(self, number: int) -> Batch:
        epoch = self.epoch
        order, bounds, positives = self._cut(epoch)
        empty = number >= len(positives)
        block = self._block(epoch, order[:1] if empty else order[bounds[number] : bounds[number + 1]])
        self.without_negative[number] = 0 if empty else block["seen"].all(axis=1).sum()
        return self._padded(block, empty=empty)

    def _block(self, epoch: int, customers: NDArray[np.int64]) -> Batch:
        """The arrays of a block before padding, with item rows instead of indices."""
        data, config = self.data, self.config
        lengths = data.lengths[customers]
        owners, events = gather_groups(data.offsets, customers)
        steps = events - data.offsets[customers][owners]
        items = data.item_rows[events]
        predicted = self._labels[events]
        queries: Batch = {}
        if self.folded:
            steps = np.concatenate([self._epochs.assign_folds(epoch, customer) for customer in customers.tolist()])
            fold_counts = np.minimum(lengths, config.folds)
            query_owners = np.repeat(np.arange(len(customers), dtype=np.int32), fold_counts)
            queries = {
                "query_owners": query_owners,
                "query_folds": np.arange(len(query_owners)) - make_offsets(fold_counts)[query_owners],
                "target_queries": make_offsets(fold_counts)[owners] + steps,
            }
        else:
            orders = data.order_positions[events] if config.history == "orders" else steps
            predicted &= orders > 0
            queries = {"event_orders": orders} | find_neighbours(owners, orders)
        negatives = self._epochs.draw_negatives(epoch, int(customers[0]))
        by_row = np.argsort(negatives)
        indices = np.minimum(np.searchsorted(negatives, items, sorter=by_row), len(negatives) - 1)
        matches = negatives[by_row[indices]] == items
        seen = np.zeros((len(customers), len(negatives)), bool)
        seen[owners[matches], by_row[indices[matches]]] = True
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
        """The arrays with indices instead of rows, and with lengths rounded up."""
        items, negatives, predicted = block["events"], block["negatives"], block["predicted"]
        size = rounded(len(items), 128)
        spare = len(self.data.items)
        rows_in_use = [items[predicted], negatives, *([] if self.separate else [items])]
        item_rows, indices = np.unique(np.concatenate(rows_in_use), return_inverse=True)
        targets = np.zeros(len(items), np.int64)
        targets[predicted], indices = np.split(indices, [len(rows_in_use[0])])
        rows = {"item_rows": _fill(item_rows, size + len(negatives), spare)}
        if self.separate:
            history_rows, events = np.unique(items, return_inverse=True)
            rows["history_rows"] = _fill(history_rows, size, spare)
        else:
            events = indices[len(negatives) :]
        if self.folded:
            queries = rounded(len(block["query_owners"]), 32)
            rows["query_owners"] = _fill(block["query_owners"], queries, -2)
            rows["query_folds"] = _fill(block["query_folds"], queries)
            rows["target_queries"] = _fill(block["target_queries"], size)
        else:
            rows |= {name: _fill(block[name], size) for name in ("event_orders", "event_before", "event_after")}
        return rows | {
            "events": _fill(events, size),
            "event_owners": _fill(block["event_owners"], size, -1),
            "event_steps": _fill(block["event_steps"], size),
            "event_weights": _fill(block["event_weights"], size, dtype=np.float32),
            "targets": _fill(targets, size),
            "target_weights": _fill(block["target_weights"] * (not empty), size, dtype=np.float32),
            "negatives": indices[: len(negatives)].astype(np.int32),
            "seen": np.pad(block["seen"], ((0, size // 2 - len(block["seen"])), (0, 0))),
        }


def find_neighbours(owners: NDArray[Any], orders: NDArray[Any]) -> Batch:
    """For each event, the last event of the order before its own, and the first event of the order after; 0 if there
    is none. The events of an order follow one another."""
    count = len(owners)
    starts = np.flatnonzero((np.diff(owners, prepend=-1) != 0) | (np.diff(orders, prepend=-1) != 0))
    numbers = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    before, after = starts - 1, np.append(starts[1:], 0)
    before[orders[starts] == 0] = 0
    after[orders[after] == 0] = 0
    return {"event_before": before[numbers], "event_after": after[numbers]}


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
