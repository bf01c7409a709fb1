"""`lorentzrec add-items`, `update`, `train --start` and `backtest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lorentzrec import load
from tests.cli.command_line import SETTINGS, error_of, run, run_json


@pytest.fixture
def more_events(events_file: Path, tmp_path: Path) -> Path:
    """All events and two days of new ones, some with an item that is new."""
    path = tmp_path / "more.csv"
    lines = [
        f"u{number % 60},{'new' if number % 5 == 0 else f'i{number % 3 * 10}'},{800 + number}" for number in range(60)
    ]
    path.write_text(events_file.read_text() + "\n".join(lines) + "\n")
    return path


def test_items_are_added(model: Path, tmp_path: Path) -> None:
    (tmp_path / "today.csv").write_text("user,item,time\nu0,new,900\nu0,i3,901\nu3,new,902\n")
    result = run_json("add-items", model, tmp_path / "today.csv", "--out", tmp_path / "tomorrow")
    assert (result["items"], result["new_items"]) == (31, 1)
    assert result["notes"] == ["1 item was added without training"]
    added = load(tmp_path / "tomorrow")
    assert added.item_ids[-1] == "new"
    assert added.histories is not None
    assert added.histories.history_ids("u0")[-2:] == ["new", "i3"]
    assert "with 1 new item" in run("add-items", model, tmp_path / "today.csv", "--out", tmp_path / "x").stdout


def test_nothing_is_written_without_new_items(model: Path, events_file: Path, tmp_path: Path) -> None:
    message = error_of("add-items", model, events_file, "--out", tmp_path / "tomorrow")
    assert message.startswith("the model knows all items that were given")
    assert not (tmp_path / "tomorrow").exists()


def test_a_model_is_updated(model: Path, more_events: Path, tmp_path: Path) -> None:
    before = (model / "manifest.json").read_bytes()
    result = run_json("update", model, more_events, "--out", tmp_path / "tomorrow", "--set", "epochs=1")
    assert (result["items"], len(result["epochs"])) == (31, 1)
    assert result["config"]["dimension"] == 4
    assert any(note.startswith("trained on") for note in result["notes"])
    assert "new" in load(tmp_path / "tomorrow").items
    assert (model / "manifest.json").read_bytes() == before


def test_items_are_pruned(model: Path, more_events: Path, tmp_path: Path) -> None:
    (tmp_path / "live.txt").write_text("\n".join(["i1", "i2", "i11", "i21", "new"]) + "\n")
    result = run_json("update", model, more_events, "--out", tmp_path / "live", "--live", tmp_path / "live.txt")
    assert result["items"] == 5
    message = error_of("update", model, more_events, "--out", tmp_path / "none", "--prune-after", "0.0000001")
    assert "items would be left" in message
    assert not (tmp_path / "none").exists()


def test_an_update_without_new_events_is_an_error(model: Path, shop: Path, tmp_path: Path) -> None:
    assert "was trained on all of these events" in error_of("update", model, shop, "--out", tmp_path / "tomorrow")
    assert not (tmp_path / "tomorrow").exists()


def test_training_starts_from_a_model(model: Path, more_events: Path, tmp_path: Path) -> None:
    result = run_json("train", more_events, "--out", tmp_path / "next", "--start", model, "--set", "epochs=2")
    assert (result["config"]["dimension"], len(result["epochs"]), result["items"]) == (4, 2, 31)
    message = error_of("train", more_events, "--out", tmp_path / "x", "--start", model, "--set", "dimension=5")
    assert message.startswith("the start model has dimension=4, and the config dimension=5")
    message = error_of("train", more_events, "--out", tmp_path / "x", "--start", model, "--engine", "keras")
    assert message.startswith("--start is for --engine local")
    (tmp_path / "other.csv").write_text("user,item,time\nu1,a,1\nu1,b,2\nu2,b,3\nu2,c,4\n")
    message = error_of("train", tmp_path / "other.csv", "--out", tmp_path / "x", "--start", model)
    assert message.startswith("the data share no item with the start model")
    assert not (tmp_path / "x").exists()


def test_a_backtest_prints_and_writes_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["user,item,time"]
    for day in range(5):
        lines += [f"u{n % 20},i{(n * 7 + day) % 12 + day},{day * 86_400 + n}" for n in range(120)]
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    options = ("--days", "2", "--out", tmp_path / "found", *SETTINGS)
    result = run_json("backtest", tmp_path / "events.csv", *options)
    assert [day["day"] for day in result["days"]] == ["1970-01-04", "1970-01-05"]
    assert json.loads((tmp_path / "found" / "backtest.json").read_text()) == result
    assert (tmp_path / "found" / "backtest.svg").exists()
    monkeypatch.setenv("COLUMNS", "100")
    shown = run("backtest", tmp_path / "events.csv", *options).stdout
    assert "of the NDCG@10 of a full retrain" in shown
    assert {"1970-01-04", "1970-01-05"} <= set(shown.split()), "dates are not broken where headings are"
    assert {"recent", "popularity"} <= set(shown.split())
    both = error_of("backtest", tmp_path / "events.csv", "--days", "2", "--weeks", "2")
    assert "give one of them" in both
    assert "too few to measure 20" in error_of("backtest", tmp_path / "events.csv", "--days", "20", *SETTINGS)
