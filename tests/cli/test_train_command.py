"""`lorentzrec train`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lorentzrec import Interactions, TrainingConfig, load, train
from tests.cli.command_line import SETTINGS, error_of, run, run_json


def test_a_file_becomes_a_model(events_file: Path, tmp_path: Path) -> None:
    result = run_json("train", events_file, "--out", tmp_path / "model", *SETTINGS)
    model = load(tmp_path / "model")
    assert result["model"] == str(tmp_path / "model")
    assert result["config"] == model.config.to_dict()
    assert result["config"]["dimension"] == 4
    assert [epoch["epoch"] for epoch in result["epochs"]] == [1, 2, 3]
    assert (result["items"], result["users"], result["interrupted"]) == (30, 60, False)
    assert model.histories is not None
    assert len(model.histories) == 720
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "no checkpoint is left, nothing half-written"


def test_a_person_sees_settings_epochs_notes_and_place(events_file: Path, tmp_path: Path) -> None:
    result = run("train", events_file, "--out", tmp_path / "model", *SETTINGS, "--set", "negative_count=40")
    assert "3 epochs in" in result.stdout
    assert f"The model is in {tmp_path / 'model'}" in result.stdout
    shown = next(line for line in result.stderr.splitlines() if "learning_rate=" in line)
    assert {one.partition("=")[0] for one in shown.split(", ")} == {
        *("geometry", "dimension", "history", "epochs", "learning_rate"),
        *(one.partition("=")[0] for one in SETTINGS if "=" in one),
        "negative_count",
    }
    assert "history=causal" in shown, "the settings are the resolved ones"
    assert "clipped" not in result.stdout
    assert "note: negative_count is 40, more than the 30 items: all of them are used" in result.stderr


def test_verbose_shows_all_settings_and_counts(events_file: Path, tmp_path: Path) -> None:
    result = run("train", events_file, "--out", tmp_path / "model", *SETTINGS, "--verbose")
    assert "clipped" in result.stdout
    assert "capped" in result.stdout
    shown = [line for line in result.stderr.splitlines() if "geometry=" in line]
    assert len(shown) == 1
    assert "model=asymmetric" in shown[0]


def test_a_person_at_a_terminal_sees_every_note_once(events_file: Path, tmp_path: Path) -> None:
    """Those of the start are above the bar, those of the end below it, as is one that names options."""
    header, *rows = events_file.read_text().splitlines()
    rated = tmp_path / "rated.csv"
    rated.write_text("\n".join([f"{header},rating", *(f"{row},5" for row in rows)]))
    ours, theirs = pty.openpty()
    settings = (*SETTINGS, "--set", "negative_count=40", "--set", "memory=auto")
    arguments = ("train", rated, "--out", tmp_path / "model", *settings)
    command = [sys.executable, "-m", "lorentzrec", *map(str, arguments)]
    variables = os.environ | {"COLUMNS": "300", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=variables)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # the end of the process, on Linux
        while some := os.read(ours, 65536):
            printed += some
    os.close(ours)
    assert process.wait() == 0, printed
    notes = load(tmp_path / "model").notes
    assert len(notes) >= 2
    assert {note: printed.decode().count(note) for note in notes} == dict.fromkeys(notes, 1)
    assert "keep good ratings with --rating-column and --minimum-rating" in printed.decode()


def test_a_note_names_a_model_that_is_replaced(events_file: Path, tmp_path: Path) -> None:
    replaced = f"note: the previous model in {tmp_path / 'model'} was replaced"
    assert replaced not in run("train", events_file, "--out", tmp_path / "model", *SETTINGS).stderr
    assert replaced in run("train", events_file, "--out", tmp_path / "model", *SETTINGS).stderr.splitlines()


def test_the_parts_of_a_dataset_have_their_uses(shop: Path, model: Path) -> None:
    """Training learns from the training part alone, and the validation part chooses the epoch."""
    train_part = Interactions.from_dataset(shop, "train")
    trained = load(model)
    assert trained.data_digest == train_part.digest
    assert {"validation ndcg@10", "validation hr@10"} <= set(trained.metrics)


def test_settings_come_from_the_file_then_from_the_line(events_file: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('[training]\nepochs = 1\ndimension = 3\ngeometry = "euclidean"\n')
    config = ("--config", tmp_path / "settings.toml", "--set", "dimension=2")
    result = run_json("train", events_file, "--out", tmp_path / "model", *config)
    chosen = {name: result["config"][name] for name in ("epochs", "dimension", "geometry")}
    assert chosen == {"epochs": 1, "dimension": 2, "geometry": "euclidean"}


def test_columns_may_have_other_names(events_file: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "sales.csv"
    renamed.write_text(events_file.read_text().replace("user,item,time", "customer,sku,day", 1))
    columns = ("--user-column", "customer", "--item-column", "sku")
    ordered = run_json("train", renamed, "--out", tmp_path / "a", *columns, "--time-column", "day", *SETTINGS)
    unordered = run_json("train", renamed, "--out", tmp_path / "b", *columns, *SETTINGS)
    assert (ordered["config"]["history"], unordered["config"]["history"]) == ("causal", "folds")


def test_all_settings_can_be_listed() -> None:
    text = run("train", "--list-settings").stdout
    assert all(name in text for name in TrainingConfig().to_dict())
    assert "meaning" in text
    for order in (("--list-settings", "--json"), ("--json", "--list-settings")):
        rows = {row["name"]: row for row in json.loads(run("train", *order).stdout)}
        assert list(rows) == list(TrainingConfig().to_dict())
        assert rows["dimension"]["default"] == 50
        assert rows["geometry"]["values"] == "one of hyperboloid, euclidean"
        assert rows["recency"]["meaning"].startswith("Factor on the weight of a history item per step back")


def test_resume_ends_in_the_same_model(events_file: Path, tmp_path: Path) -> None:
    """The checkpoint is that of a run which stopped after its last epoch and before its model was written."""
    config = TrainingConfig(dimension=4, epochs=3, threads=1)
    expected = train(Interactions.from_file(events_file), config, checkpoint=tmp_path / "model.checkpoint")
    assert "is left from a run that was stopped: add --resume" in error_of(
        "train", events_file, "--out", tmp_path / "model", *SETTINGS
    )
    run("train", events_file, "--out", tmp_path / "model", "--resume", *SETTINGS)
    assert load(tmp_path / "model").item_points.tobytes() == expected.item_points.tobytes()
    assert not (tmp_path / "model.checkpoint").exists()


def test_resume_without_checkpoint(events_file: Path, tmp_path: Path) -> None:
    """As after a run that was killed before the end of its first epoch."""
    result = run("train", events_file, "--out", tmp_path / "model", "--resume", *SETTINGS)
    checkpoint = tmp_path / "model.checkpoint"
    line = f"note: there was no checkpoint in {checkpoint}: training started with the first epoch"
    assert result.stderr.splitlines().count(line) == 1
    assert [epoch.epoch for epoch in load(tmp_path / "model").record] == [1, 2, 3]


def test_no_epochs_are_refused(events_file: Path, tmp_path: Path) -> None:
    line = error_of("train", events_file, "--out", tmp_path / "model", "--set", "epochs=0")
    assert line == "epochs=0 would save an untrained model: set epochs to 1 or more"
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        ("", (), "events.csv is empty: give a file with content"),
        ("user,item\n", (), "events.csv holds no events: give at least one"),
        (
            "who,what\na,b\n",
            (),
            "events.csv has no column 'user' and no column 'item', only who, what: give --user-column and --item-",
        ),
        ("user,item\na,b\na\n", (), "events.csv line 3: "),
        ("user,item,time\na,b,1\na,c,nan\n", (), "events.csv line 3: "),
        ("user,item,weight\na,b,1\na,c,nan\n", (), "events.csv line 3: "),
        ("user,item,weight\na,b,1\na,c,-1\n", (), "events.csv line 3: "),
        ("user,item\na,b\n\xff\n", (), "events.csv line 3: "),
        ("user,item\na,b\nc,b\n", (), "there is only one item ('b'), so there is nothing to rank: give at least two"),
        (
            "user,item\na,b\n",
            ("--set", "dimenson=3"),
            "there is no hyper-parameter 'dimenson': did you mean 'dimension'?",
        ),
        ("user,item\na,b\n", ("--set", "dimension=x"), "dimension is 'x'"),
        ("user,item\na,b\n", ("--set", "dimension"), "--set 'dimension' has no '=': write name=value"),
        ("user,item\na,b\n", ("--config", "none.toml"), "none.toml cannot be read"),
        ("user,item\na,b\n", ("--reader", "spotify"), "there is no reader 'spotify': use one of movielens-100k"),
    ],
)
def test_invalid_input_is_one_line(
    content: str, options: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.csv").write_bytes(content.encode("latin-1"))
    assert error_of("train", "events.csv", "--out", "model", *options).startswith(line)
    assert not (tmp_path / "model").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert error_of("train", tmp_path / "none.csv", "--out", tmp_path / "model").endswith(
        "does not exist: check the path"
    )


def test_a_file_that_may_not_be_read(events_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may read everything
    assert error_of("train", events_file, "--out", tmp_path / "model").endswith(
        "may not be read by this user: change its permissions"
    )


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("none/model", "none is not a folder; create it first"),
        ("file", "is a file: give the name of a folder"),
        ("shop", "holds something else (lorentzrec dataset): choose another name, or remove it first"),
        ("pretend", "holds something else (lorentzrec synthetic shop): choose another name, or remove it first"),
        ("pictures", "holds files but no manifest.json, so it was not written by lorentzrec: choose another name"),
    ],
)
def test_where_no_model_can_be_written(out: str, line: str, tmp_path: Path, events_file: Path) -> None:
    """Refused before anything is read: the data do not even exist."""
    (tmp_path / "file").touch()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").touch()
    run("prepare", events_file, "--out", tmp_path / "shop")
    run("synthesize", "--out", tmp_path / "pretend", "--customers", "20", "--items", "10", "--interactions", "40")
    before = sorted(tmp_path.rglob("*"))
    assert error_of("train", "none.csv", "--out", tmp_path / out).endswith(line)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_read_only_place(events_file: Path) -> None:
    """/proc takes no new folder, not even from the superuser."""
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc here")
    assert error_of("train", events_file, "--out", "/proc/model").startswith("cannot write /proc/model: ")


def test_a_dataset_needs_no_columns(shop: Path, tmp_path: Path) -> None:
    line = error_of("train", shop, "--out", tmp_path / "model", "--time-column", "time")
    assert line == f"{shop} is a dataset and needs no --time-column, which is for event files: leave it out"


def test_a_damaged_dataset(events_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop")
    damaged = tmp_path / "shop" / "items.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    line = error_of("train", tmp_path / "shop", "--out", tmp_path / "model")
    assert line.endswith("items.parquet is not as it was written: prepare the dataset again with --force")
