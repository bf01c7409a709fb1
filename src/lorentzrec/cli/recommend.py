"""`lorentzrec recommend` and `similar`: recommendations of a model, without a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.cli.inputs import item_table_at, parse_ids, read_titles
from lorentzrec.cli.output import print_result, table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.model.recommendations import Recommendations

_KINDS = {
    "near": "near",
    "often_after": "often after",
    "often_with": "often with",
    "category_with": "its category often with",
    "bought_before": "bought before",
    "trending": "more popular than usual",
}


def recommend(
    model: Path,
    *,
    history: list[str] | None = None,
    user: str | None = None,
    k: int = 10,
    exclude: list[str] | None = None,
    exclude_seen: bool | None = None,
    allow: list[str] | None = None,
    context: list[str] | None = None,
    categories: list[str] | None = None,
    diversity: float = 0.0,
    reasons: bool = False,
    titles: str | None = None,
    json: bool = False,
) -> None:
    """Recommend items for a history, or for a customer of the training data.

    A history may be of a customer whom the model does not know.

    $ lorentzrec recommend model --history sku-1,sku-9
    $ lorentzrec recommend model --user u-17 -k 20 --titles shop
    $ lorentzrec recommend model --history @basket.txt --allow @in-stock.txt --json
    $ lorentzrec recommend model --user u-17 --context sku-4 --categories Jacket --diversity 0.3 --reasons --titles shop

    history: Items of the history, oldest first: ids separated by commas, or @FILE with one per line. Repeatable.
    user: A customer of the training data.
    exclude: Items that are never recommended, in the same form.
    exclude_seen: Whether items of the history are left out. Default: they are, unless the model found that customers
        buy again.
    allow: Recommend only these, in the same form.
    context: Items viewed just now, in the same form: they count as the newest of the history.
    categories: Recommend only items of this category, according to the table given as --titles. Repeatable.
    diversity: From 0, the best items, to 1, items far from one another.
    reasons: Also list the items of the history that contribute most to each recommendation.
    """
    from lorentzrec.model.artifact import load

    if categories and titles is None:
        raise InputError("--categories needs a table with the categories of items: give it as --titles")
    trained = load(model)
    if (history is None) == (user is None):
        raise InputError("recommend takes either --history or --user: give one of them")
    found = trained.recommend(
        None if history is None else parse_ids(history, trained.items),
        user if user is None or trained.users is None else trained.users.parse(user),
        k=k,
        exclude=parse_ids(exclude or [], trained.items),
        exclude_seen=exclude_seen,
        allow=None if allow is None else parse_ids(allow, trained.items),
        context=parse_ids(context or [], trained.items),
        categories=categories or (),
        item_table=item_table_at(titles) if categories and titles is not None else None,
        diversity=diversity,
        reasons=reasons,
    )
    print_recommendations(found, model, titles, json)


def similar(
    model: Path,
    item: str,
    *,
    k: int = 10,
    allow: list[str] | None = None,
    reasons: bool = False,
    titles: str | None = None,
    json: bool = False,
) -> None:
    """List the items most similar to an item, by what customers buy. Popular items have no advantage.

    $ lorentzrec similar model sku-1 -k 5 --titles items.csv

    item: The id of an item.
    allow: Recommend only these: ids separated by commas, or @FILE with one per line. Repeatable.
    reasons: Also list whether the same customers buy both items, or only their points are near.
    """
    from lorentzrec.model.artifact import load

    trained = load(model)
    allowed = None if allow is None else parse_ids(allow, trained.items)
    found = trained.similar_items(trained.items.parse(item), k, allow=allowed, reasons=reasons)
    print_recommendations(found, model, titles, json)


def recommendation_table(found: Recommendations, titles: dict[str, str | None], title: str | None = None) -> Table:
    """The items in order, with titles and reasons if there are any."""
    columns = {"": "right dim", "item": "left bold"} | ({"title": "left"} if titles else {}) | {"score": "right"}
    rows = [
        [rank, item, *([titles.get(str(item))] if titles else []), f"{score:.4f}"]
        for rank, (item, score) in enumerate(found, start=1)
    ]
    if found.reasons is not None:
        columns |= {"because of": "left"}
        for row, because in zip(rows, found.reasons, strict=True):
            row.append(", ".join(f"{reason.item} ({reason.share:.0%}, {_KINDS[reason.kind]})" for reason in because))
    return table(columns, rows, title=title)


def print_recommendations(found: Recommendations, model: Path, titles: str | None, json: bool) -> None:
    """Print one list with titles, reasons and its fallback."""
    names = read_titles(titles)
    items: list[dict[str, Any]] = [
        {"id": item, "score": score} | ({"title": names.get(str(item))} if names else {}) for item, score in found
    ]
    for item, because in zip(items, found.reasons or (), strict=found.reasons is not None):
        item["because"] = [reason._asdict() for reason in because]
    result = {"items": items, "model": str(model), "fallback": found.fallback}
    notes = [found.fallback] if found.fallback else []
    print_result(result, recommendation_table(found, names), json=json, notes=notes)
