"""Preparation from end to end: event files in, a dataset or interactions out, and a report of every step."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lorentzrec.base import counting
from lorentzrec.base.atomic import scratch_directory
from lorentzrec.base.counting import Count
from lorentzrec.base.field_checks import check_names
from lorentzrec.base.library_faults import polars_faults
from lorentzrec.data.event_order import Ties, add_ties, count_ties, describe_ties
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import find_rule
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.ingest.config import PrepareConfig as PrepareConfig
from lorentzrec.ingest.dataset import (
    REJECTED,
    cast_columns,
    is_dataset,
    new_dataset,
    open_dataset,
)
from lorentzrec.ingest.dataset_checks import DATASET
from lorentzrec.ingest.engine import Engine, PolarsEngine
from lorentzrec.ingest.item_table import attribute_columns, make_attributes, read_item_table, with_item_table
from lorentzrec.ingest.layouts import FileLayout, detect_layout
from lorentzrec.ingest.pipeline import CleaningStep, Pipeline
from lorentzrec.ingest.sources import DATA_FILES, Source, source_named
from lorentzrec.ingest.storage import (
    StoredFile,
    fetch,
    fetch_outline,
    file_name,
    is_folder,
    list_files,
)

if TYPE_CHECKING:
    import polars as pl

_STOPPED = ("preparation stopped", "check the files and the space on disk (`scratch`)")

FILTERS = (
    *("on_error", "event_weights", "label_events", "minimum_rating", "since", "until", "bot_events", "duplicates"),
    *("minimum_user_events", "minimum_item_events", "k_core", "maximum_history"),
)
"""Fields of `PrepareConfig` that choose events; `Interactions.from_file` has them too."""


@dataclass(frozen=True)
class PrepareReport:
    """What was done, for people (`steps`) and for programs (`to_dict`)."""

    address: str
    engine: str
    digest: str
    counts: dict[str, int]
    parts: dict[str, int]
    steps: tuple[CleaningStep, ...]
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
    out: str | Path,
    engine: Engine | None = None,
    *,
    force: bool = False,
    delivery: bool = False,
    scratch: str | Path | None = None,
    watch: Callable[[str], None] = lambda stage: None,
) -> PrepareReport:
    """Make the dataset that `config` describes in the folder `out`: local, az:// or s3://.

    engine: Polars on this machine by default; see also `spark_engine`.
    force: prepare again even if the same dataset exists, for inputs that changed without a change of size and date.
    delivery: the files are a part of the events, so its few items need not share attributes.
    scratch: a folder for intermediate files, for inputs too large for the usual folder of temporary files.
    watch: called with the name of each stage when it begins: reading, checking, numbering ids, cleaning, ordering,
        writing.
    """
    started, out = time.perf_counter(), str(out)
    inputs = list_inputs(config)
    fingerprint = _fingerprint(config, inputs)
    notes: list[str] = []
    if not force and is_dataset(out):
        manifest = open_dataset(out).manifest
        if manifest.get("fingerprint") == fingerprint:
            return _report(out, manifest, started, unchanged=True)
        if appended := len(manifest.get("deliveries", ())):
            raise InputError(
                f"{out} has {Count(appended):delivery that was|deliveries that were} appended and would be lost: "
                "give `force` if that is meant, or another name"
            )
        notes = _note_replacement(manifest, config, out)
    report = write_dataset(
        config, out, engine, inputs, {"fingerprint": fingerprint}, delivery=delivery, scratch=scratch, watch=watch
    )
    return replace(report, notes=(*report.notes, *notes))


def write_dataset(
    config: PrepareConfig,
    out: str,
    engine: Engine | None,
    inputs: list[Input],
    record: Mapping[str, Any],
    *,
    table: pl.DataFrame | None = None,
    delivery: bool = False,
    scratch: str | Path | None = None,
    watch: Callable[[str], None] = lambda stage: None,
) -> PrepareReport:
    """Run the pipeline on files, and write the dataset; one that exists is replaced.

    record: entries of the manifest that differ from what `config` says.
    table: the item table, instead of the file that `config` names.
    delivery: see `prepare`.
    """
    started = time.perf_counter()
    with polars_faults(*_STOPPED), scratch_directory("prepare", within=scratch) as folder:
        # Polars needs the whole files; where tasks read them, an outline is enough to detect their layout.
        files, choices = _choose_files(config, inputs, folder)
        layouts = _detect_layouts(config, files, folder, fetch_outline if engine else fetch)
        engine = engine or PolarsEngine(folder)
        if config.items is not None:
            names = attribute_columns(config.attributes or ())
            options: dict[str, Any] = {"reader": config.reader, "attributes": names}
            table = read_item_table(config.items, config.item_source, config.item_columns, **options)
        with new_dataset(out) as draft:
            pipeline = Pipeline(config, engine, layouts, watch)
            histories = pipeline.run()
            recorded, items = [*choices, *pipeline.notes], histories.items
            if pipeline.rejected is not None:
                recorded.append(f"{pipeline.faults}: see {REJECTED} in the dataset")
            if table is not None:
                items, note = with_item_table(items, table)
                recorded.append(note)
            if config.attributes and not delivery:
                attributes = make_attributes(items, config.attributes)
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
            entries = {
                "notes": recorded,
                "steps": [asdict(step) for step in pipeline.steps],
                "engine": engine.name,
                "options": config.options(),
                "inputs": [asdict(file) | {"part": part} for file, part, _ in files],
                **({"times": "positions"} if config.source.ordered else {}),
                **({"ties": "given"} if has_given_ties(config.source) else {}),
                **record,
            }
            columns = histories.events.collect_schema().names()
            recorded += ties_notes(add_ties(file.ties for file in events), config, columns)
            manifest = draft.finish(columns=columns, events=events, parts=histories.parts, record=entries)
    return _report(out, manifest, started)


def read_interactions(paths: Iterable[str | Path], reader: str | None = None, **options: Any) -> Interactions:
    """The events of files in memory, through the same steps as a dataset; see `Interactions.from_file`."""
    of_source = [one.name for one in fields(Source)]
    check_names([*of_source, *FILTERS], options, "source option")
    source = source_named(reader, **{name: value for name, value in options.items() if name in of_source})
    filters: dict[str, Any] = {name: value for name, value in options.items() if name in FILTERS}
    config = PrepareConfig(events=tuple(map(str, paths)), source=source, reader=reader, **filters)
    with polars_faults(*_STOPPED), scratch_directory("prepare") as folder:
        engine = PolarsEngine(folder)
        files, choices = _choose_files(config, list_inputs(config), folder)
        layouts = _detect_layouts(config, files, folder, fetch)
        pipeline = Pipeline(config, engine, layouts, lambda stage: None)
        histories = pipeline.run()
        events = cast_columns(engine.collect(histories.events).sort(histories.order))
    users, items = Vocabulary(histories.users["id"], name="user"), Vocabulary(histories.items["id"], name="item")
    notes = pipeline.notes if pipeline.rejected is None else [*pipeline.notes, pipeline.faults]
    notes = [*choices, *notes, *ties_notes(count_ties(events), config, events.columns)]
    return Interactions.from_sorted(users, items, events, tuple(notes), ties_given=has_given_ties(source))


def has_given_ties(source: Source) -> bool:
    """Whether the order of the file is declared to be meaningful where times are equal."""
    return source.ordered or source.ties == "file"


def ties_notes(ties: Ties, config: PrepareConfig, columns: Collection[str], order_of: str = "file") -> list[str]:
    """What a reader should know about equal times and repeated rows; `columns`: those of the events."""
    notes, source = [], config.source
    if ties.tied and not source.ordered:
        order = f"in the order of the {order_of}"
        if source.ties == "shuffle":
            order = f"shuffled: give `ties='file'` if the order of the {order_of} is meaningful"
        notes.append(describe_ties(ties.tied / ties.followers, order, orders_known="order" in columns))
    if ties.repeated and config.duplicates == "keep":
        rows = f"{Count(ties.repeated):row repeats|rows repeat}"
        notes.append(f"{rows} another one, with the same user, item and time: drop them with `duplicates='exact'`")
    return notes


class Input(NamedTuple):
    file: StoredFile
    part: int
    """1 for files of the test part, 0 for the others."""
    given: str
    """The file, folder or pattern that was given."""


def list_inputs(config: PrepareConfig) -> list[Input]:
    return [
        Input(file, part, address)
        for part, addresses in enumerate((config.events, config.test_events))
        for address in addresses
        for file in list_files(address, name=config.source.file_name)
    ]


def _choose_files(config: PrepareConfig, inputs: list[Input], scratch: Path) -> tuple[list[Input], list[str]]:
    """The files to read, and notes: all files, but of the folder of a known data set only those with events."""
    chosen: list[Input] = []
    notes = []
    for (_, address), group in groupby(inputs, key=lambda one: (one.part, one.given)):
        found = list(group)
        known = [one for one in found if file_name(one.file.address) in DATA_FILES]
        if len(known) == 1 and len(found) > 1 and is_folder(address):
            events = _find_alike(config, known[0], found, scratch)
            if len(events) < len(found):
                names = " and ".join(file_name(one.file.address) for one in events)
                notes.append(f"of the folder {address} only {names} {'is' if len(events) == 1 else 'are'} read")
            found = events
        chosen += found
    return chosen, notes


def _find_alike(config: PrepareConfig, known: Input, found: list[Input], scratch: Path) -> list[Input]:
    """The files with the same names of columns as the known one, and itself."""

    def detect(one: Input) -> FileLayout:
        address = one.file.address
        return detect_layout(fetch_outline(address, scratch), config.source, address, needed=needed_roles(config))

    names, events = detect(known).names, []
    for one in found:
        with suppress(InputError):  # a file of another kind
            if one is known or ((layout := detect(one)).source.has_header and layout.names == names):
                events.append(one)
    return events


def _fingerprint(config: PrepareConfig, inputs: list[Input]) -> str:
    """A hash of everything that decides the result: two runs with the same hash give the same dataset."""
    files: list[Any] = [(*asdict(file).values(), part) for file, part, _ in inputs]
    if config.items is not None:
        files += [tuple(asdict(file).values()) for file in list_files(config.items)]
    described = json.dumps([DATASET.version, config.options(), files], sort_keys=True, default=str)
    return hashlib.sha256(described.encode()).hexdigest()


def _note_replacement(manifest: dict[str, Any], config: PrepareConfig, out: str) -> list[str]:
    """A note if a dataset that was made with other options is replaced."""
    before, now = manifest.get("options", {}), json.loads(json.dumps(config.options(), default=str))
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return []
    return [f"{out} was a dataset made with other options ({', '.join(changed)}), and is replaced"]


def _detect_layouts(
    config: PrepareConfig, files: list[Input], folder: Path, get: Callable[[str, Path], Path]
) -> list[FileLayout]:
    """The layout of every file, so that wrong names and columns are found before any work is done."""
    layouts: list[FileLayout] = []
    needed = needed_roles(config)
    for file, part, _ in files:
        layout = detect_layout(get(file.address, folder), config.source, file.address, needed=needed)
        layouts.append(replace(layout, part=part, number=len(layouts)))
        first = layouts[0]
        if set(layout.roles) != set(first.roles):
            ours, theirs = ", ".join(first.roles), ", ".join(layout.roles)
            raise InputError(f"{file.address} has {theirs}, but {first.address} has {ours}: give files of one kind")
    check_roles(config, first)
    return layouts


def needed_roles(config: PrepareConfig) -> set[str]:
    """The roles that the given options need."""
    newest = None if config.source.ordered else config.maximum_history
    needs: dict[str, list[Any]] = {
        "rating": [config.minimum_rating],
        "event": [config.event_weights or None, config.label_events],
        "time": [config.since, config.until, newest],
    }
    return {role for role, options in needs.items() if any(option is not None for option in options)}


def check_roles(config: PrepareConfig, first: FileLayout) -> None:
    """Raise an `InputError` if an option needs a column that the files do not have."""
    roles, ordered = first.roles, config.source.ordered
    for role in sorted(needed_roles(config) - roles.keys()):
        raise InputError(
            f"{first.address}: an option needs the {role} of every event: name its column with `{role}_column`"
        )
    if config.source.ties == "file" and "time" not in roles:
        raise InputError(
            f"{first.address} has no times, so none are equal: give `ordered` instead of `ties` if events are in order"
        )
    if config.split not in (None, "given"):
        rule = find_rule(str(config.split), config.split_options, ordered="time" in roles or ordered)
        if rule.needs_times and ordered:
            raise InputError(f"the `split` {config.split} needs times, and positions are not times: use another split")


def _report(
    out: str,
    manifest: dict[str, Any],
    started: float,
    notes: Iterable[str] = (),
    *,
    unchanged: bool = False,
) -> PrepareReport:
    steps = tuple(CleaningStep(**step) for step in manifest["steps"])
    return PrepareReport(
        address=out,
        **{name: manifest[name] for name in ("engine", "digest", "counts", "parts")},
        steps=steps,
        notes=(*manifest["notes"], *notes),
        rejected=steps[0].rows_in - steps[0].rows_out,
        unchanged=unchanged,
        seconds=time.perf_counter() - started,
    )
