"""All columns of an item file, for filters and rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.ingest.item_table import read_item_table
from lorentzrec.serving.versions.item_columns import describe_columns


@pytest.fixture(params=["csv", "parquet", "jsonl"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"items.{request.param}"
    frame = pl.DataFrame(
        {
            "item": ["i1", "i2", "i3"],
            "title": ["Red hat", "Boot", "Coat"],
            "price": [10.5, 20.0, 30.0],
            "brand": ["Acme", None, "Bolt"],
            "margin": [0.5, 0.25, None],
        }
    )
    write: dict[str, Any] = {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}
    write[request.param](path)
    return path


def test_other_columns_are_read_if_they_are_wanted(file: Path) -> None:
    assert set(read_item_table(str(file)).columns) == {"item", "title", "price"}
    table = read_item_table(str(file), others=True)
    assert set(table.columns) == {"item", "title", "price", "brand", "margin"}
    assert table["brand"].to_list() == ["Acme", None, "Bolt"]
    assert table["price"].to_list() == [10.5, 20.0, 30.0]


def test_a_name_is_a_title_where_there_is_no_title(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("sku,product_name,name\ni1,Hat,Red hat\n")
    table = read_item_table(str(path), others=True)
    assert table.rows(named=True) == [{"item": "i1", "title": "Red hat", "product_name": "Hat"}]
    path.write_text("sku,name,title\ni1,hat-red,Red hat\n")
    assert read_item_table(str(path)).rows(named=True) == [{"item": "i1", "title": "Red hat"}]


def test_a_name_that_is_no_text_is_not_a_title(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    for names in ([{"en": "Hat"}, {"en": "Coat"}], [[1, 2], [3]]):
        pl.DataFrame({"item": ["i1", "i2"], "name": names}).write_parquet(path)
        assert read_item_table(str(path)).columns == ["item"]


def test_numbers_of_attributes_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "shop_item2attributes.json"
    path.write_text('{"i1": [7, 1, 2], "i2": [8]}')
    brands = {"i1": "7", "i2": "8"}
    table = read_item_table(str(path), others=True)
    assert dict(table.select("item", "brand").iter_rows()) == brands
    assert table["category"].to_list() == ["1 > 2", None]
    assert "brand" not in read_item_table(str(path)).columns
    columns = describe_columns(table["item"], table.rename({"item": "id"}))
    assert sorted(columns.texts) + sorted(columns.numbers) == ["brand"]


def test_an_attribute_that_is_also_a_column_is_one_column(file: Path) -> None:
    table = read_item_table(str(file), attributes=["price", "brand"]).rename({"item": "id"})
    assert {"price", "attribute:price", "attribute:brand"} < set(table.columns)
    columns = describe_columns(table["id"], table)
    assert (sorted(columns.texts), sorted(columns.numbers)) == (["brand"], ["price"])


def test_they_become_the_columns_of_a_version(file: Path) -> None:
    table = read_item_table(str(file), others=True).rename({"item": "id"})
    columns = describe_columns(pl.Series(["i3", "new", "i1"]), table)
    assert isinstance(columns, ItemColumns)
    assert (sorted(columns.texts), sorted(columns.numbers)) == (["brand"], ["margin", "price"])
    assert columns.find({"brand": "Bolt"}).tolist() == [True, False, False]
    assert columns.find({"margin": 0.5}).tolist() == [False, False, True]
