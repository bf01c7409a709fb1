"""Preparation from end to end: event files in, a dataset or interactions out, and a report of every step."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from lorentzrec.atomic import scratch_directory
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import RULES, find_rule
from lorentzrec.data.times import parse_moment
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.dataset import REJECTED, SCHEMA_VERSION, is_dataset, new_dataset, open_dataset
from lorentzrec.ingest.engine import Engine, EventInput, PolarsEngine, dataset_columns
from lorentzrec.ingest.item_table import read_item_table, with_item_table
from lorentzrec.ingest.pipeline import Cleaning, Histories, Pipeline, Step
from lorentzrec.ingest.sources import Source, layout_of, refuse_unknown, source_named
from lorentzrec.ingest.storage import StoredFile, fetched, files_at, outlined

STAGES = ("reading", "checking", "numbering ids", "cleaning", "ordering", "writing")
"""What preparation does, in order."""

Duplicates = Literal["keep", "first", "last", "sum"]
OnError = Literal["raise", "skip"]


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Everything that decides what a dataset holds."""

    events: tuple[str, ...]
    """Files, folders or patterns; local, `az://` or `s3://`."""
    out: str
    source: Source = field(default_factory=Source)
    reader: str | None = None
    """The name of the reader that `source` came from, so that item files of the same data set are known."""
    on_error: OnError = "raise"
    """`raise`: a faulty row is an error. `skip`: such rows are saved as rejected.parquet, and counted."""
    event_weights: Mapping[str, float] = field(default_factory=dict)
    """Kind of event -> weight; events of other kinds are left out. Needs `source.event_column`."""
    label_events: tuple[str, ...] | None = None
    """Kinds of events that are targets, such as purchases: training predicts these alone, from histories that hold all
    kinds, and splits hold these out. None: every event is a target. Needs `source.event_column`."""
    minimum_rating: float | None = None
    """Only events rated this or higher. Needs `source.rating_column`."""
    since: str | float | None = None
    """Only events from this time on: ISO text or unix seconds."""
    until: str | float | None = None
    """Only events before this time."""
    bot_events: int | None = None
    """Customers with more events than this are taken for robots and left out."""
    duplicates: Duplicates = "keep"
    """Events of one customer with one item: all, the first, the last, or one that weighs as much as all together."""
    minimum_user_events: int = 1
    minimum_item_events: int = 1
    k_core: bool = False
    """Whether the two minimum counts are applied again and again until nothing changes."""
    maximum_history: int | None = None
    """Only the newest events of each customer."""
    split: str | None = None
    """One of the names in `data.splitting`; None leaves the split to training."""
    split_options: Mapping[str, Any] = field(default_factory=dict)
    drop_unseen_items: bool = False
    """Remove later events whose item has no training event, as the paper does."""
    test_events: tuple[str, ...] = ()
    """Files of the test part, for the split `given`."""
    items: str | None = None
    """A file with titles, categories, prices, images of the items."""
    item_source: Source | None = None
    item_columns: Mapping[str, str] = field(default_factory=dict)
    """title, category, price or image -> column of the item file, where the names differ."""
    force: bool = False
    """Prepare again even if the same dataset is there already."""

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("there are no event files: name at least one")
        if str(self.on_error) == "strict":  # the former name
            object.__setattr__(self, "on_error", "raise")
        for name, choices in (("duplicates", get_args(Duplicates)), ("on_error", get_args(OnError))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"`{name}` is {getattr(self, name)!r}: use one of {', '.join(choices)}")
        for name in ("bot_events", "minimum_user_events", "minimum_item_events", "maximum_history"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"`{name}` is {value}: give 1 or more")
        for event, weight in self.event_weights.items():
            if not (weight > 0 and math.isfinite(weight)):
                raise ConfigError(
                    f"the weight of {event!r} is {weight}: give a positive number, or leave the event out"
                )
        for event in self.label_events or ():
            if self.event_weights and event not in self.event_weights:
                raise ConfigError(
                    f"events of the kind {event!r} are to be predicted, but have no weight and would be left out: "
                    f"add {event!r} to `event_weights`"
                )
        if self.split == "given" or self.test_events:
            if self.split != "given" or not self.test_events or self.split_options:
                raise ConfigError("the `split` given and `test_events` go together, without options: give both")
        elif self.split is not None:
            find_rule(self.split, dict(self.split_options), ordered=True)
        elif self.drop_unseen_items or self.split_options:
            raise ConfigError(f"split options without a `split`: name one of {', '.join([*RULES, 'given'])}")
        if self.k_core and self.minimum_user_events == self.minimum_item_events == 1:
            raise ConfigError(
                "`k_core` without minimum counts does nothing: give `minimum_user_events` or `minimum_item_events`"
            )

    def options(self) -> dict[str, Any]:
        """What is recorded in the manifest: every option that is not at its default."""
        recorded = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("events", "out", "force")
        }
        for name in ("source", "item_source"):
            if recorded[name] is not None:
                recorded[name] = _changed(recorded[name])
        # Zero is an answer ("ratings of 0 or more"); only what was never given is left out.
        return {
            name: value for name, value in recorded.items() if value is not None and value is not False and value != {}
        }


@dataclass(frozen=True)
class PrepareReport:
    """What was done, for people (`steps`) and for programs (`to_dict`)."""

    address: str
    engine: str
    digest: str
    counts: dict[str, int]
    parts: dict[str, int]
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    rejected: int
    """Rows with faults that were skipped."""
    unchanged: bool
    """Whether the same dataset was there already, so that nothing was done."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def prepare(
    config: PrepareConfig,
    engine: Engine | None = None,
    *,
    scratch: str | Path | None = None,
    watch: Callable[[str], None] = lambda stage: None,
) -> PrepareReport:
    """Make the dataset that `config` describes. `engine`: Polars on this machine unless given, see `scale.spark`.

    `scratch`: a folder for intermediate files, for inputs larger than the usual place for temporary files. `watch` is
    called with the name of each of the `STAGES` when it begins.
    """
    started = time.perf_counter()
    inputs = _inputs(config)
    fingerprint = _fingerprint(config, inputs)
    replaced: tuple[str, ...] = ()
    if not config.force and is_dataset(config.out):
        manifest = open_dataset(config.out).manifest
        if manifest.get("fingerprint") == fingerprint:
            return _report(config.out, manifest, True, started)
        replaced = _replaced(manifest, config)
    with _told_in_one_line(), scratch_directory("prepare", within=scratch) as folder:
        # This machine needs the files whole; where others read them, an outline is enough to know their layout.
        look = outlined if engine else fetched
        engine = engine or PolarsEngine(Path(folder))
        event_inputs = _looked_at(inputs, config, partial(look, folder=Path(folder)))
        table = None
        if config.items is not None:
            table = read_item_table(config.items, config.item_source, config.item_columns, reader=config.reader)
        with new_dataset(config.out) as draft:
            histories = _histories(config, engine, event_inputs, watch)
            notes = list(histories.notes)
            if histories.rejected is not None:
                notes.append(f"{_faulty(histories)}: see {REJECTED} in the dataset")
            watch("writing")
            draft.begin()
            for name, frame in (("user", histories.users), ("item", histories.items)):
                vocabulary = engine.collected(frame).sort("row")
                if name == "item" and table is not None:
                    vocabulary, note = with_item_table(vocabulary, table)
                    notes.append(note)
                draft.write_vocabulary(vocabulary, name)
            files = engine.write_events(histories.events, histories.order, draft.address, max(len(histories.parts), 1))
            if histories.rejected is not None:
                draft.checksums[REJECTED] = engine.write_rejected(histories.rejected, draft.address, REJECTED)
            columns = [
                name
                for name in ("user_row", "item_row", "time", "weight", "label", "part")
                if name in _columns(histories)
            ]
            record = {
                "notes": notes,
                "steps": [asdict(step) for step in histories.steps],
                "engine": engine.name,
                "options": config.options(),
                "inputs": [{"address": file.address, "size": file.size, "part": part} for file, part in inputs],
                "fingerprint": fingerprint,
                **({"times": "positions"} if config.source.ordered else {}),
            }
            manifest = draft.finish(columns=columns, events=files, parts=histories.parts, record=record)
    report = _report(config.out, manifest, False, started)
    return replace(report, notes=report.notes + replaced)


def read_interactions(path: str | Path, reader: str | None = None, **options: Any) -> Interactions:
    """The events of files in memory, through the same steps as a dataset; see `Interactions.from_file`."""
    known = [one.name for one in fields(Source)]
    cleaning = [one.name for one in fields(Cleaning) if "split" not in one.name and one.name != "drop_unseen_items"]
    refuse_unknown(options, [*known, *cleaning])
    source = source_named(reader, **{name: value for name, value in options.items() if name in known})
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in known}
    config = PrepareConfig(events=(str(path),), out="", source=source, reader=reader, **chosen)
    with _told_in_one_line(), scratch_directory("prepare") as folder:
        engine = PolarsEngine(folder)
        event_inputs = _looked_at(_inputs(config), config, partial(fetched, folder=folder))
        histories = _histories(config, engine, event_inputs, lambda stage: None)
        events = dataset_columns(engine.collected(histories.events).sort(histories.order))
        users, items = (engine.collected(frame).sort("row")["id"] for frame in (histories.users, histories.items))
    notes = histories.notes if histories.rejected is None else (*histories.notes, _faulty(histories))
    return Interactions(
        users=Vocabulary(users, name="user"),
        items=Vocabulary(items, name="item"),
        offsets=np.searchsorted(events["user_row"].to_numpy(), np.arange(len(users) + 1, dtype=np.int32)),
        item_rows=events["item_row"].to_numpy(),
        times=events["time"].to_numpy() if "time" in events.columns else None,
        weights=events["weight"].to_numpy() if "weight" in events.columns else None,
        labels=events["label"].to_numpy() if "label" in events.columns else None,
        notes=notes,
    )


def _inputs(config: PrepareConfig) -> list[tuple[StoredFile, int]]:
    """Every input file, with 1 for those of the test part and 0 for the others."""
    return [
        (file, part)
        for part, addresses in enumerate((config.events, config.test_events))
        for address in addresses
        for file in files_at(address, name=config.source.file_name)
    ]


def _histories(
    config: PrepareConfig, engine: Engine, inputs: list[EventInput], watch: Callable[[str], None]
) -> Histories:
    spelled = frozenset.intersection(*(one.layout.spelled for one in inputs))
    id_types = {
        role: "Int64" if all(role in one.layout.integers for one in inputs) else "String" for role in ("user", "item")
    }
    cleaning = _cleaning(config, inputs[0])
    label = ", ".join(config.events)
    pipeline = Pipeline(engine, cleaning, spelled, label=label, positions=config.source.ordered, watch=watch)
    watch("reading")
    histories = pipeline.run(engine.read(inputs, id_types))
    recognised = dict.fromkeys(note for one in inputs for note in one.layout.notes)
    return replace(histories, notes=(*recognised, *histories.notes))


def _faulty(histories: Histories) -> str:
    step = histories.steps[0]
    return f"{step.rows_in - step.rows_out:,} faulty rows set aside: {step.why}"


def _replaced(manifest: dict[str, Any], config: PrepareConfig) -> tuple[str, ...]:
    """A note where a dataset that was made with other options is replaced."""
    before, now = manifest.get("options", {}), json.loads(json.dumps(config.options(), default=str))
    before = before | {"on_error": "raise"} if before.get("on_error") == "strict" else before
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return ()
    return (f"{config.out} was a dataset made with other options ({', '.join(changed)}), and is replaced",)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"preparation stopped ({reason}): check the files and the space on disk (`scratch`)"
        ) from error


def _columns(histories: Histories) -> list[str]:
    return histories.events.collect_schema().names()


def _changed(source: Source) -> dict[str, Any]:
    return {name: value for name, value in asdict(source).items() if value != asdict(Source())[name]}


def _fingerprint(config: PrepareConfig, inputs: list[tuple[StoredFile, int]]) -> str:
    """A hash of all that decides the result: two runs with the same one give the same dataset."""
    files: list[Any] = [(*asdict(file).values(), part) for file, part in inputs]
    if config.items is not None:
        files += [tuple(asdict(file).values()) for file in files_at(config.items)]
    described = json.dumps([SCHEMA_VERSION, config.options(), files], sort_keys=True, default=str)
    return hashlib.sha256(described.encode()).hexdigest()


def _looked_at(
    inputs: list[tuple[StoredFile, int]], config: PrepareConfig, look: Callable[[str], Path]
) -> list[EventInput]:
    """Every file's layout, so that wrong names and columns are met before any work is done."""
    found: list[EventInput] = []
    for file, part in inputs:
        layout = layout_of(look(file.address), config.source, file.address)
        found.append(EventInput(file.address, config.source, layout, part, len(found)))
        if set(layout.roles) != set(found[0].layout.roles):
            ours, theirs = ", ".join(found[0].layout.roles), ", ".join(layout.roles)
            raise InputError(f"{file.address} has {theirs}, but {found[0].address} has {ours}: give files of one kind")
    return found


def _cleaning(config: PrepareConfig, first: EventInput) -> Cleaning:
    needs = {
        "rating": config.minimum_rating is not None,
        "event": bool(config.event_weights or config.label_events),
        "time": config.since is not None
        or config.until is not None
        or (config.maximum_history is not None and not config.source.ordered),
    }
    for role, needed in needs.items():
        if needed and role not in first.layout.roles:
            raise InputError(
                f"{first.address}: an option needs the {role} of every event: name its column with `{role}_column`"
            )
    timed, ordered = "time" in first.layout.roles, config.source.ordered
    if config.source.ties == "file" and not timed:
        raise InputError(
            f"{first.address} has no times, so none are equal: give `ordered` instead of `ties` if events are in order"
        )
    if config.split not in (None, "given"):
        rule = find_rule(str(config.split), dict(config.split_options), ordered=timed or ordered)
        if rule.needs_times and ordered:
            raise InputError(f"the `split` {config.split} needs times, and positions are none: use another split")
    shared = {one.name: getattr(config, one.name) for one in fields(Cleaning)}
    bounds = {
        name: parse_moment(value, name) for name in ("since", "until") if (value := getattr(config, name)) is not None
    }
    return Cleaning(**shared | bounds)


def _report(address: str, manifest: dict[str, Any], unchanged: bool, started: float) -> PrepareReport:
    steps = tuple(Step(**step) for step in manifest["steps"])
    return PrepareReport(
        address=address,
        engine=manifest["engine"],
        digest=manifest["digest"],
        counts=manifest["counts"],
        parts=manifest["parts"],
        steps=steps,
        notes=tuple(manifest["notes"]),
        rejected=steps[0].rows_in - steps[0].rows_out,
        unchanged=unchanged,
        seconds=time.perf_counter() - started,
    )
