"""Customers of the last days and of the time before, one event at a time; see `lorentzrec.points.trend`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lorentzrec.geometry import FloatArray

SECONDS = 86_400


def customers(
    events: Sequence[tuple[int, int, float]], item_count: int, days: float, now: float
) -> tuple[FloatArray, FloatArray]:
    """r and e of each item, from (customer, item, time)."""
    known = [event for event in events if event[2] <= now]
    newest = max(time for _, _, time in known)
    buyers: dict[tuple[int, int], set[int]] = {}
    for customer, item, time in known:
        window = math.floor((newest - time) / (days * SECONDS))
        buyers.setdefault((window, item), set()).add(customer)
    recent, earlier = np.zeros(item_count), np.zeros(item_count)
    for (window, item), found in buyers.items():
        (recent if window == 0 else earlier)[item] += len(found)
    return recent, earlier * recent.sum() / earlier.sum()


def live_customers(
    events: Sequence[tuple[str, str, float]], days: float, now: float, limit: int
) -> tuple[dict[str, int], int]:
    """The customers of each item in the days before now, from (customer, item, time), and how many were left out: of
    each customer, the `limit` items that they bought last count."""
    newest: dict[str, dict[str, float]] = {}
    for customer, item, time in events:
        if now - days * SECONDS < time <= now:
            bought = newest.setdefault(customer, {})
            bought[item] = max(time, bought.get(item, time))
    counts: dict[str, int] = {}
    left_out = 0
    for bought in newest.values():
        kept = sorted(bought, key=lambda item: -bought[item])[:limit]
        left_out += len(bought) - len(kept)
        for item in kept:
            counts[item] = counts.get(item, 0) + 1
    return counts, left_out


def offsets(recent: Sequence[float], expected: Sequence[float], weight: float, smoothing: float) -> list[float]:
    """What is added to the score of each item."""
    return [
        weight * math.log((one + smoothing) / (other + smoothing)) for one, other in zip(recent, expected, strict=True)
    ]
