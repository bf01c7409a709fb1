"""Columns are recognised by names and values, in files and in data frames alike, and notes report all of it."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lorentzrec import Interactions, MidpointRecommender
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.sources import Source


def invoices(rows: int = 400) -> pd.DataFrame:
    """Lines of invoices as a shop exports them: numbers of customers are floats, since some are missing."""
    draw = np.random.default_rng(3)
    invoice = np.sort(draw.integers(0, rows // 4, rows))
    customer = (17_000 + invoice % 23).astype(float)
    customer[invoice % 9 == 0] = np.nan
    return pd.DataFrame(
        {
            "InvoiceNo": [f"{'C' if number % 17 == 0 else ''}{536_000 + number}" for number in invoice],
            "StockCode": [f"{85_000 + code}{'A' if code % 3 else ''}" for code in draw.integers(0, 60, rows)],
            "Description": "a gift",
            "Quantity": draw.integers(1, 30, rows),
            "InvoiceDate": pd.Timestamp("2011-03-01") + pd.to_timedelta(invoice * 37, unit="min"),
            "UnitPrice": draw.integers(1, 900, rows) / 100,
            "CustomerID": customer,
            "Country": "Norway",
        }
    )


RECOGNISED = (
    "the column 'CustomerID' is taken for the user",
    "the column 'StockCode' is taken for the item",
    "the column 'InvoiceDate' is taken for the time",
    "the column 'InvoiceNo' is taken for the order",
)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_a_frame_of_invoices_needs_no_names(kind: Callable[[Any], Any]) -> None:
    frame = invoices()
    data = Interactions.from_frame(kind(frame))
    known = frame[frame.CustomerID.notna()]
    assert data.notes[:4] == RECOGNISED
    assert "the users in 'CustomerID' are whole numbers stored as floats, and are read as integers" in data.notes
    assert f"{len(frame) - len(known)} rows without a user are left out" in data.notes
    assert len(data) == len(known)
    assert set(data.users.series) == set(known.CustomerID.astype(int))
    assert data.times is not None
    assert data.times.max() == known.InvoiceDate.max().timestamp()
    assert data.orders is not None
    found = {
        (data.users.id(int(user)), order) for user, order in zip(data.user_rows, data.orders.tolist(), strict=True)
    }
    assert len(found) == len(known.groupby(["CustomerID", "InvoiceNo"]))


def test_the_file_that_pandas_writes_gives_the_same_data(tmp_path: Path) -> None:
    invoices().to_csv(tmp_path / "invoices.csv")
    data = Interactions.from_file(tmp_path / "invoices.csv")
    assert data.digest == Interactions.from_frame(invoices()).digest
    assert data.notes[:5] == ("column 1 has no name and is not used", *RECOGNISED)
    invoices().to_parquet(tmp_path / "invoices.parquet")
    assert Interactions.from_file(tmp_path / "invoices.parquet").digest == data.digest


def test_the_recommender_reads_frames_alike() -> None:
    recommender = MidpointRecommender(epochs=1, dimension=4).fit(invoices(), show_progress=False)
    assert recommender.model_.data_digest == Interactions.from_frame(invoices()).digest


@pytest.mark.parametrize(
    "name",
    [
        *("timestamp", "created_at", "occurred_at", "event_time", "transaction_timestamp", "InvoiceDate", "Datum"),
        *("day", "order_date", "t", "purchasedAt", "unix_time", "visit_date"),
    ],
)
@pytest.mark.parametrize("values", [["2024-05-13", "2024-05-14"], [1_715_558_400, 1_715_644_800]])
def test_names_of_times(tmp_path: Path, name: str, values: list[Any]) -> None:
    frame = pl.DataFrame({"user": ["u", "u"], "item": ["b", "a"], name: values})
    frame.write_csv(tmp_path / "e.csv")
    for data in (Interactions.from_frame(frame), Interactions.from_file(tmp_path / "e.csv")):
        assert data.times is not None
        assert data.times.tolist() == [1_715_558_400, 1_715_644_800]
        assert data.notes == (f"the column {name!r} is taken for the time",)


@pytest.mark.parametrize("user", ["household_id", "CustomerID", "Kunde", "kunden_nr", "User-ID", "visitorid", "member"])
@pytest.mark.parametrize("item", ["StockCode", "Artikel", "product_id", "ArtikelNr", "movieId", "sku", "item.sku"])
def test_names_of_users_and_items(user: str, item: str) -> None:
    data = Interactions.from_frame(pl.DataFrame({"x": [1], user: ["u"], item: ["i"]}))
    assert data.history_ids("u") == ["i"]


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ({"seen": ["2024-01-01"]}, "'seen' may be a time and is not used: if it is, give `time`"),
        ({"updated_at": ["2024-01-01"]}, "'updated_at' may be a time and is not used: if it is, give `time`"),
        ({"order_date": ["soon"]}, "'order_date' may be a time and is not used: if it is, give `time`"),
        ({"time": [1], "shipped": ["13.05.2024"]}, "'shipped' holds times and is not used"),
        ({"created_at": ["2024-01-01"], "added_at": ["2024-01-01"]}, "'created_at' and 'added_at' look like times and"),
        ({"stars": [4]}, "the column 'stars' is not used: keep good ratings with `rating` and `minimum_rating`"),
        ({"event": ["view"]}, "'event' holds kinds of events (view) and is not used: give `kind` with `event_weights`"),
    ],
)
def test_unused_columns_that_matter_are_mentioned(columns: dict[str, Any], note: str) -> None:
    data = Interactions.from_frame(pl.DataFrame({"user": ["u"], "item": ["i"], **columns}))
    assert [one for one in data.notes if one.startswith(note)], data.notes


def test_columns_without_times_are_not_mentioned() -> None:
    columns = {
        "price": [9.99],
        "quantity": [3],
        "week": [12],
        "product_name": ["tea 2024"],
        "amount_id": [1_700_000_000],
    }
    notes = Interactions.from_frame(pl.DataFrame({"user": ["u"], "item": ["i"], **columns})).notes
    assert notes == ("the column 'quantity' is taken for the quantity",)


def test_an_id_is_preferred_to_a_name() -> None:
    frame = pl.DataFrame({"user": ["u"], "product": ["Tea"], "product_id": [7], "time": [1]})
    assert Interactions.from_frame(frame).history_ids("u") == [7]


def test_ratings_and_kinds_are_found_where_an_option_needs_them(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["u", "u"], "item": ["a", "b"], "rating": [5, 1], "event": ["buy", "view"]})
    assert Interactions.from_frame(frame, minimum_rating=4).history_ids("u") == ["a"]
    labels = Interactions.from_frame(frame, label_events=("buy",)).labels
    assert labels is not None
    assert labels.tolist() == [True, False]
    weighted = Interactions.from_frame(frame.rename({"event": "what"}), kind="what", event_weights={"buy": 2.0})
    assert weighted.history_ids("u") == ["a"]
    (tmp_path / "e.txt").write_text("u a 5 100\nu b 1 200\n")
    columns = ("user", "item", "rating", "time")
    assert Interactions.from_file(tmp_path / "e.txt", columns=columns, minimum_rating=4).history_ids("u") == ["a"]


def test_rows_without_ids_are_left_out_and_most_of_them_refused(tmp_path: Path) -> None:
    users: list[Any] = ["u", None, "v", ""]
    for frame in (
        pl.DataFrame({"user": users, "item": list("abcd")}),
        pd.DataFrame({"user": users, "item": list("abcd")}),
    ):
        data = Interactions.from_frame(frame)
        assert data.notes == ("2 rows without a user are left out",)
        assert len(data) == 2
    (tmp_path / "e.csv").write_text("user,item,time\nu,a,1\n,b,never\nv,c,3\n")
    report = prepare(PrepareConfig(events=(str(tmp_path / "e.csv"),)), str(tmp_path / "d"))
    assert report.notes == ("1 row without a user is left out",)
    assert [(step.name, step.rows_in, step.rows_out) for step in report.steps] == [("read", 3, 3), ("ids", 3, 2)]
    (tmp_path / "e.csv").write_text("user,item\n,a\n,b\nv,c\n")
    with pytest.raises(
        InputError, match=r"has no user in 2 of 3 rows: check the column 'user', or name another one with"
    ):
        Interactions.from_file(tmp_path / "e.csv")


def test_missing_ids_of_columns_are_named() -> None:
    for users in (
        [1, pd.NA, 2],
        ["a", None, "b"],
        ["a", float("nan"), "b"],
        pd.Series(["a", None, "b"], dtype="category"),
    ):
        with pytest.raises(InputError, match="the user in row 2 is missing"):
            Interactions.from_pairs(users, list("xyz"))


def test_integers_and_text_in_one_column_are_text() -> None:
    frame = pd.DataFrame({"user": [1, 1], "item": pd.Series([22_423, "85123A"], dtype=object), "time": [1, 2]})
    data = Interactions.from_frame(frame)
    assert data.history_ids(1) == ["22423", "85123A"]
    assert data.notes == ("the items in 'item' are numbers and text, and are all read as text",)


def test_floats_in_text_are_integers_if_all_are(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("user,item,time\n17850.0,a,1\n17850,b,2\n3.0,a,1\n")
    data = Interactions.from_file(path)
    assert data.history_ids(17_850) == ["a", "b"]
    assert data.notes == ("the users are whole numbers stored as floats, such as '17850.0': read as integers",)
    path.write_text("user,item,time\n17850.0,a,1\nx1,b,2\nNULL,a,1\n cheese ,a,1\n")
    notes = Interactions.from_file(path).notes
    assert notes == (
        "1 user id such as '17850.0' may be whole numbers that became floats",
        "1 user id such as 'NULL' may mean that there is no user",
        "1 user id such as ' cheese ' may begin or end with blanks by mistake, which make another user",
    )


def test_repeated_rows_are_counted_and_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("user,item,time\nu,a,1\nu,b,1\nu,a,1\nu,a,2\nu,a,1\n")
    for ties in ("shuffle", "file"):
        data = Interactions.from_file(path, ties=ties)
        assert data.notes[-1].startswith("2 rows repeat another one, with the same user, item and time: drop them with")
        exact = Interactions.from_file(path, ties=ties, duplicates="exact")
        assert sorted(map(str, exact.history_ids("u"))) == ["a", "a", "b"]
        assert not [note for note in exact.notes if "repeat" in note]
    assert exact.history_ids("u") == ["a", "b", "a"]


def test_all_faults_of_a_header_are_in_one_error(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes("Käufer;Ware;Datum\nk1;Tee;13.05.2024 10:00\n".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        Interactions.from_file(path)
    message = str(caught.value)
    for part in ("line 1", "no column 'user' and no column 'item'", "times in 'Datum' that are not ISO 8601"):
        assert part in message
    options = ["`encoding='latin-1'`", "`user_column`", "`item_column`", "`time_format='%d.%m.%Y %H:%M'`"]
    assert re.findall(r"`[^`]+`", message) == options


def test_a_german_export_takes_two_attempts(tmp_path: Path) -> None:
    path = tmp_path / "Export.csv"
    lines = ["Kunde;Artikel;Datum;Menge", "Müller;Käse;13.05.2024 10:00;1,5", "Müller;Tee;12.05.2024 09:30;2,25"]
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    with pytest.raises(InputError) as caught:
        Interactions.from_file(path)
    options = dict(re.findall(r"`([a-z_]+)='([^']*)'`", str(caught.value)))
    assert options.pop("on_error") == "skip"
    data = Interactions.from_file(path, **options)
    assert data.history_ids("Müller") == ["Tee", "Käse"]
    assert "the column 'Datum' is taken for the time" in data.notes


def test_lines_without_a_header_suggest_columns(tmp_path: Path) -> None:
    (tmp_path / "e.tsv").write_text("8\t9\t4\t1700000258\n8\t7\t5\t1700000300\n")
    (tmp_path / "e.txt").write_text("8\t9\t4\t1700000258\n8\t7\t5\t1700000300\n")
    for name in ("e.tsv", "e.txt"):
        with pytest.raises(InputError, match=r"give `columns='user,item,rating,time'`"):
            Interactions.from_file(tmp_path / name)
        data = Interactions.from_file(tmp_path / name, columns="user,item,rating,time")
        assert data.history_ids(8) == [9, 7]


def test_known_data_sets_are_recognised_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "100k").mkdir()
    (tmp_path / "100k" / "u.data").write_text("1\t10\t5\t100\n2\t10\t3\t50\n")
    (tmp_path / "100k" / "u.item").write_text("10|a film\n")
    (tmp_path / "100k" / "README").write_text("about\n")
    (tmp_path / "ratings.dat").write_text("1::10::5::100\n2::10::3::50\n")
    (tmp_path / "ratings_Toys.csv").write_text("1,10,5.0,100\n2,10,3.0,50\n")
    for path in (
        tmp_path / "100k",
        tmp_path / "100k" / "u.data",
        tmp_path / "ratings.dat",
        tmp_path / "ratings_Toys.csv",
    ):
        data = Interactions.from_file(path)
        assert data.history_ids(1) == [10]
        assert data.times is not None
        assert [note for note in data.notes if "by its name" in note]


def test_nanoseconds_and_wrong_units(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("user,item,time\nu,a,1700000258000000001\n")
    with pytest.raises(InputError, match="give `time_unit='nanoseconds'`"):
        Interactions.from_file(tmp_path / "e.csv")
    data = Interactions.from_file(tmp_path / "e.csv", time_unit="nanoseconds")
    assert data.times is not None
    assert data.times.tolist() == [1_700_000_258]
    with pytest.raises(ConfigError, match="time_unit is 'ms': give one of auto, seconds, milliseconds"):
        Interactions.from_pairs(["u"], ["a"], [1], time_unit="ms")  # type: ignore[arg-type]


def test_fields_of_objects_are_named_by_a_path(tmp_path: Path) -> None:
    lines = '{"user": {"id": "K022", "name": "x"}, "item": {"sku": "tea"}, "meta": {"at": {"time": 5}}}\n'
    for name, content in (("e.jsonl", lines.encode()), ("e.jsonl.gz", gzip.compress(lines.encode()))):
        (tmp_path / name).write_bytes(content)
        data = Interactions.from_file(tmp_path / name, time_column="meta.at.time")
        assert data.history_ids("K022") == ["tea"]
        assert data.times is not None
        assert data.notes[:2] == (
            "the column 'user.id' is taken for the user",
            "the column 'item.sku' is taken for the item",
        )
    frame = pl.read_ndjson(lines.encode())
    assert Interactions.from_frame(frame, user="user.name").history_ids("x") == ["tea"]
    frame.write_parquet(tmp_path / "e.parquet")
    assert Interactions.from_file(tmp_path / "e.parquet").history_ids("K022") == ["tea"]


def test_objects_are_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"user": {"login": "K022"}, "item": "x"}\n')
    with pytest.raises(
        InputError, match=r"objects with user.login in the column 'user' .* give `user_column='user.login'`"
    ):
        Interactions.from_file(path)
    sound = '{"user": "u", "item": "x"}\n' * 150
    path.write_text(sound + '{"user": {"id": "K022"}, "item": "x"}\n')
    with pytest.raises(InputError, match=r"line 151: column 'user': an object instead of an id"):
        Interactions.from_file(path)
    path.write_text(sound + '{"user": "{not an object}", "item": "x"}\n')
    assert Interactions.from_file(path).history_ids("{not an object}") == ["x"]
    with pytest.raises(InputError, match="lists in the column 'item'"):
        Interactions.from_frame(pl.DataFrame({"user": ["u"], "item": [["a"]]}))


@pytest.mark.parametrize(
    ("frame", "options", "complaint"),
    [
        (pl.LazyFrame({"user": ["u"], "item": ["i"]}), {}, r"this is a lazy one: call \.collect\(\) first"),
        (pd.DataFrame([["u", "i", "j"]], columns=["user", "item", "item"]), {}, "the column 'item' more than once"),
        (
            pl.DataFrame({"user": ["u"], "item": ["i"]}),
            {"order": "nr"},
            "no column 'nr' for the order, only user, item",
        ),
        (pl.DataFrame({"user": ["u"], "item": ["i"]}), {"tim": 3}, "no option of from_frame 'tim'"),
        (pl.DataFrame({"user": [1.5], "item": ["i"]}), {}, "the frame row 1: column 'user': not a whole number"),
        (pl.DataFrame({"user": ["u"], "item": ["i"], "time": ["x"]}), {}, "the frame row 1: column 'time': not an ISO"),
        (pl.DataFrame({"user": [], "item": []}), {}, "the frame holds no events"),
    ],
)
def test_unusable_frames_are_refused(frame: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Interactions.from_frame(frame, **options)


def test_several_files_as_a_list(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.csv").write_text(f"user,item,time\nu,{number},{number}\n")
    assert Interactions.from_file([tmp_path / "1.csv", tmp_path / "2.csv"]).history_ids("u") == [1, 2]


def test_times_and_orders_can_be_left_out() -> None:
    frame = invoices()
    data = Interactions.from_frame(frame, time="", order="")
    assert data.times is None
    assert data.orders is None
    assert Source(order_column="").order_column == ""


def test_frames_keep_times_before_1970() -> None:
    moment = datetime(1969, 7, 20, tzinfo=UTC)
    data = Interactions.from_frame(pl.DataFrame({"user": ["u"], "item": ["i"], "time": [moment]}))
    assert data.times is not None
    assert data.times.tolist() == [moment.timestamp()]


def test_the_index_of_a_pandas_frame_is_a_column() -> None:
    frame = pd.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "a"], "timestamp": [3, 2, 1]})
    plain = Interactions.from_frame(frame)
    indexed = Interactions.from_frame(frame.set_index("timestamp"))
    assert (indexed.digest, indexed.notes) == (plain.digest, plain.notes)
    assert Interactions.from_frame(frame.set_index(["user", "timestamp"])).digest == plain.digest
    assert Interactions.from_frame(frame.set_index("timestamp", drop=False)).digest == plain.digest
    days = frame.set_index(pd.to_datetime(frame.pop("timestamp"), unit="s").rename(None))
    assert "'index' may be a time and is not used: if it is, give `time`" in Interactions.from_frame(days).notes
    assert Interactions.from_frame(days, time="index").digest == plain.digest
    other = days.rename_axis("user")
    with pytest.raises(InputError, match="the frame has 'user' as a column and in its index: rename or drop one"):
        Interactions.from_frame(other)
    filtered = frame.assign(timestamp=[3, 2, 1])[1:]  # an index of row numbers means nothing
    assert Interactions.from_frame(filtered).digest == Interactions.from_frame(filtered.reset_index(drop=True)).digest


def test_numbers_can_be_names_of_columns() -> None:
    frame = pd.DataFrame([["u", "a", 2], ["u", "b", 1]])
    data = Interactions.from_frame(frame, user=0, item=1, time=2)
    assert data.history_ids("u") == ["b", "a"]
    with pytest.raises(InputError, match="no column 'user' and no column 'item', only 0, 1, 2: give `user` and `item`"):
        Interactions.from_frame(frame)


def test_of_a_folder_or_an_archive_no_file_with_the_same_columns_is_left_out(tmp_path: Path) -> None:
    header, folder = "userId,movieId,rating,timestamp\n", tmp_path / "d"
    folder.mkdir()
    (folder / "ratings.csv").write_text(f"{header}1,10,5,100\n1,11,5,200\n")
    (folder / "tags.csv").write_text("userId,movieId,tag,timestamp\n1,10,dull,300\n")
    (folder / "README.txt").write_text("About the data.\n")
    left_out = f"of the folder {folder} only ratings.csv is read"
    data = Interactions.from_file(folder)
    assert (len(data), data.notes[0]) == (2, left_out)
    report = prepare(PrepareConfig(events=(str(folder),)), str(tmp_path / "out"))
    assert (report.counts["events"], report.notes[0]) == (2, left_out)
    archive = tmp_path / "d.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("ratings.csv", "tags.csv", "README.txt"):
            file.write(folder / name, name)
    zipped = Interactions.from_file(archive)
    assert (len(zipped), zipped.notes[0]) == (2, f"of the archive {archive} only ratings.csv is read")

    (folder / "more.csv").write_text(f"{header}2,10,5,100\n2,11,5,200\n")
    both = Interactions.from_file(folder)
    assert (len(both), both.notes[0]) == (4, f"of the folder {folder} only more.csv and ratings.csv are read")
    with zipfile.ZipFile(archive, "a") as file:
        file.write(folder / "more.csv", "more.csv")
    with pytest.raises(InputError, match=r"holds 4 files \(ratings.csv, tags.csv, README.txt, more.csv\): unpack it"):
        Interactions.from_file(archive)


def test_a_pattern_means_every_file_that_matches(tmp_path: Path) -> None:
    for name, user in (("ratings.csv", 1), ("more.csv", 2)):
        (tmp_path / name).write_text(f"user,item\n{user},10\n{user},11\n")
    data = Interactions.from_file(f"{tmp_path}/*.csv")
    assert (len(data), data.notes) == (4, ())


@pytest.mark.parametrize(
    "name", ["signup_date", "registration_date", "ship_date", "due_date", "expiry_date", "publication_date", "SENT_AT"]
)
def test_a_date_of_something_else_is_mentioned_and_not_taken(name: str) -> None:
    frame = pl.DataFrame({"user": ["u", "u"], "item": ["a", "b"], name: ["2024-05-13", "2024-05-12"]})
    data = Interactions.from_frame(frame)
    assert not data.ordered
    assert data.notes == (f"{name!r} may be a time and is not used: if it is, give `time`",)
    assert Interactions.from_frame(frame, time=name).history_ids("u") == ["b", "a"]


@pytest.mark.parametrize("name", ["listened_at", "LISTENED_AT", "listenedAt", "order_date"])
def test_the_time_of_a_deed_is_taken_however_it_is_spelled(name: str) -> None:
    frame = pl.DataFrame({"user": ["u", "u"], "item": ["a", "b"], name: ["2024-05-13", "2024-05-12"]})
    assert Interactions.from_frame(frame).notes == (f"the column {name!r} is taken for the time",)


@pytest.mark.parametrize("name", ["DAY", "t", "order_number", "session_no", "week_no"])
def test_a_counter_is_mentioned(name: str) -> None:
    frame = pl.DataFrame({"user": ["u", "u"], "item": ["a", "b"], "order_id": [8, 9], name: [711, 3]})
    data = Interactions.from_frame(frame)
    assert f"{name!r} may be an order of events and is not used: if it is, give `time`" in data.notes
    assert Interactions.from_frame(frame, time=name).history_ids("u") == ["b", "a"]


def test_a_file_with_the_name_of_a_known_data_set_may_be_something_else(tmp_path: Path) -> None:
    path = tmp_path / "ratings_Shop.csv"
    path.write_text("user_id,item_id,rating,timestamp\nu,a,5,200\nu,b,5,100\n")
    data = Interactions.from_file(path)
    assert data.history_ids("u") == ["b", "a"]
    assert not any("amazon-ratings" in note for note in data.notes)
    path.write_text("u,a,5,200\nu,b,5,100\n")
    assumed = "the file is read as amazon-ratings, by its name: give `format='csv'` if it is something else"
    assert assumed in Interactions.from_file(path).notes
    path.write_text("u,a,5,yesterday\nu,b,5,100\n")
    with pytest.raises(InputError, match=re.escape(f"({assumed})")):
        Interactions.from_file(path)
    reviews = tmp_path / "reviews_Shop.json"
    reviews.write_text('{"user": "u", "item": "a"}\n')
    assert len(Interactions.from_file(reviews)) == 1


def test_messages_about_frames_name_the_arguments_of_python() -> None:
    frame = pl.DataFrame({"user": ["u"], "item": ["a"], "time": [1]})
    for wrong in ("foo", "file"):
        with pytest.raises(ConfigError, match=f"`ties` is '{wrong}': give one of shuffle, given"):
            Interactions.from_frame(frame, ties=wrong)
    with pytest.raises(ConfigError, match="but `time` is given: leave one out, or use `ties='given'`"):
        Interactions.from_frame(frame, time="time", ordered=True)
    with pytest.raises(ConfigError, match="there is no option of from_frame 'usr': did you mean 'user'"):
        Interactions.from_frame(frame, usr="user")


def test_row_numbers_and_a_column_called_order_are_mentioned() -> None:
    frame = pl.DataFrame({"Unnamed: 0": [0, 1], "user": ["u", "u"], "item": ["a", "b"], "order": [2, 1]})
    assert Interactions.from_frame(frame).notes == (
        "the column 'order' is taken for the order",
        "the column 'Unnamed: 0' is not used: pandas gives this name to row numbers that were saved with a frame",
    )
