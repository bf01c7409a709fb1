"""The versions in use, and the thread that replaces them when newer good ones are published."""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread, get_native_id
from typing import Any, NamedTuple

from lorentzrec.errors import ArtifactError, InputError, LorentzrecError, StoreUnavailable
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores.activations import MAIN, Arms, choose_arm
from lorentzrec.serving.stores.histories import DISLIKE, DISLIKE_WEIGHT
from lorentzrec.serving.stores.versions import State
from lorentzrec.serving.versions.version import Version, drop_copies, open_version
from lorentzrec.serving.worker.guarded_store import STORE_UNAVAILABLE, GuardedStore
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.new_item_watcher import NewItemWatcher
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.rules import RuleWatcher
from lorentzrec.serving.worker.trend_watcher import TrendWatcher

START_SECONDS = 15.0
"""How long a start waits for the first poll of the store."""
FETCH_SECONDS = 3600.0
"""The deadline of a download. A version may be large, and its store far away."""
RETRY_SECONDS = 30.0
"""A refused version is opened again after this long: it may have been repaired."""
LOW_PRIORITY = 10
"""The nice value of what can wait."""
LEAST_PAUSE = 0.1
"""Seconds between two polls, however many changes are announced."""

logger = logging.getLogger("lorentzrec.serving")


def _tune(recommender: Recommender) -> None:
    """Find out how many lists of the index to scan, at a low priority: requests go first."""
    with suppress(OSError, AttributeError):  # of systems where a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LOW_PRIORITY)
    try:
        recommender.tune()
    except Exception:
        logger.exception("the index is used as it is, since its recall cannot be measured")


class UnknownArm(InputError):  # noqa: N818 - it becomes a 404
    """A request names an arm that is not live."""

    def __init__(self, arm: str, arms: Iterable[str]) -> None:
        super().__init__(f"there is no arm {arm!r} (arms: {', '.join(arms)}): check the name, or leave `arm` out")


class NoVersion(LorentzrecError):  # noqa: N818 - it becomes a 503
    """There is no version to recommend from. The message gives the reason."""


class ChosenArm(NamedTuple):
    """The arm that answers a request."""

    name: str
    recommender: Recommender
    unusable: str | None = None
    """The arm that should answer, if it cannot be used."""


@dataclass(frozen=True)
class WatcherState:
    """What a worker serves, and what keeps it from serving what the store has. A state is replaced, never changed."""

    recommender: Recommender | None = None
    """Recommends from the version in use in the arm `main`; None if no version is in use."""
    arms: Arms = field(default_factory=dict)
    """The live arms of the store."""
    others: Mapping[str, Recommender] = field(default_factory=dict)
    """The recommenders of the other arms. An arm whose version was refused has none, and `main` answers for it."""
    others_revision: int = 0
    """The revision of the live items in `others`."""
    live_revision: int = 0
    """The revision of the live items in `recommender`."""
    damage_reported: bool = False
    """Whether the log has the damage of the version in use."""
    target: str | None = None
    """The current version of the store, which should be in use."""
    store_warnings: Mapping[str, str] = field(default_factory=dict)
    """What the store reported about the current versions of arms in the last poll, by arm."""
    failure: str | None = None
    """Why the last poll failed; None if it succeeded or the store was unavailable."""
    refused: Mapping[str, float] = field(default_factory=dict)
    """Versions that cannot be used, with the time (of the monotonic clock) from which each may be opened again."""
    damaged: Mapping[str, float] = field(default_factory=dict)
    """When each version was last found to be damaged while it was in use."""

    @property
    def version(self) -> Version | None:
        """The version in use; None if there is none."""
        return None if self.recommender is None else self.recommender.version

    @property
    def warnings(self) -> list[str]:
        """What an operator should know although the service works."""
        warnings = [*self.store_warnings.values()]
        warnings += [f"version {name} is refused; see the log of the service" for name in self.refused]
        missing = [name for name in self.arms if name != MAIN and name not in self.others]
        warnings += [f"arm {name} cannot be used, so main answers for it: publish to it again" for name in missing]
        if self.failure is not None:
            warnings.append("the store cannot be checked for a new version; see the log of the service")
        return warnings


class VersionWatcher:
    """Holds the version in use and replaces it in one step.

    Requests under way keep the version they started with. Its memory is released after the last of them. A damaged
    version is refused, and the last good one stays in use. If there is no last good one, as at the start, or if the
    version in use is found to be damaged, the good version that was live last is used. A version that a rollback has
    left is not used.
    """

    def __init__(
        self, store: GuardedStore, metrics: Metrics, settings: ServiceSettings, copies: Path | None = None
    ) -> None:
        """`copies`: see `open_version`."""
        self._store, self._metrics, self._settings, self._copies = store, metrics, settings, copies
        self.new_items = NewItemWatcher(store, metrics, settings)
        self.rules = RuleWatcher(store)
        self.trends = TrendWatcher(store, metrics, settings.trend_seconds, self.poll_now)
        self._new_items_of_arms: dict[str, NewItemWatcher] = {}
        self._faulty_arms: set[str] = set()
        """Arms with a fault of new items that was logged."""
        self.state = WatcherState()
        """Written by the thread of this watcher only. A request reads it once and uses it to its end."""
        self._polled, self._stopped, self._poll_requested = Event(), Event(), Event()
        self._thread = Thread(target=self._watch, name="versions", daemon=True)

    @property
    def in_use(self) -> Recommender | None:
        """The recommender of the version in use; None if there is none."""
        return self.state.recommender

    @property
    def recommender(self) -> Recommender:
        """`in_use`; `NoVersion` if there is none."""
        if (recommender := self.state.recommender) is None:
            raise NoVersion(self.explain_missing())
        return recommender

    def choose(self, arm: str | None, user: str | None) -> ChosenArm:
        """The arm that answers a request, and its recommender: the arm that is named, that of a customer, or `main`.

        `main` answers for an arm that cannot be used.
        """
        state = self.state
        if state.recommender is None:
            raise NoVersion(self.explain_missing())
        name = arm if arm is not None else MAIN if user is None else choose_arm(state.arms, user)
        if name == MAIN:
            return ChosenArm(name, state.recommender)
        if name not in state.arms:
            raise UnknownArm(name, state.arms)
        if (recommender := state.others.get(name)) is None:
            return ChosenArm(MAIN, state.recommender, name)
        return ChosenArm(name, recommender)

    @property
    def version(self) -> Version | None:
        """The version in use; None if there is none."""
        return self.state.version

    @property
    def name(self) -> str | None:
        """The name of the version in use."""
        version = self.state.version
        return None if version is None else version.name

    def event_weights(self, version: Version | None) -> Mapping[str, float]:
        """Weights of the kinds of events: of the service, or else of the version; and that of a dislike."""
        own = self._settings.event_weights or ({} if version is None else version.event_weights)
        return {**own, DISLIKE: own.get(DISLIKE, DISLIKE_WEIGHT)}

    @property
    def warnings(self) -> list[str]:
        """What an operator should know although the service works."""
        state = self.state
        warnings = state.warnings + self.new_items.warnings + self.rules.warnings + self.trends.warnings
        if state.recommender is not None and (ignored := state.recommender.ignored_live_ids):
            warnings.append(f"{ignored:,} unknown ids in the list of live items are ignored: replace the list")
        return warnings

    def explain_missing(self) -> str:
        """Why no version is in use."""
        state = self.state
        if self._store.trouble is not None:
            return STORE_UNAVAILABLE
        if state.target in state.refused:
            return "; ".join([*self.warnings, "publish the model again"])
        if state.target is None and self._polled.is_set():
            return "the store holds no version yet: publish one with `lorentzrec publish MODEL --to STORE`"
        return "the version is being loaded: try again in a second"

    def start(self) -> None:
        """Poll the store from now on, in a thread. If there is a version, it is usually in use when this returns.

        A version that takes long to fetch is not waited for, so that liveness probes succeed meanwhile.
        """
        self._thread.start()
        self.trends.start()
        self._polled.wait(START_SECONDS)

    def stop(self) -> None:
        """End the threads."""
        self._stopped.set()
        self.trends.stop()
        self._poll_requested.set()
        self._thread.join(timeout=1)

    def poll_now(self) -> None:
        """Have the thread poll the store now: something in the store has changed."""
        self._poll_requested.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._poll_requested.clear()
            self._poll()
            self._polled.set()
            self._stopped.wait(LEAST_PAUSE)
            succeeded = self.state.failure is None and self._store.trouble is None
            waiting = any(items.waiting for items in (self.new_items, *self._new_items_of_arms.values()))
            if not (succeeded and waiting):
                # Workers that started together should not all poll together.
                self._poll_requested.wait(self._settings.poll_seconds * random.uniform(0.8, 1.2) - LEAST_PAUSE)

    def _poll(self) -> None:
        """`refresh`, and record what keeps the store from being read."""
        was_up = self._store.trouble is None
        try:
            self.refresh()
        except StoreUnavailable as error:
            if self._store.trouble is None:  # else the guard has logged it
                logger.warning("the store is too busy to be polled: %s", error)
        except Exception as error:
            if self.state.failure != repr(error):  # once, not every second
                logger.exception("the check of the store failed; the version in use stays")
            self._change(failure=repr(error))
        else:
            self._change(failure=None)
            if not was_up:
                logger.info("the store is back")
        self._metrics.store_up.set(self._store.trouble is None)
        self._metrics.store_writable.set(self._store.trouble is None and self._store.write_trouble is None)

    def refresh(self) -> None:
        """Take the current versions, live items, new items and rules of the store into use, if they have changed.

        At the start `main` is last, since a worker is ready when it has a version: then it has those of the other arms,
        too. Later `main` is first, since it does not wait until a version of another arm is downloaded.
        """
        found = self._store.call(lambda store: store.state(), probe=True)
        for arm, warning in found.warnings.items():
            if warning != self.state.store_warnings.get(arm):
                logger.warning("%s", warning)
        self._change(target=found.version, store_warnings=found.warnings)
        self.rules.refresh(found.rules_revision)
        steps = [self._refresh_others, self._refresh_main]
        if self.state.recommender is not None:
            steps.reverse()
        try:
            steps[0](found)
        finally:
            steps[1](found)

    def _refresh_others(self, found: State) -> None:
        """Take the versions of the arms other than `main` into use."""
        before, others = self.state, dict[str, Recommender]()
        for name, arm in found.arms.items():
            if name != MAIN and (recommender := self._refresh_arm(name, arm.version, found)) is not None:
                others[name] = self.rules.apply(self.trends.apply(recommender, name))
        self._change(arms=found.arms, others=others, others_revision=found.live_revision)
        used = {one.version.name for one in others.values()}
        for name, recommender in before.others.items():
            version = recommender.version
            if version.name not in used and (self.state.version is None or version.name != self.state.version.name):
                self._metrics.serving.labels(version.name).set(0)
                if self._copies is not None and version.name != found.version:
                    drop_copies(version, self._copies)
            if name not in found.arms:
                logger.info("arm %s has ended", name)
        # New items of an arm that is not in use are not waited for.
        self._new_items_of_arms = {name: items for name, items in self._new_items_of_arms.items() if name in others}

    def _refresh_arm(self, name: str, target: str, found: State) -> Recommender | None:
        """The recommender of an arm: of its target, or else of the version that the arm has in use, if it is good."""
        recommender = self.state.others.get(name)
        used = None if recommender is None else recommender.version
        if used is not None and used.items.damage is not None:
            self._note_damage(used)
            used = None
        opened = self._open(target) if used is None or used.name != target else None
        if used is None or found.live_revision != self.state.others_revision:
            recommender = None
        loaded = None if opened is None else self._load(opened)
        if loaded is None and recommender is None and used is not None:
            loaded = self._load(used, self.state.others.get(name))
        recommender = loaded or recommender
        if recommender is None:
            return None
        if recommender.version is not used:
            logger.info("version %s is in use in arm %s", recommender.version.name, name)
            self._metrics.serving.labels(recommender.version.name).set(1)
        if name not in self._new_items_of_arms:
            self._new_items_of_arms[name] = NewItemWatcher(self._store, self._metrics, self._settings, main=False)
        try:
            return self._new_items_of_arms[name].extend(recommender, found)
        except StoreUnavailable:  # a fault of new items does not keep a version from being used
            return recommender
        except Exception:
            if name not in self._faulty_arms:  # once, not every second
                logger.exception("the new items of arm %s cannot be used", name)
            self._faulty_arms.add(name)
            return recommender

    def _refresh_main(self, found: State) -> None:
        """Take the current version of `main` into use.

        The best version that can be used is taken: the target, the one in use, those that were live before. A damaged
        version in use is the last choice: what can still be read of it is better than nothing.
        """
        used = self.state.version
        intact = used is not None and used.items.damage is None
        if used is not None and intact and found.version in (None, used.name):
            live = {arm.version for arm in found.arms.values()} - {used.name}
            self._change(refused={name: until for name, until in self.state.refused.items() if name in live})
            self._use(used, found)
            return
        if used is not None and not intact:
            self._report_damage(used)
        if found.version is not None and self._use_named(found.version, found):
            return
        if not intact:
            for name in self._store.call(lambda store: store.standing_versions()):
                if name != found.version and self._use_named(name, found):
                    logger.warning("version %s is used instead of %s, which is refused", name, found.version)
                    return
        if used is not None:
            self._use(used, found)

    def _use_named(self, name: str, found: State) -> bool:
        """Open a version and take it into use. False if it was refused."""
        version = self._open(name)
        return version is not None and self._use(version, found)

    def _open(self, name: str) -> Version | None:
        """A version, fetched and checked; None if it was refused."""
        if time.monotonic() < self.state.refused.get(name, 0.0):
            return None
        cache = self._settings.cache_folder
        with self._refuse_if_damaged(name):
            folder = self._store.call(lambda store: store.fetch(name, cache), seconds=FETCH_SECONDS)
            version = open_version(folder, copies=self._copies)
            if version.name != name:
                raise ArtifactError(f"{folder} holds version {version.name!r}: publish the model again")
            self._change(refused={other: until for other, until in self.state.refused.items() if other != name})
            return version
        return None

    def _use(self, version: Version, found: State) -> bool:
        """Take an open version into use, with the live and new items of the store. False if it was refused."""
        before = self.state
        recommender = before.recommender
        if recommender is None or version is not before.version or found.live_revision != before.live_revision:
            recommender = self._load(version, recommender)
        if recommender is None:
            return False
        try:
            recommender = self.new_items.extend(recommender, found)
        finally:  # a fault of new items does not keep a version from being used
            recommender = self.rules.apply(self.trends.apply(recommender, MAIN))
            reported = version is before.version and before.damage_reported
            self._change(recommender=recommender, live_revision=found.live_revision, damage_reported=reported)
            if version is not before.version:
                self._announce(before.version, version)
        return True

    def _load(self, version: Version, before: Recommender | None = None) -> Recommender | None:
        """The recommender of a version, warmed up; None if the version was refused. before: the one in use."""
        live = self._store.call(lambda store: store.live_items(), seconds=FETCH_SECONDS)
        with self._refuse_if_damaged(version.name):  # its checksums are right, but its content may make no sense
            settings = self._settings
            recommender = Recommender(
                version,
                live.items,
                live.removed,
                explore=settings.explore,
                event_item_share=settings.event_item_share,
                before=before if before is not None and before.version is version else None,
            )
            recommender.warm_up()
            if recommender.index is not None and recommender.index.recall is None:
                Thread(target=_tune, args=(recommender,), name="index", daemon=True).start()
            return recommender
        return None

    def _report_damage(self, version: Version) -> None:
        """Note, once, that the version in use in `main` is damaged."""
        if not self.state.damage_reported:
            self._note_damage(version)
            self._change(damage_reported=True)

    def _note_damage(self, version: Version) -> None:
        """Log that a version in use is damaged.

        The version is opened again, which may yield an intact copy. If it was damaged a moment ago as well, it is
        refused.
        """
        now, damaged = time.monotonic(), self.state.damaged
        if now - damaged.get(version.name, -RETRY_SECONDS) < RETRY_SECONDS:
            self._refuse(version.name, str(version.items.damage))
        else:
            logger.error("version %s was damaged while in use: %s", version.name, version.items.damage)
        self._change(damaged={**damaged, version.name: now})

    @contextmanager
    def _refuse_if_damaged(self, name: str) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception as error:
            self._refuse(name, error)

    def _refuse(self, name: str, reason: Exception | str) -> None:
        if name not in self.state.refused:
            self._metrics.refused.inc()
            kind = "" if isinstance(reason, str | LorentzrecError | OSError) else f"{type(reason).__name__}: "
            logger.error("version %s is refused, and the last good one stays: %s%s", name, kind, reason)
        self._change(refused={**self.state.refused, name: time.monotonic() + RETRY_SECONDS})

    def _change(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def _announce(self, before: Version | None, version: Version) -> None:
        """Log that a version is in use, count it, and remove the files of earlier ones."""
        logger.info("version %s is in use: %d items", version.name, len(version.items))
        self._metrics.swaps.inc()
        if before is not None:
            others = [recommender.version.name for recommender in self.state.others.values()]
            if before.name not in others:
                self._metrics.serving.labels(before.name).set(0)
            if self._copies is not None and before.name not in (version.name, *others):
                drop_copies(before, self._copies)
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
        for path in self._settings.cache_folder.glob("*"):
            # Another worker may be downloading such a version, to a folder whose name contains its name.
            if not any(name in path.name for name in keep):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
