"""Histories of some customers in flat arrays."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary


def test_histories_of_some_customers_follow_one_another() -> None:
    users, items = Vocabulary.numbered(4, name="user"), Vocabulary.numbered(9, name="item")
    rows, weights = np.array([7, 3, 3, 5, 1, 8], np.int32), np.array([1, 2, 3, 4, 5, 6], np.float32)
    data = Interactions(users, items, np.array([0, 2, 2, 5, 6]), rows, weights=weights)
    found = data.histories_of(np.array([2, 1, 0, 2]))
    assert found.items.tolist() == [3, 5, 1, 7, 3, 3, 5, 1]
    assert found.offsets.tolist() == [0, 3, 3, 5, 8]
    assert found.weights is not None
    assert found.weights.tolist() == [3, 4, 5, 1, 2, 3, 4, 5]
    assert found.ages.tolist() == [2, 1, 0, 1, 0, 2, 1, 0]


def test_histories_without_weights_have_none() -> None:
    data = Interactions.from_pairs(["ann", "ann", "bob"], ["tea", "cup", "tea"], [1, 2, 3])
    found = data.histories_of(np.array([1]))
    assert (found.items.tolist(), found.offsets.tolist(), found.weights) == ([0], [0, 1], None)
