"""`lorentzrec publish`: a model becomes what the service answers with."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorentzrec.cli.events import dataset_at
from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, show, stages
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.ingest.dataset import Dataset
    from lorentzrec.serving.stores.store import Added

PARTS = ("items", "twin", "histories", "keep", "map", "index")
"""Options of a new version."""


def publish(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="STORE", help="file:DIR, postgresql://... or cosmos://...")],
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="The folder of a trained model.")] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="What the items are called: a dataset, or a file with columns item, title, category.",
        ),
    ] = None,
    twin: Annotated[
        Path | None, typer.Option(metavar="MODEL2", help="Another model of the same items, to compare answers.")
    ] = None,
    histories: Annotated[
        bool,
        typer.Option("--histories", help="Put what customers did into the store: all events of the --items dataset."),
    ] = False,
    keep: Annotated[int, typer.Option(min=1, help="How many versions that were live the store keeps.")] = 3,
    map: Annotated[bool, typer.Option("--map/--no-map", help="Make the map of all items for the page.")] = True,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Make an index where there are many items.")] = True,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back to the version that was live before.")] = False,
    json: Json = False,
) -> None:
    """Make a model the current version of a store, from which `lorentzrec serve` answers.

    Running services take the new version into use by themselves, and no answer mixes two. If anything fails, the store
    answers as before.
    """
    from lorentzrec.serving.stores.address import open_store

    if rollback == (model is not None):
        raise InputError("publishing takes a MODEL, and --rollback takes none: give one of them")
    if model is None:
        sources = {name: context.get_parameter_source(name) for name in PARTS}
        if ignored := [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]:
            raise InputError(f"--rollback makes no version, so it takes no --{ignored[0]}: leave it out")
        from lorentzrec.serving.versions import publish as publishing

        with closing(open_store(to)) as store:
            name = publishing.rollback(store)
            if json:
                print_json({"model": name, "store": store.url})
            else:
                show(f"{name} is again the current version of {store.url}")
        return
    _publish(model, to, items, twin, histories, keep, map, index, json)


def _publish(
    folder: Path,
    to: str,
    items: str | None,
    twin: Path | None,
    histories: bool,
    keep: int,
    map: bool,
    index: bool,
    json: bool,
) -> None:
    from lorentzrec.model.artifact import load
    from lorentzrec.reduction.disk_map import disk_map
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.versions.publish import publish

    model = load(folder)
    other = None if twin is None else load(twin)
    dataset = None if items is None else dataset_at(items)
    table = None if items is None else _item_table(items, dataset)
    events, source = None, folder if dataset is None else items
    if histories:
        events = model.histories if dataset is None else dataset.interactions()
        if events is None:
            raise InputError(f"{folder} was saved without histories: give --items DATASET, or leave --histories out")
    with closing(open_store(to, create=True)) as store, stages() as tell:
        drawn = None
        if map:
            drawn = disk_map(
                model.item_points,
                geometry=model.config.geometry,
                counts=model.item_counts,
                progress=lambda share: tell("making the map", share),
            )
        published = publish(
            model,
            store,
            items=table,
            disk_map=drawn,
            twin=other,
            histories=events,
            keep=keep,
            index=index,
            event_weights=None if dataset is None else dataset.event_weights,
            progress=tell,
        )
        result = {
            "model": published.name,
            "store": store.url,
            "items": published.manifest["items"],
            "described_items": published.manifest["described_items"],
            "index": published.manifest["index"],
            "map": published.manifest["map"],
            "events": None if published.events is None else _counts(published.events),
            "versions": store.versions(),
        }
    if events is not None and events.times is None:
        again = "" if source == items else ", and what a service was told counts again: give --items DATASET"
        note([f"{source} has no times of its events, so their places in each history stand for times{again}"])
    if json:
        print_json(result)
        return
    show(f"{published.name} is the current version of {result['store']}: {result['items']:,} items")
    if published.events is not None:
        added = published.events
        show(f"histories: {added.accepted:,} events added, {added.duplicates:,} were there")
        if added.erased:
            who = "1 erased customer was" if len(added.erased) == 1 else f"{len(added.erased):,} erased customers were"
            show(f"histories: {who} left out, but for what they did since")
    note(published.manifest["notes"])
    if table is not None and result["described_items"] < result["items"]:
        note([f"{result['items'] - result['described_items']:,} items have no title in {items}"])


def _item_table(place: str, dataset: Dataset | None) -> pl.DataFrame:
    from lorentzrec.ingest.item_table import read_item_table

    if dataset is not None:
        return dataset.items
    table = read_item_table(place).rename({"item": "id"})
    if table.columns == ["id"]:
        raise InputError(f"{place} says nothing of its items: give a file with columns item and title, category, ...")
    return table


def _counts(added: Added) -> dict[str, int]:
    return {"accepted": added.accepted, "duplicates": added.duplicates, "erased_customers": len(added.erased)}
