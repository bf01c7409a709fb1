"""A dataset that grows by deliveries: `append` adds the events of new files, `compact` makes one piece of all of them.

A delivery is prepared with the options of the dataset, as a dataset of its own in `deliveries/00001`. It counts from
the moment the manifest lists it: a process that is killed before leaves the dataset as it was. The time that this takes
depends on the delivery alone. Compaction prepares everything again, from the events that are in the dataset already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.atomic import locked_directory, remove_directory, scratch_directory
from lorentzrec.base.counting import Count
from lorentzrec.data.arrays import Booleans
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest.config import PrepareConfig
from lorentzrec.ingest.dataset import (
    Dataset,
    is_dataset,
    new_dataset,
    open_dataset,
    write_dataset_manifest,
    write_events,
)
from lorentzrec.ingest.engine import Engine
from lorentzrec.ingest.prepare import Input, PrepareReport, list_inputs, prepare, write_dataset
from lorentzrec.ingest.sources import Source
from lorentzrec.ingest.storage import StoredFile, is_remote, join, remove

if TYPE_CHECKING:
    pass

_OF_ALL_EVENTS = ("bot_events", "minimum_user_events", "minimum_item_events", "k_core", "maximum_history", "split")
"""Options whose result for some events depends on all others."""
_KEYS = ("user", "item", "time", "weight", "label")
"""Columns of events that are the same event."""


@dataclass(frozen=True)
class Delivery:
    """One delivery of a dataset, as its manifest lists it."""

    name: str
    digest: str
    """Of its content: the same events in another file have the same."""
    folder: str | None
    """Of its events, in the dataset; None once they are compacted."""
    inputs: tuple[dict[str, Any], ...]
    """Address, size and version of each file."""
    events: int
    late: int
    """Events that are not newer than all events that the dataset had."""
    repeated: int
    """Events that the dataset had already. They are dropped with `duplicates="exact"`, and else kept."""
    new_users: int
    new_items: int
    oldest: float
    newest: float

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Delivery:
        return cls(**{**entry, "inputs": tuple(entry["inputs"])})


@dataclass(frozen=True)
class AppendReport:
    """What `append` did."""

    address: str
    delivery: Delivery
    unchanged: bool
    """Whether the dataset had this delivery already, so that nothing was done."""
    replaced: bool
    """Whether it replaces an earlier one of its name."""
    digest: str
    counts: dict[str, int]
    """Of the dataset with the delivery."""
    prepared: PrepareReport | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def list_deliveries(manifest: Mapping[str, Any]) -> list[Delivery]:
    """The deliveries of a dataset, oldest first."""
    return [Delivery.from_dict(entry) for entry in manifest.get("deliveries", ())]


def append(
    address: str | Path,
    events: Sequence[str],
    engine: Engine | None = None,
    *,
    name: str | None = None,
    items: str | None = None,
    replace_earlier: bool = False,
    force: bool = False,
    scratch: str | Path | None = None,
    watch: Callable[[str], None] = lambda stage: None,
) -> AppendReport:
    """Add the events of files to a dataset, prepared with its options.

    name: what to call the delivery; by default the addresses that are given.
    items: a newer item file than the one that the dataset was prepared with.
    replace_earlier: if there is an earlier delivery of the same name with other content, this one corrects it, and
        takes its position.
    force: append files that seem to be in the dataset already.
    """
    address = str(address)
    dataset = _open(address)
    config = _config_for(dataset, tuple(events), items)
    inputs = list_inputs(config)
    name = name or ", ".join(events)
    with _locked(address):
        dataset = _open(address)  # now nobody else changes it
        manifest, known = dataset.manifest, list_deliveries(dataset.manifest)
        if not force and (earlier := _find_inputs(inputs, dataset, known)) is not None:
            return _report(dataset, earlier, None, unchanged=True)
        numbers = [int(one.folder.rpartition("/")[2]) for one in known if one.folder]
        folder = f"deliveries/{max(numbers, default=0) + 1:05d}"
        target = join(address, folder)
        prepared = prepare(config, target, engine, force=True, delivery=True, scratch=scratch, watch=watch)
        added = open_dataset(target)
        same_name = [one for one in known if one.name == name]
        twins = [one for one in known if one.digest == added.digest]
        if not force and (twins or added.digest == dataset.members[0].digest):
            _remove(target)
            return _report(dataset, twins[0] if twins else _describe_base(dataset), prepared, unchanged=True)
        replaced = _check_replacement(name, same_name, target, allowed=replace_earlier)
        _check_columns(dataset, added, target)
        others = [one for one in known if one is not replaced]
        base = manifest if "base" in manifest else manifest | _describe_range(dataset)
        before = [member for member in dataset.members if replaced is None or member.digest != replaced.digest]
        data = added.interactions()
        repeated = _find_repeated(before, data)
        count = int(repeated.sum())
        if config.duplicates == "exact" and count:
            if count == len(data):
                _remove(target)
                return _report(dataset, _describe_base(dataset), prepared, unchanged=True)
            added = _rewrite(added, data, ~repeated)
            data = added.interactions()
        assert data.times is not None
        newest = max([float(base["newest"]), *(one.newest for one in others)])
        sizes = _count_ids(before), _count_ids([*before, added])
        delivery = Delivery(
            name=name,
            digest=added.digest,
            folder=folder,
            inputs=tuple(asdict(one.file) for one in inputs),
            events=len(data),
            late=int((data.times <= newest).sum()),
            repeated=count,
            new_users=sizes[1]["users"] - sizes[0]["users"],
            new_items=sizes[1]["items"] - sizes[0]["items"],
            oldest=float(data.times.min()),
            newest=float(data.times.max()),
        )
        listed = [delivery if one is replaced else one for one in known]
        listed += [] if replaced else [delivery]
        manifest = _with_deliveries(base, listed, sizes[1])
        write_dataset_manifest(address, manifest)
        if replaced is not None and replaced.folder is not None:
            _remove(join(address, replaced.folder))
    report = _report(open_dataset(address), delivery, prepared, unchanged=False)
    return replace(report, replaced=replaced is not None)


def compact(
    address: str | Path,
    engine: Engine | None = None,
    *,
    scratch: str | Path | None = None,
    watch: Callable[[str], None] = lambda stage: None,
) -> PrepareReport | None:
    """Make one piece of a dataset and its deliveries; None if it is one already.

    The result has the digest of a dataset that is prepared in one go from all files, in the order in which they were
    delivered. There are two exceptions: data with orders, whose ids are not kept, so that orders of one time may be
    shuffled otherwise; and cancellations of events of an earlier delivery, which had nothing to take back.
    """
    address = str(address)
    if is_remote(address):
        raise InputError(f"{address} cannot be replaced in one step: copy it to a local folder, and compact it there")
    _open(address)
    with _locked(address), scratch_directory("compact", within=scratch) as folder:
        dataset = _open(address)
        if len(dataset.members) == 1:
            return None
        dataset.verify()
        manifest, options = dataset.manifest, dataset.manifest["options"]
        paths = [_export(member, folder / f"{number:05d}.parquet") for number, member in enumerate(dataset.members)]
        labelled = "label" in manifest["columns"]
        given = options.get("source", {})
        source = Source(
            format="parquet",
            user_column="user",
            item_column="item",
            time_column="time",
            time_unit="seconds",
            weight_column="weight" if "weight" in manifest["columns"] else None,
            order_column="order" if "order" in manifest["columns"] else None,
            event_column="event" if labelled else None,
            **{name: given[name] for name in ("ties", "tie_seed") if name in given},
        )
        duplicates = options.get("duplicates", "keep")
        config = PrepareConfig(
            events=tuple(paths), source=source, duplicates=duplicates, label_events=("target",) if labelled else None
        )
        import polars as pl

        items = dataset.items
        described = items.drop("row", "count").rename({"id": "item"}).with_columns(pl.col("item").cast(pl.String))
        record = {name: manifest[name] for name in ("notes", "options", "newest", "oldest")}
        record["inputs"] = [*manifest["inputs"], *(file for one in list_deliveries(manifest) for file in one.inputs)]
        record["compacted"] = dataset.deliveries
        record["deliveries"] = [asdict(replace(one, folder=None)) for one in list_deliveries(manifest)]
        return write_dataset(
            config,
            address,
            engine,
            list_inputs(config),
            record,
            table=described if len(described.columns) > 1 else None,
            scratch=scratch,
            watch=watch,
        )


def _open(address: str) -> Dataset:
    if not is_dataset(address):
        raise InputError(f"{address} is not a dataset, so nothing can be appended: make one with lorentzrec prepare")
    return open_dataset(address)


def _config_for(dataset: Dataset, events: tuple[str, ...], items: str | None) -> PrepareConfig:
    """The options of a dataset for other files; an error if the result would depend on all events."""
    given = dict(dataset.manifest.get("options") or {})
    for option in _OF_ALL_EVENTS:
        if given.get(option) not in (None, 1, False):
            raise InputError(
                f"{dataset.address} was prepared with `{option}`, which needs all events at once: prepare all files "
                "again, or make the dataset without it"
            )
    if given.get("duplicates", "keep") not in ("keep", "exact"):
        raise InputError(
            f"{dataset.address} was prepared with `duplicates={given['duplicates']!r}`, which needs all events at "
            "once: prepare all files again, or make the dataset with `duplicates='exact'`"
        )
    if "time" not in dataset.manifest["columns"] or dataset.manifest.get("times") == "positions":
        raise InputError(
            f"{dataset.address} has no times, by which deliveries are put together: prepare all files again"
        )
    for name in ("source", "item_source"):
        if name in given:
            given[name] = Source(**{key: _as_tuple(value) for key, value in given[name].items()})
    if items is not None:
        given["items"] = items
    return PrepareConfig(events=events, **{name: _as_tuple(value) for name, value in given.items()})


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@contextmanager
def _locked(address: str) -> Iterator[None]:
    """No other process appends or compacts meanwhile; remote folders cannot be locked."""
    if is_remote(address):
        yield
        return
    with locked_directory(Path(address, "deliveries").resolve()) as mine:
        if not mine:
            raise InputError(f"another process is changing {address}: wait until it is done")
        yield


def _find_inputs(inputs: Sequence[Input], dataset: Dataset, known: Sequence[Delivery]) -> Delivery | None:
    """The delivery that has exactly these files, unchanged; None if there is none."""
    wanted = {astuple(one.file) for one in inputs}

    def read(files: Iterable[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
        return {tuple(file[field.name] for field in fields(StoredFile)) for file in files}

    for one in known:
        if read(one.inputs) == wanted:
            return one
    return _describe_base(dataset) if wanted <= read(dataset.manifest.get("inputs", ())) else None


def _describe_base(dataset: Dataset) -> Delivery:
    """What the dataset was before the first delivery, as a delivery."""
    first = dataset.members[0]
    counts, times = first.manifest["counts"], _describe_range(dataset)
    return Delivery(
        "the files that the dataset was prepared from",
        first.digest,
        None,
        (),
        counts["events"],
        0,
        counts["events"],
        0,
        0,
        times["oldest"],
        times["newest"],
    )


def _describe_range(dataset: Dataset) -> dict[str, Any]:
    """Entries of the manifest about what the dataset was before the first delivery."""
    import polars as pl

    first = dataset.members[0]
    times = first.scan_training().select(oldest=pl.col("time").min(), newest=pl.col("time").max()).collect()
    oldest, newest = times.row(0)
    base = {"digest": first.digest, "counts": first.manifest["counts"]}
    return {"base": base, "oldest": float(oldest), "newest": float(newest)}


def _check_replacement(name: str, same: Sequence[Delivery], target: str, *, allowed: bool) -> Delivery | None:
    """The delivery that is corrected, if any."""
    if not same:
        return None
    if same[0].folder is None:
        _remove(target)
        raise InputError(f"the delivery {name!r} is compacted and cannot be replaced: prepare all files again")
    if not allowed:
        _remove(target)
        raise InputError(
            f"the delivery {name!r} is in the dataset with other content: give `replace` if this corrects it, or "
            "another name with `delivery` if it is another one"
        )
    return same[0]


def _check_columns(dataset: Dataset, added: Dataset, target: str) -> None:
    ours, theirs = dataset.members[0].manifest["columns"], added.manifest["columns"]
    if ours != theirs:
        _remove(target)
        raise InputError(
            f"the delivery has the columns {', '.join(theirs)}, and {dataset.address} {', '.join(ours)}: "
            "check the files, or prepare all of them again"
        )


def _find_repeated(members: Sequence[Dataset], data: Interactions) -> Booleans:
    """Which events are in one of the datasets, by customer, item, time, weight and target."""
    import polars as pl

    keys = [name for name in _KEYS if name in (frame := data.to_frame()).columns]
    text = pl.col("user", "item").cast(pl.String)
    frame = frame.select(keys).with_columns(text, pl.col("time").cast(pl.Float64)).with_row_index("event")
    found = np.zeros(len(frame), bool)
    for member in members:
        users, items = (member.scan_ids(name).with_columns(pl.col("id").cast(pl.String)) for name in ("user", "item"))
        rows = frame.lazy().join(users.rename({"row": "user_row", "id": "user"}), on="user")
        rows = rows.join(items.rename({"row": "item_row", "id": "item"}), on="item")
        coded = rows.drop("user", "item").collect()
        if len(coded):
            on = ["user_row", "item_row", *keys[2:]]
            # The few events of the delivery are what is kept in memory.
            events = (
                member.scan_training()
                .with_columns(pl.col("time").cast(pl.Float64))
                .filter(pl.col("time") >= coded["time"].min())
            )
            there = events.select(on).join(coded.lazy(), on=on, how="semi").unique().collect(engine="streaming")
            found[coded.join(there, on=on, how="semi")["event"].to_numpy()] = True
    return found


def _rewrite(added: Dataset, data: Interactions, kept: Booleans) -> Dataset:
    """The delivery with only some of its events."""
    import polars as pl

    frame = data.to_frame(rows=True).filter(pl.Series(kept))
    tables = {}
    for role in ("user", "item"):
        table = added.items if role == "item" else added.read_users()
        rows, counts = np.unique(frame[f"{role}_row"].to_numpy(), return_counts=True)
        numbers = pl.Series("row", np.arange(len(rows), dtype=np.int32))
        tables[role] = table[rows].with_columns(numbers, pl.Series("count", counts.astype(np.int64)))
        frame = frame.with_columns(
            pl.Series(f"{role}_row", np.searchsorted(rows, frame[f"{role}_row"]).astype(np.int32))
        )
    record = {name: added.manifest[name] for name in ("notes", "steps", "engine", "options", "inputs")}
    record |= {name: added.manifest[name] for name in ("ties",) if name in added.manifest}
    with new_dataset(added.address) as draft:
        draft.begin()
        for role, table in tables.items():
            draft.write_vocabulary(table, role)
        file = write_events(frame, draft.address, whole=True)
        draft.finish(columns=frame.columns, events=[file], record=record)
    return open_dataset(added.address)


def _count_ids(members: Sequence[Dataset]) -> dict[str, int]:
    """How many customers and items the datasets have together."""
    import polars as pl

    ids = pl.col("id").cast(pl.String)
    return {
        f"{name}s": pl.concat([member.scan_ids(name).select(ids) for member in members]).unique().collect().height
        for name in ("user", "item")
    }


def _with_deliveries(
    base: Mapping[str, Any], deliveries: Sequence[Delivery], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The manifest of a dataset with these deliveries."""
    separate = [one for one in deliveries if one.folder is not None]
    digest = hashlib.sha256(base["base"]["digest"].encode())
    for one in separate:
        digest.update(one.digest.encode())
    events = base["base"]["counts"]["events"] + sum(one.events for one in separate)
    entries = {name: value for name, value in base.items() if name not in ("checksum", "fingerprint")}
    return entries | {
        "digest": digest.hexdigest(),
        "counts": {"events": events, **sizes},
        "deliveries": [asdict(one) for one in deliveries],
    }


def _export(member: Dataset, path: Path) -> str:
    """The events with their ids, in a file that `write_dataset` reads."""
    import polars as pl

    events = member.scan_training()
    for role in ("user", "item"):
        ids = member.scan_ids(role).rename({"row": f"{role}_row", "id": role})
        events = events.join(ids, on=f"{role}_row", how="left", maintain_order="left")
    names = events.collect_schema().names()
    columns: list[Any] = ["user", "item", "time", *(["weight"] if "weight" in names else [])]
    if "label" in names:
        columns.append(pl.when("label").then(pl.lit("target")).otherwise(pl.lit("other")).alias("event"))
    if "order" in names:
        order = pl.format("{} {} {}", pl.lit(path.stem), pl.col("user_row"), pl.col("order"))
        columns.append(order.alias("order"))
    events.select(columns).sink_parquet(path)
    return str(path)


def _remove(address: str) -> None:
    remove(address) if is_remote(address) else remove_directory(address)


def _report(dataset: Dataset, delivery: Delivery, prepared: PrepareReport | None, *, unchanged: bool) -> AppendReport:
    notes = [] if prepared is None or unchanged else list(prepared.notes)
    if unchanged:
        notes.append(f"these events were delivered before ({delivery.name}), so nothing was done")
    elif delivery.late:
        notes.append(f"{Count(delivery.late):event is|events are} not newer than all that was there before")
    if delivery.repeated and not unchanged:
        kept = dataset.manifest["options"].get("duplicates", "keep") == "keep"
        effect = "and kept: `duplicates='exact'` of a new dataset drops such events" if kept else "and left out"
        notes.append(f"{Count(delivery.repeated):event was|events were} in the dataset already, {effect}")
    if not unchanged and "order" in dataset.manifest["columns"]:
        notes.append("an order whose events come in two deliveries is two orders")
    return AppendReport(
        address=dataset.address,
        delivery=delivery,
        unchanged=unchanged,
        replaced=False,
        digest=dataset.digest,
        counts=dict(dataset.manifest["counts"]),
        prepared=prepared,
        notes=tuple(notes),
    )
