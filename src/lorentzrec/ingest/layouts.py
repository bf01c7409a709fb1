"""What one event file looks like: its format, separator, encoding and columns, recognised from its first lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lorentzrec.errors import InputError, RowFault
from lorentzrec.ingest.sources import ROLES, Source
from lorentzrec.ingest.storage import file_name, parquet_faults
from lorentzrec.ingest.text import (
    detect_encoding,
    has_unreadable,
    is_utf8,
    read_first_lines,
    read_lines,
    suggest_encoding,
)

KNOWN_NAMES = {
    "user": "(user|visitor|customer|client|member)(id)?|uid|reviewerid",
    "item": "(item|movie|product|article|book)(id)?|asin|sku|isbn",
    "time": "time|timestamp|ts|date|datetime|eventtime",
    "rating": "rating|bookrating|score|stars|overall",
}
"""Names of columns that are recognised, in lower case and without other characters: `User-ID` is userid."""

_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".npz": "csr"}
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
_SPELLED = {"\t": "tabs", " ": "spaces"}
_FIRST_LINES = 20


@dataclass(frozen=True)
class Layout:
    """One file as it is to be read: its format, the names of its columns, and their roles."""

    address: str
    """Where the file is; errors name it."""
    source: Source
    format: str
    separator: str
    names: tuple[str, ...]
    """All columns of the file, in order; of JSON those in the first lines."""
    roles: dict[str, str]
    """Role -> column."""
    kinds: dict[str, str]
    """Role -> what its values are: of an "integer" type, "text" that stays text, or "either", text that may spell
    integers."""
    notes: tuple[str, ...] = ()
    """What was recognised rather than given."""
    part: int = 0
    """0 for training events, 1 for the test events of the split `given`."""
    number: int = 0
    """The position of the file among all files, for events whose order is that of the files."""

    @property
    def position_column(self) -> str | None:
        """The column for the positions of events in the file, if they are needed."""
        return "time" if self.source.ordered else "sequence" if self.source.ties == "file" else None

    @property
    def columns(self) -> list[str]:
        """The columns of the file's events, without those about faults."""
        return [*self.roles, *([self.position_column] if self.position_column else [])]


def detect_layout(path: Path, source: Source, address: str, wanted: Mapping[str, str | None] | None = None) -> Layout:
    """The layout of a local file, from its first lines; an `InputError` if it does not fit the source.

    `address`: where it comes from, for errors. `wanted`: role -> column, for tables of other things than events; None:
    the column of that name, if there is one.
    """
    if path.stat().st_size == 0:
        raise InputError(f"{address} is empty: give a file with content")
    file_format, usual = _detect_format(path, address, source)
    if file_format != "csv":
        source = replace(source, escape=None)  # in JSON, a backslash has its own meaning
    separator, notes = usual, []
    if file_format == "adjacency":
        roles = {"user": "user", "item": "item"}
        return Layout(address, source, "adjacency", usual, tuple(roles), roles, dict.fromkeys(roles, "either"))
    if file_format == "csr":
        if source.ordered:
            raise InputError(f"{address} is a matrix and has no order: leave `ordered` out")
        roles = {"user": "row", "item": "column", "weight": "value"}
        return Layout(address, source, "csr", "", tuple(roles.values()), roles, dict.fromkeys(roles, "integer"))
    if file_format == "csv" and source.separator is None:
        lines = read_first_lines(path, source, address, _FIRST_LINES)
        spaces = Path(file_name(address)).suffix not in _SEPARATORS
        count = len(source.columns) or None
        separator = detect_separator(lines, usual, source.quote, header=source.has_header, fields=count, spaces=spaces)
        if separator != usual:
            notes.append(f"fields are separated by {_SPELLED.get(separator, repr(separator))}")
    if file_format != "parquet" and is_utf8(source.encoding):
        encoding = detect_encoding(path, source.encoding, address)
        if not is_utf8(encoding):
            notes.append(f"the encoding is {encoding.upper()}")
    columns = _read_columns(path, source, address, file_format, separator)
    roles = _event_roles(columns, source, address, notes) if wanted is None else _table_roles(columns, wanted)
    for role, column in roles.items():
        if column not in columns:
            kind, colon, _ = role.partition(":")
            other = f"give `{role}_column`" if wanted is None else "name one of these, or rename it"
            action = "check `attributes`" if colon else other
            raise InputError(f"{address} has no column {column!r} for the {kind}, only {', '.join(columns)}: {action}")
    kinds = {role: columns[column] for role, column in roles.items()}
    return Layout(address, source, file_format, separator, tuple(columns), roles, kinds, tuple(notes))


def _event_roles(columns: Mapping[str, str], source: Source, address: str, notes: list[str]) -> dict[str, str]:
    roles = {role: column for role in ROLES if (column := source.column_of(role))}
    taken = set(roles.values())
    for role in ("user", "item", "time"):
        if source.column_of(role) is not None or (role == "time" and source.ordered):
            continue
        known = [name for name in _find_known(columns, role) if name not in taken]
        if role in columns:
            roles[role] = role
        elif len(known) == 1:
            roles[role] = known[0]
            notes.append(f"the column {known[0]!r} is taken for the {role}")
        elif role == "time" and known:
            those = " and ".join(map(repr, known))
            notes.append(f"{those} look like times and are not used: choose one with `time_column`")
        elif role != "time":
            found = ", ".join(known or columns)
            raise InputError(
                f"{address} has no column {role!r}, {'but' if known else 'only'} {found}: "
                f"name the column of the {role} with `{role}_column`"
            )
    if source.weight_column is None and "weight" in columns:
        roles["weight"] = "weight"
    unused = [name for name in columns if name not in roles.values()]
    if "time" not in roles and not source.ordered and source.time_column is None:
        timely = [name for name in unused if "time" in name.lower() or "date" in name.lower()]
        others = [name for name in timely if name not in _find_known(columns, "time")]
        notes += [f"{name!r} may be a time and is not used: if it is, give `time_column`" for name in others[:1]]
    for name in _find_known(unused, "rating")[:1]:
        notes.append(f"the column {name!r} is not used: keep good ratings with `rating_column` and `minimum_rating`")
    return {role: roles[role] for role in ROLES if role in roles}


def _table_roles(columns: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str]:
    roles = {role: column or role for role, column in wanted.items() if column or role in columns}
    known = _find_known(columns, "item")
    return {"item": known[0] if len(known) == 1 else "item"} | roles


def _find_known(names: Sequence[str] | Mapping[str, str], role: str) -> list[str]:
    return [name for name in names if re.fullmatch(KNOWN_NAMES[role], "".join(filter(str.isalnum, name.lower())))]


def _detect_format(path: Path, address: str, source: Source) -> tuple[str, str]:
    """The format, and the separator that is usual in it."""
    suffix = Path(file_name(address)).suffix.lower()
    separator = source.separator or _SEPARATORS.get(suffix, ",")
    if source.format != "auto":
        return source.format, separator
    if suffix in _FORMATS:
        return _FORMATS[suffix], separator
    if suffix in _SEPARATORS or source.columns or source.separator:
        return "csv", separator
    lines = read_first_lines(path, source, address, _FIRST_LINES)
    headed = detect_separator(lines, separator, source.quote, header=True, fields=None, spaces=True)
    names = _split_header(lines[0] if lines else "", headed, source, address)
    if _find_known(names, "user") and _find_known(names, "item"):
        return "csv", separator
    words = [len(line.split()) for line in lines]
    likely = "`format`, or `columns` if it is text without header"
    if words and set(words) == {2}:
        likely = "`reader='sasrec'` if each line is a user and an item, oldest first"
    elif words and min(words) > 1 and len(set(words)) > 1:
        likely = "`reader='adjacency'` if each line is a user and all their items"
    raise InputError(f"{address}: the format does not follow from the name: give {likely}")


def _read_columns(path: Path, source: Source, address: str, file_format: str, separator: str) -> dict[str, str]:
    """The columns in order, and what the values of each are: see `Layout.kinds`."""
    if file_format == "csv":
        return dict.fromkeys(_read_header(path, source, address, separator), "either")
    if file_format == "parquet":
        import polars as pl

        with parquet_faults(address, "it is not a Parquet file, give one", InputError):
            schema = pl.scan_parquet(path, glob=False).collect_schema()
        return {name: "integer" if kind.is_integer() else "text" for name, kind in schema.items()}
    kinds: dict[str, str] = {}
    for line in read_first_lines(path, source, address, 100):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # reported with its line number when the file is read
        for name, value in record.items() if isinstance(record, dict) else ():
            kinds[name] = "text" if isinstance(value, str) else kinds.get(name, "either")
    if not kinds:
        raise InputError(
            f"{address}: its first lines are not JSON objects: give one object per line, or another `format`"
        )
    return kinds


def _read_header(path: Path, source: Source, address: str, separator: str) -> list[str]:
    line = next(read_lines(path, source, address), "")
    if not line.strip():
        raise InputError(f"{address} line 1 is empty: remove it")
    names = _split_header(line, separator, source, address)
    if source.columns or not source.has_header:
        given = list(source.columns or ROLES[: len(names)])
        if len(given) != len(names):
            raise InputError(
                f"{address} line 1: {len(names)} fields for the columns {', '.join(given)}: "
                "check `columns`, `separator`"
            )
        names = given
    elif file_name(address).endswith(".inter"):
        names = [name.split(":")[0] for name in names]  # RecBole writes the type behind the name: `user_id:token`
    action = "or give `columns` if there is no header"
    for place, name in enumerate(names):
        if name == "":
            raise InputError(f"{address}: column {place + 1} has no name: name it, {action}")
        if name in names[:place]:
            raise InputError(f"{address} has the column {name!r} more than once: rename one of them, {action}")
    return names


def _split_header(line: str, separator: str, source: Source, address: str) -> list[str]:
    if has_unreadable(line):
        raise InputError(f"{address} line 1: bytes that are not {source.encoding}: give {suggest_encoding(line)}")
    try:
        return split_line(line, separator, source.quote)
    except ValueError as error:
        raise InputError(f"{address} line 1: {error}: fix it, or give `separator` or `quote`") from None


def split_line(line: str, separator: str, quote: str | None) -> list[str]:
    """The fields of one CSV line; a `ValueError` with the fault of its quotes."""
    text = line.rstrip("\r\n")
    if len(separator) > 1 or quote is None or not (quote in text or "\r" in text):
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, quotechar=quote, strict=True), [""])
    except csv.Error as error:
        raise ValueError(quote_fault(text, quote, str(error))) from None


def quote_fault(text: str, quote: str, reason: str) -> RowFault:
    """The fault of a record with unmatched quotes: a backslash escapes them, or else `reason`."""
    escaped = f"\\{quote}" in text
    return RowFault("quotes escaped with a backslash", f"`escape={chr(92)!r}`") if escaped else RowFault(reason)


def detect_separator(
    lines: Sequence[str], usual: str, quote: str | None, *, header: bool, fields: int | None, spaces: bool
) -> str:
    """The separator of the lines: `usual` if it splits the header, else the one that splits all lines into as many
    fields.

    `fields`: their number, if the columns are known. `spaces`: whether a space can be the separator.
    """
    candidates = dict.fromkeys([usual, ",", ";", "\t", "|", *([" "] if spaces else [])])
    counts = {one: [_count_fields(line, one, quote) for line in lines] for one in candidates}
    if not lines or (header and counts[usual][0] > 1):
        return usual
    even = {one: found[0] for one, found in counts.items() if len(set(found)) == 1 and found[0] > 1}
    if fields is not None:
        even = {one: count for one, count in even.items() if count == fields}
    elif header and not even:  # one of the first lines is broken: the header decides
        even = {one: found[0] for one, found in counts.items() if found[0] > 1}
    return max(even, key=lambda one: even[one]) if even else usual


def _count_fields(line: str, separator: str, quote: str | None) -> int:
    try:
        return len(split_line(line, separator, quote))
    except ValueError:
        return 1 if quote is None else len(line.split(f"{quote}{separator}{quote}"))
