"""Categories of items and their parents.

The parent of a category is what a column `parent`, `parent_category` or `department` of the item table says, by most of
the category's items. Without such a column it is the path before the last >: that of `Women > Shoes > Boots` is
`Women > Shoes`, to which `Women > Shoes > Sandals` belongs as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.data.item_columns import ItemColumns, TextColumn
from lorentzrec.data.vocabulary import UNKNOWN

CATEGORY = "category"
PARENT_COLUMNS = ("parent", "parent_category", "department")
"""The first of these that the items have as texts is the one of parents."""
SEPARATOR = ">"
"""Between the parts of a path, as in attributes."""


class CategoryTree:
    """The items of each category, and those of its parent."""

    def __init__(self, columns: ItemColumns) -> None:
        self._column = columns.texts.get(CATEGORY, TextColumn(np.full(columns.count, UNKNOWN, np.int32), ()))
        self.names: Sequence[str] = self._column.values
        self.codes: NDArray[np.int32] = self._column.codes
        parent = next((columns.texts[name] for name in PARENT_COLUMNS if name in columns.texts), None)
        paths = [[part.strip() for part in name.split(SEPARATOR)] for name in self.names]
        self.parents: list[str | None] = (
            [f" {SEPARATOR} ".join(path[:-1]) or None for path in paths]
            if parent is None
            else _most_frequent(self.codes, len(self.names), parent)
        )
        """Of each category; None if it has none."""
        self._below: dict[str, list[int]] = {}
        for code, (path, above) in enumerate(zip(paths, self.parents, strict=True)):
            ancestors = [f" {SEPARATOR} ".join(path[:end]) for end in range(1, len(path) + 1)]
            for name in ancestors if parent is None else [above]:
                if name is not None:
                    self._below.setdefault(name, []).append(code)

    def rows_of_category(self, code: int) -> Integers:
        """In rising order."""
        return self._column.rows_with([code])

    def rows_of_parent(self, code: int) -> Integers:
        """The items of the parent of a category, and so of the category; without a parent, those of the category. In
        rising order."""
        parent = self.parents[code]
        if parent is None:
            return self.rows_of_category(code)
        return np.sort(self._column.rows_with(self._below[parent]))


def _most_frequent(codes: NDArray[np.int32], count: int, parent: TextColumn) -> list[str | None]:
    """For each category the value that most of its items have, ties by text; None if none has any."""
    known = (codes != UNKNOWN) & (parent.codes != UNKNOWN)
    pairs, items = np.unique(np.stack([codes[known], parent.codes[known]]), axis=1, return_counts=True)
    found: list[str | None] = [None] * count
    for category, value in pairs[:, np.argsort(-items, kind="stable")].T.tolist():
        found[category] = found[category] or parent.values[value]
    return found
