"""Held-out events: which of them choose, which check, and what a run makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lorentzrec import load, train, update
from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.held_out import count_customers, divide, hold_out
from lorentzrec.learning.run import TrainingRun
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.reality_check import describe_check
from tests.learning.grouped_data import grouped, quick

DAY = 86_400
DATA = grouped(users=600, events=6000)


def resolved(data: Interactions, **options: object) -> ResolvedConfig:
    return quick(**options).resolve_for(data)


def customers(data: Interactions | None) -> set[object]:
    assert data is not None
    return set(data.users.ids(np.flatnonzero(data.lengths)))


def orders(users: int) -> Interactions:
    """Customers with three orders of two items each."""
    user = np.repeat(np.arange(users), 6)
    times = np.tile(np.repeat([0, 1, 2], 2), users) * DAY
    items = np.random.default_rng(0).integers(0, 40, len(user))
    return Interactions.from_pairs(user, items, times, orders=np.repeat(np.arange(users * 3), 2))


def test_how_many_customers_have_held_out_events() -> None:
    assert count_customers(DATA, resolved(DATA)) == 60
    unordered = grouped(users=600, events=6000, times=None)
    assert count_customers(unordered, resolved(unordered)) == 120
    shop = orders(600)
    assert resolved(shop).history == "orders"
    assert count_customers(shop, resolved(shop)) == 300
    many = orders(4100)
    assert count_customers(many, resolved(many)) == 2000


@pytest.mark.parametrize("kind", ["ordered", "unordered", "orders"])
def test_one_half_chooses_and_the_other_checks(kind: str) -> None:
    data = {"ordered": DATA, "unordered": grouped(users=600, events=6000, times=None), "orders": orders(600)}[kind]
    config = resolved(data)
    training, held_out = hold_out(data, config, count_customers(data, config))
    assert held_out is not None
    halves = divide(held_out, training, config)
    choosing, checking = customers(halves.choosing), customers(halves.checking)
    assert not choosing & checking
    assert len(choosing) == len(checking)
    assert choosing | checking == customers(held_out)
    assert len(halves.choosing) + len(halves.checking or ()) == len(held_out) == len(data) - len(training)
    again = divide(held_out, training, config)
    assert customers(again.choosing) == choosing, "the same seed gives the same halves"


def test_a_given_validation_part_is_divided_among_known_customers() -> None:
    """The customer `new` has no training event and `lost` no known item, so neither half has them."""
    training = Interactions.from_pairs(["a", "a", "b", "b", "lost"], ["x", "y", "x", "y", "x"])
    part = Interactions.from_pairs(["a", "b", "new", "lost"], ["y", "y", "x", "unknown"])
    halves = divide(part, training, resolved(training))
    assert customers(halves.choosing) | customers(halves.checking) == {"a", "b"}
    strangers = part.select(part.user_rows == part.users.row("new"))
    none = divide(strangers, training, resolved(training))
    assert none.checking is None
    assert customers(none.choosing) == {"new"}


def test_one_customer_chooses_and_nobody_checks() -> None:
    training = Interactions.from_pairs(["a", "a"], ["x", "y"])
    halves = divide(Interactions.from_pairs(["a"], ["y"]), training, resolved(training))
    assert halves.checking is None


def test_training_checks_itself_and_saves_the_check(tmp_path: Path) -> None:
    model = train(DATA, quick(memory="auto"), progress=False)
    assert model.check is not None
    assert model.check.customers == 30
    assert model.check.events == "held-out"
    assert [row.name for row in model.check.rows][:3] == ["this model", "popularity", "recent-popularity"]
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").check == model.check
    assert describe_check(model) == str(model.check)


def test_as_many_events_are_held_out_as_without_a_check() -> None:
    """One customer in ten."""
    run = TrainingRun(DATA, quick(memory="auto"))
    assert len(run.data) - len(run.training_data) == 60


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"memory": "none"}, "no events were held out with memory=none: set memory=auto"),
        ({"optimiser": "rsgd"}, "no events were held out with memory=none: set memory=auto"),
        ({"model": "symmetric"}, "symmetric models hold no events out: give a validation part"),
    ],
)
def test_models_without_held_out_events_are_not_checked(
    options: dict[str, object], reason: str, tmp_path: Path
) -> None:
    model = train(DATA, quick(**options), progress=False)
    assert model.check is None
    assert reason in describe_check(model)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").check is None


def test_few_customers_are_not_checked() -> None:
    model = train(grouped(), quick(), progress=False)
    assert model.check is None
    assert describe_check(model).startswith("this model was not checked against popularity, since")


def test_a_validation_part_also_checks_models_without_memory() -> None:
    learned, last = DATA.split("leave_last_out")
    for options in ({"memory": "none"}, {"model": "symmetric"}):
        model = train(learned, quick(**options), validation=last, progress=False)
        assert model.check is not None
        assert model.check.customers == 300
        assert model.memory is None


def popular_shop() -> Interactions:
    """Every other event is with one of ten hits, everything else is chance: nothing can be better than popularity."""
    random = np.random.default_rng(1)
    users = np.tile(np.arange(600), 8)
    items = np.where(
        random.random(len(users)) < 0.5, random.integers(0, 10, len(users)), random.integers(10, 400, 4800)
    )
    return Interactions.from_pairs(users, items, np.arange(len(users)))


def test_a_model_that_loses_says_so_in_its_first_note() -> None:
    learned, last = popular_shop().split("leave_last_out")
    config = quick(epochs=1, learning_rate=1e-6, memory="none", initialisation="cube")
    model = train(learned, config, validation=last, progress=False)
    assert model.check is not None
    assert "popularity" in [row.name for row in model.check.lost_to]
    first = model.note_records[0]
    assert first.kind is NoteKind.LOST_CHECK
    assert str(first) == model.notes[0] == str(model.check)
    assert str(first).startswith("this model loses to ")


def test_an_update_checks_the_start_model_on_new_events() -> None:
    data = grouped(users=600, events=12_000, times=np.arange(12_000) * 60)
    old = data.select(np.asarray(data.times) < 9_000 * 60)
    model = train(old, quick(), progress=False)
    updated = update(model, data, progress=False)
    assert updated.check is not None
    assert updated.check.events == "new"
    assert updated.check.customers >= 50
    assert "new events of" in str(updated.check)
    few = update(model, data.select(np.asarray(data.times) < 9_020 * 60), progress=False)
    assert few.check is None
    assert "it continues another model" in describe_check(few)
