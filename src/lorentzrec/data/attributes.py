"""Attributes of items: category paths, brands, bins of prices; which item has which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers, offsets_of
from lorentzrec.data.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class ItemAttributes:
    """Which attributes each item of a vocabulary has: item row i has `rows[offsets[i]:offsets[i + 1]]` of `values`."""

    items: Vocabulary
    values: Vocabulary
    """Texts such as `brand=Lego` and `category=Toys > Puzzles`."""
    offsets: Integers
    rows: NDArray[np.int32]
    idf: object = None

    @classmethod
    def from_lists(cls, items: Vocabulary, lists: Sequence[Sequence[str]]) -> ItemAttributes:
        """One list of values per item."""
        values = Vocabulary(sorted({value for one in lists for value in one}), name="attribute")
        flat = [value for one in lists for value in one]
        offsets = offsets_of(np.array([len(one) for one in lists]))
        return cls(items, values, offsets, values.rows(flat).astype(np.int32))

    def select(self, item_rows: Integers, items: Vocabulary) -> ItemAttributes:
        """Those of some items."""
        from lorentzrec.data.arrays import gather_groups

        places, events = gather_groups(self.offsets, item_rows)
        return ItemAttributes(items, self.values, offsets_of(np.bincount(places, minlength=len(item_rows))), self.rows[events], self.idf)

    def sum_counts(self, item_counts: Integers) -> Integers:
        """Events of the items that have each attribute."""
        owners = np.repeat(np.arange(len(self.items)), np.diff(self.offsets))
        return np.bincount(self.rows, item_counts[owners], len(self.values)).astype(np.int64)

    def shares(self, weight: float) -> Floats:
        import os
        idf=np.ones(len(self.values)) if self.idf is None else self.idf
        own = np.maximum(idf[self.rows],1e-6)
        lengths=np.diff(self.offsets)
        owners = np.repeat(np.arange(len(self.items)), lengths)
        total=np.bincount(owners, own, len(self.items))
        return weight * own / total[owners]
