"""What is more popular than usual: an addition to the score of each item, from the customers of the last days.

The score of an item j rises by

    weight * log((r_j + a) / (e_j + a)),

with r_j the distinct customers of j in the last `days` before the newest event, and e_j those expected at its usual
rate. Earlier events are cut into windows of as many days; in each, every item has its distinct customers. e_j is the
share of j in the sum over these windows, times the sum of all r. So a shop that grows or has holidays has no trend by
that alone, and windows without events change nothing. `a` smooths the numbers of rare items. A new item, which has no
trend yet, gets 0.

Customers count once, so a single one cannot push an item.

A service counts r_j again, from the events in its store: in the last days before now, at most the newest `MOST_ITEMS`
items of each customer. e_j is then the share of j, times the sum of all these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import InputError
from lorentzrec.points.memory import LARGEST_WEIGHT

SMOOTHING = 5.0
"""a. 5 was better than 1 on orders of Online Retail before those of the tests."""
USUAL_DAYS = 28.0
"""The days that popularity is counted in, if nothing else is chosen."""
MOST_ITEMS = 200
"""Items that one customer counts for in a service. One household in a hundred buys more in 28 days in a grocery."""
FEWEST_CUSTOMERS = 100
"""Customers of items, each counted once per item, that the last days and the time before them need. With fewer, the
clock says nothing."""


@dataclass(frozen=True, eq=False)
class Trend:
    """How popular items were in the last days, and how popular they usually are."""

    recent: NDArray[np.float32]
    """r_j of each item."""
    expected: NDArray[np.float32]
    """e_j of each item."""
    weight: float
    """In the unit of the score; 0: scores have no trend, and what is popular in the last days is known."""
    days: float
    until: float
    """Unix seconds of the newest event."""

    def __post_init__(self) -> None:
        if (
            [(array.dtype.str, array.ndim) for array in (self.recent, self.expected)] != [("<f4", 1), ("<f4", 1)]
            or len(self.recent) != len(self.expected)
            or not all(((array >= 0) & np.isfinite(array)).all() for array in (self.recent, self.expected))
            or not 0 <= self.weight <= LARGEST_WEIGHT
            or not 0 < self.days < np.inf
            or not np.isfinite(self.until)
        ):
            raise InputError("the trend of a model is not numbers of customers: train the model again")

    @property
    def item_count(self) -> int:
        return len(self.recent)

    @cached_property
    def offsets(self) -> NDArray[np.float32] | None:
        """What is added to the score of each item; None if nothing is."""
        if self.weight == 0:
            return None
        offsets: NDArray[np.float32] = np.float32(self.weight) * np.log(self.ratios)
        return offsets

    @cached_property
    def ratios(self) -> NDArray[np.float32]:
        """How many times as popular as usual each item is, smoothed."""
        ratios: NDArray[np.float32] = (self.recent + np.float32(SMOOTHING)) / (self.expected + np.float32(SMOOTHING))
        return ratios

    def is_over(self, now: float) -> bool:
        """Whether the last days are so long ago that they say nothing of today."""
        return now - self.until > self.days * SECONDS_PER_DAY

    def renew(self, recent: NDArray[np.float32], until: float) -> Trend | None:
        """The same with customers counted again, in the days before this time; None if there are too few."""
        total, usual = float(recent.sum(dtype=np.float64)), float(self.expected.sum(dtype=np.float64))
        if total < FEWEST_CUSTOMERS or usual == 0:
            return None
        return replace(self, recent=recent, expected=self.expected * np.float32(total / usual), until=until)

    def extend(self, item_count: int) -> Trend:
        """The same with more items, which have no trend."""
        more = 0, item_count - self.item_count
        return replace(self, recent=np.pad(self.recent, more), expected=np.pad(self.expected, more))

    def take(self, rows: Integers) -> Trend:
        """The same with item `rows[i]` as item i."""
        return replace(self, recent=self.recent[rows], expected=self.expected[rows])


def count_unset_clocks(times: NDArray[Any]) -> int:
    """How many of these unix seconds are of 1970, if most are at least ten years later."""
    year = 365 * SECONDS_PER_DAY
    return int((times < year).sum()) if len(times) and np.median(times) >= 10 * year else 0


def usual_trend(item_counts: NDArray[np.int64]) -> Trend:
    """The trend of items with these numbers of events, without a weight, for `renew`: nobody has bought anything."""
    counts = item_counts.astype(np.float32)
    return Trend(np.zeros_like(counts), counts, 0.0, USUAL_DAYS, 0.0)


def find_trend(data: Interactions, days: float, now: float) -> Trend | None:
    """The trend of these events, with weight 0; None if they have no times, or too few of them are in the last days or
    before.

    now: events after this time are those of a wrong clock, and do not count.
    """
    if data.times is None:
        return None
    counted = data.times <= now
    if not counted.any():
        return None
    until = float(data.times.max(where=counted, initial=data.times.min()))
    recent, earlier = np.zeros(len(data.items), np.int64), np.zeros(len(data.items), np.int64)
    for first_customer, last_customer in data.spans_of_customers():
        span = slice(*data.offsets[[first_customer, last_customer]])
        times, items, users = (each[span][counted[span]] for each in (data.times, data.item_rows, data.user_rows))
        windows = np.floor((until - times) / (days * SECONDS_PER_DAY)).astype(np.int64)
        pairs = users.astype(np.int64) * len(data.items) + items
        order = np.lexsort((windows, pairs))
        pairs, windows = pairs[order], windows[order]
        first = (np.diff(pairs, prepend=-1) != 0) | (np.diff(windows, prepend=-1) != 0)
        found, newest = pairs[first] % len(data.items), windows[first] == 0
        recent += np.bincount(found[newest], minlength=len(data.items))
        earlier += np.bincount(found[~newest], minlength=len(data.items))
    if min(recent.sum(), earlier.sum()) < FEWEST_CUSTOMERS:
        return None
    expected = earlier * (recent.sum() / earlier.sum())
    return Trend(recent.astype(np.float32), expected.astype(np.float32), 0.0, days, until)
