"""`lorentzrec plot`: a map of a model, for print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import item_table_at
from lorentzrec.cli.options import Natural, refuse_options
from lorentzrec.cli.output import note, print_result, progress, say
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from lorentzrec.maps.disk_map import Method
    from lorentzrec.model.model import Model


def plot(
    context: typer.Context,
    picture: str,
    model: Path,
    *,
    out: Path,
    items: str | None = None,
    category_column: str | None = None,
    method: str = "auto",
    customers: Natural = 0,
    labels: Natural = 0,
    seed: Natural = 0,
    json: bool = False,
) -> None:
    """Draw all items of a model, or its attributes, on the Poincaré disk, with their categories and some customers.

    A customer's star is at the midpoint of the items of their history. Popular items are larger. How well the map
    preserves the model is measured and printed.

    $ lorentzrec plot disk model --out disk.png --items shop
    $ lorentzrec plot disk model --out disk.pdf --items items.csv --customers 50 --labels 20
    $ lorentzrec plot disk model --out disk.svg --method neighbours
    $ lorentzrec plot attributes model --out attributes.png --labels 30

    picture PICTURE: disk: the items. attributes: the attributes that the model was trained with.
    out: A .png, .svg or .pdf file.
    items DATASET: Categories and titles: a dataset, or a file with a column item.
    category_column: The column of the category in that file, if it is not category.
    method: How to reduce the dimensions to two: levels, neighbours, plane.
    customers: Number of randomly chosen customers drawn as stars.
    labels: Maximum number of titles, or of attributes, popular ones first, where there is room.
    seed: Random seed, for the map and the customers.
    """
    from lorentzrec.maps.disk_map import customer_coordinates, make_disk_map, sample_customers
    from lorentzrec.maps.disk_plot import choose_labels, plot_disk
    from lorentzrec.model.artifact import load

    if picture not in ("disk", "attributes"):
        raise InputError(f"there is no picture {picture!r}: use disk or attributes")
    trained = load(model)
    if picture == "disk":
        drawn, names, categories = trained, *_titles_and_categories(trained, items, category_column, labels)
    else:
        refuse_options(context, ("items", "category_column", "customers"), "plot attributes")
        drawn, names, categories = _split_attributes(trained)
    histories = trained.histories if customers else None
    if customers and histories is None:
        raise InputError(f"{model} was saved without histories: leave --customers out, or train and save again")
    with progress("Mapping", 1) as done:
        found = make_disk_map(drawn, method=cast("Method", method), seed=seed, progress=done)
    popular = drawn.item_counts.argsort(kind="stable")[::-1].tolist()
    stars = None
    if histories is not None:
        stars = customer_coordinates(found.coordinates, histories, sample_customers(histories, customers, seed))
    plot_disk(
        found.coordinates,
        out,
        categories=categories,
        counts=drawn.item_counts,
        customers=stars,
        labels=choose_labels(found.coordinates, ((row, name) for row in popular if (name := names[row])), labels),
    )
    say(found.description())
    kind, noun = ("items", "item|items") if picture == "disk" else ("attributes", "attribute|attributes")
    result = {"file": str(out), kind: len(drawn.items), "method": found.method, "kept": found.kept}
    shown = [f"The map of {Count(len(drawn.items)):{noun}} is in {out}"]
    if picture == "attributes" and trained.attributes is not None:
        correlation = trained.attributes.depth_correlation(hyperbolic=trained.config.hyperbolic)
        result["depth_and_radius"] = correlation
        shown += [] if correlation is None else [f"Rank correlation of depth and radius: {correlation:.2f}"]
    print_result(result, *shown, json=json)


def _titles_and_categories(
    model: Model, address: str | None, category_column: str | None, labels: int
) -> tuple[Sequence[str | None], list[str | None] | None]:
    """Of each item in the order of the model's rows, from an item table; no categories if it has none."""
    import polars as pl

    from lorentzrec.ingest.item_table import first_category, with_item_table

    if address is None:
        if labels or category_column:
            raise InputError("titles and categories come from an item table: name a dataset or a file with --items")
        return [None] * len(model.items), None
    table = item_table_at(address, {"category": category_column} if category_column else None)
    if labels and "title" not in table.columns:
        raise InputError(f"{address} has no column title: give an item file that has one, or leave --labels out")
    joined, fit = with_item_table(pl.DataFrame({"id": model.items.series}), table)
    note([fit])
    columns = first_category(joined).to_dict(as_series=False)
    return columns.get("title", [None] * len(model.items)), columns.get("category")


def _split_attributes(model: Model) -> tuple[Model, Sequence[str], list[str | None]]:
    """The attributes as items, their names, and what they are coloured by: their columns or, if they are paths, the
    first category on them."""
    from lorentzrec.model.catalogue import with_attributes_as_items

    drawn = with_attributes_as_items(model)
    assert model.attributes is not None
    values = [str(one) for one in drawn.item_ids]
    categories: list[str | None] = [
        value.partition(" > ")[0] if depth else value.partition("=")[0]
        for value, depth in zip(values, model.attributes.depths.tolist(), strict=True)
    ]
    return drawn, [value.partition("=")[2].rpartition(" > ")[2] for value in values], categories
