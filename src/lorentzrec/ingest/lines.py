"""Text files line by line: every record with the number of its line, and its fault if it has one.

Polars splits the usual lines, so that only the others take time.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lorentzrec.errors import RowFault
from lorentzrec.ingest.layouts import Layout, quote_fault, split_line
from lorentzrec.ingest.sources import Source
from lorentzrec.ingest.text import UNREADABLE, copy_as_utf8, has_unreadable, show_unreadable, suggest_encoding

if TYPE_CHECKING:
    import polars as pl

_LINES_PER_BATCH = 500_000
_LONGEST_RECORD = 100
"""Lines that one quoted field may span before its opening quote is taken for the fault."""


def scan_lines(path: Path, source: Source, layout: Layout, label: str, folder: Path) -> pl.LazyFrame:
    """The fields of every record of a text file as text, with its `__line`, `__text`, and `__fault` if it has one.

    Records are written to Parquet files in `folder`. Polars splits lines of the usual form; the others, and the lines
    that their open quotes span, are split one by one.
    """
    import polars as pl

    folder.mkdir()
    plain = folder / "plain.txt"
    copy_as_utf8(path, source, label, plain)
    ahead, start, number = pl.Series([], dtype=pl.String), 1, 0
    batches = pl.scan_lines(plain, glob=False).collect_batches(chunk_size=_LINES_PER_BATCH, maintain_order=True)
    batch = next(batches, None)
    while batch is not None or number == 0:
        following = next(batches, None)
        lines = pl.concat([ahead, batch.to_series()]) if batch is not None else ahead
        end = len(lines) if following is None else max(len(lines) - _LONGEST_RECORD, 0)
        records, used = _split_records(lines, start, end, source, layout)
        if layout.format == "adjacency":
            records = _explode_records(records)
        records.write_parquet(folder / f"{number:09d}.parquet", compression="lz4")
        ahead, start, number, batch = lines[used:], start + used, number + 1, following
    plain.unlink()
    return pl.scan_parquet(folder)


def _split_records(lines: pl.Series, start: int, end: int, source: Source, layout: Layout) -> tuple[pl.DataFrame, int]:
    """The records that begin in the first `end` lines, and how many lines they take. `start`: number of the first."""
    import polars as pl

    schema = dict.fromkeys([*layout.names, "__line", "__text", "__fault"], pl.String) | {"__line": pl.Int64}
    frame = pl.DataFrame({"__line": np.arange(start, start + len(lines)), "__text": lines.str.strip_chars_end("\r")})
    header = layout.format == "csv" and source.has_header
    empty = (pl.col("__text").str.strip_chars() == "") | (pl.lit(header) & (pl.col("__line") == 1))
    masks = frame.select(usual=_is_usual(source, layout) & ~empty, odd=~_is_usual(source, layout) & ~empty)
    usual, odd = masks["usual"].to_numpy().copy(), np.flatnonzero(masks["odd"].to_numpy())
    rows, taken = [], 0
    for place in odd.tolist():
        if place < taken or place >= end:
            continue
        text, fields, fault, extra = _read_record(frame["__text"], place, source, layout)
        usual[place + 1 : place + 1 + extra] = False
        taken = place + 1 + extra
        rows.append((*fields, start + place, text, fault))
    used = max(end, taken)
    usual[used:] = False
    sound = frame.filter(pl.Series(usual))
    split = _split_fields(sound["__text"], source, layout)
    named = sound.select("__line", "__text", __fault=pl.lit(None, pl.String)).hstack(split)
    others = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([named.select(list(schema)), others]).sort("__line"), used


def _is_usual(source: Source, layout: Layout) -> pl.Expr:
    """Whether a line can be split without looking at others."""
    import polars as pl

    text = pl.col("__text")
    readable = ~text.str.contains(f"[{chr(UNREADABLE)}-{chr(UNREADABLE + 255)}]")
    if layout.format == "adjacency":
        return readable
    if layout.format == "json":
        return pl.lit(False)
    if source.quote is None or len(layout.separator) > 1:
        return readable & (text.str.count_matches(layout.separator, literal=True) == len(layout.names) - 1)
    quote, separator = re.escape(source.quote), re.escape(layout.separator)
    field = f"(?:{quote}[^{quote}]*{quote}|[^{quote}{separator}]*)"
    return readable & text.str.contains(f"^{field}(?:{separator}{field}){{{len(layout.names) - 1}}}$")


def _split_fields(lines: pl.Series, source: Source, layout: Layout) -> pl.DataFrame:
    import polars as pl

    if layout.format in ("adjacency", "json"):
        return pl.DataFrame({name: pl.repeat(None, len(lines), dtype=pl.String, eager=True) for name in layout.names})
    if source.quote is None or len(layout.separator.encode()) > 1:
        parts = lines.str.split(layout.separator)
        return pl.DataFrame({name: parts.list.get(place).replace("", None) for place, name in enumerate(layout.names)})
    return pl.read_csv(
        io.BytesIO("\n".join(lines.to_list()).encode()),
        has_header=False,
        separator=layout.separator,
        quote_char=source.quote,
        schema=dict.fromkeys(layout.names, pl.String),
    )


def _read_record(
    lines: pl.Series, place: int, source: Source, layout: Layout
) -> tuple[str, tuple[str | None, ...], str | None, int]:
    """(text, fields, fault, further lines) of the record that begins at a line; with a fault, the fields are None."""
    text, extra = str(lines[place]), 0
    try:
        if has_unreadable(text):
            raise ValueError(RowFault(f"bytes that are not {source.encoding}", suggest_encoding(text)))
        if layout.format == "json":
            return text, _split_json(text, layout), None, 0
        text, extra = _join_lines(lines, place, source)
        fields = tuple(field or None for field in split_line(text, layout.separator, source.quote))
        if len(fields) != len(layout.names):
            raise ValueError(f"{len(fields)} fields instead of {len(layout.names)}")
        return text, fields, None, extra
    except ValueError as error:
        return show_unreadable(text), (None,) * len(layout.names), str(error), extra


def _join_lines(lines: pl.Series, place: int, source: Source) -> tuple[str, int]:
    """The line with those after it that its open quote spans, and their number."""
    text = str(lines[place])
    if source.quote is None or text.count(source.quote) % 2 == 0:
        return text, 0
    following = lines[place + 1 : place + 1 + _LONGEST_RECORD].to_list()
    for extra, line in enumerate(following, 1):
        if line.count(source.quote) % 2:
            return "\n".join([text, *following[:extra]]), extra
    raise ValueError(quote_fault(text, source.quote, "a quote that is not closed"))


def _split_json(text: str, layout: Layout) -> tuple[str | None, ...]:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON ({error})") from None
    if not isinstance(record, dict):
        raise ValueError("JSON, but not an object")
    values = (record.get(name) for name in layout.names)
    return tuple(value if value is None or isinstance(value, str) else json.dumps(value) for value in values)


def _explode_records(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    faulty = pl.col("__fault").is_not_null()
    words = frame.lazy().filter(~faulty).select(r"^__.*$", words=pl.col("__text").str.extract_all(r"\S+"))
    return pl.concat([explode_words(words).select(frame.columns), frame.lazy().filter(faulty)]).collect()


def explode_words(words: pl.LazyFrame) -> pl.LazyFrame:
    """(user, item) from lists whose first word is the user and whose others are items."""
    import polars as pl

    return (
        words.filter(pl.col("words").list.len() > 1)
        .with_columns(user=pl.col("words").list.first(), item=pl.col("words").list.slice(1))
        .drop("words")
        .explode("item")
    )
