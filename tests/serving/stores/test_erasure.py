"""What is left of a customer on disk, and who may read it."""

from __future__ import annotations

import random
import re
import shlex
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from lorentzrec.model.artifact import save_model
from lorentzrec.serving.stores import file_store
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.file_store import BYTES_REMAIN, FileStore
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.ids import make_key
from lorentzrec.synthetic.shop import synthetic_shop
from tests.cli.command_line import run
from tests.saved_datasets import save_dataset
from tests.serving.small_shop import shop_model

ERIKA = "erika-mustermann-4711"


def crowd(*, erika: int, others: int = 6000) -> list[Event]:
    """Events of many customers in no order, so that rows move between pages again and again."""
    draw = random.Random(4)
    names = [f"erika-{number:03d}." + "x" * draw.randrange(30) for number in range(200)]
    users = [ERIKA] * erika + draw.choices(names, k=others)
    events = [
        Event(user, f"item{draw.randrange(10**6)}", draw.random(), f"visit-{user}-{number}")
        for number, user in enumerate(users)
    ]
    draw.shuffle(events)
    return events


def occurrences(folder: Path, text: str) -> int:
    return sum(file.read_bytes().count(text.encode()) for file in folder.glob("store.sqlite*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_no_byte_of_an_erased_customer_is_left(folder: Path) -> None:
    with closing(FileStore(folder, create=True)) as store, closing(FileStore(folder)) as reader:
        events = crowd(erika=40)
        for start in range(0, len(events), 40):
            store.add_events(events[start : start + 40])
        assert len(reader.history(ERIKA)) == 40
        assert occurrences(folder, ERIKA) > 40
        assert store.forget(ERIKA) == 40
        assert occurrences(folder, ERIKA) == 0
        assert occurrences(folder, make_key(ERIKA)) == 0
        assert store.notices == []
        assert reader.history(ERIKA) == []
        assert sum(len(reader.history(user)) for user in {event.user for event in events}) == 6000
        # Of some customers, rows have moved to another page and left a copy behind.
        for user in sorted({event.user for event in events})[:50]:
            assert (store.forget(user) > 0) == (user != ERIKA)
            assert occurrences(folder, user[:10]) == 0


def test_no_byte_of_a_customer_of_new_items_is_left(folder: Path) -> None:
    with closing(FileStore(folder, create=True)) as store:
        store.add_events([Event(ERIKA, f"new{number}", number, str(number)) for number in range(50)])
        store.note_customers({f"new{number}": [ERIKA] for number in range(50)}, limit=100)
        assert len(store.new_items()) == 50
        store.forget(ERIKA)
        assert store.new_items() == []
        assert occurrences(folder, ERIKA) == 0


def test_bytes_that_were_left_are_removed_when_the_store_is_opened(folder: Path) -> None:
    """By a crash in the middle of an erasure, or by an SQLite that does not overwrite what it deletes."""
    FileStore(folder, create=True).close()
    with closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        rows = [(event.user, event.id, event.item, event.time, 1.0) for event in crowd(erika=200)]
        connection.execute("BEGIN")
        insert = "INSERT INTO events (user_id, event_id, item_id, time, weight) VALUES (?, ?, ?, ?, ?)"
        connection.executemany(insert, rows)
        connection.execute("COMMIT")
        connection.execute("DELETE FROM events WHERE user_id = ?", (ERIKA,))
        connection.execute("INSERT INTO erasures VALUES ('0123', 5.0)")
    assert occurrences(folder, ERIKA) > 0
    with closing(FileStore(folder)) as store:
        assert store.notices == [BYTES_REMAIN]
        store.state()
        assert occurrences(folder, ERIKA) == 0
        assert store.notices == []


def test_a_reader_that_is_in_the_way_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "ERASURE_SECONDS", 0.1)
    with (
        closing(FileStore(folder, create=True)) as store,
        closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as reader,
    ):
        store.add_events(crowd(erika=10, others=10))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        assert store.forget(ERIKA) == 10
        assert store.history(ERIKA) == []
        assert store.notices == [BYTES_REMAIN]
        log = (folder / "store.sqlite-wal").stat().st_size
        for _ in range(3):
            store.state()
        assert store.notices == [BYTES_REMAIN]
        assert (folder / "store.sqlite-wal").stat().st_size == log, "no retry adds to what could not be removed"
        reader.execute("COMMIT")
        store.state()
        assert store.notices == []
        assert occurrences(folder, ERIKA) == 0


def test_a_large_store_is_not_rewritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_store, "COMPACT_BYTES", 0)
    with closing(FileStore(folder, create=True)) as store:
        store.add_events([Event(ERIKA, "tea", 1, "1")])
        assert store.forget(ERIKA) == 1
        assert (folder / "store.sqlite-wal").stat().st_size == 0
        assert occurrences(folder, ERIKA) == 0  # one row has never moved
        assert "run VACUUM" in caplog.text
        assert store.notices == []


def test_keys_of_the_erased_differ_between_stores(tmp_path: Path) -> None:
    keys = []
    for name in ("one", "two"):
        with closing(FileStore(tmp_path / name, create=True)) as store:
            store.forget(ERIKA)
        with closing(sqlite3.connect(tmp_path / name / "store.sqlite")) as connection:
            keys += connection.execute("SELECT user_key FROM erasures").fetchall()
    assert len(set(keys)) == 2
    assert (make_key(ERIKA),) not in keys


def test_files_of_customers_are_for_their_owner_alone(folder: Path, tmp_path: Path) -> None:
    with closing(FileStore(folder, create=True)) as store:
        store.add_events([Event("ann", "tea", 1, "1")])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("store.sqlite*")}
    assert modes == dict.fromkeys(("store.sqlite", "store.sqlite-wal", "store.sqlite-shm"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    save_model(shop_model(), tmp_path / "model")
    for name in ("histories.safetensors", "users.parquet"):
        assert stat.S_IMODE((tmp_path / "model" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "model" / "points.safetensors").stat().st_mode) != 0o600
    histories = shop_model().histories
    assert histories is not None
    save_dataset(histories, tmp_path / "dataset")
    assert stat.S_IMODE((tmp_path / "dataset").stat().st_mode) == 0o700


def test_the_documented_way_to_remove_a_customer_everywhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shop = synthetic_shop(customers=100, items=60, interactions=800)
    events = shop.events.with_columns(user=pl.lit("u") + pl.col("user").cast(pl.String))
    events.vstack(events.head(12).with_columns(user=pl.lit("ann"))).write_csv("events.csv")
    shop.items.write_csv("items.csv")
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    (block,) = re.findall(r"^```sh\n(python -c .*?)^```$", page, re.MULTILINE | re.DOTALL)
    with_ann, without_ann = block.splitlines()[1:], block.splitlines()
    for lines, known in ((with_ann, True), (without_ann, False)):
        if not known:
            with closing(open_store("file:store")) as store:
                assert store.forget("ann") > 0
        for line in lines:
            program, *arguments = shlex.split(line)
            if program == "lorentzrec":
                quick = ["--set", "epochs=1", "--set", "dimension=4"] if arguments[0] == "train" else []
                run(*arguments, *quick)
            else:
                subprocess.run([sys.executable, *arguments], check=True)
        for folder in ("shop", "model"):
            assert ("ann" in pl.read_parquet(tmp_path / folder / "users.parquet")["id"]) == known
        with closing(open_store("file:store")) as store:
            assert (store.history("ann") != []) == known
