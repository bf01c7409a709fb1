"""Conditions, categories and alternatives of `Model`, by a table of items or by the attributes of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.errors import InputError
from lorentzrec.model.item_table import columns_of_attributes
from lorentzrec.points.fallbacks import FallbackKind
from tests.model.hand_made_models import hand_made, interactions

MODEL = hand_made(interactions(weighted=True))
NUMBERS = range(30)
TABLE = pl.DataFrame(
    {
        "item": [f"i{number}" for number in NUMBERS] + ["never trained"],
        "category": ["coats", "hats|wool", None] * 10 + ["rings"],
        "department": ["outer", "outer", "home"] * 10 + ["jewels"],
        "brand": ["Acme" if number % 4 else "Bolt" for number in NUMBERS] + ["Acme"],
        "price": [float(number) for number in NUMBERS] + [1.0],
        "title": ["a title"] * 31,
    }
)


def ids(numbers: Any) -> set[str]:
    return {f"i{number}" for number in numbers}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"brand": "Bolt"}, range(0, 30, 4)),
        ({"brand": ["Bolt", "Acme"], "price": {"min": 5, "max": 8}}, range(5, 9)),
        ({"price": {"max": 3}}, range(4)),
        ({"price": [2, 4.0, 99]}, [2, 4]),
        ({"category": "hats", "price": {"min": 20}}, [22, 25, 28]),
        ({"brand": "nobody"}, []),
    ],
)
def test_conditions_leave_the_items_that_meet_them(where: dict[str, Any], expected: Any) -> None:
    everything: dict[str, Any] = {"k": 30, "item_table": TABLE, "where": where}
    assert set(MODEL.recommend(["i29"], exclude_seen=False, **everything).ids) == ids(expected)
    assert set(MODEL.similar_items("i29", **everything).ids) == ids(expected) - {"i29"}
    both = MODEL.recommend(["i29"], categories=["coats"], exclude_seen=False, **everything)
    assert set(both.ids) == ids(number for number in expected if number % 3 == 0)


def test_a_table_is_read_once_for_many_calls() -> None:
    columns = MODEL.item_columns(TABLE.to_pandas())
    assert columns.names == ["brand", "category", "department", "price"]
    found = MODEL.recommend(["i3"], where={"brand": "Bolt"}, item_table=columns)
    assert found.ids == MODEL.recommend(["i3"], where={"brand": "Bolt"}, item_table=TABLE).ids
    with pytest.raises(InputError, match="item_table has 5 items and the model 30"):
        MODEL.recommend(["i3"], where={"brand": "Bolt"}, item_table=ItemColumns(5))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"colour": "red"}, "the items have no column 'colour': the columns are brand, category, department, price"),
        ({"brand": {"min": 1}}, "the column 'brand' has texts, which have no range"),
        ({"price": "cheap"}, "the column 'price' has numbers: give a number instead of 'cheap'"),
        ({"price": {"min": 5, "max": 2}}, "the condition on 'price' has a min larger than its max"),
        ({"price": {"least": 5}}, "the condition on 'price' is {'least': 5}: give numbers as min, max or both"),
        ({"price": {}}, "give numbers as min, max or both"),
        ({"price": []}, "give a value, a list of values, or min and max"),
        ("brand", "where is 'brand': give a condition for each column"),
    ],
)
def test_conditions_that_make_no_sense(where: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        MODEL.recommend(["i1"], where=where, item_table=TABLE)


def test_alternatives_are_of_the_category_and_then_of_the_parent() -> None:
    near = MODEL.alternatives("i0", k=9, item_table=TABLE)
    assert set(near.ids) == ids(range(3, 30, 3))
    assert near.fallback is None
    wide = MODEL.alternatives("i0", k=12, item_table=TABLE, reasons=True)
    assert wide.ids[:9] == near.ids
    assert set(wide.ids[9:]) <= ids(range(1, 30, 3))
    assert wide.fallback_kinds == (FallbackKind.WIDENED,)
    assert wide.reasons is not None
    assert {reason.item for because in wide.reasons for reason in because} == {"i0"}
    in_stock = MODEL.alternatives("i0", allow=["i6", "i7", "i8"], where={"price": {"max": 6}}, item_table=TABLE)
    assert in_stock.ids == ["i6"]
    nothing = MODEL.alternatives("i2", item_table=TABLE)
    assert (nothing.ids, nothing.fallback_kinds) == ([], (FallbackKind.NO_CATEGORY,))
    alone = MODEL.alternatives("i0", allow=["i2"], item_table=TABLE)
    assert (alone.ids, alone.fallback_kinds) == ([], (FallbackKind.NOTHING_ALLOWED,))
    many = MODEL.alternatives_many(["i0", "i1"], k=2, item_table=TABLE)
    assert many[0].ids == near.ids[:2]
    assert many.to_frame()["query"].to_list() == ["i0", "i0", "i1", "i1"]


def test_a_table_that_does_not_fit_is_refused() -> None:
    for table, message in [
        (TABLE.drop("category"), "the items have no column 'category'"),
        (TABLE.rename({"item": "sku"}), "item_table has the columns sku, .*: give one with item"),
        (pl.concat([TABLE, TABLE[:1]]), "item_table has the item 'i0' twice"),
        (None, "a model without attributes knows nothing about its items: give item_table="),
    ]:
        with pytest.raises(InputError, match=message):
            MODEL.alternatives("i0", item_table=table)


def test_attributes_are_columns() -> None:
    frame = pl.DataFrame(
        {
            "item": ["a", "b", "c"],
            "category": ["x > y", "x > y", "x > z"],
            "brand": ["m", None, "m"],
            "price": [1, 2, 2],
        }
    )
    columns = columns_of_attributes(ItemAttributes.from_frame(frame, ["category", "brand", "price:number"]))
    assert columns.names == ["brand", "category"]
    assert np.flatnonzero(columns.find({"category": "x > y"})).tolist() == [0, 1]
    assert np.flatnonzero(columns.find({"category": "x"})).tolist() == [2], "only one item has z"
    assert np.flatnonzero(columns.find({"brand": "m"})).tolist() == [0, 2]
