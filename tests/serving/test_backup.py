"""Backups: complete, of every kind of store into every kind, and nothing half-done after a kill."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Any

import polars as pl
import pytest

from lorentzrec.base.atomic import MARKER
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.address import open_any_store, open_store
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.upkeep import backup as backups
from lorentzrec.serving.upkeep.backup import restore_backup, write_backup
from tests.interruptible_processes import environment
from tests.serving.running_service import PATIENCE, published, service_process
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import content_of, write_version

HELD = Path(__file__).with_name("held_command.py")
EVENTS = [Event(f"u{n % 7}", f"i{n}", n / 4, f"e{n}", 1 + n % 3) for n in range(60)]


def fill(store: Store, folder: Path) -> None:
    """A store with something of everything; version a1 was rolled back and a3 was removed."""
    for name in ("a1", "a2", "a3", "a4"):
        store.upload(write_version(folder, name, {"a.bin": name.encode() * 1000}))
        store.activate(name, f"for {name}")
    store.roll_back("a2", "bad", instead_of="a4")
    store.discard("a3")
    store.upload(write_version(folder, "b1"))  # never live
    store.add_events(EVENTS)
    store.add_events([Event("gone", "i1", 5, "x")])
    store.forget("gone")
    store.change_live_items(remove=["i3", "i4"])
    store.describe_item(NewItem("new", title="New", attributes={"brand": "b"}), limit=10)
    store.note_customers({"i5": ["u5"]}, limit=10)


def everything(store: Store, folder: Path) -> dict[str, Any]:
    with store.snapshot() as snapshot:
        pages = list(snapshot.events)
        events = sorted((*row,) for page in pages for row in zip(*page, strict=True))
        return {
            "log": snapshot.activations,
            "live": snapshot.live,
            "new": sorted(snapshot.new_items, key=lambda item: item.id),
            "salt": snapshot.salt,
            "erasures": snapshot.erasures,
            "events": events,
            "versions": {name: content_of(store.fetch(name, folder)) for name in store.versions()},
            "current": store.state().version,
        }


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A backup of a file store, and what it must have."""
    with closing(open_store(f"file:{tmp_path / 'original'}", create=True)) as store:
        fill(store, tmp_path / "sources")
        store.discard("b1")
        write_backup(store, tmp_path / "backup")
        return tmp_path / "backup", everything(store, tmp_path / "fetched")


def test_from_any_kind_of_store_to_a_file_and_back(
    any_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "PART_EVENTS", 20)
    monkeypatch.setattr("lorentzrec.serving.stores.sql_store.PAGE_EVENTS", 8)
    with closing(open_store(any_url, create=True)) as store:
        fill(store, tmp_path / "sources")
        written = write_backup(store, tmp_path / "backup")
        store.discard("b1")  # it was never live, so no backup has it
        before = everything(store, tmp_path / "fetched")
    assert written.left_out == {}
    assert written.manifest["versions"] == ["a1", "a2", "a4"]
    assert [written.manifest[name] for name in ("events", "erasures", "new_items")] == [60, 1, 2]
    assert len(list((tmp_path / "backup").glob("events-*"))) >= 3
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    target = f"file:{tmp_path / 'restored'}"
    restored = restore_backup(tmp_path / "backup", target)
    assert (restored.url, restored.version) == (target, "a2")
    with closing(open_store(target)) as store:
        assert everything(store, tmp_path / "fetched") == before
        # An erasure holds also in the other store.
        added = store.add_events([Event("gone", "i1", 5, "x")], respect_erasures=True)
        assert added.erased == {"gone"}


def test_into_any_kind_of_store(made: tuple[Path, dict[str, Any]], any_url: str, tmp_path: Path) -> None:
    folder, expected = made
    target = any_url.replace(str(tmp_path / "store"), str(tmp_path / "target"))
    restore_backup(folder, target)
    with closing(open_store(target)) as store:
        assert everything(store, tmp_path / "restored") == expected
        added = store.add_events([Event("gone", "i1", 5, "x")], respect_erasures=True)
        assert added.erased == {"gone"}
    with raises_fault(StoreFault.NOT_EMPTY, "versions, a log of activations, events, live items, new items, erasures"):
        restore_backup(folder, target)


@contextmanager
def killed(*arguments: str | Path) -> Iterator[None]:
    """`held_command.py` at its stage; it is killed at the end of the block."""
    command = [sys.executable, str(HELD), *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "now\n"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("stage", ["copying version a2", "copying events", "copying live", "computing checksums"])
def test_a_backup_that_is_killed(stage: str, any_url: str, tmp_path: Path) -> None:
    with closing(open_store(any_url, create=True)) as store:
        fill(store, tmp_path / "sources")
        with killed("backup", any_url, tmp_path / "backup", stage):
            store.add_events([Event("during", "i1", 1, "d")])
        assert not (tmp_path / "backup").exists()
        (rest,) = tmp_path.glob(".backup*")
        assert not (rest / MARKER).exists()
        with pytest.raises(ArtifactError):
            restore_backup(rest, f"file:{tmp_path / 'restored'}")
        assert not (tmp_path / "restored").exists()
        write_backup(store, tmp_path / "backup")
    assert list(tmp_path.glob(".backup*")) == []
    restore_backup(tmp_path / "backup", f"file:{tmp_path / 'restored'}")
    with closing(open_store(f"file:{tmp_path / 'restored'}")) as store:
        assert len(store.history("during")) == 1


def test_an_older_backup_stays_when_its_successor_is_killed(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = made
    before = (folder / MARKER).read_bytes()
    with killed("backup", f"file:{tmp_path / 'original'}", folder, "computing"):
        pass
    assert (folder / MARKER).read_bytes() == before
    backups.read_backup(folder)


@pytest.mark.parametrize("stage", ["restoring version a2", "restoring events", "restoring live", "restoring erasures"])
def test_a_restore_that_is_killed(stage: str, made: tuple[Path, dict[str, Any]], any_url: str, tmp_path: Path) -> None:
    """The store is not taken for one that is in use, and the same restore completes it."""
    folder, expected = made
    target = any_url.replace(str(tmp_path / "store"), str(tmp_path / "target"))
    with killed("restore", folder, target, stage):
        pass
    for create in (False, True):
        with raises_fault(StoreFault.RESTORING):
            open_store(target, create=create)
    with closing(open_store(f"file:{tmp_path / 'original'}")) as store:
        store.add_events([Event("other", "i1", 1, "o")])
        write_backup(store, tmp_path / "other")
    with raises_fault(StoreFault.RESTORING):
        restore_backup(tmp_path / "other", target)
    restore_backup(folder, target)
    with closing(open_store(target)) as store:
        assert everything(store, tmp_path / "restored") == expected


def test_only_one_restore_gets_an_empty_store(any_url: str) -> None:
    with closing(open_any_store(any_url, create=True)) as one, closing(open_any_store(any_url)) as other:
        one.begin_restore("a", lambda: None)
        with raises_fault(StoreFault.RESTORING):
            other.begin_restore("b", lambda: None)
        with raises_fault(StoreFault.RESTORE_ENDED):
            other.end_restore("b", None, [], [])
        assert one.find_restore() == "a"
        one.end_restore("a", None, [], [])
        one.add_events(EVENTS)
        with raises_fault(StoreFault.NOT_EMPTY, "events"):
            other.begin_restore("b", lambda: backups._refuse_content(other))
        assert one.find_restore() is None


@pytest.mark.parametrize("stage", ["restoring version a2", "restoring events", "restoring live", "restoring erasures"])
def test_a_restore_that_another_run_ends(
    stage: str, made: tuple[Path, dict[str, Any]], any_url: str, tmp_path: Path
) -> None:
    """The store is in use from then on, so the slower run does not change it any more."""
    folder, _ = made
    target = any_url.replace(str(tmp_path / "store"), str(tmp_path / "target"))
    kept = list[dict[str, Any]]()

    def use_store(reached: str, _: float) -> None:
        if reached.startswith(stage) and not kept:
            restore_backup(folder, target)
            with closing(open_store(target)) as store:
                store.forget("u1")
                store.set_live_items(["i1"])
                store.activate("a4")
                kept.append(everything(store, tmp_path / "fetched"))

    with raises_fault(StoreFault.RESTORE_ENDED):
        restore_backup(folder, target, use_store)
    with closing(open_store(target)) as store:
        assert [everything(store, tmp_path / "fetched")] == kept


@pytest.mark.parametrize("file", ["state.json", "events-00000.parquet", "versions/a2/a.bin", MARKER])
def test_a_damaged_backup_is_refused(file: str, made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = made
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[:-10] + bytes([content[-10] ^ 1]) + content[-9:])
    with pytest.raises(ArtifactError, match=f"{file} is damaged"):
        restore_backup(folder, f"file:{tmp_path / 'restored'}")
    assert not (tmp_path / "restored").exists()


def test_damaged_versions_are_left_out_and_named(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'original'}")) as store:
        (tmp_path / "original" / "versions" / "a2" / "a.bin").write_bytes(b"x")
        written = write_backup(store, tmp_path / "second")
    assert list(written.left_out) == ["a2"]
    assert "a.bin is damaged or missing" in written.left_out["a2"]
    restored = restore_backup(tmp_path / "second", f"file:{tmp_path / 'restored'}")
    assert restored.version == "a1", "the version that was live before the current one"
    with closing(open_store(restored.url)) as store:
        last = store.activations()[-1]
        assert last == Activation("a1", last.time, "restored: a2 is not in the backup")


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may have more than 64 KiB: writes fail as they do on a full disk, with another number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_not_a_damaged_version(any_url: str, tmp_path: Path) -> None:
    """There is no backup at all, rather than one without the version."""
    with closing(open_store(any_url, create=True)) as store:
        store.upload(write_version(tmp_path, "a1", {"a.bin": bytes(2**17)}))
        store.activate("a1")
        with full_disk(), pytest.raises(InputError, match="File too large; make room or choose another disk"):
            write_backup(store, tmp_path / "backup")
        assert not (tmp_path / "backup").exists()
        assert write_backup(store, tmp_path / "backup").manifest["versions"] == ["a1"]


def test_a_version_that_is_published_or_removed_meanwhile(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        for name in ("a1", "a2"):
            store.upload(write_version(tmp_path, name))
            store.activate(name)

        def interfere(stage: str, _: float) -> None:
            if stage == "copying version a1" and "a3" not in store.versions():
                store.upload(write_version(tmp_path, "a3"))
                store.activate("a3")
                store.discard("a1")
                store.discard("a2")

        written = write_backup(store, tmp_path / "backup", interfere)
    assert written.manifest["versions"] == ["a3"]
    assert sorted(path.name for path in (tmp_path / "backup" / "versions").iterdir()) == ["a3"]
    assert restore_backup(tmp_path / "backup", f"file:{tmp_path / 'restored'}").version == "a3"


def test_an_empty_store(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        write_backup(store, tmp_path / "backup")
    restored = restore_backup(tmp_path / "backup", f"file:{tmp_path / 'restored'}")
    with closing(open_store(restored.url)) as store:
        assert (store.state().version, store.live_items()) == (None, LiveItems())


def test_every_acknowledged_event_is_in_a_backup_of_a_service_in_use(any_url: str, tmp_path: Path) -> None:
    """Writers send events all the time; what was acknowledged before the backup began is in it. In each stage of the
    backup, a further event is acknowledged."""
    acknowledged: list[tuple[str, str]] = []
    over, waiting, stages = Signal(), Signal(), set[str]()
    with closing(open_store(any_url, create=True)) as store:
        published(store, tmp_path)
        options = ("--workers", "2", "--cache", str(tmp_path / "cache"))
        with service_process(any_url, tmp_path, *options) as service:

            def write(writer: int) -> None:
                for number in range(1_000_000):
                    if over.is_set():
                        return
                    user, id = f"w{writer}-{number % 5}", f"{writer}-{number}"
                    event = {"user": user, "item": "i1", "time": number + 1, "id": id}
                    if service.http.post("/v1/events", json=event).status_code == 200:
                        acknowledged.append((user, id))

            writers = [Thread(target=write, args=(writer,)) for writer in range(3)]

            def wait_for(count: int) -> None:
                while len(acknowledged) < count:
                    assert any(writer.is_alive() for writer in writers)
                    waiting.wait(0.01)

            def wait_for_another(stage: str, _: float) -> None:
                if stage not in stages:
                    stages.add(stage)
                    wait_for(len(acknowledged) + 1)

            for writer in writers:
                writer.start()
            try:
                wait_for(60)
                before = list(acknowledged)
                write_backup(store, tmp_path / "backup", wait_for_another)
            finally:
                over.set()
                for writer in writers:
                    writer.join(PATIENCE)
    assert len(stages) > 1
    frames = [pl.read_parquet(path) for path in (tmp_path / "backup").glob("events-*.parquet")]
    found = set(pl.concat(frames).select("user", "id").iter_rows())
    assert set(before) <= found <= set(acknowledged)
    restored = restore_backup(tmp_path / "backup", f"file:{tmp_path / 'restored'}")
    with closing(open_store(restored.url)) as store:
        assert store.measure().events == len(found)
    assert json.loads((tmp_path / "backup" / MARKER).read_text())["events"] == len(found)
