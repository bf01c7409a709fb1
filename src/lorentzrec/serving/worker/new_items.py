"""New items in a worker: their details, and the points that they get from customers, similar items and attributes."""

from __future__ import annotations

import math
import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from lorentzrec.data.arrays import Groups, make_offsets
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.points.placement import CustomerEvents, Surroundings, place_new_items
from lorentzrec.points.points import Points
from lorentzrec.serving.stores.histories import StoredEvent
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.serving.versions.item_directory import SEARCH, WORDS, Item, match_expression
from lorentzrec.serving.versions.version import Version

_SEARCHING = Lock()
"""Not every build of SQLite lets threads share a connection."""


@dataclass(frozen=True, eq=False)
class NewItems:
    """The new items of a recommender. The placed ones come first, and their rows follow those of the version."""

    items: list[Item]
    points: Points | None = None
    """Of the placed items, which may be recommended; None if no item is placed."""
    by_events: int = 0
    """How many of the placed items are by events and not by PUT: these are the last of them."""
    attributes: Sequence[Mapping[str, str | float | None]] = ()
    """Of the placed items; empty if they have none."""

    @property
    def placed_count(self) -> int:
        return 0 if self.points is None else len(self.points)

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each id in `items`."""
        return {item.id: index for index, item in enumerate(self.items)}

    @cached_property
    def columns(self) -> ItemColumns:
        """What filters and rules ask for, of the placed items."""
        placed = self.items[: self.placed_count]
        pairs = zip(placed, self.attributes or [{}] * len(placed), strict=True)
        described = [{**own} | {"category": item.category, "price": item.price} for item, own in pairs]
        return ItemColumns.from_mappings(described)

    @cached_property
    def _words(self) -> sqlite3.Connection:
        """A full-text index like that of the item directory, so that a search finds the same in both."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, connection.close)
        connection.executescript(WORDS)
        lines = ((index, item.id, item.title) for index, item in enumerate(self.items))
        connection.executemany("INSERT INTO words (rowid, id, title) VALUES (?, ?, ?)", lines)
        return connection

    def search(self, words: str, limit: int) -> list[Item]:
        """As `ItemDirectory.search`, in the order of `items`; none without a word."""
        if not self.items or not (expression := match_expression(words)):
            return []
        with _SEARCHING:
            found = [index for (index,) in self._words.execute(SEARCH, (expression, limit))]
        exact = self.indices.get(words.strip())
        indices = dict.fromkeys(found if exact is None else [exact, *found])
        return [self.items[index] for index in indices][:limit]


def show_item(item: NewItem) -> Item:
    """A new item as responses show it, like one of the directory; it is not on the map."""
    return Item(UNKNOWN, item.id, item.title, item.category, item.price, item.image, new=True)


def can_be_placed(version: Version, item: NewItem) -> bool:
    """Whether an item can be placed in a version without any events with it."""
    like, attributes, category = find_evidence(version, item)
    return bool(like or attributes) or category != UNKNOWN


def find_evidence(version: Version, item: NewItem) -> tuple[list[int], list[int], int]:
    """What places an item in a version besides events with it: the rows of similar items, the rows of its attributes,
    and the code of its category (`UNKNOWN`: none).

    What does not fit the version is left out: the version may be newer than the details.
    """
    like = [row for row in version.items.rows(item.like).tolist() if row != UNKNOWN] if item.like else []
    attributes: list[int] = []
    if (known := version.points.attributes) is not None:
        names = {column.name for column in known.columns}
        sent = {name: text for name, text in item.attributes.items() if name in names}
        with suppress(InputError):
            attributes = known.find_rows(sent)[0]
    category, categories = item.category, version.categories
    code = UNKNOWN if category is None or category not in categories else categories.index(category)
    return like, attributes, code


def place_in_version(
    version: Version,
    surroundings: Surroundings,
    items: Sequence[NewItem],
    histories: Mapping[str, Sequence[StoredEvent]],
) -> list[Points | None]:
    """The point of each item; None for one about which nothing helpful is known.

    A symmetric model adds items by the points of their customers. A version does not contain these, so that an item is
    placed by histories there, too.

    histories: of the customers of these items.
    """
    like, attributes, categories = zip(*(find_evidence(version, item) for item in items), strict=True)
    points, placed = place_new_items(
        version.points,
        len(items),
        _collect_histories(version, items, histories),
        surroundings,
        like=Groups.from_lists(like),
        attributes=None if version.points.attributes is None else Groups.from_lists(attributes),
        categories=(np.array(categories), version.category_codes),
    )
    return [points.take([index]) if one else None for index, one in enumerate(placed.tolist())]


def _collect_histories(
    version: Version, items: Sequence[NewItem], histories: Mapping[str, Sequence[StoredEvent]]
) -> CustomerEvents:
    """A history for each customer of each item: the events with items of the version, and with that item."""
    ids = sorted({event.item for events in histories.values() for event in events})
    rows = dict(zip(ids, version.items.rows(ids).tolist(), strict=True))
    found: list[tuple[int, float, float]] = []
    lengths: list[int] = []
    for row, item in enumerate(items, start=len(version.items)):
        for user in item.customers:
            events = [
                (row if event.item == item.id else rows[event.item], event.weight, event.time)
                for event in histories.get(user, ())
                if event.weight > 0 and (event.item == item.id or rows[event.item] != UNKNOWN)
            ]
            if events and all(other != row for other, _, _ in events):
                events.append((row, 1.0, math.inf))  # it is not among the newest events, of which the history consists
            found += events
            lengths.append(len(events))
    item_rows, weights, times = np.array(found).reshape(-1, 3).T
    ordered = version.manifest["config"]["history"] != "folds"
    offsets = make_offsets(np.array(lengths, np.int64))
    return CustomerEvents(offsets, item_rows.astype(np.int64), weights, ordered, order_marks=times)
