"""Outfits of a trained model: learned from its orders, kept by everything that makes a model of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lorentzrec
from lorentzrec import InputError, Interactions, TrainingConfig, train, update
from lorentzrec.model.model import Model

CONFIG = TrainingConfig(dimension=2, epochs=1, seed=1, validation=0)
TABLE = pl.DataFrame(
    {
        "item": ["coat-a", "coat-b", "shoe-a", "shoe-b", "hat-a", "hat-b"],
        "category": ["coat", "coat", "shoe", "shoe", "hat", "hat"],
        "price": [90.0, 80.0, 50.1, 20.2, 30.3, 9.9],
    }
)


def make_orders(customers: range, *, extra: str = "") -> Interactions:
    """Each customer has a style, a or b, and two orders: a coat with a shoe, and a coat with a hat."""
    rows = [
        (f"c{number}", f"{kind}-{'ab'[number % 2]}", 86_400 * (number + order))
        for number in customers
        for order, kinds in enumerate((("coat", "shoe"), ("coat", "hat"), *((("hat", extra),) if extra else ())))
        for kind in kinds
    ]
    users, items, times = zip(*rows, strict=True)
    return Interactions.from_pairs(users, items, times)


@pytest.fixture(scope="module")
def model() -> Model:
    return train(make_orders(range(40)), CONFIG, progress=False)


def test_the_complements_of_each_style_are_found(model: Model) -> None:
    for style in "ab":
        found = model.complete([f"coat-{style}"], k=2, item_table=TABLE, reasons=True)
        assert sorted(found.ids) == [f"hat-{style}", f"shoe-{style}"]
        assert found.fallback is None
        assert found.reasons is not None
        assert {reason.item for reasons in found.reasons for reason in reasons} == {f"coat-{style}"}


def test_options_are_those_of_a_recommendation(model: Model) -> None:
    def ids(**options: object) -> list[str]:
        return model.complete(["coat-a"], item_table=TABLE, **options).ids  # type: ignore[arg-type, return-value]

    assert ids(exclude=["shoe-a"], slots=["shoe"]) == ["shoe-b"]
    assert ids(allow=["hat-b"]) == ["hat-b"]
    assert ids(where={"price": {"max": 20}}) == ["hat-b"]
    assert sorted(ids(budget=80.4)) == ["hat-a", "shoe-a"], "50.1 + 30.3 is more in floats"
    assert set(ids(per_category=2)) == {"shoe-a", "shoe-b", "hat-a", "hat-b"}
    assert len(ids(k=1)) == 1


@pytest.mark.parametrize(
    ("basket", "options", "message"),
    [
        ([], {}, "the basket is empty"),
        ("coat-a", {}, "the basket is 'coat-a', not a list"),
        (["tie-a"], {}, "'tie-a' is not known"),
        (["coat-a"], {"slots": ["tie"]}, "'tie' is no category"),
        (["coat-a"], {"slots": []}, "slots is empty"),
        (["coat-a"], {"budget": 5, "item_table": TABLE.drop("price")}, "no column 'price'"),
        (["coat-a"], {"item_table": TABLE.drop("category")}, "no column 'category'"),
        (["coat-a"], {"item_table": None}, "give item_table="),
        (["coat-a"], {"k": 0}, "k"),
    ],
)
def test_bad_input_gets_one_line(model: Model, basket: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as found:
        model.complete(basket, **{"item_table": TABLE, **options})  # type: ignore[arg-type]
    assert "\n" not in str(found.value)


def test_complements_are_learned_if_there_are_orders() -> None:
    singles = Interactions.from_pairs(["u", "u", "v", "v"], ["a", "b", "a", "c"], [1, 2, 3, 4])
    assert train(singles, CONFIG, progress=False).complements is None
    with pytest.raises(InputError, match="these events are in none"):
        train(singles, CONFIG, complements=True, progress=False)
    orders = make_orders(range(4))
    alone = train(orders, CONFIG, complements=False, progress=False)
    assert alone.complements is None
    unlearned = alone.complete(["coat-a"], item_table=TABLE).fallback
    assert unlearned == "not_learned: the model has not learned from orders what is bought together"


def test_files_updates_and_new_items_keep_them(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = lorentzrec.load(tmp_path / "model")
    options = {"item_table": TABLE, "k": 4}
    assert list(loaded.complete(["coat-a"], **options)) == list(model.complete(["coat-a"], **options))  # type: ignore[arg-type]

    more = make_orders(range(60), extra="bag")
    table = pl.concat([TABLE, pl.DataFrame({"item": ["bag-a"], "category": ["bag"], "price": [5.0]})])
    updated = update(model, more, progress=False)
    assert updated.complements is not None
    assert "bag-a" in updated.complete(["hat-a"], item_table=table).ids
    without = update(model.with_points(complements=None), more, progress=False)
    assert without.complements is None, "an update learns what its start model has learned"

    kinds = ["coat-a", "shoe-a", "hat-a"]
    days = [86_400 * (100 + number) for number in range(30)]
    singles = Interactions.from_pairs([f"s{number // 3}" for number in range(30)], kinds * 10, days)
    forgotten = update(model, singles, progress=False)
    assert forgotten.complements is None
    assert any("fewer than half of these events have an order" in note for note in forgotten.notes)

    events = Interactions.from_pairs(["n"] * 2, ["coat-a", "bag-a"], [10**9, 10**9])
    added = model.add_items(events=events)
    assert added.complements is not None
    assert added.complements.item_count == len(added.items)
    slots = added.complete(["coat-a"], slots=["bag"], item_table=table)
    assert slots.ids == ["bag-a"], "the only one of its category"
    assert np.isfinite(slots.scores).all()
