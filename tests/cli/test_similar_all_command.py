"""`lorentzrec similar` and `similar-all`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lorentzrec import TrainingConfig, load, train
from lorentzrec.synthetic.shop import synthetic_shop
from tests.cli.command_line import error_of, run, run_json


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("similar") / "model"
    data = synthetic_shop(customers=60, items=40, interactions=400).interactions()
    train(data, TrainingConfig(dimension=3, epochs=1, memory="auto"), progress=False).save(folder)
    return folder


def test_one_table_has_the_lists_of_all_items(model: Path, tmp_path: Path) -> None:
    trained = load(model)
    result = run_json("similar-all", model, "--out", tmp_path / "similar.parquet", "-k", "3", "--reasons")
    assert (result["items"], result["rows"], result["short"]) == (40, 120, 0)
    table = pl.read_parquet(tmp_path / "similar.parquet")
    assert table.columns == ["item", "rank", "similar", "score", "because"]
    first = trained.item_ids[0]
    assert table.filter(pl.col("item") == first)["similar"].to_list() == trained.similar_items(first, 3).ids
    because = table["because"][0].to_list()
    assert [reason["item"] for reason in because] == [first]


def test_only_allowed_and_live_items_are_listed(model: Path, tmp_path: Path) -> None:
    from contextlib import closing

    from lorentzrec.serving.stores.address import open_store

    trained = load(model)
    first, second, third, *_ = map(str, trained.item_ids)
    store = f"file:{tmp_path / 'store'}"
    with closing(open_store(store, create=True)) as opened:
        opened.set_live_items([first, second])
    out = tmp_path / "live.csv"
    options = ("--store", store, "--allow", f"{second},{third}", "--titles", titles(tmp_path))
    result = run_json("similar-all", model, "--out", out, *options)
    assert (result["rows"], result["short"]) == (39, 40)
    table = pl.read_csv(out)
    assert table["similar"].unique().to_list() == [second]
    assert table["title"].unique().to_list() == ["Tea"]
    nothing = error_of("similar-all", model, "--out", tmp_path / "no.csv", "--store", store, "--allow", third)
    assert nothing.startswith("no item of the model is live and allowed")
    assert not (tmp_path / "no.csv").exists()


def titles(folder: Path) -> Path:
    pl.DataFrame({"item": [f"p{number:04d}" for number in range(40)], "title": ["Tea"] * 40}).write_csv(
        folder / "titles.csv"
    )
    return folder / "titles.csv"


def test_faults_are_found_before_the_work(model: Path, tmp_path: Path) -> None:
    assert "CSV has no lists" in error_of("similar-all", model, "--out", tmp_path / "a.csv", "--reasons")
    assert "unknown format" in error_of("similar-all", model, "--out", tmp_path / "a.xls")
    assert "already exists" in error_of("similar-all", model, "--out", titles(tmp_path))


def test_similar_with_reasons_and_an_allow_list(model: Path) -> None:
    trained = load(model)
    first, second, *_ = map(str, trained.item_ids)
    assert [one["id"] for one in run_json("similar", model, first, "--allow", str(second))["items"]] == [second]
    shown = run_json("similar", model, first, "-k", "1", "--reasons")["items"][0]["because"]
    assert [reason["item"] for reason in shown] == [first]
    assert "because of" in run("similar", model, first, "--reasons").stdout
