"""Metrics of lists of similar items, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lorentzrec import InputError, Interactions
from lorentzrec.data.arrays import Integers
from lorentzrec.evaluation.similar_lists import CosineOfCustomers, evaluate_similar, find_pairs


class Given:
    """Lists that are written down."""

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = np.array(lists)

    def find(self, rows: Integers, k: int) -> Integers:
        return self.lists[rows, :k]


def test_metrics_by_hand() -> None:
    data = Interactions.from_pairs(
        ["t1", "t1", "t1", "t2", "t2", "t3", "h", "h", "h"], list("abcabaabc"), times=[1, 1, 1, 1, 1, 1, 1, 1, 2]
    )
    held_out = data.user_rows == data.users.row("h")
    train, test = data.select(~held_out), data.select(held_out)
    a, b, c = map(data.items.row, "abc")
    assert sorted(map(tuple, find_pairs(test).tolist())) == sorted([(a, b), (b, a)])
    lists = [[0, 0], [0, 0], [0, 0]]
    lists[a], lists[b], lists[c] = [c, -1], [a, c], [a, b]
    categories = sparse.csr_array(np.array([[1, 1], [1, 0], [0, 1]])[np.argsort([a, b, c])])
    found = evaluate_similar({"given": Given(lists)}, test, train, categories, k=2)["given"]
    # Jaccard of (a, c), (b, a), (b, c), (c, a), (c, b): 1/2, 1/2, 0, 1/2, 0.
    assert found.same_category == pytest.approx(3 / 10)
    assert found.most_lists == 2
    assert found.gini == pytest.approx((-2 * 1 + 0 * 2 + 2 * 2) / (3 * 5))
    assert found.found == pytest.approx(1 / 2)
    # Weights: b has 2 training events, a has 3; only (b, a) is found.
    assert found.found_weighted == pytest.approx((1 / 3) / (1 / 3 + 1 / 2))


def test_cosine_of_customers() -> None:
    data = Interactions.from_pairs(["x", "x", "y", "y", "z"], list("abacb"))
    a, b, c = map(data.items.row, "abc")
    lists = CosineOfCustomers(data).find(np.array([a, b, c]), 2)
    # a: customers x, y; b: x, z; c: y. cos(a, c) = 1 / sqrt(2), cos(a, b) = 1/2, cos(b, c) = 0.
    assert lists.tolist() == [[c, b], [a, -1], [a, -1]]


def test_steps_of_histories_without_orders() -> None:
    data = Interactions.from_pairs(["u"] * 7, list("abcdefg"), times=range(7))
    pairs = {(data.items.id(left), data.items.id(right)) for left, right in find_pairs(data).tolist()}
    assert ("a", "f") in pairs
    assert ("f", "a") in pairs
    assert ("a", "g") not in pairs


def test_customers_without_pairs_are_refused() -> None:
    data = Interactions.from_pairs(["u", "u", "v"], list("aba"), times=[1, 2, 1])
    train, test = data.select(data.user_rows == 0), data.select(data.user_rows == 1)
    with pytest.raises(InputError, match="bought no two known items together"):
        evaluate_similar({}, test, train, sparse.csr_array((2, 1)))
