"""What a customer bought before and may buy again: a boost for the items of their own history.

The score of an item j of the history rises by

    weight * log(1 + r_j f_j),

with f_j the customer's own events with j. Each weighs half as much for every half-life between it and the newest event
of the history, and `order_decay` times as much for every change of the time after it: for every later order. r_j is
the square root of how often j is bought again, relative to the average item:

    r_j^2 = (a_j + 20 a) / (n_j + 20) / a,

with n_j the orders that contain j, a_j those of them whose customer had bought j before, and a their share for all
items together. Twenty orders of the average item smooth the shares of rare items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import InputError
from lorentzrec.points.memory import LARGEST_WEIGHT, Boosts

SMOOTHING = 20.0
RATE_EXPONENT = 0.5
"""A compromise on orders of Complete Journey and Online Retail that precede those of the tests: the first is best with
0.5, the second with 1 or more. Neither a penalty for what was bought in the last days nor the time since the last
purchase, compared with the usual gap, helped there."""


@dataclass(frozen=True, eq=False)
class Repeats:
    """Boosts of the items that a customer bought before."""

    rates: NDArray[np.float32]
    """r_j of each item."""
    weight: float
    """In the unit of the score."""
    half_life: float | None = None
    """In days; None: days do not count."""
    order_decay: float = 1.0
    """For each change of the time after an event: for each later order."""

    def __post_init__(self) -> None:
        if (
            self.rates.dtype != np.float32
            or self.rates.ndim != 1
            or not ((self.rates > 0) & np.isfinite(self.rates)).all()
            or not 0 < self.weight <= LARGEST_WEIGHT
            or not (self.half_life is None or 0 < self.half_life < np.inf)
            or not 0 < self.order_decay <= 1
        ):
            raise InputError("the repeats of a model are not positive numbers: train the model again")

    @property
    def item_count(self) -> int:
        return len(self.rates)

    def extend(self, item_count: int) -> Repeats:
        """The same with more items, which are bought again as often as the average item."""
        return replace(self, rates=np.pad(self.rates, (0, item_count - len(self.rates)), constant_values=1))

    def take(self, rows: Integers) -> Repeats:
        """The same with item `rows[i]` as item i."""
        return replace(self, rates=self.rates[rows])

    def boosts(
        self,
        histories: NDArray[Any],
        offsets: Integers,
        event_weights: NDArray[Any] | None = None,
        times: NDArray[Any] | None = None,
    ) -> Boosts:
        """The boosts of each of some histories of item rows; the g-th is `histories[offsets[g]:offsets[g + 1]]`.

        times: unix seconds of the events, in rising order; without them, nothing decays. An event whose time is NaN
        does not count: the customer looks at the item and did not buy it.
        """
        count, items = len(offsets) - 1, self.item_count
        shares = np.ones(len(histories)) if event_weights is None else event_weights.astype(np.float64)
        if times is not None and len(histories):
            shares = shares * self._decay(times, offsets)
        cells: NDArray[Any] = histories.astype(np.int64, copy=False)
        if count > 1:
            cells = cells + np.repeat(np.arange(count) * items, np.diff(offsets))
        found, index = np.unique(cells, return_inverse=True)
        sums = np.bincount(index, shares, len(found))
        indices, columns = np.divmod(found, items) if count > 1 else (np.zeros(len(found), np.int64), found)
        values = self.weight * np.log1p(self.rates[columns] * sums)
        kept = np.flatnonzero(values > 0)
        return Boosts(indices[kept], columns[kept], np.zeros(len(kept)), 0.0, values[kept])

    def _decay(self, times: NDArray[Any], offsets: Integers) -> Floats:
        """What each event weighs by its age; 0 where its time is NaN."""
        weights: Floats = np.zeros(len(times))
        bought = np.flatnonzero(~np.isnan(times))
        if not len(bought):
            return weights
        known = times[bought]
        ends = np.searchsorted(bought, offsets)
        counts = np.diff(ends)
        exponents: Floats = np.zeros(len(bought))
        if self.half_life is not None:
            newest = np.repeat(np.maximum.reduceat(known, ends[:-1][counts > 0]), counts[counts > 0])
            exponents -= (newest - known) / (SECONDS_PER_DAY * self.half_life)
        if self.order_decay < 1:
            steps = np.cumsum(np.diff(known, prepend=known[0]) != 0)
            exponents += (np.repeat(steps[ends[1:] - 1], counts) - steps) * np.log2(self.order_decay)
        weights[bought] = np.exp2(exponents)
        return weights


def find_rates(data: Interactions) -> NDArray[np.float32]:
    """r_j of each item of these events."""
    repeated, total = np.zeros(len(data.items), np.int64), np.zeros(len(data.items), np.int64)
    for first, last in data.spans_of_customers():
        events = slice(*data.offsets[[first, last]])
        pairs = data.user_rows[events].astype(np.int64) * len(data.items) + data.item_rows[events]
        order = np.lexsort((data.order_positions[events], pairs))
        pairs, orders = pairs[order], data.order_positions[events][order]
        again = np.diff(pairs, prepend=-1) == 0
        distinct = ~again | (np.diff(orders, prepend=-1) != 0)
        items, again = pairs[distinct] % len(data.items), again[distinct]
        repeated += np.bincount(items[again], minlength=len(data.items))
        total += np.bincount(items, minlength=len(data.items))
    average = max(1, repeated.sum()) / max(1, total.sum())
    rates: Floats = (repeated + SMOOTHING * average) / (total + SMOOTHING) / average
    return (rates**RATE_EXPONENT).astype(np.float32)
