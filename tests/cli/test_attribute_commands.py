"""Attributes on the command line: prepare, train, add-items and evaluate --cold."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.model.artifact import load
from tests.cli.command_line import SETTINGS, error_of, make, run, run_json


@pytest.fixture(scope="module")
def items_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("items") / "items.csv"
    rows = [f"i{number},Group {number // 10} > Even {number % 2},brand {number % 4}" for number in range(40)]
    path.write_text("\n".join(["item,category,brand", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def described(events_file: Path, items_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--items", items_file, "--attributes", "category,brand:values", "--split", "leave_last_out")
    return make(tmp_path_factory.mktemp("datasets") / "described", "prepare", events_file, *options)


@pytest.fixture(scope="module")
def informed(described: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "informed", "train", described, *SETTINGS)


def test_a_dataset_has_the_columns_of_attributes(described: Path) -> None:
    dataset = open_dataset(described)
    attributes = dataset.attributes()
    assert attributes is not None
    assert [(column.name, column.kind) for column in attributes.columns] == [("category", "path"), ("brand", "values")]
    assert attributes.counts.tolist() == [3] * 30
    assert {"category", "attribute:category", "attribute:brand"} <= set(dataset.items.columns)
    assert any("in category (path), brand (values)" in note for note in dataset.manifest["notes"])
    only = dataset.attributes(["brand"])
    assert only is not None
    assert len(only.values) == 4


def test_a_column_is_named_once(described: Path, events_file: Path, items_file: Path, tmp_path: Path) -> None:
    refused = "the column 'category' of attributes is named 2 times: name it once"
    options = ("--items", items_file, "--attributes", "category,category:path")
    assert refused in error_of("prepare", events_file, *options, "--out", tmp_path / "data")
    assert refused in error_of("train", described, "--attributes", "category,category", "--out", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_training_uses_all_of_them_by_default(described: Path, informed: Path, tmp_path: Path) -> None:
    model = load(informed)
    assert model.attributes is not None
    assert len(model.attributes.values) == 13
    run("train", described, "--out", tmp_path / "brands", "--attributes", "brand", *SETTINGS)
    brands = load(tmp_path / "brands").attributes
    assert brands is not None
    assert len(brands.values) == 4
    run("train", described, "--out", tmp_path / "plain", "--attributes", "none", *SETTINGS)
    assert load(tmp_path / "plain").attributes is None
    symmetric = run("train", described, "--out", tmp_path / "symmetric", "--set", "model=symmetric", *SETTINGS)
    line = f"note: model=symmetric does not use the attributes of {described}: only model=asymmetric does"
    assert symmetric.stderr.splitlines().count(line) == 1


def test_items_are_added_by_their_attributes(informed: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("item,category,brand\nnew1,Group 1 > Even 0,brand 2\nnew2,Group 9,brand 9\n")
    result = run_json("add-items", informed, "--attributes", file, "--out", tmp_path / "grown")
    assert result["new_items"] == 1
    assert any("1 new item is left out" in note for note in result["notes"])
    assert "new1" in load(tmp_path / "grown").items
    assert "neither events nor attributes" in error_of("add-items", informed, "--out", tmp_path / "other")


def test_a_new_item_that_is_no_number_where_all_are_is_one_line(tmp_path: Path) -> None:
    events, items, data = tmp_path / "events.csv", tmp_path / "items.csv", tmp_path / "shop"
    events.write_text(
        "user,item,time\n" + "".join(f"{row % 9},{(row % 9 + row // 9) % 20},{row}\n" for row in range(90))
    )
    items.write_text("item,brand\n" + "".join(f"{row},{row % 2}\n" for row in range(20)))
    run("prepare", events, "--out", data, "--items", items, "--attributes", "brand:values")
    run("train", data, "--out", tmp_path / "model", *SETTINGS)
    add = ("add-items", tmp_path / "model", "--attributes", items, "--out", tmp_path / "grown")
    items.write_text("item,brand\n28,0\nsofa,1\n")
    assert error_of(*add) == (
        f"{items}: the item 'sofa' is not a whole number, and all items of the model are: check it"
    )
    items.write_text("item,brand\n28,0\n")
    assert run_json(*add)["new_items"] == 1


def test_an_update_and_a_start_train_attributes_on(
    informed: Path, model: Path, events_file: Path, items_file: Path, tmp_path: Path
) -> None:
    events, items, data = tmp_path / "events.csv", tmp_path / "items.csv", tmp_path / "tomorrow"
    new = [f"u{number},{item},{900 + number}" for number in range(0, 30, 3) for item in ("i3", "new", "newer")]
    events.write_text(events_file.read_text() + "\n".join(new) + "\n")
    items.write_text(items_file.read_text() + "new,Group 1 > Even 0,brand 2\nnewer,Group 9,brand 2\n")
    options = ("--items", items, "--attributes", "category,brand:values", "--ties", "file")
    run("prepare", events, "--out", data, *options)
    run("update", informed, data, "--out", tmp_path / "updated", "--set", "epochs=1")
    updated = load(tmp_path / "updated")
    before, after, of_items = load(informed).attributes, updated.attributes, updated.item_attributes
    assert before is not None
    assert after is not None
    assert of_items is not None
    assert after.values == before.values
    assert not (after.points == before.points).all()
    described = of_items.counts[of_items.items.rows(["i3", "new", "newer"])]
    assert described.tolist() == [3, 3, 1]
    start = ("train", data, "--set", "epochs=1", "--start")
    run(*start, informed, "--out", tmp_path / "brands", "--attributes", "brand")
    brands = load(tmp_path / "brands").item_attributes
    assert brands is not None
    assert brands.counts[brands.items.rows(["i3", "new", "newer"])].tolist() == [1, 1, 1]
    run(*start, informed, "--out", tmp_path / "without", "--attributes", "none")
    assert load(tmp_path / "without").attributes is None
    run(*start, model, "--out", tmp_path / "first")
    assert load(tmp_path / "first").attributes is not None


def test_cold_items_are_evaluated_next_to_baselines(described: Path, informed: Path) -> None:
    result = run_json("evaluate", informed, described, "--cold", "--share", "0.3")
    systems = {one["system"]: one for one in result["systems"]}
    assert set(systems) == {
        "model",
        "model, points alone",
        "category midpoint",
        "attribute neighbours",
        "category popularity",
        "random",
        "without attributes",
    }
    assert systems["model"]["cold"]["counts"]["events"] > 0
    assert systems["random"]["warm"] is None
    assert systems["without attributes"]["cold"] is None
    assert (
        "without the events of 30% of the items"
        in run("evaluate", informed, described, "--cold", "--share", "0.3").stdout
    )


def test_cold_items_are_evaluated_without_training_on_held_out_customers(
    informed: Path, events_file: Path, items_file: Path, tmp_path: Path
) -> None:
    split = ("--split", "held_out_customers:share=0.3")
    run("prepare", events_file, "--out", tmp_path / "data", "--items", items_file, "--attributes", "brand", *split)
    trained, held_out = (
        int((open_dataset(tmp_path / "data").interactions(part).lengths > 0).sum()) for part in ("train", "test")
    )
    assert trained > 2 * held_out
    result = run("evaluate", informed, tmp_path / "data", "--cold", "--share", "0.3", "--json")
    assert f" of {trained} users " in result.stderr
    systems = {one["system"]: one for one in json.loads(result.stdout)["systems"]}
    users = [systems["model"][kind]["counts"]["users"] for kind in ("cold", "warm")]
    assert sum(users) == held_out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--cold", "--metrics", "ndcg"), "--cold takes no --metrics: leave it out"),
        (("--cold", "--baselines"), "--cold takes no --baselines: leave it out"),
        (("--cold", "--users", "5"), "--cold takes no --users: leave it out"),
        (("--cold", "--negatives", "100"), "--cold takes no --negatives: leave it out"),
        (("--cold", "-k", "5", "-k", "10"), "--cold evaluates lists of one length: give one -k, not 2"),
        (("--share", "0.2"), "evaluate without --cold takes no --share: leave it out"),
    ],
)
def test_options_that_an_evaluation_would_not_use_are_refused(
    options: tuple[str, ...], line: str, described: Path, informed: Path
) -> None:
    assert error_of("evaluate", informed, described, *options) == line


def test_attributes_are_exported_and_drawn(informed: Path, model: Path, tmp_path: Path) -> None:
    result = run_json("export", informed, "--attributes", "--out", tmp_path / "points.parquet")
    assert result["attributes"] == 13
    frame = pl.read_parquet(tmp_path / "points.parquet")
    assert frame.filter(pl.col("id") == "category=Group 1")["count"].item() == 10
    drawn = run_json("plot", "attributes", informed, "--out", tmp_path / "map.png", "--labels", "5")
    assert (tmp_path / "map.png").stat().st_size > 1000
    assert -1 <= drawn["depth_and_radius"] <= 1
    other = ("plot", "attributes", model, "--out", tmp_path / "other.png")
    assert "trained without attributes" in error_of(*other)
    for unused in (("--items", "shop"), ("--category-column", "group"), ("--customers", "3")):
        assert error_of(*other, *unused) == f"plot attributes takes no {unused[0]}: leave it out"


def test_bad_input_is_one_line(
    described: Path, informed: Path, model: Path, shop: Path, events_file: Path, items_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    prepare = ("prepare", events_file, "--out", out, "--items", items_file, "--attributes")
    assert "has no column 'colour' for the attribute, only item, category, brand" in error_of(*prepare, "colour")
    assert "are columns of an item file" in error_of("prepare", events_file, "--out", out, "--attributes", "brand")
    circle = tmp_path / "circle.csv"
    circle.write_text("item,category\ni1,A > B > A\ni2,A\n")
    options = ("--items", circle, "--attributes", "category")
    assert "has a category twice" in error_of("prepare", events_file, "--out", out, *options)
    assert not out.exists()
    train = ("train", described, "--out", out)
    assert "has no attributes 'colour', it has category, brand" in error_of(*train, "--attributes", "colour")
    assert "it has none" in error_of("train", shop, "--out", out, "--attributes", "brand")
    assert "is not a dataset" in error_of("train", events_file, "--out", out, "--attributes", "brand")
    assert "attributes with model=symmetric" in error_of(*train, "--attributes", "brand", "--set", "model=symmetric")
    assert "--attributes is for --engine local" in error_of(*train, "--attributes", "brand", "--engine", "keras")
    assert "has no attributes" in error_of("evaluate", model, shop, "--cold")
    assert "trained without attributes" in error_of("add-items", model, "--attributes", items_file, "--out", out)


def test_a_comparison_uses_the_attributes_of_the_dataset(described: Path, tmp_path: Path) -> None:
    options = (*SETTINGS, "--seeds", "1", "--systems", "hyperboloid", "--systems", "popularity", "--metric", "ndcg@5")
    shared = tmp_path / "comparison"
    shown = run("compare", described, "--out", shared, *options)
    assert "attributes of items are used by hyperboloid: category, brand" in shown.stderr.replace("\n", " ")
    result = run_json("compare", described, "--out", shared, *options)
    assert result["attributes"] == ["category", "brand"]
    without = run_json("compare", described, "--attributes", "none", "--out", shared, *options)
    assert without["attributes"] == []
    assert without["systems"][0]["value"] != result["systems"][0]["value"], "runs of both are kept apart"
    assert without["systems"][1]["value"] == result["systems"][1]["value"], "popularity knows no attributes"


def test_a_comparison_of_symmetric_models_leaves_attributes_out(described: Path, tmp_path: Path) -> None:
    options = (*SETTINGS, "--set", "model=symmetric", "--seeds", "1", "--systems", "hyperboloid")
    result = run("compare", described, "--out", tmp_path / "comparison", *options)
    assert "the attributes of the dataset are not used" in result.stderr.replace("\n", " ")
    refused = "attributes with model=symmetric: only asymmetric models have them"
    assert refused in error_of("compare", described, "--attributes", "brand", "--out", tmp_path / "other", *options)


def test_numbers_of_attributes_are_brands_and_categories(tmp_path: Path) -> None:
    numbers = {str(item): [item % 2, 9, 5 + item % 3, 5 + item % 3] for item in range(1, 13)}
    (tmp_path / "Shop_item2attributes.json").write_text(json.dumps(numbers))
    lists = "\n".join(f"{user} {user} {user % 12 + 1} {(user + 4) % 12 + 1}" for user in range(1, 13))
    (tmp_path / "Shop.txt").write_text(lists + "\n")
    options = ("--reader", "adjacency-ordered", "--items", tmp_path / "Shop_item2attributes.json")
    made = make(
        tmp_path / "data", "prepare", tmp_path / "Shop.txt", *options, "--attributes", "brand:values,category:path"
    )
    attributes = open_dataset(made).attributes()
    assert attributes is not None
    wanted = {"brand=0", "brand=1", "category=9", *(f"category=9 > {number}" for number in (5, 6, 7))}
    assert set(attributes.values.series) == wanted


@pytest.mark.parametrize("text", ["[1, 2]", '{"1": 3}', '{"1": []}', '{"1": ["a"]}', "{"])
def test_damaged_numbers_of_attributes(tmp_path: Path, events_file: Path, text: str) -> None:
    file = tmp_path / "x_item2attributes.json"
    file.write_text(text)
    line = error_of("prepare", events_file, "--items", file, "--attributes", "brand", "--out", tmp_path / "data")
    assert line == f"{file} is not an object of lists of numbers: get it again"
