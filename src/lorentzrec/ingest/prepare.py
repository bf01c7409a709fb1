"""Preparation from end to end: event files in, a dataset or interactions out, and a report of every step."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from lorentzrec import counting
from lorentzrec.atomic import scratch_directory
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import RULES, find_rule
from lorentzrec.data.times import parse_moment
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.field_checks import Range, check_fields, check_names
from lorentzrec.ingest.dataset import (
    REJECTED,
    cast_columns,
    is_dataset,
    new_dataset,
    open_dataset,
)
from lorentzrec.ingest.dataset_checks import DATASET
from lorentzrec.ingest.engine import Engine, PolarsEngine
from lorentzrec.ingest.item_table import attribute_columns, attributes_of, read_item_table, with_item_table
from lorentzrec.ingest.layouts import Layout, detect_layout
from lorentzrec.ingest.pipeline import Pipeline, Step
from lorentzrec.ingest.sources import Source, source_named
from lorentzrec.ingest.storage import StoredFile, fetch, fetch_outline, list_files, polars_faults

_STOPPED = ("preparation stopped", "check the files and the space on disk (`scratch`)")

Count = Annotated[int, Range(1)]
FILTERS = (
    *("on_error", "event_weights", "label_events", "minimum_rating", "since", "until", "bot_events", "duplicates"),
    *("minimum_user_events", "minimum_item_events", "k_core", "maximum_history"),
)
"""Fields of `PrepareConfig` that choose events; `Interactions.from_file` has them too."""


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Everything that decides the content of a dataset."""

    events: tuple[str, ...]
    """Files, folders or patterns; local, az:// or s3://.

    Change it for each dataset; several files are read as one.
    """
    out: str
    """Folder for the dataset; local, az:// or s3://.

    Change it for each dataset.
    """
    source: Source = field(default_factory=Source)
    """How to read the event files.

    Change it if a note or an error says that files were not recognised.
    """
    reader: str | None = None
    """A known data set, which decides the layout of the files: movielens-1m, amazon-reviews, recbole, adjacency, ...

    Change it for a data set from this list: it saves all other options.
    """
    on_error: Literal["raise", "skip"] = "raise"
    """`raise`: a malformed row is an error. `skip`: such rows are saved as rejected.parquet, and counted.

    Change it to `skip` if some rows are broken and may be left out.
    """
    event_weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each kind of event; other kinds are left out. Needs `event_column`.

    Change it if a purchase is to count more than a view.
    """
    label_events: tuple[str, ...] | None = None
    """Kinds of events to predict, such as purchases; default: all. Repeatable. Needs `event_column`.

    Training predicts only these, from histories of all kinds, and splits hold these out.

    Change it to predict purchases from everything that customers did, as in the paper.
    """
    minimum_rating: float | None = None
    """Keep only events with this rating or a higher one. Needs a rating column.

    Change it for ratings: low ones are no recommendation.
    """
    since: str | float | None = None
    """Keep only events from this time on: 2024-01-31, or unix seconds.

    Change it to forget what is too old to matter.
    """
    until: str | float | None = None
    """Keep only events before this time.

    Change it to leave out the newest events, for example to repeat an earlier experiment.
    """
    bot_events: Count | None = None
    """Drop customers with more events than this, who are taken for bots.

    Change it if a few customers have most of the events.
    """
    duplicates: Literal["keep", "first", "last", "sum"] = "keep"
    """Events of one customer with one item: keep all, the first, the last, or one with the sum of their weights.

    Change it to `first` or `sum` if repeated purchases carry no information.
    """
    minimum_user_events: Count = 1
    """Drop customers with fewer events than this.

    Change it to 2 or more: a customer with a single event teaches nothing about order.
    """
    minimum_item_events: Count = 1
    """Drop items with fewer events than this.

    Change it to about 5 if rare items are noise; they cannot be recommended then.
    """
    k_core: bool = False
    """Apply both minimum counts until nothing changes.

    Change it to compare with published results on a 5-core.
    """
    maximum_history: Count | None = None
    """Keep only this many of the newest events of each customer.

    Change it if a few long histories dominate memory or time.
    """
    split: str | None = None
    """How to split into parts, such as leave_last_out: a name from `data.splitting`. Default: no split.

    Change it to `leave_last_out` or `leave_last_two` to measure quality, to `last_days` for a test as in production.
    """
    split_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the split by name.

    Change it as the split needs it, such as `days` of last_days.
    """
    drop_unseen_items: bool = False
    """Drop test events of items without a training event, as the paper does.

    Change it to compare with results that do so; it makes the test easier.
    """
    test_events: tuple[str, ...] = ()
    """Files of the test part, for the split given. Repeatable.

    Change it for published splits, which come as two files.
    """
    items: str | None = None
    """A file with titles, categories, prices and images of the items.

    Change it to have titles in output and on the page, and attributes.
    """
    item_source: Source | None = None
    """How to read the item file.

    Change it if the item file is not recognised.
    """
    item_columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the item file with other names: title, category, price or image, and the column.

    Change it if the item file has other names, such as title=name.
    """
    attributes: tuple[str, ...] | None = None
    """Columns of the item file that are attributes: NAME, or NAME:KIND with the kind path (`Women > Shoes`), values or
    number.

    Change it to recommend items without events.
    """
    force: bool = False
    """Prepare again even if the same dataset exists.

    Change it if an input changed without a change of size and date.
    """

    def __post_init__(self) -> None:
        if not self.events:
            raise ConfigError("there are no event files: name at least one")
        if str(self.on_error) == "strict":  # the former name
            object.__setattr__(self, "on_error", "raise")
        for name in ("out", "items"):
            if isinstance(getattr(self, name), Path):
                object.__setattr__(self, name, str(getattr(self, name)))
        check_fields(self, as_options=True)
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
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment is not None:
                parse_moment(moment, name)
        if self.split == "given" or self.test_events:
            if self.split != "given" or not self.test_events or self.split_options:
                raise ConfigError("the `split` given and `test_events` go together, without options: give both")
        elif self.split is not None:
            find_rule(self.split, self.split_options, ordered=True)
        elif self.drop_unseen_items or self.split_options:
            raise ConfigError(f"split options without a `split`: name one of {', '.join([*RULES, 'given'])}")
        if self.attributes and self.items is None:
            raise ConfigError("`attributes` are columns of an item file: give `items`")
        if self.k_core and self.minimum_user_events == self.minimum_item_events == 1:
            raise ConfigError(
                "`k_core` without minimum counts does nothing: give `minimum_user_events` or `minimum_item_events`"
            )

    def options(self) -> dict[str, Any]:
        """What is recorded in the manifest: every option that is not at its default."""
        recorded, defaults = asdict(self), asdict(Source())
        for name in ("source", "item_source"):
            if recorded[name] is not None:
                recorded[name] = {key: value for key, value in recorded[name].items() if value != defaults[key]}
        # 0 is a value ("ratings of 0 or more"): only options that were not given are left out.
        given = [name for name, value in recorded.items() if value is not None and value is not False and value != {}]
        return {name: recorded[name] for name in given if name not in ("events", "out", "force")}


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
    """Faulty rows that were skipped."""
    unchanged: bool
    """Whether the same dataset existed already, so that nothing was done."""
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
    """Make the dataset that `config` describes. `engine`: Polars on this machine by default; see also `spark_engine`.

    `scratch`: a folder for intermediate files, for inputs too large for the usual folder of temporary files. `watch` is
    called with the name of each stage when it begins: reading, checking, numbering ids, cleaning, ordering, writing.
    """
    started = time.perf_counter()
    files = _list_inputs(config)
    fingerprint = _fingerprint(config, files)
    notes: list[str] = []
    if not config.force and is_dataset(config.out):
        manifest = open_dataset(config.out).manifest
        if manifest.get("fingerprint") == fingerprint:
            return _report(config, manifest, started, unchanged=True)
        notes = _note_replacement(manifest, config)
    with polars_faults(*_STOPPED), scratch_directory("prepare", within=scratch) as folder:
        # Polars needs the whole files; where tasks read them, an outline is enough to detect their layout.
        layouts = _detect_layouts(config, files, folder, fetch_outline if engine else fetch)
        engine = engine or PolarsEngine(folder)
        table = None
        if config.items is not None:
            names = attribute_columns(config.attributes or ())
            options: dict[str, Any] = {"reader": config.reader, "attributes": names}
            table = read_item_table(config.items, config.item_source, config.item_columns, **options)
        with new_dataset(config.out) as draft:
            pipeline = Pipeline(config, engine, layouts, watch)
            histories = pipeline.run()
            recorded, items = list(pipeline.notes), histories.items
            if pipeline.rejected is not None:
                recorded.append(f"{pipeline.faults}: see {REJECTED} in the dataset")
            if table is not None:
                items, note = with_item_table(items, table)
                recorded.append(note)
            if config.attributes:
                attributes = attributes_of(items, config.attributes)
                kinds = ", ".join(f"{column.name} ({column.kind})" for column in attributes.columns)
                recorded += [
                    f"{counting.Count(len(attributes.values)):attribute|attributes} in {kinds}",
                    *attributes.notes,
                ]
            watch("writing")
            draft.begin()
            draft.write_vocabulary(histories.users, "user")
            draft.write_vocabulary(items, "item")
            events = engine.write_events(histories.events, histories.order, draft.address, max(len(histories.parts), 1))
            if pipeline.rejected is not None:
                draft.checksums[REJECTED] = engine.write_rejected(pipeline.rejected, draft.address, REJECTED)
            record = {
                "notes": recorded,
                "steps": [asdict(step) for step in pipeline.steps],
                "engine": engine.name,
                "options": config.options(),
                "inputs": [{"address": file.address, "size": file.size, "part": part} for file, part in files],
                "fingerprint": fingerprint,
                **({"times": "positions"} if config.source.ordered else {}),
            }
            columns = histories.events.collect_schema().names()
            manifest = draft.finish(columns=columns, events=events, parts=histories.parts, record=record)
    return _report(config, manifest, started, notes)


def read_interactions(paths: Iterable[str | Path], reader: str | None = None, **options: Any) -> Interactions:
    """The events of files in memory, through the same steps as a dataset; see `Interactions.from_file`."""
    of_source = [one.name for one in fields(Source)]
    check_names([*of_source, *FILTERS], options, "source option")
    source = source_named(reader, **{name: value for name, value in options.items() if name in of_source})
    filters: dict[str, Any] = {name: value for name, value in options.items() if name in FILTERS}
    config = PrepareConfig(events=tuple(map(str, paths)), out="", source=source, reader=reader, **filters)
    with polars_faults(*_STOPPED), scratch_directory("prepare") as folder:
        engine = PolarsEngine(folder)
        layouts = _detect_layouts(config, _list_inputs(config), folder, fetch)
        pipeline = Pipeline(config, engine, layouts, lambda stage: None)
        histories = pipeline.run()
        events = cast_columns(engine.collect(histories.events).sort(histories.order))
    users, items = Vocabulary(histories.users["id"], name="user"), Vocabulary(histories.items["id"], name="item")
    notes = pipeline.notes if pipeline.rejected is None else [*pipeline.notes, pipeline.faults]
    return Interactions.from_sorted(users, items, events, tuple(notes))


def _list_inputs(config: PrepareConfig) -> list[tuple[StoredFile, int]]:
    """Every input file, with 1 for those of the test part and 0 for the others."""
    return [
        (file, part)
        for part, addresses in enumerate((config.events, config.test_events))
        for address in addresses
        for file in list_files(address, name=config.source.file_name)
    ]


def _fingerprint(config: PrepareConfig, inputs: list[tuple[StoredFile, int]]) -> str:
    """A hash of everything that decides the result: two runs with the same hash give the same dataset."""
    files: list[Any] = [(*asdict(file).values(), part) for file, part in inputs]
    if config.items is not None:
        files += [tuple(asdict(file).values()) for file in list_files(config.items)]
    described = json.dumps([DATASET.version, config.options(), files], sort_keys=True, default=str)
    return hashlib.sha256(described.encode()).hexdigest()


def _note_replacement(manifest: dict[str, Any], config: PrepareConfig) -> list[str]:
    """A note if a dataset that was made with other options is replaced."""
    before, now = manifest.get("options", {}), json.loads(json.dumps(config.options(), default=str))
    before = before | {"on_error": "raise"} if before.get("on_error") == "strict" else before
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return []
    return [f"{config.out} was a dataset made with other options ({', '.join(changed)}), and is replaced"]


def _detect_layouts(
    config: PrepareConfig, files: list[tuple[StoredFile, int]], folder: Path, get: Callable[[str, Path], Path]
) -> list[Layout]:
    """The layout of every file, so that wrong names and columns are found before any work is done."""
    layouts: list[Layout] = []
    for file, part in files:
        layout = detect_layout(get(file.address, folder), config.source, file.address)
        layouts.append(replace(layout, part=part, number=len(layouts)))
        first = layouts[0]
        if set(layout.roles) != set(first.roles):
            ours, theirs = ", ".join(first.roles), ", ".join(layout.roles)
            raise InputError(f"{file.address} has {theirs}, but {first.label} has {ours}: give files of one kind")
    _check_roles(config, first)
    return layouts


def _check_roles(config: PrepareConfig, first: Layout) -> None:
    """Raise an `InputError` if an option needs a column that the files do not have."""
    roles, ordered = first.roles, config.source.ordered
    newest = None if ordered else config.maximum_history
    needs: dict[str, list[Any]] = {
        "rating": [config.minimum_rating],
        "event": [config.event_weights or None, config.label_events],
        "time": [config.since, config.until, newest],
    }
    for role, options in needs.items():
        if role not in roles and any(option is not None for option in options):
            raise InputError(
                f"{first.label}: an option needs the {role} of every event: name its column with `{role}_column`"
            )
    if config.source.ties == "file" and "time" not in roles:
        raise InputError(
            f"{first.label} has no times, so none are equal: give `ordered` instead of `ties` if events are in order"
        )
    if config.split not in (None, "given"):
        rule = find_rule(str(config.split), config.split_options, ordered="time" in roles or ordered)
        if rule.needs_times and ordered:
            raise InputError(f"the `split` {config.split} needs times, and positions are not times: use another split")


def _report(
    config: PrepareConfig,
    manifest: dict[str, Any],
    started: float,
    notes: Iterable[str] = (),
    *,
    unchanged: bool = False,
) -> PrepareReport:
    steps = tuple(Step(**step) for step in manifest["steps"])
    return PrepareReport(
        address=config.out,
        **{name: manifest[name] for name in ("engine", "digest", "counts", "parts")},
        steps=steps,
        notes=(*manifest["notes"], *notes),
        rejected=steps[0].rows_in - steps[0].rows_out,
        unchanged=unchanged,
        seconds=time.perf_counter() - started,
    )
