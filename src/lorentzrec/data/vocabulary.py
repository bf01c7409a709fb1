"""External ids and the dense rows that represent them; the only place that converts one into the other."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeAlias, overload
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.data.frames import polars_series
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Id: TypeAlias = str | int

LONGEST_ID = 512
"""Characters of an id in files and in the service."""
CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x9f]"
"""What an id in files and in the service must not contain."""

UNKNOWN = -1
"""The row that `Vocabulary.rows` gives for an id it does not hold."""


class Vocabulary(Sequence[Id]):
    """Ids in row order: row 3 is the fourth id. Ids are all strings or all integers, and keep their type.

    An immutable sequence: `vocabulary[3]`, `vocabulary[:3]`, `list(vocabulary)`, `"tea" in vocabulary`,
    `vocabulary.index("tea")`. The first look-up of a single id builds a dictionary; bulk look-ups use a join instead.
    """

    def __init__(self, ids: Any, *, name: str = "id") -> None:
        """`ids`: a polars Series, array or list of distinct strings or integers. `name`: what errors call one of
        them."""
        self.name = name
        self.series: pl.Series = id_series(ids, name)
        if self.series.n_unique() != len(self.series):
            twice = self.series.filter(self.series.is_duplicated())[0]
            raise InputError(f"the {name} {twice!r} occurs twice: give each {name} once")

    @classmethod
    def numbered(cls, count: int, *, name: str = "id") -> Vocabulary:
        """The ids 0, 1, ... count - 1: every id is its own row."""
        return cls(np.arange(count, dtype=np.int64), name=name)

    def __len__(self) -> int:
        return len(self.series)

    @overload
    def __getitem__(self, row: SupportsIndex) -> Id: ...

    @overload
    def __getitem__(self, row: slice) -> list[Id]: ...

    def __getitem__(self, row: SupportsIndex | slice) -> Id | list[Id]:
        if isinstance(row, slice):
            return self.series[row].to_list()
        return self.series[operator.index(row)]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Id]:
        return iter(self.series.to_list())

    def __contains__(self, candidate: object) -> bool:
        try:
            return candidate in self._row_of
        except TypeError:  # a list, which is no id
            return False

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The row of an id, from `start` to before `stop`; a ValueError if it is not there, as of a list."""
        row = self.row(value)
        if row not in range(*slice(start, stop).indices(len(self))):
            raise ValueError(f"{value!r} is not among these {self.name}s")
        return row

    def count(self, value: Any) -> int:
        """1 if the id is held, else 0."""
        return int(value in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self is other or self.series.equals(other.series))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count = f"{Count(len(self)):{self.name}|{self.name}s}"
        return f"Vocabulary({count}, {'strings' if self.holds_strings else 'integers'})"

    @property
    def holds_strings(self) -> bool:
        return not self.series.dtype.is_integer()

    @cached_property
    def integer_type(self) -> type[np.int32 | np.int64]:
        """The smaller of the two types that has room for all ids, if these are integers."""
        limits = np.iinfo(np.int32)
        fits = self.series.is_between(limits.min, limits.max).all()
        return np.int32 if fits else np.int64

    @cached_property
    def _row_of(self) -> dict[Id, int]:
        return {identifier: row for row, identifier in enumerate(self.series.to_list())}

    def row(self, identifier: Id) -> int:
        """The row of one id; `UNKNOWN` if it is not held."""
        if isinstance(identifier, np.generic):
            identifier = identifier.item()
        return self._row_of.get(identifier, UNKNOWN)

    def rows(self, ids: Any) -> NDArray[np.int64]:
        """The rows of many ids, `UNKNOWN` where one is not held. An id of the other type (3 for "3") is not held."""
        import polars as pl

        if len(ids) == 0:
            return np.empty(0, np.int64)
        if isinstance(ids, list | tuple) and len(ids) <= 1024:
            return np.fromiter((self.row(identifier) for identifier in ids), np.int64, len(ids))
        wanted = id_series(ids, self.name)
        if wanted.dtype != self.series.dtype:
            return np.full(len(wanted), UNKNOWN, np.int64)
        held = pl.DataFrame({"id": self.series, "row": np.arange(len(self), dtype=np.int64)})
        joined = pl.DataFrame({"id": wanted}).join(held, on="id", how="left", maintain_order="left")
        return joined["row"].fill_null(UNKNOWN).to_numpy()

    def id(self, row: int) -> Id:
        """The id of one row."""
        return self.series[row]  # type: ignore[no-any-return]

    def ids(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> list[Id]:
        """The ids of many rows."""
        return self.series.gather(np.asarray(rows, np.int64)).to_list()

    def union(self, other: Vocabulary) -> Vocabulary:
        """These ids followed by those of `other` that are not among them; ids of another type are an `InputError`."""
        import polars as pl

        if self == other:
            return self
        self.refuse_other_type(other)
        new = other.series.filter(self.rows(other.series) == UNKNOWN)
        return Vocabulary(pl.concat([self.series, new]), name=self.name) if len(new) else self

    def refuse_other_type(self, other: Vocabulary) -> None:
        """Raise an `InputError` if one vocabulary has strings and the other integers."""
        if self.holds_strings != other.holds_strings and len(self) and len(other):
            kinds = [f"{one.id(0)!r} ({'string' if one.holds_strings else 'integer'})" for one in (self, other)]
            raise InputError(
                f"{self.name}s are {kinds[0]} on one side and {kinds[1]} on the other: give both the same type"
            )

    def parse(self, text: str) -> Id:
        """An id as a person types it: the integer it spells where ids are integers, else the text itself."""
        if self.holds_strings:
            return text
        try:
            return int(text)
        except ValueError:
            raise InputError(
                f"the {self.name} {text!r} is not a whole number, and all {self.name}s here are: check it"
            ) from None

    def update_digest(self, digest: hashlib._Hash) -> None:
        """Add the ids in row order, and whether they are strings, to a running hash."""
        if self.holds_strings:
            lengths = self.series.str.len_bytes().to_numpy().astype("<u4")
            digest.update(b"strings")
            digest.update(lengths.tobytes())
            for start in range(0, len(self), 1_000_000):
                digest.update("".join(self.series[start : start + 1_000_000].to_list()).encode())
        else:
            digest.update(b"integers")
            digest.update(self.series.to_numpy().astype("<i8").tobytes())


def id_series(values: Any, name: str) -> pl.Series:
    """`values` as a polars Series of String or Int64, or an `InputError` that names the first value that is neither."""
    import polars as pl

    if isinstance(values, pl.Series):
        series = values
    elif isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        series = pl.Series(values)
    else:
        plain = values.tolist() if hasattr(values, "tolist") else list(values)
        series = _series_of_objects(plain, name)
    if series.null_count():
        row = int(series.is_null().arg_true()[0])
        raise InputError(f"the {name} in row {row + 1} is missing: give every event one, or drop the row")
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.UInt64 and (series > np.iinfo(np.int64).max).any():
        raise InputError(f"a {name} does not fit 64 bits with sign: pass {name}s of that size as strings")
    if series.dtype.is_integer():
        return series.cast(pl.Int64)
    if series.dtype == pl.String:
        return series
    if len(series) == 0:
        return pl.Series([], dtype=pl.String)
    if series.dtype.is_float():
        _refuse_floats(series.to_list(), name)
    raise InputError(f"{name}s are of type {series.dtype}: {name}s must be strings or integers, convert them first")


def nullable_ids(values: Any, name: str) -> tuple[pl.Series, bool]:
    """A column of a frame as ids, null where one is missing, and whether integers became text because some are text."""
    import polars as pl

    if str(getattr(values, "dtype", "")) != "object":
        return polars_series(values, f"the {name}s", "give strings or integers"), False
    plain = [None if _is_missing(value) else value for value in values.tolist()]
    present = [value for value in plain if value is not None]
    kinds = set(map(type, present))
    if kinds and all(issubclass(kind, float) for kind in kinds):
        return pl.Series(plain, dtype=pl.Float64), False
    mixed = any(issubclass(kind, str) for kind in kinds) and len(kinds) > 1
    if mixed and all(issubclass(kind, str | int | float | np.integer) and kind is not bool for kind in kinds):
        return pl.Series([None if value is None else _spell(value) for value in plain], dtype=pl.String), True
    ids = iter(_series_of_objects(present, name)) if present else iter(())
    return pl.Series([None if value is None else next(ids) for value in plain]), False


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _spell(value: Any) -> str:
    """An id as text, whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _series_of_objects(values: list[Any], name: str) -> pl.Series:
    import polars as pl

    missing = next((row for row, value in enumerate(values) if _is_missing(value)), None)
    kinds = set(map(type, values))
    if missing is not None and not all(kind is type(None) or issubclass(kind, float) for kind in kinds):
        raise InputError(f"the {name} in row {missing + 1} is missing: give every event one, or drop the row")
    if kinds <= {UUID}:
        return pl.Series(list(map(str, values)), dtype=pl.String)
    if all(kind is type(None) or issubclass(kind, float) for kind in kinds):
        _refuse_floats(values, name)
    strings = isinstance(values[0], str)
    suited = {kind for kind in kinds - {bool} if issubclass(kind, str if strings else int | np.integer)}
    if suited != kinds:
        row, value = next((row, value) for row, value in enumerate(values) if type(value) not in suited)
        first = f", and the first is one of the {'strings' if strings else 'integers'}" if row else ""
        raise InputError(
            f"the {name} in row {row + 1} is {value!r} ({type(value).__name__}): "
            f"{name}s must be all strings or all integers{first}; convert them first"
        )
    plain = values if kinds <= {str, int} else [str(value) if strings else int(value) for value in values]
    try:
        return pl.Series(plain, dtype=pl.String if strings else pl.Int64)
    except UnicodeEncodeError as error:
        row = plain.index(error.object)
        raise InputError(
            f"the {name} in row {row + 1} is {error.object!r}, which is not Unicode (a lone surrogate): correct it"
        ) from None
    except (OverflowError, TypeError):
        raise InputError(f"a {name} does not fit 64 bits with sign: pass {name}s of that size as strings") from None


def _refuse_floats(values: list[float | None], name: str) -> NoReturn:
    """Integers become floats where pandas or NumPy has a missing value among them: name that one, not the first."""
    missing = next((row for row, value in enumerate(values) if value is None or value != value), None)
    if missing is not None:
        raise InputError(
            f"the {name} in row {missing + 1} is missing, which made all {name}s floats: "
            "drop such rows, then convert with astype('int64')"
        )
    raise InputError(f"the {name}s are floats ({values[0]} in row 1): convert them to integers or strings first")
