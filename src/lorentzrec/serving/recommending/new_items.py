"""New items in a worker: their details, and the points that they get from customers and similar items."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.model.catalogue import EVENTS_OF_ATTRIBUTES
from lorentzrec.model.placement import PlacedItems, Surroundings, midpoints, move_to_distance, surroundings_of
from lorentzrec.model.ranking import Ranker
from lorentzrec.serving.stores.new_items import ItemDetails, NewItem
from lorentzrec.serving.stores.store import HistoryEvent
from lorentzrec.serving.versions.attribute_points import VersionAttributes
from lorentzrec.serving.versions.item_directory import SEARCH, WORDS, Item, match_expression
from lorentzrec.serving.versions.version import Version

_SEARCHING = Lock()
"""Not every build of SQLite lets threads share a connection."""


class NewPoint(NamedTuple):
    """Where a new item is in the model, and in its twin if the version has one."""

    item: NDArray[np.float32]
    history: NDArray[np.float32]
    twin_item: NDArray[np.float32] | None = None
    twin_history: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class NewItems:
    """The new items of a version: the placed ones first, which have rows after those of the version."""

    items: list[Item]
    points: list[NewPoint]
    """Of the first items; the others are not placed."""

    @cached_property
    def places(self) -> dict[str, int]:
        return {item.id: place for place, item in enumerate(self.items)}

    @cached_property
    def own(self) -> PlacedItems:
        return _stack([point.item for point in self.points], [point.history for point in self.points])

    @cached_property
    def twin(self) -> PlacedItems:
        return _stack([point.twin_item for point in self.points], [point.twin_history for point in self.points])

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


def _stack(items: Sequence[object], histories: Sequence[object]) -> PlacedItems:
    return PlacedItems(np.array(items, np.float32), np.array(histories, np.float32), np.ones(len(items), bool))


def details_of(item: NewItem) -> Item:
    """A new item as one of the directory; it is not on the map."""
    details = item.details
    if details is None:
        return Item(UNKNOWN, item.id, new=True)
    return Item(UNKNOWN, item.id, details.title, details.category, details.price, details.image, new=True)


class Placer:
    """Places new items in one version.

    The midpoint of the queries of its customers and of similar items, each of which counts once, gives the direction of
    an item from the centre of all queries, as in `placement.py`. Its distance from there is the mean of those of the
    similar items and, for each customer, that of the median item. Known attributes count as `EVENTS_OF_ATTRIBUTES`
    similar items at their midpoint. Without similar items and attributes, its category counts as one customer. With
    separate targets, its history point is the midpoint of the targets that followed it, and of the history points of
    similar items, attributes or the category; if there are none, it is the same as its point.
    """

    def __init__(self, version: Version) -> None:
        self.version = version
        self._codes = {name: code for code, name in enumerate(version.categories)}
        self._centres: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}
        self._surroundings: dict[int, Surroundings] = {}

    def place(self, items: Sequence[NewItem], histories: Mapping[str, Sequence[HistoryEvent]]) -> list[NewPoint | None]:
        """The point of each item; None for one about which nothing helpful is known. `histories`: of its customers."""
        ids = {event.item for events in histories.values() for event in events}
        ids.update(*(item.details.like for item in items if item.details is not None))
        listed = sorted(ids)
        rows = dict(zip(listed, self.version.items.rows(listed).tolist(), strict=True))
        own = self._place(self.version.ranker, items, histories, rows, self.version.attributes)
        twin_ranker = self.version.twin_ranker
        twin = None
        if twin_ranker is not None:
            twin = self._place(twin_ranker, items, histories, rows, self.version.twin_attributes)
        return [
            None
            if not placed
            else NewPoint(own.item_points[place], own.history_points[place])
            if twin is None
            else NewPoint(
                own.item_points[place], own.history_points[place], twin.item_points[place], twin.history_points[place]
            )
            for place, placed in enumerate(own.placed)
        ]

    def _place(
        self,
        ranker: Ranker,
        items: Sequence[NewItem],
        histories: Mapping[str, Sequence[HistoryEvent]],
        rows: Mapping[str, int],
        attributes: VersionAttributes | None,
    ) -> PlacedItems:
        queries, followers = _Parts(ranker), _Parts(ranker)
        centre, usual = self._surroundings_of(ranker)
        distance = hyperboloid.distance if ranker.hyperbolic else euclidean.distance
        distances: list[list[float]] = [[] for _ in items]
        for place, item in enumerate(items):
            for user in item.customers:
                events = histories.get(user, ())
                first = next((number for number, event in enumerate(events) if event.item == item.id), len(events))
                known = [(rows[event.item], event.weight) for event in events[:first] if rows[event.item] != UNKNOWN]
                after = [(rows[event.item], event.weight) for event in events[first:] if rows[event.item] != UNKNOWN]
                later = [row for row, _ in after]
                known = known or after  # if nothing known came before
                if known:
                    of_items, weights = zip(*known, strict=True)
                    weight = events[first].weight if first < len(events) else 1.0
                    queries.add(place, ranker.query(np.array(of_items), np.array(weights))[None], np.array([weight]))
                    distances[place].append(usual)
                followers.add(
                    place,
                    ranker.precise_items(np.array(later, np.int64)),
                    np.power(ranker.recency, np.arange(len(later))),
                )
            details = item.details or ItemDetails()
            values = None if attributes is None else _known_values(attributes, details)
            if attributes is not None and values:
                for parts, of in ((queries, attributes.points), (followers, attributes.history_points)):
                    middle = self._midpoint(ranker, ranker.precise(of[values]))
                    parts.add(place, middle, np.full(1, EVENTS_OF_ATTRIBUTES))
                    if parts is queries:
                        distances[place] += distance(centre, middle).tolist() * round(EVENTS_OF_ATTRIBUTES)
            like = np.array([rows[id] for id in details.like if rows[id] != UNKNOWN], np.int64)
            if len(like):
                queries.add(place, ranker.precise_items(like))
                distances[place] += distance(centre, ranker.precise_items(like)).tolist()
                followers.add(place, ranker.precise_histories(like))
            elif (
                not values and details.category is not None and (code := self._codes.get(details.category)) is not None
            ):
                of_category = self._centre(ranker, code)
                queries.add(place, of_category[0])
                distances[place].append(usual)
                followers.add(place, of_category[1])
        item_points, placed = queries.midpoints(len(items))
        wanted = np.array([np.mean(some) for some in distances if some])
        item_points[placed] = move_to_distance(item_points[placed], centre, wanted, hyperbolic=ranker.hyperbolic)
        if ranker.history_points is ranker.item_points:
            return PlacedItems(item_points, item_points, placed)
        history_points, followed = followers.midpoints(len(items))
        history_points[~followed] = item_points[~followed]
        return PlacedItems(item_points, history_points, placed)

    def _surroundings_of(self, ranker: Ranker) -> Surroundings:
        if id(ranker) not in self._surroundings:
            self._surroundings[id(ranker)] = surroundings_of(ranker, self.version.item_counts)
        return self._surroundings[id(ranker)]

    def _centre(self, ranker: Ranker, code: int) -> tuple[FloatArray, FloatArray]:
        """The midpoints of the items of a category, and of their history points."""
        key = (id(ranker), code)
        if key not in self._centres:
            rows = np.flatnonzero(self.version.category_codes == code)
            points = ranker.precise_items(rows), ranker.precise_histories(rows)
            self._centres[key] = self._midpoint(ranker, points[0]), self._midpoint(ranker, points[1])
        return self._centres[key]

    def _midpoint(self, ranker: Ranker, points: FloatArray) -> FloatArray:
        """The midpoint of some points, as a row."""
        parts = _Parts(ranker)
        parts.add(0, points)
        return ranker.precise(parts.midpoints(1)[0])


def _known_values(attributes: VersionAttributes, details: ItemDetails) -> list[int]:
    """The rows of an item's attributes; what does not fit this version, which may be newer, is left out."""
    known = {name: text for name, text in details.attributes.items() if name in attributes.columns}
    try:
        return attributes.rows_of(known)[0]
    except InputError:
        return []


class _Parts:
    """Points, with weights, whose midpoints are those of new items."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self._points: list[FloatArray] = []
        self._weights: list[FloatArray] = []
        self._items: list[int] = []

    def add(self, item: int, points: FloatArray, weights: FloatArray | None = None) -> None:
        self._points.append(points)
        self._weights.append(np.ones(len(points)) if weights is None else weights)
        self._items += [item] * len(points)

    def midpoints(self, count: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        nothing = np.empty((0, self._ranker.item_points.shape[1]))
        return midpoints(
            np.concatenate([nothing, *self._points]),
            np.array(self._items, np.int64),
            count,
            hyperbolic=self._ranker.hyperbolic,
            weights=np.concatenate([np.empty(0), *self._weights]),
        )
