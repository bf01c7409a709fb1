"""Training that continues from a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.tables import copy_points
from lorentzrec.learning.trainer import train
from lorentzrec.learning.warm_start import EPOCHS, with_items_of
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.memory import build_memory
from tests.learning.grouped_data import grouped, quick

VARIANTS: list[dict[str, Any]] = [
    {},
    {"geometry": "euclidean"},
    {"targets": "shared"},
    {"optimiser": "adam"},
    {"optimiser": "rsgd"},
    {"model": "symmetric", "loss": "softmax"},
    {"model": "symmetric", "loss": "bpr"},
]
DATA = grouped()
OLD = DATA.select(np.asarray(DATA.times) < 1200)


def with_new_items(data: Interactions) -> Interactions:
    """One customer more, and two items more: 100 of group 0, and 101, which is all that the newcomer has."""
    pairs = [(user, item) for user in range(len(data.users)) for item in data.history(user)]
    users, items = (data.users.ids([u for u, _ in pairs]), data.items.ids([i for _, i in pairs]))
    times = np.asarray(data.times).tolist()
    return Interactions.from_pairs([*users, 0, 3, 999], [*items, 100, 100, 101], [*times, 2000, 2001, 2002])


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def started(request: pytest.FixtureRequest) -> Model:
    return train(OLD, quick(**request.param), progress=False)


def test_the_run_begins_with_the_points_and_sums_of_the_model(started: Model) -> None:
    data = with_items_of(started, with_new_items(DATA))
    run = TrainingRun(data, start=started)
    points, count = copy_points(run.item_table, run.config), len(started.items)
    np.testing.assert_allclose(points[:count], started.item_points, rtol=1e-6)
    if started.optimiser_state is not None:
        np.testing.assert_array_equal(run.item_table.squared[:count], started.optimiser_state["items_squared"])
        assert not run.item_table.squared[count:].any()
    if started.user_points is not None:
        assert started.users is not None
        rows = started.users.rows(data.users.series)
        users = copy_points(run.history_table, run.config)
        np.testing.assert_allclose(users[rows >= 0], started.user_points[rows[rows >= 0]], rtol=1e-6)
        assert np.isfinite(users).all()
    placed = [note.values for note in run.notes if note.kind is NoteKind.ITEMS_PLACED]
    assert placed == [{"items": 1, "others": 1}]
    if started.config.model == "asymmetric":
        added = started.add_items(events=data.select(np.asarray(data.times) >= 2000))
        np.testing.assert_allclose(points[data.items.row(100)], added.item_points[-1], rtol=0.2, atol=0.2)


def test_all_variants_train_on(started: Model) -> None:
    model = train(with_new_items(DATA), start=started, progress=False)
    assert len(model.items) == len(started.items) + 2
    assert model.item_ids[: len(started.items)] == started.item_ids
    assert len(model.record) == EPOCHS
    assert model.record[0].learning_rate == pytest.approx(started.record[-1].learning_rate)
    assert model.record[-1].learning_rate == pytest.approx(started.record[-1].learning_rate)
    assert model.newest_time == 2002
    assert model.config.dimension == 6
    assert {note.kind for note in model.note_records} >= {NoteKind.NOT_NEWER}


def test_state_survives_the_disk_and_models_without_it_say_so(tmp_path: Path) -> None:
    model = train(OLD, quick(), progress=False)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.optimiser_state is not None
    assert model.optimiser_state is not None
    assert set(again.optimiser_state) == {"items_squared", "items_mass_squared", "histories_squared"}
    np.testing.assert_array_equal(again.optimiser_state["items_squared"], model.optimiser_state["items_squared"])
    assert again.newest_time == model.newest_time
    first, second = (train(DATA, start=one, progress=False) for one in (model, again))
    np.testing.assert_array_equal(first.item_points, second.item_points)
    assert NoteKind.FRESH_OPTIMISER not in {note.kind for note in first.note_records}
    without = train(DATA, start=replace(model, optimiser_state=None), progress=False)
    assert NoteKind.FRESH_OPTIMISER in {note.kind for note in without.note_records}


def test_settings_of_the_config_win() -> None:
    model = train(OLD, quick(), progress=False)
    changed = train(DATA, quick(epochs=1, learning_rate=0.01), start=model, progress=False)
    assert (len(changed.record), changed.record[0].learning_rate) == (1, 0.01)
    assert changed.config.scale == model.config.scale


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimension": 7}, "the start model has dimension=6, and the config dimension=7"),
        ({"geometry": "euclidean"}, "the start model has geometry=hyperboloid"),
        ({"model": "symmetric"}, "the start model has model=asymmetric"),
        ({"targets": "shared"}, "the start model has targets=separate"),
        ({"curvature": 4.0}, "the start model has curvature=None, and the config curvature=4"),
    ],
)
def test_another_kind_of_points_is_an_error(options: dict[str, Any], message: str) -> None:
    model = train(OLD, quick(), progress=False)
    with pytest.raises(ConfigError, match=message):
        train(DATA, quick(**options), start=model, progress=False)


def test_data_of_other_items_are_an_error() -> None:
    model = train(OLD, quick(), progress=False)
    other = Interactions.from_pairs([1, 1, 2, 2], [501, 502, 502, 503], [1, 2, 3, 4])
    with pytest.raises(InputError, match="the data share no item with the start model"):
        train(other, start=model, progress=False)


def test_the_memory_keeps_its_weight() -> None:
    memory = build_memory(OLD, 20, ordered=True).with_weight(0.125)
    model = train(OLD, quick(memory="auto"), progress=False).with_points(memory=memory)
    more = train(with_new_items(DATA), start=model, progress=False)
    assert more.memory is not None
    assert (more.memory.weight, more.memory.item_count) == (0.125, len(more.items))
    assert NoteKind.MEMORY_KEPT in {note.kind for note in more.note_records}
