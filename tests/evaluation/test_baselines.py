"""The baselines against scores worked out by hand, and neighbours against a dense twin."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation import baselines
from lorentzrec.evaluation.baselines import Chance, ItemKNN, Popularity
from lorentzrec.evaluation.protocol import evaluate
from tests.evaluation.fixed_scores import events

# Customers of a: 1, 2, 3; of b: 1, 2; of c: 3, 4; of d: 4.
TRAIN = events([(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "c"), (4, "c"), (4, "d")])
A, B, C, D = (TRAIN.items.row(item) for item in "abcd")


def test_rows_of_the_example() -> None:
    assert sorted([A, B, C, D]) == [0, 1, 2, 3]


def test_chance() -> None:
    report = evaluate(Chance(TRAIN), events([(1, "c"), (4, "a")]), k=1)
    assert report["hr@1"] == pytest.approx(1 / 2)


def test_popularity() -> None:
    """Customer 4 has c and d, and is shown a before b; customer 1 has a and b, and is shown c before d."""
    report = evaluate(Popularity(TRAIN), events([(4, "b"), (1, "c")]), k=[1, 2])
    assert report["hr@1"] == 1 / 2
    assert report["mrr@2"] == pytest.approx((1 / 2 + 1) / 2)


def test_large_counts_stay_apart() -> None:
    model = Popularity(TRAIN)
    model.item_counts = np.array([2**24 + 1, 2**24, 5, 5])
    ((first, second, third, fourth),) = model.score_histories(TRAIN, np.array([0]))
    assert first > second > third == fourth


def test_neighbours_by_hand() -> None:
    similarity = ItemKNN(TRAIN, shrinkage=0).similarity.toarray()
    expected = np.zeros((4, 4))
    expected[A, B] = expected[B, A] = 2 / sqrt(3 * 2)
    expected[A, C] = expected[C, A] = 1 / sqrt(3 * 2)
    expected[C, D] = expected[D, C] = 1 / sqrt(2 * 1)
    np.testing.assert_allclose(similarity, expected, rtol=1e-6)


def test_scores_by_hand() -> None:
    """With shrinkage 1 and one neighbour each: a and b speak for each other, c for d and d for c."""
    model = ItemKNN(TRAIN, neighbours=1, shrinkage=1)
    history = Interactions.from_pairs(["x", "x", "x"], ["a", "a", "c"], times=[1, 2, 3])
    history = Interactions(history.users, TRAIN.items, history.offsets, np.array([A, A, C], np.int32))
    ((scores),) = model.score_histories(history, np.array([0]))
    expected = np.zeros(4)
    expected[B] = 2 / (sqrt(6) + 1)  # a counts once, though it occurs twice
    expected[D] = 1 / (sqrt(2) + 1)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_the_lower_row_stays_among_equals() -> None:
    """x is as near to y as to z, which have as many customers; y has the lower row."""
    train = events([(1, "x"), (1, "y"), (2, "x"), (2, "z")])
    similarity = ItemKNN(train, neighbours=1, shrinkage=0).similarity.toarray()
    x, y, z = (train.items.row(item) for item in "xyz")
    assert y < z
    assert similarity[x, y] > 0
    assert similarity[x, z] == 0


def test_an_empty_history_ties_everything() -> None:
    report = evaluate(ItemKNN(TRAIN), events([(1, "c"), (9, "d")]), k=1)
    assert report["hr@1"] == pytest.approx((1 + 1 / 4) / 2)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=30),
    neighbours=st.integers(1, 7),
    shrinkage=st.sampled_from([0.0, 2.5]),
)
def test_as_the_dense_twin(pairs: list[tuple[Id, Id]], neighbours: int, shrinkage: float) -> None:
    train = events(pairs)
    incidence = np.zeros((len(train.users), len(train.items)), np.float32)
    incidence[train.user_rows, train.item_rows] = 1
    norms = np.sqrt(incidence.sum(axis=0))
    dense = incidence.T @ incidence / (np.outer(norms, norms) + np.float32(shrinkage))
    np.fill_diagonal(dense, 0)
    for row in dense:
        row[np.argsort(-row, kind="stable")[neighbours:]] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "PAIRS_PER_BLOCK", 5)
        model = ItemKNN(train, neighbours, shrinkage)
        some = ItemKNN(train, neighbours, shrinkage, for_items=train.item_rows[-2:])
        known = model.similarity.toarray() * some.learned[:, None]
        assert np.array_equal(some.similarity.toarray(), known)
        some.learn(np.arange(len(train.items)))
    assert np.array_equal(some.similarity.toarray(), model.similarity.toarray()), "the same bits in two steps"
    np.testing.assert_allclose(model.similarity.toarray(), dense, rtol=1e-6)
    rows = np.arange(len(train.users))[::-1]
    np.testing.assert_allclose(model.score_histories(train, rows), (incidence @ dense)[rows], rtol=1e-5, atol=1e-6)


def test_histories_need_items_whose_neighbours_are_known() -> None:
    model = ItemKNN(TRAIN, for_items=np.empty(0, np.int64))
    with pytest.raises(InputError, match="call learn"):
        model.score_histories(TRAIN, np.arange(1))


@pytest.mark.parametrize(("neighbours", "shrinkage"), [(0, 1.0), (5, -1.0), (5, float("nan"))])
def test_settings_that_make_no_sense(neighbours: int, shrinkage: float) -> None:
    with pytest.raises(ConfigError, match="give 1 or more"):
        ItemKNN(TRAIN, neighbours, shrinkage)
