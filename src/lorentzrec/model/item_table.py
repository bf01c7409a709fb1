"""What a table of items says about the items of a model: columns for filters, and categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.category_tree import CATEGORY
from lorentzrec.data.frames import polars_frame
from lorentzrec.data.item_columns import ItemColumns, TextColumn, read_conditions
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.points.fallbacks import Cause, Fallback, unknown_fallbacks

UNFILTERED = ("title", "image")
"""Columns that no filter is for."""


def read_item_columns(items: Vocabulary, table: Any) -> ItemColumns:
    """The columns of a table in the rows of `items`; rows for other items are left out.

    table: a pandas, Polars or pyarrow frame with the column item (or id) and others; what this function has returned is
    returned again. As in the service, the first of several categories, separated by |, counts.
    """
    import polars as pl

    from lorentzrec.ingest.item_table import first_category

    if isinstance(table, ItemColumns):
        if table.count != len(items):
            raise InputError(f"item_table has {table.count} items and the model {len(items)}: read the table for it")
        return table
    frame = polars_frame(table, f"item_table is a {type(table).__name__}: give a pandas, Polars or pyarrow frame")
    key = next((name for name in ("item", "id") if name in frame.columns), None)
    if key is None:
        raise InputError(f"item_table has the columns {', '.join(frame.columns)}: give one with item (or id)")
    frame = frame.with_columns(pl.col(key).cast(items.series.dtype, strict=False)).drop_nulls(key)
    if len(twice := frame.filter(frame[key].is_duplicated())):
        raise InputError(f"item_table has the item {twice[key][0]!r} twice: give each item one row")
    described = pl.DataFrame({key: items.series}).join(frame, on=key, how="left", maintain_order="left")
    columns = ItemColumns.from_frame(described.drop("item", "id", CATEGORY, *UNFILTERED, strict=False))
    if CATEGORY not in described.columns:
        return columns
    names = first_category(described.select(CATEGORY))[CATEGORY]
    known = names.drop_nulls().unique().sort()
    codes = names.replace_strict(known, np.arange(len(known)), default=UNKNOWN, return_dtype=pl.Int32)
    category = TextColumn(codes.to_numpy(), known.to_list())
    return ItemColumns(columns.count, {CATEGORY: category, **columns.texts}, columns.numbers)


def columns_of_attributes(attributes: ItemAttributes) -> ItemColumns:
    """The attributes that a model was trained with as columns, without numbers, which are in bins. The last of several
    values of an item counts, which is the longest path."""
    texts = {}
    for column in attributes.columns:
        if column.kind == "number":
            continue
        start = f"{column.name}="
        own = np.flatnonzero(attributes.values.series.str.starts_with(start).to_numpy())
        code_of = np.full(len(attributes.values), UNKNOWN, np.int32)
        code_of[own] = np.arange(len(own))
        found: NDArray[np.int32] = np.full(len(attributes), UNKNOWN, np.int32)
        entries = code_of[attributes.rows]
        found[attributes.owners[entries != UNKNOWN]] = entries[entries != UNKNOWN]
        names = attributes.values.series.gather(own).str.strip_prefix(start)
        texts[column.name] = TextColumn(found, names.to_list())
    return ItemColumns(len(attributes), texts)


def rows_of_categories(columns: ItemColumns, categories: Sequence[str]) -> tuple[Integers, tuple[Fallback, ...]]:
    """The rows of the items that are in one of `categories`, and a fallback if no item is in some of them."""
    require_categories(columns)
    column = columns.texts[CATEGORY]
    present = np.array([column.code_of.get(name, UNKNOWN) for name in categories])
    return np.flatnonzero(columns.find({CATEGORY: list(categories)})), unknown_fallbacks(
        Cause.UNKNOWN_CATEGORIES, present
    )


def rows_that_meet(columns: ItemColumns, where: Mapping[str, Any]) -> Integers:
    """The rows of the items that meet all conditions, see `item_columns.py`."""
    return np.flatnonzero(columns.find(read_conditions(where)))


def require_categories(columns: ItemColumns) -> None:
    if CATEGORY not in columns.texts:
        known = ", ".join(columns.names) or "none"
        raise InputError(f"the items have no column {CATEGORY!r} (columns: {known}): give item_table= with it")
