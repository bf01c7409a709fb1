"""Customers of a synthetic shop buy outfits, and a model finds what belongs together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lorentzrec import ConfigError, TrainingConfig, train
from lorentzrec.synthetic.config import SyntheticConfig
from lorentzrec.synthetic.hierarchy import HIERARCHY
from lorentzrec.synthetic.outfits import CATEGORIES
from lorentzrec.synthetic.shop import SyntheticShop


def make_shop(outfits: float, **others: float) -> SyntheticShop:
    fields = {"customers": 200, "items": 256, "interactions": 6_000, "order_size": 4, "outfits": outfits} | others
    return SyntheticShop(SyntheticConfig(**fields))  # type: ignore[arg-type]


def share_of_complements(shop: SyntheticShop) -> float:
    """Of the items after another one of the same order, how many are of the category that goes with it, and of the
    style at the same position among those of their department."""
    position_of = {
        (department, style): styles.index(style) for department, (_, styles) in HIERARCHY.items() for style in styles
    }
    described = {
        item: (category, position_of[department, style])
        for item, department, category, style in shop.items.select(
            "item", "department", "category", "style"
        ).iter_rows()
    }
    found = [
        described[item] == (shop.complements[described[before][0]], described[before][1])
        for (before, first), (item, second) in pairwise(shop.events.select("item", "order").iter_rows())
        if first == second
    ]
    return sum(found) / len(found)


def test_orders_have_complements() -> None:
    shop = make_shop(0.6)
    assert sorted(shop.complements) == sorted(shop.complements.values()) == sorted(CATEGORIES)
    assert all(one != other for one, other in shop.complements.items())
    many = {"items": 2_000, "interactions": 3_000}  # so that customers seldom have the item that they would buy
    assert share_of_complements(make_shop(0.0, **many)) < 0.1 < 0.4 < share_of_complements(make_shop(0.6, **many))


def test_no_customer_buys_an_item_twice_unless_they_repeat() -> None:
    events = make_shop(0.6).events
    assert len(events) == 6_000
    assert not events.select("user", "item").is_duplicated().any()
    assert make_shop(0.6, repeats=0.3).events.select("user", "item").is_duplicated().any()


def test_outfits_need_orders() -> None:
    with pytest.raises(ConfigError, match="give order_size as well"):
        SyntheticConfig(outfits=0.5)


def test_a_model_finds_the_complements_of_the_generator() -> None:
    shop = make_shop(0.6)
    model = train(shop.interactions(), TrainingConfig(dimension=4, epochs=1, seed=1), progress=False)
    columns = model.item_columns(shop.items)
    category_of = dict(shop.items.select("item", "category").iter_rows())
    popular = sorted(zip(model.item_counts.tolist(), model.item_ids, strict=True), reverse=True)[:100]

    def found(trained: object) -> float:
        hits = [
            shop.complements[category_of[item]]
            in {category_of[other] for other in trained.complete([item], 3, item_table=columns).ids}  # type: ignore[attr-defined]
            for _, item in popular
        ]
        return sum(hits) / len(hits)

    assert found(model) >= 0.9
    assert found(model.with_points(complements=None)) < 0.6, "a filter of categories does not find them"
