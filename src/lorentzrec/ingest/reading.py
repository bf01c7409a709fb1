"""One event file to typed events: user, item, time in microseconds, weight, rating, event; faults with their lines.

Both engines read with these functions (on Spark they run inside the tasks), so that a file means the same on either.
A frame of events has, besides the roles found, four columns about faults: `fault` is what is wrong with the row and
null for a sound one; `file`, `line` and `text` are where it is and what it contains. A fault that an option may resolve
ends with that option in brackets: "bytes that are not utf-8 (`encoding='latin-1'`)".
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.data import times
from lorentzrec.data.vocabulary import CONTROL_CHARACTERS, LONGEST_ID
from lorentzrec.errors import InputError
from lorentzrec.ingest.dialects import encoding_of, is_utf8
from lorentzrec.ingest.lines import copied, exploded, lines_of_copy
from lorentzrec.ingest.sources import Layout, Source, layout_of
from lorentzrec.ingest.storage import fetched, files_at, parquet_faults
from lorentzrec.ingest.unpacking import unpacked

if TYPE_CHECKING:
    import polars as pl

FAULT_COLUMNS = ("file", "line", "fault", "text")

INTEGER = r"^(0|-?[1-9][0-9]{0,17})\z"
"""Integers of 64 bits in their one usual spelling, so that turning text into integers and back changes nothing."""


def events_of(path: Path, source: Source, layout: Layout, label: str, scratch: Path) -> pl.LazyFrame:
    """The events of one local file, lazily. Text is parsed once, into a Parquet file in `scratch`.

    A sound text file is parsed by Polars in one pass; one in another encoding, or with escapes, is copied as plain
    UTF-8 first. If that meets a fault, the file is read again by lines, so that every fault is reported with its line.
    """
    import polars as pl

    if layout.format == "csr":
        return _matrix_events(path, label)
    if layout.format == "parquet":
        frame = pl.scan_parquet(path, glob=False, row_index_name="__line", row_index_offset=1)
        return _typed(frame, source, layout, label)
    name = f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.events"
    staged, plain = scratch / f"{name}.parquet", scratch / f"{name}.txt"
    foreign = source.escape is not None or not is_utf8(encoding_of(path, source.encoding, label))
    if foreign:
        sound = copied(path, source, label, plain) and _stage_quickly(plain, source, layout, label, staged)
    else:
        text = unpacked(path, label, scratch / f"{name}.unpacked")
        sound = _stage_quickly(text, source, layout, label, staged)
        if text != path:
            text.unlink()
        if not sound:
            copied(path, source, label, plain)
    if not sound:
        lines = lines_of_copy(plain, source, layout, scratch / name)
        _typed(lines, source, layout, label).sink_parquet(staged, compression="lz4")
    plain.unlink(missing_ok=True)
    return pl.scan_parquet(staged)


def all_events(address: str | Path, source: Source) -> tuple[pl.DataFrame, Layout]:
    """All events of an address in memory as they are in the files; the first fault is an error."""
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


def fault_error(fault: dict[str, Any], *, count: int = 1, kinds: Iterable[str] = ()) -> InputError:
    """The error for the first faulty row of `count`; `kinds`: what is wrong with all of them.

    It ends with the options that may resolve any of the faults, so that one more attempt is enough.
    """
    text = shown(fault["text"])
    options = list(dict.fromkeys(option for kind in (fault["fault"], *kinds) for option in _options_in(kind)))
    encodings = [option for option in options if option.startswith("`encoding=")]
    if len(encodings) > 1:  # cp1252 holds all that latin-1 does, but for control characters
        options.remove("`encoding='latin-1'`")
    more = f" (and {count - 1:,} more faulty row{'s' if count > 2 else ''})" if count > 1 else ""
    action = f"give {' and '.join(options)}, fix" if options else "fix"
    return InputError(
        f"{fault['file']} line {fault['line']}: {_without_options(fault['fault'])}, in '{text}'{more}: {action} the "
        f"{'lines' if count > 1 else 'line'}, or set faulty rows aside with `on_error='skip'`"
    )


def shown(text: str, longest: int = 100) -> str:
    """A value in a message: cut where it is long, control characters as escapes."""
    text = text if len(text) <= longest else text[:longest] + "..."
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def fault_counts(kinds: Iterable[tuple[str, int]]) -> str:
    """How many rows have which faults, the most frequent first: `bytes that are not utf-8 (16), ...`."""
    totals: dict[str, int] = {}
    for kind, count in kinds:
        name = re.sub(r"^\d+ fields instead of \d+", "wrong number of fields", re.sub(r" \(.*", "", kind))
        totals[name] = totals.get(name, 0) + count
    ranked = sorted(totals.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{name} ({count:,})" for name, count in ranked[:5]]
    return ", ".join(named) + (", ..." if len(ranked) > 5 else "")


def _options_in(fault: str) -> list[str]:
    place = fault.find(" (`")
    alternatives = re.findall(r"`[^`]+`(?: or `[^`]+`)*", fault[place:]) if place >= 0 else []
    return [str(one) for one in alternatives]


def _without_options(fault: str) -> str:
    return fault.partition(" (`")[0]


def _stage_quickly(path: Path, source: Source, layout: Layout, label: str, staged: Path) -> bool:
    """Parse a whole text file at once; false if anything in it is not as it should be."""
    import polars as pl

    raw = _scan_text(path, source, layout)
    last = layout.names[-1]
    # Polars fills up lines that end too early: an empty last field may be one of them.
    suspect = last not in layout.roles.values() and layout.format == "csv"
    quoted = layout.format == "csv" and source.quote is not None and source.escape is None
    try:
        typed = _typed(raw, source, layout, label, keep=[last] if suspect else [])
        typed.sink_parquet(staged, compression="lz4")
        checks = pl.scan_parquet(staged).select(
            fault=pl.col("fault").is_not_null().any(),
            short=pl.col(last).is_null().any() if suspect else pl.lit(False),
            # Polars drops the quotes of "a \\"b\\" c" and leaves the backslashes.
            slashes=_any_id_contains("\\", typed.collect_schema()) if quoted else pl.lit(False),
        )
        fault, short, slashes = checks.collect().row(0)
        return not (
            fault or (short and _has_short_lines(path, source, layout)) or (slashes and _has_escapes(path, source))
        )
    except pl.exceptions.PolarsError:
        return False


def _scan_text(path: Path, source: Source, layout: Layout) -> pl.LazyFrame:
    """Every field as text, one row per record; blank lines left out."""
    import polars as pl

    nothing = {"__line": pl.lit(None, pl.Int64), "__text": pl.lit(None, pl.String), "__fault": pl.lit(None, pl.String)}
    wanted = list(dict.fromkeys([*layout.roles.values(), layout.names[-1]]))
    if layout.format == "adjacency":
        words = pl.scan_lines(path, glob=False).select(words=pl.col("line").str.extract_all(r"\S+"))
        return exploded(words).with_columns(**nothing)
    if layout.format == "json":
        frame = pl.scan_ndjson(path, schema=dict.fromkeys(layout.roles.values(), pl.String))
        wanted = list(layout.roles.values())
    elif len(layout.separator.encode()) == 1:
        frame = pl.scan_csv(
            path,
            has_header=source.has_header,
            separator=layout.separator,
            quote_char=source.quote,
            infer_schema=False,
            new_columns=list(layout.names),
            glob=False,
        )
    else:
        lines = pl.scan_lines(path, glob=False)
        fields = (
            (lines.slice(1) if source.has_header else lines)
            .filter(pl.col("line") != "")
            .select(parts=pl.col("line").str.split(layout.separator))
        )
        # A wrong count is met again, and named, line by line.
        wrong = pl.when(pl.col("parts").list.len() != len(layout.names)).then(pl.lit("wrong number of fields"))
        columns = {name: pl.col("parts").list.get(place, null_on_oob=True) for place, name in enumerate(layout.names)}
        return fields.select(**columns, **(nothing | {"__fault": wrong}))
    return frame.filter(~pl.all_horizontal(pl.col(name).is_null() for name in wanted)).with_columns(**nothing)


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
            if kind == pl.String:
                values[role] = field
                fault(field.str.len_chars() > LONGEST_ID, role, f"longer than {LONGEST_ID} characters")
                fault(field.str.contains(CONTROL_CHARACTERS), role, "control characters")
            else:
                values[role] = field.cast(pl.Int64, strict=False)
                fault(values[role].is_null(), role, "does not fit 64 bits with sign")
        elif role == "event":
            values[role] = field.cast(pl.String)
        elif role == "time":
            first = _first_values(raw, field, kind)
            what = f"{label}: the times in column {column!r}"
            values[role], reason = times.convert_to_microseconds(
                field, kind, first, what, unit=source.time_unit, time_format=source.time_format
            )
            fault(values[role].is_null(), role, str(reason))
            fault(values[role] < 0, role, "before 1970")
            fault(values[role] >= times.NEWEST_TIME, role, str(times.fault_of_late_times(first)))
        else:
            if kind != pl.String and not kind.is_numeric():
                raise InputError(f"{label}: the {role}s in column {column!r} are {kind}: give numbers")
            reason = "not a finite number"
            if kind == pl.String:
                comma = source.decimal or _decimal_of(_first_values(raw, field, kind))
                if comma == ",":
                    field = field.str.replace(",", ".", literal=True)
                else:
                    commas = field.str.contains(",", literal=True)
                    fault(commas, role, f"{reason} (`decimal=','`)")
                field = field.str.strip_chars()
            # Weights go through 32 bits here, so that sums of them are exact and no engine can round them another way.
            values[role] = field.cast(pl.Float64, strict=False)
            if role == "weight":
                values[role] = values[role].cast(pl.Float32).cast(pl.Float64)
            fault(values[role].is_null() | ~values[role].is_finite(), role, reason)
            if role == "weight":
                fault(values[role] <= 0, role, "not positive")
    text = pl.col("__text") if "__text" in schema else pl.struct(list(layout.roles.values())).struct.json_encode()
    about = {"file": pl.lit(label), "line": pl.col("__line").cast(pl.Int64), "fault": pl.coalesce(faults), "text": text}
    return raw.select(**values, **about, **{name: pl.col(name) for name in keep or []})


def _first_values(raw: pl.LazyFrame, field: pl.Expr, kind: pl.DataType) -> pl.Series:
    """Some of the first values of a column that are there."""
    import polars as pl

    there = field.is_not_null() & (field != "") if kind == pl.String else field.is_not_null()
    return raw.select(field).filter(there).head(times.SAMPLE).collect().to_series()


def _decimal_of(first: pl.Series) -> str:
    """The decimal point: a comma if first values have one and it cannot be between thousands."""
    commas = first.str.strip_chars().str.extract(r"^[+-]?\d+,(\d+)$").drop_nulls()
    points = first.str.contains(".", literal=True).any()
    return "," if len(commas) and not points and bool((commas.str.len_chars() != 3).any()) else "."


def _any_id_contains(character: str, schema: pl.Schema) -> pl.Expr:
    import polars as pl

    ids = [
        pl.col(role).str.contains(character, literal=True).any()
        for role in ("user", "item")
        if schema[role] == pl.String
    ]
    return pl.any_horizontal(ids) if ids else pl.lit(False)


def _has_escapes(path: Path, source: Source) -> bool:
    import polars as pl

    lines = pl.scan_lines(path, glob=False)
    return bool(lines.select(pl.col("line").str.contains(f"\\{source.quote}", literal=True).any()).collect().item())


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
