"""Files as programs and people export them: read at once, or after following one error message."""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest import lines as lines_module
from lorentzrec.ingest import text as text_module
from lorentzrec.ingest.layouts import detect_layout, split_line
from lorentzrec.ingest.lines import scan_lines
from lorentzrec.ingest.sources import Source
from tests.saved_datasets import save_dataset

BOOKS = (
    b'"User-ID";"ISBN";"Book-Rating"\r\n'
    + b"".join(b'"%d";"%d";"5"\r\n' % (number % 40, number) for number in range(500))
    + b'"7";"a\\"b";"0"\r\n"8";"K\xe4se";"3"\r\n"8";"x \\"q\\" y";"3"\r\n"9";"c;d";"3"\r\n'
)
"""As Book-Crossing: latin-1, semicolons, and quotes escaped with backslashes in few lines far down."""
EXCEL = (
    "user;item;time;weight\r\nann;Käse;13.05.2024 10:00;1,5\r\n"
    "bob;Tee €;12.05.2024 09:30;2\r\nbob;Tee;12.05.2024 09:31;2\r\n"
)
"""As Excel in much of Europe."""


def options_named(message: str) -> dict[str, Any]:
    """The options in a message that have values, except the one that skips rows."""
    found = re.findall(r"`([a-z_]+)=('[^`']*')`", message)
    return {name: ast.literal_eval(value) for name, value in found if name != "on_error"}


def attempts(path: Path, **options: Any) -> tuple[Interactions, int]:
    """Read, each time with the options that the last error named; also returns the number of attempts."""
    for attempt in range(1, 5):
        try:
            return Interactions.from_file(path, **options), attempt
        except InputError as error:
            options |= options_named(str(error))
    raise AssertionError(options)


def written(folder: Path, content: str | bytes, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_book_crossing_needs_one_hint(tmp_path: Path) -> None:
    data, tried = attempts(written(tmp_path, BOOKS))
    assert tried == 2
    assert len(data) == 504
    assert set(data.history_ids(8)) >= {"Käse", 'x "q" y'}
    assert 'a"b' in data.history_ids(7)
    assert "c;d" in data.history_ids(9)
    assert data.notes[0] == "fields are separated by ';'"
    assert "the column 'User-ID' is taken for the user" in data.notes
    assert any("'Book-Rating' is not used" in note for note in data.notes)


def test_book_crossing_without_the_lines_that_cannot_be_read(tmp_path: Path) -> None:
    data = Interactions.from_file(written(tmp_path, BOOKS), on_error="skip")
    assert len(data) == 501
    assert data.notes[-1] == (
        "3 faulty rows skipped: quotes escaped with a backslash (2), bytes that are not utf-8 (1)"
    )


def test_escapes_in_the_header_are_those_of_the_rows(tmp_path: Path) -> None:
    path = written(tmp_path, r'"user","it\"em","note \\"' + "\n" + r'"u","i \"q\"","x \\"' + "\n")
    data = Interactions.from_file(path, item_column='it"em', escape="\\")
    assert data.history_ids("u") == ['i "q"']
    layout = detect_layout(path, Source(item_column='it"em', escape="\\"), str(path))
    assert layout.names == ("user", 'it"em', "note \\")


def test_an_escape_for_csv_does_not_change_json(tmp_path: Path) -> None:
    path = written(tmp_path, r'{"user": "u", "item": "a \"b\" \\"}' + "\n", "events.jsonl")
    assert Interactions.from_file(path, escape="\\").history_ids("u") == ['a "b" \\']


@settings(deadline=None)
@given(
    text=st.text(st.sampled_from('ab\\",\n\ré€'), max_size=30),
    encoding=st.sampled_from(["utf-8", "cp1252", "utf-16"]),
    size=st.integers(1, 5),
)
def test_text_is_the_same_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, text: str, encoding: str, size: int
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    path = written(folder, text.encode(encoding))
    source = Source(encoding=encoding, escape="\\")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "_PIECE", size)
        assert text_module.copy_as_utf8(path, source, "events.csv", folder / "plain")
        lines = list(text_module.read_lines(path, source, "events.csv"))
    resolved = re.sub(r'\\(["\\])', lambda found: '""' if found[1] == '"' else "\\", text)
    assert (folder / "plain").read_bytes().decode() == resolved
    ends = resolved.split("\n")
    assert lines == [line.rstrip("\r") for line in (ends if ends[-1] else ends[:-1])]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_excel_exports_are_read(tmp_path: Path, encoding: str, packed: str) -> None:
    raw = EXCEL.encode(encoding)
    content = {"": raw, ".gz": gzip.compress(raw), ".zst": zstandard.compress(raw)}[packed]
    data, tried = attempts(written(tmp_path, content, f"events.csv{packed}"))
    assert tried == 2
    assert data.history_ids("bob") == ["Tee €", "Tee"]
    assert data.history_ids("ann") == ["Käse"]
    assert data.times is not None
    assert data.times.tolist() == [1_715_506_200, 1_715_506_260, 1_715_594_400]
    assert data.weights is not None
    assert data.weights.tolist() == [2.0, 2.0, 1.5]


def test_sasrec(tmp_path: Path) -> None:
    data, tried = attempts(written(tmp_path, "1 30\n1 10\n2 5\n1 20\n", "beauty.txt"))
    assert tried == 2
    assert data.history_ids(1) == [30, 10, 20]
    assert "times are positions in the files, not moments" in data.notes


@pytest.mark.parametrize(
    ("name", "content", "options", "tries"),
    [
        ("a.csv", "user\titem\nu\ti\n", {}, 1),
        ("a.csv", "user\titem\nu\ti\n", {"separator": "\\t"}, 1),
        ("a.csv", "user\titem\nu\ti\n", {"separator": "tab"}, 1),
        ("a.csv", "user|item\nu|i\n", {}, 1),
        ("a.csv", '"user";"item"\n"u";"i"\n', {}, 1),
        ("a.txt", "user item\nu i\n", {}, 1),
        ("a.dat", "u;i\n", {"columns": ("user", "item")}, 1),
        ("a.txt", "u i\n", {"separator": " ", "columns": ("user", "item")}, 1),
        ("a.csv", "u,i\n", {"columns": ("user", "item")}, 1),
        ("a.csv", "x,y\nu,i\n", {"columns": ("user", "item"), "header": True}, 1),
        ("a.csv", "uid,product_id\nu,i\n", {}, 1),
        ("a.csv", "userId,itemId\nu,i\n", {}, 1),
        ("a.csv", "visitorid,sku\nu,i\n", {}, 1),
        ("a.csv", "User,Item\nu,i\n", {}, 1),
        ("a.csv", "'user','item'\n'u','i'\n", {"quote": "'"}, 1),
        ("a.csv", "user,item\nu,i\n".encode("utf-16-le"), {}, 2),
        ("a.jsonl", '{"user_id":"u","asin":"i"}\n', {}, 1),
    ],
)
def test_csv_dialects_are_recognised(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], tries: int
) -> None:
    data, tried = attempts(written(tmp_path, content, name), **options)
    assert tried == tries
    assert data.history_ids("u") == ["i"]


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        ("buyer,item\nu,i\n", {}, "name the column of the user with `user_column`"),
        (
            "user,sku,asin\nu,i,j\n",
            {},
            "no column 'item', but sku, asin: name the column of the item with `item_column`",
        ),
        (
            'user,item,weight\nu,i,"1,000"\n',
            {},
            r"a comma of decimals or of thousands, in .*give `decimal=','` or `thousands=','`",
        ),
        ("user,item,time\nu,i,20240513\n", {}, "look like dates: give `time_format='%Y%m%d'`"),
        ("user,item,time\nu,i,1577836800000\n", {}, "after the year 2099, in .* give `time_unit='milliseconds'`"),
        (
            "user,item,time\nu,i,1577836800\nu,j,1577836800000\n",
            {},
            "line 3: .*after the year 2099, where other times are in seconds: the column mixes units, in .*: fix",
        ),
        ("\nuser,item\nu,i\n", {}, "line 1 is empty: remove it"),
        ("user,item\nu,i\n", {"time_format": "%H:%M"}, "which has no day"),
        ("user,item\nu,i\n", {"decimal": "x"}, "`decimal` is 'x'"),
        ("user,item\nu,i\n", {"quote": "''"}, "`quote` is \"''\": give one character"),
        (
            b"user,it\xe9m\nu,i\n",
            {},
            "bytes that are not utf-8 in line 1; no column 'item', .* give `encoding='latin-1'` and `item_column`",
        ),
    ],
)
def test_errors_name_the_option(tmp_path: Path, content: str | bytes, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Interactions.from_file(written(tmp_path, content), **options)


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("user,item,timestamp", "the column 'timestamp' is taken for the time"),
        ("user,item,order_date", "'order_date' may be a time and is not used: if it is, give `time_column`"),
        ("user,item,rating", "the column 'rating' is not used: keep good ratings with `rating_column` and"),
    ],
)
def test_columns_that_look_useful_are_mentioned(tmp_path: Path, header: str, note: str) -> None:
    path = written(tmp_path, f"{header}\nu,i,5\n")
    assert any(one.startswith(note) for one in Interactions.from_file(path).notes)
    assert Interactions.from_file(path, time_column="").times is None


def test_two_time_columns_are_not_used_and_mentioned(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item,date,ts\nu,i,1,2\n")
    data = Interactions.from_file(path)
    assert data.times is None
    assert data.notes == ("'date' and 'ts' look like times and are not used: choose one with `time_column`",)


def test_decimal_commas_are_recognised(tmp_path: Path) -> None:
    for text, options in (("1,5", {}), ("1,500", {"decimal": ","})):
        data = Interactions.from_file(written(tmp_path, f"user;item;weight\nu;i;{text}\n"), **options)
        assert data.weights is not None
        assert data.weights.tolist() == [1.5]


def test_faults_far_apart_are_counted_in_one_error(tmp_path: Path) -> None:
    rows = "".join(f"u{number},i\n" for number in range(1000))
    with pytest.raises(InputError, match=r"line 2: 3 fields instead of 2, in 'a,b,c' \(and 1 more faulty row\)"):
        Interactions.from_file(written(tmp_path, f"user,item\na,b,c\n{rows}x\n"))


def records_one_by_one(text: str, columns: int) -> list[tuple[int, tuple[str | None, ...] | None]]:
    """Line number and fields of every record, None for a fault: the plain loop that batches are compared with."""
    found: list[tuple[int, tuple[str | None, ...] | None]] = []
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = lines[:-1] if lines[-1] == "" else lines
    place = 1
    while place < len(lines):
        start, record = place, lines[place]
        place += 1
        if not record.strip():
            continue
        if record.count('"') % 2:
            closing = next((n for n in range(place, min(place + 100, len(lines))) if lines[n].count('"') % 2), None)
            if closing is not None:
                record, place = "\n".join(lines[start : closing + 1]), closing + 1
        try:
            fields: tuple[str | None, ...] | None = tuple(field or None for field in split_line(record, ",", '"'))
        except ValueError:
            fields = None
        odd = record.count('"') % 2
        found.append((start + 1, fields if fields is not None and len(fields) == columns and not odd else None))
    return found


@settings(deadline=None, max_examples=150)
@given(
    body=st.text(st.sampled_from('ab,"\n\r é'), max_size=60).filter(lambda text: "\r" not in text.replace("\r\n", "")),
    batch=st.sampled_from([1, 2, 1000]),
)
def test_batches_of_lines_are_read_like_single_lines(
    tmp_path_factory: pytest.TempPathFactory, body: str, batch: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    path = written(folder, f"user,item\n{body}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_RECORDS_PER_BATCH", batch)
        frame = scan_lines(path, detect_layout(path, Source(), str(path)), folder / "lines").collect()
    ours = [
        (line, None if fault else (user or None, item or None))
        for user, item, line, _, fault in frame.select("user", "item", "__line", "__text", "__fault").rows()
    ]
    assert ours == records_one_by_one(f"user,item\n{body}", 2)


def test_many_faulty_lines_are_read_in_batches(tmp_path: Path) -> None:
    good = "".join(f'"u{number % 7}";"i{number}"\n' for number in range(2000))
    path = written(tmp_path, ('"user";"item"\n' + good + '"u";"x\ny"\n"v";"b"c"\n').encode("latin-1"))
    data = Interactions.from_file(path, on_error="skip", encoding="latin-1")
    assert len(data) == 2000
    assert data.notes[-1].startswith("2 faulty rows skipped: a quote that is not closed (1), column 'item'")


def test_positions_in_the_file_become_times(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item\nu,c\nv,z\nu,a\nu,b\n")
    data = Interactions.from_file(path, ordered=True)
    assert data.history_ids("u") == ["c", "a", "b"]
    assert data.times is not None
    assert data.times.tolist() == [0, 1, 2, 0]
    short = Interactions.from_file(path, ordered=True, maximum_history=2)
    assert short.history_ids("u") == ["a", "b"]
    twice = written(tmp_path, "user,item\nu,c\nu,a\nu,c\nu,b\n", "twice.csv")
    assert Interactions.from_file(twice, ordered=True, duplicates="last").history_ids("u") == ["a", "c", "b"]


def test_positions_continue_over_several_files(tmp_path: Path) -> None:
    written(tmp_path, "user,item\nu,c\nu,b\n", "1.csv")
    pl.DataFrame({"user": ["u", "u"], "item": ["d", "a"]}).write_parquet(tmp_path / "2.parquet")
    assert Interactions.from_file(tmp_path, ordered=True).history_ids("u") == ["c", "b", "d", "a"]


def test_equal_times_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item,time,weight\nu,c,1,1\nu,b,0,1\nu,a,1,1\nu,c,1,2\n")
    assert Interactions.from_file(path).history_ids("u")[0] == "b"
    assert Interactions.from_file(path, ties="file").history_ids("u") == ["b", "c", "a", "c"]
    assert Interactions.from_file(path, ties="file", duplicates="first").history_ids("u") == ["b", "c", "a"]
    assert Interactions.from_file(path, ties="file", duplicates="last").history_ids("u") == ["b", "a", "c"]
    assert Interactions.from_file(path, ties="file", duplicates="sum").history_ids("u") == ["b", "a", "c"]
    assert Interactions.from_file(path, ties="file", maximum_history=2).history_ids("u") == ["a", "c"]


def test_a_saved_dataset_keeps_the_order_of_equal_times(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item,time\nu,c,1\nu,b,1\nv,b,1\nu,a,1\n")
    data = Interactions.from_file(path, ties="file")
    assert data.ties_given
    assert save_dataset(data, tmp_path / "whole").interactions().digest == data.digest
    train_part, test_part = data.split("leave_last_out")
    parts = save_dataset({"train": train_part, "test": test_part}, tmp_path / "parts")
    assert parts.interactions("train").history_ids("u") == ["c", "b"]
    assert parts.interactions().history_ids("u") == ["c", "b", "a"]
    assert not Interactions.from_file(path).ties_given


@pytest.mark.parametrize(
    ("content", "options", "complaint"),
    [
        ("user,item\nu,i\n", {"ties": "file"}, "has no times, so none are equal: give `ordered` instead of `ties`"),
        ("user,item,time\nu,i,1\n", {"ordered": True, "time_column": "time"}, "`time_column` is given: leave one out"),
        ("user,item\nu,i\n", {"ordered": True, "since": 3}, "needs the time of every event"),
        ("user,item\nu,i\n", {"ties": "name"}, "`ties` is 'name': give one of shuffle, file"),
    ],
)
def test_impossible_orders_are_refused(tmp_path: Path, content: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Interactions.from_file(written(tmp_path, content), **options)
