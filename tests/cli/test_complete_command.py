"""`lorentzrec complete`, on a synthetic shop whose customers buy outfits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorentzrec import TrainingConfig, load, train
from lorentzrec.synthetic.config import SyntheticConfig
from lorentzrec.synthetic.shop import SyntheticShop
from tests.cli.command_line import error_of, run, run_json

SHOP = SyntheticShop(
    SyntheticConfig(customers=60, items=64, interactions=600, order_size=4, outfits=0.6, space="flat", seed=1)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("complete")
    train(SHOP.interactions(), TrainingConfig(dimension=3, epochs=1), progress=False).save(folder / "model")
    SHOP.items.write_csv(folder / "items.csv")
    return folder


def test_a_basket_is_completed(folder: Path) -> None:
    basket = SHOP.events["item"][0]
    options = ("--basket", basket, "--items", folder / "items.csv", "-k", "4")
    result = run_json("complete", folder / "model", *options, "--reasons")
    category_of = dict(SHOP.items.select("item", "category").iter_rows())
    price_of = dict(SHOP.items.select("item", "price").iter_rows())
    categories = [category_of[item["id"]] for item in result["items"]]
    assert len({*categories, category_of[basket]}) == 5
    assert {reason["item"] for item in result["items"] for reason in item["because"]} == {basket}
    cheap = run_json("complete", folder / "model", *options, "--budget", "90", "--per-category", "2")
    assert 0 < sum(price_of[item["id"]] for item in cheap["items"]) <= 90
    slot = SHOP.complements[category_of[basket]]
    one = run_json("complete", folder / "model", *options, "--slots", slot, "--exclude", basket)
    assert {category_of[item["id"]] for item in one["items"]} == {slot}
    table = run("complete", folder / "model", *options, "--reasons", "--titles", folder / "items.csv")
    assert "because of" in table.stdout


def test_training_learns_complements_unless_told_otherwise(tmp_path: Path) -> None:
    SHOP.events.write_csv(tmp_path / "events.csv")
    for number, (option, learned) in enumerate({None: True, "--complements": True, "--no-complements": False}.items()):
        out = tmp_path / str(number)
        run("train", tmp_path / "events.csv", "--out", out, "--set", "epochs=1", *([option] if option else []))
        assert (load(out).complements is not None) == learned
    (tmp_path / "views.csv").write_text("user,item,time\nu,a,1\nu,b,2\nv,a,3\nv,c,4\n")
    refused = error_of("train", tmp_path / "views.csv", "--out", tmp_path / "no", "--complements")
    assert refused.startswith("complements are learned from orders, and these events are in none")


def test_mistakes_are_one_line(folder: Path) -> None:
    def error(*options: str) -> str:
        return error_of("complete", folder / "model", "--items", folder / "items.csv", *options)

    basket = ("--basket", SHOP.events["item"][0])
    assert error("--basket", "p9999").startswith("the item 'p9999' is not known")
    assert error(*basket, "--slots", "Spats").startswith("the slot 'Spats' is no category")
    assert error(*basket, "--budget", "0").startswith("budget=0")
    assert error(*basket, "--per-category", "0").startswith("per_category=0")
