"""Event files of every format to the same events; every kind of broken line named with its file and number."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.sources import READERS, source_named

Rows = list[tuple[Any, Any, Any]]


def rows(data: Interactions) -> Rows:
    times = data.times.tolist() if data.times is not None else [None] * len(data)
    triples = zip(data.users.ids(data.user_rows), data.items.ids(data.item_rows), times, strict=True)
    return sorted(triples, key=repr)


def read(folder: Path, content: str | bytes, name: str = "events.csv", **options: Any) -> Interactions:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Interactions.from_file(path, **options)


THREE: Rows = [("Ann", "é", 20), ("ann", "b,c", 10), ("ann", "é", 5)]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", 'user,item,time\nann,"b,c",10\nAnn,é,20\nann,é,5\n', {}),
        ("b.csv", 'user,item,time\r\nann,"b,c",10\r\nAnn,é,20\r\n\r\nann,é,5', {}),
        ("c.csv", '\ufeffitem,when,who\n"b,c",10,ann\né,20,Ann\né,5,ann\n',
         {"user_column": "who", "time_column": "when"}),
        ("d.tsv", "user\titem\ttime\nann\tb,c\t10\nAnn\té\t20\nann\té\t5\n", {}),
        ("e.txt", "ann::b,c::10\nAnn::é::20\nann::é::5\n", {"format": "csv", "separator": "::", "header": False}),
        ("f.csv", "ann|b,c|10|9\nAnn|é|20|9\nann|é|5|9\n", {"separator": "|", "header": False}),
        ("g.jsonl", '{"user":"ann","item":"b,c","time":10}\n{"item":"é","user":"Ann","time":20,"x":[1]}\n'
                    '{"user":"ann","item":"é","time":5.0}\n', {}),
        ("h.inter", "user_id:token\titem_id:token\ttimestamp:float\nann\tb,c\t10\nAnn\té\t20\nann\té\t5\n",
         {"reader": "recbole", "time_column": "timestamp"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_every_text_format_gives_the_same_events(
    tmp_path: Path, name: str, content: str, options: dict[str, Any], packed: bool
) -> None:
    raw = content.encode()
    data = read(tmp_path, gzip.compress(raw) if packed else raw, name + ".gz" * packed, **options)
    assert rows(data) == THREE


def test_names_with_brackets_are_no_patterns(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "d[1]", tmp_path / "scratch[1]"
    folder.mkdir()
    scratch.mkdir()
    pl.DataFrame({"user": ["a"], "item": ["x"], "time": [1]}).write_parquet(folder / "e[1].parquet")
    (folder / "e[2].csv").write_text("user,item,time\nb,x,2\nfaulty\n")
    (folder / "e[3].jsonl").write_text('{"user": "c", "item": "x", "time": 3}\n')
    (folder / "e[4].csv").write_bytes("user,item,time\nd,x,4\n".encode("utf-16"))
    pl.DataFrame({"item": ["x"], "title": ["X"]}).write_parquet(tmp_path / "items[1].parquet")
    config = PrepareConfig(events=(str(folder),), items=str(tmp_path / "items[1].parquet"), on_error="skip")
    report = prepare(config, tmp_path / "out[1]", scratch=scratch)
    assert (report.counts["events"], report.rejected) == (4, 1)
    assert open_dataset(tmp_path / "out[1]").items["title"].to_list() == ["X"]


def test_zstd_and_other_encodings(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["ann", "Ann", "ann"], "item": ["b,c", "é", "é"], "time": [10, 20, 5]})
    frame.lazy().sink_csv(tmp_path / "z.csv.zst", compression="zstd")
    assert rows(Interactions.from_file(tmp_path / "z.csv.zst")) == THREE
    latin = 'user,item,time\nann,"b,c",10\nAnn,é,20\nann,é,5\n'.encode("latin-1")
    assert rows(read(tmp_path, latin, encoding="latin-1")) == THREE


def test_parquet_keeps_the_types_of_ids(tmp_path: Path) -> None:
    moments = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)]
    pl.DataFrame({"user": ["7", "8"], "item": [7, 8], "time": moments}).write_parquet(tmp_path / "e.parquet")
    data = Interactions.from_file(tmp_path / "e.parquet")
    assert rows(data) == [("7", 7, 1_577_836_800), ("8", 8, 1_577_923_200)]


def test_ids_in_text_are_integers_only_if_all_are_spelled_so(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "user,item\n1,10\n-2,0\n")) == [(-2, 0, None), (1, 10, None)]
    assert rows(read(tmp_path, "user,item\n1,010\n2,0\n")) == [(1, "010", None), (2, "0", None)]
    quoted = '{"user":"1","item":2}\n{"user":"3","item":4}\n'
    assert rows(read(tmp_path, quoted, "e.jsonl")) == [("1", 2, None), ("3", 4, None)]


@pytest.mark.parametrize(
    ("time", "unit", "expected"),
    [
        ("1577836800", "auto", 1_577_836_800),
        ("1577836800.5", "auto", 1_577_836_800.5),
        ("1577836800000", "milliseconds", 1_577_836_800),
        ("1577836800250", "milliseconds", 1_577_836_800.25),
        ("1577836800000000", "microseconds", 1_577_836_800),
        ("2020-01-01", "auto", 1_577_836_800),
        ("2020-01-01T00:00:01", "iso", 1_577_836_801),
        ("2020-01-01 00:00:00.5", "iso", 1_577_836_800.5),
        ("2020-01-01T02:00:00+02:00", "iso", 1_577_836_800),
        ("2020-01-01T00:00:00Z", "iso", 1_577_836_800),
    ],
)
def test_notations_of_times(tmp_path: Path, time: str, unit: str, expected: float) -> None:
    data = read(tmp_path, f"user,item,time\nu,i,{time}\n", time_unit=unit)
    assert data.times is not None
    assert data.times.tolist() == [expected]


def test_adjacency_lines_with_and_without_order(tmp_path: Path) -> None:
    text = "1 30 10 20\n2\n\n3 10\n"
    unordered = read(tmp_path, text, "e.txt", reader="adjacency")
    assert rows(unordered) == [(1, 10, None), (1, 20, None), (1, 30, None), (3, 10, None)]
    ordered = read(tmp_path, text, "e.txt", reader="adjacency-ordered")
    assert ordered.history_ids(1) == [30, 10, 20]


def test_a_sparse_matrix_is_read(tmp_path: Path) -> None:
    from scipy import sparse

    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.array([[0, 2.0], [1.0, 0]])))
    data = Interactions.from_file(tmp_path / "m.npz")
    assert rows(data) == [(0, 1, None), (1, 0, None)]
    assert data.weights is not None
    assert sorted(data.weights.tolist()) == [1.0, 2.0]
    sparse.save_npz(tmp_path / "true.npz", sparse.csr_array(np.array([[False, True], [True, False]])))
    assert rows(Interactions.from_file(tmp_path / "true.npz")) == rows(data)


def test_wrong_entries_of_a_matrix_are_faults(tmp_path: Path) -> None:
    from scipy import sparse

    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.array([[5, -2.0], [np.nan, 1]])))
    complaint = r"line 2: column 'value': not positive, in '\(0, 1\)' \(and 1 more faulty row\)"
    with pytest.raises(InputError, match=complaint):
        Interactions.from_file(tmp_path / "m.npz")
    data = Interactions.from_file(tmp_path / "m.npz", on_error="skip")
    assert rows(data) == [(0, 0, None), (1, 1, None)]


def test_readers_take_the_folder_or_the_file(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("1\t10\t5\t100\n2\t10\t3\t50\n")
    (tmp_path / "u.item").write_text("10|a film\n")
    for path in (tmp_path, tmp_path / "u.data"):
        assert rows(Interactions.from_file(path, "movielens-100k")) == [(1, 10, 100), (2, 10, 50)]
    with pytest.raises(InputError, match=r"holds no ratings\.dat"):
        Interactions.from_file(tmp_path, "movielens-1m")


def test_movielens_and_amazon_layouts(tmp_path: Path) -> None:
    expected: Rows = [(1, 10, 100), (2, 10, 50)]
    assert rows(read(tmp_path, "1::10::5::100\n2::10::3.5::50\n", "ratings.dat", reader="movielens-10m")) == expected
    modern = "userId,movieId,rating,timestamp\n1,10,5.0,100\n2,10,3.5,50\n"
    assert rows(read(tmp_path, modern, "ratings.csv", reader="movielens-32m")) == expected
    assert rows(read(tmp_path, "A1,B1,5.0,100\n", "ratings_Toys.csv", reader="amazon-ratings")) == [("A1", "B1", 100)]
    review = {"reviewerID": "A1", "asin": "0001", "overall": 5.0, "unixReviewTime": 100, "helpful": [0, 0]}
    compressed = gzip.compress(json.dumps(review).encode())
    assert rows(read(tmp_path, compressed, "r.json.gz", reader="amazon-reviews")) == [("A1", "0001", 100)]


def test_folders_and_patterns_join_their_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.csv").write_text("user,item\nu,1\n")
    (tmp_path / "deep" / "b.csv").write_text("item,user\n2,u\n")
    (tmp_path / "_SUCCESS").write_text("")
    expected: Rows = [("u", 1, None), ("u", 2, None)]
    assert rows(Interactions.from_file(tmp_path)) == expected
    assert rows(Interactions.from_file(f"{tmp_path}/**/*.csv")) == expected


SOUND = "user,item,time,weight\nu,i,1,1\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (SOUND + "u,i,2\n", "line 3: 3 fields instead of 4, in 'u,i,2'"),
        (SOUND + "u,i,2,1,9\n", "line 3: 5 fields instead of 4"),
        (SOUND + "u,i,soon,1\n", "line 3: column 'time': not a number"),
        (SOUND + "u,i,,1\n", "line 3: column 'time': missing"),
        (SOUND + "u,i,-5,1\n", "line 3: column 'time': before 1970"),
        (SOUND + "u,i,32503680000,1\n", "line 3: column 'time': after the year 2099"),
        (SOUND + "u,i,99999999999999999999,1\n", "line 3: column 'time': after the year 2099"),
        (SOUND + "u,i,nan,1\n", "line 3: column 'time': not a number"),
        (SOUND + "u,i,2,heavy\n", "line 3: column 'weight': not a finite number"),
        (SOUND + "u,i,2,0\n", "line 3: column 'weight': not positive"),
        (SOUND + "u,i,2,inf\n", "line 3: column 'weight': not a finite number"),
        ("user,item,note,time\nu,i,a,1\n" + 'u,i,"b\nc",2\nu,i,d,x\n', "line 5: column 'time': not a number"),
        (SOUND + '"u\nv",i,2,1\n', "line 3: column 'user': control characters"),
        (SOUND + "u\x85,i,2,1\n", "line 3: column 'user': control characters"),
        (SOUND + "u," + "i" * 513 + ",2,1\n", "line 3: column 'item': longer than 512 characters"),
        (SOUND + 'u,"i,2,1\nu,i,2,1\n', "line 3: a quote that is not closed"),
        (SOUND + 'u,"i"x,2,1\n', "line 3: "),
        (SOUND.encode() + b"u,\xe9,2,1\n", "line 3: bytes that are not utf-8, in 'u,"),
        ("user,item,extra\nu,i,\nu,i\n", "line 3: 2 fields instead of 3"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert complaint in str(caught.value)
    assert "events.csv line" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"user":"u"', "line 2: no JSON"),
        ("[1]", "line 2: JSON, but not an object"),
        ('{"user":' * 100_000, "line 2: no JSON"),
        ('{"user":"u","item":' + "[" * 100_000 + "]" * 100_000 + "}", "line 2: no JSON"),
    ],
)
def test_broken_json_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, '{"user":"u","item":"i"}\n' + line + "\n", "events.jsonl")


def test_an_empty_last_field_is_no_fault(tmp_path: Path) -> None:
    assert rows(read(tmp_path, "user,item,extra\nu,a,\nu,b,x\n")) == [("u", "a", None), ("u", "b", None)]


@pytest.mark.parametrize(
    ("content", "name", "options", "complaint"),
    [
        ("", "e.csv", {}, "is empty"),
        ("user,item\n", "e.csv", {}, "holds no events"),
        ("buyer,item\nu,i\n", "e.csv", {}, "no column 'user', only buyer, item: name the column of the user"),
        ("user,item\nu,i\n", "e.csv", {"time_column": "at"}, "no column 'at' for the time, only user, item"),
        ("user,item,user\nu,i,v\n", "e.csv", {}, "the column 'user' more than once"),
        ("u,i\n", "e.csv", {"header": False, "columns": ("user", "item", "time")}, "2 fields for the columns"),
        ("u i\n", "e.dat", {}, "the format does not follow from the name"),
        ("no parquet", "e.parquet", {}, "it is not a Parquet file"),
        ("not gzip", "e.csv.gz", {}, "cannot be read"),
        ("hello\n", "e.jsonl", {}, "not JSON objects"),
        ("[" * 100_000, "e.jsonl", {}, "not JSON objects"),
        ("no matrix", "e.npz", {}, "is no SciPy sparse matrix"),
    ],
)
def test_unusable_files_are_refused(
    tmp_path: Path, content: str, name: str, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, content, name, **options)


def test_addresses_without_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no files"):
        Interactions.from_file(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        Interactions.from_file(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="ftp:// is not supported"):
        Interactions.from_file("ftp://host/file.csv")


def test_parquet_of_the_wrong_types(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pl.DataFrame({"user": [1.5], "item": [1]}).write_parquet(path)
    with pytest.raises(InputError, match="line 1: column 'user': not a whole number"):
        Interactions.from_file(path)
    pl.DataFrame({"user": [True], "item": [1]}).write_parquet(path)
    with pytest.raises(InputError, match="the users in column 'user' are Boolean: give strings or integers"):
        Interactions.from_file(path)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="no reader 'movielens'"):
        source_named("movielens")
    with pytest.raises(ConfigError, match="no source option 'user_colum': did you mean 'user_column'"):
        source_named(user_colum="u")
    with pytest.raises(ConfigError, match="`format` is 'xml'"):
        source_named(format="xml")
    with pytest.raises(ConfigError, match="no text `encoding` 'utf-9'"):
        source_named(encoding="utf-9")
    assert source_named("csr") is not None
    assert set(READERS) >= {"movielens-100k", "movielens-25m", "amazon-ratings", "recbole"}
