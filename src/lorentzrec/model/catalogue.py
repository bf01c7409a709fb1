"""A model with more items, without training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.data.joining import append, reindex, take_items
from lorentzrec.errors import InputError
from lorentzrec.memory import Memory
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.placement import Surroundings, midpoints, place_from_histories, surroundings_of
from lorentzrec.model.ranking import Ranker

if TYPE_CHECKING:
    from lorentzrec.model.model import Model


def add_items(model: Model, events: Interactions) -> Model:
    """`Model.add_items`."""
    refuse_other_data(events, "add_items")
    known, user_points = len(model.items), model.user_points
    histories = events if model.histories is None else append(model.histories, events)
    users = histories.users if model.users is None else model.users.union(histories.users)
    histories = reindex(histories, users, model.items.union(histories.items))
    if len(histories.items) == known:
        raise InputError("the model knows all items of these events: give events of new items, or update the model")
    own = None if user_points is None else np.arange(len(users)) < len(user_points)
    item_points, history_points, placed = place_from_histories(
        ranker_of(model),
        histories,
        surroundings_of_model(model),
        ordered=model.config.history == "causal",
        user_points=user_points,
        own=own,
    )
    if not placed.any():
        raise InputError(
            "none of the new items can be placed, as none of their customers has an event with a known item: "
            "give the other events of these customers as well, or train a model"
        )
    new = int(placed.sum())
    kept = take_items(histories, np.concatenate([np.arange(known), known + np.flatnonzero(placed)]))
    notes = [Note(NoteKind.ITEMS_ADDED, {"items": new})]
    if new < len(placed):
        notes.append(
            Note(NoteKind.ITEMS_NOT_PLACED, {"items": len(placed) - new, "events": len(histories) - len(kept)})
        )
    if model.memory is not None:
        notes.append(Note(NoteKind.NOT_IN_MEMORY, {"items": new}))
    points = np.concatenate([model.item_points, item_points[placed]])
    if user_points is not None and own is not None:
        new_users = place_users(points, kept, ~own, hyperbolic=model.config.hyperbolic)
        user_points = np.concatenate([user_points, new_users])
    # Items that are not placed have the row -1.
    counts = np.bincount(kept.items.rows(events.items.series)[events.item_rows] + 1, minlength=known + new + 1)[1:]
    separate = model.history_points is not model.item_points
    return replace(
        model,
        items=kept.items,
        item_points=points,
        history_points=np.concatenate([model.history_points, history_points[placed]]) if separate else points,
        item_counts=np.pad(model.item_counts, (0, new)) + counts,
        users=None if model.users is None else users,
        user_points=user_points,
        histories=None if model.histories is None else kept,
        memory=None if model.memory is None else _with_empty_rows(model.memory, new),
        optimiser_state=None if model.optimiser_state is None else _with_new_rows(model, new, len(users)),
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


def surroundings_of_model(model: Model) -> Surroundings:
    """What new items are placed in."""
    hyperbolic = model.config.hyperbolic
    if model.user_points is not None:
        return surroundings_of(model.item_points, model.user_points, hyperbolic=hyperbolic)
    return surroundings_of(model.item_points, model.history_points, model.item_counts, hyperbolic=hyperbolic)


def place_users(
    item_points: NDArray[np.float32], histories: Interactions, users: Booleans, *, hyperbolic: bool
) -> NDArray[np.float32]:
    """Points for some customers of a symmetric model: the midpoint of the items of each."""
    events = users[histories.user_rows]
    rows = (np.cumsum(users) - 1)[histories.user_rows[events]]
    weights = None if histories.weights is None else histories.weights[events]
    points = item_points[histories.item_rows[events]]
    return midpoints(points, rows, int(users.sum()), hyperbolic=hyperbolic, weights=weights)[0]


def _with_empty_rows(memory: Memory, new: int) -> Memory:
    """The memory of more items, which have no neighbours."""
    return replace(memory, offsets=np.pad(memory.offsets, (0, new), mode="edge"))


def _with_new_rows(model: Model, new: int, users: int) -> dict[str, NDArray[Any]]:
    """The state of the optimiser with zeros for new items, and in a symmetric model for new customers."""
    assert model.optimiser_state is not None
    more = {"items": new, "histories": new if model.user_points is None else users - len(model.user_points)}
    return {name: np.pad(values, (0, more[name.split("_")[0]])) for name, values in model.optimiser_state.items()}
