"""Text files line by line: every record with the number of its line, and its fault if it has one."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.counting import Count
from lorentzrec.errors import RowError
from lorentzrec.ingest.layouts import FileLayout, quote_error, split_line
from lorentzrec.ingest.text import has_unreadable, read_lines, show_unreadable, suggest_encoding

if TYPE_CHECKING:
    import polars as pl

Fields = tuple[str | None, ...]

_RECORDS_PER_BATCH = 200_000
_LONGEST_RECORD = 100
"""Lines that one quoted field may span before its opening quote is taken for the fault."""


def scan_lines(path: Path, layout: FileLayout, folder: Path) -> pl.LazyFrame:
    """The fields of every record of a text file as text, with its `__line` and `__text`, and with a `__fault` and an
    `__option` if it has a fault.

    Records are written to Parquet files in `folder`.
    """
    import polars as pl

    folder.mkdir()
    schema = dict.fromkeys([*layout.names, "__line", "__text", "__fault", "__option"], pl.String) | {"__line": pl.Int64}
    records, number = _split_records(read_lines(path, layout.source, layout.address), layout), 0
    while (batch := list(islice(records, _RECORDS_PER_BATCH))) or number == 0:
        frame = pl.DataFrame(dict(zip(schema, zip(*batch, strict=True), strict=False)), schema=schema)
        frame = frame.with_columns(pl.col(layout.names).replace("", None))
        frame.write_parquet(folder / f"{number:09d}.parquet", compression="lz4")
        number += 1
    return pl.scan_parquet(folder, glob=False)


def _split_records(lines: Iterable[str], layout: FileLayout) -> Iterator[tuple[Any, ...]]:
    """(fields, line, text, fault, option) of every record; with a fault, the fields are None."""
    source = layout.source
    rest, ahead = enumerate(lines, 1), deque[tuple[int, str]]()
    if layout.format == "csv" and source.has_header:
        next(rest, None)
    while (entry := ahead.popleft() if ahead else next(rest, None)) is not None:
        number, text = entry
        if not text.strip():
            continue
        try:
            if has_unreadable(text):
                raise RowError(f"bytes that are not {source.encoding}", suggest_encoding(text))
            if source.quote and layout.format == "csv" and len(layout.separator) == 1:
                text = _join_lines(text, source.quote, ahead, rest)
            for fields in _split_record(text, layout):
                yield *fields, number, text, None, None
        except RowError as error:
            fault = error.fault
            yield *[None] * len(layout.names), number, show_unreadable(text), fault.reason, fault.option


def _join_lines(text: str, quote: str, ahead: deque[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> str:
    """The line with those that its open quote spans, which are taken from the lines ahead, or from the rest."""
    if text.count(quote) % 2 == 0:
        return text
    ahead.extend(islice(rest, _LONGEST_RECORD - len(ahead)))
    for extra, (_, line) in enumerate(ahead, 1):
        if line.count(quote) % 2:
            return "\n".join([text, *(ahead.popleft()[1] for _ in range(extra))])
    raise quote_error(text, quote, "a quote that is not closed")


def _split_record(text: str, layout: FileLayout) -> list[Fields]:
    """The fields of a record; of an adjacency list, those of every (user, item) pair."""
    if layout.format == "adjacency":
        user, *items = text.split()
        return [(user, item) for item in items]
    if layout.format == "json":
        return [_split_json(text, layout)]
    fields = split_line(text, layout.separator, layout.source.quote)
    if len(fields) != len(layout.names):
        raise RowError(f"{Count(len(fields)):field|fields} instead of {len(layout.names)}")
    return [tuple(fields)]


def _split_json(text: str, layout: FileLayout) -> tuple[str | None, ...]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"no JSON: {error.msg if isinstance(error, json.JSONDecodeError) else error}") from None
    if not isinstance(record, dict):
        raise RowError("JSON, but not an object")
    values = [_find_field(record, name) for name in layout.names]
    for role, column in layout.roles.items():
        if role in ("user", "item", "order") and isinstance(values[layout.names.index(column)], dict | list):
            raise RowError(f"column {column!r}: an object instead of an id")
    return tuple(value if value is None or isinstance(value, str) else json.dumps(value) for value in values)


def _find_field(record: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or of the field `user.id` of an object; None if there is none."""
    if name in record or "." not in name:
        return record.get(name)
    first, _, rest = name.partition(".")
    inner = record.get(first)
    return _find_field(inner, rest) if isinstance(inner, dict) else None
