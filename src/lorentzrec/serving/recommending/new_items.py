"""New items in a worker: their details, and the points that they get from customers, similar items and attributes."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import offsets_of
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.model.catalogue import EVENTS_OF_ATTRIBUTES
from lorentzrec.model.placement import (
    PlacedItems,
    Surroundings,
    move_to_distance,
    place_between,
    place_from_histories,
    surroundings_of,
)
from lorentzrec.model.ranking import Ranker
from lorentzrec.serving.stores.new_items import ItemDetails, NewItem
from lorentzrec.serving.stores.store import HistoryEvent
from lorentzrec.serving.versions.attribute_points import VersionAttributes
from lorentzrec.serving.versions.item_directory import SEARCH, WORDS, Item, match_expression
from lorentzrec.serving.versions.version import Version

_SEARCHING = Lock()
"""Not every build of SQLite lets threads share a connection."""


class NewPoint(NamedTuple):
    """Where a new item is in a model: a row of `PlacedItems`."""

    item: NDArray[np.float32]
    history: NDArray[np.float32]
    placed: bool


@dataclass(frozen=True, eq=False)
class NewItems:
    """The new items of a version: the placed ones first, which have rows after those of the version."""

    items: list[Item]
    points: list[tuple[NewPoint, ...]]
    """Of the first items, in the model and in its twin if there is one; the other items are not placed."""
    by_events: int = 0
    """How many of the placed ones are by events and not by PUT: these are the last of them."""

    @cached_property
    def places(self) -> dict[str, int]:
        return {item.id: place for place, item in enumerate(self.items)}

    def in_model(self, number: int) -> PlacedItems:
        """The points in the model (0) or in its twin (1)."""
        rows = [points[number] for points in self.points]
        return PlacedItems(*(np.array(column) for column in zip(*rows, strict=True)))

    @cached_property
    def _words(self) -> sqlite3.Connection:
        """A full-text index like that of the item directory, so that a search finds the same in both."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, connection.close)
        connection.executescript(WORDS)
        lines = ((place, item.id, item.title) for place, item in enumerate(self.items))
        connection.executemany("INSERT INTO words (rowid, id, title) VALUES (?, ?, ?)", lines)
        return connection

    def search(self, words: str, limit: int) -> list[Item]:
        """As `ItemDirectory.search`, in the order of `items`; none without a word."""
        if not self.items or not (expression := match_expression(words)):
            return []
        with _SEARCHING:
            found = [place for (place,) in self._words.execute(SEARCH, (expression, limit))]
        exact = self.places.get(words.strip())
        places = dict.fromkeys(found if exact is None else [exact, *found])
        return [self.items[place] for place in places][:limit]


def details_of(item: NewItem) -> Item:
    """A new item as one of the directory; it is not on the map."""
    details = item.details
    if details is None:
        return Item(UNKNOWN, item.id, new=True)
    return Item(UNKNOWN, item.id, details.title, details.category, details.price, details.image, new=True)


class Placer:
    """Places new items in one version, between what is known about each, as `add_items` of a model does.

    The histories of its customers place it, see `placement.py`; this point counts once for every event with the item. A
    similar item counts as one event, and known attributes, at their midpoint, as `EVENTS_OF_ATTRIBUTES`. Without
    similar items and attributes, its category counts as one, at the distance of the median item.

    A symmetric model adds items by the points of their customers. A version does not contain these, so that an item is
    placed by histories there, too.
    """

    def __init__(self, version: Version) -> None:
        self.version = version
        self._models = [_Model(version, version.ranker, version.attributes)]
        if version.twin_ranker is not None:
            self._models.append(_Model(version, version.twin_ranker, version.twin_attributes))

    def place(
        self, items: Sequence[NewItem], histories: Mapping[str, Sequence[HistoryEvent]]
    ) -> list[tuple[NewPoint, ...] | None]:
        """The points of each item in the model and in its twin; None for one about which nothing helpful is known.

        histories: of its customers.
        """
        ids = {event.item for events in histories.values() for event in events}
        ids.update(*(item.details.like for item in items if item.details is not None))
        listed = sorted(ids)
        rows = dict(zip(listed, self.version.items.rows(listed).tolist(), strict=True))
        events = self._events(items, histories, rows)
        placed = [model.place(items, events, rows) for model in self._models]
        points = [[NewPoint(*row) for row in zip(*found, strict=True)] for found in placed]
        return [of_item if of_item[0].placed else None for of_item in zip(*points, strict=True)]

    def _events(
        self, items: Sequence[NewItem], histories: Mapping[str, Sequence[HistoryEvent]], rows: Mapping[str, int]
    ) -> _Events:
        """A history for each customer of each item: the events with items of the version, and with that item."""
        found: list[tuple[int, float]] = []
        lengths: list[int] = []
        for row, item in enumerate(items, start=len(self.version.items)):
            for user in item.customers:
                events = [
                    (row if event.item == item.id else rows[event.item], event.weight)
                    for event in histories.get(user, ())
                    if event.item == item.id or rows[event.item] != UNKNOWN
                ]
                if events and all(other != row for other, _ in events):
                    events.append((row, 1.0))  # it is not among the newest events, of which the history consists
                found += events
                lengths.append(len(events))
        item_rows, weights = np.array(found).reshape(-1, 2).T
        return _Events(offsets_of(np.array(lengths, np.int64)), item_rows.astype(np.int64), weights)


class _Events(NamedTuple):
    """Histories, as `place_from_histories` takes them."""

    offsets: NDArray[np.int64]
    item_rows: NDArray[np.int64]
    weights: FloatArray


class _Model:
    """The model of a version, or its twin, as a place for new items."""

    def __init__(self, version: Version, ranker: Ranker, attributes: VersionAttributes | None) -> None:
        self._version, self._ranker, self._attributes = version, ranker, attributes
        self._ordered = version.manifest["model"]["history"] == "causal"
        self._codes = {name: code for code, name in enumerate(version.categories)}
        self._categories: dict[int, tuple[FloatArray, FloatArray]] = {}

    @cached_property
    def _surroundings(self) -> Surroundings:
        return surroundings_of(self._ranker, self._version.item_counts)

    def place(self, items: Sequence[NewItem], events: _Events, rows: Mapping[str, int]) -> PlacedItems:
        ranker, attributes, known = self._ranker, self._attributes, len(self._version.items)
        by_events = place_from_histories(ranker, *events, len(items), self._surroundings, ordered=self._ordered)
        placed = np.flatnonzero(by_events.placed)
        counts = np.bincount(events.item_rows[events.item_rows >= known] - known, minlength=len(items))
        points = ranker.precise(by_events.item_points[placed]), ranker.precise(by_events.history_points[placed])
        parts: list[tuple[NDArray[Any], ...]] = [(placed, *points, counts[placed])]

        def put_near(place: int, points: FloatArray, histories: FloatArray, events: float = 1.0) -> None:
            parts.append((np.full(len(points), place), points, histories, np.full(len(points), events)))

        for place, item in enumerate(items):
            details = item.details or ItemDetails()
            like = np.array([rows[id] for id in details.like if rows[id] != UNKNOWN], np.int64)
            values = [] if attributes is None else _known_values(attributes, details)
            if len(like):
                put_near(place, ranker.precise_items(like), ranker.precise_histories(like))
            if attributes is not None and values:
                histories = self._midpoint(attributes.history_points[values])
                put_near(place, self._midpoint(attributes.points[values]), histories, EVENTS_OF_ATTRIBUTES)
            if not len(like) and not values and details.category in self._codes:
                put_near(place, *self._category(self._codes[details.category]))
        places, item_points, history_points, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return place_between(
            item_points,
            None if ranker.history_points is ranker.item_points else history_points,
            places,
            len(items),
            weights,
            self._surroundings.centre,
            hyperbolic=ranker.hyperbolic,
        )

    def _category(self, code: int) -> tuple[FloatArray, FloatArray]:
        """The midpoint of the items of a category, at the distance of the median item, and that of their history
        points."""
        if code not in self._categories:
            ranker, rows = self._ranker, np.flatnonzero(self._version.category_codes == code)
            middle = self._midpoint(ranker.item_points[rows])
            moved = move_to_distance(middle, *self._surroundings, hyperbolic=ranker.hyperbolic)
            self._categories[code] = ranker.precise(moved), self._midpoint(ranker.history_points[rows])
        return self._categories[code]

    def _midpoint(self, points: NDArray[np.float32]) -> FloatArray:
        """As a row."""
        return self._ranker.midpoint(self._ranker.precise(points))[None]


def _known_values(attributes: VersionAttributes, details: ItemDetails) -> list[int]:
    """The rows of an item's attributes; what does not fit this version, which may be newer, is left out."""
    known = {name: text for name, text in details.attributes.items() if name in attributes.columns}
    try:
        return attributes.rows_of(known)[0]
    except InputError:
        return []
