"""Items added to a model without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points.memory import Memory, build_memory
from tests.model.hand_made_models import hand_made, interactions

VARIANTS: list[dict[str, Any]] = [
    {},
    {"targets": "separate"},
    {"geometry": "euclidean", "targets": "separate"},
    {"geometry": "euclidean", "score": "inner"},
    {"model": "symmetric"},
]
EVENTS = [("u3", "new", 1000), ("u3", "i4", 1001), ("u5", "new", 1002), ("u5", "i6", 1003), ("u5", "i7", 1004)]


def events(*rows: tuple[str, str, int]) -> Interactions:
    users, items, times = zip(*rows, strict=True)
    return Interactions.from_pairs(list(users), list(items), list(times))


def midpoint(points: list[NDArray[Any]], weights: list[float], geometry: str) -> NDArray[Any]:
    total = np.zeros(len(points[0]))
    for weight, point in zip(weights, points, strict=True):
        total += weight * point.astype(np.float64)
    divisor = sum(weights) if geometry == "euclidean" else np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum())
    return np.asarray(total / divisor)


def slow_points(model: Model, new: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The item point and the history point of `new` after EVENTS, by their definitions."""
    geometry, recency = model.config.geometry, model.config.recency
    queries, followers, fading = [], [], []
    for user, later in (("u3", ["i4"]), ("u5", ["i6", "i7"])):
        assert model.histories is not None
        assert model.users is not None
        history = model.histories.history_ids(user)
        if model.user_points is not None:
            queries.append(model.user_points[model.users.row(user)])
        else:
            known = [model.history_points[model.items.row(item)] for item in history]
            queries.append(midpoint(known, [recency**age for age in reversed(range(len(history)))], geometry))
        followers += [model.item_points[model.items.row(item)] for item in later]
        fading += [recency**step for step in range(len(later))]
    sources = [*(model.history_points if model.user_points is None else model.user_points)]
    weights = [1.0] * len(sources) if model.user_points is not None else model.item_counts.tolist()
    centre, middle = midpoint(sources, weights, geometry), midpoint(queries, [1.0, 1.0], geometry)
    median = float(np.median([length(centre, point.astype(np.float64), geometry) for point in model.item_points]))
    return outwards(centre, middle, median, geometry), midpoint(followers, fading, geometry)


def length(left: NDArray[Any], right: NDArray[Any], geometry: str) -> float:
    if geometry == "euclidean":
        return float(np.linalg.norm(left - right))
    return float(np.arccosh(left[0] * right[0] - left[1:] @ right[1:]))


def outwards(centre: NDArray[Any], through: NDArray[Any], distance: float, geometry: str) -> NDArray[Any]:
    """The point at this distance from the centre, on the line through another one."""
    before = length(centre, through, geometry)
    if geometry == "euclidean":
        return np.asarray(centre + distance / before * (through - centre))
    towards = (through - np.cosh(before) * centre) / np.sinh(before)
    return np.asarray(np.cosh(distance) * centre + np.sinh(distance) * towards)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_item_is_placed_by_the_queries_of_its_customers(variant: dict[str, Any]) -> None:
    model = hand_made(**variant)
    added = model.add_items(events=events(*EVENTS))
    row = added.items.row("new")
    assert row == len(model.items)
    target, history = slow_points(model, "new")
    np.testing.assert_allclose(added.item_points[row], target, rtol=1e-4, atol=1e-5)
    if variant.get("targets") == "separate":
        np.testing.assert_allclose(added.history_points[row], history, rtol=1e-4, atol=1e-5)
    else:
        assert added.history_points is added.item_points
    np.testing.assert_array_equal(added.item_points[:row], model.item_points)


def test_histories_and_counts_grow_and_the_old_model_does_not_change() -> None:
    model = hand_made()
    before = len(model.items), model.item_counts.copy()
    added = model.add_items(events=events(*EVENTS, ("newcomer", "i1", 5)))
    assert added.histories is not None
    assert model.histories is not None
    assert added.histories.history_ids("u5") == [*model.histories.history_ids("u5"), "new", "i6", "i7"]
    assert added.histories.history_ids("newcomer") == ["i1"]
    assert added.item_counts[added.items.row("new")] == 2
    assert added.item_counts[added.items.row("i4")] == model.item_counts[model.items.row("i4")] + 1
    assert (len(model.items), model.item_counts.tolist()) == (before[0], before[1].tolist())
    assert [note.kind for note in added.note_records[len(model.note_records) :]] == [NoteKind.ITEMS_ADDED]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_recommends_saves_and_loads(variant: dict[str, Any], tmp_path: Path) -> None:
    added = hand_made(**variant).add_items(events=events(*EVENTS, ("newcomer", "i1", 5)))
    assert "new" in added.recommend(user="u7", k=31, exclude_seen=False).ids
    assert len(added.recommend(user="newcomer")) == 10
    added.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.item_ids == added.item_ids
    # a loaded model has no times, and its order still counts
    more = again.add_items(events=events(("u3", "newer", 9)))
    assert more.items.row("newer") == len(added.items)


def test_without_histories_the_events_alone_place_an_item(tmp_path: Path) -> None:
    hand_made().save(tmp_path / "model", histories=False)
    model = load(tmp_path / "model")
    added = model.add_items(events=events(("x", "i1", 1), ("x", "new", 2)))
    whole = hand_made().add_items(events=events(("x", "i1", 1), ("x", "new", 2)))
    np.testing.assert_allclose(added.item_points[-1], whole.item_points[-1], rtol=1e-5)
    assert added.histories is None


def pairs_of(memory: Memory | None) -> dict[tuple[int, int], float]:
    assert memory is not None
    owners = np.repeat(np.arange(memory.item_count), np.diff(memory.offsets))
    return dict(zip(zip(owners.tolist(), memory.columns.tolist(), strict=True), memory.values.tolist(), strict=True))


@pytest.mark.parametrize("ordered", [True, False])
def test_the_memory_has_the_pairs_of_a_new_item_as_if_it_was_built_again(ordered: bool) -> None:
    data = interactions()
    model = hand_made(data).with_points(memory=build_memory(data, 5, ordered=ordered))
    added = model.add_items(events=events(*EVENTS, ("x", "first", 0), ("x", "i1", 1)))
    assert added.histories is not None
    new = range(len(data.items), len(added.items))
    before, after = pairs_of(model.memory), pairs_of(added.memory)
    again = pairs_of(build_memory(added.histories, 100, ordered=ordered))
    with_new = {pair: value for pair, value in again.items() if set(pair) & set(new)}
    assert len(new) == 2
    assert with_new
    assert after == pytest.approx(before | with_new)
    kinds = [note.kind for note in added.note_records]
    assert (NoteKind.NOT_IN_MEMORY in kinds) == ordered, "nothing came before the first event"


def test_a_first_event_is_placed_by_what_follows_and_an_only_one_is_left_out() -> None:
    model = hand_made()
    added = model.add_items(events=events(("x", "first", 1), ("x", "i1", 2), ("y", "alone", 3)))
    later = model.add_items(events=events(("x", "i1", 1), ("x", "first", 2)))
    np.testing.assert_allclose(added.item_points[-1], later.item_points[-1], rtol=1e-5)
    assert added.items.row("alone") < 0
    assert added.note_records[-1].kind is NoteKind.ITEMS_NOT_PLACED
    assert added.note_records[-1].values == {"items": 1, "events": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (events(("u1", "i1", 1)), "knows all items"),
        (events(("y", "alone", 3)), "none of the new items can be placed"),
        (Interactions.from_pairs(["u1"], [7], [1]), "same type"),
        ("events.csv", "takes Interactions"),
    ],
)
def test_bad_events_are_one_error(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hand_made().add_items(events=given)
