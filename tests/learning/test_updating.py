"""Updates with new events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lorentzrec import update
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.learning.trainer import train
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from tests.learning.grouped_data import grouped, quick

DAY = 86_400
DATA = grouped(times=np.arange(1500) * DAY // 10)
TIMES = np.asarray(DATA.times)
OLD = DATA.select(TIMES < 120 * DAY)


@pytest.fixture(scope="module")
def model() -> Model:
    return train(OLD, quick(), progress=False)


def values(found: Model, kind: NoteKind) -> Any:
    return next((note.values for note in found.note_records if note.kind is kind), None)


def test_new_events_and_a_sample_of_old_ones_are_trained_on(model: Model) -> None:
    before = model.item_points.copy()
    updated = update(model, DATA, rehearse=0.5, progress=False)
    counts = values(updated, NoteKind.UPDATED)
    assert counts["new"] == 300
    assert 300 < counts["old"] < 900
    assert values(update(model, DATA, rehearse=0, progress=False), NoteKind.UPDATED) == {"new": 300, "old": 0}
    assert updated.histories is not None
    assert len(updated.histories) == 1500
    assert updated.histories.labels is None
    assert updated.item_counts.sum() == 1500
    assert updated.newest_time == TIMES.max()
    assert not np.array_equal(updated.item_points, before)
    np.testing.assert_array_equal(model.item_points, before)


@pytest.mark.parametrize("loss", ["softmax", "bpr"])
def test_a_symmetric_model_is_updated(loss: str) -> None:
    start = train(OLD, quick(model="symmetric", loss=loss), progress=False)
    newcomer = Interactions.from_pairs([999, 999], [0, 1], [200 * DAY, 200 * DAY + 1])
    users = [*DATA.users.ids(DATA.user_rows), *newcomer.users.ids(newcomer.user_rows)]
    items = [*DATA.items.ids(DATA.item_rows), *newcomer.items.ids(newcomer.item_rows)]
    updated = update(start, Interactions.from_pairs(users, items, [*TIMES.tolist(), 200 * DAY, 200 * DAY + 1]))
    assert values(updated, NoteKind.UPDATED)["new"] == 302
    groups = [int(item) // 20 for item in updated.recommend(user=999, k=5).ids]
    assert groups == [0] * 5


def test_the_same_update_twice_is_the_same(model: Model) -> None:
    first, second = update(model, DATA, progress=False), update(model, DATA, progress=False)
    np.testing.assert_array_equal(first.item_points, second.item_points)


def test_late_events_are_found_and_counted(model: Model) -> None:
    late = Interactions.from_pairs([0] * 3, [50, 51, 52], [5, 6, 7])
    users = [*DATA.users.ids(DATA.user_rows), *late.users.ids(late.user_rows)]
    items = [*DATA.items.ids(DATA.item_rows), *late.items.ids(late.item_rows)]
    both = Interactions.from_pairs(users, items, [*TIMES.tolist(), 5, 6, 7])
    updated = update(model, both, rehearse=0, progress=False)
    assert values(updated, NoteKind.LATE_EVENTS) == {"events": 3}
    assert values(updated, NoteKind.UPDATED)["new"] == 303


def test_without_times_new_pairs_are_new_events() -> None:
    data = grouped(times=None)
    half = data.select(np.arange(len(data)) % 2 == 0)
    model = train(half, quick(), progress=False)
    updated = update(model, data, rehearse=0, progress=False)
    pairs = set(zip(half.user_rows.tolist(), half.item_rows.tolist(), strict=True))
    new = [pair for pair in zip(data.user_rows.tolist(), data.item_rows.tolist(), strict=True) if pair not in pairs]
    assert values(updated, NoteKind.UPDATED)["new"] == len(new)


def test_items_without_recent_events_are_removed(model: Model) -> None:
    gone = DATA.items.id(7)
    kept = DATA.select((DATA.item_rows != 7) | (TIMES < 100 * DAY))
    lost = int((kept.item_rows == 7).sum())
    updated = update(model, kept, prune_after=45, progress=False)
    assert gone not in updated.items
    assert gone in model.items
    assert len(updated.items) == len(model.items) - 1
    assert values(updated, NoteKind.PRUNED) == {"items": 1, "events": lost}
    assert kept.times is not None
    times = kept.times.copy()
    times[-1] = 4e9
    ahead = update(model, replace(kept, times=times), prune_after=45, progress=False)
    assert values(ahead, NoteKind.PRUNED)["items"] == 1, "days are counted from the newest event before now"


def test_only_live_items_stay(model: Model) -> None:
    live = model.item_ids[:30]
    updated = update(model, DATA, live=[*live, 12345], progress=False)
    assert sorted(updated.item_ids) == sorted(live)


def test_an_update_chain_ends_near_a_full_training(model: Model) -> None:
    current = model
    for day in (130, 140, 150):
        current = update(current, DATA.select(day * DAY > TIMES), progress=False)
    assert current.recommend(history=[1, 2, 3], k=5).ids
    groups = [int(item) // 20 for item in current.recommend(history=[1, 2, 3], k=5).ids]
    assert groups == [0] * 5


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (OLD, {}, "was trained on all of these events"),
        (DATA, {"rehearse": 1.5}, "rehearse"),
        (DATA, {"prune_after": -1}, "prune_after"),
        (DATA, {"live": [1]}, "1 of 60 items would be left"),
        (replace(DATA, times=None), {"prune_after": 3}, "prune_after needs times"),
        ("shop", {}, "update takes Interactions"),
    ],
)
def test_bad_input_is_one_error(model: Model, data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        update(model, data, progress=False, **options)


def chains(days: int) -> Interactions:
    """Items that always follow each other, i after i - 1: what points that are hardly trained cannot find."""
    starts = np.random.default_rng(0).integers(0, 200, 100)
    users = np.tile(np.arange(100), days)
    day = np.repeat(np.arange(days), 100)
    return Interactions.from_pairs(users, (starts[users] + day) % 200, times=day * DAY)


def test_the_weight_of_the_memory_follows_the_new_events() -> None:
    start = train(chains(20).select(np.asarray(chains(20).times) < 15 * DAY), quick(epochs=1, memory="auto"))
    updated = update(start.with_points(memory=None), chains(20), rehearse=0, progress=False)
    adjusted = values(updated, NoteKind.MEMORY_ADJUSTED)
    assert (adjusted["before"], adjusted["weight"], adjusted["events"]) == (
        0.0,
        0.25,
        225,
    )  # of 500, in one half of the customers
    assert updated.memory is not None
    assert updated.memory.weight == pytest.approx(0.25 / updated.config.scale)
    again = update(updated, chains(25), rehearse=0, progress=False)
    assert values(again, NoteKind.MEMORY_ADJUSTED)["weight"] == 0.5, "one step at a time"
    without = update(start, chains(20), quick(epochs=1, memory="none"), rehearse=0, progress=False)
    assert without.memory is None
