"""A model with more items, without training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.joining import append, reindex, take_items
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.points.memory import Memory, remember
from lorentzrec.points.placement import CustomerEvents, find_surroundings, midpoints, place_new_items
from lorentzrec.points.points import Points
from lorentzrec.points.space import Space

if TYPE_CHECKING:
    from lorentzrec.model.model import Model


ALIKE_NEIGHBOURS = 100
"""Known items that the memory has a new item next to, if they have similar attributes."""
ALIKE_QUANTILE = 0.25
"""An item with the same attributes counts in the memory like a neighbour at this quantile of all neighbours."""


def add_items(model: Model, events: Interactions | None, attributes: Any = None) -> Model:
    """`Model.add_items`."""
    if events is None and attributes is None:
        raise InputError("there are neither events nor attributes of new items: give one of them")
    known, user_points, notes = len(model.items), model.user_points, list[Note]()
    histories = model.histories or _without_events(model)
    if events is not None:
        check_is_interactions(events, "add_items")
        histories = events if model.histories is None else append(model.histories, events)
    users = histories.users if model.users is None else model.users.union(histories.users)
    items = model.items.union(histories.items)
    described = None
    if attributes is not None:
        described, notes = _described(model, attributes)
        items = items.union(described.items)
    if len(items) == known:
        raise InputError("the model knows all items that were given: add new ones, or update the model")
    histories = reindex(histories, users, items)
    with_point = None if user_points is None else np.arange(len(users)) < len(user_points)
    if described is not None:
        described = described.align(Vocabulary(items.series[known:], name="item"))
    ordered = model.config.history != "folds"
    events_of = histories.with_orders_together()
    found, placed = place_new_items(
        model.points,
        len(items) - known,
        CustomerEvents(
            events_of.offsets,
            events_of.item_rows,
            events_of.weights,
            ordered,
            user_points,
            with_point,
            events_of.order_positions,
        ),
        find_surroundings(model.points, user_points),
        attributes=described,
    )
    if not placed.any():
        raise InputError(
            "none of the new items can be placed, as none of their customers has an event with a known item"
            f"{'' if described is None else ', and none of them has known attributes'}: "
            "give the other events of these customers as well, or train a model"
        )
    new = int(placed.sum())
    kept = take_items(histories, np.concatenate([np.arange(known), known + np.flatnonzero(placed)]))
    notes.append(Note(NoteKind.ITEMS_ADDED, {"items": new}))
    if new < len(placed):
        notes.append(
            Note(NoteKind.ITEMS_NOT_PLACED, {"items": len(placed) - new, "events": len(histories) - len(kept)})
        )
    points, masses = np.concatenate([model.item_points, found.item_points[placed]]), model.masses
    if masses is not None and found.masses is not None:
        masses = np.concatenate([masses, found.masses[placed]])
    if user_points is not None and with_point is not None:
        new_users = place_users(points, kept, ~with_point, model.points.space)
        user_points = np.concatenate([user_points, new_users])
    counts = np.zeros(known + new, np.int64)
    if events is not None:
        # Items that are not placed have the row -1.
        counts = np.bincount(kept.items.rows(events.items.series)[events.item_rows] + 1, minlength=known + new + 1)[1:]
    counts += np.pad(model.item_counts, (0, new))
    attribute_points, memory = model.attributes, model.memory
    left_out = np.arange(known + new) >= known
    if memory is not None:
        memory = remember(memory, kept, left_out, counts if model.histories is None else None)
        left_out[memory.columns] = False
    if attribute_points is not None:
        added = Vocabulary(kept.items.series[known:], name="item")
        of_known = attribute_points.name_items(model.items)
        described = of_known.align(added) if described is None else described.align(added)
        of_all = of_known.append(described, kept.items)
        attribute_points = replace(attribute_points, offsets=of_all.offsets, rows=of_all.rows)
        if memory is not None:
            memory = add_similar_to_memory(memory, of_all, left_out)
            if alike := int((described.counts[left_out[known:]] > 0).sum()):
                notes.append(Note(NoteKind.ALIKE_IN_MEMORY, {"items": alike}))
            left_out[memory.columns] = False
    if memory is not None and left_out.any():
        notes.append(Note(NoteKind.NOT_IN_MEMORY, {"items": int(left_out.sum())}))
    separate, similarity, complements = model.points.separate, model.similarity, model.complements
    return replace(
        model,
        items=kept.items,
        points=replace(
            model.points,
            item_points=points,
            history_points=np.concatenate([model.history_points, found.history_points[placed]]) if separate else points,
            item_counts=counts,
            masses=masses,
            memory=memory,
            attributes=attribute_points,
            repeats=None if model.repeats is None else model.repeats.extend(known + new),
            trend=None if model.trend is None else model.trend.extend(known + new),
            similarity=None if similarity is None else similarity.extend(known + new),
            complements=None if complements is None else complements.extend(known + new),
        ),
        users=None if model.users is None else users,
        user_points=user_points,
        histories=None if model.histories is None else kept,
        optimiser_state=None if model.optimiser_state is None else _with_new_rows(model, new, len(users)),
        parent=model.fingerprint,
        note_records=(*model.note_records, *notes),
    )


def _without_events(model: Model) -> Interactions:
    """CustomerEvents of a model that has none."""
    users = model.users or Vocabulary.numbered(0, name="user")
    return Interactions(users, model.items, np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32))


def _described(model: Model, attributes: Any) -> tuple[ItemAttributes, list[Note]]:
    """The attributes of new items, and notes."""
    known = model.item_attributes
    if known is None:
        raise InputError("the model was trained without attributes: train it with them, or give events")
    encoded = attributes.encode_with(known) if isinstance(attributes, ItemAttributes) else known.encode(attributes)
    notes = [Note.of_text(note) for note in encoded.notes]
    new = model.items.rows(encoded.items.series) == UNKNOWN
    if not new.all():
        notes.append(Note(NoteKind.KNOWN_ITEMS, {"items": int((~new).sum())}))
        encoded = encoded.align(Vocabulary(encoded.items.series.filter(new), name="item"))
    return encoded, notes


def add_similar_to_memory(memory: Memory, attributes: ItemAttributes, new: Booleans) -> Memory:
    """The memory with the `new` items as neighbours of the others that have similar attributes."""
    rows = np.flatnonzero(new), np.flatnonzero(~new)
    items = attributes.items.series
    of_new, of_known = (attributes.align(Vocabulary(items.gather(some), name="item")) for some in rows)
    if not len(of_new.rows):
        return memory
    pairs = of_new.alike(of_known, ALIKE_NEIGHBOURS)
    strength = float(np.quantile(memory.values, ALIKE_QUANTILE)) if len(memory) else 1.0
    return memory.with_neighbours(rows[1][pairs.others], rows[0][pairs.items], strength * pairs.likeness)


def with_attributes_as_items(model: Model) -> Model:
    """A model of the attributes alone, for maps and exports: the count of each is that of the items that have it."""
    attributes, of_items = model.attributes, model.item_attributes
    if attributes is None or of_items is None:
        raise InputError("the model was trained without attributes: train it with them")
    return replace(
        model,
        items=attributes.values,
        points=Points(attributes.points, attributes.history_points, of_items.item_counts, model.points.space),
        users=None,
        histories=None,
        optimiser_state=None,
    )


def place_users(
    item_points: NDArray[np.float32], histories: Interactions, users: Booleans, space: Space
) -> NDArray[np.float32]:
    """Points for some customers of a symmetric model: the midpoint of the items of each."""
    events = users[histories.user_rows]
    rows = (np.cumsum(users) - 1)[histories.user_rows[events]]
    weights = None if histories.weights is None else histories.weights[events]
    points = item_points[histories.item_rows[events]]
    return midpoints(points, rows, int(users.sum()), space, weights)[0]


def _with_new_rows(model: Model, new: int, users: int) -> dict[str, NDArray[Any]]:
    """The state of the optimiser with zeros for new items, and in a symmetric model for new customers."""
    assert model.optimiser_state is not None
    more = {
        "items": new,
        "items_mass": new,
        "histories": new if model.user_points is None else users - len(model.user_points),
    }
    return {
        name: np.pad(values, (0, more.get(name.rpartition("_")[0], 0)))
        for name, values in model.optimiser_state.items()
    }
