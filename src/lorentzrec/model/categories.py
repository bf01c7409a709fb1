"""The items of some categories, by a table of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.frames import polars_frame
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.points.fallbacks import Cause, Fallback, unknown_fallbacks


def rows_of_categories(
    items: Vocabulary, table: Any, categories: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[Fallback, ...]]:
    """The rows of the items that are in one of `categories`, and a fallback if no item is in some of them.

    table: a pandas, Polars or pyarrow frame with the columns item (or id) and category. As in the service, the first of
    several categories, separated by |, counts.
    """
    from lorentzrec.ingest.item_table import first_category

    if table is None:
        raise InputError("a model does not know the categories of its items: give item_table=, a frame with them")
    frame = polars_frame(table, f"item_table is a {type(table).__name__}: give a pandas, Polars or pyarrow frame")
    key = next((name for name in ("item", "id") if name in frame.columns), None)
    if key is None or "category" not in frame.columns:
        raise InputError(
            f"item_table has the columns {', '.join(frame.columns)}: give one with item (or id) and category"
        )
    frame = frame.with_columns(frame[key].cast(items.series.dtype, strict=False)).drop_nulls(key)
    rows = items.rows(frame[key])
    held = first_category(frame.select("category").filter(rows != UNKNOWN))["category"].to_list()
    found = rows[rows != UNKNOWN]
    wanted, present = set(categories), set(held)
    unknown = np.array([0 if name in present else UNKNOWN for name in categories])
    allowed = np.unique(found[np.array([name in wanted for name in held], bool)])
    return allowed, unknown_fallbacks(Cause.UNKNOWN_CATEGORIES, unknown)
