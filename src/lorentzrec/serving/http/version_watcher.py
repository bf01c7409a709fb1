"""The version in use, and the thread that replaces it when a newer good one is published."""

from __future__ import annotations

import logging
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from lorentzrec.errors import ArtifactError, LorentzrecError, StoreUnavailable
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.metrics import Metrics
from lorentzrec.serving.http.new_item_watcher import NewItemWatcher
from lorentzrec.serving.http.problems import STORE_UNAVAILABLE, NotReady
from lorentzrec.serving.http.settings import ServiceSettings
from lorentzrec.serving.recommending.recommender import Recommender
from lorentzrec.serving.versions.version import Version, drop_copies, open_version

START_SECONDS = 15.0
"""How long a start waits for the first poll of the store."""
FETCH_SECONDS = 3600.0
"""A version may be large, and its store far away."""
REFUSAL_SECONDS = 30.0
"""A refused version is opened again after this long: it may have been repaired."""
LEAST_PAUSE = 0.1
"""Seconds between two polls, however many changes are announced."""

logger = logging.getLogger("lorentzrec.serving")


class VersionWatcher:
    """Holds the version in use and replaces it in one step.

    Requests under way keep the version they started with; its memory is released after the last of them. A damaged
    version is refused, and the last good one stays in use. At the start, when there is no last good one, and when the
    one in use is found to be damaged, the good one that was live last replaces it, unless a rollback has left it.
    """

    def __init__(
        self, store: GuardedStore, metrics: Metrics, settings: ServiceSettings, copies: Path | None = None
    ) -> None:
        """`copies`: see `open_version`."""
        self._store, self._metrics, self._copies = store, metrics, copies
        self._cache, self._poll_seconds, self._explore = settings.cache_folder, settings.poll_seconds, settings.explore
        self._event_weights, self._event_item_share = settings.event_weights, settings.event_item_share
        self.new_items = NewItemWatcher(store, metrics, settings)
        self.in_use: Recommender | None = None
        """That of the version in use; None if there is none. A request reads it once and uses it to its end."""
        self._live_revision = 0  # of its live items
        self._refused: dict[str, float] = {}  # when each may be opened again
        self._damaged: dict[str, float] = {}  # when each was last found to be damaged while it was in use
        self._wanted: str | None = None
        self._warning: str | None = None  # of the store
        self._failure: str | None = None  # of the last poll
        self._noted: Version | None = None  # the damaged version in use that was reported
        self._polled, self._stopped, self._nudged = Event(), Event(), Event()
        self._thread = Thread(target=self._watch, name="versions", daemon=True)

    @property
    def recommender(self) -> Recommender:
        """`in_use`; `NotReady` if there is none."""
        if (recommender := self.in_use) is None:
            raise NotReady(self.missing())
        return recommender

    @property
    def version(self) -> Version | None:
        """The version in use; None if there is none."""
        return None if self.in_use is None else self.in_use.version

    @property
    def name(self) -> str | None:
        """The name of the version in use."""
        return None if self.in_use is None else self.in_use.version.name

    def event_weights(self, version: Version | None) -> Mapping[str, float]:
        """Weights of the kinds of events: of the service, or else of the version; empty if all are equal."""
        return self._event_weights or ({} if version is None else version.event_weights)

    @property
    def warnings(self) -> list[str]:
        """What an operator should know although the service works."""
        warnings = [f"version {name} is refused, and the log of the service says why" for name in self._refused.copy()]
        if self._failure is not None:
            warnings.append("the store cannot be checked for a new version, and the log of the service says why")
        warnings += self.new_items.warnings
        if self.in_use is not None and (ignored := self.in_use.ignored_live_ids):
            warnings.append(f"{ignored:,} unknown ids in the list of live items are ignored: replace the list")
        return warnings if self._warning is None else [self._warning, *warnings]

    def start(self) -> None:
        """Poll the store from now on, in a thread. If there is a version, it is usually in use when this returns.

        A version that takes long to fetch is not waited for, so that liveness probes succeed meanwhile.
        """
        self._thread.start()
        self._polled.wait(START_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        self._nudged.set()
        self._thread.join(timeout=1)

    def nudge(self) -> None:
        """Poll now: something in the store has changed."""
        self._nudged.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._nudged.clear()
            self._poll()
            self._polled.set()
            # Workers that started together should not all poll together.
            self._stopped.wait(LEAST_PAUSE)
            succeeded = self._failure is None and self._store.trouble is None
            if not (succeeded and self.new_items.waiting):
                self._nudged.wait(self._poll_seconds * random.uniform(0.8, 1.2) - LEAST_PAUSE)

    def _poll(self) -> None:
        was_up = self._store.trouble is None
        try:
            self.refresh()
        except StoreUnavailable as error:
            if self._store.trouble is None:  # else the guard has logged it
                logger.warning("the store is too busy to be polled: %s", error)
        except Exception as error:
            if self._failure != repr(error):  # once, not every second
                logger.exception("the check of the store failed; the version in use stays")
            self._failure = repr(error)
        else:
            self._failure = None
            if not was_up:
                logger.info("the store is back")
        self._metrics.store_up.set(self._store.trouble is None)
        self._metrics.store_writable.set(self._store.trouble is None and self._store.write_trouble is None)

    def refresh(self) -> None:
        """Take the current version, live items and new items of the store into use, if they have changed."""
        state = self._store.call(lambda store: store.state(), probe=True)
        self._wanted, before = state.version, self.in_use
        if state.warning is not None and state.warning != self._warning:
            logger.warning("%s", state.warning)
        self._warning = state.warning
        for version in self._choices(state.version, self.version):
            if before is not None and version is before.version and state.live_revision == self._live_revision:
                self.in_use = self.new_items.extend(before, state.items_revision)
                return
            if (recommender := self._load(version)) is not None:
                try:
                    recommender = self.new_items.extend(recommender, state.items_revision)
                finally:  # what is wrong with new items does not keep a version from being used
                    self.in_use, self._live_revision, self._noted = recommender, state.live_revision, None
                    if before is None or version is not before.version:
                        self._announce(before, version)
                return

    def _choices(self, wanted: str | None, in_use: Version | None) -> Iterator[Version]:
        """The versions to serve, best first: the wanted one, the one in use, those that were live before.

        If the one in use is damaged it comes last: what can still be read of it is better than nothing.
        """
        sound = in_use is not None and in_use.items.damage is None
        if in_use is not None and sound and wanted in (None, in_use.name):
            self._refused.clear()
            yield in_use
            return
        if in_use is not None and not sound:
            self._note_damage(in_use)
        if wanted is not None and (opened := self._open(wanted)):
            yield opened
        if in_use is not None and sound:
            yield in_use
            return
        for name in self._store.call(lambda store: store.standing_versions()):
            if name != wanted and (opened := self._open(name)):
                logger.warning("version %s is used instead of %s, which is refused", name, wanted)
                yield opened
        if in_use is not None:
            yield in_use

    def _note_damage(self, version: Version) -> None:
        """Report, once, that the version in use is damaged.

        It is opened again, which may yield an intact copy; if that was damaged as well a moment ago, it is refused.
        """
        if version is self._noted:
            return
        self._noted, now = version, time.monotonic()
        if now - self._damaged.get(version.name, -REFUSAL_SECONDS) < REFUSAL_SECONDS:
            self._refuse(version.name, str(version.items.damage))
        else:
            logger.error("version %s was damaged while in use: %s", version.name, version.items.damage)
        self._damaged[version.name] = now

    def _open(self, name: str) -> Version | None:
        """A version, fetched and checked; None if it is damaged."""
        if name in self._refused and time.monotonic() < self._refused[name]:
            return None
        with self._refuse_if_damaged(name):
            folder = self._store.call(lambda store: store.fetch(name, self._cache), seconds=FETCH_SECONDS)
            version = open_version(folder, copies=self._copies)
            if version.name != name:
                raise ArtifactError(f"{folder} holds version {version.name!r}: publish the model again")
            self._refused.pop(name, None)
            return version
        return None

    def _load(self, version: Version) -> Recommender | None:
        """The recommender of a version, warmed up; None if the version is refused."""
        live = self._store.call(lambda store: store.live_items(), seconds=FETCH_SECONDS)
        with self._refuse_if_damaged(version.name):  # its checksums are right, but its content may make no sense
            recommender = Recommender(
                version, live.items, live.removed, explore=self._explore, event_item_share=self._event_item_share
            )
            recommender.warm_up()
            return recommender
        return None

    @contextmanager
    def _refuse_if_damaged(self, name: str) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception as error:
            self._refuse(name, error)

    def _refuse(self, name: str, reason: Exception | str) -> None:
        if name not in self._refused:
            self._metrics.refused.inc()
            kind = "" if isinstance(reason, str | LorentzrecError | OSError) else f"{type(reason).__name__}: "
            logger.error("version %s is refused, and the last good one stays: %s%s", name, kind, reason)
        self._refused[name] = time.monotonic() + REFUSAL_SECONDS

    def _announce(self, before: Recommender | None, version: Version) -> None:
        logger.info("version %s is in use: %d items", version.name, len(version.items))
        for line in version.notes:
            logger.warning(line)
        self._metrics.swaps.inc()
        if before is not None:
            self._metrics.serving.labels(before.version.name).set(0)
            if self._copies is not None and before.version.name != version.name:
                drop_copies(before.version, self._copies)
        self._metrics.serving.labels(version.name).set(1)  # second: it may be the same version, opened again
        self._prune_cache(version.name)

    def _prune_cache(self, served: str) -> None:
        """Remove versions from the cache that the store has discarded, with the locks and remains of their downloads.

        A process that still maps their files can continue to use them.
        """
        try:
            keep = {served, *self._store.call(lambda store: store.versions())}
        except LorentzrecError:
            return
        for path in self._cache.glob("*"):
            # Another worker may be downloading such a version, to a folder whose name contains its name.
            if not any(name in path.name for name in keep):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def missing(self) -> str:
        """Why there is no version."""
        if self._store.trouble is not None:
            return STORE_UNAVAILABLE
        if self._wanted not in self._refused and (self._wanted is not None or not self._polled.is_set()):
            return "the version is being loaded: try again in a second"
        if self._wanted is None:
            return "the store holds no version yet: publish one with `lorentzrec publish MODEL --to STORE`"
        return "; ".join([*self.warnings, "publish the model again"])
