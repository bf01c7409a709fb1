"""One event file to typed events: user, item, time in microseconds, weight, rating, event; faults with their lines.

Both engines read with these functions (on Spark inside the tasks), so that a file means the same on either. In addition
to the roles that were found, a frame of events has four columns about faults: `fault`, a `RowFault` as text or null;
`file`, `line` and `text`, where the row is and its content.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.counting import Count
from lorentzrec.data import times
from lorentzrec.data.vocabulary import CONTROL_CHARACTERS, LONGEST_ID
from lorentzrec.errors import InputError, RowFault
from lorentzrec.ingest.layouts import Layout
from lorentzrec.ingest.lines import scan_lines
from lorentzrec.ingest.text import copy_as_utf8, decompress, detect_encoding, is_utf8

if TYPE_CHECKING:
    import polars as pl

FAULT_COLUMNS = ("file", "line", "fault", "text")

INTEGER = r"^(0|-?[1-9][0-9]{0,17})\z"
"""Integers of 64 bits in their one usual spelling, so that turning text into integers and back changes nothing."""


def scan_events(path: Path, layout: Layout, scratch: Path) -> pl.LazyFrame:
    """The events of one local file, lazily. Text is parsed once, into a Parquet file in `scratch`.

    Polars parses a valid text file in one pass; one in another encoding, or with escapes, is copied as plain UTF-8
    first. If there is any fault, the file is read again line by line, so that every fault is reported with its line.
    """
    import polars as pl

    source, label = layout.source, layout.address
    if layout.format == "csr":
        return _convert(_read_matrix(path, label), layout)
    if layout.format == "parquet":
        frame = pl.scan_parquet(path, glob=False, row_index_name="__line", row_index_offset=1)
        return _convert(frame, layout)
    name = f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.events"
    staged, plain = scratch / f"{name}.parquet", scratch / f"{name}.txt"
    if source.escape is not None or not is_utf8(detect_encoding(path, source.encoding, label)):
        sound = copy_as_utf8(path, source, label, plain) and _stage_quickly(plain, layout, staged)
    else:
        sound = _stage_quickly(decompress(path, label, plain), layout, staged)
    plain.unlink(missing_ok=True)
    if not sound:
        lines = scan_lines(path, layout, scratch / name)
        _convert(lines, layout).sink_parquet(staged, compression="lz4")
    return pl.scan_parquet(staged, glob=False)


def fault_error(row: dict[str, Any], *, count: int = 1, kinds: Iterable[str] = ()) -> InputError:
    """The error about the first faulty row of `count`; `kinds`: the faults of all of them.

    It ends with the options that may resolve any of the faults, so that one more attempt is enough.
    """
    fault = RowFault.parse(row["fault"])
    options = list(dict.fromkeys(one.option for one in (fault, *map(RowFault.parse, kinds)) if one.option))
    if sum(option.startswith("`encoding=") for option in options) > 1:
        options.remove("`encoding='latin-1'`")  # cp1252 has all characters of latin-1
    more = f" (and {Count(count - 1):more faulty row|more faulty rows})" if count > 1 else ""
    action = f"give {' and '.join(options)}, fix" if options else "fix"
    return InputError(
        f"{row['file']} line {row['line']}: {fault.reason}, in '{_shorten(row['text'])}'{more}: {action} the "
        f"{'lines' if count > 1 else 'line'}, or skip faulty rows with `on_error='skip'`"
    )


def _shorten(text: str) -> str:
    """A value in a message: cut if it is long, control characters as escapes."""
    text = text if len(text) <= 100 else text[:100] + "..."
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def count_faults(kinds: Iterable[tuple[str, int]]) -> str:
    """How many rows have which faults, the most frequent first: `bytes that are not utf-8 (16), ...`."""
    totals: dict[str, int] = {}
    for kind, count in kinds:
        name = re.sub(r"^\d+ fields instead of \d+", "wrong number of fields", re.sub(r" \(.*", "", kind))
        totals[name] = totals.get(name, 0) + count
    ranked = sorted(totals.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{name} ({count:,})" for name, count in ranked[:5]]
    return ", ".join(named) + (", ..." if len(ranked) > 5 else "")


def _stage_quickly(path: Path, layout: Layout, staged: Path) -> bool:
    """Parse a whole text file at once; false if there is any fault in it."""
    import polars as pl

    source, last = layout.source, layout.names[-1]
    suspect = layout.format == "csv" and last not in layout.roles.values()
    quoted = layout.format == "csv" and source.quote is not None and source.escape is None
    slash = pl.col("user", "item").str.contains("\\", literal=True)
    try:
        typed = _convert(_scan_text(path, layout), layout, keep=[last] if suspect else [])
        typed.sink_parquet(staged, compression="lz4")
        signs = pl.scan_parquet(staged, glob=False).select(
            fault=pl.col("fault").is_not_null().any(),
            # Polars fills up lines that end too early: an empty last field may be one of them.
            short=pl.col(last).is_null().any() if suspect else pl.lit(False),
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


def _scan_text(path: Path, layout: Layout) -> pl.LazyFrame:
    """Every field as text, one row per record; blank lines left out."""
    import polars as pl

    nothing = {"__line": pl.lit(None, pl.Int64), "__text": pl.lit(None, pl.String), "__fault": pl.lit(None, pl.String)}
    wanted = list(dict.fromkeys([*layout.roles.values(), layout.names[-1]]))
    if layout.format == "adjacency":
        words = pl.scan_lines(path, glob=False).select(words=pl.col("line").str.extract_all(r"\S+"))
        pairs = words.select(user=pl.col("words").list.first(), item=pl.col("words").list.slice(1))
        return pairs.filter(pl.col("item").list.len() > 0).explode("item").with_columns(**nothing)
    if layout.format == "json":
        # It has no `glob=False`, and reads nothing where a pattern matches no file.
        frame = pl.scan_ndjson(glob.escape(str(path)), schema=dict.fromkeys(layout.roles.values(), pl.String))
        wanted = list(layout.roles.values())
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
        columns = {name: pl.col("parts").list.get(place, null_on_oob=True) for place, name in enumerate(layout.names)}
        return fields.select(**columns, **(nothing | {"__fault": wrong}))
    return frame.filter(~pl.all_horizontal(pl.col(name).is_null() for name in wanted)).with_columns(**nothing)


def _convert(raw: pl.LazyFrame, layout: Layout, *, keep: Iterable[str] = ()) -> pl.LazyFrame:
    """Fields to typed events, with the first fault of each row."""
    import polars as pl

    schema, source = raw.collect_schema(), layout.source
    values: dict[str, pl.Expr] = {}
    faults: list[pl.Expr] = [pl.col("__fault")] if "__fault" in schema else []

    def fault(wrong: pl.Expr, reason: str | RowFault) -> None:
        faults.append(pl.when(wrong).then(pl.lit(f"column {column!r}: {reason}")))

    for role, column in layout.roles.items():
        field, kind = pl.col(column), schema[column]
        if kind in (pl.String, pl.Categorical, pl.Enum):
            field, kind = field.cast(pl.String), pl.String()
        present = field.is_not_null() & (field != "") if kind == pl.String else field.is_not_null()
        sample = raw.select(field).filter(present).head(times.SAMPLE)
        what = f"{layout.address}: the {role}s in column {column!r}"
        fault(~present, "missing")
        if role in ("user", "item"):
            if kind != pl.String and not kind.is_integer():
                raise InputError(f"{what} are {kind}: give strings or integers")
            values[role] = field
            if kind == pl.String:
                fault(field.str.len_chars() > LONGEST_ID, f"longer than {LONGEST_ID} characters")
                fault(field.str.contains(CONTROL_CHARACTERS), "control characters")
            else:
                values[role] = field.cast(pl.Int64, strict=False)
                fault(values[role].is_null(), "does not fit 64 bits with sign")
        elif role == "event":
            values[role] = field.cast(pl.String)
        elif role == "time":
            first = sample.collect().to_series()
            values[role], unreadable = times.convert_to_microseconds(
                field, kind, first, what, unit=source.time_unit, time_format=source.time_format
            )
            fault(values[role].is_null(), unreadable)
            fault(values[role] < 0, "before 1970")
            fault(values[role] >= times.NEWEST_TIME, times.fault_of_late_times(first))
        else:
            if kind != pl.String and not kind.is_numeric():
                raise InputError(f"{what} are {kind}: give numbers")
            reason = "not a finite number"
            if kind == pl.String:
                if (source.decimal or _detect_decimal(sample.collect().to_series())) == ",":
                    field = field.str.replace(",", ".", literal=True)
                else:
                    fault(field.str.contains(",", literal=True), RowFault(reason, "`decimal=','`"))
                field = field.str.strip_chars()
            values[role] = field.cast(pl.Float64, strict=False)
            if role == "weight":
                # Through 32 bits here, so that sums of weights are exact and every engine rounds them the same way.
                values[role] = values[role].cast(pl.Float32).cast(pl.Float64)
            fault(values[role].is_null() | ~values[role].is_finite(), reason)
            if role == "weight":
                fault(values[role] <= 0, "not positive")
    text = pl.col("__text") if "__text" in schema else pl.struct(list(layout.roles.values())).struct.json_encode()
    line, first_fault = pl.col("__line").cast(pl.Int64), pl.coalesce(faults)
    return raw.select(*keep, **values, file=pl.lit(layout.address), line=line, fault=first_fault, text=text)


def _detect_decimal(first: pl.Series) -> str:
    """A comma if the first values have one that cannot separate thousands, else a point."""
    commas = first.str.strip_chars().str.extract(r"^[+-]?\d+,(\d+)$").drop_nulls()
    points = first.str.contains(".", literal=True).any()
    return "," if len(commas) and not points and bool((commas.str.len_chars() != 3).any()) else "."


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
    rows, columns = (places.astype(np.int64) for places in matrix.coords)
    frame = pl.LazyFrame({"row": rows, "column": columns, "value": matrix.data.astype(np.float64)})
    return frame.with_row_index("__line", offset=1).with_columns(__text=pl.format("({}, {})", "row", "column"))
