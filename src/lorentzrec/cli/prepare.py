"""`lorentzrec prepare`: from raw events to a dataset."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.base.counting import with_counts
from lorentzrec.cli.inputs import named_numbers, named_texts
from lorentzrec.cli.options import check_engine, field_options, pop_fields, refuse_options
from lorentzrec.cli.output import print_result, stages, table
from lorentzrec.cli.results import refuse_unwritable
from lorentzrec.errors import InputError
from lorentzrec.ingest.config import PrepareConfig
from lorentzrec.ingest.sources import Source, source_named

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from lorentzrec.ingest.appending import AppendReport
    from lorentzrec.ingest.prepare import PrepareReport


OF_COMPACTION = ("out", "engine", "master", "scratch", "json")
OF_DELIVERY = (*OF_COMPACTION, "events", "delivery", "replace", "force", "items")
"""Options that --compact and --append take."""


def _option(panel: str) -> Any:
    return typer.Option(rich_help_panel=panel)


@field_options(PrepareConfig, None, ("items",))
@field_options(Source, "Event files", ("format", ..., "thousands", "encoding", ..., "tie_seed"), override=True)
@field_options(PrepareConfig, "Event files", ("reader", "on_error"))
@field_options(PrepareConfig, "Filters", ("label_events", ..., "maximum_history"))
@field_options(PrepareConfig, "Split", ("drop_unseen_items", "test_events"))
def prepare(
    context: typer.Context,
    events: list[str] | None = None,
    *,
    out: str,
    force: bool = False,
    append: Annotated[bool, _option("Deliveries")] = False,
    delivery: Annotated[str | None, _option("Deliveries")] = None,
    replace: Annotated[bool, _option("Deliveries")] = False,
    compact: Annotated[bool, _option("Deliveries")] = False,
    item_columns: list[str] | None = None,
    attributes: str | None = None,
    columns: Annotated[str | None, _option("Event files")] = None,
    event_weights: Annotated[list[str] | None, _option("Filters")] = None,
    split: Annotated[str | None, _option("Split")] = None,
    engine: Annotated[str, _option("Engine")] = "polars",
    master: Annotated[str | None, _option("Engine")] = None,
    scratch: Annotated[Path | None, _option("Engine")] = None,
    json: bool = False,
    **fields: Any,
) -> None:
    """Clean, filter, sort and split raw events into a dataset.

    The dataset is the same, byte for byte, with either engine. Every step reports how many events it kept, and why.

    With --append, the files are a delivery: their events are added to the dataset, with the options that it was
    prepared with. The time for it depends on the delivery alone. A delivery that is there already changes nothing.

    $ lorentzrec prepare events.csv --out shop --split leave_last_out
    $ lorentzrec prepare 'logs/*.parquet' --out shop --user-column customer --item-column sku \
        --minimum-user-events 5
    $ lorentzrec prepare ml-1m --reader movielens-1m --items ml-1m --out films --minimum-rating 4 \
        --split leave_last_two
    $ lorentzrec prepare events.csv --out shop --items items.csv --attributes category,brand,price:number
    $ lorentzrec prepare --append 2026-11-18.csv --out shop
    $ lorentzrec prepare --compact --out shop
    $ lorentzrec prepare az://container/events --out az://container/shop --split last_days:days=14

    events: Files, folders or patterns; local, az:// or s3://.
    out: Folder for the dataset; local, az:// or s3://.
    force: Prepare again even if the same dataset exists: for inputs that changed without a change of size and date.
    append: Add the events to the dataset.
    delivery NAME: What to call the delivery. Default: the files as given.
    replace: If the dataset has a delivery of this name with other content, replace it.
    compact: Make one piece of a dataset and its deliveries: the same as if all files had been prepared in one go.
    item_columns FIELD=COLUMN: The column of the item file for item, title, category, price or image, if it has another
        name. Repeatable.
    attributes COLUMNS: Columns of the item file that train uses as attributes: NAME, or NAME:KIND with the kind path
        (Women > Shoes), values or number.
    columns: Column names of files without a header: user,item,time
    event_weights KIND=WEIGHT: Weight of a kind of event; other kinds are dropped. Repeatable.
    split NAME[:OPTION=VALUE,...]: leave_last_out, leave_last_two, leave_last_order_out, next_order:days=21 (the first
        order after that), last_days:days=7, random:ratio=0.2 (of the events, but one event per customer always stays in
        training), folds:count=5,fold=0, held_out_customers, given.
    engine: polars: this machine. spark: a cluster.
    master: Spark's master URL, or sc://HOST. Default: this machine.
    scratch: Folder for intermediate files.
    """
    from lorentzrec.ingest.appending import append as append_delivery
    from lorentzrec.ingest.appending import compact as compact_dataset
    from lorentzrec.ingest.dataset_checks import DATASET
    from lorentzrec.ingest.prepare import prepare as run
    from lorentzrec.ingest.spark_engine import spark_engine
    from lorentzrec.ingest.storage import is_remote

    if not is_remote(out):
        refuse_unwritable(Path(out), DATASET.name)
    check_engine(engine, ("polars", "spark"), spark={"master": master})
    if append or compact:
        allowed = {"append", *OF_DELIVERY} if append else {"compact", *OF_COMPACTION}
        whose = f"{'--append' if append else '--compact'} uses the options of the dataset, so it"
        refuse_options(context, [name for name in context.params if name not in allowed], whose)
        with spark_engine(master=master) if engine == "spark" else nullcontext() as runner, stages() as report_stage:
            known: dict[str, Any] = {"scratch": scratch, "watch": lambda stage: report_stage(stage, 0)}
            if append:
                known |= {"name": delivery, "replace_earlier": replace, "force": force, "items": fields["items"]}
                added = append_delivery(out, events or [], runner, **known)
            else:
                compacted = compact_dataset(out, runner, **known)
        if append:
            _show_delivery(added, json)
        else:
            _show_compacted(out, compacted, json)
        return
    refuse_options(context, ("delivery", "replace"), "prepare without --append")
    if not events:
        raise InputError("there are no event files: name at least one")
    source = pop_fields(fields, Source) | ({"columns": tuple(columns.split(","))} if columns else {})
    if not source["ordered"]:
        del source["ordered"]
    item_fields = named_texts("--item-field", item_columns)
    split_name, _, split_options = (split or "").partition(":")
    config = PrepareConfig(
        events=tuple(events),
        source=source_named(fields["reader"], **source),
        event_weights=named_numbers("--event-weight", event_weights),
        split=split_name or None,
        split_options=named_numbers("--split", split_options.split(",") if split_options else None),
        item_source=Source(item_column=item_fields.pop("item")) if "item" in item_fields else None,
        item_columns=item_fields,
        attributes=tuple(attributes.split(",")) if attributes else None,
        **pop_fields(fields, PrepareConfig),
    )
    with spark_engine(master=master) if engine == "spark" else nullcontext() as runner, stages() as report_stage:
        report = run(config, out, runner, force=force, scratch=scratch, watch=lambda stage: report_stage(stage, 0))
    counts = with_counts("{events:event|events}, {users:user|users}, {items:item|items}", report.counts)
    parts = ", ".join(f"{name} {count:,}" for name, count in report.parts.items())
    unchanged = ["the same dataset exists already, so nothing was done"] if report.unchanged else []
    print_result(
        report.to_dict(),
        step_table(report),
        f"The dataset is in {out}: {counts}",
        *([f"Events of its parts: {parts}"] if parts else []),
        json=json,
        notes=[*report.notes, *unchanged],
    )


def _show_delivery(report: AppendReport, json: bool) -> None:
    one = report.delivery
    rows = [("events", one.events), ("late", one.late), ("in the dataset already", one.repeated)]
    rows += [("new customers", one.new_users), ("new items", one.new_items)]
    shown: list[RenderableType] = []
    if not report.unchanged:
        verb = "replaced" if report.replaced else "appended"
        columns = {f"{one.name} {verb}": "left bold", "count": "right"}
        shown.append(table(columns, [(name, f"{count:,}") for name, count in rows]))
    counts = with_counts("{events:event|events}, {users:user|users}, {items:item|items}", report.counts)
    print_result(report.to_dict(), *shown, f"The dataset {report.address} has {counts}", json=json, notes=report.notes)


def _show_compacted(out: str, report: PrepareReport | None, json: bool) -> None:
    if report is None:
        print_result({"address": out, "unchanged": True}, f"{out} has no deliveries to compact", json=json)
        return
    counts = with_counts("{events:event|events}, {users:user|users}, {items:item|items}", report.counts)
    print_result(report.to_dict(), f"The dataset {out} is one piece: {counts}", json=json, notes=report.notes)


def step_table(report: PrepareReport) -> Table:
    """How many events each step kept."""
    rows = [
        (step.name, f"{step.rows_in:,}", f"{step.rows_out:,}", f"{step.rows_in - step.rows_out:,}", step.why)
        for step in report.steps
    ]
    columns = {"step": "left bold", "events in": "right", "out": "right", "dropped": "right", "which": "left dim"}
    when = "earlier" if report.unchanged else f"in {report.seconds:.1f} s"
    return table(columns, rows, title=f"Prepared with {report.engine} {when}")
