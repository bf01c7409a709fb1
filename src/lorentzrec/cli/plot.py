"""`lorentzrec plot`: a map of a model, for print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from lorentzrec.cli.inputs import item_table_at
from lorentzrec.cli.options import Natural
from lorentzrec.cli.output import note, print_result, progress, say
from lorentzrec.counting import Count
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.model.model import Model
    from lorentzrec.reduction.disk_map import Method


def plot(
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
    """Draw all items of a model, or its attributes, on the Poincare disk, with their categories and some customers.

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
    from lorentzrec.figures.disk import choose_labels, plot_disk
    from lorentzrec.model.artifact import load
    from lorentzrec.reduction.disk_map import customer_coordinates, disk_map_of, sample_customers

    if picture not in ("disk", "attributes"):
        raise InputError(f"there is no picture {picture!r}: use disk or attributes")
    if picture == "attributes":
        return _plot_attributes(load(model), out, cast("Method", method), labels, seed, json)
    trained = load(model)
    table = None if items is None else _item_table(trained, items, category_column)
    if (labels and (table is None or "title" not in table.columns)) or (category_column and items is None):
        raise InputError("titles and categories come from an item table: name a dataset or a file with --items")
    histories = trained.histories if customers else None
    if customers and histories is None:
        raise InputError(f"{model} was saved without histories: leave --customers out, or train and save again")
    with progress("Mapping", 1) as done:
        drawn = disk_map_of(trained, method=cast("Method", method), seed=seed, progress=done)
    texts = {}
    if table is not None and labels:
        popular = trained.item_counts.argsort(kind="stable")[::-1].tolist()
        titles = ((row, table["title"][row]) for row in popular if table["title"][row])
        texts = choose_labels(drawn.coordinates, titles, labels)
    stars = None
    if histories is not None:
        sample = sample_customers(histories, customers, seed)
        stars = customer_coordinates(drawn.coordinates, histories, sample)
    plot_disk(
        drawn.coordinates,
        out,
        categories=table["category"].to_list() if table is not None and "category" in table.columns else None,
        counts=trained.item_counts,
        customers=stars,
        labels=texts,
    )
    say(drawn.description())
    result = {"file": str(out), "items": len(trained.items), "method": drawn.method, "kept": drawn.kept}
    return print_result(result, f"The map of {Count(len(trained.items)):item|items} is in {out}", json=json)


def _plot_attributes(model: Model, out: Path, method: Method, labels: int, seed: int, json: bool) -> None:
    """Draw attributes, coloured by their columns or, if they are paths, by the first category on them."""
    from lorentzrec.figures.disk import choose_labels, plot_disk
    from lorentzrec.model.catalogue import with_attributes_as_items
    from lorentzrec.reduction.disk_map import disk_map_of

    drawn_model = with_attributes_as_items(model)
    assert model.attributes is not None
    with progress("Mapping", 1) as done:
        drawn = disk_map_of(drawn_model, method=method, seed=seed, progress=done)
    values = [str(one) for one in drawn_model.item_ids]
    groups = [
        value.partition(" > ")[0] if depth else value.partition("=")[0]
        for value, depth in zip(values, model.attributes.depths.tolist(), strict=True)
    ]
    popular = drawn_model.item_counts.argsort(kind="stable")[::-1].tolist()
    names = ((row, values[row].partition("=")[2].rpartition(" > ")[2]) for row in popular)
    texts = choose_labels(drawn.coordinates, names, labels) if labels else {}
    plot_disk(drawn.coordinates, out, categories=groups, counts=drawn_model.item_counts, labels=texts)
    say(drawn.description())
    correlation = model.attributes.depth_correlation(hyperbolic=model.config.hyperbolic)
    kept = {"method": drawn.method, "kept": drawn.kept, "depth_and_radius": correlation}
    text = f"The map of {Count(len(values)):attribute|attributes} is in {out}"
    followed = [] if correlation is None else [f"Rank correlation of depth and radius: {correlation:.2f}"]
    print_result({"file": str(out), "attributes": len(values), **kept}, text, *followed, json=json)


def _item_table(model: Model, place: str, category_column: str | None) -> pl.DataFrame:
    """The item table in the order of the model's rows, with the first category of each item."""
    import polars as pl

    from lorentzrec.ingest.item_table import first_category, with_item_table

    table = item_table_at(place, {"category": category_column} if category_column else None)
    joined, fit = with_item_table(pl.DataFrame({"id": model.items.series}), table)
    note([fit])
    return first_category(joined)
