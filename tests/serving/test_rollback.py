"""Rollback follows the log of activations, on every store: never to a version that was rolled back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.publish import publish, rollback
from lorentzrec.serving.versions.version import write_version
from tests.serving.small_shop import shop_model
from tests.serving.stores.raises_fault import raises_fault


@pytest.fixture
def store(any_url: str) -> Iterator[Store]:
    with closing(open_store(any_url, create=True)) as opened:
        yield opened


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as opened:
        yield opened


def published(store: Store, keep: int = 3) -> str:
    return publish(shop_model(), store, keep=keep).name


def test_a_bad_version_never_comes_back(store: Store) -> None:
    a, b, bad = [published(store) for _ in range(3)]
    assert rollback(store, reason="empty lists") == b
    assert store.versions() == [bad, b, a], "nothing is removed by a rollback"
    d = published(store)
    assert store.versions() == [d, b, a], "a version that was rolled back takes no place"
    assert rollback(store) == b
    assert rollback(store) == a
    with pytest.raises(InputError) as refused:
        rollback(store)
    assert str(refused.value) == (
        f"{store.url} holds no version that was live before {a} and was not rolled back (rolled back: {d}, {b}): "
        "publish one, or name one of these"
    )
    assert rollback(store, d, reason="it was not the model") == d
    assert rollback(store, a) == a
    log = [(entry.version, entry.reason, entry.rejected) for entry in store.activations()]
    assert log == [
        (a, "published", None),
        (b, "published", None),
        (bad, "published", None),
        (b, "empty lists", bad),
        (d, "published", None),
        (b, f"rolled back from {d}", d),
        (a, f"rolled back from {b}", b),
        (d, "it was not the model", a),
        (a, f"rolled back from {d}", d),
    ]


def test_a_version_that_was_rolled_back_is_kept_while_it_is_current(file_store: Store) -> None:
    a, b = published(file_store), published(file_store)
    rollback(file_store)
    rollback(file_store, b)
    assert file_store.standing_versions() == [b]
    c = published(file_store, keep=2)
    assert file_store.versions() == [c, b]
    assert a not in file_store.versions(), "it was left when its name was not the one chosen"


def test_names_that_no_rollback_takes(file_store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no version that was live before the first: publish one instead"):
        rollback(file_store)
    a, b = published(file_store), published(file_store)
    uploaded = str(write_version(tmp_path / "version", shop_model())["name"])
    file_store.upload(tmp_path / "version")
    for name in (uploaded, "model", "../etc"):
        with pytest.raises(InputError) as refused:
            rollback(file_store, name)
        assert f"no version {name!r} that was live (those that were: {a}): name another" in str(refused.value)
    with pytest.raises(InputError, match=f"{b} is the current version of .* already: name another"):
        rollback(file_store, b)
    assert [entry.version for entry in file_store.activations()] == [a, b]


def test_a_rollback_passes_over_what_was_removed_by_hand(file_store: Store, tmp_path: Path) -> None:
    a, b, _ = [published(file_store) for _ in range(3)]
    shutil.rmtree(tmp_path / "store" / "versions" / b)
    assert rollback(file_store) == a


def test_a_publish_during_a_rollback_is_not_rejected(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = published(file_store), published(file_store)
    log_of, newer = file_store.standing_versions, list[str]()

    def publish_meanwhile(arm: str) -> list[str]:
        found = log_of(arm)
        if not newer:
            newer.append("")
            with closing(open_store(file_store.url)) as other:
                newer[0] = published(other)
        return found

    monkeypatch.setattr(file_store, "standing_versions", publish_meanwhile)
    with raises_fault(StoreFault.OTHER_CURRENT, f"no longer {b}"):
        rollback(file_store)
    assert [entry.version for entry in file_store.activations()] == [a, b, newer[0]]
    assert file_store.state().version == newer[0]


def test_two_rollbacks_at_once_leave_one_version(file_store: Store) -> None:
    a, b, c = [published(file_store) for _ in range(3)]

    def roll_back(_: int) -> object:
        with closing(open_store(file_store.url)) as own:
            try:
                return rollback(own)
            except InputError as error:
                return error.kind

    with ThreadPoolExecutor(2) as threads:
        results = {*threads.map(roll_back, range(2))}
    assert results in ({b, a}, {b, StoreFault.OTHER_CURRENT})
    log = [entry.version for entry in file_store.activations()]
    assert log == [a, b, c, *([b, a] if a in results else [b])]
