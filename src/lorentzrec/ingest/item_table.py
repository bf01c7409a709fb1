"""Item files: title, category, price and image of each item."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from lorentzrec.base.counting import Count
from lorentzrec.data.attributes import ItemAttributes, Kind
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.attribute_numbers import ENDING, read_attribute_numbers
from lorentzrec.ingest.file_kinds import FORMATS, scan_table, select_field, table_faults
from lorentzrec.ingest.layouts import detect_layout
from lorentzrec.ingest.lines import scan_lines
from lorentzrec.ingest.reading import fault_error
from lorentzrec.ingest.sources import Source
from lorentzrec.ingest.storage import fetch, list_files

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("title", "category", "price", "image")
TITLES = ("name", "product_name", "item_name", "product_title")
"""Columns that are taken for the title of a file without a column title."""
ATTRIBUTE = "attribute:"
"""Before the names of columns of attributes."""

KINDS = tuple(f":{kind}" for kind in get_args(Kind))

_MOVIE_LINES = Source(format="csv", header=False, quote=None, separator="::", columns=("item", "title", "category"))
_MOVIES_CSV = Source(format="csv", file_name="movies.csv", item_column="movieId")
READERS: dict[str, tuple[Source, dict[str, str]]] = {
    "movielens-100k": (
        replace(
            _MOVIE_LINES,
            separator="|",
            encoding="latin-1",
            file_name="u.item",
            columns=("item", "title", "released", "video", "address", *(f"genre_{number}" for number in range(19))),
        ),
        {},
    ),
    "movielens-1m": (replace(_MOVIE_LINES, encoding="latin-1", file_name="movies.dat"), {}),
    "movielens-10m": (replace(_MOVIE_LINES, file_name="movies.dat"), {}),
    **{f"movielens-{size}": (_MOVIES_CSV, {"category": "genres"}) for size in ("20m", "25m", "32m")},
}
"""The item files of known data sets: how to read them, and the roles of their columns."""


def read_item_table(
    address: str,
    source: Source | None = None,
    columns: Mapping[str, str] | None = None,
    *,
    reader: str | None = None,
    attributes: Sequence[str] = (),
    others: bool = False,
) -> pl.DataFrame:
    """One row per item: `item`, its id as text, and those of title, category, price and image that the file has.

    A file without a column title may have one of `TITLES` instead.

    `columns`: title, category, price or image -> column of the file. `source`: how to read the file, and the column of
    the item. `reader`: the name of a known data set, whose item file needs neither. `attributes`: further columns of
    the file, which the table has as text with `ATTRIBUTE` before their names. `others`: also have all other columns, as
    text, under their own names.
    """
    import polars as pl

    known_source, known_columns = READERS.get(reader or "", (Source(), {}))
    source = source or known_source
    columns = {**known_columns, **(columns or {})}
    for role in columns:
        if role not in COLUMNS:
            raise ConfigError(f"there is no item column {role!r}: use one of {', '.join(COLUMNS)}")
    wanted: dict[str, str | None] = {"item": source.item_column, **{role: columns.get(role) for role in COLUMNS}}
    wanted |= {f"{ATTRIBUTE}{name}": name for name in attributes}
    tables = []
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        for number, file in enumerate(list_files(address, name=source.file_name)):
            path = fetch(file.address, Path(scratch))
            if file.address.endswith(ENDING):
                numbers = read_attribute_numbers(path, file.address)
                more = dict.fromkeys(numbers.columns) if others else {}
                tables.append(_with_roles(numbers, more | wanted, file.address))
                continue
            layout = detect_layout(path, source, file.address, wanted)
            roles = dict(layout.roles)
            if "title" not in roles and (titles := [name for name in TITLES if name in layout.names]):
                roles["title"] = titles[0]
            if others:
                roles |= {name: name for name in layout.names if name not in roles and name not in roles.values()}
            if layout.format in FORMATS:
                with table_faults(file.address, layout.format):
                    frame = scan_table(path, file.address, layout.format)
                    schema = frame.collect_schema()
                    if "title" not in layout.roles and "title" in roles and schema[roles["title"]].is_nested():
                        del roles["title"]  # of all languages, for example
                    names = dict.fromkeys(roles.values())
                    table = frame.select(select_field(name, schema) for name in names).collect()
            else:
                table = scan_lines(path, layout, Path(scratch, str(number))).collect()
                about = {name: pl.col(f"__{name}") for name in ("line", "fault", "option", "text")}
                for fault in table.filter(pl.col("__fault").is_not_null()).head(1).select(**about).to_dicts():
                    raise fault_error(fault | {"file": file.address})
            # A category may be a list of words; everything else is one value.
            texts = {
                role: pl.col(column).list.join("|") if table.schema[column] == pl.List(pl.String) else pl.col(column)
                for role, column in roles.items()
            }
            tables.append(table.select(text.cast(pl.String).alias(role) for role, text in texts.items()))
    table = pl.concat(tables, how="diagonal").filter(pl.col("item").is_not_null())
    twice = table.filter(pl.col("item").is_duplicated())
    if len(twice):
        raise InputError(f"{address}: the item {twice['item'][0]!r} occurs twice: give each item once")
    if "price" in table.columns:
        price = table["price"].cast(pl.Float64, strict=False)
        wrong = table.filter(price.is_null() & table["price"].is_not_null())
        if len(wrong):
            raise InputError(f"{address}: the price {wrong['price'][0]!r} is not a number: fix it, or leave prices out")
        table = table.with_columns(price=price)
    return table


def _with_roles(table: pl.DataFrame, wanted: Mapping[str, str | None], name: str) -> pl.DataFrame:
    """The table with the columns that are wanted under the names of their roles."""
    columns = {role: column or role for role, column in wanted.items()}
    for role, column in wanted.items():
        if column is not None and column not in table.columns:
            raise InputError(f"{name} has no column {column!r}: it has {', '.join(table.columns)}")
        if columns[role] not in table.columns:
            del columns[role]
    return table.select(**columns)


def with_item_table(items: pl.DataFrame, table: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The vocabulary of items with the columns of the table, and a sentence on how many items the table has."""
    import polars as pl

    keyed = table.rename({"item": "id"}).with_columns(pl.col("id").cast(items.schema["id"], strict=False))
    keyed = keyed.filter(pl.col("id").is_not_null())
    found = len(items.join(keyed, on="id", how="semi"))
    others = f"{Count(len(table) - found):row|rows} for other items"
    note = f"the item table covers {found:,} of {Count(len(items)):item|items} ({others})"
    return items.join(keyed, on="id", how="left", maintain_order="left"), note


def attribute_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The names in `NAME` or `NAME:KIND`."""
    return tuple(name.rpartition(":")[0] if name.endswith(KINDS) else name for name in columns)


def make_attributes(items: pl.DataFrame, columns: Sequence[str], like: ItemAttributes | None = None) -> ItemAttributes:
    """Attributes from a vocabulary of items with the columns of a table; `columns`: `NAME` or `NAME:KIND`."""
    frame = items.select("id", f"^{ATTRIBUTE}.*$").rename(lambda name: name.removeprefix(ATTRIBUTE))
    return ItemAttributes.from_frame(frame, columns, item="id", like=like)


def first_category(table: pl.DataFrame) -> pl.DataFrame:
    """The table with one category per item, if it has any: the first of several, which are separated by |."""
    import polars as pl

    first = pl.col("^category$").cast(pl.String).str.split("|").list.first().str.strip_chars()
    return table.with_columns(first.replace("", None))
