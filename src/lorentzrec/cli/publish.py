"""`lorentzrec publish`: a model becomes what the service answers with."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, show, stages
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

PARTS = ("items", "twin", "histories", "keep", "map", "index")
"""Options of a new version."""


def publish(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="STORE", help="file:DIR, postgresql://... or cosmos://...")],
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="The folder of a trained model.")] = None,
    items: Annotated[
        str | None, typer.Option(metavar="DATASET", help="A dataset with titles and categories of the items.")
    ] = None,
    twin: Annotated[
        Path | None, typer.Option(metavar="MODEL2", help="Another model of the same items, to compare answers.")
    ] = None,
    histories: Annotated[bool, typer.Option("--histories", help="Put the training histories into the store.")] = False,
    keep: Annotated[int, typer.Option(min=1, help="How many versions the store keeps.")] = 3,
    map: Annotated[bool, typer.Option("--map/--no-map", help="Make the map of all items for the page.")] = True,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Make an index where there are many items.")] = True,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back to the version before this one.")] = False,
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
        from lorentzrec.serving import publish as publishing

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
    from lorentzrec.learning.artifact import load
    from lorentzrec.reduction.disk_map import disk_map
    from lorentzrec.serving.publish import publish
    from lorentzrec.serving.stores.address import open_store

    model = load(folder)
    other = None if twin is None else load(twin)
    if histories and model.histories is None:
        raise InputError(f"{folder} was saved without histories: leave --histories out, or train and save again")
    table = None if items is None else _item_table(items)
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
            histories=model.histories if histories else None,
            keep=keep,
            index=index,
            progress=tell,
        )
        result = {
            "model": published.name,
            "store": store.url,
            "items": published.manifest["items"],
            "described_items": published.manifest["described_items"],
            "index": published.manifest["index"],
            "map": published.manifest["map"],
            "events": None if published.events is None else vars(published.events),
            "versions": store.versions(),
        }
    if json:
        print_json(result)
        return
    show(f"{published.name} is the current version of {result['store']}: {result['items']:,} items")
    if published.events is not None:
        show(f"histories: {published.events.accepted:,} events added, {published.events.duplicates:,} were there")
    note(published.manifest["notes"])
    if table is not None and result["described_items"] < result["items"]:
        note([f"{result['items'] - result['described_items']:,} items have no title in {items}"])


def _item_table(place: str) -> pl.DataFrame:
    from lorentzrec.data.dataset import is_dataset, open_dataset

    if not is_dataset(place):
        raise InputError(f"{place} is not a dataset: give the folder that `lorentzrec prepare` wrote")
    return open_dataset(place).items
