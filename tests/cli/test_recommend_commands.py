"""`lorentzrec recommend`, `similar`, `recommend-all` and `export`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, TrainingConfig, load, train
from lorentzrec.batch import recommending
from lorentzrec.errors import InputError
from lorentzrec.model.card import write_card
from lorentzrec.model.reality_check import CheckedSystem, RealityCheck, describe_check
from tests.cli.command_line import SETTINGS, error_of, run, run_json


def ids(result: dict[str, list[dict[str, object]]]) -> list[object]:
    return [item["id"] for item in result["items"]]


def test_recommendations_are_those_of_the_library(model: Path) -> None:
    expected = load(model).recommend(history=["i1", "i2"], k=4)
    result = run_json("recommend", model, "--history", "i1,i2", "-k", "4")
    assert result == {
        "items": [{"id": item, "score": score} for item, score in expected],
        "model": str(model),
        "fallback": None,
    }


def test_a_known_customer(model: Path) -> None:
    assert ids(run_json("recommend", model, "--user", "u17")) == load(model).recommend(user="u17").ids


def test_what_may_and_may_not_be_recommended(model: Path, tmp_path: Path) -> None:
    (tmp_path / "stock.txt").write_text("i3\ni4\n\ni5\ni1\n")
    query = ("recommend", model, "--history", "i1", "--history", "i2", "--allow", f"@{tmp_path / 'stock.txt'}")
    assert set(ids(run_json(*query, "--exclude-seen"))) == {"i3", "i4", "i5"}
    assert set(ids(run_json(*query, "--exclude-seen", "--exclude", "i4, i9"))) == {"i3", "i5"}
    assert set(ids(run_json(*query, "--no-exclude-seen"))) == {"i1", "i3", "i4", "i5"}


def test_options_of_the_service(model: Path, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(
        "item,title,category\n" + "".join(f"i{number},Item {number},{'ab'[number % 2]}\n" for number in range(30))
    )
    query = ("recommend", model, "--history", "i1,i2", "--context", "i5", "-k", "4", "--titles", tmp_path / "items.csv")
    options = ("--categories", "b", "--diversity", "0.5", "--reasons")
    expected = load(model).recommend(
        ["i1", "i2"],
        k=4,
        context=["i5"],
        diversity=0.5,
        reasons=True,
        categories=["b"],
        item_table=pl.read_csv(tmp_path / "items.csv"),
    )
    assert expected.reasons is not None
    assert run_json(*query, *options)["items"] == [
        {
            "id": item,
            "score": score,
            "title": f"Item {str(item)[1:]}",
            "because": [reason._asdict() for reason in because],
        }
        for (item, score), because in zip(expected, expected.reasons, strict=True)
    ]
    assert all(int(str(item)[1:]) % 2 for item in expected.ids)
    shown = run(*query, *options).stdout
    assert "because of" in shown
    assert "% near)" in shown.replace("%, near", "% near")
    assert "because of" not in run(*query).stdout


def test_an_id_may_hold_a_comma(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text('user,item\na,"x,y"\na,x\nb,y\nb,"x,y"\n')
    run("train", tmp_path / "events.csv", "--out", tmp_path / "model", *SETTINGS)
    assert set(ids(run_json("recommend", tmp_path / "model", "--history", "x,y"))) == {"x", "y"}
    assert ids(run_json("recommend", tmp_path / "model", "--history", "x,y", "--history", "y,x")) == []


def test_ids_that_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,item\n1,10\n1,20\n2,20\n2,30\n")
    run("train", tmp_path / "events.csv", "--out", tmp_path / "model", *SETTINGS)
    assert set(ids(run_json("recommend", tmp_path / "model", "--history", "10"))) == {20, 30}
    assert ids(run_json("recommend", tmp_path / "model", "--user", "1")) == [30]
    assert error_of("similar", tmp_path / "model", "ten").startswith("the item 'ten' is not a whole number")


def test_unknown_history_items_are_said(model: Path) -> None:
    assert run_json("recommend", model, "--history", "i1,zz")["fallback"] == "partial: 1 of 2 history items is unknown"
    result = run("recommend", model, "--history", "zz", "-k", "2")
    assert result.stderr == "note: popular: none of the 1 history items is known (ids here are strings)\n"


def test_titles_stand_in_the_table_as_they_are(model: Path, titles_file: Path) -> None:
    """Brackets are no markup."""
    best = load(model).similar_items("i3", 1).ids[0]
    rows = run("similar", model, "i3", "-k", "1", "--titles", titles_file).stdout.splitlines()
    assert rows[-1].split() == ["1", best, "Item", f"[{str(best)[1:]}]", rows[-1].split()[-1]]
    titled = run_json("similar", model, "i3", "-k", "1", "--titles", titles_file)
    assert titled["items"][0]["title"] == f"Item [{str(best)[1:]}]"


EVIL = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe \x7f"


def test_titles_cannot_steer_the_terminal(model: Path, tmp_path: Path) -> None:
    """Escape sequences, the other control characters and those that turn the direction are printed, not obeyed."""
    items = [str(item) for item in load(model).item_ids]
    pl.DataFrame({"item": items, "title": [f"{EVIL}é\u200d {item}" for item in items]}).write_parquet(
        tmp_path / "titles.parquet"
    )
    shown = run("similar", model, "i3", "-k", "1", "--titles", tmp_path / "titles.parquet").stdout
    assert set(shown) & set(EVIL) <= set("[2J];0owned 31mgp.x")
    assert r"\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe \x7fé" in " ".join(shown.split())
    as_json = run("similar", model, "i3", "-k", "1", "--titles", tmp_path / "titles.parquet", "--json").stdout
    assert not set(as_json) & set("\x1b\x07\x9b\x7f\u202e")
    assert json.loads(as_json)["items"][0]["title"].startswith(f"{EVIL}é")


def test_ids_and_paths_in_errors_and_notes_cannot_steer_the_terminal(model: Path) -> None:
    line = error_of("similar", f"{model}\x1b[2J\udce9", "i3")
    assert r"model\x1b[2J\udce9" in line
    note = run("recommend", model, "--history", "i1,\x1b[2Jzz", "-k", "2").stderr
    assert "\x1b" not in note


def test_titles_of_a_dataset(model: Path, events_file: Path, titles_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop", "--items", titles_file)
    titled = run_json("similar", model, "i3", "--titles", tmp_path / "shop")
    assert all(item["title"] == f"Item [{item['id'][1:]}]" for item in titled["items"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("recommend", "MODEL", "--history", "i1", "-k", "0"), "k is 0: give a whole number of items, 1 or more"),
        (("recommend", "MODEL"), "recommend takes either --history or --user: give one of them"),
        (("recommend", "MODEL", "--history", "i1", "--user", "u1"), "recommend takes either --history or --user"),
        (("recommend", "MODEL", "--history", "i1", "--diversity", "2"), "diversity is 2.0: give a number from 0 to 1"),
        (
            ("recommend", "MODEL", "--history", "i1", "--categories", "a"),
            "--categories needs a table with the",
        ),
        (("recommend", "MODEL", "--user", "nobody"), "the user 'nobody' is not known to this model"),
        (("recommend", "MODEL", "--history", "@none.txt"), "none.txt cannot be read as a list of ids"),
        (("recommend", "MODEL", "--history", "i1", "--titles", "none.csv"), "none.csv does not exist: check the path"),
        (("similar", "MODEL", "zz"), "the item 'zz' is not known to this model (ids here are strings): check the id"),
        (("similar", "none", "i1"), "there is no model folder none: check the path, or train and save a model first"),
        (("recommend-all", "MODEL", "--out", "none/all.parquet"), "cannot write none/all.parquet: "),
        (("recommend-all", "MODEL", "--out", "all.parquet", "-k", "0"), "k is 0: give a whole number of items"),
        (
            ("recommend-all", "MODEL", "--out", "s3://bucket/all", "--engine", "spark", "--force"),
            "--force overwrites tables on this machine, not s3://bucket/all: remove it or choose another name",
        ),
        (
            ("export", "MODEL", "--out", "points", "--to", "faiss"),
            "there is no format 'faiss': use one of parquet, csv, jsonl, npz",
        ),
        (("export", "MODEL", "--out", "none/points.parquet"), "cannot write none/points.parquet: "),
    ],
)
def test_invalid_queries(
    arguments: tuple[str, ...], line: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert error_of(*(str(model) if text == "MODEL" else text for text in arguments)).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_model(model: Path, tmp_path: Path) -> None:
    load(model).save(tmp_path / "model")
    points = tmp_path / "model" / "points.safetensors"
    points.write_bytes(points.read_bytes()[:-4])
    line = error_of("recommend", tmp_path / "model", "--history", "i1")
    assert "points.safetensors is damaged (its checksum is not the one in manifest.json)" in line


def test_a_model_without_histories_knows_nobody(model: Path, tmp_path: Path) -> None:
    load(model).save(tmp_path / "model", histories=False)
    assert error_of("recommend", tmp_path / "model", "--user", "u1").startswith("this model has no training histories")
    assert "so it has no customers" in error_of("recommend-all", tmp_path / "model", "--out", tmp_path / "all.parquet")


@pytest.mark.parametrize("users_per_block", [7, 60, 1000])
def test_everybody_gets_what_each_would_get(
    users_per_block: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", users_per_block)
    result = run_json("recommend-all", model, "--out", tmp_path / "all.parquet", "-k", "3", "--exclude", "i7")
    found = pl.read_parquet(tmp_path / "all.parquet")
    trained = load(model)
    assert trained.users is not None
    expected = [
        (user, rank, item, score)
        for user in trained.users.series
        for rank, (item, score) in enumerate(trained.recommend(user=user, k=3, exclude=["i7"]), start=1)
    ]
    assert found.schema == {"user": pl.String, "rank": pl.Int32, "item": pl.String, "score": pl.Float32}
    assert found.rows() == expected
    assert (result["users"], result["rows"], result["users_without_events"]) == (60, 180, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["all.parquet"]


def test_customers_without_training_are_left_out_and_counted(events_file: Path, tmp_path: Path) -> None:
    run("prepare", events_file, "--out", tmp_path / "shop", "--split", "held_out_customers:share=0.3")
    run("train", tmp_path / "shop", "--out", tmp_path / "model", *SETTINGS)
    result = run_json("recommend-all", tmp_path / "model", "--out", tmp_path / "all.parquet")
    assert result["users_without_events"] > 0
    assert result["users"] + result["users_without_events"] == 60
    assert pl.read_parquet(tmp_path / "all.parquet")["user"].n_unique() == result["users"]


def test_parts_that_are_written_are_not_computed_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 20)
    computed = []
    part = recommending.BatchRecommender.part

    def interrupted(self: recommending.BatchRecommender, number: int) -> pl.DataFrame:
        computed.append(number)
        if computed == [0, 1]:
            raise InputError("the power fails: try again")
        return part(self, number)

    monkeypatch.setattr(recommending.BatchRecommender, "part", interrupted)
    command = ("recommend-all", model, "--out", tmp_path / "all.parquet", "-k", "2")
    assert error_of(*command) == "the power fails: try again"
    assert [path.name for path in tmp_path.iterdir()] == [".all.parquet.unfinished"]
    run(*command)
    assert computed == [0, 1, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["all.parquet"]
    run("recommend-all", model, "--out", tmp_path / "whole.parquet", "-k", "2")
    assert pl.read_parquet(tmp_path / "all.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))
    computed[:] = []
    assert error_of(*command, "--force") == "the power fails: try again"
    run("recommend-all", model, "--out", tmp_path / "all.parquet", "-k", "3", "--force")  # parts of k = 2 do not fit
    assert pl.read_parquet(tmp_path / "all.parquet").height == 180


def test_a_failure_leaves_the_older_file(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.parquet"
    run("recommend-all", model, "--out", out, "-k", "1")
    before = out.read_bytes()
    assert error_of("recommend-all", model, "--out", out) == (
        f"{out} already exists: choose another name, or overwrite it with --force"
    )
    error_of("recommend-all", model, "--out", out, "-k", "0", "--force")
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def as_table(path: Path) -> pl.DataFrame:
    if path.suffix == ".csv":
        return pl.read_csv(path)
    return pl.read_ndjson(path) if path.suffix else pl.read_parquet(path / "part-*.parquet")


@pytest.mark.parametrize("name", ["all.csv", "all.jsonl", "all"])
def test_the_name_decides_the_format(name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 25)
    out = tmp_path / name
    run("recommend-all", model, "--out", out, "-k", "2")
    table = as_table(out)
    assert table.columns == ["user", "rank", "item", "score"]
    assert table.height == 120
    assert table["user"].to_list() == [user for user in load(model).users.series for _ in range(2)]  # type: ignore[union-attr]
    error_of("recommend-all", model, "--out", out)
    run("recommend-all", model, "--out", out, "-k", "1", "--force")
    assert as_table(out).height == 60
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("command", ["recommend-all", "export"])
@pytest.mark.parametrize("name", ["all.json", "all.xlsx"])
def test_formats_that_are_not_known(command: str, name: str, model: Path, tmp_path: Path) -> None:
    line = error_of(command, model, "--out", tmp_path / name)
    assert f"unknown format {Path(name).suffix}: end the name in .parquet, .csv, .jsonl" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_files_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "thesis.tex").write_text("...")
    assert "choose another name" in error_of("recommend-all", model, "--out", tmp_path / "all", "--force")
    assert (tmp_path / "all" / "thesis.tex").is_file()


@pytest.mark.parametrize("name", ["points.csv", "points.jsonl", "points"])
def test_exports_in_other_formats(name: str, model: Path, tmp_path: Path) -> None:
    run("export", model, "--out", tmp_path / name)
    table, trained = as_table(tmp_path / name), load(model)
    assert table["id"].to_list() == trained.item_ids
    points = table.select(pl.col("^point_[0-9]+$")) if name.endswith(".csv") else table["point"]
    assert np.allclose(np.array(points.to_numpy().tolist()), trained.item_points, rtol=1e-6)


def test_export_to_parquet(model: Path, tmp_path: Path) -> None:
    assert run_json("export", model, "--out", tmp_path / "points.parquet")["items"] == 30
    table, trained = pl.read_parquet(tmp_path / "points.parquet"), load(model)
    assert table["id"].to_list() == trained.item_ids
    assert np.array_equal(table["point"].to_numpy(), trained.item_points)


def test_export_of_customers(model: Path, tmp_path: Path) -> None:
    assert run_json("export", model, "--customers", "--out", tmp_path / "customers.parquet")["customers"] == 60
    frame = pl.read_parquet(tmp_path / "customers.parquet")
    trained = load(model)
    assert trained.users is not None
    assert frame["id"].to_list() == list(trained.users)
    assert frame["count"].to_list() == [10] * 60
    points = trained.query_points(users=frame["id"].to_list())
    np.testing.assert_array_equal(np.array(frame["point"].to_list(), np.float32), points)
    run("export", model, "--customers", "--out", tmp_path / "customers.npz")
    with np.load(tmp_path / "customers.npz") as arrays:
        np.testing.assert_array_equal(arrays["point"], points)
    line = error_of("export", model, "--customers", "--attributes", "--out", tmp_path / "both.parquet")
    assert line == "--attributes and --customers are two tables: give one of them"


def test_export_of_customers_leaves_out_those_without_events(tmp_path: Path) -> None:
    data = Interactions.from_pairs(list("aabbc"), ["tea", "cup", "cup", "jam", "tea"], times=range(5))
    part = data.select(np.array([True, True, True, True, False]))
    train(part, TrainingConfig(dimension=2, epochs=1, threads=1)).save(tmp_path / "model")
    result = run("export", tmp_path / "model", "--customers", "--out", tmp_path / "customers.csv")
    assert "2 customers are in " in result.stdout
    assert "note: 1 customer has no training event: left out" in result.stderr
    train(part, TrainingConfig(dimension=2, epochs=1, threads=1)).save(tmp_path / "alone", histories=False)
    line = error_of("export", tmp_path / "alone", "--customers", "--out", tmp_path / "more.csv")
    assert line.endswith("save the model with histories=True")


def test_export_to_npz_needs_no_pickle(model: Path, tmp_path: Path) -> None:
    run("export", model, "--to", "npz", "--out", tmp_path / "points.npz")
    trained = load(model)
    with np.load(tmp_path / "points.npz", allow_pickle=False) as arrays:
        assert arrays["id"].tolist() == trained.item_ids
        assert np.array_equal(arrays["count"], trained.item_counts)
        assert np.array_equal(arrays["point"], trained.item_points)
        assert np.array_equal(arrays["history_point"], trained.history_points)


def test_the_card_of_a_model(model: Path, tmp_path: Path) -> None:
    result = run("export", model, "--out", tmp_path / "model-card.md")
    assert result.stdout == f"The card of the model is in {tmp_path / 'model-card.md'}\n"
    card, trained = (tmp_path / "model-card.md").read_text(), load(model)
    assert f"| items | {len(trained.items)} |" in card
    assert f"| digest | {trained.data_digest} |" in card
    assert describe_check(trained)[1:] in card
    assert all(note[1:] in card for note in trained.notes)
    line = error_of("export", model, "--customers", "--out", tmp_path / "card.md")
    assert line.endswith("which has no table: leave out --attributes and --customers")


def test_the_card_has_the_check_of_the_model(model: Path) -> None:
    rows = (
        CheckedSystem(name="this model", ndcg=0.2, recall=0.3),
        CheckedSystem(name="popularity", ndcg=0.1, recall=0.25, difference=0.1, standard_error=0.01, significant=True),
    )
    check = RealityCheck(rows=rows, customers=600, candidates="unseen")
    card = write_card(replace(load(model), check=check), "shop")
    assert "| popularity | 0.1000 | 0.2500 | +0.1000 | yes |" in card
    assert "This model is ahead of the best baseline, popularity (0.1000)" in card
