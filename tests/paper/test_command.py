"""`lorentzrec reproduce`: an experiment that cannot run does not stop the others, and sets the exit code."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lorentzrec.errors import TrainingError
from lorentzrec_paper.experiment import EXPERIMENTS, Context, Experiment, Outcome, Table, Verdict
from tests.cli.command_line import error_of, start
from tests.cli.command_line import run as command


@pytest.fixture
def ratings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one small data set: 30 customers, and each item more popular than the next."""
    monkeypatch.delenv("LORENTZREC_DATA", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"u{user},i{item},5.0,{user + item}" for user in range(30) for item in range(21 + user)]
    (folder / "ratings_Automotive.csv").write_text("\n".join(lines))
    return folder


def test_the_first_line_of_the_help_names_every_experiment() -> None:
    about = " ".join(command("reproduce", "--help").stdout.split()).partition("Run experiments of the paper:")[2]
    assert [name for name in EXPERIMENTS if name not in about.partition(".")[0]] == []


def test_networks_of_the_available_data(ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    result = command("reproduce", "networks", "--data", ratings, "--out", out, "--quick", "--json")
    (found,) = json.loads(result.stdout)
    own = next(table for table in found["tables"] if table["title"].startswith("Power laws"))
    # 30 customers with 21, 22, ... 50 items: item i has as many customers as have more than i items
    links = sum(range(21, 51))
    assert own["rows"][0][:5] == ["Automotive", 30, 50, links / (30 * 50), links / 50]
    assert found["verdicts"][0]["status"] == "not measured"
    assert "Toys and Games needs" in result.stderr
    assert {path.name for path in (out / "networks").glob("*.svg")} == {"bipartite.svg", "degrees.svg"}
    again = command("reproduce", "networks", "--data", ratings, "--out", out, "--quick", "--json")
    assert json.loads(again.stdout)[0]["parts"]["made"] == 0


def test_damaged_data_are_reported_and_the_others_run(ratings: Path, tmp_path: Path) -> None:
    (ratings / "ratings_Toys_and_Games.csv").write_text("a,b\n")
    out = tmp_path / "results"
    result = command("reproduce", "networks", "--data", ratings, "--out", out, "--quick", code=2)
    assert "Automotive" in result.stdout
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: networks: Toys and Games: ")
    assert last.endswith("links.html")


def test_networks_without_data_draw_the_small_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LORENTZREC_DATA", raising=False)
    result = command("reproduce", "networks", "--out", tmp_path, "--quick")
    assert "holds" in result.stdout
    assert (tmp_path / "networks" / "bipartite.svg").is_file()


def test_unknown_names_and_folders_are_refused(tmp_path: Path) -> None:
    assert error_of("reproduce", "everything").startswith("there is no experiment 'everything': use networks")
    assert "is not a folder" in error_of("reproduce", "networks", "--data", tmp_path / "nowhere")


def needs_none(context: Context) -> Outcome:
    return Outcome((Table("Empty", (), ()),), (Verdict("it runs", "here", "it ran", "holds"),))


def test_an_experiment_without_its_data_does_not_stop_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_data(context: Context) -> Outcome:
        context.find_data(["movielens-20m"])
        return Outcome((), ())

    found = [Experiment("films", "Films", needs_data), Experiment("free", "Free", needs_none)]
    monkeypatch.setattr("lorentzrec_paper.experiment.find_experiments", lambda names: found)
    monkeypatch.delenv("LORENTZREC_DATA", raising=False)
    result = command("reproduce", "films", "free", "--out", tmp_path, "--json", code=2)
    assert [one["experiment"] for one in json.loads(result.stdout)] == ["free"]
    assert result.stderr.splitlines()[-1].startswith("error: films: MovieLens 20M needs ml-20m/ratings.csv")


def test_an_experiment_whose_training_fails_does_not_stop_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverges(context: Context) -> Outcome:
        raise TrainingError("a point became infinite in epoch 1: lower learning_rate")

    found = [Experiment("wild", "Wild", diverges), Experiment("free", "Free", needs_none)]
    monkeypatch.setattr("lorentzrec_paper.experiment.find_experiments", lambda names: found)
    monkeypatch.setattr("lorentzrec_paper.experiment.EXPERIMENTS", ("wild", "free"))
    result = command("reproduce", "wild", "free", "--out", tmp_path, "--json", code=1)
    assert [one["experiment"] for one in json.loads(result.stdout)] == ["free"]
    assert "it runs" in (tmp_path / "summary.md").read_text()
    assert result.stderr.splitlines()[-1].startswith("error: wild: a point became infinite in epoch 1")


def test_a_killed_run_resumes(tmp_path: Path) -> None:
    arguments = ("reproduce", "simulations", "--quick", "--out", tmp_path)
    process = start(*arguments)
    parts = tmp_path / "simulations" / "parts"
    while not list(parts.glob("[!.]*.json")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    finished = len(list(parts.glob("[!.]*.json")))
    assert finished >= 1
    (found,) = json.loads(command(*arguments, "--json").stdout)
    assert found["parts"]["kept"] == finished
    assert found["parts"]["made"] == 6 - finished
