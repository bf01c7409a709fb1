"""The memory as dense matrices, one event at a time; see `lorentzrec.points.memory`."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry import FloatArray


def neighbours(data: Interactions, *, ordered: bool, found_count: float = 0.3) -> FloatArray:
    """B: (items, items)."""
    count = len(data.items)
    matrix = np.zeros((count, count))
    for user in range(len(data.users)):
        events = range(data.offsets[user], data.offsets[user + 1])
        items = data.item_rows[events.start : events.stop].tolist()
        weights = [1.0 if data.weights is None else float(data.weights[event]) for event in events]
        targets = [True if data.labels is None else bool(data.labels[event]) for event in events]
        if ordered:
            for early in range(len(items)):
                for late in range(early + 1, min(early + 6, len(items))):
                    if targets[late] and items[early] != items[late]:
                        value = weights[early] * weights[late] * 0.7 ** (late - early - 1)
                        matrix[items[early], items[late]] += value
        else:
            found = {item for item, target in zip(items, targets, strict=True) if target}
            for item in set(items):
                for other in found - {item}:
                    matrix[item, other] += 1 / len(set(items))
    if ordered:
        masses = np.zeros(count)
        np.add.at(masses, data.item_rows, 1.0 if data.weights is None else data.weights)
        masses = np.where(masses == 0, 1, masses)
        return np.asarray(matrix / np.sqrt(masses)[:, None] / (masses / masses.mean()) ** found_count, np.float64)
    customers = [
        len({u for u, i in zip(data.user_rows, data.item_rows, strict=True) if i == item}) for item in range(count)
    ]
    degrees = np.maximum(customers, 1).astype(np.float64)
    return np.asarray(matrix / degrees[:, None] ** 0.7 / degrees**0.3, np.float64)


def strongest(matrix: FloatArray, count: int) -> FloatArray:
    """The same with all but the `count` largest entries of each row set to 0; among equal ones, the first stay."""
    kept = np.zeros_like(matrix)
    for row, values in enumerate(matrix):
        best = np.argsort(-values, kind="stable")[:count]
        kept[row, best] = values[best]
    return kept


def boosts(
    matrix: FloatArray, history: list[int], weight: float, *, ordered: bool, event_weights: list[float] | None = None
) -> FloatArray:
    """weight * log(1 + 20 m) of all items."""
    memory = np.zeros(len(matrix))
    for age, item in enumerate(reversed(history)):
        recency = 0.6**age if ordered else 1.0
        if recency >= 1e-3:
            memory += recency * (1.0 if event_weights is None else event_weights[-1 - age]) * matrix[item]
    if not ordered and memory.max() > 0:
        memory /= memory.max()
    found: FloatArray = weight * np.log1p(20 * memory)
    return found
