"""Training that continues from a model whose points are composed of attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec import update
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import InputError
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.learning.warm_start import with_items_of
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.attribute_points import compose, decompose
from tests.learning.grouped_data import grouped, quick

DATA = grouped()
OLD = DATA.select(np.asarray(DATA.times) < 1200)
NEW = 100
"""An item of group 1 that three customers of it have."""


def frame_of(ids: list[int], **columns: Any) -> pl.DataFrame:
    groups = [1 if item == NEW else item // 20 for item in ids]
    return pl.DataFrame({"item": ids, "group": [f"g{group}" for group in groups], **columns})


def frame() -> pl.DataFrame:
    return frame_of(DATA.items.series.to_list())


def with_new_item() -> Interactions:
    users = [*DATA.users.ids(DATA.user_rows), 1, 4, 7]
    items = [*DATA.items.ids(DATA.item_rows), NEW, NEW, NEW]
    return Interactions.from_pairs(users, items, [*np.asarray(DATA.times).tolist(), 2000, 2001, 2002])


@pytest.fixture(
    scope="module", params=[{}, {"geometry": "euclidean"}, {"targets": "shared"}, {"optimiser": "adam"}], ids=str
)
def start(request: pytest.FixtureRequest) -> Model:
    return train(OLD, quick(**request.param), attributes=frame(), progress=False)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
def test_own_vectors_are_found_from_points(geometry: str) -> None:
    model = train(OLD, quick(geometry=geometry, epochs=1), attributes=frame(), progress=False)
    assert model.attributes is not None
    config, random = model.config, np.random.default_rng(0)
    points = model.item_points.copy()
    points[:, config.hyperbolic * 1 :] = random.normal(0, 1.5, points[:, config.hyperbolic * 1 :].shape)
    if config.hyperbolic:
        points[:, 0] = np.sqrt(1 + np.square(points[:, 1:]).sum(axis=1))
    attributes, vectors = model.item_attributes, model.attributes.points
    assert attributes is not None
    weight, curved = config.attribute_weight, config.hyperbolic
    own = decompose(points, attributes, vectors, weight=weight, hyperbolic=curved)
    assert not np.allclose(own, points, atol=0.1)
    known = np.ones(len(points), bool)
    again = compose(own, known, attributes, vectors, weight=weight, hyperbolic=curved)
    np.testing.assert_allclose(again, points, rtol=1e-4, atol=1e-4)


def test_the_run_begins_with_the_points_and_sums_of_the_model(start: Model) -> None:
    data = with_items_of(start, with_new_item())
    colours = [["red", "blue"][item % 2] for item in data.items.series.to_list()]
    run = TrainingRun(data, start=start, attributes=frame_of(data.items.series.to_list(), colour=colours))
    begun, count = run._model(run._points()), len(start.items)
    for now, before in (
        (begun.item_points, start.item_points),
        (begun.history_points, start.history_points),
    ):
        np.testing.assert_allclose(now[:count], before, rtol=1e-4, atol=1e-5)
    assert begun.attributes is not None
    assert start.attributes is not None
    values = begun.attributes.values.series.to_list()
    assert values == ["group=g0", "group=g1", "group=g2", "colour=blue", "colour=red"]
    np.testing.assert_allclose(begun.attributes.points[:3], start.attributes.points, rtol=1e-6)
    # New attributes are between their items, not at their initial points.
    assert np.ptp(begun.attributes.points[3:], axis=0).max() > 0
    added = start.add_items(events=data.select(np.asarray(data.times) >= 2000), attributes=frame_of([NEW]))
    np.testing.assert_allclose(begun.item_points[-1], added.item_points[-1], rtol=0.05, atol=0.05)
    assert start.optimiser_state is not None
    for side, table in run._tables().items():
        own, of_attributes = (start.optimiser_state[f"{side}{part}_squared"] for part in ("", "_attributes"))
        np.testing.assert_array_equal(table.squared[:count], own)
        np.testing.assert_array_equal(table.squared[count + 1 : count + 4], of_attributes)
        assert not table.squared[count]
        assert not table.squared[count + 4 :].any()
    assert NoteKind.FRESH_OPTIMISER not in {note.kind for note in run.notes}


def test_an_update_trains_the_attributes_on(start: Model, tmp_path: Path) -> None:
    start.save(tmp_path / "model")
    data = with_new_item()
    updated = update(load(tmp_path / "model"), data, attributes=frame_of(data.items.series.to_list()), progress=False)
    same = update(start, data, attributes=frame_of(data.items.series.to_list()), progress=False)
    np.testing.assert_array_equal(updated.item_points, same.item_points)
    assert updated.attributes is not None
    assert start.attributes is not None
    assert not np.array_equal(updated.attributes.points, start.attributes.points)
    assert updated.item_attributes is not None
    assert updated.item_attributes.counts.tolist() == [1] * 61
    assert [int(item) // 20 for item in updated.recommend(history=[NEW], k=5).ids] == [1] * 5
    again = updated.add_items(attributes=frame_of([119]).with_columns(group=pl.lit("g2")))
    assert 119 in again.recommend(history=[41, 43, 45], k=20).ids


def test_without_a_table_known_items_keep_their_attributes(start: Model) -> None:
    updated = update(start, with_new_item(), progress=False)
    assert updated.attributes is not None
    assert updated.item_attributes is not None
    assert updated.item_attributes.counts.tolist() == [*[1] * 60, 0]
    assert [int(item) // 20 for item in updated.recommend(history=[NEW], k=5).ids] == [1] * 5


def test_items_that_have_no_events_yet_stay_where_attributes_place_them() -> None:
    start = train(OLD, quick(), attributes=frame(), progress=False)
    grown = start.add_items(attributes=frame_of([NEW]))
    run = TrainingRun(with_items_of(grown, DATA), start=grown)
    np.testing.assert_allclose(run._points()["items"][-1], grown.item_points[-1], rtol=1e-4, atol=1e-5)
    updated = update(grown, DATA, progress=False)
    assert NEW in updated.recommend(history=[21, 22, 23], k=20).ids


def test_the_memory_has_items_without_events_next_to_similar_ones() -> None:
    start = train(OLD, quick(memory="auto"), attributes=frame(), progress=False)
    memory = start.memory
    if memory is None:
        from lorentzrec.points.memory import build_memory

        start = start.with_points(memory=build_memory(OLD, 20, ordered=True).with_weight(0.1))
    grown = start.add_items(attributes=frame_of([NEW]))
    updated = update(grown, DATA, progress=False)
    assert updated.memory is not None
    owners = np.repeat(np.arange(61), np.diff(updated.memory.offsets))[updated.memory.columns == 60]
    assert {int(item) // 20 for item in updated.items.ids(owners)} == {1}


def test_attributes_for_a_start_model_without_any() -> None:
    start = train(OLD, quick(), progress=False)
    run = TrainingRun(with_items_of(start, DATA), start=start, attributes=frame())
    np.testing.assert_allclose(run._points()["items"], start.item_points, rtol=1e-4, atol=1e-5)
    assert NoteKind.FRESH_OPTIMISER in {note.kind for note in run.notes}
    with pytest.raises(InputError, match="the model was trained without attributes"):
        update(start, DATA, attributes=frame(), progress=False)


def test_attributes_of_earlier_items_are_kept_and_bins_stay() -> None:
    ids = list(range(40))
    first = ItemAttributes.from_frame(frame_of(ids, price=[float(item) for item in ids], title=["x"] * 40))
    assert [column.name for column in first.columns] == ["group", "price"]
    later = frame_of([0, 50, 51], price=[39.0, 0.5, 1000.0], brand=["a", "a", "b"])
    second = ItemAttributes.from_frame(later, like=first)
    items = first.items.union(second.items)
    both = second.align(items).fill_from(first.align(items))
    assert both.values.series.to_list()[: len(first.values)] == first.values.series.to_list()

    def texts(item: int) -> list[Id]:
        row = both.items.row(item)
        return both.values.ids(both.rows[both.offsets[row] : both.offsets[row + 1]])

    highest = next(value for value in first.values.series if str(value).startswith("price=from"))
    assert texts(39) == ["group=g1", highest]
    assert texts(0) == ["group=g0", highest, "brand=a"]
    assert texts(51) == ["group=g2", highest]
    assert [column.name for column in both.columns] == ["group", "price", "brand"]
