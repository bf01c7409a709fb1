"""`lorentzrec prepare`: raw events in, a dataset out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.options import ItemColumn, Json, Reader, TimeColumn, UserColumn, WeightColumn
from lorentzrec.cli.output import note, print_json, show, steps, table
from lorentzrec.cli.targets import refuse_unwritable
from lorentzrec.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.ingest.engine import Engine
    from lorentzrec.ingest.prepare import PrepareReport

Text = str | None
Number = int | None


def _option(panel: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


_file, _filter, _part, _engine_option = (
    partial(_option, panel) for panel in ("Event files", "What stays", "Parts", "Where it runs")
)


def prepare(
    events: Annotated[
        list[str], typer.Argument(metavar="EVENTS", help="Files, folders or patterns; local, az:// or s3://.")
    ],
    out: Annotated[str, typer.Option(help="Folder for the dataset; local, az:// or s3://.")],
    items: Annotated[Text, typer.Option(help="A file of item titles, categories, prices, images.")] = None,
    item_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--item-field",
            metavar="FIELD=COLUMN",
            help="The item file's column of item, title, category, price or image, if named otherwise.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Prepare again even if the same dataset is there.")] = False,
    reader: Reader = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    time_column: TimeColumn = None,
    weight_column: WeightColumn = None,
    rating_column: Annotated[Text, _file("Column of the rating.")] = None,
    event_column: Annotated[Text, _file("Column of the kind of event: view, purchase, ...")] = None,
    file_format: Annotated[Text, _file("csv, json, parquet, adjacency or csr.", "--format")] = None,
    separator: Annotated[
        Text, _file("Between the fields of CSV lines: a character, tab or space.", show_default="from the first lines")
    ] = None,
    quote: Annotated[Text, _file("Around fields that hold a separator; none for no quotes.", show_default='"')] = None,
    escape: Annotated[Text, _file("Before quotes inside of fields, where they are not doubled: '\\'.")] = None,
    decimal: Annotated[
        Text, _file("Decimal point of weights and ratings: . or ,", show_default="from the first values")
    ] = None,
    columns: Annotated[Text, _file("Columns of files without header: user,item,time")] = None,
    encoding: Annotated[Text, _file("Text encoding.", show_default="utf-8")] = None,
    time_unit: Annotated[Text, _file("seconds, milliseconds, microseconds or iso.", show_default="auto")] = None,
    time_format: Annotated[Text, _file("Form of times that are not ISO 8601: '%d.%m.%Y %H:%M'.")] = None,
    ordered: Annotated[
        bool, _file("Events have no times but are in order, oldest first: positions become times.", "--ordered")
    ] = False,
    ties: Annotated[
        Text, _file("Order of a customer's events with equal times: by item id, or as in the file.", show_default="id")
    ] = None,
    on_error: Annotated[str, _file("A faulty row: raise stops, skip sets it aside and counts it.")] = "raise",
    minimum_rating: Annotated[float | None, _filter("Only events rated so or higher.")] = None,
    event_weights: Annotated[
        list[str] | None,
        _filter("Weight of a kind of event; other kinds are left out.", "--event-weight", metavar="KIND=WEIGHT"),
    ] = None,
    label_events: Annotated[
        list[str] | None,
        _filter("A kind of event to predict; histories hold all kinds. Repeatable.", "--label-event", metavar="KIND"),
    ] = None,
    since: Annotated[Text, _filter("Only from this time on: 2024-01-31, or unix seconds.")] = None,
    until: Annotated[Text, _filter("Only before this time.")] = None,
    bot_events: Annotated[Number, _filter("Leave out customers with more events than this.")] = None,
    duplicates: Annotated[str, _filter("Of repeated pairs: keep all, the first, the last, or their sum.")] = "keep",
    minimum_user_events: Annotated[int, _filter("Fewest events of a customer.")] = 1,
    minimum_item_events: Annotated[int, _filter("Fewest events of an item.")] = 1,
    k_core: Annotated[bool, _filter("Apply both minimum counts until nothing changes.", "--k-core")] = False,
    maximum_history: Annotated[Number, _filter("Only so many newest events of each customer.")] = None,
    split: Annotated[
        Text,
        _part(
            "leave_last_out, leave_last_two, last_days:days=7, random:ratio=0.2 (of the events, except for one of each "
            "customer, which stays in training), held_out_customers, given.",
            metavar="NAME[:OPTION=VALUE,...]",
        ),
    ] = None,
    drop_unseen_items: Annotated[
        bool, _part("No test events of items that training has not.", "--drop-unseen-items")
    ] = False,
    test_events: Annotated[list[str] | None, _part("Files of the test part, for --split given.")] = None,
    engine: Annotated[str, _engine_option("polars: this machine. spark: many.")] = "polars",
    master: Annotated[Text, _engine_option("Spark's master, or sc://HOST.", show_default="this machine")] = None,
    scratch: Annotated[Path | None, _engine_option("Folder for intermediate files.")] = None,
    json: Json = False,
) -> None:
    """Clean, filter, order, number and split raw events.

    The dataset is the same, to the bit, whichever engine makes it. Every step says how many events it kept, and why.
    """
    from lorentzrec.ingest.dataset import FORMAT
    from lorentzrec.ingest.prepare import STAGES, PrepareConfig
    from lorentzrec.ingest.prepare import prepare as run
    from lorentzrec.ingest.sources import Source, source_named
    from lorentzrec.ingest.storage import is_remote

    if not is_remote(out):
        refuse_unwritable(Path(out), FORMAT)
    given = {
        "format": file_format,
        "user_column": user_column,
        "item_column": item_column,
        "time_column": time_column,
        "weight_column": weight_column,
        "rating_column": rating_column,
        "event_column": event_column,
        "separator": separator,
        "quote": quote,
        "escape": escape,
        "decimal": decimal,
        "encoding": encoding,
        "time_unit": time_unit,
        "time_format": time_format,
        "ordered": ordered or None,
        "ties": ties,
        "columns": tuple(columns.split(",")) if columns else None,
    }
    fields = _pairs("--item-field", item_fields)
    split_name, _, split_options = (split or "").partition(":")
    config = PrepareConfig(
        events=tuple(events),
        out=out,
        source=source_named(reader, **{name: value for name, value in given.items() if value is not None}),
        reader=reader,
        on_error=on_error,  # type: ignore[arg-type]
        event_weights={
            kind: _number("--event-weight", text) for kind, text in _pairs("--event-weight", event_weights).items()
        },
        label_events=tuple(label_events) if label_events else None,
        minimum_rating=minimum_rating,
        since=since,
        until=until,
        bot_events=bot_events,
        duplicates=duplicates,  # type: ignore[arg-type]
        minimum_user_events=minimum_user_events,
        minimum_item_events=minimum_item_events,
        k_core=k_core,
        maximum_history=maximum_history,
        split=split_name or None,
        split_options={
            name: _number("--split", text)
            for name, text in _pairs("--split", split_options.split(",") if split_options else []).items()
        },
        drop_unseen_items=drop_unseen_items,
        test_events=tuple(test_events or ()),
        items=items,
        item_source=Source(item_column=fields.pop("item")) if "item" in fields else None,
        item_columns=fields,
        force=force,
    )
    with _engine(engine, master) as runner, steps("Preparing", STAGES) as watch:
        report = run(config, runner, scratch=scratch, watch=watch)
    if json:
        print_json(report.to_dict())
        return
    show(step_table(report))
    show(f"The dataset is in {out}: {_counts(report.counts)}")
    if report.parts:
        show(f"Its parts: {_counts(report.parts)} events")
    note(report.notes)
    note(["the same dataset was there already, so nothing was done"] if report.unchanged else [])


@contextmanager
def _engine(name: str, master: str | None) -> Iterator[Engine | None]:
    if name not in ("polars", "spark"):
        raise ConfigError(f"there is no engine {name!r}: use polars or spark")
    if name == "polars":
        if master is not None:
            raise ConfigError("--master is for --engine spark: give both, or none")
        yield None
        return
    from lorentzrec.ingest.spark_engine import spark_engine

    place: dict[str, Any] = {"remote" if (master or "").startswith("sc://") else "master": master}
    with spark_engine(**place) as engine:
        yield engine


def step_table(report: PrepareReport) -> Table:
    """What each step left of the events."""
    rows = [
        (step.name, f"{step.rows_in:,}", f"{step.rows_out:,}", f"{step.rows_in - step.rows_out:,}", step.why)
        for step in report.steps
    ]
    columns = {"step": "left bold", "events in": "right", "out": "right", "left out": "right", "which": "left dim"}
    return table(columns, rows, title=f"Prepared with {report.engine} in {report.seconds:.1f} s")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in texts or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"{option} {text!r} has no name and value: write name=value")
        pairs[name] = value
    return pairs


def _number(option: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is not a number: write name=number") from None
