"""`lorentzrec recommend-all`: recommendations for every customer of a model or of a store, without a service."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import item_table_at, parse_ids
from lorentzrec.cli.options import OptionalStore, check_engine
from lorentzrec.cli.output import note, print_result, progress, say
from lorentzrec.cli.results import refuse_target
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.batch.recommending import BatchOptions, BatchReport, BatchSource
    from lorentzrec.serving.stores.catalogue import LiveItems
    from lorentzrec.serving.stores.store import Store

_ENGINE: Any = typer.Option(rich_help_panel="Engine")


def recommend_all(
    context: typer.Context,
    model: Path | None = None,
    *,
    out: str,
    store: OptionalStore = None,
    arm: str | None = None,
    k: int = 10,
    exclude: list[str] | None = None,
    exclude_seen: bool | None = None,
    allow: list[str] | None = None,
    categories: list[str] | None = None,
    diversity: float = 0.0,
    reasons: bool = False,
    titles: str | None = None,
    threads: int | None = None,
    engine: Annotated[str, _ENGINE] = "local",
    master: Annotated[str | None, _ENGINE] = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write recommendations for every customer to one table.

    Without a store, the customers are those of the training data. With --store, they are those of the store and of the
    model, without those who were erased: histories are those of the store where it has any, only live items are
    recommended, and titles are those of the current version. Without MODEL, the current version recommends, and
    LORENTZREC_STORE may name the store. With MODEL, only --store does.

    Customers are processed in parts, so memory does not grow with the results; after a failure, the same command
    continues with the parts that are left. Where ranking all items would take many minutes, candidates are found with
    an index, and the share of the true best items among the results is measured. The
    table appears when it is complete.

    $ lorentzrec recommend-all model --out recommendations.parquet -k 10
    $ lorentzrec recommend-all --store file:store --out emails.jsonl --categories Coat --diversity 0.3 --reasons
    $ lorentzrec recommend-all /shared/model --out az://container/recommendations --engine spark --master sc://host

    out: Table to write (user, rank, item, score, title, because): .parquet, .csv, .jsonl; without a suffix, a folder of
        Parquet files, which with Spark may be in az:// or s3://.
    arm NAME: Recommend from the current version of this arm of the store. Default: main.
    exclude: Items that are never recommended: ids separated by commas, or @FILE with one per line. Repeatable.
    exclude_seen: Whether items of a customer's history are left out. Default: they are, unless the model found that
        customers buy again.
    allow: Recommend only these, in the same form.
    categories: Recommend only items of this category, according to --titles or the store. Repeatable.
    diversity: From 0, the best items, to 1, items far from one another.
    reasons: Also list the items of the history that contribute most to each recommendation.
    titles: Item titles: a dataset, or a file with columns item and title. Default: those of the store.
    threads: Number of threads. Default: all cores; with Spark, those of a task.
    engine: local: this machine. spark: a cluster, whose workers all reach MODEL and OUT.
    master: Spark's master URL, or sc://HOST. Default: this machine.
    """
    from lorentzrec.batch.recommending import BatchOptions, recommend_to_all
    from lorentzrec.serving.stores.address import VARIABLE, open_store

    check_engine(engine, ("local", "spark"), spark={"master": master})
    source_of_store = context.get_parameter_source("store")
    if model is not None and source_of_store is not None and source_of_store.name == "ENVIRONMENT":
        store = None
        note([f"{VARIABLE} is set but not used, since MODEL is given: give --store as well to use a store"])
    remote = "://" in out
    if remote and engine == "local":
        raise InputError(f"{out} is not on this machine: give a local path, or --engine spark")
    if remote and force:
        raise InputError(f"--force overwrites tables on this machine, not {out}: remove it or choose another name")
    if not remote:
        refuse_target(Path(out), force=force)
    if reasons and Path(out).suffix == ".csv":
        raise InputError(f"{out} cannot have reasons, since CSV has no lists: end the name in .parquet or .jsonl")
    if arm is not None and (model is not None or store is None):
        raise InputError("--arm names an arm of a store, from which it recommends: give --store, and no MODEL")
    started = time.perf_counter()
    with ExitStack() as held:
        opened = None if store is None else held.enter_context(closing(open_store(store)))
        source, table = _open_source(model, opened, arm, titles, Path(held.enter_context(TemporaryDirectory())))
        live = None if opened is None else opened.live_items()
        known = source.model.items
        options = BatchOptions(
            k=k,
            exclude=tuple(parse_ids(exclude or [], known)),
            exclude_seen=exclude_seen,
            allow=None if allow is None else tuple(parse_ids(allow, known)),
            threads=threads,
            diversity=diversity,
            reasons=reasons,
        )
        options, notes = _with_filters(options, source, live, table, categories or [])
        if engine == "spark":
            from lorentzrec.spark.recommending import recommend_on_spark

            report = recommend_on_spark(source, out, options, say, master=master)
        else:
            with progress("Recommending", 1) as done:
                report = recommend_to_all(source, Path(out), options, done, say)
    counts = f"{Count(report.rows):recommendation|recommendations} for {Count(report.users):customer|customers}"
    print_result(
        {"file": out, **asdict(report), "seconds": time.perf_counter() - started},
        f"Wrote {counts} to {out}",
        json=json,
        notes=[*notes, *_describe(report)],
    )


def _open_source(
    model: Path | None, store: Store | None, arm: str | None, titles: str | None, scratch: Path
) -> tuple[BatchSource, pl.DataFrame | None]:
    """What to recommend from, and the table of its items if there is one."""
    from lorentzrec.batch.recommending import BatchSource, source_of_model
    from lorentzrec.batch.store_customers import model_of_version
    from lorentzrec.serving.stores.activations import MAIN
    from lorentzrec.serving.stores.faults import StoreFault
    from lorentzrec.serving.versions.item_directory import ItemDirectory
    from lorentzrec.serving.versions.version import ITEMS, open_version

    table = None if titles is None else item_table_at(titles)
    state = None if store is None else store.state()
    version = None if state is None else state.find_version(arm or MAIN)
    if store is not None and state is not None and state.arms and version is None:
        raise StoreFault.NO_ARM.error(store=store.url, arm=arm, arms=", ".join(state.arms))
    if model is not None:
        source = source_of_model(model, store)
        if store is not None and version is not None and table is None:
            with closing(ItemDirectory(store.fetch_file(version, ITEMS, scratch))) as directory:
                table = directory.table()
        elif store is not None and table is None:
            note([f"{store.url} has no version, so there are no titles: give --titles, or publish a model"])
    elif store is None:
        raise InputError("recommend-all needs something to recommend from: give a MODEL, or --store STORE")
    elif version is None:
        raise InputError(f"{store.url} has no version: publish a model to it, or give a MODEL")
    else:
        served = open_version(store.fetch(version, scratch))
        with closing(served.items):
            source = BatchSource(model_of_version(served), version, store=store)
            table = served.items.table() if table is None else table
    if table is not None:
        table = table.rename({"item": "id"}, strict=False)
        source = replace(source, titles=_titles(source, table))
    return source, table


def _titles(source: BatchSource, table: pl.DataFrame) -> pl.Series | None:
    """The title of each item of the model; None if the table has no titles."""
    import polars as pl

    if "title" not in table.columns:
        return None
    named = table.select(pl.col("id").cast(pl.String), "title")
    ids = source.model.items.series.cast(pl.String).to_frame("id")
    return ids.join(named, on="id", how="left", maintain_order="left")["title"]


def _with_filters(
    options: BatchOptions,
    source: BatchSource,
    live: LiveItems | None,
    table: pl.DataFrame | None,
    categories: list[str],
) -> tuple[BatchOptions, list[str]]:
    """The options with what live items and categories leave, and notes about it."""
    from lorentzrec.batch.store_customers import live_ids
    from lorentzrec.model.item_table import read_item_columns, rows_of_categories

    items, notes = source.model.items, []
    lists = [] if options.allow is None else [set(options.allow)]
    if live is not None:
        allowed, removed = live_ids(live, items)
        options = replace(options, exclude=(*options.exclude, *removed))
        if allowed is not None:
            lists.append(set(allowed))
            notes.append(f"{Count(len(allowed)):item of the model is|items of the model are} live")
            if unknown := len(live.items or ()) - len(allowed):
                notes.append(f"{Count(unknown):live item is|live items are} not in the model, and not recommended")
        elif removed:
            notes.append(f"{Count(len(removed)):item of the model is|items of the model are} not live")
    if categories:
        if table is None:
            raise InputError(
                "--categories needs a table with the categories of items: give it as --titles, or a --store"
            )
        columns = read_item_columns(items, table)
        rows, fallbacks = rows_of_categories(columns, categories)
        if fallbacks:
            unknown_names = [name for name in categories if not len(rows_of_categories(columns, [name])[0])]
            raise InputError(f"no item is in the category {unknown_names[0]!r}: check the name")
        lists.append(set(items.ids(rows)))
    if lists:
        left = set.intersection(*lists)
        if not left - set(options.exclude):
            raise InputError("no item is live and meets --allow, --exclude and --categories: give fewer conditions")
        options = replace(options, allow=tuple(sorted(left)))
    return options, notes


def _describe(report: BatchReport) -> list[str]:
    """What a reader of the results should know."""
    notes = []
    if (store := report.store) is not None:
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(store.taken))
        histories = (
            f"{store.customers_of_store:,} from {store.store} at {moment}, {store.customers_of_model:,} from MODEL"
        )
        notes.append(f"histories: {histories}")
        if store.erased_customers:
            notes.append(f"left out {Count(store.erased_customers):customer|customers} who were erased")
        if store.unknown_events:
            notes.append(f"ignored {Count(store.unknown_events):event|events} with items that the model does not have")
    if report.users_without_events:
        without = "training events" if store is None else "events with items of the model"
        notes.append(f"skipped {Count(report.users_without_events):customer|customers} without {without}")
    if report.parts_again:
        notes.append(f"{Count(report.parts_again):part|parts} of an unfinished run were damaged and computed again")
    if report.recall is not None:
        notes.append(f"with an index: {report.recall:.1%} of the true best items are among the results")
    return notes
