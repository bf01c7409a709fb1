"""What is more popular than usual: an addition to the score of each item, from the customers of the last days.

The score of an item j rises by

    weight * log((r_j + a) / (e_j + a)),

with r_j the distinct customers of j in the last `days` before the newest event, and e_j those expected at its usual
rate. Earlier events are cut into windows of as many days; in each, every item has its distinct customers. e_j is the
share of j in the sum over these windows, times the sum of all r. So a shop that grows or has holidays has no trend by
that alone, and windows without events change nothing. `a` smooths the numbers of rare items. A new item, which has no
trend yet, gets 0.

Customers count once, so a single one cannot push an item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import SECONDS_PER_DAY
from lorentzrec.errors import InputError
from lorentzrec.points.memory import LARGEST_WEIGHT

SMOOTHING = 5.0
"""a. 5 was better than 1 on orders of Online Retail before those of the tests."""
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
        ratios = (self.recent.astype(np.float64) + SMOOTHING) / (self.expected + SMOOTHING)
        return (self.weight * np.log(ratios)).astype(np.float32)

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
    times, items, users = data.times[counted], data.item_rows[counted], data.user_rows[counted]
    until = float(times.max())
    windows = np.floor((until - times) / (days * SECONDS_PER_DAY)).astype(np.int64)
    pairs = users.astype(np.int64) * len(data.items) + items
    order = np.lexsort((windows, pairs))
    pairs, windows = pairs[order], windows[order]
    first = np.append(True, (np.diff(pairs) != 0) | (np.diff(windows) != 0))
    found, newest = pairs[first] % len(data.items), windows[first] == 0
    recent, earlier = (np.bincount(found[chosen], minlength=len(data.items)) for chosen in (newest, ~newest))
    if min(recent.sum(), earlier.sum()) < FEWEST_CUSTOMERS:
        return None
    expected = earlier * (recent.sum() / earlier.sum())
    return Trend(recent.astype(np.float32), expected.astype(np.float32), 0.0, days, until)
