"""`lorentzrec store`: what each command prints, its exit code, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.new_items import NewItem
from tests.cli.command_line import error_of, run, run_json
from tests.serving.running_service import shop_store
from tests.serving.stores.next_release import add_step
from tests.serving.stores.version_folder import write_version


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file store with a version, and events of three, one and no day ago."""
    url, now = f"file:{tmp_path / 'store'}", time.time()
    with closing(open_store(url, create=True)) as opened:
        opened.upload(write_version(tmp_path, "a1"))
        opened.activate("a1")
        ages = {"tea": 3, "cup": 1, "mug": 0}
        opened.add_events([Event("ann", item, now - age * 86_400, item) for item, age in ages.items()])
        opened.add_events([Event("bob", "tea", now - 10 * 86_400, "only")])
    return url


def test_only_migrate_changes_a_store_of_an_older_release(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_step(store, monkeypatch)
    for command in (["serve", store], ["live", store]):
        assert error_of(*command).endswith(f"stop its services, then run lorentzrec store migrate {store}")
    done = run("store", "migrate", store)
    assert done.stdout == f"{store} is up to date: 1 step was taken\n"
    assert "step 2 of 2\n" in done.stderr
    run("live", store)
    assert run_json("store", "migrate", store) == {"store": store, "steps": []}
    assert "nothing was to be done" in run("store", "migrate", store).stdout


def test_migrate_needs_a_store(tmp_path: Path) -> None:
    assert "holds no store: publish a model to it first" in error_of("store", "migrate", f"file:{tmp_path / 'none'}")


def test_a_backup_and_its_restore(store: str, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shown = run("store", "backup", store, "--to", backup)
    assert shown.stdout.startswith(f"{backup} is a backup of {store}: 4 events, 0 new items, 0 erasures, 1 version, ")
    assert error_of("store", "backup", store, "--to", backup) == (
        f"{backup} already holds a backup: choose another name, or replace it with --force"
    )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "choose another name" in error_of("store", "backup", store, "--to", tmp_path / "full", "--force")
    assert run_json("store", "backup", store, "--to", backup, "--force")["versions"] == ["a1"]
    target = f"file:{tmp_path / 'restored'}"
    restored = run("store", "restore", backup, "--to", target)
    assert restored.stdout.endswith("4 events, 0 new items, 0 erasures, 1 version; current version a1\n")
    assert "note: customers who were erased after the backup was made are in the store again" in restored.stderr
    assert "holds versions, a log of activations, events: restore into" in error_of(
        "store", "restore", backup, "--to", target
    )
    assert run_json("store", "restore", backup, "--to", f"file:{tmp_path / 'other'}")["version"] == "a1"
    with closing(open_store(target)) as opened:
        assert len(opened.history("ann")) == 3


def test_a_backup_without_a_damaged_version(store: str, tmp_path: Path) -> None:
    (tmp_path / "store" / "versions" / "a1" / "index.bin").write_bytes(b"")
    shown = run("store", "backup", store, "--to", tmp_path / "backup")
    assert "note: version a1 is not in the backup: version a1 in file:" in shown.stderr
    assert "index.bin is damaged or missing" in shown.stderr


def test_what_is_no_backup(store: str, tmp_path: Path) -> None:
    target = f"file:{tmp_path / 'restored'}"
    assert "manifest.json is missing: give the folder of a backup" in error_of(
        "store", "restore", tmp_path, "--to", target
    )
    version = tmp_path / "store" / "versions" / "a1"
    assert "is not the manifest of a backup" in error_of("store", "restore", version, "--to", target)
    assert not (tmp_path / "restored").exists()


def test_pruning(store: str) -> None:
    options = ("--older-than", "2", "--newest", "1")
    assert run("store", "prune", store, *options, "--dry-run").stdout == (
        f"1 event of 1 customer would be removed from {store}\n"
    )
    assert run_json("store", "prune", store, *options) == {
        "store": store,
        "events": 1,
        "customers": 1,
        "removed": True,
    }
    assert run("store", "prune", store, *options).stdout == f"0 events of 0 customers were removed from {store}\n"
    assert "Missing option '--older-than'" in error_of("store", "prune", store)


def test_new_items_are_removed_by_their_origin(store: str) -> None:
    with closing(open_store(store)) as opened:
        opened.add_events([Event(user, item, 1, item) for user, item in (("ann", "x"), ("ann", "y"), ("bob", "y"))])
        opened.note_customers({"x": ["ann"], "y": ["ann", "bob"]}, limit=10)
        opened.describe_item(NewItem("boot", title="Boot"), limit=10)
    removed = run_json("store", "remove-items", store, "--origin", "events", "--fewer-than", "2")
    assert removed == {"store": store, "origin": "events", "removed": 1}
    assert f"1 new item was removed from {store}" in run("store", "remove-items", store, "--origin", "events").output
    with closing(open_store(store)) as opened:
        assert [item.id for item in opened.new_items()] == ["boot"]
    assert "--origin" in error_of("store", "remove-items", store)
    assert "'all' is not one of" in error_of("store", "remove-items", store, "--origin", "all")


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A store with a version that was really published."""
    with closing(shop_store(tmp_path)) as opened:
        opened.add_events([Event("ann", "i1", 1, "a"), Event("bob", "i2", 1, "a")])
        opened.change_live_items(remove=["i3"])
        return opened.url


def test_the_status(shop: str) -> None:
    (version,) = run_json("store", "status", shop)["versions"]
    shown = run("store", "status", shop).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0].startswith(f"{shop}: ")
    assert "2 events of 2 customers" in lines
    assert "Live items: every item is live, except 1" in lines
    assert "New items: 0 described, 0 by events alone" in lines
    assert any(line.startswith(f"{version['name']} current") for line in lines)
    assert any(line.endswith(f"{version['name']} activated") for line in lines)
    assert "warning" not in shown


def test_a_sound_store_is_verified(shop: str) -> None:
    lines = run("store", "verify", shop).stdout.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("fine     ") for line in lines)
    assert run_json("store", "verify", shop)["damaged"] == []


def test_every_damaged_part_is_named(shop: str, tmp_path: Path) -> None:
    version = next((tmp_path / "store" / "versions").iterdir())
    (version / "points.safetensors").write_bytes(b"")
    (version / "items.sqlite").write_bytes(b"x")
    with closing(sqlite3.connect(tmp_path / "store" / "store.sqlite")) as connection:
        connection.execute("UPDATE events SET weight = 0 WHERE user_id = 'ann'")
        connection.commit()
    result = run("store", "verify", shop, code=2)
    damaged = [line for line in result.stdout.splitlines() if line.startswith("DAMAGED")]
    assert len(damaged) == 2
    assert "         items.sqlite (1 of " in result.stdout
    assert "         points.safetensors (0 of " in result.stdout
    assert "         event 'a' of user 'ann' has weight 0.0" in result.stdout
    assert result.stderr == (
        f"error: {shop} is damaged in version {version.name}, events: publish the model again, or restore a backup; "
        "restore a backup\n"
    )
    found = json.loads(run("store", "verify", shop, "--json", code=2).stdout)
    assert found["damaged"] == [f"version {version.name}", "events"]
