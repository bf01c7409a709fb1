"""`lorentzrec store`: what each command prints, its exit code, and what it refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.command_line import error_of, run, run_json
from lorentzrec.serving.stores import file_store


@pytest.fixture
def older_store(tmp_path: Path) -> str:
    """A file store as an older release wrote it."""
    (tmp_path / "store" / "versions").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "store" / "store.sqlite")) as connection:
        connection.executescript(file_store.SCHEMA[0] + "PRAGMA user_version = 1")
        connection.execute("INSERT INTO events VALUES ('ann', '1', 'tea', 1.0)")
        connection.commit()
    return f"file:{tmp_path / 'store'}"


def test_only_migrate_changes_a_store_of_an_older_release(older_store: str) -> None:
    for command in (["serve", older_store], ["live", older_store]):
        assert error_of(*command).endswith(f"stop its services, then run lorentzrec store migrate {older_store}")
    steps = len(file_store.SCHEMA)
    done = run("store", "migrate", older_store)
    assert done.stdout == f"{older_store} is up to date: {steps - 1} steps were taken\n"
    assert f"step 2 of {steps}\n" in done.stderr
    run("live", older_store)
    assert run_json("store", "migrate", older_store) == {"store": older_store, "steps": []}
    assert "nothing was to be done" in run("store", "migrate", older_store).stdout


def test_migrate_needs_a_store(tmp_path: Path) -> None:
    assert "holds no store: publish a model to it first" in error_of("store", "migrate", f"file:{tmp_path / 'none'}")
