"""Attributes of items: category paths, brands, bins of prices; which item has which."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.data.arrays import (
    Booleans,
    Floats,
    Integers,
    gather_groups,
    make_mask,
    make_offsets,
    spans_within,
    strongest_entries,
    update_digest,
)
from lorentzrec.data.frames import polars_frame
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["path", "values", "number"]

LONGEST_VALUE = 512
"""Characters of a value; longer ones are left out."""
BINS = 10
"""Bins of a column of numbers, with equally many items in each."""
MOST_ALIKE = 1000
"""Attributes that more items have do not make two items neighbours, though they count in their likeness."""
_PAIRS_AT_ONCE = 20_000_000


@dataclass(frozen=True)
class AttributeColumn:
    """A column of attributes, and how its texts are read."""

    name: str
    kind: Kind
    """`path`: `Women > Shoes > Boots`, where each prefix is a value. `values`: as they are. Several paths or values are
    separated by |. `number`: in bins."""
    edges: tuple[float, ...] = ()
    """Between the bins of numbers."""

    def values_of(self, text: str) -> Iterator[str]:
        """The values of one cell, such as `category=Women` and `category=Women > Shoes`."""
        if self.kind == "number":
            yield f"{self.name}={self._find_bin(text)}"
            return
        for part in text.split("|"):
            names = [name.strip() for name in (part.split(">") if self.kind == "path" else [part])]
            names = [name for name in names if name]
            if len(set(names)) < len(names):
                raise InputError(f"the {self.name} {part.strip()[:80]!r} has a category twice, as in a circle: fix it")
            for depth in range(len(names)):
                yield f"{self.name}={' > '.join(names[: depth + 1])}"

    def _find_bin(self, text: str) -> str:
        number = _number(text, self.name)
        index = int(np.searchsorted(self.edges, number, side="right"))
        low = f"{self.edges[index - 1]:g}" if index else ""
        high = f"{self.edges[index]:g}" if index < len(self.edges) else ""
        return f"{low} to {high}" if low and high else f"below {high}" if high else f"from {low}" if low else "any"


class Alike(NamedTuple):
    """Pairs of items that have attributes in common."""

    items: Integers
    others: Integers
    likeness: Floats
    """The cosine between their attributes, each weighted by the logarithm of how rare it is."""


@dataclass(frozen=True, eq=False)
class ItemAttributes:
    """Which attributes each item of a vocabulary has: item row i has `rows[offsets[i]:offsets[i + 1]]` of `values`.

    attributes = ItemAttributes.from_frame(frame, ["category", "brand", "price:number"])
    """

    items: Vocabulary
    values: Vocabulary
    """Texts such as `brand=Lego` and `category=Toys > Puzzles`."""
    offsets: Integers
    rows: NDArray[np.int32]
    columns: tuple[AttributeColumn, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Sequence[str] | None = None,
        *,
        item: str = "item",
        like: ItemAttributes | None = None,
    ) -> ItemAttributes:
        """Attributes in columns of a pandas, Polars or pyarrow data frame, a row per item.

        columns: names, or `NAME:KIND` with the kind path, values or number; None: all but `item`, title and image.
        Without a kind, a column with > in it has paths, one with more than 20 distinct numbers and nothing else has
        numbers, and any other has values. Values that only one item has are left out, with a note: they say nothing
        about other items.
        like: earlier attributes, whose columns are read as they were, with the same bins of numbers.
        """
        table = _table(frame, item)
        others = {item, "title", "image"}
        wanted = [name for name in table.columns if name not in others] if columns is None else list(columns)
        if not wanted:
            raise InputError("there is no column of attributes: name at least one")
        earlier = {} if like is None else {column.name: column for column in like.columns}
        described = tuple(earlier.get(column.name, column) for column in (_describe(table, name) for name in wanted))
        refuse_repeated(column.name for column in described)
        found = _read(table, item, described)
        known = found.item_counts > 1
        if like is not None:
            known |= like.values.rows(found.values.series) != UNKNOWN
        shared = found.values.series.filter(known)
        if single := len(found.values) - len(shared):
            note = (
                f"{Count(single):attribute that only one item has was|attributes that only one item has were} left out"
            )
            found = replace(found, notes=(*found.notes, note))
        for column in described:
            if not shared.str.starts_with(f"{column.name}=").any():
                raise InputError(f"no two items share a value of the column {column.name!r}: leave it out")
        return found._with_values(Vocabulary(shared, name="attribute"))

    def encode(self, frame: Any, *, item: str = "item") -> ItemAttributes:
        """The attributes of other items, in a frame with the same columns; values that are not known are left out, with
        a note."""
        table = _table(frame, item)
        present = tuple(column for column in self.columns if column.name in table.columns)
        if not present:
            names = ", ".join(column.name for column in self.columns)
            raise InputError(f"the frame has none of the attribute columns ({names}): check the names")
        missing = [f"there is no column {column.name!r}" for column in self.columns if column not in present]
        found = _read(table, item, present)
        return replace(found, notes=(*missing, *found.notes)).encode_with(self)

    def __repr__(self) -> str:
        described = int((np.diff(self.offsets) > 0).sum())
        return f"ItemAttributes({Count(len(self.values)):attribute|attributes} of {Count(described):item|items})"

    def __len__(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def counts(self) -> Integers:
        """Attributes of each item."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """The item of each entry of `rows`."""
        return np.repeat(np.arange(len(self.items)), self.counts)

    @cached_property
    def item_counts(self) -> Integers:
        """Items that have each attribute."""
        return np.bincount(self.rows, minlength=len(self.values)).astype(np.int64)

    @property
    def categories(self) -> Integers:
        """The most special category of each item, `UNKNOWN` if it has none: the last value of the first column of
        paths, or of the first column."""
        first = next((column for column in self.columns if column.kind == "path"), None)
        first = first or next(iter(self.columns), None)
        matching = np.ones(len(self.values), bool)
        if first is not None:
            matching = self.values.series.str.starts_with(f"{first.name}=").to_numpy()
        found = np.full(len(self.items), UNKNOWN, np.int64)
        chosen = matching[self.rows]
        found[self.owners[chosen]] = self.rows[chosen]  # the last one counts
        return found

    def align(self, items: Vocabulary) -> ItemAttributes:
        """The same in the rows of another vocabulary; its items that have no attributes here have none there."""
        if items == self.items:
            return replace(self, items=items)
        found = self.items.rows(items.series)
        own = np.flatnonzero(found != UNKNOWN)
        indices, entries = gather_groups(self.offsets, found[own])
        counts = np.bincount(own[indices], minlength=len(items))
        return replace(self, items=items, offsets=make_offsets(counts), rows=self.rows[entries])

    def keep_values_of(self, items: Booleans) -> ItemAttributes:
        """Without the attributes that none of these items has."""
        kept = make_mask(self.rows[items[self.owners]], len(self.values))
        if kept.all():
            return self
        return self._with_values(Vocabulary(self.values.series.filter(kept), name="attribute"))

    def encode_with(self, other: ItemAttributes) -> ItemAttributes:
        """These items with the `values` of another object; values that it does not have are left out, with a note."""
        found = replace(self._with_values(other.values), columns=other.columns)
        if unknown := len(self.rows) - len(found.rows):
            note = f"{Count(unknown):value is|values are} not known to the model, and left out"
            found = replace(found, notes=(*found.notes, note))
        return found

    def _with_values(self, values: Vocabulary) -> ItemAttributes:
        """With other values; those of these that it does not hold are left out."""
        found = values.rows(self.values.series)[self.rows]
        known = found != UNKNOWN
        offsets = make_offsets(np.bincount(self.owners[known], minlength=len(self.items)))
        return replace(self, values=values, offsets=offsets, rows=found[known].astype(np.int32))

    def fill_from(self, earlier: ItemAttributes) -> ItemAttributes:
        """With what an earlier object has of the same items that have no attributes here; its values come first."""
        values = earlier.values.union(self.values)
        own = self.counts > 0
        kept, added = own[self.owners], ~own[earlier.owners]
        owners = np.concatenate([self.owners[kept], earlier.owners[added]])
        rows = np.concatenate([values.rows(self.values.series)[self.rows[kept]], earlier.rows[added]])
        order = np.argsort(owners, kind="stable")
        columns = {column.name: column for column in (*earlier.columns, *self.columns)}
        return replace(
            self,
            values=values,
            offsets=make_offsets(np.bincount(owners, minlength=len(self))),
            rows=rows[order].astype(np.int32),
            columns=tuple(columns.values()),
        )

    def append(self, more: ItemAttributes, items: Vocabulary) -> ItemAttributes:
        """Followed by other items with the same `values`; `items`: all of them."""
        return replace(
            self,
            items=items,
            offsets=np.concatenate([self.offsets, self.offsets[-1] + more.offsets[1:]]),
            rows=np.concatenate([self.rows, more.rows]),
        )

    def sum_counts(self, item_counts: Integers) -> Integers:
        """Events of the items that have each attribute."""
        return np.bincount(self.rows, item_counts[self.owners], len(self.values)).astype(np.int64)

    def alike(self, others: ItemAttributes, neighbours: int) -> Alike:
        """For each of these items, the `neighbours` most alike of others with the same `values`."""
        from scipy import sparse

        rarity = others.rarity
        left, right = self.matrix(rarity), others.matrix(rarity)
        rare = sparse.diags_array((others.item_counts <= MOST_ALIKE).astype(np.float64))
        pairs = np.bincount(self.owners, np.minimum(others.item_counts, MOST_ALIKE)[self.rows], len(self))
        found = [
            strongest_entries((left[start:end] @ rare) @ right.T, neighbours)
            for start, end in spans_within(pairs, _PAIRS_AT_ONCE)
        ]
        near = sparse.vstack(found).tocoo()
        items, columns = near.coords
        return Alike(items.astype(np.int64), columns.astype(np.int64), near.data)

    @property
    def rarity(self) -> Floats:
        """The logarithm of how rare each attribute is among these items."""
        rarity: Floats = np.log(max(len(self), 2) / np.maximum(self.item_counts, 1))
        return rarity

    def matrix(self, rarity: Floats) -> Any:
        """A SciPy sparse matrix with a row of length 1 per item: its attributes, weighted by their `rarity`."""
        from scipy import sparse

        weights = rarity[self.rows]
        lengths = np.sqrt(np.bincount(self.owners, weights**2, len(self)))
        weights = weights / np.maximum(lengths, 1e-9)[self.owners]
        return sparse.csr_array((weights, self.rows, self.offsets), (len(self), len(self.values)))

    @property
    def digest(self) -> str:
        """A hash of the content."""
        digest = hashlib.sha256()
        self.items.update_digest(digest)
        self.values.update_digest(digest)
        update_digest(digest, [self.offsets, self.rows])
        return digest.hexdigest()


def _table(frame: Any, item: str) -> pl.DataFrame:
    """A frame of any library as a Polars frame with a column of items."""
    kind = type(frame).__name__
    table = polars_frame(frame, f"attributes are a {kind}: give a pandas, Polars or pyarrow frame with a row per item")
    if item not in table.columns:
        raise InputError(f"the frame of attributes has no column {item!r}, only {', '.join(table.columns)}: name it")
    return table


def refuse_repeated(columns: Iterable[str]) -> None:
    """Refuse a column that is named twice: its values would count twice."""
    for name, count in Counter(columns).items():
        if count > 1:
            raise ConfigError(f"the column {name!r} of attributes is named {count} times: name it once")


def _describe(table: pl.DataFrame, text: str) -> AttributeColumn:
    """A column by its name and kind, or by what it holds."""
    import polars as pl

    name, colon, kind = text.rpartition(":")
    if not colon or text in table.columns:
        name, kind = text, ""
    if kind and kind not in get_args(Kind):
        raise ConfigError(f"the column {name!r} has the kind {kind!r}: use path, values or number")
    if name not in table.columns:
        raise InputError(f"there is no column {name!r} of attributes, only {', '.join(table.columns)}: check the name")
    if "=" in name:
        raise InputError(f"the column {name!r} has = in its name: rename it")
    column = table[name]
    texts = _texts(column).drop_nulls()
    if not kind:
        numbers = texts.cast(pl.Float64, strict=False)
        if column.dtype != pl.Boolean and numbers.null_count() == 0 and numbers.n_unique() > 20:
            kind = "number"
        else:
            kind = "path" if texts.str.contains(">", literal=True).any() else "values"
    if kind != "number":
        return AttributeColumn(name, "path" if kind == "path" else "values")
    numbers_of = np.array([_number(value, name) for value in texts.to_list()])
    if not len(numbers_of):
        raise InputError(f"the column {name!r} of attributes is empty: leave it out")
    edges = np.unique(np.quantile(numbers_of, np.arange(1, BINS) / BINS))
    return AttributeColumn(name, "number", tuple(edges.tolist()))


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"the {name} {text[:80]!r} is not a number: fix it, or read the column as values")
    return number


def _texts(column: pl.Series) -> pl.Series:
    import polars as pl

    if isinstance(column.dtype, pl.List):
        column = column.cast(pl.List(pl.String)).list.join("|")
    texts = column.cast(pl.String).str.strip_chars()
    return texts.replace("", None)


def _read(table: pl.DataFrame, item: str, columns: tuple[AttributeColumn, ...]) -> ItemAttributes:
    """All attributes in a table, in the order of items and, for each, of columns."""
    import polars as pl

    ids = Vocabulary(table[item], name="item")
    rows = pl.Series("row", np.arange(len(table), dtype=np.int64))
    parts, notes = [], []
    for column in columns:
        texts = pl.DataFrame({"row": rows, "text": _texts(table[column.name])}).drop_nulls()
        distinct = texts["text"].unique(maintain_order=True)
        values = [list(column.values_of(text)) for text in distinct]
        expanded = pl.DataFrame({"text": distinct, "value": pl.Series(values, dtype=pl.List(pl.String))})
        expanded = expanded.explode("value").drop_nulls()
        short = expanded.filter(pl.col("value").str.len_chars() <= LONGEST_VALUE)
        if long := len(expanded) - len(short):
            notes.append(f"{Count(long):value|values} of {column.name} longer than {LONGEST_VALUE} characters left out")
        joined = texts.join(short, on="text", maintain_order="left_right").select("row", "value")
        parts.append(joined.unique(maintain_order=True))
    pairs = pl.concat(parts)
    empty = len(table) - pairs["row"].n_unique()
    if empty:
        notes.append(f"{Count(empty):item has|items have} no attributes")
    known = Vocabulary(pairs["value"].unique().sort(), name="attribute")
    order = np.argsort(pairs["row"].to_numpy(), kind="stable")
    offsets = make_offsets(np.bincount(pairs["row"].to_numpy(), minlength=len(ids)))
    rows_of_values = known.rows(pairs["value"])[order].astype(np.int32)
    return ItemAttributes(ids, known, offsets, rows_of_values, columns, tuple(notes))
