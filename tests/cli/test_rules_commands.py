"""`lorentzrec rules`: what each command prints, and what it refuses."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import open_store
from tests.cli.command_line import error_of, run, run_json
from tests.serving.running_service import shop_store

RULES = {
    "rules": [
        {"name": "Hats first", "select": {"where": {"category": "hats"}}, "boost": 2},
        {"name": "Dear", "select": {"where": {"price": {"max": 5}}}, "boost": {"factor": 3, "by": "price"}},
        {"name": "Variety", "routes": ["recommend"], "select": {}, "quota": {"limit": 2, "per": "category"}},
        {"name": "Winter", "select": {"set": "winter"}, "exclude": True, "until": "2026-12-01T00:00:00Z"},
        {"name": "New", "select": {"ids": ["i3", "i4"]}, "pin": 1},
    ],
    "sets": {"winter": ["i1", "later"]},
}


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with the small shop."""
    with closing(shop_store(tmp_path)) as opened:
        return opened.url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES))
    return path


def test_rules_are_set_shown_and_logged(store: str, file: Path) -> None:
    assert run_json("rules", "show", store) == {}
    done = run("rules", "set", store, file, "--reason", "winter campaign")
    assert done.stdout == f"{store} has 5 rules of revision 1\n"
    assert "1 id is not in version" in done.stderr
    assert run_json("rules", "show", store) == RULES
    shown = run("rules", "show", store).stdout
    for text in ("boost 2", "boost 3 by price", "at most 2", "set winter", "pin 1", "winter (2)"):
        assert text in shown
    for text in ('category "hats"', 'price {"max":5.0}', "2 ids", "until 2026-12-01 00:00 UTC", "always"):
        assert text in shown
    file.write_text('{"rules": []}')
    assert run_json("rules", "set", store, file)["revision"] == 2
    (newest, first) = run_json("rules", "log", store)["changes"]
    assert (newest["revision"], newest["reason"]) == (2, "changed")
    assert (first["revision"], first["reason"]) == (1, "winter campaign")
    assert "winter campaign" in run("rules", "log", store).stdout
    assert run_json("rules", "show", store, "--revision", "1") == RULES
    assert "does not keep rules of revision 9" in error_of("rules", "show", store, "--revision", "9")


def test_what_can_be_set_is_checked_first(store: str, file: Path) -> None:
    assert run_json("rules", "check", store, file) == {"store": store, "rules": 5, "sets": 1, "unknown_items": 1}
    assert run_json("rules", "log", store)["changes"] == []


@pytest.mark.parametrize("command", ["set", "check"])
def test_faults_are_one_line_and_nothing_changes(store: str, file: Path, command: str) -> None:
    file.write_text('{"rules": [{"name": "a", "boost": 2}, {"name": "b", "quota": {"limit": 1, "per": "colour"}}]}')
    assert error_of("rules", command, store, file).startswith(
        "rules[1].quota.per: the items have no column 'colour' of texts (there are: category): name another"
    )
    file.write_text('{"rules": [{"name": "a"}]}')
    assert error_of("rules", command, store, file).startswith(f"{file}: rules[0]: it has 0 of only, exclude, boost")
    file.write_text('{"rules": [')
    assert error_of("rules", command, store, file).startswith(f"{file}: rules: this is no JSON")
    assert "cannot be read" in error_of("rules", command, store, file.with_name("none.json"))
    assert run_json("rules", "log", store)["changes"] == []


def test_a_change_from_an_older_revision_is_refused(store: str, file: Path) -> None:
    run("rules", "set", store, file, "--instead-of", "0")
    assert "the rules have revision 1 by now, not 0" in error_of("rules", "set", store, file, "--instead-of", "0")


def test_rules_of_a_store_without_a_version_are_checked_alone(tmp_path: Path, file: Path) -> None:
    url = f"file:{tmp_path / 'empty'}"
    open_store(url, create=True).close()
    done = run("rules", "set", url, file)
    assert "the store has no version yet" in done.stderr
