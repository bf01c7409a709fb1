"""`lorentzrec tune` and `lorentzrec compare`, one after the other as people use them."""

from __future__ import annotations

import csv
import signal
import sys
from pathlib import Path

import pytest

from lorentzrec.model.config import TrainingConfig
from tests.cli.command_line import SETTINGS, error_of, run, run_json, start


def test_tune_writes_configs_that_train_and_compare_take(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuning"
    options = ("--out", out, "--metric", "hr@3", *SETTINGS)
    result = run_json("tune", shop, "--trials", "2", *options)
    assert [tuned["geometry"] for tuned in result["results"]] == ["hyperboloid", "euclidean"]
    assert all(len(tuned["trials"]) == 2 and 0 < tuned["value"] <= 1 for tuned in result["results"])
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["geometry"] for row in rows] == ["hyperboloid"] * 2 + ["euclidean"] * 2
    best = TrainingConfig.from_toml(out / "euclidean.toml")
    assert (best.geometry, best.dimension, best.threads) == ("euclidean", 4, None)
    run("train", shop, "--out", tmp_path / "model", "--config", out / "hyperboloid.toml")

    shown = run("tune", shop, "--trials", "3", *options)
    assert "hyperboloid: 3 trials, 0 pruned, 0 failed" in shown.stdout
    assert f"The best settings are in {out / 'hyperboloid.toml'}" in shown.stdout.replace("\n", "")
    assert shown.stderr.count("complete") == 2, "one more of each"
    assert error_of("tune", shop, "--out", out, "--metric", "hr@4", *SETTINGS).endswith("choose another --out")


def test_trials_side_by_side(shop: Path, tmp_path: Path) -> None:
    settings = ("--set", "dimension=4", "--set", "epochs=2", "--set", "threads=2")
    result = run_json("tune", shop, "--out", tmp_path / "tuning", "--trials", "2", "--parallel", "2", *settings)
    assert [len(tuned["trials"]) for tuned in result["results"]] == [2, 2]


def test_a_stopped_search_resumes(shop: Path, tmp_path: Path) -> None:
    options = ("tune", shop, "--out", tmp_path / "tuning", "--geometry", "hyperboloid", *SETTINGS)
    process = start(*options, "--trials", "5000")
    assert process.stderr is not None
    process.stderr.readline()  # the first trial is complete
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "stopped by Ctrl-C"
    assert "run the same command to resume" in rest
    done = len(run_json(*options, "--trials", "1")["results"][0]["trials"])
    assert done >= 1
    result = run_json(*options, "--trials", str(done + 1))["results"][0]
    assert [trial["state"] in ("complete", "pruned") for trial in result["trials"]] == [True] * (done + 1)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--set", "geometry=euclidean"), "--set geometry=... is fixed by --geometry: use that option"),
        (("--set", "dimensions=3"), "there is no hyper-parameter 'dimensions': did you mean 'dimension'?"),
        (("--metric", "auc"), "there is no metric 'auc': use hr, recall, ndcg or mrr, such as ndcg@20"),
    ],
)
def test_impossible_searches(shop: Path, tmp_path: Path, options: tuple[str, ...], line: str) -> None:
    assert error_of("tune", shop, "--out", tmp_path / "tuning", *options) == line


def test_missing_optuna_is_named(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    line = error_of("tune", shop, "--out", tmp_path / "tuning")
    assert line == "tuning needs Optuna: pip install 'lorentzrec[tune]'"
    assert not (tmp_path / "tuning").exists()


def test_compare_shows_tests_and_a_plot_and_keeps_its_runs(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # so that every system has one line
    systems = ["--systems", "hyperboloid,euclidean", "--systems", "popularity"]
    options: list[str | Path] = [
        "--out",
        tmp_path / "compared",
        "--seeds",
        "2",
        "--metric",
        "ndcg@5",
        *SETTINGS,
        *systems,
    ]
    first = run("compare", shop, *options)
    assert first.stderr.count(": begins") == 5
    lines = first.stdout.splitlines()
    header = next(place for place, line in enumerate(lines) if line.startswith("system "))
    rows = lines[header + 2 : header + 5]
    assert [line.split()[0] for line in rows] == ["hyperboloid", "euclidean", "popularity"]
    assert [line.count("p = ") for line in rows] == [0, 2, 2]
    assert {"ndcg@5", "recall@5"} <= set(lines[header].split())
    assert "note: with 2 comparisons, a difference is significant at 5 % if p < 0.025" in first.stderr
    written = {path.name for path in (tmp_path / "compared").iterdir()}
    assert written == {"runs", *(f"comparison.{suffix}" for suffix in ("json", "csv", "md", "tex", "png", "svg"))}
    assert (tmp_path / "compared" / "comparison.tex").read_text().startswith(r"\begin{tabular}{lrrrrr}")
    again = run_json("compare", shop, *options)
    assert [system["name"] for system in again["systems"]] == ["hyperboloid", "euclidean", "popularity"]
    assert len(again["systems"][0]["runs"]) == 2
    assert again["differences"][0]["over_users"]["p_value"] <= 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--config", "settings.toml"), "--config 'settings.toml' names no geometry: write hyperboloid=FILE or"),
        (("--systems", "als"), "there is no system 'als': choose from hyperboloid, euclidean"),
        (("--seeds", "0"), "--seeds is 0: give 1 or more"),
    ],
)
def test_impossible_comparisons(shop: Path, options: tuple[str, ...], line: str) -> None:
    assert error_of("compare", shop, *options).startswith(line)


def test_a_comparison_needs_a_test_part(events_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop")
    assert "has no test part" in error_of("compare", tmp_path / "shop")
    assert "is not a dataset: make one with lorentzrec prepare" in error_of("compare", events_file)


def test_only_a_validation_part_can_be_left_out(events_file: Path, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    run("prepare", events_file, "--out", shop, "--split", "leave_last_out")
    line = error_of("compare", shop, "--leave-validation-out")
    assert line == f"{shop} has no validation part to leave out: prepare it with --split leave_last_two"
