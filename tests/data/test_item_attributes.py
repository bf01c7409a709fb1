"""Columns of item tables as attributes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lorentzrec.data.attributes import BINS, LONGEST_VALUE, ItemAttributes
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError

FRAME = pl.DataFrame(
    {
        "item": ["boot", "shoe", "shirt", "sock", "hat"],
        "category": ["Women > Shoes > Boots", "Women > Shoes", "Men > Shirts | Women", "Men > Shirts", None],
        "brand": ["A", "B", "A", "", "B"],
    }
)


def of(attributes: ItemAttributes, item: str) -> list[str]:
    row = attributes.items.row(item)
    return [str(one) for one in attributes.values.ids(attributes.rows[slice(*attributes.offsets[row : row + 2])])]


@pytest.mark.parametrize("columns", [["brand", "brand"], ["brand", "brand:values"]])
def test_a_column_is_named_once(columns: list[str]) -> None:
    frame = pl.DataFrame({"item": ["a", "b"], "brand": ["x", "x"]})
    with pytest.raises(ConfigError, match="the column 'brand' of attributes is named 2 times: name it once"):
        ItemAttributes.from_frame(frame, columns)


def test_each_prefix_of_a_path_is_a_value() -> None:
    found = ItemAttributes.from_frame(FRAME)
    assert of(found, "boot") == ["category=Women", "category=Women > Shoes", "brand=A"]
    assert of(found, "shirt") == ["category=Men", "category=Men > Shirts", "category=Women", "brand=A"]
    assert of(found, "hat") == ["brand=B"]
    assert found.notes == ("1 attribute that only one item has was left out",)
    assert [column.kind for column in found.columns] == ["path", "values"]
    assert repr(found) == "ItemAttributes(6 attributes of 5 items)"


def test_the_category_is_the_most_special_one() -> None:
    found = ItemAttributes.from_frame(FRAME)
    names = [None if row == UNKNOWN else found.values.id(row) for row in found.categories.tolist()]
    assert names[:2] == ["category=Women > Shoes", "category=Women > Shoes"]
    assert names[3:] == ["category=Men > Shirts", None]


def test_numbers_are_in_bins_of_equally_many_items() -> None:
    frame = pl.DataFrame({"item": range(100), "price": [str(number) for number in range(100)]})
    found = ItemAttributes.from_frame(frame)
    assert found.columns[0].kind == "number"
    assert found.item_counts.tolist() == [100 // BINS] * BINS
    assert "price=below 9.9" in found.values
    new = found.encode(pl.DataFrame({"item": [1000], "price": [-5.0]}))
    assert new.values.id(int(new.rows[0])) == "price=below 9.9"


def test_a_kind_can_be_given() -> None:
    frame = pl.DataFrame({"item": range(6), "code": ["1", "2", "1", "2", "1", "3"], "note": ["a>b"] * 6})
    found = ItemAttributes.from_frame(frame, ["code:values", "note:values"])
    assert sorted(found.values.series.to_list()) == ["code=1", "code=2", "note=a>b"]


def test_lists_and_pandas_frames_are_read() -> None:
    frame = pd.DataFrame({"item": [1, 2], "tag": ["a|b", "b|a"]})
    assert ItemAttributes.from_frame(frame).counts.tolist() == [2, 2]
    lists = pl.DataFrame({"item": [1, 2], "tag": [["a", "b"], ["a"]]})
    assert ItemAttributes.from_frame(lists).counts.tolist() == [1, 1]


def test_new_items_have_the_known_values() -> None:
    known = ItemAttributes.from_frame(FRAME)
    new = known.encode(pl.DataFrame({"item": ["x"], "category": ["Women > Shoes > Clogs"], "brand": ["Z"]}))
    assert of(new, "x") == ["category=Women", "category=Women > Shoes"]
    assert new.notes == ("2 values are not known to the model, and left out",)
    with pytest.raises(InputError, match="none of the attribute columns"):
        known.encode(pl.DataFrame({"item": ["x"], "colour": ["red"]}))


def test_attributes_follow_the_rows_of_a_vocabulary() -> None:
    found = ItemAttributes.from_frame(FRAME).align(Vocabulary(["hat", "unknown", "boot"]))
    assert found.counts.tolist() == [1, 0, 3]
    assert of(found, "boot") == ["category=Women", "category=Women > Shoes", "brand=A"]
    seen = found.keep_values_of(np.array([True, False, False]))
    assert seen.values.series.to_list() == ["brand=B"]
    assert seen.counts.tolist() == [1, 0, 0]


def test_items_are_alike_by_what_few_others_have() -> None:
    known = ItemAttributes.from_frame(FRAME)
    new = known.encode(pl.DataFrame({"item": ["x"], "category": ["Women > Shoes"], "brand": [None]}))
    pairs = new.alike(known, 3)
    assert [known.items.id(row) for row in pairs.others.tolist()] == ["boot", "shoe", "shirt"]
    assert pairs.likeness[0] == pairs.likeness[1] > pairs.likeness[2] > 0
    assert len(new.alike(known, 1).others) == 1


@pytest.mark.parametrize(
    ("columns", "wanted", "message"),
    [
        ({"item": ["a", "a"], "x": ["1", "2"]}, None, "'a' occurs twice"),
        ({"item": ["a", "b"], "x": ["A > B > A", "A"]}, None, "'A > B > A' has a category twice"),
        ({"item": ["a", "b"], "x": ["1", "2"]}, ["y"], "no column 'y'"),
        ({"item": ["a", "b"], "x": ["1", "2"]}, ["x:words"], "kind 'words': use path, values or number"),
        ({"item": ["a", "b"], "x": ["1", "cheap"]}, ["x:number"], "'cheap' is not a number"),
        ({"item": ["a", "b"], "x": ["1", "2"]}, ["x:values"], "no two items share a value of the column 'x'"),
        ({"item": ["a", "b"], "x=y": ["1", "1"]}, None, "has = in its name"),
        ({"item": ["a", "b"]}, None, "no column of attributes"),
        ({"id": ["a", "b"], "x": ["1", "1"]}, None, "no column 'item'"),
        ({"item": ["a", "b"], "x": [None, None]}, ["x:number"], "is empty"),
    ],
)
def test_bad_columns_are_refused(columns: dict[str, list[str]], wanted: list[str] | None, message: str) -> None:
    with pytest.raises((InputError, ConfigError), match=message):
        ItemAttributes.from_frame(pl.DataFrame(columns), wanted)


def test_other_objects_are_refused() -> None:
    with pytest.raises(InputError, match="attributes are a dict"):
        ItemAttributes.from_frame({"item": ["a"]})


def test_a_column_of_mixed_values_is_refused() -> None:
    with pytest.raises(InputError, match="the values of 'x' cannot be read as one column"):
        ItemAttributes.from_frame(pd.DataFrame({"item": ["a", "b"], "x": ["red", {1, 2}]}))


def test_long_values_are_left_out_and_counted() -> None:
    long = "x" * 10_000
    frame = pl.DataFrame({"item": ["a", "b", "c"], "x": [f"short|{long}", f"short|{long}", "short"]})
    found = ItemAttributes.from_frame(frame)
    assert found.values.series.to_list() == ["x=short"]
    assert f"1 value of x longer than {LONGEST_VALUE} characters left out" in found.notes


def test_a_value_per_item_says_nothing() -> None:
    frame = pl.DataFrame({"item": range(100_000), "code": [f"t{number}" for number in range(100_000)]})
    with pytest.raises(InputError, match="no two items share a value"):
        ItemAttributes.from_frame(frame)
