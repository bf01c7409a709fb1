"""What raw events look like: file formats, column names, and the well-known data sets as ready readers."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from lorentzrec.data.storage import parquet_faults
from lorentzrec.data.unpacking import opened
from lorentzrec.errors import ConfigError, InputError

Format = Literal["auto", "csv", "json", "parquet", "adjacency", "csr"]
TimeUnit = Literal["auto", "seconds", "milliseconds", "microseconds", "iso"]

ROLES = ("user", "item", "time", "weight", "rating", "event")
"""What a column can be for. `rating` is for a threshold, `event` (view, purchase, ...) for weights by kind."""

_EXTENSIONS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".npz": "csr"}
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """How to read event files. Columns left as None are used if the file has them by their own name (`time`, ...)."""

    format: Format = "auto"
    """`auto` goes by the file's name: csv, tsv, inter (RecBole), json, jsonl, ndjson, parquet, npz; also .gz, .zst.

    `adjacency`: one line per user, `user item item ...`. `csr`: a SciPy sparse matrix, users in rows.
    """
    user_column: str = "user"
    item_column: str = "item"
    time_column: str | None = None
    weight_column: str | None = None
    rating_column: str | None = None
    event_column: str | None = None
    separator: str | None = None
    """Between the fields of a CSV line; one or more characters. None: comma, or tab for .tsv and .inter."""
    quote: str | None = '"'
    header: bool = True
    """Whether the first line names the columns."""
    columns: tuple[str, ...] = ()
    """Names of the columns, in order, of files without header; by default user, item, time, weight."""
    encoding: str = "utf-8"
    time_unit: TimeUnit = "auto"
    """`auto`: numbers are unix seconds, datetimes are what they say, text is ISO 8601 unless it is a number."""
    positions_as_times: bool = False
    """For adjacency lines whose items stand oldest first: the place in the line becomes the time."""
    file_name: str | None = None
    """The file to take from a folder, for data sets that come as a folder of several files."""

    def __post_init__(self) -> None:
        for name, choices in (("format", get_args(Format)), ("time_unit", get_args(TimeUnit))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: use one of {', '.join(choices)}")
        if self.separator == "" or self.quote == "":
            raise ConfigError("separator and quote cannot be empty: give a character, or leave them out")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(f"there is no text encoding {self.encoding!r}: use utf-8, latin-1, ...") from None

    def column_of(self, role: str) -> str | None:
        """The name the user gave for a role, or None."""
        return getattr(self, f"{role}_column")  # type: ignore[no-any-return]


_MOVIELENS_CSV = Source(
    format="csv",
    user_column="userId",
    item_column="movieId",
    rating_column="rating",
    time_column="timestamp",
    time_unit="seconds",
    file_name="ratings.csv",
)
_RATING_LINES = Source(
    format="csv",
    header=False,
    quote=None,
    columns=("user", "item", "rating", "time"),
    rating_column="rating",
    time_column="time",
    time_unit="seconds",
)
READERS: dict[str, Source] = {
    "movielens-100k": replace(_RATING_LINES, separator="\t", file_name="u.data"),
    "movielens-1m": replace(_RATING_LINES, separator="::", file_name="ratings.dat"),
    "movielens-10m": replace(_RATING_LINES, separator="::", file_name="ratings.dat"),
    "movielens-20m": _MOVIELENS_CSV,
    "movielens-25m": _MOVIELENS_CSV,
    "movielens-32m": _MOVIELENS_CSV,
    "amazon-ratings": _RATING_LINES,
    "amazon-reviews": Source(
        format="json",
        user_column="reviewerID",
        item_column="asin",
        rating_column="overall",
        time_column="unixReviewTime",
        time_unit="seconds",
    ),
    "adjacency": Source(format="adjacency"),
    "adjacency-ordered": Source(format="adjacency", positions_as_times=True),
    "recbole": Source(
        format="csv", separator="\t", user_column="user_id", item_column="item_id", quote=None, time_unit="seconds"
    ),
    "csr": Source(format="csr"),
}
"""Ready readers by name. The file may be named itself or by the folder it comes in."""


def source_named(reader: str | None = None, **options: Any) -> Source:
    """A reader by name, or the plain one, with some of its settings changed."""
    if reader is not None and reader not in READERS:
        raise ConfigError(f"there is no reader {reader!r}: use one of {', '.join(READERS)}")
    known = {field.name for field in fields(Source)}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"there is no source option {name!r}: use {near[0] if near else ', '.join(sorted(known))}"
            )
    return replace(READERS[reader] if reader else Source(), **options)


@dataclass(frozen=True)
class Layout:
    """One event file as its source says it is: format decided, names of the columns found, roles given to them."""

    format: str
    separator: str
    names: tuple[str, ...]
    """All columns of the file, in order; for JSON those met in the first lines."""
    roles: dict[str, str]
    """Role -> column."""
    spelled: frozenset[str] = frozenset({"user", "item"})
    """Roles whose ids are integers if all of them spell one: a CSV file cannot say which it means."""
    integers: frozenset[str] = frozenset()
    """Roles whose column has an integer type in the file itself."""


def layout_of(path: Path, source: Source, label: str, wanted: Mapping[str, str | None] | None = None) -> Layout:
    """Look at the beginning of a local file, and refuse it if it cannot be what the source says. `label`: its name.

    `wanted`: role -> column, for tables of other things than events; None: the column of that name, if there is one.
    """
    file_format, separator = _format_of(label, source)
    if path.stat().st_size == 0:
        raise InputError(f"{label} is empty: give a file with content")
    if file_format == "adjacency":
        times = {"time": "time"} if source.positions_as_times else {}
        return Layout("adjacency", source.separator or " ", ("user", "item"), {"user": "user", "item": "item"} | times)
    if file_format == "csr":
        roles = {role: role for role in ("user", "item", "weight")}
        return Layout("csr", "", tuple(roles), roles, integers=frozenset({"user", "item"}))
    names = {"csv": _csv_names, "json": _json_names, "parquet": _parquet_names}[file_format](
        path, source, label, separator
    )
    asked = wanted or {role: source.column_of(role) for role in ROLES}
    by_name = wanted or ("time", "weight")
    roles = {role: column or role for role, column in asked.items() if column or (role in by_name and role in names)}
    for role, column in roles.items():
        if column not in names:
            found = ", ".join(names)
            raise InputError(
                f"{label} has no column {column!r} for the {role}, only {found}: name it (--{role}-column)"
            )
    spelled = frozenset(role for role, column in roles.items() if names[column] == "either")
    integers = frozenset(role for role, column in roles.items() if names[column] == "integer")
    return Layout(file_format, separator, tuple(names), roles, spelled | integers, integers)


def _format_of(label: str, source: Source) -> tuple[str, str]:
    suffixes = [suffix.lower() for suffix in Path(label).suffixes if suffix.lower() not in (".gz", ".zst")]
    suffix = suffixes[-1] if suffixes else ""
    separator = source.separator or _SEPARATORS.get(suffix, ",")
    if source.format != "auto":
        return source.format, separator
    if suffix in _SEPARATORS:
        return "csv", separator
    if suffix in _EXTENSIONS:
        return _EXTENSIONS[suffix], separator
    raise InputError(f"{label}: its name does not tell its format: give the format or a reader by name")


# The three below give the columns in order, and of each whether its values are "text" that stays text, of an "integer"
# type, or "either": text that may spell integers.


def _csv_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    with opened_text(path, source.encoding, label) as lines:
        first = next(lines, "")
    try:
        names = split_line(first, separator, source.quote)
    except ValueError as error:
        raise InputError(f"{label} line 1: {error}: mend it, or give the right quote character") from None
    if not source.header:
        given = list(source.columns or ROLES[: len(names)])
        if len(given) != len(names):
            raise InputError(f"{label} line 1: {len(names)} fields for the columns {', '.join(given)}: check both")
        names = given
    elif label.removesuffix(".gz").removesuffix(".zst").endswith(".inter"):
        names = [name.split(":")[0] for name in names]  # RecBole writes the type behind the name: `user_id:token`
    for place, name in enumerate(names):
        if name == "":
            raise InputError(f"{label}: column {place + 1} has no name: name it, or say there is no header")
        if name in names[:place]:
            raise InputError(f"{label} has the column {name!r} more than once: rename one of them")
    return dict.fromkeys(names, "either")


def _json_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    names: dict[str, str] = {}
    with opened_text(path, source.encoding, label) as lines:
        for line in islice((line for line in lines if line.strip()), 100):
            try:
                record = json.loads(line)
            except ValueError:
                continue  # reported with its line number when the file is read
            for name, value in record.items() if isinstance(record, dict) else ():
                names[name] = "text" if isinstance(value, str) else names.get(name, "either")
    if not names:
        raise InputError(f"{label}: its first lines are not JSON objects: give one object a line, or another format")
    return names


def _parquet_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    import polars as pl

    with parquet_faults(label, "it is no Parquet file, give one", InputError):
        schema = pl.read_parquet_schema(path)
    return {name: "integer" if kind.is_integer() else "text" for name, kind in schema.items()}


def split_line(line: str, separator: str, quote: str | None) -> list[str]:
    """The fields of one CSV line; a ValueError says what is wrong with its quotes."""
    text = line.rstrip("\r\n")
    if len(separator) > 1 or quote is None:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, quotechar=quote, strict=True), [""])
    except csv.Error as error:
        raise ValueError(str(error)) from None


def is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"


@contextmanager
def opened_text(path: Path, encoding: str, label: str, *, errors: str = "replace") -> Iterator[Iterator[str]]:
    """The lines of a plain, gzip or zstd text file, without a byte order mark."""
    encoding = "utf-8-sig" if is_utf8(encoding) else encoding
    with opened(path, label) as binary:
        yield iter(io.TextIOWrapper(binary, encoding, errors, newline="\n"))
