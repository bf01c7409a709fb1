"""The item directory: every id finds its row, every row its item, and no text breaks the search."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.versions import item_directory
from lorentzrec.serving.versions.item_directory import (
    DirectoryDamaged,
    Item,
    ItemDirectory,
    describe_items,
    write_item_directory,
)

IDS = ["sku-7", "sku-71", "Größe", "a'b\"c", "x%y", "日本", "7", "-", "sku-8"]
COUNTS = np.array([5, 9, 1, 2, 2, 3, 4, 1, 7])
TABLE = pl.DataFrame(
    {
        "id": ["sku-71", "sku-7", "Größe", "7", "elsewhere", "sku-8", "x%y"],
        "title": ["Red wool coat", "Red Hat", "Café crème", None, "Red ghost", "Coat-hanger, red", "re(d"],
        "category": ["coats|warm", "hats", " coats ", "", "ghosts", "coats", "|hats"],
    }
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> ItemDirectory:
    path = tmp_path_factory.mktemp("directory") / "items? 100%#.sqlite"
    table, _, categories, _ = describe_items(pl.Series(IDS), COUNTS, TABLE)
    write_item_directory(path, table, categories)
    return ItemDirectory(path)


def test_unsafe_details_are_left_out_and_counted() -> None:
    images = ["https://shop.example/1.jpg", "HTTP://shop.example", None, "javascript:alert(1)", "/2.jpg", "https://a b"]
    titles = ["Boot", "A\tred\r\n boot\n", None, "\x1b[2JHat", "Hat", "Hat"]
    categories = ["shoes", "warm\x00shoes|other", None, "hats", "hats", "ha\x9fts"]
    ids = [f"i{number}" for number in range(6)]
    table = pl.DataFrame({"id": ids, "title": titles, "category": categories, "image": images})
    cleaned, _, names, notes = describe_items(pl.Series(ids), np.ones(6, np.int64), table)
    assert cleaned["image"].to_list() == [*images[:3], None, None, None]
    assert cleaned["title"].to_list() == ["Boot", "A red  boot", None, "[2JHat", "Hat", "Hat"]
    assert names == ["ha ts", "hats", "shoes", "warm shoes"]
    assert notes == [
        "3 images were left out, such as 'javascript:alert(1)': give addresses with http:// or https://",
        "control characters became spaces in the texts of 3 items",
    ]
    assert describe_items(pl.Series(ids), np.ones(6, np.int64), table.head(1))[3] == []


def found(directory: ItemDirectory, query: str, limit: int = 20) -> list[str]:
    return [item.id for item in directory.search(query, limit)]


def test_ids_and_rows(directory: ItemDirectory) -> None:
    assert len(directory) == 9
    assert directory.rows(IDS).tolist() == list(range(9))
    assert directory.rows(["sku-8", "no", "sku-7", "sku-7", "SKU-7", "", "sku-7 "]).tolist() == [
        8,
        -1,
        0,
        0,
        -1,
        -1,
        -1,
    ]
    assert directory.rows([]).tolist() == []
    assert directory.rows(["sku-7\0", "sku-7\0x", "\ud800"]).tolist() == [-1, -1, -1]


def test_many_ids_are_looked_up_in_parts(directory: ItemDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_directory, "IDS_PER_STATEMENT", 2)
    assert directory.rows([*IDS, "no"]).tolist() == [*range(9), -1]


def test_a_single_id_is_found_as_many_are(directory: ItemDirectory) -> None:
    ids = [*directory.ids(), "", "no such id", "a\0", "😀", "'", "é"]
    assert [id in directory for id in ids] == [row >= 0 for row in directory.rows(ids).tolist()]
    assert all(f"{id}\0" not in directory for id in directory.ids())


def test_items_are_in_the_requested_order(directory: ItemDirectory) -> None:
    assert directory.items([1, 5, 1]) == [
        Item(1, "sku-71", "Red wool coat", "coats"),
        Item(5, "日本"),
        Item(1, "sku-71", "Red wool coat", "coats"),
    ]
    assert directory.items(np.empty(0, np.int64)) == []


def test_categories_are_the_first_of_each_item() -> None:
    table, codes, categories, _ = describe_items(pl.Series(IDS), COUNTS, TABLE)
    assert categories == ["coats", "hats"]
    assert codes.tolist() == [1, 0, 0, -1, -1, -1, -1, -1, 0]
    assert table["rank"].to_list() == [2, 0, 7, 5, 6, 4, 3, 8, 1]


def test_nothing_described() -> None:
    table, codes, categories, _ = describe_items(pl.Series([30, 10]), np.array([1, 2]), None)
    assert (table["id"].to_list(), codes.tolist(), categories) == (["30", "10"], [-1, -1], [])


def test_an_item_described_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'b' occurs twice in the item table: give each item one row"):
        describe_items(pl.Series(["a", "b"]), np.array([1, 2]), pl.DataFrame({"id": ["b", "a", "b"]}))


def test_search_by_words_and_beginnings_popular_first(directory: ItemDirectory) -> None:
    assert found(directory, "red") == ["sku-71", "sku-8", "sku-7"]
    assert found(directory, "RED coat") == ["sku-71", "sku-8"]
    assert found(directory, "coa re") == ["sku-71", "sku-8"]
    assert found(directory, "red", 2) == ["sku-71", "sku-8"]
    assert found(directory, "cafe creme") == ["Größe"]
    assert found(directory, "ghost") == []


def test_search_by_id_begins_with_the_id_itself(directory: ItemDirectory) -> None:
    assert found(directory, "sku-7") == ["sku-7", "sku-71"]
    assert found(directory, " sku-7 ", 1) == ["sku-7"]
    assert found(directory, "7") == ["7", "sku-71", "sku-7"]
    assert found(directory, "日") == ["日本"]
    assert found(directory, "-") == ["-"]


def test_an_empty_search_gives_what_is_popular(directory: ItemDirectory) -> None:
    assert found(directory, "  ", 3) == ["sku-71", "sku-8", "sku-7"]


@pytest.mark.parametrize(
    "query", ['"', "red AND", 'x" OR "red', "NEAR(", "title:red*", "^", "{a b}", "red -coat", "\0", "\ud800", "''", "%"]
)
def test_no_text_is_taken_for_syntax(directory: ItemDirectory, query: str) -> None:
    assert set(found(directory, query)) <= set(IDS)


@given(st.text())
def test_any_text_can_be_searched_for(directory: ItemDirectory, query: str) -> None:
    assert len(directory.search(query, 3)) <= 3
    assert directory.rows([query])[0] == (IDS.index(query) if query in IDS else -1)


def test_threads_have_connections_of_their_own(directory: ItemDirectory) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: found(directory, "red"), range(50)))
    assert results == [["sku-71", "sku-8", "sku-7"]] * 50


def test_the_directory_is_read_only(directory: ItemDirectory) -> None:
    before = directory.path.read_bytes()
    directory.search("red")
    assert directory.path.read_bytes() == before
    assert [path.name for path in directory.path.parent.iterdir()] == [directory.path.name]


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_a_file_that_is_no_directory(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "items.sqlite").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"items.sqlite is damaged .*: publish the model again"):
        ItemDirectory(tmp_path / "items.sqlite")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"items.sqlite is damaged"):
        ItemDirectory(tmp_path / "items.sqlite")
    assert list(tmp_path.iterdir()) == []


def written(path: Path, *changes: str) -> Path:
    table, _, categories, _ = describe_items(pl.Series(IDS), COUNTS, TABLE)
    write_item_directory(path, table, categories)
    with closing(sqlite3.connect(path)) as connection:
        for change in changes:
            connection.execute(change)
        connection.commit()
    return path


def test_a_directory_whose_rows_are_not_those_of_the_points(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="its rows are 0 to 99 and not 0 to 8"):
        ItemDirectory(written(tmp_path / "items.sqlite", "UPDATE items SET row = 99 WHERE row = 8"))


def test_damage_found_by_a_query_is_recorded(tmp_path: Path) -> None:
    opened = ItemDirectory(written(tmp_path / "a.sqlite", "UPDATE items SET title = CAST(x'ff' AS TEXT) WHERE row = 3"))
    assert opened.items([0])[0].title == "Red Hat"
    assert opened.damage is None
    with pytest.raises(DirectoryDamaged, match=r"a\.sqlite is damaged .* publish the model again"):
        opened.items([3])
    assert opened.damage is not None
    opened = ItemDirectory(written(tmp_path / "b.sqlite", "UPDATE items SET rank = 99 WHERE id = 'sku-7'"))
    with pytest.raises(DirectoryDamaged, match="it holds 0 of 1 items"):
        opened.search("hat")


def test_no_query_can_make_a_directory_look_damaged(directory: ItemDirectory) -> None:
    """Else any client could take a version out of service."""
    for query in ('"', "*", "a AND", "NEAR(", "{x}:y", "^", "\ud800", "\0", "x" * 100_000, "- " * 5000, "(" * 5000):
        directory.search(query)
        directory.rows([query])
    with pytest.raises(sqlite3.OperationalError):
        directory._query("SELECT rowid FROM words WHERE words MATCH ?", "NEAR(")
    assert directory.damage is None
