"""Baselines of shops, whose customers buy the same items again: habits, recent popularity, TIFU-kNN and UP-CF.

Each of them scores what a customer bought before, so they are compared with the candidates "all" of `evaluate`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Chance

FILL = 1e-6
"""The share of popularity in scores of habits: it decides only between items that a customer never bought."""


class RecentPopularity(Chance):
    """Scores every item by its events in the last `days` before the newest training event; all events decide between
    items with equally many. Times in the future are those of wrong clocks, and are not among the newest."""

    def __init__(self, train: Interactions, days: float = 28.0) -> None:
        _check_positive("days", days)
        super().__init__(train)
        times, now = _times(train), time.time()
        past = times <= now
        newest = float(times.max(where=past, initial=times.min())) if past.any() else -np.inf
        recent = (times > newest - days * SECONDS_PER_DAY) & past
        counts = np.bincount(train.item_rows[recent], minlength=len(train.items))
        self.scores = (counts + FILL * _shares(train)).astype(np.float32)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.tile(self.scores, (len(user_rows), 1))


class OwnFrequency(Chance):
    """Scores an item by how often the customer bought it, filled up with popularity.

    half_life: after that many days an event counts half; None: all events count the same.
    """

    def __init__(self, train: Interactions, half_life: float | None = None) -> None:
        if half_life is not None:
            _check_positive("half_life", half_life)
            _times(train)
        super().__init__(train)
        self.half_life, self.popularity = half_life, FILL * _shares(train)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        weights = np.ones(len(histories))
        if self.half_life is not None:
            weights = 0.5 ** (_days_before_newest(histories) / self.half_life)
        counts: Floats = _weighted(histories, weights)[user_rows].toarray()
        return (counts + self.popularity).astype(np.float32)


class TIFUKNN(Chance):
    """Temporal item frequencies of the customer and of similar customers (Hu et al., 2020).

    The orders of a customer form groups of `group_size`, counted from the newest. An order counts `within` to the power
    of its age in the group, and a group `between` to the power of its age; a vector is the mean over groups. The score
    is `own` times the customer's vector plus the rest times the mean vector of the `neighbours` nearest customers of
    the training data, by Euclidean distance. Popularity decides between items with equal scores.
    """

    def __init__(
        self,
        train: Interactions,
        neighbours: int = 300,
        group_size: int = 7,
        within: float = 0.9,
        between: float = 0.7,
        own: float = 0.7,
    ) -> None:
        if neighbours < 1 or group_size < 1 or not 0 < within <= 1 or not 0 < between <= 1 or not 0 <= own <= 1:
            raise ConfigError(
                f"neighbours={neighbours}, group_size={group_size}, within={within}, between={between}, own={own}: "
                "give counts of 1 or more, decays above 0 and up to 1, and a share from 0 to 1"
            )
        super().__init__(train)
        self.neighbours, self.group_size, self.within, self.between, self.own = (
            neighbours,
            group_size,
            within,
            between,
            own,
        )
        self.popularity = FILL * 1e-6 * _shares(train)
        self.vectors = self._make_vectors(train)
        self.norms = np.asarray(self.vectors.multiply(self.vectors).sum(axis=1)).ravel()

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        own = self._make_vectors(histories)[user_rows]
        count = max(1, min(self.neighbours, self.vectors.shape[0] - 1))
        # The customer is among the nearest if they are in the training data: the distance to oneself is excluded.
        near: Floats = 2 * (own @ self.vectors.T).toarray() - self.norms
        near[_find_themselves(self.histories, histories, user_rows)] = -np.inf
        chosen = np.argpartition(-near, count - 1, axis=1)[:, :count]
        others = np.stack([np.asarray(self.vectors[rows].mean(axis=0)).ravel() for rows in chosen])
        scores: Floats = self.own * own.toarray() + (1 - self.own) * others + self.popularity
        return scores.astype(np.float32)

    def _make_vectors(self, data: Interactions) -> Any:
        """Sparse (customers, items)."""
        ages, counts = _order_ages(data)
        groups = np.ceil(counts / self.group_size)
        weights = self.within ** (ages % self.group_size) / self.group_size
        return _weighted(data, weights * self.between ** (ages // self.group_size) / groups)


class UPCF(Chance):
    """User-wise popularity with neighbours (Faggioli et al., 2020): the share of the last `window` orders of a customer
    that contain an item, and that of similar customers, weighted by the asymmetric cosine to the power of `locality`.

    Popularity decides between items with equal scores.
    """

    def __init__(
        self,
        train: Interactions,
        window: int = 25,
        locality: float = 5.0,
        asymmetry: float = 0.25,
        neighbours: int = 300,
    ) -> None:
        if window < 1 or neighbours < 1 or locality < 1 or not 0 <= asymmetry <= 1:
            raise ConfigError(
                f"window={window}, neighbours={neighbours}, locality={locality}, asymmetry={asymmetry}: give 1 or more "
                "for the first three, and a share from 0 to 1"
            )
        super().__init__(train)
        self.window, self.locality, self.asymmetry, self.neighbours = window, locality, asymmetry, neighbours
        self.incidence, self.shares = train.incidence(), self._make_shares(train)
        self.sizes = np.asarray(self.incidence.sum(axis=1)).ravel()
        self.popularity = FILL * 1e-6 * _shares(train)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        given = histories.incidence(user_rows)
        sizes = np.asarray(given.sum(axis=1)).ravel()
        common: Floats = (given @ self.incidence.T).toarray()
        norms = np.maximum(sizes[:, None], 1) ** self.asymmetry * np.maximum(self.sizes, 1) ** (1 - self.asymmetry)
        similar = (common / norms) ** self.locality
        count = min(self.neighbours, similar.shape[1])
        cut = np.partition(similar, -count, axis=1)[:, -count]
        similar[similar < cut[:, None]] = 0
        # A customer of the training data is their own nearest neighbour, with the similarity 1.
        similar[_find_themselves(self.histories, histories, user_rows)] = 0
        scores: Floats = self._make_shares(histories)[user_rows].toarray() + similar @ self.shares
        return (scores + self.popularity).astype(np.float32)

    def _make_shares(self, data: Interactions) -> Any:
        """Sparse (customers, items): the share of the last orders that contain an item."""
        ages, counts = _order_ages(data)
        weights = np.where(ages < self.window, 1 / np.minimum(counts, self.window), 0.0)
        return _weighted(data, weights)


def _find_themselves(train: Interactions, histories: Interactions, user_rows: Integers) -> tuple[Integers, Integers]:
    """Of the customers who are in the training data, the indices in `user_rows`, and their rows there."""
    rows = train.users.rows(histories.users.ids(user_rows))
    indices = np.flatnonzero(rows != UNKNOWN)
    return indices, rows[indices]


def _weighted(data: Interactions, weights: Floats) -> Any:
    """Sparse (customers, items): the sum of the weights of the events."""
    from scipy import sparse

    return sparse.csr_array((weights, (data.user_rows, data.item_rows)), (len(data.users), len(data.items)))


def _order_ages(data: Interactions) -> tuple[Integers, Integers]:
    """For each event, how many orders of its customer are newer, and how many orders the customer has."""
    filled = data.lengths > 0
    counts = np.zeros(len(data.users), np.int64)
    if len(data):
        counts[filled] = np.maximum.reduceat(data.order_positions, data.offsets[:-1][filled]) + 1
    of_events = counts[data.user_rows]
    return of_events - 1 - data.order_positions, of_events


def _days_before_newest(data: Interactions) -> Floats:
    """For each event, days before the newest event of its customer."""
    times = _times(data)
    newest = np.zeros(len(data.users))
    filled = data.lengths > 0
    newest[filled] = times[data.offsets[1:][filled] - 1]
    days: Floats = (newest[data.user_rows] - times) / SECONDS_PER_DAY
    return days


def _shares(train: Interactions) -> Floats:
    """The events of each item, as shares of the most popular one."""
    shares: Floats = train.item_counts / max(1, train.item_counts.max())
    return shares


def _times(data: Interactions) -> NDArray[Any]:
    if data.times is None:
        raise InputError("recent popularity and half-lives need times, and these events have none: give times")
    return data.times


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ConfigError(f"{name} is {value}: give a positive number of days")
