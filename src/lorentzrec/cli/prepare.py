"""`lorentzrec prepare`: from raw events to a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.options import field_options, pop_fields
from lorentzrec.cli.output import note, print_json, show, stages, table
from lorentzrec.cli.results import refuse_unwritable
from lorentzrec.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.ingest.engine import Engine
    from lorentzrec.ingest.prepare import PrepareReport

SOURCE, CONFIG = "lorentzrec.ingest.sources:Source", "lorentzrec.ingest.prepare:PrepareConfig"


def _option(panel: str) -> Any:
    return typer.Option(rich_help_panel=panel)


@field_options(SOURCE, "Event files", ("format", ..., "decimal", "encoding", ..., "ties"), override=True)
@field_options(CONFIG, "Event files", ("reader", "on_error"))
@field_options(CONFIG, "Filters", ("minimum_rating", ..., "maximum_history"))
@field_options(CONFIG, "Split", ("drop_unseen_items", "test_events"))
def prepare(
    events: list[str],
    *,
    out: str,
    items: str | None = None,
    item_columns: list[str] | None = None,
    force: bool = False,
    columns: Annotated[str | None, _option("Event files")] = None,
    event_weights: Annotated[list[str] | None, _option("Filters")] = None,
    label_events: Annotated[list[str] | None, _option("Filters")] = None,
    split: Annotated[str | None, _option("Split")] = None,
    engine: Annotated[str, _option("Engine")] = "polars",
    master: Annotated[str | None, _option("Engine")] = None,
    scratch: Annotated[Path | None, _option("Engine")] = None,
    json: bool = False,
    **fields: Any,
) -> None:
    """Clean, filter, sort and split raw events into a dataset.

    The dataset is the same, byte for byte, with either engine. Every step reports how many events it kept, and why.

    $ lorentzrec prepare events.csv --out shop --split leave_last_out
    $ lorentzrec prepare 'logs/*.parquet' --out shop --user-column customer --item-column sku \
        --minimum-user-events 5
    $ lorentzrec prepare ml-1m --reader movielens-1m --items ml-1m --out films --minimum-rating 4 \
        --split leave_last_two
    $ lorentzrec prepare az://container/events --out az://container/shop --split last_days:days=14

    events: Files, folders or patterns; local, az:// or s3://.
    out: Folder for the dataset; local, az:// or s3://.
    items: A file of item titles, categories, prices, images.
    item_columns FIELD=COLUMN: The column of the item file for item, title, category, price or image, if it has another
        name. Repeatable.
    force: Prepare again even if the same dataset exists.
    columns: Column names of files without a header: user,item,time
    event_weights KIND=WEIGHT: Weight of a kind of event; other kinds are dropped. Repeatable.
    label_events KIND: A kind of event to predict; histories have all kinds. Repeatable.
    split NAME[:OPTION=VALUE,...]: leave_last_out, leave_last_two, last_days:days=7, random:ratio=0.2 (of the events,
        but one event per customer always stays in training), held_out_customers, given.
    engine: polars: this machine. spark: a cluster.
    master: Spark's master URL, or sc://HOST. Default: this machine.
    scratch: Folder for intermediate files.
    """
    from lorentzrec.ingest.dataset import FORMAT
    from lorentzrec.ingest.prepare import PrepareConfig
    from lorentzrec.ingest.prepare import prepare as run
    from lorentzrec.ingest.sources import Source, source_named
    from lorentzrec.ingest.storage import is_remote

    if not is_remote(out):
        refuse_unwritable(Path(out), FORMAT)
    source = pop_fields(fields, Source) | ({"columns": tuple(columns.split(","))} if columns else {})
    if not source["ordered"]:
        del source["ordered"]
    item_fields = _pairs("--item-field", item_columns)
    split_name, _, split_options = (split or "").partition(":")
    config = PrepareConfig(
        events=tuple(events),
        out=out,
        source=source_named(fields["reader"], **source),
        event_weights=_numbers("--event-weight", event_weights),
        label_events=tuple(label_events) if label_events else None,
        split=split_name or None,
        split_options=_numbers("--split", split_options.split(",") if split_options else None),
        items=items,
        item_source=Source(item_column=item_fields.pop("item")) if "item" in item_fields else None,
        item_columns=item_fields,
        force=force,
        **pop_fields(fields, PrepareConfig),
    )
    with _engine(engine, master) as runner, stages() as report_stage:
        report = run(config, runner, scratch=scratch, watch=lambda stage: report_stage(stage, 0))
    if json:
        print_json(report.to_dict())
        return
    show(step_table(report))
    show(f"The dataset is in {out}: {_counts(report.counts)}")
    if report.parts:
        show(f"Its parts: {_counts(report.parts)} events")
    note(report.notes)
    note(["the same dataset exists already, so nothing was done"] if report.unchanged else [])


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
    from lorentzrec.ingest.spark_session import session_place

    with spark_engine(**session_place(master)) as engine:
        yield engine


def step_table(report: PrepareReport) -> Table:
    """How many events each step kept."""
    rows = [
        (step.name, f"{step.rows_in:,}", f"{step.rows_out:,}", f"{step.rows_in - step.rows_out:,}", step.why)
        for step in report.steps
    ]
    columns = {"step": "left bold", "events in": "right", "out": "right", "dropped": "right", "which": "left dim"}
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


def _numbers(option: str, texts: list[str] | None) -> dict[str, float]:
    pairs = _pairs(option, texts)
    try:
        return {name: int(text) if text.lstrip("-").isdigit() else float(text) for name, text in pairs.items()}
    except ValueError as error:
        raise ConfigError(f"{option}: {str(error).partition(': ')[2]} is not a number: write name=number") from None
