"""Publishes that fail, are killed or run at the same time: only what was activated ever counts."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.file_store import FileStore
from lorentzrec.serving.stores.histories import Added, Event
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.publish import publish, rollback
from tests.serving.running_service import service_here
from tests.serving.small_shop import shop_model

KILLED = """
import os, signal, sys
from lorentzrec.serving.versions.publish import publish
from lorentzrec.serving.stores.address import open_store
from tests.serving.small_shop import shop_model

def progress(what, share):
    if what == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

model = shop_model()
publish(model, open_store(sys.argv[1]), histories=model.histories, progress=progress)
"""
STAGES = ("uploading", "adding histories")
"""While a version is incomplete, and while it is complete but not activated."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url, create=True)) as opened:
        yield opened


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "store" / "versions").iterdir())


def killed(url: str, stage: str) -> None:
    command = [sys.executable, "-c", KILLED, url, stage]
    done = subprocess.run(
        command, env={"PYTHONPATH": os.environ["PYTHONPATH"]}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


class NoHistories(FileStore):
    """A store whose disk fails when events are added."""

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        raise StoreUnavailable("disk I/O error: try again")


def test_rollback_never_takes_a_version_that_was_not_live(store: Store, tmp_path: Path) -> None:
    first = publish(shop_model(), store).name
    model = shop_model()
    with closing(NoHistories(tmp_path / "store")) as failing:
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                publish(model, failing, histories=model.histories)
    assert folders(tmp_path) == [first], "a failed publish removes what it uploaded"
    second = publish(shop_model(), store, keep=2).name
    assert store.versions() == [second, first]
    assert rollback(store) == first


class NothingRemoved(FileStore):
    """A store that fails when versions are removed."""

    def discard(self, name: str) -> None:
        raise StoreUnavailable("disk I/O error: try again")


class NothingCleaned(FileStore):
    """A store that fails when the remains of uploads are removed."""

    def clean(self) -> int:
        raise OSError("Input/output error")


@pytest.mark.parametrize("kind", [NothingRemoved, NothingCleaned])
def test_a_version_is_published_even_if_old_ones_cannot_be_removed(
    store: Store, tmp_path: Path, kind: type[FileStore]
) -> None:
    publish(shop_model(), store)
    with closing(kind(tmp_path / "store")) as failing:
        published = publish(shop_model(), failing, keep=1)
    assert store.state().version == published.name
    (note,) = published.notes
    assert note.startswith("old versions could not be removed, and the next publish removes them: ")
    last = publish(shop_model(), store, keep=1)
    assert (last.versions, last.notes) == ((last.name,), ())


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_publish_is_never_live(store: Store, url: str, tmp_path: Path, stage: str) -> None:
    first = publish(shop_model(), store).name
    second = publish(shop_model(), store).name
    killed(url, stage)
    (left,) = set(folders(tmp_path)) - {first, second}
    assert store.standing_versions() == [second, first]
    # Damaged, the current version has one before it, and one after it that was never live.
    points = tmp_path / "store" / "versions" / second / "points.safetensors"
    points.write_bytes(points.read_bytes()[:-1])
    with service_here(url) as service:
        assert service.get("/readyz").json()["model"] == first
    third = publish(shop_model(), store, keep=2).name
    assert folders(tmp_path) == [second, third], f"{left} is removed by the next publish"
    assert rollback(store) == second


def test_rollback_passes_over_what_could_not_be_cleaned_up(store: Store, url: str, tmp_path: Path) -> None:
    first = publish(shop_model(), store).name
    killed(url, STAGES[-1])
    with closing(open_store(url)) as other, other.publishing():  # nothing is removed meanwhile
        second = publish(shop_model(), store).name
    assert [folders(tmp_path)[0], folders(tmp_path)[2]] == [first, second], "a killed one is between them"
    assert rollback(store) == first


@pytest.mark.parametrize("stage", STAGES)
def test_a_publish_leaves_that_of_another_process_alone(store: Store, url: str, tmp_path: Path, stage: str) -> None:
    model, others = shop_model(), list[str]()

    def progress(what: str, share: float) -> None:
        if what == stage and not others:
            with closing(open_store(url)) as other:
                others.append(publish(shop_model(), other, keep=1).name)

    name = publish(model, store, histories=model.histories, progress=progress).name
    assert store.state().version == name
    assert store.versions() == sorted([name, *others], reverse=True)


def test_publishers_at_once_do_not_fail_one_another(store: Store, url: str) -> None:
    def publish_some(_: int) -> list[str]:
        with closing(open_store(url)) as own:
            return [publish(shop_model(), own, keep=1).name for _ in range(6)]

    with ThreadPoolExecutor(2) as threads:
        names = [name for some in threads.map(publish_some, range(2)) for name in some]
    assert len(set(names)) == 12
    assert store.state().version in store.versions()


@pytest.mark.parametrize(
    ("user", "item", "unfit"),
    [("u" * 600, "i1", "user id 'uuuu"), ("ann", "i" * 513, "item id 'iiii"), ("an\x07n", "i1", r"user id 'an\\x07n'")],
)
def test_ids_are_checked_before_the_upload(store: Store, tmp_path: Path, user: str, item: str, unfit: str) -> None:
    histories = Interactions.from_pairs([user], [item])
    steps: list[str] = []
    with pytest.raises(InputError, match=f"^{unfit}.* cannot be kept: .* then prepare, train and publish again$"):
        publish(shop_model(), store, histories=histories, progress=lambda what, _: steps.append(what))
    assert (steps, folders(tmp_path)) == ([], [])


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may have more than 4 KiB: writes fail as they do on a full disk, with another number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class FullStore(FileStore):
    """A store on a disk that is full once the upload begins."""

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        with full_disk():
            super().upload(folder, progress)


def test_a_full_disk_is_named_correctly(store: Store, tmp_path: Path) -> None:
    with closing(FullStore(tmp_path / "store")) as full, pytest.raises(InputError) as refused:
        publish(shop_model(), full)
    place = tmp_path / "store" / "versions"
    assert str(refused.value).startswith(f"cannot write {place}")
    assert "File too large; make room or choose another disk" in str(refused.value)
    with full_disk(), pytest.raises(InputError) as refused:
        publish(shop_model(items=500), store)
    assert str(refused.value).startswith(f"cannot write {tempfile.gettempdir()}/lorentzrec-publish.scratch-")
    assert "the temporary folder, not the store: TMPDIR names another" in str(refused.value)
    assert folders(tmp_path) == []


def test_a_full_disk_below_the_item_directory(tmp_path: Path) -> None:
    from lorentzrec.serving.versions.item_directory import describe_items, write_item_directory

    model = shop_model(items=500)
    table, _, categories, _ = describe_items(model.items.series, model.item_counts, None)
    with full_disk(), pytest.raises(OSError, match=r"Input/output error: .*items\.sqlite"):
        write_item_directory(tmp_path / "items.sqlite", table, categories)


def test_a_repair_never_writes_into_a_file_in_use(store: Store, tmp_path: Path) -> None:
    from tests.serving.stores.version_folder import write_version

    folder = write_version(tmp_path, "a1")
    store.upload(folder)
    points = store.fetch("a1", tmp_path) / "points.safetensors"
    points.write_bytes(b"damaged")
    with points.open("rb") as in_use:
        store.upload(folder)
        assert in_use.read() == b"damaged", "the file that is open is another one than the repaired one"
    assert points.read_bytes() == (folder / "points.safetensors").read_bytes()
