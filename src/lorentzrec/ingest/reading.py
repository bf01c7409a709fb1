"""One event file to typed events: user, item, time in microseconds, weight, rating, ...; faults with their lines.

Both engines read with these functions (on Spark inside the tasks), so that a file means the same on either. In addition
to the roles that were found, a frame of events has five columns about faults: `fault` is what is wrong, or null;
`option` may resolve it; `file`, `line` and `text` are where the row is and its content.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.counting import Count
from lorentzrec.data import times
from lorentzrec.data.vocabulary import CONTROL_CHARACTERS, LONGEST_ID
from lorentzrec.errors import InputError, RowFault
from lorentzrec.ingest.decimals import NOT_FINITE, parse_numbers
from lorentzrec.ingest.file_kinds import FORMATS, scan_table, select_field
from lorentzrec.ingest.layouts import FileLayout
from lorentzrec.ingest.lines import scan_lines
from lorentzrec.ingest.text import copy_as_utf8, decompress, detect_encoding, is_utf8

if TYPE_CHECKING:
    import polars as pl

FAULT_COLUMNS = ("file", "line", "fault", "option", "text")
FRAME, FRAME_ADDRESS = "frame", "the frame"
"""The format of a data frame in memory, whose rows are no file, and what errors call it."""

INTEGER = r"^(0|-?[1-9][0-9]{0,17})\z"
"""Integers of 64 bits in their one usual spelling, so that turning text into integers and back changes nothing."""
FLOAT = r"^(0|-?[1-9][0-9]{0,14})\.0+\z"
"""Whole numbers that a program made floats because some were missing."""
NOTHING = r"^(?i:null|nan|none|nil|n/a|na|<na>|undefined|unknown)\z"
"""What programs write where there is no id."""
BLANKS = r"^\s|\s\z"


def scan_events(path: Path, layout: FileLayout, scratch: Path) -> pl.LazyFrame:
    """The events of one local file, lazily. Text is parsed once, into a Parquet file in `scratch`.

    Polars parses a valid text file in one pass; one in another encoding, or with escapes, is copied as plain UTF-8
    first. If there is any fault, the file is read again line by line, so that every fault is reported with its line.
    """
    import polars as pl

    source, label = layout.source, layout.address
    if layout.format == "csr":
        return convert_fields(_read_matrix(path, label), layout)
    if layout.format in FORMATS:
        frame = scan_table(path, label, layout.format)
        return convert_fields(frame.with_row_index("__line", offset=1), layout)
    name = f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.events"
    staged, plain = scratch / f"{name}.parquet", scratch / f"{name}.txt"
    if source.escape is not None or not is_utf8(detect_encoding(path, source.encoding, label)):
        sound = copy_as_utf8(path, source, label, plain) and _stage_quickly(plain, layout, staged)
    else:
        sound = _stage_quickly(decompress(path, label, plain), layout, staged)
    plain.unlink(missing_ok=True)
    if not sound:
        lines = scan_lines(path, layout, scratch / name)
        convert_fields(lines, layout).sink_parquet(staged, compression="lz4")
    return pl.scan_parquet(staged, glob=False)


def fault_error(row: dict[str, Any], *, count: int = 1, others: Iterable[str | None] = ()) -> InputError:
    """The error about the first faulty row of `count`; `others`: the options for all of them, and those that the first
    rows suggest.

    It ends with the options that may resolve any of the faults, so that one more attempt is enough.
    """
    options = [option for option in dict.fromkeys([row["option"], *others]) if option]
    if sum(option.startswith("`encoding=") for option in options) > 1:
        options.remove("`encoding='latin-1'`")  # cp1252 has all characters of latin-1
    more = f" (and {Count(count - 1):more faulty row|more faulty rows})" if count > 1 else ""
    action = f"give {' and '.join(options)}, fix" if options else "fix"
    unit = "row" if row["file"] == FRAME_ADDRESS else "line"
    return InputError(
        f"{row['file']} {unit} {row['line']}: {row['fault']}, in '{_shorten(row['text'])}'{more}: {action} the "
        f"{unit}{'s' if count > 1 else ''}, or skip faulty rows with `on_error='skip'`"
    )


def _shorten(text: str) -> str:
    """A value in a message: cut if it is long, control characters as escapes."""
    text = text if len(text) <= 100 else text[:100] + "..."
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def count_faults(kinds: Iterable[tuple[str, int]]) -> str:
    """How many rows have which faults, the most frequent first: `bytes that are not utf-8 (16), ...`."""
    totals: dict[str, int] = {}
    for name, count in kinds:
        totals[name] = totals.get(name, 0) + count
    ranked = sorted(totals.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{name} ({count:,})" for name, count in ranked[:5]]
    return ", ".join(named) + (", ..." if len(ranked) > 5 else "")


def _stage_quickly(path: Path, layout: FileLayout, staged: Path) -> bool:
    """Parse a whole text file at once; false if there is any fault in it."""
    import polars as pl

    source, last = layout.source, layout.names[-1]
    role = next((role for role, column in layout.roles.items() if column == last), None)
    suspect = layout.format == "csv"
    quoted = layout.format == "csv" and source.quote is not None and source.escape is None
    slash = pl.col("user", "item").str.contains("\\", literal=True)
    try:
        typed = convert_fields(_scan_text(path, layout), layout, keep=[last] if suspect and role is None else [])
        typed.sink_parquet(staged, compression="lz4")
        signs = pl.scan_parquet(staged, glob=False).select(
            fault=pl.col("fault").is_not_null().any(),
            # Polars fills up lines that end too early: an empty last field may be one of them.
            short=pl.col(role or last).is_null().any() if suspect else pl.lit(False),
            # Polars drops the quotes of "a \\"b\\" c" and leaves the backslashes.
            escaped=pl.any_horizontal(slash.any()) if quoted else pl.lit(False),
        )
        fault, short, escaped = signs.collect().row(0)
        line = pl.col("line").str.strip_chars_end("\r")
        unquoted = ~line.str.contains(source.quote, literal=True) if source.quote else pl.lit(True)
        fields = line.str.count_matches(layout.separator, literal=True) + 1
        return not (
            fault
            or (short and _any_line(path, (line != "") & unquoted & (fields < len(layout.names))))
            or (escaped and _any_line(path, line.str.contains(f"\\{source.quote}", literal=True)))
        )
    except pl.exceptions.PolarsError:
        return False


def _any_line(path: Path, condition: pl.Expr) -> bool:
    import polars as pl

    return bool(pl.scan_lines(path, glob=False).select(condition.any()).collect().item())


def _scan_text(path: Path, layout: FileLayout) -> pl.LazyFrame:
    """Every field as text, one row per record; blank lines left out."""
    import polars as pl

    nothing = {"__line": pl.lit(None, pl.Int64), "__text": pl.lit(None, pl.String), "__fault": pl.lit(None, pl.String)}
    nothing["__option"] = pl.lit(None, pl.String)
    wanted = list(dict.fromkeys([*layout.roles.values(), layout.names[-1]]))
    if layout.format == "adjacency":
        words = pl.scan_lines(path, glob=False).select(words=pl.col("line").str.extract_all(r"\S+"))
        pairs = words.select(user=pl.col("words").list.first(), item=pl.col("words").list.slice(1))
        return pairs.filter(pl.col("item").list.len() > 0).explode("item").with_columns(**nothing)
    if layout.format == "json":
        # It has no `glob=False`, and reads nothing where a pattern matches no file.
        frame = pl.scan_ndjson(glob.escape(str(path)), schema=_json_schema(layout))
        wanted = list(frame.collect_schema())
    elif len(layout.separator.encode()) == 1:
        frame = pl.scan_csv(
            path,
            has_header=layout.source.has_header,
            separator=layout.separator,
            quote_char=layout.source.quote,
            infer_schema=False,
            new_columns=list(layout.names),
            glob=False,
        )
    else:
        lines = pl.scan_lines(path, glob=False)
        fields = (
            (lines.slice(1) if layout.source.has_header else lines)
            .filter(pl.col("line") != "")
            .select(parts=pl.col("line").str.split(layout.separator))
        )
        # A wrong count is found again, with its line, in `scan_lines`.
        wrong = pl.when(pl.col("parts").list.len() != len(layout.names)).then(pl.lit("wrong number of fields"))
        columns = {name: pl.col("parts").list.get(index, null_on_oob=True) for index, name in enumerate(layout.names)}
        return fields.select(**columns, **(nothing | {"__fault": wrong}))
    return frame.filter(~pl.all_horizontal(pl.col(name).is_null() for name in wanted)).with_columns(**nothing)


def _json_schema(layout: FileLayout) -> dict[str, pl.DataType]:
    """The columns of the roles as text, with objects for those that are the field of one, such as `user.id`."""
    import polars as pl

    tree: dict[str, Any] = {}
    for column in layout.roles.values():
        first, dot, rest = column.partition(".")
        if dot and first in layout.names:
            branch = tree.setdefault(first, {})
            *steps, leaf = rest.split(".")
            for step in steps:
                branch = branch.setdefault(step, {})
            branch[leaf] = pl.String()
        else:
            tree[column] = pl.String()

    def typed(node: Any) -> pl.DataType:
        fields = {name: typed(one) for name, one in node.items()} if isinstance(node, dict) else None
        return node if fields is None else pl.Struct(fields)

    return {name: typed(node) for name, node in tree.items()}


def convert_fields(raw: pl.LazyFrame, layout: FileLayout, *, keep: Iterable[str] = ()) -> pl.LazyFrame:
    """Fields to typed events, with the first fault of each row."""
    import polars as pl

    schema, source = raw.collect_schema(), layout.source
    values: dict[str, pl.Expr] = {}
    faults: list[RowFault] = []
    numbers: list[pl.Expr] = []

    def fault(wrong: pl.Expr, reason: str | RowFault) -> None:
        found = RowFault(reason) if isinstance(reason, str) else reason
        numbers.append(pl.when(wrong).then(pl.lit(len(faults), pl.UInt8)))
        faults.append(RowFault(f"column {column!r}: {found.reason}", found.option))

    missing = []
    for role, column in layout.roles.items():
        field = select_field(column, schema)
        kind = raw.select(field).collect_schema()[column] if column not in schema else schema[column]
        if kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            field, kind = field.cast(pl.String), pl.String()
        present = field.is_not_null()
        if kind == pl.String:
            present &= field != ""
        elif kind.is_float():
            present &= field.is_not_nan()
        sample = raw.select(field).filter(present).head(times.SAMPLE)
        what = f"{layout.address}: the {role}s in column {column!r}"
        if role in ("user", "item"):
            missing.append(~present)
            if layout.format == "json" and "__text" in schema:
                # Polars turns objects into text; read line by line, they are known from text that looks like them.
                fault(pl.col("__text").is_null() & field.str.contains(r"^[\[{]"), "an object instead of an id")
            values[role] = pl.when(present).then(_convert_ids(field, kind, what, fault))
        elif role == "order":
            values[role] = pl.when(present).then(field.cast(pl.String))
        elif role == "event":
            fault(~present, "missing")
            values[role] = field.cast(pl.String)
        elif role == "time":
            fault(~present, "missing")
            first = sample.collect().to_series()
            values[role], unreadable = times.convert_to_microseconds(
                field, kind, first, what, unit=source.time_unit, time_format=source.time_format
            )
            fault(values[role].is_null(), unreadable)
            oldest, reason = (times.OLDEST_TIME, "before the year 1") if layout.format == FRAME else (0, "before 1970")
            fault(values[role] < oldest, reason)
            fault(values[role] >= times.NEWEST_TIME, times.fault_of_late_times(first))
        else:
            if role != "quantity":
                fault(~present, "missing")
            if kind != pl.String and not kind.is_numeric():
                raise InputError(f"{what} are {kind}: give numbers")
            values[role] = field.cast(pl.Float64, strict=False)
            if kind == pl.String:
                values[role], doubts = parse_numbers(field, sample.collect().to_series(), source, layout.separator)
                for doubt, unclear in doubts:
                    fault(doubt, unclear)
            if role == "weight":
                # Through 32 bits here, so that sums of weights are exact and every engine rounds them the same way.
                values[role] = values[role].cast(pl.Float32).cast(pl.Float64)
            unreadable_number = values[role].is_null() | ~values[role].is_finite()
            if role == "quantity":
                values[role] = pl.when(present).then(values[role])
                fault(present & unreadable_number, RowFault(NOT_FINITE, "`quantity_column=''`"))
            else:
                fault(unreadable_number, NOT_FINITE)
            if role == "weight":
                fault(values[role] <= 0, "not positive")
    text = pl.col("__text") if "__text" in schema else _show_row(layout, schema)
    line = pl.col("__line").cast(pl.Int64)
    # A row without a user or an item is no event, whatever else is wrong with it.
    number = pl.when(~pl.any_horizontal(missing)).then(pl.coalesce(numbers))
    texts = {}
    for name in ("fault", "option"):
        of_fields = number.replace_strict(
            pl.Series(range(len(faults)), dtype=pl.UInt8),
            pl.Series([getattr(one, "reason" if name == "fault" else name) for one in faults], dtype=pl.String),
            return_dtype=pl.String,
        )
        broken = f"__{name}" in schema
        texts[name] = pl.coalesce(pl.col(f"__{name}"), of_fields) if broken else of_fields
    return raw.select(*keep, **values, file=pl.lit(layout.address), line=line, **texts, text=text)


def _convert_ids(
    field: pl.Expr, kind: pl.DataType, what: str, fault: Callable[[pl.Expr, str | RowFault], None]
) -> pl.Expr:
    """Ids as text or integers; whole numbers that are stored as floats become integers."""
    import polars as pl

    if kind == pl.String:
        fault(field.str.len_chars() > LONGEST_ID, f"longer than {LONGEST_ID} characters")
        fault(field.str.contains(CONTROL_CHARACTERS), "control characters")
        return field
    if kind.is_float() or kind.is_decimal():
        number = field.cast(pl.Float64)
        fault(number != number.floor(), "not a whole number")
        fault(number.abs() >= 2.0**53, "too large a number for a float: save it as an integer or as text")
        return number.cast(pl.Int64, strict=False)
    if not kind.is_integer():
        raise InputError(f"{what} are {kind}: give strings or integers")
    found = field.cast(pl.Int64, strict=False)
    fault(found.is_null() & field.is_not_null(), "does not fit 64 bits with sign")
    return found


def _show_row(layout: FileLayout, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    import polars as pl

    return pl.struct(select_field(one, schema) for one in layout.roles.values()).struct.json_encode()


def _read_matrix(path: Path, label: str) -> pl.LazyFrame:
    """Row, column and value of every entry."""
    import polars as pl
    from scipy import sparse

    try:
        with path.open("rb") as file:
            matrix = sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # compiled code follows its indices
        matrix = sparse.coo_array(matrix)
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive raises any error of zipfile, zlib, NumPy and SciPy
        raise InputError(f"{label} is no SciPy sparse matrix ({error}): save one with scipy.sparse.save_npz") from None
    rows, columns = (coordinates.astype(np.int64) for coordinates in matrix.coords)
    frame = pl.LazyFrame({"row": rows, "column": columns, "value": matrix.data.astype(np.float64)})
    return frame.with_row_index("__line", offset=1).with_columns(__text=pl.format("({}, {})", "row", "column"))
