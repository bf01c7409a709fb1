"""From a model to the current version of a store, in one step for whoever asks the service meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lorentzrec.atomic import scratch_directory
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.serving.stores.store import Added, Event, Store, key_of, usual_id
from lorentzrec.serving.version import open_version, write_version

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.learning.model import Model
    from lorentzrec.reduction.disk_map import DiskMap

Progress: TypeAlias = Callable[[str, float], None]
"""Told what is being done, and what share of it is."""

EVENTS_A_BATCH = 5_000


@dataclass(frozen=True)
class Published:
    """What `publish` did."""

    name: str
    """Of the version that is now current."""
    manifest: dict[str, Any]
    events: Added | None
    """What became of the histories, if there were any to add."""


def publish(
    model: Model,
    store: Store,
    *,
    items: pl.DataFrame | None = None,
    disk_map: DiskMap | None = None,
    twin: Model | None = None,
    histories: Interactions | None = None,
    keep: int = 3,
    index: bool = True,
    progress: Progress | None = None,
) -> Published:
    """Make `model` the current version of `store`.

    It is written beside, uploaded, opened as a service would open it, and only then activated: a failure at any point
    leaves the store answering as before. Then all but the newest `keep` versions go, and the remains of interrupted
    publishes, too.

    items: a table with the column id and any of title, category, price and image.
    twin: another model of the same items, for answers side by side.
    histories: events to put into the store first, see `add_histories`.
    index: make one, if there are enough items for it to pay.
    """
    if keep < 1:
        raise InputError(f"{keep} versions cannot be kept: keep 1 or more")
    tell = progress or (lambda *_: None)
    with scratch_directory("publish") as scratch:
        folder = Path(scratch, "version")
        manifest = write_version(
            folder,
            model,
            items=items,
            disk_map=None if disk_map is None else disk_map.coordinates,
            map_description=None if disk_map is None else {"method": disk_map.method, "kept": disk_map.kept},
            twin=twin,
            index=index,
            progress=lambda what: tell(what, 0.0),
        )
        name, total = str(manifest["name"]), sum(file["bytes"] for file in manifest["files"].values())
        sent = 0

        def uploaded(more: int) -> None:
            nonlocal sent
            sent += more
            tell("uploading", sent / max(total, 1))

        store.upload(folder, uploaded)
        tell("checking what was uploaded", 0.0)
        open_version(store.fetch(name, Path(scratch, "fetched")), verify=False).items.close()
    events = None if histories is None else add_histories(store, histories, progress)
    store.activate(name)
    for old in store.versions()[keep:]:
        if old != store.state().version:
            store.discard(old)
    store.clean()
    return Published(name, manifest, events)


def rollback(store: Store) -> str:
    """Make the version before the current one the current one again; its name."""
    current = store.state().version
    older = [name for name in store.versions() if current is not None and name < current]
    if not older:
        raise InputError(f"{store.url} holds no version before {current or 'the first'}: publish one instead")
    store.activate(older[0])
    return older[0]


def add_histories(store: Store, histories: Interactions, progress: Progress | None = None) -> Added:
    """Put the events of a dataset into a store; how many were new, and which customers are erased.

    An event is its item and its time, as for the service: one that the service was told counts once, and whoever
    publishes again, after an interruption or with newer events, adds only what is not there. Without times, an event
    is the first, second, ... of its item, and events get the seconds 0, 1, 2 and so on of 1970, which keeps their order
    and puts them before everything that really happens.
    """
    accepted, duplicates, done, erased = 0, 0, 0, frozenset[str]()
    events = _events(histories)
    while batch := list(islice(events, EVENTS_A_BATCH)):
        added = store.add_events(batch, respect_erasures=True)
        accepted, duplicates, done = accepted + added.accepted, duplicates + added.duplicates, done + len(batch)
        erased |= added.erased
        if progress is not None:
            progress("adding histories", done / len(histories))
    return Added(accepted, duplicates, erased)


def _events(histories: Interactions) -> Iterator[Event]:
    items = [str(item) for item in histories.items.series.to_list()]
    for user, start, end in zip(
        histories.users.series.to_list(), histories.offsets[:-1].tolist(), histories.offsets[1:].tolist(), strict=True
    ):
        touched = [items[row] for row in histories.item_rows[start:end].tolist()]
        if histories.times is not None:
            for item, time in zip(touched, histories.times[start:end].tolist(), strict=True):
                yield Event(str(user), item, float(time), usual_id(item, time))
        else:
            met: Counter[str] = Counter()
            for place, item in enumerate(touched):
                yield Event(str(user), item, float(place), key_of("without time", item, str(met[item])))
                met[item] += 1
