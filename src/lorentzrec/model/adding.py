"""A model with more items, without training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.data.joining import append, reindex, take_items
from lorentzrec.errors import InputError
from lorentzrec.memory import Memory
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.placement import place_from_histories, place_items
from lorentzrec.model.ranking import Ranker

if TYPE_CHECKING:
    from lorentzrec.model.model import Model


def add_items(model: Model, events: Interactions) -> Model:
    """`Model.add_items`."""
    refuse_other_data(events, "add_items")
    known = len(model.items)
    histories = events if model.histories is None else append(model.histories, events)
    users = histories.users if model.users is None else model.users.union(histories.users)
    histories = reindex(histories, users, model.items.union(histories.items))
    if len(histories.items) == known:
        raise InputError("the model knows all items of these events: give events of new items, or update the model")
    ranker = ranker_of(model)
    ordered = model.config.history == "causal"
    placed = place_from_histories(ranker, histories, ordered=ordered, user_points=model.user_points)
    if not placed.placed.any():
        raise InputError(
            "none of the new items can be placed, as none of their customers has an event with a known item: "
            "give the other events of these customers as well, or train a model"
        )
    rows = np.concatenate([np.arange(known), known + np.flatnonzero(placed.placed)])
    left_out = int((~placed.placed).sum())
    lost = len(histories)
    histories = take_items(histories, rows)
    lost -= len(histories)
    points = np.concatenate([model.item_points, placed.item_points[placed.placed]])
    separate = model.history_points is not model.item_points
    notes = [Note(NoteKind.ITEMS_ADDED, {"items": len(rows) - known})]
    if left_out:
        notes.append(Note(NoteKind.ITEMS_NOT_PLACED, {"items": left_out, "events": lost}))
    if model.memory is not None:
        notes.append(Note(NoteKind.NOT_IN_MEMORY, {"items": len(rows) - known}))
    counts = np.bincount(histories.items.rows(events.items.series)[events.item_rows] + 1, minlength=len(rows) + 1)[
        1:
    ]  # those that are not placed have the row -1
    return replace(
        model,
        items=histories.items,
        item_points=points,
        history_points=np.concatenate([model.history_points, placed.history_points[placed.placed]])
        if separate
        else points,
        item_counts=np.pad(model.item_counts, (0, len(rows) - known)) + counts,
        users=None if model.users is None else users,
        user_points=None
        if model.user_points is None
        else place_users(model.user_points, points, histories, hyperbolic=model.config.hyperbolic),
        histories=None if model.histories is None else histories,
        memory=None if model.memory is None else with_empty_rows(model.memory, len(rows)),
        note_records=(*model.note_records, *notes),
    )


def ranker_of(model: Model) -> Ranker:
    """What makes queries of histories, by points alone."""
    config = model.config
    separate = model.history_points is not model.item_points
    return Ranker(
        model.item_points,
        model.history_points if separate else None,
        geometry=config.geometry,
        score=config.score,
        recency=config.recency,
    )


def place_users(
    user_points: NDArray[np.float32], item_points: NDArray[np.float32], histories: Interactions, *, hyperbolic: bool
) -> NDArray[np.float32]:
    """The points of known customers, followed by those of new ones: the midpoint of the items of each."""
    known = len(user_points)
    new = histories.user_rows >= known
    rows = histories.user_rows[new].astype(np.int64) - known
    weights = None if histories.weights is None else histories.weights[new]
    count = len(histories.users) - known
    items = item_points[histories.item_rows[new]]
    return np.concatenate([user_points, place_items(items, rows, count, hyperbolic=hyperbolic, weights=weights)[0]])


def with_empty_rows(memory: Memory, count: int) -> Memory:
    """The memory of `count` items, of which those it does not know have no neighbours."""
    return replace(memory, offsets=np.pad(memory.offsets, (0, count - memory.item_count), mode="edge"))
