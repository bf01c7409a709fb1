"""The customers of items in the last days, counted from events as they arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.points.trend import MOST_ITEMS
from lorentzrec.serving.stores.histories import RecentEvents

ITEM_BITS = 24
"""Of a pair's 64 bits, for the number of the item; the others are a hash of the customer."""
EXPIRED_SHARE = 4
"""Pairs are removed when one in four is too old."""


class Counts(NamedTuple):
    """Customers in the last days."""

    recent: NDArray[np.int64]
    """Of each item, by its number."""
    customers: int
    capped: int
    """Pairs of a customer and an item that do not count, because the customer has too many."""


class CollectedEvents:
    """Events while they are read: of each, the customer by hash, the item by number, and the time."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []

    def take(self, page: RecentEvents) -> None:
        users = np.fromiter(map(hash, page.users), np.int64, len(page.users))
        numbers = self.items
        items = np.array([numbers.setdefault(item, len(numbers)) for item in page.items], np.int64)
        self._parts.append((users, items, np.array(page.times, np.float64)))

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Customers, items and times."""
        if not self._parts:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        users, items, times = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return users, items, times


class RecentCustomers:
    """Pairs of a customer and an item with the time of their newest event. Used by one thread.

    A customer is known by 40 bits of a hash: of a million customers, about one in two million is taken for another.
    """

    def __init__(self) -> None:
        self.items: list[str] = []
        """By number. Items are only appended, so that other threads may read those that were there."""
        self.numbers: dict[str, int] = {}
        self.left_out = 0
        """Events that were left out since there are too many different items."""
        self._pairs, self._times = np.empty(0, np.uint64), np.empty(0)  # sorted by pair
        self._pairs_ahead, self._times_ahead = np.empty(0, np.uint64), np.empty(0)  # of events after now

    @property
    def ahead(self) -> int:
        """Events that will count when their time has come."""
        return len(self._pairs_ahead)

    def add(self, events: CollectedEvents, now: float) -> None:
        """Add events; one that comes again changes nothing."""
        users, items, times = events.columns()
        found = np.array([self._find_or_add(id) for id in events.items], np.int64)[items]
        self.left_out += int((found < 0).sum())
        users, items, times = users[found >= 0], found[found >= 0], times[found >= 0]
        pairs = (users.view(np.uint64) << np.uint64(ITEM_BITS)) | items.astype(np.uint64)
        pairs, times = (np.concatenate(both) for both in ((self._pairs_ahead, pairs), (self._times_ahead, times)))
        ahead = times > now
        self._pairs_ahead, self._times_ahead = _sort(pairs[ahead], times[ahead])
        pairs, times = _sort(pairs[~ahead], times[~ahead])
        newest = np.append(pairs[1:] != pairs[:-1], True) if len(pairs) else np.empty(0, bool)
        pairs, times = pairs[newest], times[newest]
        index = np.searchsorted(self._pairs, pairs)
        known = np.zeros(len(pairs), bool)
        inside = index < len(self._pairs)
        known[inside] = self._pairs[index[inside]] == pairs[inside]
        changed = index[known]
        self._times[changed] = np.maximum(self._times[changed], times[known])
        self._pairs = np.insert(self._pairs, index[~known], pairs[~known])
        self._times = np.insert(self._times, index[~known], times[~known])

    def _find_or_add(self, id: str) -> int:
        number = self.numbers.get(id)
        if number is None:
            if len(self.items) >= 2**ITEM_BITS:
                return -1
            number = len(self.items)
            self.items.append(id)
            self.numbers[id] = number
        return number

    def forget_before(self, moment: float) -> None:
        """Remove pairs that are older, when there are many."""
        kept = self._times > moment
        if (len(kept) - np.count_nonzero(kept)) * EXPIRED_SHARE > len(kept):
            self._pairs, self._times = self._pairs[kept], self._times[kept]

    def count(self, days: float, now: float) -> Counts:
        """The customers of each item in the days before now. Of each customer, the newest `MOST_ITEMS` items count."""
        recent = self._times > now - days * SECONDS_PER_DAY
        pairs = self._pairs[recent]
        customers = pairs >> np.uint64(ITEM_BITS)
        starts = np.flatnonzero(np.append(True, customers[1:] != customers[:-1])) if len(pairs) else np.empty(0, int)
        sizes = np.diff(np.append(starts, len(pairs)))
        capped = sizes > MOST_ITEMS
        if capped.any():
            times, counted = self._times[recent], np.ones(len(pairs), bool)
            for start, size in zip(starts[capped].tolist(), sizes[capped].tolist(), strict=True):
                oldest_first = np.argsort(times[start : start + size], kind="stable")
                counted[start + oldest_first[: size - MOST_ITEMS]] = False
            pairs = pairs[counted]
        items = (pairs & np.uint64(2**ITEM_BITS - 1)).astype(np.int64)
        found = np.bincount(items, minlength=len(self.items))
        return Counts(found, len(starts), int((sizes[capped] - MOST_ITEMS).sum()))


def _sort(pairs: NDArray[np.uint64], times: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Pairs and times, sorted by both, each once."""
    order = np.lexsort((times, pairs))
    pairs, times = pairs[order], times[order]
    first = np.append(True, (pairs[1:] != pairs[:-1]) | (times[1:] != times[:-1]))[: len(pairs)]
    return pairs[first], times[first]


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted at one moment, for several lengths of the last days."""

    items: Sequence[str]
    """At least those that have a number in `by_days`; others may have been appended."""
    numbers: Mapping[str, int]
    by_days: Mapping[float, Counts]
    ahead: int
    left_out: int
    moment: float
    """Unix seconds."""
    read: float
    """Unix seconds at which the newest reading of the store that succeeded began."""
