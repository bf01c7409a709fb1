"""The points of a model, in rows and without ids: what a model, a published version and the service share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import spans_within
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.points.attribute_points import AttributePoints
from lorentzrec.points.complements import Complements
from lorentzrec.points.memory import Memory
from lorentzrec.points.repeats import Repeats
from lorentzrec.points.scoring import Scorer
from lorentzrec.points.similarity import Similarity
from lorentzrec.points.space import Space
from lorentzrec.points.topk import Rows
from lorentzrec.points.trend import Trend

BLOCK_BYTES = 16 * 2**20
"""Memory that one thread spends on the points of a block of histories."""


class History(NamedTuple):
    """What a customer has done, as rows."""

    items: Rows
    """Oldest first."""
    weights: NDArray[Any] | None = None
    """Negative for a dislike: see `lorentzrec.points.dislikes`."""
    times: NDArray[Any] | None = None
    """Unix seconds, for `Repeats`; NaN for an item that the customer looks at now and did not buy."""
    order_ages: NDArray[Any] | None = None
    """How many orders back each event is; None if every event is an order."""

    @property
    def for_query(self) -> tuple[Rows, NDArray[Any] | None, NDArray[Any] | None]:
        """What `Points.query` needs."""
        return self.items, self.weights, self.order_ages

    @property
    def liked(self) -> History:
        """Without dislikes."""
        return self if self.weights is None or (self.weights > 0).all() else self.where(self.weights > 0)

    @property
    def disliked(self) -> Rows:
        """The items of the dislikes."""
        return self.items[:0] if self.weights is None else self.items[self.weights < 0]

    def where(self, chosen: NDArray[np.bool_]) -> History:
        """The events where `chosen` is true."""
        return History(*(None if column is None else column[chosen] for column in self))  # type: ignore[arg-type]


def count_order_ages(marks: NDArray[Any]) -> NDArray[np.int64] | None:
    """How many orders back each event of a history is, oldest first; None if every event is an order.

    marks: the time or the number of the order of each event. Neighbours with equal marks are one order, and so are
    those with NaN.
    """
    changes = (marks[1:] != marks[:-1]) & ~((marks[1:] != marks[1:]) & (marks[:-1] != marks[:-1]))
    if changes.all():
        return None
    ages: NDArray[np.int64] = np.append(np.cumsum(changes[::-1])[::-1], 0)
    return ages


def read_history(histories: Interactions, user_row: int) -> History:
    """What one customer did in training."""
    span = slice(histories.offsets[user_row], histories.offsets[user_row + 1])
    columns = histories.weights, histories.times, histories.order_ages
    return History(histories.item_rows[span], *(None if column is None else column[span] for column in columns))


@dataclass(frozen=True, eq=False)
class Points:
    """What queries are made of and items are ranked by. Immutable: its arrays are read-only."""

    item_points: NDArray[np.float32]
    """One row per item, d + 1 numbers on the hyperboloid and d in flat space: what is recommended."""
    history_points: NDArray[np.float32]
    """What histories are made of: the same array as `item_points`, unless targets are separate."""
    item_counts: NDArray[np.int64]
    """Training events of each item: its popularity."""
    space: Space
    memory: Memory | None = None
    """What was bought after what, added to the scores; None if the points alone are better."""
    attributes: AttributePoints | None = None
    """Points of attributes, if the model was trained with any."""
    repeats: Repeats | None = None
    """What customers bought before, added to the scores; None if nothing of it is to be recommended again."""
    trend: Trend | None = None
    """What is popular now, and more popular than usual; None if the events have no clock that says it."""
    masses: NDArray[np.float32] | None = None
    """One number per item that is added to all of its scores, if the model learned any."""
    similarity: Similarity | None = None
    """Which items were bought by the same customers and together, for similar items; None: points alone find them."""
    complements: Complements | None = None
    """Which items were bought in one order, for outfits; None if the events have no orders."""

    def __post_init__(self) -> None:
        shape = self.item_points.shape if self.item_points.ndim == 2 else (len(self.item_points), 0)
        if self.item_points.ndim == 2 and shape[1] <= self.space.hyperbolic:
            raise InputError("the points of a model have no coordinates: give points of at least one dimension")
        shared = self.history_points is self.item_points
        object.__setattr__(self, "item_points", read_only("item_points", self.item_points, np.float32, shape))
        history_points = self.item_points if shared else self.history_points
        object.__setattr__(self, "history_points", read_only("history_points", history_points, np.float32, shape))
        object.__setattr__(self, "item_counts", read_only("item_counts", self.item_counts, np.int64, shape[:1]))
        if self.masses is not None:
            object.__setattr__(self, "masses", read_only("masses", self.masses, np.float32, shape[:1]))
        if self.memory is not None and self.memory.item_count != len(self):
            raise InputError("the memory of a model has other items than the model: build it from its training data")
        if self.repeats is not None and self.repeats.item_count != len(self):
            raise InputError("the repeats of a model have other items than the model: train it again")
        if self.trend is not None and self.trend.item_count != len(self):
            raise InputError("the trend of a model has other items than the model: train it again")
        if self.similarity is not None and self.similarity.item_count != len(self):
            raise InputError("the similarity of a model has other items than the model: train it again")
        if self.complements is not None and self.complements.item_count != len(self):
            raise InputError("the complements of a model have other items than the model: train it again")
        if self.attributes is not None and not self.attributes.fits(*shape):
            raise InputError("the attributes of a model do not fit its items and its points: train it again")

    def __len__(self) -> int:
        """The number of items."""
        return int(self.item_points.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.item_points.shape[1]) - self.space.hyperbolic

    @property
    def separate(self) -> bool:
        """Whether histories are made of other points than those that are recommended."""
        return self.history_points is not self.item_points

    @cached_property
    def centre(self) -> FloatArray:
        """The midpoint of all items."""
        return self.space.midpoints_from_sums(self.item_points.sum(axis=0, dtype=np.float64), len(self))

    @cached_property
    def scorer(self) -> Scorer:
        """Ranks all items."""
        return Scorer(self.item_points, self.space, self.history_points, self.memory, item_offsets=self.item_offsets)

    @cached_property
    def item_offsets(self) -> NDArray[np.float32] | None:
        """What is added to the score of each item for all customers: masses and the trend; None if nothing is."""
        of_trend = None if self.trend is None else self.trend.offsets
        if self.masses is None or of_trend is None:
            return of_trend if self.masses is None else self.masses
        return self.masses + of_trend

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """Numbers in the order of the popularity of items: by customers in the last days if there is a trend, then by
        training events."""
        if self.trend is None:
            return self.item_counts
        # Positions among distinct pairs, because a sum of both in one number would round.
        pairs = np.stack([self.trend.recent.astype(np.int64), self.item_counts])
        found: NDArray[np.int64] = np.unique(pairs, axis=1, return_inverse=True)[1].astype(np.int64).ravel()
        return found

    def with_trend(self, trend: Trend | None) -> Points:
        """The same with another trend. This is cheap."""
        found = replace(self, trend=trend)
        # What does not depend on the trend takes long in a large catalogue.
        found.__dict__["scorer"] = self.scorer.with_offsets(found.item_offsets)
        if "centre" in self.__dict__:
            found.__dict__["centre"] = self.centre
        return found

    def take(self, rows: Rows | Sequence[int]) -> Points:
        """The points of some items with their masses and attributes, and nothing else."""
        item_points = self.item_points[rows]
        history_points = self.history_points[rows] if self.separate else item_points
        attributes = None if self.attributes is None else self.attributes.take(np.asarray(rows))
        masses = None if self.masses is None else self.masses[rows]
        return Points(
            item_points, history_points, self.item_counts[rows], self.space, attributes=attributes, masses=masses
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Points]) -> Points:
        """The points of the items of at least one part, one part after another: nothing but points, counts and masses,
        which all parts have or none."""
        item_points = np.concatenate([part.item_points for part in parts])
        separate = any(part.separate for part in parts)
        history_points = np.concatenate([part.history_points for part in parts]) if separate else item_points
        counts = np.concatenate([part.item_counts for part in parts])
        masses = [part.masses for part in parts if part.masses is not None]
        joined = np.concatenate(masses) if masses else None
        return cls(item_points, history_points, counts, parts[0].space, masses=joined)

    def precise_items(self, rows: Rows) -> FloatArray:
        """The points of some items, see `Space.precise`."""
        return self.space.precise(self.item_points[rows])

    def precise_histories(self, rows: Rows) -> FloatArray:
        """What histories of some items are made of, see `Space.precise`."""
        return self.space.precise(self.history_points[rows])

    def query(
        self, history: Rows, event_weights: NDArray[Any] | None = None, order_ages: NDArray[Any] | None = None
    ) -> FloatArray:
        """The query point of a history (rows, oldest first, at least one that is liked): its midpoint, weighted by
        recency."""
        weights = self.space.recency_weights(len(history), event_weights, order_ages)
        return self.space.midpoint(self.precise_histories(history), weights)

    def queries(
        self,
        histories: Rows,
        offsets: NDArray[np.int64],
        event_weights: NDArray[Any] | None = None,
        order_ages: NDArray[Any] | None = None,
    ) -> FloatArray:
        """`query` for each of many histories, each with something liked: the g-th is
        `histories[offsets[g]:offsets[g + 1]]`."""
        found = np.empty((len(offsets) - 1, self.history_points.shape[1]))
        # Some histories at a time, because their points are copied in float64.
        for first, last in spans_within(np.diff(offsets), BLOCK_BYTES // (8 * found.shape[1])):
            start, end = offsets[first], offsets[last]
            if self.space.by_orders and order_ages is not None:
                ages = order_ages[start:end]
            else:
                ages = np.repeat(offsets[first + 1 : last + 1], np.diff(offsets[first : last + 1])) - 1
                ages = ages - np.arange(start, end)
            weights = np.power(self.space.recency, ages.astype(np.float64))
            if event_weights is not None:
                weights *= event_weights[start:end]
            groups = offsets[first:last] - start
            points = self.precise_histories(histories[start:end])
            liked = np.maximum(weights, 0)
            sums = np.add.reduceat(liked[:, None] * points, groups, axis=0)
            totals = np.add.reduceat(liked, groups)[:, None]
            if (weights < 0).any():
                disliked = np.maximum(-weights, 0)
                away = np.add.reduceat(disliked[:, None] * points, groups, axis=0)
                sums, totals = self.space.push(sums, away, totals[:, 0], np.add.reduceat(disliked, groups))
            found[first:last] = self.space.midpoints_from_sums(sums, totals)
        return found


def read_only(name: str, array: NDArray[Any], dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """A read-only view of an array of this type and shape; the caller's own array stays writeable."""
    if array.dtype != dtype or array.shape != shape:
        found, wanted = f"{array.dtype} {array.shape}", f"{np.dtype(dtype)} {shape}"
        raise InputError(f"the {name} of a model are {found}: give {wanted}, as config and vocabularies say")
    if array.flags.writeable:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array
