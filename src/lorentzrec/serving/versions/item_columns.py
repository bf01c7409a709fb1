"""The columns of a version's items that filters and rules ask for, in one file of arrays.

text:NAME    for each item the index of its text in `values`, -1 for none
number:NAME  for each item a number, NaN for none
values       the texts of each column, as JSON in UTF-8
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.array_files import Arrays, write_arrays
from lorentzrec.data.item_columns import ItemColumns, TextColumn

if TYPE_CHECKING:
    import polars as pl

TEXT, NUMBER, VALUES = "text:", "number:", "values"
NO_COLUMNS = ("id", "title", "image", "category")
"""Columns of an item table that no filter is for, and the category, which a version has elsewhere."""


def describe_columns(ids: pl.Series, described: pl.DataFrame | None) -> ItemColumns:
    """The columns of the items `ids` in an item table with the column id; attributes have their own names.

    An attribute that is also a column is the column, whose numbers are numbers.
    """
    import polars as pl

    from lorentzrec.ingest.item_table import ATTRIBUTE

    table = pl.DataFrame({"id": ids.cast(pl.String)})
    if described is not None:
        details = described.with_columns(pl.col("id").cast(pl.String)).unique("id")
        table = table.join(details, on="id", how="left", maintain_order="left")
    names = table.columns
    both = [name for name in names if name.startswith(ATTRIBUTE) and name.removeprefix(ATTRIBUTE) in names]
    table = table.drop(both).rename(lambda name: name.removeprefix(ATTRIBUTE))
    return ItemColumns.from_frame(table.drop(NO_COLUMNS, strict=False))


def write_columns(path: Path, columns: ItemColumns) -> None:
    arrays: Arrays = {f"{TEXT}{name}": column.codes for name, column in columns.texts.items()}
    arrays |= {f"{NUMBER}{name}": values for name, values in columns.numbers.items()}
    values = json.dumps({name: list(column.values) for name, column in columns.texts.items()})
    write_arrays(path, arrays | {VALUES: np.frombuffer(values.encode(), np.uint8)})


def open_columns(arrays: Arrays, count: int, categories: list[str], category_codes: NDArray[np.int32]) -> ItemColumns:
    """The columns in the arrays of a file, and the category; a `ValueError` says what does not fit."""
    texts = {"category": TextColumn(category_codes, categories)}
    numbers: dict[str, NDArray[Any]] = {}
    values = json.loads(arrays[VALUES].tobytes())
    for name, array in arrays.items():
        kind, _, column = name.partition(":")
        if name != VALUES and array.shape != (count,):
            raise ValueError(f"the column {column!r} has {array.size} values for {count} items")
        if f"{kind}:" == TEXT:
            if count and not -1 <= array.min() <= array.max() < len(values[column]):
                raise ValueError(f"the column {column!r} has a text outside of its {len(values[column])}")
            texts[column] = TextColumn(array, values[column])
        elif f"{kind}:" == NUMBER:
            numbers[column] = array
    return ItemColumns(count, texts, numbers)
