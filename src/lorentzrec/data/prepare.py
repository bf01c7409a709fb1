"""Preparation from end to end: event files in, a dataset out, and a report of every step."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from lorentzrec.atomic import scratch_directory
from lorentzrec.data.dataset import REJECTED, SCHEMA_VERSION, is_dataset, new_dataset, open_dataset
from lorentzrec.data.engine import Engine, EventInput, PolarsEngine
from lorentzrec.data.item_table import read_item_table, with_item_table
from lorentzrec.data.pipeline import MICROSECONDS, Cleaning, Histories, Pipeline, Step
from lorentzrec.data.sources import Source, layout_of
from lorentzrec.data.splitting import RULES, rule_named
from lorentzrec.data.storage import StoredFile, fetched, files_at, outlined
from lorentzrec.errors import ConfigError, InputError

Duplicates = Literal["keep", "first", "last", "sum"]
OnError = Literal["strict", "skip"]


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Everything that decides what a dataset holds."""

    events: tuple[str, ...]
    """Files, folders or patterns; local, `az://` or `s3://`."""
    out: str
    source: Source = field(default_factory=Source)
    reader: str | None = None
    """The name of the reader that `source` came from, so that item files of the same data set are known."""
    on_error: OnError = "strict"
    """`strict`: the first fault stops everything. `skip`: such rows are saved as rejected.parquet, and counted."""
    event_weights: Mapping[str, float] = field(default_factory=dict)
    """Kind of event -> weight; events of other kinds are left out. Needs `source.event_column`."""
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
        for name, choices in (("duplicates", get_args(Duplicates)), ("on_error", get_args(OnError))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use one of {', '.join(choices)}")
        for name in ("bot_events", "minimum_user_events", "minimum_item_events", "maximum_history"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}: give 1 or more")
        for event, weight in self.event_weights.items():
            if not (weight > 0 and math.isfinite(weight)):
                raise ConfigError(
                    f"the weight of {event!r} is {weight}: give a positive number, or leave the event out"
                )
        if self.split == "given" or self.test_events:
            if self.split != "given" or not self.test_events or self.split_options:
                raise ConfigError("the split given and test_events go together, without options: give both")
        elif self.split is not None:
            rule_named(self.split, dict(self.split_options), ordered=True)
        elif self.drop_unseen_items or self.split_options:
            raise ConfigError(f"split options without a split: name one of {', '.join([*RULES, 'given'])}")
        if self.k_core and self.minimum_user_events == self.minimum_item_events == 1:
            raise ConfigError(
                "k_core without minimum counts does nothing: give minimum_user_events or minimum_item_events"
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


def prepare(config: PrepareConfig, engine: Engine | None = None, *, scratch: str | Path | None = None) -> PrepareReport:
    """Make the dataset that `config` describes. `engine`: Polars on this machine unless given, see `scale.spark`.

    `scratch`: a folder for intermediate files, for inputs larger than the usual place for temporary files.
    """
    started = time.perf_counter()
    inputs = [(file, 0) for address in config.events for file in files_at(address, name=config.source.file_name)]
    inputs += [(file, 1) for address in config.test_events for file in files_at(address, name=config.source.file_name)]
    fingerprint = _fingerprint(config, inputs)
    if not config.force and is_dataset(config.out):
        manifest = open_dataset(config.out).manifest
        if manifest.get("fingerprint") == fingerprint:
            return _report(config.out, manifest, True, started)
    with _told_in_one_line(), scratch_directory("prepare", within=scratch) as folder:
        # This machine needs the files whole; where others read them, an outline is enough to know their layout.
        look = outlined if engine else fetched
        engine = engine or PolarsEngine(Path(folder))
        event_inputs = _looked_at(inputs, config, partial(look, folder=Path(folder)))
        spelled = frozenset.intersection(*(one.layout.spelled for one in event_inputs))
        id_types = {
            role: "Int64" if all(role in one.layout.integers for one in event_inputs) else "String"
            for role in ("user", "item")
        }
        cleaning = _cleaning(config, event_inputs[0])
        table = None
        if config.items is not None:
            table = read_item_table(config.items, config.item_source, config.item_columns, reader=config.reader)
        with new_dataset(config.out) as draft:
            histories = Pipeline(engine, cleaning, spelled).run(engine.read(event_inputs, id_types))
            notes = list(histories.notes)
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
                name for name in ("user_row", "item_row", "time", "weight", "part") if name in _columns(histories)
            ]
            record = {
                "notes": notes,
                "steps": [asdict(step) for step in histories.steps],
                "engine": engine.name,
                "options": config.options(),
                "inputs": [{"address": file.address, "size": file.size, "part": part} for file, part in inputs],
                "fingerprint": fingerprint,
            }
            manifest = draft.finish(columns=columns, events=files, parts=histories.parts, record=record)
    return _report(config.out, manifest, False, started)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"preparation stopped ({reason}): check the files and the room on disk (--scratch)") from error


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
    found = []
    for file, part in inputs:
        layout = layout_of(look(file.address), config.source, file.address)
        found.append(EventInput(file.address, config.source, layout, part))
        if set(layout.roles) != set(found[0].layout.roles):
            ours, theirs = ", ".join(found[0].layout.roles), ", ".join(layout.roles)
            raise InputError(f"{file.address} has {theirs}, but {found[0].address} has {ours}: give files of one kind")
    return found


def _cleaning(config: PrepareConfig, first: EventInput) -> Cleaning:
    needs = {
        "rating": config.minimum_rating is not None,
        "event": bool(config.event_weights),
        "time": any(value is not None for value in (config.since, config.until, config.maximum_history)),
    }
    for role, needed in needs.items():
        if needed and role not in first.layout.roles:
            raise InputError(
                f"{first.address}: an option needs the {role} of every event: name its column (--{role}-column)"
            )
    if config.split not in (None, "given"):
        rule_named(str(config.split), dict(config.split_options), ordered="time" in first.layout.roles)
    shared = {one.name: getattr(config, one.name) for one in fields(Cleaning)}
    return replace(Cleaning(**shared), since=_microseconds(config.since), until=_microseconds(config.until))


def _microseconds(moment: str | float | None) -> int | None:
    if moment is None:
        return None
    try:
        seconds = float(moment)
    except ValueError:
        try:
            parsed = datetime.fromisoformat(str(moment))
        except ValueError:
            raise ConfigError(
                f"the time {moment!r} is neither ISO text nor unix seconds: give 2024-01-31, or a number"
            ) from None
        seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    return round(seconds * MICROSECONDS)


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
