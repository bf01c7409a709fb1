"""The trend of a version with customers counted from the events of the store, or why it is another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.points.trend import FEWEST_CUSTOMERS, Trend
from lorentzrec.serving.worker.new_items import NewItems
from lorentzrec.serving.worker.recent_customers import Counted

Source: TypeAlias = Literal["events", "version", "off"]


@dataclass(frozen=True, eq=False)
class LiveTrend:
    """The trend in use, and where its numbers are from."""

    trend: Trend | None
    source: Source
    """events: customers are counted from the events of the store. version: they are those of the training, until the
    last days before its newest event are over. off: nothing is known of the last days."""
    days: float
    new_recent: NDArray[np.float32]
    """The customers of the new items that are placed."""
    new_items: NewItems
    counted: Counted | None
    """What was counted last; None: nothing so far."""
    is_counted: bool
    """Whether these last days were counted."""
    total: int = 0
    """Customers of items of the version, each counted once per item."""
    unknown: int = 0
    """Customers of ids that are neither in the version nor placed new items."""

    @property
    def reason(self) -> str:
        """Why it is this trend."""
        days = f"the last {self.days:g} days"
        if self.source == "events":
            return f"the customers of {days} are counted from the events of the store"
        few = f"the store has {self.total:,} customers of items in {days}, and {FEWEST_CUSTOMERS} are needed"
        if not self.is_counted:
            few = "the events of the store are not counted yet"
        if self.source == "version":
            return f"{few}: the customers before the newest event of the training are used"
        return f"{few}: there is no trend, and popular items are those with the most events in training"


def find_live_trend(
    own: Trend | None,
    usual: Trend,
    rows: NDArray[np.int64],
    new_items: NewItems,
    counted: Counted | None,
    before: LiveTrend | None,
    now: float,
) -> LiveTrend:
    """The trend of a version at a moment.

    own: that of the version. usual: the same, or if there is none, one that has only usual rates.
    rows: of the items in `counted`, in the version. before: the one in use, which is kept if no number has changed.
    """
    days = usual.days
    new_recent = np.zeros(new_items.placed_count, np.float32)
    total = unknown = 0
    renewed, is_counted = None, False
    if counted is not None and days in counted.by_days:
        counts, is_counted = counted.by_days[days].recent, True
        rows = rows[: len(counts)]
        known = rows != UNKNOWN
        recent = np.zeros(usual.item_count, np.float32)
        recent[rows[known]] = counts[known]
        for index, item in enumerate(new_items.items[: new_items.placed_count]):
            number = counted.numbers.get(item.id, len(counts))
            new_recent[index] = counts[number] if number < len(counts) and not known[number] else 0
        total = int(counts[known].sum())
        unknown = int(counts[~known].sum() - new_recent.sum())
        last = before.trend if before is not None and before.source == "events" else None
        same = last is not None and np.array_equal(last.recent, recent)
        renewed = last if same else usual.renew(recent, counted.moment)
    rest = days, new_recent, new_items, counted, is_counted, total, unknown
    if renewed is not None:
        return LiveTrend(renewed, "events", *rest)
    if own is not None and not own.is_over(now):
        return LiveTrend(own, "version", *rest)
    return LiveTrend(None, "off", *rest)
