"""Columns of items, and the conditions on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.item_columns import ItemColumns, TextColumn, UnknownColumn
from lorentzrec.errors import InputError


class Range(NamedTuple):
    min: float | None = None
    max: float | None = None


@pytest.fixture
def columns() -> ItemColumns:
    return ItemColumns.from_frame(
        pl.DataFrame(
            {
                "brand": ["Acme", " Bolt ", None, "", "Acme"],
                "price": [10, 20, None, 30, 40],
                "margin": ["0.5", "1", "", None, "2"],
                "new": [True, False, None, True, False],
                "tags": [["a", "b"], ["a"], None, [], ["b"]],
            }
        )
    )


def test_the_rows_of_values(columns: ItemColumns) -> None:
    brand = columns.texts["brand"]
    acme, bolt = brand.code_of["Acme"], brand.code_of["Bolt"]
    assert brand.rows_with([acme]).tolist() == [0, 4]
    assert brand.rows_with([bolt, acme]).tolist() == [1, 0, 4]
    assert brand.rows_with([]).tolist() == []
    many = TextColumn(np.arange(70_000, dtype=np.int32)[::-1], [str(number) for number in range(70_000)])
    assert many.rows_with([69_999, 0, 5]).tolist() == [0, 69_999, 69_994]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"brand": "Acme"}, [0, 4]),
        ({"brand": ["Bolt", "Acme", "none"]}, [0, 1, 4]),
        ({"brand": "none"}, []),
        ({"brand": ""}, []),
        ({"price": 20}, [1]),
        ({"price": [10.0, "40"]}, [0, 4]),
        ({"price": Range(20, 30)}, [1, 3]),
        ({"price": Range(max=20)}, [0, 1]),
        ({"price": Range(min=30)}, [3, 4]),
        ({"margin": Range(min=1)}, [1, 4]),
        ({"new": True}, [0, 3]),
        ({"tags": "a|b"}, [0]),
        ({"brand": "Acme", "price": Range(min=20)}, [4]),
    ],
)
def test_all_conditions_must_be_met(columns: ItemColumns, where: dict[str, Any], expected: list[int]) -> None:
    assert np.flatnonzero(columns.find(where)).tolist() == expected
    rows = np.array([4, 0, 3])
    assert columns.find(where, rows).tolist() == [row in expected for row in rows]


def test_conditions_that_do_not_fit_are_refused(columns: ItemColumns) -> None:
    with pytest.raises(UnknownColumn, match="did you mean brand"):
        columns.check({"brnd": "Acme"})
    with pytest.raises(InputError, match="'brand' has texts, which have no range"):
        columns.check({"brand": Range(1, 2)})
    with pytest.raises(InputError, match="'price' has numbers: give a number instead of 'cheap'"):
        columns.find({"price": "cheap"})


def test_columns_of_further_items_follow(columns: ItemColumns) -> None:
    further = ItemColumns.from_mappings([{"brand": "Crest", "price": 5.0, "other": "x"}, {"brand": "Acme"}, {}])
    both = columns.append(further)
    assert both.names == columns.names
    assert np.flatnonzero(both.find({"brand": "Crest"})).tolist() == [5]
    assert np.flatnonzero(both.find({"brand": "Acme"})).tolist() == [0, 4, 6]
    assert np.flatnonzero(both.find({"price": Range(max=10)})).tolist() == [0, 5]
    assert not both.find({"new": True})[5:].any()


def test_texts_of_numbers_are_both() -> None:
    columns = ItemColumns.from_mappings([{"size": "38"}, {"size": "M"}, {"size": 38.0}])
    assert columns.texts["size"].values == ["38", "M"]
    np.testing.assert_array_equal(columns.numbers["size"], [38, np.nan, 38])
