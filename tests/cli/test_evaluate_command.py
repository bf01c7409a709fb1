"""`lorentzrec evaluate`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lorentzrec import Interactions, evaluate, load
from lorentzrec.data.splitting import before_test, split
from lorentzrec.evaluation.baselines import ItemKNN, Popularity
from lorentzrec.evaluation.protocol import Recommender
from lorentzrec.geometry.triangles import mean_angle_sum
from tests.cli.command_line import SETTINGS, error_of, run, run_json


def test_the_numbers_are_those_of_the_library(model: Path, shop: Path) -> None:
    result = run_json("evaluate", model, shop, "-k", "3", "-k", "5", "--negatives", "10", "--baselines")
    trained, test = load(model), Interactions.from_dataset(shop, "test")
    assert trained.histories is not None
    systems: dict[str, Recommender] = {
        "model": trained,
        "popularity": Popularity(trained.histories),
        "item-kNN": ItemKNN(trained.histories),
    }
    parts = {name: Interactions.from_dataset(shop, name) for name in ("train", "validation", "test")}
    histories = before_test(parts)
    assert result["systems"].keys() == systems.keys()
    for name, system in systems.items():
        full = evaluate(system, test, "full", [3, 5], histories=histories)
        sampled = evaluate(system, test, "sampled", [3, 5], negatives=10, histories=histories)
        assert result["systems"][name] == {"full": full.to_dict(), "sampled": sampled.to_dict()}
    assert result["notes"] == []


def test_both_protocols_stand_side_by_side(model: Path, shop: Path) -> None:
    result = run("evaluate", model, shop, "--negatives", "15", "--baselines")
    lines = result.stdout.splitlines()
    assert lines[0].strip() == "60 held-out items of 60 customers, with 95 % intervals"
    assert lines[1].split("  ")[0] == "metric"
    assert "full ranking" in lines[1]
    assert "sampled, 15 negatives" in lines[1]
    rows = [line.split() for line in lines[3:6]]
    assert [row[0] for row in rows] == ["hr@10", "popularity", "item-kNN"]
    assert all(line.count("[") == 2 for line in lines[3:6]), "an interval for each protocol"
    assert "note: the popularity of the held-out items themselves" in result.stderr


def test_how_much_curvature_is_used(model: Path, shop: Path, tmp_path: Path) -> None:
    degrees = run_json("evaluate", model, shop, "--metrics", "gini")["triangle_degrees"]
    assert degrees == pytest.approx(mean_angle_sum(load(model).item_points))
    assert 0 < degrees < 180
    assert f"are {degrees:.1f} degrees together, in flat space 180" in run("evaluate", model, shop).stdout
    run("train", shop, "--out", tmp_path / "flat", *SETTINGS, "--set", "geometry=euclidean")
    assert run_json("evaluate", tmp_path / "flat", shop, "--metrics", "gini")["triangle_degrees"] is None


def test_chosen_metrics(model: Path, shop: Path) -> None:
    result = run_json("evaluate", model, shop, "--metrics", "map, gini")["systems"]["model"]
    assert list(result["full"]["metrics"]) == ["map@10", "gini@10"]
    assert list(result["sampled"]["metrics"]) == ["map@10"]
    shown = run("evaluate", model, shop, "--metrics", "gini").stdout
    assert "gini@10" in shown
    assert "sampled" not in shown
    assert error_of("evaluate", model, shop, "--metrics", "auc").startswith("there is no metric 'auc' of full ranking")


def test_candidates_may_have_been_bought_before(model: Path, shop: Path) -> None:
    result = run_json("evaluate", model, shop, "--candidates", "all", "--baselines")["systems"]
    assert result.keys() == {"model", "popularity", "item-kNN", "own frequency"}
    parts = {name: Interactions.from_dataset(shop, name) for name in ("train", "validation", "test")}
    expected = evaluate(load(model), parts["test"], candidates="all", histories=before_test(parts))
    assert result["model"] == {"full": expected.to_dict()}
    assert error_of("evaluate", model, shop, "--candidates", "some").startswith("there are no candidates 'some'")


def test_histories_go_up_to_the_test() -> None:
    """ann: tea, cup, pot, jam; the last two are held out, and the histories are everything before them."""
    data = Interactions.from_pairs(["ann"] * 4 + ["bob"], ["tea", "cup", "pot", "jam", "tea"], times=[1, 2, 3, 4, 5])
    train_part, validation, test = split(data, "leave_last_two")
    histories = before_test({"train": train_part, "validation": validation, "test": test})
    assert histories.history_ids("ann") == ["tea", "cup", "pot"]
    assert histories.history_ids("bob") == ["tea"]
    assert histories.times is not None
    assert sorted(histories.times) == [1, 2, 3, 5]
    assert before_test({"train": train_part, "test": test}) is train_part
    assert before_test({"train": train_part, "history": validation, "test": test}) is validation


def test_new_customers_are_asked_by_their_own_histories(events_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop", "--split", "held_out_customers:share=0.3,seed=1")
    run("train", tmp_path / "shop", "--out", tmp_path / "model", *SETTINGS)
    report = run_json("evaluate", tmp_path / "model", tmp_path / "shop", "--negatives", "15")["systems"]["model"][
        "full"
    ]
    assert 5 < report["counts"]["users"] < 35
    assert report["counts"]["without_history"] == 0


def test_a_model_that_saw_the_test_is_named(events_file: Path, shop: Path, tmp_path: Path) -> None:
    run("train", events_file, "--out", tmp_path / "model", *SETTINGS)
    result = run("evaluate", tmp_path / "model", shop, "--negatives", "15")
    assert "note: the model was not trained on this dataset's training part, so held-out events may be" in result.stderr


def test_held_out_events_in_a_file(tmp_path: Path) -> None:
    """The ids of the test all spell numbers, those of training do not: they are text as in the model."""
    lines = [f"{user},{item},{time}" for time, (user, item) in enumerate([(1, 7), (1, 8), (2, 8), (2, 7), ("x", "z")])]
    (tmp_path / "train.csv").write_text("\n".join(["user,item,time", *lines]))
    (tmp_path / "test.csv").write_text("user,item\n1,z\n2,z\n")
    pl.DataFrame({"who": [1, 2], "what": [8, 8]}).write_parquet(tmp_path / "test.parquet")
    run("train", tmp_path / "train.csv", "--out", tmp_path / "model", *SETTINGS)
    options = ("-k", "1", "--negatives", "1")
    from_text = run_json("evaluate", tmp_path / "model", tmp_path / "test.csv", *options)["systems"]["model"]["full"]
    assert from_text["counts"] | {"users": 2, "unknown_items": 0, "without_history": 0} == from_text["counts"]
    assert from_text["metrics"]["hr@1"]["value"] == 1.0, "z is the only item that 1 and 2 do not have"
    columns = ("--user-column", "who", "--item-column", "what")
    numbers = run_json("evaluate", tmp_path / "model", tmp_path / "test.parquet", *columns, *options)
    assert numbers["systems"]["model"]["full"]["counts"]["in_history"] == 2


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("-k", "0"), "k=[0]: give one or more whole numbers of at least 1"),
        (("-k", "20", "--negatives", "10"), "k=20 with 10 negatives always hits"),
        (("--users", "0"), "users=0: give 1 or more"),
    ],
)
def test_invalid_options(model: Path, shop: Path, options: tuple[str, ...], line: str) -> None:
    assert error_of("evaluate", model, shop, *options).startswith(line)


def test_a_dataset_without_test_part(model: Path, events_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop")
    line = error_of("evaluate", model, tmp_path / "shop")
    assert line.endswith("has no test part, only train: prepare it with --split leave_last_out")


def test_a_model_without_histories(model: Path, shop: Path, tmp_path: Path) -> None:
    load(model).save(tmp_path / "model", histories=False)
    assert run_json("evaluate", tmp_path / "model", shop, "--negatives", "15")["systems"].keys() == {"model"}
    line = error_of("evaluate", tmp_path / "model", shop, "--baselines")
    assert line.endswith("was saved without the histories that baselines need: leave --baselines out")


def test_a_folder_that_is_no_model(shop: Path) -> None:
    assert error_of("evaluate", shop, shop).endswith("is not the manifest of a model: give the folder of a model")
