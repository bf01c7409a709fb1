"""The reality check on the command line: the first line of `train` and `update`, and `publish --require check`."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec import load
from lorentzrec.serving.stores.address import open_store
from tests.cli.command_line import SETTINGS, error_of, make, run, run_json

UNTRAINED = ("--set", "learning_rate=1e-6", "--set", "initialisation=cube", "--set", "memory=none")


@pytest.fixture(scope="module")
def popular_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every other event of 200 customers is with one of ten hits, everything else is chance."""
    draw, folder = random.Random(3), tmp_path_factory.mktemp("popular")
    items = [draw.randrange(10) if draw.random() < 0.5 else draw.randrange(10, 300) for _ in range(1600)]
    lines = [f"u{number % 200},i{item},{number}" for number, item in enumerate(items)]
    (folder / "events.csv").write_text("\n".join(["user,item,time", *lines]) + "\n")
    return make(folder / "shop", "prepare", folder / "events.csv", "--split", "leave_last_two")


@pytest.fixture(scope="module")
def loser(popular_shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that did not learn anything."""
    return make(tmp_path_factory.mktemp("losers") / "loser", "train", popular_shop, *SETTINGS, *UNTRAINED)


def test_a_loss_is_in_the_first_line(popular_shop: Path, tmp_path: Path) -> None:
    result = run("train", popular_shop, "--out", tmp_path / "model", *SETTINGS, *UNTRAINED)
    first, *rest = result.stdout.splitlines()
    assert first.startswith("This model loses to ")
    assert "popularity" in first
    assert rest[0].strip() == "Reality check on held-out events of 100 customers"
    rows = {line.split()[0]: line.split()[-1] for line in rest if line.split()[-1:] in (["loses"], ["wins"], ["level"])}
    assert rows["popularity"] == "loses"
    assert "loses to" not in result.stderr, "once is enough"


def test_json_has_the_check(popular_shop: Path, tmp_path: Path) -> None:
    result = run_json("train", popular_shop, "--out", tmp_path / "model", *SETTINGS, *UNTRAINED)
    check = load(tmp_path / "model").check
    assert check is not None
    assert next(iter(result)) == "summary"
    assert result["summary"] == str(check) == result["notes"][0]
    assert result["check"]["customers"] == 100
    assert [row["name"] for row in result["check"]["rows"]] == [row.name for row in check.rows]
    popularity = result["check"]["rows"][1]
    assert popularity["significant"]
    assert popularity["difference"] == pytest.approx(check.ours.ndcg - popularity["ndcg"])


def test_a_model_without_a_check_says_how_to_get_one(events_file: Path, tmp_path: Path) -> None:
    result = run("train", events_file, "--out", tmp_path / "model", *SETTINGS)
    first = result.stdout.splitlines()[0]
    assert first.startswith("This model was not checked against popularity, since no events were held out")
    assert "set memory=auto" in first
    assert "lorentzrec evaluate --baselines" in first
    assert run_json("train", events_file, "--out", tmp_path / "other", *SETTINGS)["check"] is None


def test_an_update_prints_the_check_of_its_start_model(tmp_path: Path) -> None:
    draw = random.Random(1)
    lines = [f"u{number % 300},i{number % 3 * 10 + draw.randrange(10)},{number}" for number in range(3600)]
    for name, count in (("old", 3000), ("all", 3600)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,item,time", *lines[:count]]) + "\n")
    run("train", tmp_path / "old.csv", "--out", tmp_path / "model", *SETTINGS)
    result = run("update", tmp_path / "model", tmp_path / "all.csv", "--out", tmp_path / "next")
    assert ", before the update" in result.stdout.splitlines()[0]
    assert "Reality check on new events of" in result.stdout
    updated = load(tmp_path / "next").check
    assert updated is not None
    assert updated.events == "new"


def test_a_publish_that_requires_the_check(loser: Path, model: Path, events_file: Path, tmp_path: Path) -> None:
    store = f"file:{tmp_path / 'store'}"
    publish = ("--to", store, "--no-map", "--require")
    for requirement in ("check", "check>=popularity"):
        line = error_of("publish", loser, *publish, requirement)
        assert f"nothing is published to {store}, since {requirement} is missed: NDCG@10 0." in line
    run("train", events_file, "--out", tmp_path / "unchecked", *SETTINGS)
    assert "the model has no reality check" in error_of("publish", tmp_path / "unchecked", *publish, "check")
    with closing(open_store(store)) as opened:
        assert opened.versions() == []
        assert opened.activations() == []
    checked = load(model).check
    assert checked is not None
    assert not checked.lost_to
    gate = run_json("publish", model, *publish, "check")["gate"]
    assert ("check", "met") in [(one["requirement"], one["status"]) for one in gate]
    forced = run_json("publish", loser, *publish, "check", "--force")
    assert ("check", "missed") in [(one["requirement"], one["status"]) for one in forced["gate"]]
