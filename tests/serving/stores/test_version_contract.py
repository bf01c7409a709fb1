"""What every store guarantees for published versions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.stores.activations import MAIN, Arm
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import SMALL, content_of, write_version

FIRST, SECOND, THIRD = "20261116T010203-aaaaaa", "20261116T020304-bbbbbb", "20261116T030405-cccccc"


class Cut(Exception):  # noqa: N818 - an interruption
    pass


def cut_after(size: int) -> Callable[[int], None]:
    """A progress bar that interrupts the upload after this many bytes."""
    done = 0

    def progress(more: int) -> None:
        nonlocal done
        done += more
        if done >= size:
            raise Cut

    return progress


def damage(store: Any, url: str, name: str) -> str:
    """Change one byte in the store's copy of a file, behind its back; the file's name."""
    file = "points.safetensors"
    if url.startswith("file:"):
        path = Path(url.removeprefix("file:")) / "versions" / name / file
        path.write_bytes(b"?" + path.read_bytes()[1:])
    elif url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE lorentzrec.version_chunks SET data = set_byte(data, 0, 63) WHERE file = %s", (file,)
            )
    else:
        (version,) = (one for one in store._catalogue.all("versions") if one["id"] == name)
        chunk = store._catalogue.read(f"files-{version['token']}", f"{file}-00000000")
        store._catalogue.put({**chunk, "data": "PzPz" + chunk["data"][4:]})
    return file


def test_from_upload_to_discard(store: Store, tmp_path: Path) -> None:
    for name in (FIRST, SECOND):
        store.upload(write_version(tmp_path, name, {**SMALL, "name.txt": name.encode()}))
    assert store.versions() == [SECOND, FIRST]
    assert store.state() == State({}, 0)
    store.activate(FIRST)
    store.activate(SECOND)
    assert store.state() == State({MAIN: Arm(SECOND)}, 0)
    for name in (FIRST, SECOND):
        fetched = store.fetch(name, tmp_path / "cache")
        assert content_of(fetched) == content_of(tmp_path / f"source-{name}")
        assert store.fetch(name, tmp_path / "cache") == fetched
        (tmp_path / f"file-{name}").mkdir()
        assert store.fetch_file(name, "name.txt", tmp_path / f"file-{name}").read_text() == name
        with raises_fault(StoreFault.VERSION_DAMAGED, "none.txt"):
            store.fetch_file(name, "none.txt", tmp_path / f"file-{name}")
    with raises_fault(StoreFault.CURRENT_VERSION, SECOND):
        store.discard(SECOND)
    store.discard(FIRST)
    assert store.versions() == [SECOND]
    assert store.clean() == 0
    for call in (store.activate, store.discard, lambda name: store.fetch(name, tmp_path / "cache")):
        with raises_fault(StoreFault.NO_VERSION, FIRST, SECOND):
            call(FIRST)
    assert store.state() == State({MAIN: Arm(SECOND)}, 0)
    store.upload(tmp_path / f"source-{FIRST}")
    store.activate(FIRST)
    assert store.state() == State({MAIN: Arm(FIRST)}, 0)


def test_the_switch_is_seen_by_others(store: Store, url: str, tmp_path: Path) -> None:
    store.upload(write_version(tmp_path, FIRST))
    with closing(open_store(url)) as other:
        assert other.versions() == [FIRST]
        store.activate(FIRST)
        assert other.state().version == FIRST


def test_progress_counts_every_byte(store: Store, tmp_path: Path) -> None:
    files = {"large.bin": bytes(range(256)) * 20_000, "small.bin": b"123"}  # 5.12 MB: several chunks of any store
    folder = write_version(tmp_path, FIRST, files)
    for _ in range(2):  # the second time everything is there already
        progress: list[int] = []
        store.upload(folder, progress.append)
        assert sum(progress) == 5_120_003
    assert content_of(store.fetch(FIRST, tmp_path / "cache")) == content_of(folder)


def test_an_interrupted_upload_is_invisible_and_resumes(store: Store, tmp_path: Path) -> None:
    store.upload(write_version(tmp_path, FIRST))
    store.activate(FIRST)
    folder = write_version(tmp_path, SECOND, {"a.bin": b"a" * 5_000_000, "b.bin": b"b" * 10})
    with pytest.raises(Cut):
        store.upload(folder, cut_after(5_000_000))
    assert store.versions() == [FIRST]
    assert store.state().version == FIRST
    with raises_fault(StoreFault.NO_VERSION):
        store.activate(SECOND)
    store.upload(folder)
    assert store.versions() == [SECOND, FIRST]
    assert content_of(store.fetch(SECOND, tmp_path / "cache")) == content_of(folder)
    store.activate(SECOND)
    assert store.clean() == 0


def test_leftovers_are_cleaned(store: Store, tmp_path: Path) -> None:
    folder = write_version(tmp_path, FIRST)
    with pytest.raises(Cut):
        store.upload(folder, cut_after(1))
    assert store.clean() == 1
    assert store.clean() == 0
    store.upload(folder)
    assert store.versions() == [FIRST]


def test_only_versions_that_were_activated_are_kept(store: Store, url: str, tmp_path: Path) -> None:
    for name in (FIRST, SECOND, THIRD):
        store.upload(write_version(tmp_path, name))
    store.activate(FIRST)
    store.activate(THIRD)
    store.roll_back(FIRST, instead_of=THIRD)
    with closing(open_store(url)) as other:
        assert other.clean() == 1
    assert store.versions() == [THIRD, FIRST], "one that was rolled back can still be activated by its name"


def test_a_version_is_discarded_whether_complete_or_not(store: Store, tmp_path: Path) -> None:
    store.upload(write_version(tmp_path, FIRST))
    folder = write_version(tmp_path, SECOND)
    with pytest.raises(Cut):
        store.upload(folder, cut_after(1))
    for name in (FIRST, SECOND):
        store.discard(name)
    assert (store.versions(), store.clean()) == ([], 0)


def test_nothing_is_cleaned_while_a_process_publishes(store: Store, url: str, tmp_path: Path) -> None:
    """Neither an upload under way nor one that is complete and not activated yet."""
    store.upload(write_version(tmp_path, FIRST))
    cleaned: list[int] = []
    with closing(open_store(url)) as other:
        with store.publishing():
            with other.publishing():  # any number may publish at once
                store.upload(write_version(tmp_path, SECOND), lambda _: cleaned.append(other.clean()))
            assert other.clean() == 0
        assert set(cleaned) == {0}
        assert store.versions() == [SECOND, FIRST]
        assert other.clean() == 2


def test_every_activation_is_in_the_log(store: Store, url: str, tmp_path: Path) -> None:
    for name in (FIRST, SECOND):
        store.upload(write_version(tmp_path, name))
    assert (store.activations(), store.standing_versions()) == ([], [])
    before = time.time()
    store.activate(FIRST, "published")
    store.activate(SECOND, "published: é, 'quoted' \\ and \"quoted\"")
    store.roll_back(FIRST, "empty lists", instead_of=SECOND)
    with closing(open_store(url)) as other:
        log = other.activations()
    assert [(entry.version, entry.reason, entry.rejected) for entry in log] == [
        (FIRST, "published", None),
        (SECOND, "published: é, 'quoted' \\ and \"quoted\"", None),
        (FIRST, "empty lists", SECOND),
    ]
    times = [entry.time for entry in log]
    assert before <= times[0] <= times[1] <= times[2] <= time.time()
    assert store.standing_versions() == [FIRST]
    store.discard(SECOND)
    assert store.activations() == log, "an entry stays when its version is removed"


def test_an_activation_that_expects_another_version_changes_nothing(store: Store, tmp_path: Path) -> None:
    for name in (FIRST, SECOND, THIRD):
        store.upload(write_version(tmp_path, name))
    store.activate(FIRST, instead_of=None)
    store.activate(SECOND, instead_of=FIRST)
    log = store.activations()
    with raises_fault(StoreFault.OTHER_CURRENT, SECOND, FIRST):
        store.activate(THIRD, instead_of=FIRST)
    with raises_fault(StoreFault.OTHER_CURRENT, SECOND, "none"):
        store.activate(THIRD, instead_of=None)
    with raises_fault(StoreFault.OTHER_CURRENT, SECOND, THIRD):
        store.roll_back(FIRST, instead_of=THIRD)
    assert (store.state().version, store.activations()) == (SECOND, log)


def test_one_of_two_activations_at_once_wins(store: Store, url: str, tmp_path: Path) -> None:
    names = (SECOND, THIRD)
    for name in (FIRST, *names):
        store.upload(write_version(tmp_path, name))
    store.activate(FIRST)
    barrier = threading.Barrier(2)

    def attempt(name: str) -> object:
        with closing(open_store(url)) as own:
            barrier.wait()
            try:
                own.activate(name, instead_of=FIRST)
            except InputError as error:
                return error.kind
            return None

    with ThreadPoolExecutor(2) as threads:
        faults = dict(zip(names, threads.map(attempt, names), strict=True))
    won = [name for name, fault in faults.items() if fault is None]
    assert [fault for fault in faults.values() if fault] == [StoreFault.OTHER_CURRENT]
    assert [entry.version for entry in store.activations()] == [FIRST, *won]
    assert store.state().version == won[0]


def test_activations_at_once_are_all_in_the_log(store: Store, url: str, tmp_path: Path) -> None:
    for name in (FIRST, SECOND):
        store.upload(write_version(tmp_path, name))

    def activate_some(name: str) -> None:
        with closing(open_store(url)) as own:
            for number in range(5):
                own.activate(name, f"number {number}")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(activate_some, (FIRST, SECOND)))
    log = store.activations()
    for name in (FIRST, SECOND):
        assert [entry.reason for entry in log if entry.version == name] == [f"number {number}" for number in range(5)]
    assert store.state().version == log[-1].version


@pytest.mark.parametrize("reason", ["", "two\nlines", "a\x00b", "x" * 501])
def test_reasons_that_no_store_takes(store: Store, tmp_path: Path, reason: str) -> None:
    store.upload(write_version(tmp_path, FIRST))
    with pytest.raises(InputError, match=r"the reason .* cannot be kept: give 1 to 500 characters without line breaks"):
        store.activate(FIRST, reason)
    assert store.activations() == []


def test_other_content_replaces_a_leftover_but_no_version(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Cut):
        store.upload(write_version(tmp_path / "a", FIRST, {"a.bin": b"1"}), cut_after(1))
    other = write_version(tmp_path / "b", FIRST, {"a.bin": b"2"})
    store.upload(other)
    assert content_of(store.fetch(FIRST, tmp_path / "cache")) == content_of(other)
    with raises_fault(StoreFault.OTHER_CONTENT):
        store.upload(tmp_path / "a" / f"source-{FIRST}")


def test_an_upload_whose_version_is_removed_fails(store: Store, tmp_path: Path) -> None:
    folder = write_version(tmp_path, FIRST, {"a.bin": b"a" * 10, "b.bin": b"b" * 10})
    cleaned: list[int] = []

    def clean_once(_: int) -> None:
        if not cleaned:
            cleaned.append(store.clean())

    with raises_fault(StoreFault.VERSION_REMOVED):
        store.upload(folder, clean_once)
    assert (cleaned, store.versions()) == ([1], [])
    store.upload(folder)
    assert store.versions() == [FIRST]


def test_damage_is_named(store: Store, url: str, tmp_path: Path) -> None:
    folder = write_version(tmp_path, FIRST)
    store.upload(folder)
    file = damage(store, url, FIRST)
    with raises_fault(StoreFault.VERSION_DAMAGED, FIRST, file):
        store.fetch(FIRST, tmp_path / "cache")
    assert not (tmp_path / "cache" / FIRST).exists()


def test_a_damaged_cache_is_fetched_again(store: Store, url: str, tmp_path: Path) -> None:
    folder = write_version(tmp_path, FIRST)
    store.upload(folder)
    fetched = store.fetch(FIRST, tmp_path / "cache")
    if url.startswith("file:"):  # its own folders are as near as any cache
        assert fetched == tmp_path / "store" / "versions" / FIRST
        return
    assert fetched == tmp_path / "cache" / FIRST
    (fetched / "index.bin").write_bytes(b"?")
    assert content_of(store.fetch(FIRST, tmp_path / "cache")) == content_of(folder)
    (fetched / "manifest.json").unlink()
    assert content_of(store.fetch(FIRST, tmp_path / "cache")) == content_of(folder)


def test_workers_that_fetch_together(store: Store, tmp_path: Path) -> None:
    folder = write_version(tmp_path, FIRST)
    store.upload(folder)
    with ThreadPoolExecutor(4) as threads:
        for fetched in threads.map(lambda _: store.fetch(FIRST, tmp_path / "cache"), range(4)):
            assert content_of(fetched) == content_of(folder)


def test_activations_and_discards_at_once_leave_a_whole_current_version(store: Store, tmp_path: Path) -> None:
    for name in (FIRST, SECOND):
        store.upload(write_version(tmp_path, name))
    store.activate(FIRST)
    barrier = threading.Barrier(2)

    def attempt(call: Callable[[str], None]) -> bool:
        barrier.wait()
        try:
            call(SECOND)
        except InputError:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        activated, discarded = threads.map(attempt, (store.activate, store.discard))
    assert not (activated and discarded)
    current = store.state().version
    assert current is not None
    assert current in store.versions()
    assert store.fetch(current, tmp_path / "cache")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a b", "é", "a\n", "x" * 129])
def test_names_are_never_paths(store: Store, tmp_path: Path, name: str) -> None:
    for call in (store.activate, store.discard, lambda name: store.fetch(name, tmp_path / "cache")):
        with pytest.raises(InputError, match="is not letters, digits"):
            call(name)
    folder = write_version(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "name": name}))
    with pytest.raises(InputError, match="is not letters, digits"):
        store.upload(folder)


@pytest.mark.parametrize("file", ["../x", "/etc/passwd", "a/b", "manifest.json", "", ".x"])
def test_file_names_are_never_paths(store: Store, tmp_path: Path, file: str) -> None:
    folder = write_version(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file] = {"bytes": 1, "sha256": "0"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="which is not a plain file name"):
        store.upload(folder)


def test_folders_that_are_no_version(store: Store, tmp_path: Path) -> None:
    folder = write_version(tmp_path)
    (folder / "index.bin").unlink()
    with raises_fault(StoreFault.FILE_CHANGED, "index.bin"):
        store.upload(folder)
    (folder / "index.bin").write_bytes(b"other")
    with raises_fault(StoreFault.FILE_CHANGED, "index.bin"):
        store.upload(folder)
    for text in ("", "[]", "{}", '{"name": 1, "files": {}}', '{"name": "a", "files": {"a": {"bytes": "1"}}}'):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(ArtifactError, match="is not the manifest of a version"):
            store.upload(folder)
    assert store.versions() == []
