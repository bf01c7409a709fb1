"""The trend in a worker: customers are counted from the events of the store, in a thread, about every minute."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import StoreUnavailable
from lorentzrec.points.points import Points
from lorentzrec.points.trend import Trend, usual_trend
from lorentzrec.serving.stores.activations import MAIN
from lorentzrec.serving.stores.histories import EventMark
from lorentzrec.serving.versions.item_directory import ItemDirectory
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.live_trend import find_live_trend
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.recent_customers import CollectedEvents, Counted, RecentCustomers
from lorentzrec.serving.worker.recommender import Recommender

READ_SECONDS = 600.0
"""The deadline of a reading: a store may have millions of events of the last days."""
REREAD_REFRESHES = 10
"""After an erasure, all events of the last days are read again, but only once in this number of refreshes."""
REREAD_SECONDS = 86_400.0
"""All events of the last days are read again once a day, since some may have been pruned."""

logger = logging.getLogger("lorentzrec.serving")


class TrendWatcher:
    """Counts the customers of the last days, and gives recommenders their trend.

    A thread of its own reads the store and counts; `apply` is for the thread of `VersionWatcher`. What was counted is
    replaced as a whole, so that a recommender has the numbers of one moment.
    """

    def __init__(
        self, store: GuardedStore, metrics: Metrics, seconds: float, announce: Callable[[], None] = lambda: None
    ) -> None:
        """announce: called when there are new numbers."""
        self._store, self._metrics, self._seconds, self._announce = store, metrics, seconds, announce
        self._customers = RecentCustomers()
        self._mark: EventMark | None = None  # None: nothing was read
        self._read_days = 0.0  # as far back, all events were read, and none was forgotten
        self._reread_at, self._reread_due = 0.0, 0.0  # of the monotonic clock: the last complete reading, and the next
        self._read = 0.0
        self._days: frozenset[float] = frozenset()  # lengths of the last days that versions in use need
        self._counted: Counted | None = None
        self._versions: WeakKeyDictionary[Version, _OfVersion] = WeakKeyDictionary()
        self._sources: dict[str, str] = {}
        self._failure: str | None = None
        self._faulty_arms: dict[str, str] = {}
        self._stopped, self._wanted = Event(), Event()
        self._thread = Thread(target=self._watch, name="trend", daemon=True)

    @property
    def warnings(self) -> list[str]:
        found = [f"the trend of arm {arm} cannot be used; see the log of the service" for arm in [*self._faulty_arms]]
        if self._failure is not None:
            found.append("the trend cannot be counted from the events; see the log of the service")
        return found

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()

    def apply(self, recommender: Recommender, arm: str) -> Recommender:
        """The recommender with the trend that was counted last; the same one if it has that."""
        try:
            found = self._apply(recommender, arm)
        except Exception as error:  # which does not keep a version from being used
            if self._faulty_arms.get(arm) != repr(error):  # once, not every second
                logger.exception("the trend of arm %s cannot be used", arm)
            self._faulty_arms[arm] = repr(error)
            return recommender
        self._faulty_arms.pop(arm, None)
        return found

    def _apply(self, recommender: Recommender, arm: str) -> Recommender:
        version, counted, before = recommender.version, self._counted, recommender.trend
        found = self._versions.get(version)
        if found is None:
            found = self._versions[version] = _OfVersion(version.points)
        days = frozenset(one.usual.days for one in self._versions.values())
        if not days <= self._days:
            self._wanted.set()
        self._days = days
        if before is not None and before.new_items is recommender.new_items and counted is before.counted:
            return recommender
        rows = np.empty(0, np.int64) if counted is None else found.rows(version.items, counted)
        own = version.points.trend
        live = find_live_trend(own, found.usual, rows, recommender.new_items, counted, before, time.time())
        if self._sources.get(arm) != live.source:
            self._sources[arm] = live.source
            logger.info("trend of arm %s: %s", arm, live.reason)
        if arm == MAIN:
            self._metrics.trend_customers.set(live.total)
            self._metrics.trend_on.set(live.trend is not None)
        return recommender.with_trend(live)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._wanted.clear()
            if self._days:
                self._refresh_safely()
            # Workers that started together should not all read together.
            self._wanted.wait(self._seconds * random.uniform(0.8, 1.2))

    def _refresh_safely(self) -> None:
        try:
            self.refresh()
        except StoreUnavailable as error:
            if self._store.trouble is None:  # else the guard has logged it
                if self._failure != repr(error):  # once, not every minute
                    logger.warning("the trend cannot be counted from the events: %s", error)
                self._failure = repr(error)
            self._count()
        except Exception as error:
            if self._failure != repr(error):  # once, not every minute
                logger.exception("the trend cannot be counted from the events")
            self._failure = repr(error)
            with suppress(Exception):  # what is too old by now must not count, whatever cannot be read
                self._count()
        else:
            self._failure = None
        self._announce()

    def refresh(self) -> None:
        """Read what arrived since the last reading, and count."""
        longest, begun, now = max(self._days), time.time(), time.monotonic()
        self._read_days = min(self._read_days, longest)  # what is older may be forgotten
        if self._mark is not None and self._read_days >= longest and now < self._reread_due:
            events, mark = self._read_events(longest, self._mark)
            if mark.store == self._mark.store:
                self._customers.add(events, time.time())
            if (mark.erased, mark.store) == (self._mark.erased, self._mark.store):
                self._mark = mark
            elif mark.store != self._mark.store or now > self._reread_at + REREAD_REFRESHES * self._seconds:
                self._reread(longest)
            else:  # the erasure is still to be followed
                self._mark = mark._replace(erased=self._mark.erased)
        else:
            self._reread(longest)
        self._read = begun
        self._count()
        self._metrics.trend_refreshed.set(self._read)

    def _reread(self, days: float) -> None:
        """Read all events of the last days."""
        events, mark = self._read_events(days, None)
        self._customers, self._mark, self._read_days = RecentCustomers(), mark, days
        self._customers.add(events, time.time())
        self._reread_at = time.monotonic()
        self._reread_due = self._reread_at + REREAD_SECONDS * random.uniform(0.8, 1.2)

    def _read_events(self, days: float, after: EventMark | None) -> tuple[CollectedEvents, EventMark]:
        # A reading that is given up continues in its thread: it has events of its own.
        events = CollectedEvents()
        since = time.time() - days * SECONDS_PER_DAY
        mark = self._store.call(
            lambda store: store.recent_events(since, events.take, after), seconds=READ_SECONDS, long=True
        )
        return events, mark

    def _count(self) -> None:
        customers, now = self._customers, time.time()
        days_read = [days for days in self._days if days <= self._read_days]  # not of a version since the last reading
        if self._mark is None or not days_read:
            return
        customers.add(CollectedEvents(), now)  # those that were ahead
        customers.forget_before(now - max(days_read) * SECONDS_PER_DAY)
        by_days = {days: customers.count(days, now) for days in days_read}
        self._metrics.trend_capped.set(max(counts.capped for counts in by_days.values()))
        self._metrics.trend_ahead.set(customers.ahead)
        self._counted = Counted(
            customers.items, customers.numbers, by_days, customers.ahead, customers.left_out, now, self._read
        )


class _OfVersion:
    """What the trend needs of a version."""

    def __init__(self, points: Points) -> None:
        self.usual: Trend = usual_trend(points.item_counts) if points.trend is None else points.trend
        self._items: object = None
        self._rows = np.empty(0, np.int64)

    def rows(self, directory: ItemDirectory, counted: Counted) -> NDArray[np.int64]:
        """The rows of the items that were counted."""
        items, count = counted.items, len(next(iter(counted.by_days.values())).recent)
        if items is not self._items:
            self._items, self._rows = items, np.empty(0, np.int64)
        if len(self._rows) < count:
            more = directory.rows(items[len(self._rows) : count])
            self._rows = np.concatenate([self._rows, more])
        return self._rows[:count]
