"""The health of a worker: whether it can recommend, what an operator should know, and its record for the others."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.version_watcher import VersionWatcher
from lorentzrec.serving.worker.worker_records import STALE_SECONDS, RecordFile, WorkerRecord, find_hung, read_records

BEAT_SECONDS = 1.0
"""Between two records of a worker, and between two tests of its version."""
TRIES = 5
"""A version that cannot recommend for any of this many items cannot recommend."""
OLD_DAYS = 30
"""A version older than this is reported: the daily job may have stopped."""
RECENT = 100
"""Recommendations of a worker among which those without items are counted for a warning."""
LEAST_RECENT = 20
STORE_DOWN = (
    "the store is unavailable: recommendations do not use the histories of customers, and writes fail; the log of the "
    "service has the reason"
)

logger = logging.getLogger("lorentzrec.serving")


class Health:
    """Tests the version in use each second, and writes the record of this worker, in threads."""

    def __init__(
        self, versions: VersionWatcher, store: GuardedStore, metrics: Metrics, folder: Path | None, workers: int
    ) -> None:
        """`folder`: what the processes of a service share; None for a worker that is alone."""
        self._versions, self._store, self._metrics = versions, store, metrics
        self._folder, self.workers = folder, 1 if folder is None else workers
        self._file: RecordFile | None = None
        self._measured: Recommender | None = None
        self._live_warnings: list[str] = []
        self._damaged: Version | None = None  # nothing could be recommended from it
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._beat = time.monotonic()
        self._others: list[WorkerRecord] = []  # as they were read last
        self._read = -BEAT_SECONDS
        self._stopped = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._test_began: float | None = None  # None: no test is under way

    def start(self) -> None:
        """To be called in the event loop, whose life is recorded."""
        self._loop = asyncio.get_running_loop()
        self._note_beat()
        if self._folder is not None:
            self._file = RecordFile(self._folder, os.getpid())
            self._file.write(self._record())
        # Two threads: a test that takes long does not delay the records.
        for step in (self._write_record, self._check_version):
            Thread(target=self._repeat, args=(step,), name="health", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def count_response(self, *, empty: bool) -> None:
        """Count a response with recommendations, or without any."""
        self._recent.append(empty)
        if empty:
            self._metrics.empty.inc()

    def records(self) -> list[WorkerRecord]:
        """The state of every worker that runs: that of this one as it is now, those of the others as recorded.

        To be called in the event loop.
        """
        self._note_beat()
        own = self._record()
        if self._folder is None:
            return [own]
        return [own, *(record for record in read_records(self._folder) if record.process != own.process)]

    def find_hung(self) -> list[int]:
        """The workers that will not respond again, by the records that the others had a second ago at most.

        To be called in the event loop.
        """
        now = time.monotonic()
        if self._folder is None or now < self._read + BEAT_SECONDS:
            self._note_beat()
        else:
            self._others, self._read = self.records(), now
        return find_hung([one for one in self._others if one.process != os.getpid()])

    def _record(self) -> WorkerRecord:
        used = self._versions.in_use
        problem = None
        if used is None:
            problem = self._versions.explain_missing()
        elif used.version is self._damaged:
            problem = f"nothing can be recommended from version {used.version.name}, which is damaged: publish again"
        elif (began := self._test_began) is not None and time.monotonic() - began > STALE_SECONDS:
            problem = (
                f"a test of version {used.version.name} has not ended in {STALE_SECONDS:g} seconds: check the disk"
            )
        name = None if used is None else used.version.name
        return WorkerRecord(os.getpid(), self._beat, name, problem, self._warnings(used))

    def _warnings(self, used: Recommender | None) -> list[str]:
        """What an operator should know although the service works."""
        warnings = [STORE_DOWN] if self._store.trouble is not None else []
        warnings += [*self._versions.warnings, *self._store.warnings]
        if used is None:
            return warnings
        if used is self._measured:
            warnings += self._live_warnings
        if (days := _age(used.version) / SECONDS_PER_DAY) > OLD_DAYS:
            warnings.append(f"version {used.version.name} is {days:.0f} days old: publish a new one")
        recent = list(self._recent)
        if len(recent) >= LEAST_RECENT and 2 * sum(recent) > len(recent):
            share = f"{sum(recent)} of the last {len(recent)}"
            warnings.append(f"{share} recommendations of a worker were empty, and `fallback_kinds` has the reason")
        return warnings

    def _repeat(self, step: Callable[[], None]) -> None:
        """Each second, whatever happens: a worker whose records end is taken for one that hangs."""
        assert self._loop is not None
        logged = ""
        while not (self._stopped.is_set() or self._loop.is_closed()):
            try:
                step()
                logged = ""
            except Exception as error:
                if (found := repr(error)) != logged and not self._loop.is_closed():
                    logger.exception("the health of this worker cannot be determined, which is tried again")
                    logged = found
            self._stopped.wait(BEAT_SECONDS)

    def _write_record(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._note_beat)
        if self._file is not None:
            try:
                self._file.write(self._record())
            except OSError as error:
                logger.error("the record of this worker cannot be written: %s", error)

    def _check_version(self) -> None:
        if (used := self._versions.in_use) is not None:
            self._measure(used)
            self._test_began = time.monotonic()
            try:
                self._test(used)
            finally:
                self._test_began = None

    def _note_beat(self) -> None:
        self._beat = time.monotonic()

    def _measure(self, used: Recommender) -> None:
        self._metrics.version_age.set(_age(used.version))
        if used is self._measured:
            return
        live, unknown, listed = used.recommendable_count, used.unknown_live_count, used.listed_count
        self._metrics.live_items.set(live)
        self._metrics.unknown_live_items.set(unknown)
        warnings = []
        if not live:
            warnings.append("no item is live, so all recommendations are empty: check the live items")
        if listed and 2 * unknown > listed:
            name = used.version.name
            warnings.append(f"{unknown:,} of {listed:,} live ids are not in version {name}: check the live items")
        self._live_warnings, self._measured = warnings, used

    def _test(self, used: Recommender) -> None:
        """Recommend something, as for a request, with random items: files may be damaged in part."""
        count = len(used.version.items)
        failure: Exception | None = None
        for row in random.sample(range(count), min(TRIES, count)):
            try:
                (item,) = used.version.items.items([row])
                used.recommend([item.id], RankingOptions(k=1))
            except Exception as error:
                failure = error
            else:
                self._damaged = None
                return
        if failure is not None and self._damaged is not used.version:
            logger.error("nothing can be recommended from version %s: %s", used.version.name, failure)
            self._damaged = used.version


def _age(version: Version) -> float:
    """Seconds since a version was made."""
    return (datetime.now(UTC) - version.created).total_seconds()
