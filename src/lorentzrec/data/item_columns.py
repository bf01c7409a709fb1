"""Columns of an item table, a value per row, and the conditions that filters and rules set on them.

A condition on a column is a value, a list of values of which one must fit, or bounds:

    {"brand": "Acme", "size": ["S", "M"], "price": {"min": 20, "max": 50}}

All conditions of a mapping must be met. An item without a value meets no condition on that column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Value: TypeAlias = str | float | bool
Where: TypeAlias = Mapping[str, Any]
"""By column: a value, a list of values, or `Bounds`."""


@runtime_checkable
class Bounds(Protocol):
    """A range, to which its bounds belong; None: without a bound."""

    @property
    def min(self) -> float | None: ...

    @property
    def max(self) -> float | None: ...


class Range(NamedTuple):
    """Bounds of a condition that was given as a mapping."""

    min: float | None = None
    max: float | None = None


def read_conditions(where: Mapping[str, Any]) -> Where:
    """Conditions with mappings such as `{"min": 20, "max": 50}` as `Bounds`; anything else that is none is refused."""
    if not isinstance(where, Mapping):
        raise InputError(f"where is {where!r}: give a condition for each column, such as {{'brand': 'Acme'}}")
    return {name: _read_condition(name, condition) for name, condition in where.items()}


def _read_condition(name: str, condition: Any) -> Any:
    if isinstance(condition, Mapping):
        bounds = [condition.get(bound) for bound in ("min", "max")]
        numbers = [bound for bound in bounds if bound is not None]
        if not numbers or condition.keys() - {"min", "max"} or not all(map(_is_plain_number, numbers)):
            raise InputError(f"the condition on {name!r} is {dict(condition)!r}: give numbers as min, max or both")
        if len(numbers) == 2 and numbers[0] > numbers[1]:
            raise InputError(f"the condition on {name!r} has a min larger than its max, so no item fits: exchange them")
        return Range(*bounds)
    values = condition if isinstance(condition, list | tuple) else [condition]
    if not values or not all(isinstance(value, str | bool) or _is_plain_number(value) for value in values):
        raise InputError(f"the condition on {name!r} is {condition!r}: give a value, a list of values, or min and max")
    return condition


def _is_plain_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(np.isfinite(value))


class UnknownColumn(InputError):  # noqa: N818 - it names the column that a request asks for
    """A condition is about a column that the items do not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        super().__init__(
            f"the items have no column {name!r}: {meant}the columns are {', '.join(known) or 'none'}; "
            "publish the item table with it, or leave the condition out"
        )


@dataclass(frozen=True, eq=False)
class TextColumn:
    """One text per row."""

    codes: NDArray[np.int32]
    """The index in `values`; -1 (`UNKNOWN`) where an item has no value."""
    values: Sequence[str]

    @cached_property
    def code_of(self) -> Mapping[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _rows(self) -> tuple[Integers, Integers]:
        """All rows by value, those without one first, and where the rows of each value begin."""
        codes = self.codes + 1
        # Numbers of 16 bits are sorted by their digits, in a fraction of the time.
        order = np.argsort(codes.astype(np.uint16) if len(self.values) < 2**16 - 1 else codes, kind="stable")
        return order, np.cumsum(np.bincount(codes, minlength=len(self.values) + 1))

    def rows_with(self, codes: Iterable[int]) -> Integers:
        """The rows with one of these values, one value after the other; those of a value in rising order."""
        order, starts = self._rows
        return np.concatenate([order[:0], *(order[starts[code] : starts[code + 1]] for code in codes)])


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """The columns of `count` items."""

    count: int
    texts: Mapping[str, TextColumn] = field(default_factory=dict)
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    """NaN where an item has no value."""

    @property
    def names(self) -> list[str]:
        return sorted([*self.texts, *self.numbers])

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> ItemColumns:
        """The columns of a frame with one row per item: numbers, also those in texts, and everything else as text."""
        import polars as pl

        texts, numbers = {}, {}
        for name in frame.columns:
            column = frame[name]
            if isinstance(column.dtype, pl.List):
                column = column.list.eval(pl.element().cast(pl.String)).list.join("|")
            if not column.dtype.is_numeric():
                column = column.cast(pl.String).str.strip_chars()
                column = column.set(column == "", None)
                if (parsed := column.cast(pl.Float64, strict=False)).null_count() == column.null_count() < len(column):
                    column = parsed
            if column.dtype.is_numeric():
                values = column.cast(pl.Float64).to_numpy()
                numbers[name] = np.where(np.isfinite(values), values, np.nan)
                continue
            known = column.drop_nulls().unique().sort()
            codes = column.replace_strict(known, np.arange(len(known)), default=UNKNOWN, return_dtype=pl.Int32)
            texts[name] = TextColumn(codes.to_numpy(), known.to_list())
        return cls(len(frame), texts, numbers)

    @classmethod
    def from_mappings(cls, items: Sequence[Mapping[str, Value | None]]) -> ItemColumns:
        """Columns of items with a mapping each: every column as text, and as numbers where these are some."""
        texts, numbers = {}, {}
        for name in sorted({name for item in items for name in item}):
            given = [item.get(name) for item in items]
            found = [None if value is None else _to_text(value) for value in given]
            values = sorted({value for value in found if value is not None})
            code_of = {value: code for code, value in enumerate(values)}
            codes = np.array([UNKNOWN if value is None else code_of[value] for value in found], np.int32)
            texts[name] = TextColumn(codes, values)
            numbers[name] = np.array([float(value) if _is_number(value) else np.nan for value in found])
        return cls(len(items), texts, numbers)

    def append(self, other: ItemColumns) -> ItemColumns:
        """The columns of these items and, after them, of others; columns that only the others have are left out."""
        texts = {}
        for name, column in self.texts.items():
            values, later = list(column.values), other.texts.get(name)
            codes = np.full(other.count, UNKNOWN, np.int32)
            if later is not None:
                values += [value for value in later.values if value not in column.code_of]
                merged = TextColumn(column.codes, values)
                table = np.array([*(merged.code_of[value] for value in later.values), UNKNOWN], np.int32)
                codes = table[later.codes]
            texts[name] = TextColumn(np.concatenate([column.codes, codes]), values)
        nothing = np.full(other.count, np.nan)
        numbers = {
            name: np.concatenate([values, other.numbers.get(name, nothing)]) for name, values in self.numbers.items()
        }
        return ItemColumns(self.count + other.count, texts, numbers)

    def check(self, where: Where) -> None:
        """Refuse conditions that these columns cannot meet, whatever the items."""
        for name, condition in where.items():
            self._check_condition(name, condition)

    def find(self, where: Where, rows: Integers | None = None) -> Booleans:
        """Which items meet all conditions; of these rows, or of all."""
        found = np.ones(self.count if rows is None else len(rows), bool)
        for name, condition in where.items():
            found &= self._meets(name, condition, rows)
        return found

    def _check_condition(self, name: str, condition: Any) -> None:
        if name in self.texts:
            if isinstance(condition, Bounds):
                raise InputError(f"the column {name!r} has texts, which have no range: give a value, or a list of them")
            return
        if name not in self.numbers:
            raise UnknownColumn(name, self.names)
        for value in _list_values(condition):
            if not _is_number(value):
                raise InputError(f"the column {name!r} has numbers: give a number instead of {value!r}, or a range")

    def _meets(self, name: str, condition: Any, rows: Integers | None) -> Booleans:
        self._check_condition(name, condition)
        chosen = slice(None) if rows is None else rows
        if name in self.texts:
            column = self.texts[name]
            wanted = np.zeros(len(column.values) + 1, bool)  # the last entry is that of code -1
            for value in _list_values(condition):
                if (code := column.code_of.get(_to_text(value), UNKNOWN)) != UNKNOWN:
                    wanted[code] = True
            return wanted[column.codes[chosen]]
        values = self.numbers[name][chosen]
        if isinstance(condition, Bounds):
            least, greatest = condition.min, condition.max
            above = values >= (-np.inf if least is None else least)
            return above & (values <= (np.inf if greatest is None else greatest))
        return np.isin(values, np.array([float(value) for value in _list_values(condition)]))


def _list_values(condition: Any) -> Iterable[Any]:
    if isinstance(condition, Bounds):
        return ()
    return condition if isinstance(condition, list | tuple) else (condition,)


def _is_number(value: Value | None) -> TypeGuard[Value]:
    try:
        return value is not None and bool(np.isfinite(float(value)))
    except ValueError:
        return False


def _to_text(value: Value) -> str:
    """As tables write it: true for True, 38 for 38.0."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
