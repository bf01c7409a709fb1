"""Models with attributes: saved and loaded, and with items added by attributes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.geometry import euclidean, hyperboloid
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.attribute_points import AttributePoints
from lorentzrec.points.memory import build_memory
from lorentzrec.points.placement import EVENTS_OF_ATTRIBUTES
from tests.model.hand_made_models import hand_made, points

GEOMETRIES = ["hyperboloid", "euclidean"]


def with_attributes(geometry: str = "hyperboloid", targets: str = "separate", *, memory: bool = False) -> Model:
    model = hand_made(geometry=geometry, targets=targets)
    ids = [str(one) for one in model.item_ids]
    frame = pl.DataFrame({"item": ids, "brand": [f"b{int(one[1:]) % 3}" for one in ids], "price": range(30)})
    of_items = ItemAttributes.from_frame(frame, ["brand", "price:number"]).align(model.items)
    own = points(len(of_items.values), geometry, 7)
    of_histories = points(len(of_items.values), geometry, 8) if targets == "separate" else own
    made = model.with_points(attributes=AttributePoints.of_items(of_items, own, of_histories, 4.0))
    if memory:
        assert model.histories is not None
        made = made.with_points(memory=build_memory(model.histories, 10, ordered=True).with_weight(0.1))
    return made


def new_items(**columns: list[str | float | None]) -> pl.DataFrame:
    return pl.DataFrame({"item": ["n1", "n2"], "brand": ["b0", "b1"], "price": [3.0, 29.0], **columns})


def slow_midpoint(given: list[np.ndarray], weights: list[float], geometry: str) -> np.ndarray:
    total = np.asarray(weights, np.float64) @ np.array(given, np.float64)
    divisor = sum(weights) if geometry == "euclidean" else np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum())
    return np.asarray(total / divisor)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("targets", ["shared", "separate"])
def test_an_item_without_events_is_the_midpoint_of_its_attributes(geometry: str, targets: str) -> None:
    model = with_attributes(geometry, targets)
    grown = model.add_items(attributes=new_items())
    assert model.attributes is not None
    assert len(grown.items) == len(model.items) + 2
    assert (grown.item_points[: len(model.items)] == model.item_points).all()
    values = model.attributes.values
    rows = [values.row("brand=b0"), next(row for row in range(len(values)) if "price=2.9 to" in str(values.id(row)))]
    for found, of in (
        (grown.item_points, model.attributes.points),
        (grown.history_points, model.attributes.history_points),
    ):
        expected = slow_midpoint([of[row] for row in rows], [1, 1], geometry)
        np.testing.assert_allclose(found[grown.items.row("n1")], expected, rtol=1e-5, atol=1e-5)
    assert grown.item_counts[-2:].tolist() == [0, 0]
    assert grown.recommend(["n1", "i3"], k=3)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_more_events_the_less_attributes_count(geometry: str) -> None:
    model = with_attributes(geometry)
    rows = [("u3", "n1", 1000), ("u5", "n1", 1001), ("u5", "i6", 1003)]
    users, items, times = zip(*rows, strict=True)
    events = Interactions.from_pairs(list(users), list(items), list(times))
    by_events, by_attributes = model.add_items(events=events), model.add_items(attributes=new_items()[:1])
    both = model.add_items(events=events, attributes=new_items()[:1])
    weights = [2, EVENTS_OF_ATTRIBUTES]
    points, histories = (
        [getattr(one, side)[-1] for one in (by_events, by_attributes)] for side in ("item_points", "history_points")
    )
    np.testing.assert_allclose(both.history_points[-1], slow_midpoint(histories, weights, geometry), rtol=1e-5)
    # As far from the centre as both are on average, in the direction of their midpoint, which is nearer to it.
    distance = (hyperboloid if geometry == "hyperboloid" else euclidean).distance
    centre = slow_midpoint([*model.history_points], model.item_counts.tolist(), geometry)
    middle, found = slow_midpoint(points, weights, geometry), both.item_points[-1].astype(np.float64)
    mean = np.average([distance(centre, point.astype(np.float64)) for point in points], weights=weights)
    assert distance(centre, middle) < mean
    assert distance(centre, found) == pytest.approx(mean, rel=1e-5)
    assert distance(middle, found) == pytest.approx(mean - distance(centre, middle), rel=1e-4)
    assert both.item_counts[-1] == 2


def test_the_memory_has_new_items_next_to_items_that_are_alike() -> None:
    model = with_attributes(memory=True)
    grown = model.add_items(attributes=new_items())
    assert grown.memory is not None
    assert model.memory is not None
    assert len(grown.memory) > len(model.memory)
    new = grown.memory.columns >= len(model.items)
    assert grown.memory.values[new].max() <= np.quantile(model.memory.values, 0.25) * (1 + 1e-6)
    assert NoteKind.ALIKE_IN_MEMORY in {note.kind for note in grown.note_records}
    without = grown.with_points(memory=replace(grown.memory, weight=0.0))
    item = model.items.id(int(np.repeat(np.arange(len(grown.items)), np.diff(grown.memory.offsets))[new][0]))
    assert sum(grown.score(["n1", "n2"], [item]).values()) > sum(without.score(["n1", "n2"], [item]).values())


def test_what_is_left_out_is_noted() -> None:
    model = with_attributes()
    frame = pl.DataFrame({"item": ["i1", "n1", "n2"], "brand": ["b0", "b0", "unheard of"], "price": [1.0, 2.0, None]})
    grown = model.add_items(attributes=frame)
    assert grown.items.id(-1) == "n1"
    assert grown.attributes is not None
    assert grown.item_attributes is not None
    assert grown.item_attributes.counts.tolist() == [2] * 31
    kinds = {note.kind: note.values for note in grown.note_records}
    assert kinds[NoteKind.KNOWN_ITEMS] == {"items": 1}
    assert kinds[NoteKind.ITEMS_NOT_PLACED]["items"] == 1
    assert any("1 value is not known to the model" in note for note in grown.notes)


def test_attributes_that_do_not_fit_are_refused() -> None:
    model = with_attributes()
    with pytest.raises(InputError, match="trained without attributes"):
        model.with_points(attributes=None).add_items(attributes=new_items())
    with pytest.raises(InputError, match="neither events nor attributes"):
        model.add_items()
    with pytest.raises(InputError, match="none of the new items can be placed"):
        model.add_items(attributes=pl.DataFrame({"item": ["n"], "brand": ["x"], "price": [None]}))
    with pytest.raises(InputError, match="knows all items"):
        model.add_items(attributes=pl.DataFrame({"item": ["i1"], "brand": ["b0"], "price": [1.0]}))
    with pytest.raises(InputError, match="'n' occurs twice"):
        model.add_items(attributes=pl.DataFrame({"item": ["n", "n"], "brand": ["b0", "b1"], "price": [1.0, 1.0]}))


def test_a_model_without_histories_takes_items_by_attributes(tmp_path: Path) -> None:
    with_attributes().save(tmp_path / "model", histories=False)
    grown = load(tmp_path / "model").add_items(attributes=new_items())
    assert grown.recommend(["n1"], k=2)


@pytest.mark.parametrize("targets", ["shared", "separate"])
def test_a_saved_model_has_its_attributes(targets: str, tmp_path: Path) -> None:
    model = with_attributes(targets=targets)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert model.attributes is not None
    assert loaded.attributes is not None
    assert loaded.item_attributes is not None
    assert model.item_attributes is not None
    assert loaded.item_attributes.columns == model.item_attributes.columns
    assert loaded.item_attributes.digest == model.item_attributes.digest
    assert (loaded.attributes.points == model.attributes.points).all()
    assert (loaded.attributes.history_points == model.attributes.history_points).all()
    both = [one.add_items(attributes=new_items()).item_points for one in (model, loaded)]
    assert (both[0] == both[1]).all()


def test_attributes_of_other_items_are_damage(tmp_path: Path) -> None:
    model = with_attributes()
    assert model.attributes is not None
    with pytest.raises(InputError, match="do not fit its items"):
        model.with_points(attributes=replace(model.attributes, points=model.attributes.points[1:]))
    wrong = replace(model.attributes, rows=model.attributes.rows + 1000)
    model.with_points(attributes=wrong).save(tmp_path / "model")
    with pytest.raises(ArtifactError, match="do not fit the items and attributes"):
        load(tmp_path / "model")


def test_the_file_of_a_damaged_attribute_point_is_named(tmp_path: Path) -> None:
    model = with_attributes()
    assert model.attributes is not None
    points = model.attributes.history_points.copy()
    points[2, 0] = 9.0
    model.with_points(attributes=replace(model.attributes, history_points=points)).save(tmp_path / "model")
    message = r"attributes\.safetensors is damaged \(row 2 of history_points is not on the hyperboloid"
    with pytest.raises(ArtifactError, match=message):
        load(tmp_path / "model")
