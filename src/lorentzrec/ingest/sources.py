"""What raw events look like: file formats, column names, and the well-known data sets as ready readers."""

from __future__ import annotations

import codecs
import difflib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from lorentzrec.data.times import TimeUnit, check_format
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.dialects import (
    NAMED_SEPARATORS,
    encoding_hint,
    encoding_of,
    first_lines,
    has_unreadable,
    is_utf8,
    opened_text,
    separator_of,
    split_line,
)
from lorentzrec.ingest.storage import parquet_faults

Format = Literal["auto", "csv", "json", "parquet", "adjacency", "csr"]
Ties = Literal["id", "file"]

ROLES = ("user", "item", "time", "weight", "rating", "event")
"""What a column can be for. `rating` is for a threshold, `event` (view, purchase, ...) for weights by kind."""

KNOWN_NAMES = {
    "user": (
        "user",
        "userid",
        "uid",
        "visitor",
        "visitorid",
        "customer",
        "customerid",
        "client",
        "clientid",
        "member",
        "memberid",
        "reviewerid",
    ),
    "item": (
        "item",
        "itemid",
        "movie",
        "movieid",
        "product",
        "productid",
        "article",
        "articleid",
        "asin",
        "sku",
        "isbn",
        "book",
        "bookid",
    ),
    "time": ("time", "timestamp", "ts", "date", "datetime", "eventtime"),
}
"""Names of columns that are recognised, in small letters and without other characters: `User-ID` is userid."""
_RATINGS = ("rating", "bookrating", "score", "stars", "overall")

_EXTENSIONS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".npz": "csr"}
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """How to read event files. What is left as None is recognised from the file, with a note where it is a guess."""

    format: Format = "auto"
    """File format; `auto`: by the suffix, csv, tsv, inter (RecBole), json, jsonl, ndjson, parquet, npz; also .gz, .zst.

    `adjacency`: one line per user, `user item item ...`. `csr`: a SciPy sparse matrix, users in rows.
    """
    user_column: str | None = None
    """Column of the customer; by default user, or a common name such as user_id."""
    item_column: str | None = None
    """Column of the item; by default item, or a common name such as product_id."""
    time_column: str | None = None
    """Column of the time; by default time, or a common name such as timestamp, if it exists. An empty string: times are
    not used."""
    weight_column: str | None = None
    """Column of the weight; by default weight, if it exists."""
    rating_column: str | None = None
    """Column of the rating."""
    event_column: str | None = None
    """Column of the kind of event: view, purchase, ..."""
    separator: str | None = None
    """Between the fields of a CSV line: one or more characters, tab or space; by default recognised from the file."""
    quote: str | None = '"'
    """Around fields that contain a separator; none if there are no quotes."""
    escape: str | None = None
    """The character before a quote inside a field, if quotes are not doubled: usually a backslash."""
    decimal: str | None = None
    """Decimal point of weights and ratings, . or , ; by default recognised from the first values."""
    header: bool | None = None
    """Whether the first line names the columns. None: it does, unless `columns` are given."""
    columns: tuple[str, ...] = ()
    """Names of the columns, in order, of files without header; by default user, item, time, weight."""
    encoding: str = "utf-8"
    """Text encoding; UTF-16 and UTF-32 are recognised by their byte order mark."""
    time_unit: TimeUnit = "auto"
    """seconds, milliseconds, microseconds or iso; `auto`: numbers are unix seconds, text is ISO 8601."""
    time_format: str | None = None
    """The format of times that are not ISO 8601: `%d.%m.%Y %H:%M`."""
    ordered: bool = False
    """Events have no times but are in order, oldest first: their positions become times."""
    ties: Ties = "id"
    """Order of a customer's events with equal times: by item id, or as in the file."""
    positions_as_times: bool = False
    """Deprecated: the former name of `ordered`."""
    file_name: str | None = None
    """The file to take from a folder, for data sets that come as a folder of several files."""

    def __post_init__(self) -> None:
        choices = {"format": Format, "time_unit": TimeUnit, "ties": Ties}
        for name, values in choices.items():
            if getattr(self, name) not in get_args(values):
                raise ConfigError(f"`{name}` is {getattr(self, name)!r}: use one of {', '.join(get_args(values))}")
        if self.separator == "" or self.quote == "" or self.escape == "":
            raise ConfigError("`separator`, `quote` and `escape` cannot be empty: give a character, or leave them out")
        for name, value in (("quote", self.quote), ("escape", self.escape)):
            if value is not None and value != "none" and len(value) != 1:
                raise ConfigError(f"`{name}` is {value!r}: give one character, or none")
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"`decimal` is {self.decimal!r}: use a point or a comma")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(f"there is no text `encoding` {self.encoding!r}: use utf-8, latin-1, ...") from None
        if self.time_format is not None:
            check_format(self.time_format)
        if self.positions_as_times:
            warnings.warn("positions_as_times is now called ordered", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "ordered", True)
            object.__setattr__(self, "positions_as_times", False)
        if self.ordered and self.time_column:
            raise ConfigError(
                "`ordered` is for events without times, but `time_column` is given: leave one out, or use `ties='file'`"
            )
        if self.separator is not None:
            object.__setattr__(self, "separator", NAMED_SEPARATORS.get(self.separator, self.separator))
        for name in ("quote", "escape"):
            if getattr(self, name) == "none":
                object.__setattr__(self, name, None)

    @property
    def has_header(self) -> bool:
        return not self.columns if self.header is None else self.header

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
    "adjacency-ordered": Source(format="adjacency", ordered=True),
    "sasrec": Source(format="csv", separator=" ", quote=None, columns=("user", "item"), ordered=True),
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
    refuse_unknown(options, [field.name for field in fields(Source)])
    return replace(READERS[reader] if reader else Source(), **options)


def refuse_unknown(options: Iterable[str], known: Iterable[str]) -> None:
    """An error for the first option that is not known, with the one that was probably meant."""
    known = sorted(known)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(f"there is no source option {name!r}: use {near[0] if near else ', '.join(known)}")


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
    notes: tuple[str, ...] = ()
    """What was recognised rather than given."""


def layout_of(path: Path, source: Source, label: str, wanted: Mapping[str, str | None] | None = None) -> Layout:
    """Look at the beginning of a local file, and refuse it if it cannot be what the source says. `label`: its name.

    `wanted`: role -> column, for tables of other things than events; None: the column of that name, if there is one.
    """
    if path.stat().st_size == 0:
        raise InputError(f"{label} is empty: give a file with content")
    file_format, usual = _format_of(path, label, source)
    separator, notes = usual, []
    if file_format == "adjacency":
        return Layout("adjacency", usual, ("user", "item"), {"user": "user", "item": "item"})
    if file_format == "csr":
        if source.ordered:
            raise InputError(f"{label} is a matrix and has no order: leave `ordered` out")
        roles = {role: role for role in ("user", "item", "weight")}
        return Layout("csr", "", tuple(roles), roles, integers=frozenset({"user", "item"}))
    if file_format == "csv":
        separator = _separator(path, source, label, usual)
        if separator != usual:
            notes.append(f"fields are separated by {_SPELLED.get(separator, repr(separator))}")
    if file_format != "parquet" and is_utf8(source.encoding):
        encoding = encoding_of(path, source.encoding, label)
        if not is_utf8(encoding):
            notes.append(f"the encoding is {encoding.upper()}")
    names = {"csv": _csv_names, "json": _json_names, "parquet": _parquet_names}[file_format](
        path, source, label, separator
    )
    roles = _event_roles(names, source, label, notes) if wanted is None else _table_roles(names, wanted, label)
    spelled = frozenset(role for role, column in roles.items() if names[column] == "either")
    integers = frozenset(role for role, column in roles.items() if names[column] == "integer")
    return Layout(file_format, separator, tuple(names), roles, spelled | integers, integers, tuple(notes))


_SPELLED = {"\t": "tabs", " ": "spaces"}


def _event_roles(names: Mapping[str, str], source: Source, label: str, notes: list[str]) -> dict[str, str]:
    roles = {role: column for role in ROLES if (column := source.column_of(role))}
    taken = set(roles.values())
    for role in ("user", "item", "time"):
        if source.column_of(role) is not None or (role == "time" and source.ordered):
            continue
        known = [name for name in names if _plain(name) in KNOWN_NAMES[role] and name not in taken]
        if role in names:
            roles[role] = role
        elif len(known) == 1:
            roles[role] = known[0]
            notes.append(f"the column {known[0]!r} is taken for the {role}")
        elif role == "time" and known:
            those = " and ".join(map(repr, known))
            notes.append(f"{those} look like times and are not used: choose one with `time_column`")
        elif role != "time":
            found = ", ".join(known or names)
            raise InputError(
                f"{label} has no column {role!r}, {'but' if known else 'only'} {found}: "
                f"name the column of the {role} with `{role}_column`"
            )
    if source.weight_column is None and "weight" in names:
        roles["weight"] = "weight"
    _refuse_missing_columns(roles, names, label)
    if "time" not in roles and not source.ordered and source.time_column is None:
        for name in names:
            if (
                _plain(name) not in KNOWN_NAMES["time"]
                and any(word in name.lower() for word in ("time", "date"))
                and name not in roles.values()
            ):
                notes.append(f"{name!r} may be a time and is not used: if it is, give `time_column`")
                break
    rated = [name for name in names if _plain(name) in _RATINGS and name not in roles.values()]
    if rated:
        notes.append(
            f"the column {rated[0]!r} is not used: keep good ratings with `rating_column` and `minimum_rating`"
        )
    return {role: roles[role] for role in ROLES if role in roles}


def _table_roles(names: Mapping[str, str], wanted: Mapping[str, str | None], label: str) -> dict[str, str]:
    roles = {role: column or role for role, column in wanted.items() if column or role in names}
    if "item" in wanted and "item" not in roles:
        known = [name for name in names if _plain(name) in KNOWN_NAMES["item"]]
        roles["item"] = known[0] if len(known) == 1 else "item"
    _refuse_missing_columns(roles, names, label)
    return roles


def _refuse_missing_columns(roles: Mapping[str, str], names: Mapping[str, str], label: str) -> None:
    for role, column in roles.items():
        if column not in names:
            raise InputError(
                f"{label} has no column {column!r} for the {role}, only {', '.join(names)}: give `{role}_column`"
            )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _format_of(path: Path, label: str, source: Source) -> tuple[str, str]:
    """The format, and the separator that is usual in it."""
    suffixes = [suffix.lower() for suffix in Path(label).suffixes if suffix.lower() not in (".gz", ".zst")]
    suffix = suffixes[-1] if suffixes else ""
    separator = source.separator or _SEPARATORS.get(suffix, ",")
    if source.format != "auto":
        return source.format, separator
    if suffix in _SEPARATORS:
        return "csv", separator
    if suffix in _EXTENSIONS:
        return _EXTENSIONS[suffix], separator
    if source.columns or source.separator:
        return "csv", separator
    lines = first_lines(path, source.encoding, label)
    words = [len(line.split()) for line in lines]
    headed = separator_of(lines, separator, source.quote, header=True, fields=None, spaces=True)
    names = {_plain(name) for name in _split(lines[0] if lines else "", headed, source, label)}
    if names & set(KNOWN_NAMES["user"]) and names & set(KNOWN_NAMES["item"]):
        return "csv", separator
    likely = "`format`, or `columns` if it is text without header"
    if words and set(words) == {2}:
        likely = "`reader='sasrec'` if each line is a user and an item, oldest first"
    elif words and min(words) > 1 and len(set(words)) > 1:
        likely = "`reader='adjacency'` if each line is a user and all their items"
    raise InputError(f"{label}: its name does not tell its format: give {likely}")


def _separator(path: Path, source: Source, label: str, usual: str) -> str:
    if source.separator is not None:
        return source.separator
    spaces = not label.removesuffix(".gz").removesuffix(".zst").endswith(tuple(_SEPARATORS))
    return separator_of(
        first_lines(path, source.encoding, label),
        usual,
        source.quote,
        header=source.has_header,
        fields=len(source.columns) or None,
        spaces=spaces,
    )


def _split(line: str, separator: str, source: Source, label: str) -> list[str]:
    if has_unreadable(line):
        raise InputError(f"{label} line 1: bytes that are not {source.encoding}: give {encoding_hint(line)}")
    try:
        return split_line(line, separator, source.quote)
    except ValueError as error:
        raise InputError(f"{label} line 1: {error}: fix it, or give `separator` or `quote`") from None


# The three below give the columns in order, and of each whether its values are "text" that stays text, of an "integer"
# type, or "either": text that may spell integers.


def _csv_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    with opened_text(path, source.encoding, label) as lines:
        line = next(lines, "")
    if source.escape and source.quote:
        line = line.replace(source.escape + source.quote, source.quote * 2)
    if not line.strip():
        raise InputError(f"{label} line 1 is empty: remove it")
    names = _split(line, separator, source, label)
    if source.columns or not source.has_header:
        given = list(source.columns or ROLES[: len(names)])
        if len(given) != len(names):
            raise InputError(
                f"{label} line 1: {len(names)} fields for the columns {', '.join(given)}: check `columns`, `separator`"
            )
        names = given
    elif label.removesuffix(".gz").removesuffix(".zst").endswith(".inter"):
        names = [name.split(":")[0] for name in names]  # RecBole writes the type behind the name: `user_id:token`
    for place, name in enumerate(names):
        if name == "":
            raise InputError(
                f"{label}: column {place + 1} has no name: name it, or give `columns` if there is no header"
            )
        if name in names[:place]:
            raise InputError(
                f"{label} has the column {name!r} more than once: rename one of them, or give `columns` if there is no "
                "header"
            )
    return dict.fromkeys(names, "either")


def _json_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for line in first_lines(path, source.encoding, label, 100):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # reported with its line number when the file is read
        for name, value in record.items() if isinstance(record, dict) else ():
            names[name] = "text" if isinstance(value, str) else names.get(name, "either")
    if not names:
        raise InputError(
            f"{label}: its first lines are not JSON objects: give one object per line, or another `format`"
        )
    return names


def _parquet_names(path: Path, source: Source, label: str, separator: str) -> dict[str, str]:
    import polars as pl

    with parquet_faults(label, "it is no Parquet file, give one", InputError):
        schema = pl.read_parquet_schema(path)
    return {name: "integer" if kind.is_integer() else "text" for name, kind in schema.items()}
