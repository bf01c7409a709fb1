"""Publishing: from a model to the current version of a store, without interrupting the services that use it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.atomic import scratch_directory
from lorentzrec.base.manifest import write_manifest
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import MICROSECONDS, parse_moment
from lorentzrec.errors import ArtifactError, InputError, LorentzrecError, WriteError
from lorentzrec.maps.disk_map import DiskMap, make_disk_map
from lorentzrec.serving.stores.activations import MAIN, check_arm, find_standing
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Added, Event, derive_event_id
from lorentzrec.serving.stores.ids import check_ids, make_key
from lorentzrec.serving.stores.store import Progress, Store
from lorentzrec.serving.stores.versions import LONGEST_REASON, Versions, check_reason
from lorentzrec.serving.versions.gate import (
    Candidates,
    HeldOutEvents,
    Requirement,
    Result,
    check_requirements,
    parse_requirements,
    refuse,
)
from lorentzrec.serving.versions.measured_days import MeasuredDay
from lorentzrec.serving.versions.version import open_version, write_version

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.model.model import Model

EVENTS_A_BATCH = 5_000


@dataclass(frozen=True)
class Published:
    """The result of `publish`."""

    name: str
    """The name of the version that is now current."""
    manifest: dict[str, Any]
    events: Added | None
    """The number of events added, if there were histories."""
    gate: tuple[Result, ...] = ()
    """What was found about each requirement."""
    versions: tuple[str, ...] | None = None
    """The complete versions of the store afterwards, newest first; None if the store could not list them."""
    notes: tuple[str, ...] = ()
    """What did not work after the version became the current one."""


def publish(
    model: Model,
    store: Store,
    *,
    items: pl.DataFrame | None = None,
    disk_map: DiskMap | bool | None = None,
    histories: Interactions | None = None,
    keep: int = 3,
    index: bool = True,
    event_weights: Mapping[str, float] | None = None,
    require: Iterable[str] = (),
    held_out: HeldOutEvents | None = None,
    force: bool = False,
    reason: str = "published",
    arm: str = MAIN,
    share: float | None = None,
    days: Sequence[MeasuredDay] | None = None,
    progress: Progress = lambda *_: None,
) -> Published:
    """Make `model` the current version of an arm of `store`.

    It is written to a temporary folder, compared with the current version, uploaded, opened as a service would open it,
    and only then activated. A failure at any point leaves the current version as it was and removes what was uploaded;
    histories that were added before it stay.
    Then all versions are removed but `keep`, see `prune`; so are the remains of interrupted uploads, unless another
    process is publishing. If that fails, the version is published nevertheless, and `notes` has the reason.

    items: a table with the column id and any of title, category, price and image.
    disk_map: the map of all items for the page; True makes it.
    histories: events to put into the store first, see `add_histories`.
    index: build one, if there are enough items for it to pay.
    event_weights: kind of event -> weight, so that events sent to the service weigh as in training.
    require: requirements, such as "ndcg@10>=0.95*current"; see `lorentzrec.serving.versions.gate`. Those in `DEFAULTS`
    apply, too, unless one of the same measure is given. `PublishRefused` has what was measured.
    held_out: events for the requirements of quality.
    force: publish a version that does not meet them. The reason in the log then names what was overridden.
    reason: for the log of activations.
    arm: the first version of an arm other than `main` is compared with the current version of `main`.
    share: see `Store.activate`.
    days: what the daily job measured on the last days, oldest first, for the page.
    """
    requirements = parse_requirements(require)
    check_arm(arm)
    if keep < 1:
        raise InputError(f"{keep} versions cannot be kept: keep 1 or more")
    check_reason(reason)
    _check_ids_of(model, histories)
    if disk_map is True:
        disk_map = make_disk_map(model, progress=lambda share: progress("making the map", share))
    with scratch_directory("publish") as scratch, _in_scratch(scratch), store.publishing():
        folder = scratch / "version"
        manifest = write_version(
            folder,
            model,
            items=items,
            disk_map=disk_map or None,
            index=index,
            event_weights=event_weights,
            parent=store.state().find_version(arm),
            days=days,
            progress=progress,
        )
        name, total = str(manifest["name"]), sum(file["bytes"] for file in manifest["files"].values())
        sent = 0

        def uploaded(more: int) -> None:
            nonlocal sent
            sent += more
            progress("uploading", sent / max(total, 1))

        def compare() -> tuple[str | None, str | None, list[Result]]:
            progress("comparing with the current version", 0.0)
            current, other, results = _compare(folder, store, arm, scratch, requirements, model.histories, held_out)
            if (refusal := refuse(results, store.url)) is not None and not force:
                raise refusal
            return current, other, results

        current, other, results = compare()
        if other is not None:  # with the name: if another process publishes meanwhile, it is the one before that
            manifest["compared"] = {"version": other, "overlap@10": _find_overlap(results)}
            write_manifest(folder, manifest)
        try:
            store.upload(folder, uploaded)
            progress("checking what was uploaded", 0.0)
            open_version(store.fetch(name, scratch / "fetched")).items.close()
            events = None if histories is None else add_histories(store, histories, progress)
            while not _activate(store, name, _full_reason(reason, results), current, arm, share):
                current, _, results = compare()  # another process has published meanwhile
        except BaseException:
            with suppress(LorentzrecError, OSError):  # if not even this works, the next publish removes it
                store.discard(name)
            raise
    versions: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    try:
        prune(store, keep)
        store.clean()
        versions = tuple(store.versions())
    except (LorentzrecError, OSError) as error:  # the version is the current one all the same
        notes = (f"old versions could not be removed, and the next publish removes them: {error}",)
    return Published(name, manifest, events, tuple(results), versions, notes)


def _compare(
    folder: Path,
    store: Store,
    arm: str,
    scratch: Path,
    requirements: Sequence[Requirement],
    histories: Interactions | None,
    held_out: HeldOutEvents | None,
) -> tuple[str | None, str | None, list[Result]]:
    """The current version of the arm, the version compared with, and what was found about each requirement.

    They are about the version in `folder`.

    The first version of an arm is compared with the current version of `main`.
    """
    with ExitStack() as opened:
        state, version, absence = store.state(), None, None
        while (current := state.find_version(arm) or state.version) is not None:
            try:
                version = open_version(store.fetch(current, scratch / "current"))
                opened.callback(version.items.close)
                break
            except ArtifactError as error:  # the new version may be what repairs it
                absence = str(error)
                break
            except InputError as error:
                before, state = state, store.state()
                if error.kind is not StoreFault.NO_VERSION:
                    raise
                if state.arms == before.arms:
                    if arm not in state.warnings:
                        raise
                    absence = state.warnings[arm]
                    break
        new = open_version(folder)
        opened.callback(new.items.close)
        candidates = Candidates(new, version, histories, held_out, absence)
        compared = None if version is None else version.name
        return state.find_version(arm), compared, check_requirements(requirements, candidates)


def _find_overlap(results: Iterable[Result]) -> float | None:
    """The overlap@10, if it was measured."""
    return next((one.value for one in results if one.requirement.startswith("overlap@10>=")), None)


def _activate(store: Versions, name: str, reason: str, instead_of: str | None, arm: str, share: float | None) -> bool:
    """Activate a version; False if another version than `instead_of` is current in the arm by now."""
    try:
        store.activate(name, reason, instead_of=instead_of, arm=arm, share=share)
    except InputError as error:
        if error.kind is StoreFault.OTHER_CURRENT:
            return False
        raise
    return True


def _full_reason(reason: str, results: Iterable[Result]) -> str:
    """The reason for the log, with the requirements that were overridden."""
    overridden = ", ".join(f"{one.requirement} ({one.measured})" for one in results if one.refuses)
    full = f"{reason}; forced, although these are not met: {overridden}" if overridden else reason
    return full if len(full) <= LONGEST_REASON else f"{full[: LONGEST_REASON - 3]}..."


def _check_ids_of(model: Model, histories: Interactions | None) -> None:
    """Refuse ids that a service would not accept, before anything is uploaded."""
    try:
        check_ids("item", map(str, model.items.series.to_list()))
        if histories is not None:
            check_ids("item", map(str, histories.items.series.to_list()))
            check_ids("user", map(str, histories.users.series.to_list()))
    except InputError as error:
        raise InputError(f"{error}; correct the events, then prepare, train and publish again") from None


@contextmanager
def _in_scratch(scratch: Path) -> Iterator[None]:
    """If the temporary folder cannot be written, report that it is this folder and not the store."""
    try:
        yield
    except WriteError as error:
        if error.path.is_relative_to(scratch):
            raise InputError(f"{error} (the temporary folder, not the store: TMPDIR names another)") from error
        raise


def prune(store: Versions, keep: int) -> None:
    """Remove the versions that were live, except for the newest `keep` of each arm: the current one and earlier ones.

    A version that a rollback has left does not count, and is removed. So are the versions of an arm that has ended.
    """
    log = store.activations()  # once: what another process activates from now on is not touched
    complete, activated = store.versions(), {entry.version for entry in log}
    kept: set[str] = set()
    for arm in {entry.arm for entry in log}:
        kept.update([name for name in find_standing(log, arm) if name in complete][:keep])

    def is_live(name: str) -> bool:
        return name in [arm.version for arm in store.state().arms.values()]

    for old in complete:
        if old in activated and old not in kept and not is_live(old):
            try:
                store.discard(old)
            except InputError:
                # Another process may have removed it, or activated it.
                if old in store.versions() and not is_live(old):
                    raise


def rollback(store: Versions, name: str | None = None, *, arm: str = MAIN, reason: str | None = None) -> str:
    """Activate the version that was live in an arm before its current one, or the version `name`; returns its name.

    The current version is rejected: no later rollback returns to it, unless by its name. So are the versions that
    became live between the two. If the current version has vanished from the store, the one used in its place is made
    the current one. The share of the arm stays.
    """
    state = store.state()
    current = state.find_version(check_arm(arm))
    if current is None and arm != MAIN:
        raise StoreFault.NO_ARM.error(store=store.url, arm=arm, arms=", ".join(state.arms) or "none")
    if arm in state.warnings and current is not None and name in (None, current):
        store.activate(current, reason or "restored: the current version had vanished", arm=arm)
        return current
    name = _find_earlier(store, arm, current) if name is None else _check_was_live(store, arm, current, name)
    store.roll_back(name, reason or f"rolled back from {current}", instead_of=str(current), arm=arm)
    return name


def _find_earlier(store: Versions, arm: str, current: str | None) -> str:
    if older := [name for name in store.standing_versions(arm) if name != current]:
        return older[0]
    line = f"{store.url} holds no version that was live{_in_arm(arm)} before {current or 'the first'}"
    if rejected := [name for name in store.live_versions(store.activations(), arm) if name != current]:
        line += f" and was not rolled back (rolled back: {', '.join(rejected)})"
    raise InputError(f"{line}: publish one{', or name one of these' if rejected else ' instead'}")


def _check_was_live(store: Versions, arm: str, current: str | None, name: str) -> str:
    if current == name:
        raise InputError(f"{name} is the current version of {store.url}{_in_arm(arm)} already: name another")
    if name not in (live := store.live_versions(store.activations(), arm)):
        others = ", ".join(other for other in live if other != current) or "none"
        raise InputError(
            f"{store.url} holds no version {name!r} that was live{_in_arm(arm)} (those that were: {others}): "
            "name another"
        )
    return name


def _in_arm(arm: str) -> str:
    return "" if arm == MAIN else f" in arm {arm}"


def add_histories(store: Store, histories: Interactions, progress: Progress = lambda *_: None) -> Added:
    """Put the events of a dataset into a store; returns how many were new, and which customers are erased.

    An event is identified by its item and its time, as in the service: one that was already sent to the service counts
    once, and publishing again, after an interruption or with newer events, adds only what is missing. Without times, an
    event is the first, second, ... of its item, and events get the seconds 0, 1, 2 and so on of 1970, which preserves
    their order and puts them before all real events.
    """
    events, added, done = _events(histories), Added(0, 0), 0
    while batch := list(islice(events, EVENTS_A_BATCH)):
        added += store.add_events(batch, respect_erasures=True)
        done += len(batch)
        progress("adding histories", done / len(histories))
    return added


def select_since(histories: Interactions, since: str, store: Versions, arm: str = MAIN) -> Interactions:
    """The events from a moment on, or, with "last", those newer than what the current version was trained on: without a
    current version, all."""
    newer_than: float | None = None
    if since == "last":
        state = store.state()
        if (current := state.find_version(arm) or state.version) is not None:
            newer_than = json.loads(store.fetch_manifest(current)).get("newest_time")
    else:
        newer_than = np.nextafter(parse_moment(since, "since") / MICROSECONDS, -np.inf)
    if newer_than is None:
        return histories
    if histories.times is None:
        raise InputError("`since` needs times, and these events have none: give a dataset with times, or leave it out")
    return histories.select(histories.times > newer_than)


def _events(histories: Interactions) -> Iterator[Event]:
    ids = [str(item) for item in histories.items.series.to_list()]
    bounds = zip(histories.offsets[:-1].tolist(), histories.offsets[1:].tolist(), strict=True)
    for user, (start, end) in zip(histories.users.series.to_list(), bounds, strict=True):
        items = [ids[row] for row in histories.item_rows[start:end].tolist()]
        weights = [1.0] * len(items) if histories.weights is None else histories.weights[start:end].tolist()
        times = range(end - start) if histories.times is None else histories.times[start:end].tolist()
        counts: Counter[str] = Counter()
        for item, time, weight in zip(items, times, weights, strict=True):
            number = str(counts[item])
            counts[item] += 1
            id = make_key("without time", item, number) if histories.times is None else derive_event_id(item, time)
            yield Event(str(user), item, float(time), id, weight)
