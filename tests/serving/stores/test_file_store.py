"""The embedded store between processes, and the errors for folders that are not as it left them."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Thread

import pytest

from lorentzrec.base.library_faults import sqlite_code
from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.file_store import FileStore
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State
from tests.serving.running_service import PATIENCE
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import content_of, write_version

WRITER = """
import sys
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event

url, process, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url, create=True)
print("ready", flush=True)
sys.stdin.readline()
for n in range(rounds):
    added = store.add_events([Event("shared", f"i{n}", n, f"e{n}"), Event(process, f"i{n}", n, f"e{n}")])
    print(n, added.accepted, flush=True)
"""

UPLOADER = """
import sys, time
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Thread
from lorentzrec.serving.stores.address import open_store

def halfway(size):
    print(size, flush=True)
    time.sleep(60)

open_store(sys.argv[1]).upload(Path(sys.argv[2]), halfway)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"


def started(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_lose_and_double_nothing(url: str) -> None:
    writers = [started(WRITER, url, f"process{number}", 100) for number in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    accepted = 0
    for writer in writers:  # communicate() waits for one, so all are started before
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        lines = writer.communicate(timeout=300)[0].splitlines()
        assert writer.returncode == 0
        assert len(lines) == 100
        accepted += sum(int(line.split()[1]) for line in lines)
    assert accepted == 3 * 100 + 100
    with closing(open_store(url)) as store:
        for user in ("shared", "process0", "process1", "process2"):
            assert [event.item for event in store.history(user)] == [f"i{n}" for n in range(100)]


def test_what_was_acknowledged_survives_a_kill(url: str) -> None:
    writer = started(WRITER, url, "mine", 1_000_000)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "ready\n"
    acknowledged = [writer.stdout.readline() for _ in range(30)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += writer.stdout.readlines()  # communicate() would not see what the reader has in hand already
    writer.communicate()
    whole = [line for line in acknowledged if len(line.split()) == 2]
    with closing(open_store(url)) as store:
        stored = [event.item for event in store.history("mine", limit=1_000_000)]
        # The last one may be there without its acknowledgement, and half a batch never is.
        assert stored == [f"i{n}" for n in range(len(stored))]
        assert len(whole) <= len(stored) <= len(whole) + 1
        assert len(store.history("shared", limit=1_000_000)) == len(stored)


def test_a_kill_in_the_middle_of_an_upload(url: str, tmp_path: Path) -> None:
    first, second = write_version(tmp_path, "a1"), write_version(tmp_path, "b2", {"a.bin": b"a" * 100, "b.bin": b"b"})
    with closing(open_store(url, create=True)) as store:
        store.upload(first)
        store.activate("a1")
        uploader = started(UPLOADER, url, second)
        assert uploader.stdout is not None
        assert uploader.stdout.readline() == "100\n"
        uploader.kill()
        uploader.communicate()
        place = tmp_path / "store" / "versions" / "b2"
        (place / ".b.partial-0123abcd.bin").write_bytes(b"what a kill in the middle of a file leaves")
        assert store.versions() == ["a1"]
        assert content_of(store.fetch(str(store.state().version), tmp_path)) == content_of(first)
        untouched = (place / "a.bin").stat().st_mtime_ns
        store.upload(second)
        assert (place / "a.bin").stat().st_mtime_ns == untouched
        assert store.versions() == ["b2", "a1"]
        store.activate("b2")
        assert store.clean() == 1
        assert content_of(store.fetch("b2", tmp_path)) == content_of(second)


def test_damaged_files_are_repaired_by_the_same_upload(url: str, tmp_path: Path) -> None:
    folder = write_version(tmp_path, "a1")
    with closing(open_store(url, create=True)) as store:
        store.upload(folder)
        place = store.fetch("a1", tmp_path)
        (place / "index.bin").write_bytes(b"?")
        with raises_fault(StoreFault.VERSION_DAMAGED, "index.bin"):
            store.fetch("a1", tmp_path)
        store.upload(folder)
        assert content_of(store.fetch("a1", tmp_path)) == content_of(folder)


def test_places_where_no_store_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make a store in .*file"):
        open_store(f"file:{tmp_path / 'file'}", create=True)
    with raises_fault(StoreFault.NO_STORE):
        open_store(f"file:{tmp_path}")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"not a database, " * 100)
    with raises_fault(StoreFault.DAMAGED, "store.sqlite"):
        open_store(f"file:{tmp_path}")


def test_a_folder_that_vanished_keeps_nothing(url: str, tmp_path: Path) -> None:
    store: Store = open_store(url, create=True)
    store.add_events([Event("ann", "tea", 1, "1")])
    (tmp_path / "store").rename(tmp_path / "away")
    for call in (store.state, store.clean, store.live_items, lambda: store.add_events([Event("ann", "cup", 2, "2")])):
        with raises_fault(StoreFault.FILE_GONE, "store.sqlite"):
            call()
    with raises_fault(StoreFault.FILE_UNREADABLE, "versions"):
        store.versions()
    (tmp_path / "away").rename(tmp_path / "store")
    assert store.state() == State({}, 0)
    assert len(store.history("ann")) == 1
    store.close()


def test_another_process_that_holds_the_database(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lorentzrec.serving.stores import sqlite_connections

    monkeypatch.setattr(sqlite_connections, "BUSY_SECONDS", 0.1)
    with (
        closing(open_store(url, create=True)) as store,
        closing(sqlite3.connect(tmp_path / "store" / "store.sqlite", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with raises_fault(StoreFault.FILE_UNUSABLE, "database is locked"):
            store.add_events([Event("ann", "tea", 1, "1")])
        assert store.history("ann") == []  # reads continue
        other.execute("ROLLBACK")
        assert store.add_events([Event("ann", "tea", 1, "1")]).accepted == 1


def test_codes_of_errors_are_compared_without_their_details(url: str, tmp_path: Path) -> None:
    """A write in a transaction whose reads are outdated is busy, with a detail in the code."""
    open_store(url, create=True).close()
    path = tmp_path / "store" / "store.sqlite"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as late,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        late.execute("BEGIN")
        late.execute("SELECT * FROM state").fetchall()
        other.execute("UPDATE state SET live_revision = 1")
        with pytest.raises(sqlite3.OperationalError) as busy:
            late.execute("UPDATE state SET live_revision = 2")
    assert busy.value.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT
    assert sqlite_code(busy.value) == sqlite3.SQLITE_BUSY
    assert sqlite_code(sqlite3.ProgrammingError("of the module")) is None


def test_the_folder_can_be_moved_and_copied(url: str, tmp_path: Path) -> None:
    with closing(open_store(url, create=True)) as store:
        store.upload(write_version(tmp_path, "a1"))
        store.activate("a1")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    with closing(open_store(f"file://{tmp_path / 'copy'}")) as copy:
        assert copy.state().version == "a1"
        assert copy.fetch("a1", tmp_path) == tmp_path / "copy" / "versions" / "a1"


def test_connections_end_with_their_threads(url: str, tmp_path: Path) -> None:
    def count_open() -> int:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(link.readlink() == tmp_path / "store" / "store.sqlite" for link in links)

    with closing(open_store(url, create=True)) as store:
        for number in range(10):
            writer = Thread(target=store.add_events, args=([Event("ann", "tea", number, str(number))],))
            writer.start()
            writer.join()
        assert len(store.history("ann")) == 10
        assert count_open() < 5  # of this thread, of the last one, and what SQLite keeps for its locks
    assert count_open() == 0


def test_a_store_that_is_closed_ends_what_other_threads_do(url: str) -> None:
    store = FileStore(Path(url.removeprefix("file:")), create=True)
    reading, closed = ThreadEvent(), ThreadEvent()

    def read() -> list[str]:
        with store.snapshot() as snapshot:
            reading.set()
            closed.wait(PATIENCE)
            return [user for page in snapshot.events for user in page.users]

    store.add_events([Event("ann", "tea", 1, "1")])
    with ThreadPoolExecutor(1) as threads:
        users = threads.submit(read)
        assert reading.wait(PATIENCE)
        store.close()
        closed.set()
        assert users.result() == ["ann"], "what has begun is done"
    with raises_fault(StoreFault.CLOSED):
        store.history("ann")
