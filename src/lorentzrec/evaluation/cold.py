"""Items without events: all events of some items are held out, and these items are to be found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import take_items
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Chance
from lorentzrec.evaluation.protocol import Recommender

NEIGHBOUR_RECENCY = 0.7
"""Factor on the weight of a history item per step back, as in a model of sequences."""


class ColdTask(NamedTuple):
    """Training events without those of cold items, and what customers interacted with next, cold and warm."""

    train: Interactions
    """With warm items only."""
    cold_items: Vocabulary
    learned: Interactions
    """The same events in the rows of all items: warm ones, then cold ones."""
    histories: Interactions
    """In the same rows, the events before the test of its customers: `learned`, unless these customers are held out."""
    cold: Interactions
    warm: Interactions


def hold_out_items(
    train: Interactions,
    test: Interactions,
    share: float = 0.2,
    seed: int = 0,
    *,
    histories: Interactions | None = None,
) -> ColdTask:
    """Make a random `share` of the items cold: their training events are left out.

    histories: the events before the test of its customers, if these are held out of training; None: `train`.
    The test events of customers who have other events left are divided into those of cold and of warm items.
    """
    if not 0 < share < 1:
        raise ConfigError(f"share={share}: give a share of the items between 0 and 1")
    count = round(share * len(train.items))
    chosen = np.random.default_rng([seed, count]).permutation(len(train.items))
    warm_rows, cold_rows = np.sort(chosen[count:]), np.sort(chosen[:count])
    order = np.concatenate([warm_rows, cold_rows])

    def without_cold(part: Interactions) -> Interactions:
        everything = take_items(part, order)
        return everything.select(everything.item_rows < len(warm_rows))

    learned = without_cold(train)
    before = learned if histories is None else without_cold(histories)
    events = take_items(test, order)
    events = events.select(before.lengths[events.user_rows] > 0)
    is_cold = events.item_rows >= len(warm_rows)
    if not is_cold.any() or is_cold.all():
        raise InputError(
            f"the test has {int(is_cold.sum())} events of cold items and {int((~is_cold).sum())} of others: "
            "give more events, or another share"
        )
    return ColdTask(
        take_items(train, warm_rows),
        Vocabulary(train.items.series.gather(cold_rows), name="item"),
        learned,
        before,
        events.select(is_cold),
        events.select(~is_cold),
    )


class AmongItems:
    """A recommender that ranks some items above all others."""

    def __init__(self, system: Recommender, items: Vocabulary) -> None:
        self.items, self.histories, self.item_counts = system.items, system.histories, system.item_counts
        self.system = system
        self.others = np.flatnonzero(items.rows(system.items.series) == UNKNOWN)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = self.system.score_histories(histories, user_rows)
        scores[:, self.others] = np.finfo(np.float32).min
        return scores


class CategoryPopularity(Chance):
    """Scores an item by the training events of its category."""

    def __init__(self, train: Interactions, attributes: ItemAttributes) -> None:
        super().__init__(train)
        categories = attributes.align(train.items).categories
        events = np.bincount(categories + 1, train.item_counts, len(attributes.values) + 1)
        events[UNKNOWN + 1] = 0
        self.scores = events[categories + 1].astype(np.float32)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.tile(self.scores, (len(user_rows), 1))


class AttributeNeighbours(Chance):
    """Scores an item by its likeness to the items of the history: the cosine between their attributes, each weighted by
    the logarithm of how rare it is. Newer items of a history weigh more, if it has an order."""

    def __init__(self, train: Interactions, attributes: ItemAttributes) -> None:
        super().__init__(train)
        given = attributes.align(train.items)
        self.matrix = given.matrix(given.rarity).astype(np.float32)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        from scipy import sparse

        given = histories.histories_of(user_rows)
        weights = np.power(NEIGHBOUR_RECENCY if histories.ordered else 1.0, given.ages).astype(np.float32)
        history = sparse.csr_array((weights, given.items, given.offsets), (len(user_rows), len(self.items)))
        scores: NDArray[np.float32] = ((history @ self.matrix) @ self.matrix.T).toarray().astype(np.float32)
        return scores
