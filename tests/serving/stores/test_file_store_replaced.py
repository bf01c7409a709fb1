"""What the embedded store does when its database is moved, replaced or damaged while it is open."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.file_store import FileStore
from lorentzrec.serving.stores.histories import Event, StoredEvent
from tests.serving.stores.next_release import add_step
from tests.serving.stores.raises_fault import raises_fault

TEA, CUP = Event("ann", "tea", 1, "1"), Event("ann", "cup", 2, "2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[FileStore]:
    with closing(FileStore(folder, create=True)) as opened:
        yield opened


@pytest.fixture
def copy(store: FileStore, folder: Path, tmp_path: Path) -> Path:
    """A sound copy of the empty store."""
    FileStore(tmp_path / "copy", create=True).close()
    return tmp_path / "copy"


def test_a_write_goes_to_the_database_that_has_the_name(store: FileStore, folder: Path, copy: Path) -> None:
    store.add_events([TEA])
    folder.rename(folder.with_name("before"))
    copy.rename(folder)
    assert store.add_events([CUP]).accepted == 1
    assert store.history("ann") == [StoredEvent("cup", 2.0)]
    assert "was replaced by another one" in store.notices[0]
    with closing(FileStore(folder.with_name("before"))) as before:
        assert before.history("ann") == [StoredEvent("tea", 1.0)]


def test_a_link_that_leads_elsewhere_now(tmp_path: Path, store: FileStore, copy: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "store")
    with closing(FileStore(link)) as linked:
        linked.add_events([TEA])
        link.unlink()
        link.symlink_to(copy)
        linked.add_events([CUP])
        assert linked.history("ann") == [StoredEvent("cup", 2.0)]
    assert store.history("ann") == [StoredEvent("tea", 1.0)]


def test_a_write_is_not_acknowledged_if_the_folder_went_away_meanwhile(
    store: FileStore, folder: Path, copy: Path
) -> None:
    away = folder.with_name("away")

    def move_away() -> None:
        with store._connections.transaction() as connection:
            columns = "user_id, event_id, item_id, time, weight"
            connection.execute(f"INSERT INTO events ({columns}) VALUES ('ann', '1', 'tea', 1, 1)")
            folder.rename(away)

    def put_back() -> None:
        with store._connections.transaction():
            folder.rename(copy)
            away.rename(folder)

    with raises_fault(StoreFault.FILE_GONE):
        move_away()
    copy.rename(folder)
    with raises_fault(StoreFault.MOVED):
        put_back()
    # What was written without an acknowledgement came back with the folder.
    assert store.add_events([TEA]).duplicates == 1


def test_a_log_of_the_database_before_is_refused(store: FileStore, folder: Path, copy: Path) -> None:
    store.add_events([TEA])
    (copy / "store.sqlite").rename(folder / "store.sqlite")  # store.sqlite-wal stays
    for _ in range(2):
        for call in (store.state, lambda: store.add_events([CUP])):
            with raises_fault(StoreFault.LOG_LEFT_BEHIND, "remove store.sqlite-wal"):
                call()
    for suffix in ("wal", "shm"):
        (folder / f"store.sqlite-{suffix}").unlink()
    assert store.add_events([CUP]).accepted == 1
    assert store.history("ann") == [StoredEvent("cup", 2.0)]


def test_a_log_that_was_removed_takes_no_more(store: FileStore, folder: Path) -> None:
    store.add_events([TEA])
    (folder / "store.sqlite-wal").unlink()
    with raises_fault(StoreFault.LOG_REMOVED, "store.sqlite-wal"):
        store.add_events([CUP])
    assert store.history("ann") == [StoredEvent("tea", 1.0)]
    store.close()  # as the message has it
    with closing(FileStore(folder)) as again:
        assert again.history("ann") == [StoredEvent("tea", 1.0)]


def test_an_older_copy_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tmp_path / "older"
    FileStore(older, create=True).close()
    add_step("file:", monkeypatch)
    with closing(FileStore(folder, create=True)) as store:
        folder.rename(tmp_path / "newer")
        older.rename(folder)
        with raises_fault(StoreFault.OLDER, f"run lorentzrec store migrate file:{folder}"):
            store.history("ann")


def test_a_newer_copy_is_the_fault_of_the_store(store: FileStore, folder: Path, copy: Path) -> None:
    with closing(sqlite3.connect(copy / "store.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")
    shutil.rmtree(folder)
    copy.rename(folder)
    with raises_fault(StoreFault.NEWER):
        store.history("ann")


def test_text_that_is_not_utf_8_concerns_one_customer(store: FileStore, folder: Path) -> None:
    store.add_events([TEA, Event("bob", "cup", 1, "1")])
    with closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as other:
        other.execute("UPDATE events SET item_id = CAST(x'ff41ff' AS TEXT) WHERE user_id = 'ann'")
    with raises_fault(StoreFault.HISTORY_DAMAGED) as damaged:
        store.history("ann")
    assert "A" not in str(damaged.value)
    assert store.history("bob") == [StoredEvent("cup", 1.0)]
    assert store.forget("ann") == 1
    assert store.history("ann") == []


def test_damage_is_found_when_a_store_is_opened(store: FileStore, folder: Path) -> None:
    store.add_events([Event(f"u{n}", "tea", n, "1") for n in range(2000)])
    assert store.notices == []
    store.close()
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events_in_order'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with (folder / "store.sqlite").open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\x00" * size)
    with closing(FileStore(folder)) as opened:
        assert opened.notices == ["the database of the store is damaged, see the log of the service: restore a backup"]
        with raises_fault(StoreFault.HISTORY_DAMAGED):
            opened.history("u1")
        assert opened.state().live_revision == 0
