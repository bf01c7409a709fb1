"""What one event file looks like: its format, separator, encoding and columns, recognised from its first lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.errors import InputError, RowError, RowFault
from lorentzrec.ingest.compression import content_name
from lorentzrec.ingest.file_kinds import (
    FORMATS,
    detect_kind,
    require_excel,
    scan_table,
    select_field,
    table_faults,
    typed_columns,
)
from lorentzrec.ingest.recognition import Column, find_names, guess_columns, recognise, sample_faults
from lorentzrec.ingest.sources import READERS, ROLES, Source, reader_of_file
from lorentzrec.ingest.storage import file_name
from lorentzrec.ingest.text import (
    detect_encoding,
    has_unreadable,
    is_utf8,
    read_first_lines,
    read_lines,
    show_unreadable,
    suggest_encoding,
)

if TYPE_CHECKING:
    import polars as pl

_FORMATS = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"), "excel"),
    ".parquet": "parquet",
    ".npz": "csr",
}
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
_SPELLED = {"\t": "tabs", " ": "spaces"}
_FIRST_LINES = 20
_SAMPLE = 100


@dataclass(frozen=True)
class FileLayout:
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
    """Role -> what its values are: of an "integer" type, of a "float" type, "text" that stays text, or "either", text
    that may spell integers."""
    notes: tuple[str, ...] = ()
    """What was recognised rather than given."""
    hints: tuple[str, ...] = ()
    """Options that the first rows suggest, for an error about others."""
    reader_note: str = ""
    """One of the notes: that the file is read like one of a known data set."""
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


def detect_layout(
    path: Path,
    source: Source,
    address: str,
    wanted: Mapping[str, str | None] | None = None,
    *,
    needed: Collection[str] = (),
) -> FileLayout:
    """The layout of a local file, from its first lines; an `InputError` with everything that does not fit the source.

    `address`: where it comes from, for errors. `wanted`: role -> column, for tables of other things than events; None:
    the column of that name, if there is one. `needed`: roles that an option needs.
    """
    if path.stat().st_size == 0:
        raise InputError(f"{address} is empty: give a file with content")
    notes: list[str] = []
    reader_note = ""
    kind = detect_kind(path, address)
    name = content_name(path, address, notes) if kind is None else file_name(address)
    if kind is None and wanted is None:
        source, reader_note = _use_known_reader(path, name, address, source)
        notes += [reader_note] if reader_note else []
    file_format, usual = _detect_format(path, name, address, source, kind)
    if file_format != "csv":
        source = replace(source, escape=None)  # in JSON, a backslash has its own meaning
    separator = usual
    if file_format == "adjacency":
        roles = {"user": "user", "item": "item"}
        return FileLayout(address, source, "adjacency", usual, tuple(roles), roles, dict.fromkeys(roles, "either"))
    if file_format == "csr":
        if source.ordered:
            raise InputError(f"{address} is a matrix and has no order: leave `ordered` out")
        roles = {"user": "row", "item": "column", "weight": "value"}
        return FileLayout(address, source, "csr", "", tuple(roles.values()), roles, dict.fromkeys(roles, "integer"))
    if file_format == "csv" and source.separator is None:
        lines = read_first_lines(path, source, address, _FIRST_LINES)
        spaces = Path(name).suffix not in _SEPARATORS
        count = len(source.columns) or None
        separator = detect_separator(lines, usual, source.quote, header=source.has_header, fields=count, spaces=spaces)
        if separator != usual:
            notes.append(f"fields are separated by {_SPELLED.get(separator, repr(separator))}")
    if file_format not in FORMATS and is_utf8(source.encoding):
        encoding = detect_encoding(path, source.encoding, address)
        if not is_utf8(encoding):
            notes.append(f"the encoding is {encoding.upper()}")
    if file_format == "csv":
        columns, faults = _read_csv_columns(path, name, source, address, separator, notes)
    else:
        tabular = file_format in FORMATS
        faults = []
        columns = (
            _read_table_columns(path, address, file_format, notes)
            if tabular
            else _read_json_columns(path, source, address)
        )
    if wanted is None:
        recognised = recognise(columns, source, needed)
        roles, notes = recognised.roles, [*notes, *recognised.notes]
        faults += recognised.faults
        suggested = sample_faults(columns, roles, source)
        faults += suggested if faults else []
    else:
        roles, suggested = _table_roles(columns, wanted), []
        faults += _missing_columns(columns, roles)
    if faults:
        raise explain_reader(layout_error(address, faults), reader_note)
    kinds = {one.name: one.kind for one in columns}
    names = tuple(one.name for one in columns)
    held = {role: kinds[column] for role, column in roles.items()}
    hints = tuple(fault.option for fault in suggested)
    return FileLayout(address, source, file_format, separator, names, roles, held, tuple(notes), hints, reader_note)


def layout_error(address: str, faults: Sequence[RowFault]) -> InputError:
    """One error for all that is wrong with a file, with the options that resolve it."""
    reasons = "; ".join(dict.fromkeys(fault.reason for fault in faults))
    options = list(dict.fromkeys(fault.option for fault in faults if fault.option))
    role = faults[0].role if len(faults) == 1 else ""
    if role:
        action = f"name the column of the {role} with {options[0]}"
    else:
        action = f"give {' and '.join(options)}" if options else "name one of these, or rename it"
    return InputError(f"{address} has {reasons}: {action}")


_BY_NAME = "the file is read as {reader}, by its name: give `format='csv'` if it is something else"


def explain_reader(error: InputError, reader_note: str) -> InputError:
    """The error with the note that the file is read like one of a known data set, if it is."""
    return InputError(f"{error} ({reader_note})") if reader_note else error


def _is_as_known(path: Path, address: str, known: Source) -> bool:
    """Whether the first line is like those of a known data set: its fields without a header, or its names in JSON."""
    line = "".join(read_first_lines(path, known, address, 1))
    if known.format == "json":
        return f'"{known.user_column}"' in line
    values = line.rstrip("\r\n").split(known.separator or ",")
    columns = [Column(one.strip('"'), "either") for one in values]
    named = any(find_names(columns, role) for role in ("user", "item", "time", "rating"))
    return len(values) == len(known.columns) and not named


def _use_known_reader(path: Path, name: str, address: str, source: Source) -> tuple[Source, str]:
    """The source with the layout of a known data set and a note of it, if the file has its name and its form, and
    nothing else was said about it."""
    reader = reader_of_file(name)
    untouched = (source.format, source.separator, source.columns, source.header) == ("auto", None, (), None)
    if reader is None or not untouched or not _is_as_known(path, address, READERS[reader]):
        return source, ""
    known, plain = READERS[reader], Source()
    given = {one.name: getattr(source, one.name) for one in fields(source)}
    changed = {name: value for name, value in given.items() if value != getattr(plain, name)}
    return replace(known, **changed), _BY_NAME.format(reader=reader)


def _missing_columns(columns: Sequence[Column], roles: Mapping[str, str]) -> list[RowFault]:
    names = [one.name for one in columns]
    return [
        RowFault(
            f"no column {column!r} for the {role.partition(':')[0]}, only {', '.join(names)}",
            "`attributes`" if ":" in role else "",
        )
        for role, column in roles.items()
        if column not in names
    ]


def _table_roles(columns: Sequence[Column], wanted: Mapping[str, str | None]) -> dict[str, str]:
    names = [one.name for one in columns]
    roles = {role: column or role for role, column in wanted.items() if column or role in names}
    known = find_names(columns, "item")
    return {"item": known[0] if len(known) == 1 else "item"} | roles


def _detect_format(path: Path, name: str, address: str, source: Source, kind: str | None) -> tuple[str, str]:
    """The format, and the separator that is usual in it. `kind`: the format by the first bytes, if it is no text."""
    suffix = Path(name).suffix.lower()
    separator = source.separator or _SEPARATORS.get(suffix, ",")
    if kind is not None:
        if source.format not in ("auto", kind):
            raise InputError(f"{address} is a file of the format {kind}: leave `format` out")
        if kind == "excel":
            require_excel(address)
        return kind, separator
    if source.format != "auto":
        return source.format, separator
    if suffix in _FORMATS:
        return _FORMATS[suffix], separator
    if suffix in _SEPARATORS or source.columns or source.separator:
        return "csv", separator
    lines = read_first_lines(path, source, address, _FIRST_LINES)
    headed = detect_separator(lines, separator, source.quote, header=True, fields=None, spaces=True)
    names = [Column(name, "either") for name in _split_header(lines[0] if lines else "", headed, source, address)]
    if find_names(names, "user") and find_names(names, "item"):
        return "csv", separator
    words = [len(line.split()) for line in lines]
    likely = "`format`, or `columns` if it is text without header"
    if words and set(words) == {2}:
        likely = "`reader='sasrec'` if each line is a user and an item, oldest first"
    elif words and min(words) > 1 and len(set(words)) > 1:
        likely = "`reader='adjacency'` if each line is a user and all their items"
    elif names and all(map(_is_value, (one.name for one in names))):
        sample = _sample_lines(lines, headed, source, len(names))
        likely = f"`columns='{','.join(guess_columns(sample))}'` if these are its columns, without a header"
    raise InputError(f"{address}: the format does not follow from the name: give {likely}")


def _read_table_columns(path: Path, address: str, file_format: str, notes: list[str]) -> list[Column]:
    import polars as pl

    table = scan_table(path, address, file_format, notes)
    with table_faults(address, file_format):
        schema = table.collect_schema()
    try:
        first = table.head(_SAMPLE).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        first = None  # an outline of a remote file has no values; damage is reported when the file is read
    return [
        one if first is None else replace(one, values=first.select(select_field(one.name, schema)).to_series())
        for one in typed_columns(schema)
    ]


def _read_json_columns(path: Path, source: Source, address: str) -> list[Column]:
    import polars as pl

    kinds: dict[str, str] = {}
    values: dict[str, list[str | None]] = {}
    for line in read_first_lines(path, source, address, _SAMPLE):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # reported with its line number when the file is read
        for name, value in flatten_json(record) if isinstance(record, dict) else ():
            known = kinds.get(name, "either")
            text = "object" if isinstance(value, dict | list) else "text" if isinstance(value, str) else known
            kinds[name] = "object" if "object" in (text, known) else "text" if "text" in (text, known) else text
            values.setdefault(name, []).append(None if value is None else str(value))
    if not kinds:
        raise InputError(
            f"{address}: its first lines are not JSON objects: give one object per line, or another `format`"
        )
    return [Column(name, kind, pl.Series(values[name], dtype=pl.String)) for name, kind in kinds.items()]


def flatten_json(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of an object, with the fields of objects in it as `user.id` after their object."""
    for name, value in record.items():
        yield f"{before}{name}", value
        if isinstance(value, dict) and before.count(".") < 5:
            yield from flatten_json(value, f"{before}{name}.")


def _read_csv_columns(
    path: Path, file: str, source: Source, address: str, separator: str, notes: list[str]
) -> tuple[list[Column], list[RowFault]]:
    """The columns with their first values, and what is wrong with the header. `file`: the name of the file."""
    lines = list(islice(read_lines(path, source, address), _SAMPLE))
    faults = _find_unreadable(lines, source)
    if not lines or not lines[0].strip():
        raise InputError(f"{address} line 1 is empty: remove it")
    names = _split_header(lines[0], separator, source, address, readable=not faults)
    body = lines[1:] if source.has_header else lines
    sample = _sample_lines(body, separator, source, len(names))
    if source.columns or not source.has_header:
        given = list(source.columns or ROLES[: len(names)])
        if len(given) != len(names):
            raise InputError(
                f"{address} line 1: {len(names)} fields for the columns {', '.join(given)}: "
                "check `columns`, `separator`"
            )
        names = given
    elif file.endswith(".inter"):
        names = [name.split(":")[0] for name in names]  # RecBole writes the type behind the name: `user_id:token`
    elif len(names) > 1 and all(map(_is_value, names)):
        guessed = guess_columns(_sample_lines(lines, separator, source, len(names)))
        what = RowFault(f"no names in line 1 ({', '.join(names)})", f"`columns='{','.join(guessed)}'`")
        raise layout_error(address, [what, *faults])
    for index, name in enumerate(names):
        if name == "":
            names[index] = f"column {index + 1}"
            notes.append(f"column {index + 1} has no name and is not used")
        elif name in names[:index]:
            raise InputError(
                f"{address} has the column {name!r} more than once: rename one of them, or give `columns` if there is "
                "no header"
            )
    return [Column(name, "either", values) for name, values in zip(names, sample, strict=True)], faults


def _find_unreadable(lines: Sequence[str], source: Source) -> list[RowFault]:
    """A fault if the header has bytes that are not of the encoding; only then, since rows are reported when read."""
    if not lines or not has_unreadable(lines[0]):
        return []
    return [RowFault(f"bytes that are not {source.encoding} in line 1", suggest_encoding("".join(lines)))]


def _sample_lines(lines: Sequence[str], separator: str, source: Source, count: int) -> list[pl.Series]:
    """The values of each of `count` columns in some lines; lines with other numbers of fields are left out."""
    import polars as pl

    records = []
    for line in lines:
        try:
            fields = split_line(line, separator, source.quote)
        except RowError:
            continue
        if len(fields) == count:
            records.append([one or None for one in fields])
    columns = list(zip(*records, strict=True)) or [()] * count
    return [pl.Series(values, dtype=pl.String) for values in columns]


def _is_value(name: str) -> bool:
    """Whether a name in a header is a number or a date, so that there is probably no header."""
    return re.fullmatch(r"-?\d[\d.,:TZ/ -]*", name) is not None


def _split_header(line: str, separator: str, source: Source, address: str, *, readable: bool = True) -> list[str]:
    if has_unreadable(line) and readable:
        raise InputError(f"{address} line 1: bytes that are not {source.encoding}: give {suggest_encoding(line)}")
    try:
        return split_line(show_unreadable(line) if not readable else line, separator, source.quote)
    except RowError as error:
        raise InputError(f"{address} line 1: {error}: fix it, or give `separator` or `quote`") from None


def split_line(line: str, separator: str, quote: str | None) -> list[str]:
    """The fields of one CSV line; a `RowError` about its quotes."""
    text = line.rstrip("\r\n")
    if len(separator) > 1 or quote is None or not (quote in text or "\r" in text):
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, quotechar=quote, strict=True), [""])
    except csv.Error as error:
        raise quote_error(text, quote, str(error)) from None


def quote_error(text: str, quote: str, reason: str) -> RowError:
    """The error about a record with unmatched quotes: a backslash escapes them, or else `reason`."""
    escaped = f"\\{quote}" in text
    return RowError("quotes escaped with a backslash", f"`escape={chr(92)!r}`") if escaped else RowError(reason)


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
    except RowError:
        return 1 if quote is None else len(line.split(f"{quote}{separator}{quote}"))
