"""The customers of a store, as those of a model: everybody gets what the service would recommend to them.

A customer with events in the store has that history, as in the service: the newest events, oldest first. A customer of
the model without any has the history of the training data, unless they were erased. All of this is read once, and kept
with the unfinished results: a run that continues another one uses the same histories. Results of other histories are
removed before histories are read again, because they have other customers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.batch.part_files import PartFiles
from lorentzrec.data.arrays import make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN, Id, Vocabulary
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.ingest.storage import read_record, write_record
from lorentzrec.model.artifact import load
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.model import Model
from lorentzrec.points.dislikes import find_taken_back
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.histories import USUAL_HISTORY
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import Version

if TYPE_CHECKING:
    import polars as pl

EVENTS_AT_ONCE = 500_000
"""Events whose ids are turned into rows together."""
OLDEST_HOURS = 12
"""Histories that an unfinished run has read are used again if they are not older than this."""
_MODEL, _RECORD = "model", "store.json"


@dataclass(frozen=True)
class StoreReport:
    """Whose histories were used."""

    store: str
    taken: float
    """When they were read, in unix seconds."""
    customers_of_store: int
    """With events in the store."""
    customers_of_model: int
    """Without, and with a history in the model."""
    erased_customers: int
    """Who are in the model and were left out."""
    unknown_events: int
    """In histories of the store, with items that the model does not have."""


@dataclass(frozen=True)
class StoreCustomers:
    """A model whose customers are those of a store, saved in a folder."""

    path: Path
    model: Model
    erasures: dict[str, float]
    """Of customers who have returned."""
    report: StoreReport

    def erased_since(self, store: Store) -> list[str]:
        """Customers who were erased after their histories were read."""
        users = [] if self.model.users is None else self.model.users.series.to_list()
        return [user for user, moment in store.erasures(users).items() if self.erasures.get(user) != moment]


def list_customers(
    store: Store, model: Model, parts: PartFiles, announce: Callable[[str], None] = lambda line: None
) -> StoreCustomers:
    """The customers of a store, from the folder of an unfinished run if that has read them recently.

    announce: called with a line if it has, or if what it has cannot be used. Its parts are then removed.
    """
    folder = Path(parts.folder)
    if (record := read_record(str(folder / _RECORD))) is not None:
        try:
            report = StoreReport(**record["report"])
            moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.taken))
            if time.time() - report.taken < OLDEST_HOURS * 3600:
                found = StoreCustomers(folder / _MODEL, load(folder / _MODEL), dict(record["erasures"]), report)
                announce(f"continuing with the histories that an unfinished run read at {moment}")
                return found
            reason = f"they are of {moment}"
        except (ArtifactError, KeyError, TypeError, ValueError) as error:
            reason = f"they are damaged: {error}"
        announce(f"histories of an unfinished run are not used, {reason}")
    parts.clear()
    return _read_customers(store, model, folder)


def _read_customers(store: Store, model: Model, folder: Path) -> StoreCustomers:
    taken = time.time()
    found = _read_histories(store, model.items)
    known = [] if model.users is None or model.histories is None else model.users.series.cast(_string()).to_list()
    erasures = store.erasures([*found.users.series.to_list(), *known])
    # Whoever has events and an erasure has returned, or was erased while events were read. In the second case, events
    # that arrived since do not make those from before usable.
    gone = {
        user
        for user, moment in erasures.items()
        if user in found.users and (moment >= taken or not store.history(user, 1))
    }
    stays = np.array([user not in gone for user in found.users.series.to_list()], bool)
    other = np.array([user not in found.users and user not in erasures for user in known], bool)
    users, histories = _join(model, found, stays, other)
    report = StoreReport(
        store=store.url,
        taken=taken,
        customers_of_store=int(stays.sum()),
        customers_of_model=int(other.sum()),
        erased_customers=len({user for user in erasures if user not in found.users} | gone),
        unknown_events=found.unknown_events,
    )
    made = replace(
        model,
        points=replace(model.points, attributes=None),
        config=replace(model.config, model="asymmetric"),  # as in the service: a customer is the midpoint of a history
        users=users,
        user_points=None,
        histories=histories,
        optimiser_state=None,
        record=(),
    )
    made.save(folder / _MODEL)
    returned = {user: moment for user, moment in erasures.items() if user in users}
    write_record(str(folder / _RECORD), {"report": asdict(report), "erasures": returned})
    return StoreCustomers(folder / _MODEL, made, returned, report)


class _Histories(NamedTuple):
    """Histories of all customers of a store, with the rows of a model."""

    users: Vocabulary
    lengths: NDArray[np.int64]
    item_rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    times: NDArray[np.float64]
    unknown_events: int


def _read_histories(store: Store, items: Vocabulary) -> _Histories:
    """The newest events of every customer that the model knows the items of, by customer, time and item."""
    import polars as pl

    text = Vocabulary(items.series.cast(pl.String), name="item")
    runs: list[pl.DataFrame] = []
    rows, times, weights = [np.empty(0, np.int32)], [np.empty(0)], [np.empty(0, np.float32)]
    for columns in _large_pages(store):
        users, ids, moments, weights_of_events = columns
        runs.append(users.rename("value").rle().struct.unnest())
        rows.append(text.rows(ids).astype(np.int32))
        times.append(moments.to_numpy())
        weights.append(weights_of_events.to_numpy())
    empty = pl.DataFrame(schema={"len": pl.UInt32, "value": pl.String})
    run = pl.concat([empty, *runs])
    customers = Vocabulary(run["value"].unique().sort(), name="user")
    owner = np.repeat(customers.rows(run["value"]), run["len"].to_numpy())
    row, moment, weight = np.concatenate(rows), np.concatenate(times), np.concatenate(weights)
    # As in `Store.history`: equal times are in the order of the ids.
    rank = np.empty(len(items) + 1, np.int64)
    rank[text.series.arg_sort().to_numpy()] = np.arange(len(items))
    rank[UNKNOWN] = -1
    order = np.lexsort((rank[row], moment, owner))
    owner, row, weight, moment = owner[order], row[order], weight[order], moment[order]
    ends = np.cumsum(np.bincount(owner, minlength=len(customers)))
    newest = np.arange(len(owner)) >= ends[owner] - USUAL_HISTORY
    known = newest & (row != UNKNOWN)
    known[known] = ~find_taken_back(row[known], weight[known], owners=owner[known])
    lengths = np.bincount(owner[known], minlength=len(customers)).astype(np.int64)
    return _Histories(
        customers, lengths, row[known], weight[known], moment[known], int((newest & (row == UNKNOWN)).sum())
    )


def _large_pages(store: Store) -> Any:
    """The columns of the events of a store, many events at a time."""
    import polars as pl

    kinds = (pl.String, pl.String, pl.Float64, pl.Float32)
    waiting: list[list[Any]] = [[], [], [], []]
    for page in store.all_events():
        for column, values in zip(waiting, (page.users, page.items, page.times, page.weights), strict=True):
            column.extend(values)
        if len(waiting[0]) >= EVENTS_AT_ONCE:
            yield [pl.Series(column, dtype=kind) for column, kind in zip(waiting, kinds, strict=True)]
            waiting = [[], [], [], []]
    if waiting[0]:
        yield [pl.Series(column, dtype=kind) for column, kind in zip(waiting, kinds, strict=True)]


def _join(
    model: Model, found: _Histories, stays: NDArray[np.bool_], other: NDArray[np.bool_]
) -> tuple[Vocabulary, Interactions]:
    """The customers of the store who stay, and after them others of the model."""
    import polars as pl

    kept = np.repeat(stays, found.lengths)
    ids, lengths = [found.users.series.filter(stays)], [found.lengths[stays]]
    rows, weights, times = [found.item_rows[kept]], [found.weights[kept]], [found.times[kept]]
    if other.any() and model.users is not None and model.histories is not None:
        chosen = model.histories.histories_of(np.flatnonzero(other))
        ids.append(model.users.series.cast(pl.String).filter(other))
        lengths.append(model.histories.lengths[other])
        rows.append(chosen.items)
        weights.append(np.ones(len(chosen.items), np.float32) if chosen.weights is None else chosen.weights)
        times.append(np.zeros(len(chosen.items)) if chosen.times is None else chosen.times.astype(np.float64))
    users = Vocabulary(pl.concat([one.alias("id") for one in ids]), name="user")
    weight = np.concatenate(weights)
    return users, Interactions(
        users,
        model.items,
        make_offsets(np.concatenate(lengths)),
        np.concatenate(rows),
        times=None if model.repeats is None else np.concatenate(times),
        weights=None if (weight == 1).all() else weight,
    )


def model_of_version(version: Version) -> Model:
    """A model without customers that ranks like the version."""
    config = ResolvedConfig.from_mapping(version.manifest["config"])
    return Model(
        config=replace(config, model="asymmetric"),
        items=Vocabulary(version.items.table()["id"], name="item"),
        points=version.points,
        data_digest=version.manifest["data_digest"],
    )


def live_ids(live: LiveItems, items: Vocabulary) -> tuple[list[Id] | None, list[Id]]:
    """The ids of a model's items that are live, None for all, and those that were removed; an `InputError` if none is
    live."""
    text = Vocabulary(items.series.cast(_string()), name="item")

    def known(ids: list[str]) -> list[Id]:
        rows = text.rows(ids)
        return items.ids(rows[rows != UNKNOWN])

    allowed, removed = None if live.items is None else known(live.items), known(live.removed)
    if allowed == [] or len(removed) == len(items):
        listed = f"none of the {Count(len(live.items or [])):live item|live items}"
        raise InputError(f"{listed} is in the model: check the live items, or publish a model that has them")
    return allowed, removed


def _string() -> Any:
    import polars as pl

    return pl.String
