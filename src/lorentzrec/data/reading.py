"""One event file to typed events: user, item, time in microseconds, weight, rating, event; faults with their lines.

Both engines read with these functions (on Spark they run inside the tasks), so that a file means the same on either.
A frame of events has, besides the roles found, four columns about faults: `fault` says what is wrong with the row and
is null for a sound one; `file`, `line` and `text` tell where it stands and what it says.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.data.sources import Layout, Source, is_utf8, layout_of, opened_text, split_line
from lorentzrec.data.storage import fetched, files_at, parquet_faults
from lorentzrec.data.unpacking import unpacked
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

FAULT_COLUMNS = ("file", "line", "fault", "text")
NEWEST_TIME = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""Times from here on, in microseconds, are taken for mistakes."""

INTEGER = r"^(0|-?[1-9][0-9]{0,17})\z"
"""Integers of 64 bits in their one usual spelling, so that turning text into integers and back changes nothing."""

_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_LINES_A_BATCH = 100_000
_LONGEST_RECORD = 100
"""Lines that one quoted field may run over before its opening quote is taken for the fault."""


def events_of(path: Path, source: Source, layout: Layout, label: str, scratch: Path) -> pl.LazyFrame:
    """The events of one local file, lazily. Text is parsed once, into a Parquet file in `scratch`.

    A sound text file is parsed by Polars in one pass. If that meets a fault, or the encoding is not UTF-8, the file is
    read again line by line, slowly, so that every fault is reported with the line it stands on.
    """
    import polars as pl

    if layout.format == "csr":
        return _matrix_events(path, label)
    if layout.format == "parquet":
        frame = pl.scan_parquet(path, glob=False, row_index_name="__line", row_index_offset=1)
        return _typed(frame, source, layout, label)
    name = f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.events"
    staged = scratch / f"{name}.parquet"
    plain = unpacked(path, label, scratch / f"{name}.unpacked")
    sound = is_utf8(source.encoding) and _stage_quickly(plain, source, layout, label, staged)
    if plain != path:
        plain.unlink()
    if not sound:
        slow = lines_of(path, source, layout, label, scratch / name)
        _typed(slow, source, layout, label).sink_parquet(staged, compression="lz4")
    return pl.scan_parquet(staged)


def all_events(address: str | Path, source: Source) -> tuple[pl.DataFrame, Layout]:
    """All events of an address in memory, for data that fit there; the first fault is an error."""
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        frames, layouts = [], []
        for file in files_at(address, name=source.file_name):
            path = fetched(file.address, Path(scratch))
            layouts.append(layout_of(path, source, file.address))
            frames.append(events_of(path, source, layouts[-1], file.address, Path(scratch)))
        with parquet_faults(address, "check the files", InputError):
            events = pl.concat(frames, how="vertical_relaxed")
            faults = events.filter(pl.col("fault").is_not_null()).head(1).collect()
            if len(faults):
                raise fault_error(faults.row(0, named=True))
            frame = events.drop(FAULT_COLUMNS).collect()
    if len(frame) == 0:
        raise InputError(f"{address} holds no events: give at least one")
    return frame, layouts[0]


def ids_of(ids: pl.Series, spelled: bool) -> pl.Series:
    """Ids as integers if they are `spelled` in text and every one is written as an integer is ("7", not "07")."""
    import polars as pl

    return ids.cast(pl.Int64) if spelled and ids.dtype == pl.String and ids.str.contains(INTEGER).all() else ids


def seconds_of(microseconds: pl.Series) -> pl.Series:
    """Whole seconds if all times are, else seconds with a fraction."""
    whole = bool((microseconds % 1_000_000 == 0).all())
    return microseconds // 1_000_000 if whole else microseconds / 1e6


def fault_error(fault: dict[str, Any]) -> InputError:
    """The error that one row of the fault columns stands for."""
    text = fault["text"] if len(fault["text"]) <= 100 else fault["text"][:100] + "..."
    return InputError(f"{fault['file']} line {fault['line']}: {fault['fault']}, in {text!r}: mend the line")


def _stage_quickly(path: Path, source: Source, layout: Layout, label: str, staged: Path) -> bool:
    """Parse a whole text file at once; false if anything in it is not as it should be."""
    import polars as pl

    raw = _scan_text(path, source, layout)
    last = layout.names[-1]
    # Polars fills up lines that end too early: an empty last field may be one of them.
    suspect = last not in layout.roles.values() and layout.format == "csv"
    try:
        typed = _typed(raw, source, layout, label, keep=[last] if suspect else [])
        typed.sink_parquet(staged, compression="lz4")
        checks = pl.scan_parquet(staged).select(
            fault=pl.col("fault").is_not_null().any(), short=pl.col(last).is_null().any() if suspect else pl.lit(False)
        )
        fault, short = checks.collect().row(0)
        return not (fault or (short and _has_short_lines(path, source, layout)))
    except pl.exceptions.PolarsError:
        return False


def _scan_text(path: Path, source: Source, layout: Layout) -> pl.LazyFrame:
    """Every field as text, one row per record; blank lines left out."""
    import polars as pl

    nothing = {"__line": pl.lit(None, pl.Int64), "__text": pl.lit(None, pl.String), "__fault": pl.lit(None, pl.String)}
    wanted = list(dict.fromkeys([*layout.roles.values(), layout.names[-1]]))
    if layout.format == "adjacency":
        words = pl.scan_lines(path, glob=False).select(words=pl.col("line").str.extract_all(r"\S+"))
        return _exploded(words).with_columns(**nothing)
    if layout.format == "json":
        frame = pl.scan_ndjson(path, schema=dict.fromkeys(layout.roles.values(), pl.String))
        wanted = list(layout.roles.values())
    elif len(layout.separator.encode()) == 1:
        frame = pl.scan_csv(
            path,
            has_header=source.header,
            separator=layout.separator,
            quote_char=source.quote,
            infer_schema=False,
            new_columns=list(layout.names),
            glob=False,
        )
    else:
        lines = pl.scan_lines(path, glob=False)
        fields = (
            (lines.slice(1) if source.header else lines)
            .filter(pl.col("line") != "")
            .select(parts=pl.col("line").str.split(layout.separator))
        )
        # A wrong count is met again, and named, line by line.
        wrong = pl.when(pl.col("parts").list.len() != len(layout.names)).then(pl.lit("wrong number of fields"))
        columns = {name: pl.col("parts").list.get(place, null_on_oob=True) for place, name in enumerate(layout.names)}
        return fields.select(**columns, **(nothing | {"__fault": wrong}))
    return frame.filter(~pl.all_horizontal(pl.col(name).is_null() for name in wanted)).with_columns(**nothing)


def _exploded(words: pl.LazyFrame) -> pl.LazyFrame:
    """(user, item, time) from lists whose first word is the user and whose others are items."""
    import polars as pl

    others = pl.col("words").list.len().cast(pl.Int64) - 1
    return (
        words.filter(others > 0)
        .with_columns(user=pl.col("words").list.first(), item=pl.col("words").list.slice(1), time=pl.int_ranges(others))
        .drop("words")
        .explode("item", "time")
    )


def _has_short_lines(path: Path, source: Source, layout: Layout) -> bool:
    import polars as pl

    line = pl.col("line").str.strip_chars_end("\r")
    fields = line.str.count_matches(layout.separator, literal=True) + 1
    quoted = line.str.contains(source.quote, literal=True) if source.quote else pl.lit(False)
    short = (line != "") & ~quoted & (fields < len(layout.names))
    return bool(pl.scan_lines(path, glob=False).select(short.any()).collect().item())


def _typed(
    raw: pl.LazyFrame, source: Source, layout: Layout, label: str, *, keep: list[str] | None = None
) -> pl.LazyFrame:
    """Fields to typed events, with the first fault of each row."""
    import polars as pl

    schema = raw.collect_schema()
    values: dict[str, pl.Expr] = {}
    faults: list[pl.Expr] = [pl.col("__fault")] if "__fault" in schema else []

    def fault(wrong: pl.Expr, role: str, reason: str) -> None:
        faults.append(pl.when(wrong).then(pl.lit(f"column {layout.roles[role]!r}: {reason}")))

    for role, column in layout.roles.items():
        field, kind = pl.col(column), schema[column]
        if kind == pl.String or kind in (pl.Categorical, pl.Enum):
            field, kind = field.cast(pl.String), pl.String()
            missing = field.is_null() | (field == "")
        else:
            missing = field.is_null()
        fault(missing, role, "missing")
        if role in ("user", "item"):
            if kind != pl.String and not kind.is_integer():
                raise InputError(f"{label}: the {role}s in column {column!r} are {kind}: give strings or integers")
            values[role] = field if kind == pl.String else field.cast(pl.Int64, strict=False)
            fault(values[role].is_null(), role, "does not fit 64 bits with sign")
        elif role == "event":
            values[role] = field.cast(pl.String)
        elif role == "time":
            values[role], reason = _microseconds(raw, source, column, kind, label)
            fault(values[role].is_null(), role, reason)
            fault(values[role] < 0, role, "before 1970")
            fault(values[role] >= NEWEST_TIME, role, "after the year 2099 (milliseconds? say so: --time-unit)")
        else:
            if kind != pl.String and not kind.is_numeric():
                raise InputError(f"{label}: the {role}s in column {column!r} are {kind}: give numbers")
            # Weights go through 32 bits here, so that sums of them are exact and no engine can round them another way.
            values[role] = field.cast(pl.Float64, strict=False)
            if role == "weight":
                values[role] = values[role].cast(pl.Float32).cast(pl.Float64)
            fault(values[role].is_null() | ~values[role].is_finite(), role, "not a finite number")
            if role == "weight":
                fault(values[role] <= 0, role, "not positive")
    text = pl.col("__text") if "__text" in schema else pl.struct(list(layout.roles.values())).struct.json_encode()
    about = {"file": pl.lit(label), "line": pl.col("__line").cast(pl.Int64), "fault": pl.coalesce(faults), "text": text}
    return raw.select(**values, **about, **{name: pl.col(name) for name in keep or []})


def _microseconds(raw: pl.LazyFrame, source: Source, column: str, kind: pl.DataType, label: str) -> tuple[pl.Expr, str]:
    """The times of a column in microseconds, null where there is none, and what a null means."""
    import polars as pl

    field, unit = pl.col(column), source.time_unit
    if kind in (pl.Date, pl.Datetime):
        return field.cast(pl.Datetime("us", getattr(kind, "time_zone", None))).dt.epoch("us"), "not a time"
    if kind == pl.String and unit == "auto":
        first = raw.select(field).filter(field.is_not_null() & (field != "")).head(1).collect()
        unit = "seconds" if len(first) == 0 or _is_number(first.item()) else "iso"
    if unit == "iso":
        if kind != pl.String:
            raise InputError(
                f"{label}: the times in column {column!r} are {kind}, not ISO text: give another --time-unit"
            )
        text = field.str.strip_chars().str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00")
        zoned = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", time_unit="us", strict=False, time_zone="UTC")
        plain = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
        day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
        return pl.coalesce(zoned.dt.epoch("us"), plain.dt.epoch("us"), day.dt.epoch("us")), "not an ISO date or time"
    if kind != pl.String and not kind.is_numeric():
        raise InputError(f"{label}: the times in column {column!r} are {kind}: give numbers, ISO text or datetimes")
    factor = _UNITS["seconds" if unit == "auto" else unit]
    # Beyond this all times are faults; bounding them first keeps the product within 64 bits.
    beyond = 2 * NEWEST_TIME // factor
    whole = field.cast(pl.Int64, strict=False).clip(-1, beyond) * factor
    if kind.is_integer():
        return whole, "does not fit 64 bits with sign"
    number = field.cast(pl.Float64, strict=False)
    fraction = pl.when(number.is_finite()).then((number.clip(-1, beyond) * factor).round()).cast(pl.Int64)
    return (pl.coalesce(whole, fraction) if kind == pl.String else fraction), "not a number"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def lines_of(path: Path, source: Source, layout: Layout, label: str, folder: Path) -> pl.LazyFrame:
    """The slow reading: the fields of every record of a text file, its `__line`, `__text`, and `__fault` of form."""
    import polars as pl

    schema = dict.fromkeys([*layout.names, "__line", "__text", "__fault"], pl.String) | {"__line": pl.Int64}
    folder.mkdir()
    with opened_text(path, source.encoding, label, errors="surrogateescape") as lines:
        records = _records(lines, source, layout)
        for number in range(2**31):
            batch = list(islice(records, _LINES_A_BATCH))
            if not batch and number:
                break
            rows = [(*fields, line, text, fault) for line, fields, text, fault in batch]
            frame = pl.DataFrame(rows, schema=schema, orient="row")
            if layout.format == "adjacency":
                frame = _adjacency_rows(frame)
            frame.write_parquet(folder / f"{number:09d}.parquet", compression="lz4")
    return pl.scan_parquet(folder)


def _adjacency_rows(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    sound = (
        frame.lazy().filter(pl.col("__fault").is_null()).with_columns(words=pl.col("__text").str.extract_all(r"\S+"))
    )
    broken = frame.lazy().filter(pl.col("__fault").is_not_null()).with_columns(time=pl.lit(None, pl.Int64))
    names = broken.collect_schema().names()
    return pl.concat([_exploded(sound.drop("user", "item")).select(names), broken]).collect()


def _records(
    lines: Iterator[str], source: Source, layout: Layout
) -> Iterator[tuple[int, tuple[str | None, ...], str, str | None]]:
    """(line number, fields, text, fault) of every record; the fields are empty where there is a fault."""
    ahead: deque[str] = deque()
    nothing = (None,) * len(layout.names)
    number = 0
    while line := ahead.popleft() if ahead else next(lines, ""):
        number += 1
        text = line.rstrip("\r\n")
        if (number == 1 and layout.format == "csv" and source.header) or not text.strip("\r\n "):
            continue
        start = number
        fields: tuple[str | None, ...] = nothing
        try:
            if any("\udc80" <= character <= "\udcff" for character in text):
                raise ValueError(f"bytes that are not {source.encoding}")
            if layout.format == "json":
                fields = _json_fields(text, layout)
            elif layout.format == "csv":
                whole, extra = _whole_record(text, lines, ahead, source, layout)
                text, number = whole, number + extra
                fields = tuple(field or None for field in split_line(text, layout.separator, source.quote))
                if len(fields) != len(layout.names):
                    raise ValueError(f"{len(fields)} fields instead of {len(layout.names)}")
            yield start, fields, text, None
        except ValueError as error:
            yield start, nothing, text.encode(errors="backslashreplace").decode(), str(error)


def _whole_record(
    text: str, lines: Iterator[str], ahead: deque[str], source: Source, layout: Layout
) -> tuple[str, int]:
    """`text` with the lines after it that its open quote runs over, and their number."""
    if source.quote is None or text.count(source.quote) % 2 == 0:
        return text, 0
    taken: list[str] = []
    while len(taken) < _LONGEST_RECORD and (line := ahead.popleft() if ahead else next(lines, "")):
        taken.append(line)
        if line.count(source.quote) % 2:
            joined = "\n".join([text, *(part.rstrip("\r\n") for part in taken)])
            return joined, len(taken)
    ahead.extendleft(reversed(taken))
    raise ValueError("a quote that is not closed")


def _json_fields(text: str, layout: Layout) -> tuple[str | None, ...]:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON ({error})") from None
    if not isinstance(record, dict):
        raise ValueError("JSON, but not an object")
    values = (record.get(name) for name in layout.names)
    return tuple(value if value is None or isinstance(value, str) else json.dumps(value) for value in values)


def _matrix_events(path: Path, label: str) -> pl.LazyFrame:
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
    except Exception as error:  # a damaged archive raises whatever zipfile, zlib, NumPy and SciPy come across
        raise InputError(f"{label} is no SciPy sparse matrix ({error}): save one with scipy.sparse.save_npz") from None
    rows, columns = matrix.coords
    weight = matrix.data.astype(np.float32).astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight > 0))
    frame = pl.LazyFrame(
        {"user": rows.astype(np.int64), "item": columns.astype(np.int64), "weight": weight, "wrong": wrong}
    )
    fault = pl.when("wrong").then(pl.lit("value: not positive and finite"))
    text = pl.format("({}, {})", "user", "item")
    about = {"file": pl.lit(label), "line": pl.int_range(1, pl.len() + 1, dtype=pl.Int64), "fault": fault, "text": text}
    return frame.with_columns(**about).drop("wrong")
