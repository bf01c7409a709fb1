"""Publishing: from a model to the current version of a store, without interrupting the services that use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lorentzrec.atomic import scratch_directory
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.reduction.disk_map import DiskMap, disk_map_of
from lorentzrec.serving.stores.store import Added, Event, Store, check_ids, key_of, usual_id
from lorentzrec.serving.versions.version import open_version, write_version

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.model.model import Model

Progress: TypeAlias = Callable[[str, float], None]
"""Called with the current step and the share of it that is done."""

EVENTS_A_BATCH = 5_000


@dataclass(frozen=True)
class Published:
    """The result of `publish`."""

    name: str
    """The name of the version that is now current."""
    manifest: dict[str, Any]
    events: Added | None
    """The number of events added, if there were histories."""


def publish(
    model: Model,
    store: Store,
    *,
    items: pl.DataFrame | None = None,
    disk_map: DiskMap | bool | None = None,
    twin: Model | None = None,
    histories: Interactions | None = None,
    keep: int = 3,
    index: bool = True,
    event_weights: Mapping[str, float] | None = None,
    progress: Progress = lambda *_: None,
) -> Published:
    """Make `model` the current version of `store`.

    It is written to a temporary folder, uploaded, opened as a service would open it, and only then activated. A failure
    at any point leaves the current version as it was and removes what was uploaded. Then all but the newest `keep` of
    the versions that were ever activated are removed, with the remains of interrupted uploads, unless another process
    is publishing.

    items: a table with the column id and any of title, category, price and image.
    disk_map: the map of all items for the page; True makes it.
    twin: another model of the same items, for comparison.
    histories: events to put into the store first, see `add_histories`.
    index: build one, if there are enough items for it to pay.
    event_weights: kind of event -> weight, so that events sent to the service weigh as in training.
    """
    if keep < 1:
        raise InputError(f"{keep} versions cannot be kept: keep 1 or more")
    _check_ids_of(model, histories)
    if disk_map is True:
        disk_map = disk_map_of(model, progress=lambda share: progress("making the map", share))
    with scratch_directory("publish") as scratch, _in_scratch(scratch), store.publishing():
        folder = scratch / "version"
        manifest = write_version(
            folder,
            model,
            items=items,
            disk_map=disk_map or None,
            twin=twin,
            index=index,
            event_weights=event_weights,
            progress=progress,
        )
        name, total = str(manifest["name"]), sum(file["bytes"] for file in manifest["files"].values())
        sent = 0

        def uploaded(more: int) -> None:
            nonlocal sent
            sent += more
            progress("uploading", sent / max(total, 1))

        try:
            store.upload(folder, uploaded)
            progress("checking what was uploaded", 0.0)
            open_version(store.fetch(name, scratch / "fetched")).items.close()
            events = None if histories is None else add_histories(store, histories, progress)
            store.activate(name)
        except BaseException:
            with suppress(LorentzrecError, OSError):  # if not even this works, the next publish removes it
                store.discard(name)
            raise
    _prune(store, keep)
    store.clean()
    return Published(name, manifest, events)


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
    except InputError as error:
        if str(error).startswith(f"cannot write {scratch}"):
            raise InputError(f"{error} (the temporary folder, not the store: TMPDIR names another)") from error
        raise


def _prune(store: Store, keep: int) -> None:
    """Remove the oldest versions that were ever activated, except for `keep` and the current one."""
    for old in store.activated_versions()[keep:]:
        if old != store.state().version:
            try:
                store.discard(old)
            except InputError:
                # Another process may have removed it, or activated it.
                if old in store.versions() and old != store.state().version:
                    raise


def rollback(store: Store) -> str:
    """Activate the version that was live before the current one again; returns its name.

    If the store has lost which version is current, that version is restored instead.
    """
    state = store.state()
    if state.version is not None and state.warning is not None:
        store.activate(state.version)
        return state.version
    older = [name for name in store.activated_versions() if state.version is not None and name < state.version]
    if not older:
        raise InputError(
            f"{store.url} holds no version that was live before {state.version or 'the first'}: publish one instead"
        )
    store.activate(older[0])
    return older[0]


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
            id = key_of("without time", item, number) if histories.times is None else usual_id(item, time)
            yield Event(str(user), item, float(time), id, weight)
