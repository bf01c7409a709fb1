"""A recommender whose scores are written down, and lists in every order that ties allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
from hypothesis import settings
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

Pairs = Sequence[tuple[Id, Id]]


def events(pairs: Pairs) -> Interactions:
    """(user, item) pairs as interactions, without times."""
    return Interactions.from_pairs([user for user, _ in pairs], [item for _, item in pairs])


class FixedScores:
    """Scores each item for each user by a table of ids; a user who is not in the table gets 0 for everything."""

    def __init__(self, histories: Interactions, table: Mapping[Id, Mapping[Id, float]], carried: bool = True) -> None:
        self.items = histories.items
        self.item_counts = histories.item_counts
        self.histories = histories if carried else None
        self.table = table

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        assert histories.items == self.items
        rows = [self.table.get(user, {}) for user in histories.users.ids(user_rows)]
        item_ids = self.items.series.to_list()
        return np.array([[row.get(item, 0.0) for item in item_ids] for row in rows], np.float32)


def tied_lists(scores: Mapping[Id, float]) -> Iterator[tuple[Id, ...]]:
    """The candidates from best to worst, once for every order of all: all orders of ties are equally frequent."""
    for order in permutations(scores):
        yield tuple(sorted(order, key=lambda item: -scores[item]))


def ranking_tasks(
    train: Pairs, test: Pairs, table: Mapping[Id, Mapping[Id, float]], k: int
) -> Iterator[tuple[set[Id], set[Id], list[tuple[Id, ...]]]]:
    """For each customer of the test: the items to find, the candidates, and all lists of length k that ties allow."""
    for user in {user for user, _ in test}:
        wanted = {item for owner, item in test if owner == user}
        history = {item for owner, item in train if owner == user}
        candidates = {item: table[user][item] for _, item in train if item in wanted or item not in history}
        yield wanted, set(candidates), [ordered[:k] for ordered in tied_lists(candidates)]


def random_scores() -> tuple[Interactions, Interactions, FixedScores]:
    """Events to train on and to test, and scores with many ties, of 40 customers and 40 items."""
    generator = np.random.default_rng(3)
    train = events([(int(user), int(item)) for user, item in generator.integers(0, 40, (300, 2))])
    test = events([(int(user), int(item)) for user, item in generator.integers(0, 40, (60, 2))])
    table: dict[Id, dict[Id, float]] = {
        user: {item: float(generator.integers(0, 8)) for item in range(40)} for user in range(40)
    }
    model = FixedScores(train, table)
    return train, test, model
