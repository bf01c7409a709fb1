"""`lorentzrec plot`: a model as a picture for print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lorentzrec.cli.options import Json, ModelFolder
from lorentzrec.cli.output import note, print_json, progress, say, show
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.model.model import Model


PICTURES = ("disk",)


def plot(
    picture: Annotated[str, typer.Argument(metavar="disk", help="What to draw.")],
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="A .png, .svg or .pdf file.")],
    items: Annotated[
        str | None,
        typer.Option(metavar="DATASET", help="Categories and titles: a dataset, or a file with a column item."),
    ] = None,
    category_column: Annotated[
        str | None, typer.Option(help="Column of the category in that file, if not category.")
    ] = None,
    method: Annotated[str, typer.Option(help="From many dimensions to two: levels, neighbours, plane.")] = "auto",
    customers: Annotated[int, typer.Option(min=0, help="So many customers as stars, drawn by chance.")] = 0,
    labels: Annotated[
        int, typer.Option(min=0, help="At most so many titles, popular items first, where there is room.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Fixes the map and the customers.")] = 0,
    json: Json = False,
) -> None:
    """Draw all items of a model on the Poincare disk, with their categories and some customers.

    A customer's star stands at the midpoint of the places of their history. Popular items are larger. What the map
    keeps of the model is measured and printed.
    """
    from lorentzrec.figures.disk import labels_with_room, plot_disk
    from lorentzrec.model.artifact import load
    from lorentzrec.reduction.customers import customer_coordinates, sampled_customers
    from lorentzrec.reduction.disk_map import Method, disk_map

    if picture not in PICTURES:
        raise InputError(f"there is no picture {picture!r}: use {', '.join(PICTURES)}")
    trained = load(model)
    table = None if items is None else _item_table(trained, items, category_column)
    if (labels and (table is None or "title" not in table.columns)) or (category_column and items is None):
        raise InputError("titles and categories come from an item table: name a dataset or a file with --items")
    stars = None
    if customers:
        if trained.histories is None:
            raise InputError(f"{model} was saved without histories: leave --customers out, or train and save again")
        stars = sampled_customers(trained.histories, customers, seed)
    with progress("mapping", 1) as tell:
        drawn = disk_map(
            trained.item_points,
            geometry=trained.config.geometry,
            counts=trained.item_counts,
            method=cast(Method, method),
            seed=seed,
            progress=tell,
        )
    words = {}
    if table is not None and labels:
        popular = trained.item_counts.argsort(kind="stable")[::-1].tolist()
        titles = ((row, table["title"][row]) for row in popular if table["title"][row])
        words = labels_with_room(drawn.coordinates, titles, labels)
    plot_disk(
        drawn.coordinates,
        out,
        categories=table["category"].to_list() if table is not None and "category" in table.columns else None,
        counts=trained.item_counts,
        customers=None
        if stars is None or trained.histories is None
        else customer_coordinates(drawn.coordinates, trained.histories, stars),
        labels=words,
    )
    if json:
        print_json({"file": str(out), "items": len(trained.items), "method": drawn.method, "kept": drawn.kept})
    else:
        say(drawn.description())
        show(f"The map of {len(trained.items):,} items is in {out}")


def _item_table(model: Model, place: str, category_column: str | None) -> pl.DataFrame:
    """What is told of the model's items, in the order of its rows; of several categories the first."""
    import polars as pl

    from lorentzrec.ingest.dataset import is_dataset, open_dataset
    from lorentzrec.ingest.item_table import first_category, read_item_table, with_item_table

    if is_dataset(place):
        table = open_dataset(place).items.rename({"id": "item"}).drop("row", "count")
    else:
        table = read_item_table(place, columns={"category": category_column} if category_column else None)
    joined, fit = with_item_table(pl.DataFrame({"id": model.items.series}), table)
    note([fit])
    return first_category(joined)
