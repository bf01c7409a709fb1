"""`lorentzrec complete`: outfits of a model, without a service."""

from __future__ import annotations

from pathlib import Path

from lorentzrec.cli.inputs import item_table_at, parse_ids
from lorentzrec.cli.recommend import print_recommendations


def complete(
    model: Path,
    *,
    basket: list[str],
    items: str,
    k: int = 10,
    per_category: int = 1,
    slots: list[str] | None = None,
    budget: float | None = None,
    exclude: list[str] | None = None,
    allow: list[str] | None = None,
    reasons: bool = False,
    titles: str | None = None,
    json: bool = False,
) -> None:
    """Complete a basket to an outfit: items of other categories that customers buy in one order with its items.

    $ lorentzrec complete model --basket sku-1,sku-9 --items items.csv
    $ lorentzrec complete model --basket sku-1 --items items.csv --slots Shoes --slots Belt --budget 150 --reasons

    basket: Items of the basket: ids separated by commas, or @FILE with one per line. Repeatable.
    items: Categories and prices of the items: a dataset, or a file with columns item, category and, for a budget,
        price.
    k: The largest number of items.
    per_category: The largest number of items of one category.
    slots: A category to fill; the outfit has no other. Default: those that are not in the basket. Repeatable.
    budget: What the items may cost together.
    exclude: Items that are never recommended, in the form of the basket.
    allow: Recommend only these, in the same form.
    reasons: Also list the items of the basket that each item is bought together with.
    """
    from lorentzrec.model.artifact import load

    trained = load(model)
    found = trained.complete(
        parse_ids(basket, trained.items),
        k,
        per_category=per_category,
        slots=slots,
        budget=budget,
        exclude=parse_ids(exclude or [], trained.items),
        allow=None if allow is None else parse_ids(allow, trained.items),
        item_table=item_table_at(items, others=True),
        reasons=reasons,
    )
    print_recommendations(found, model, titles, json)
