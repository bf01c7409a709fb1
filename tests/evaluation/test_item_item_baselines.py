"""EASE, GF-CF and the memories without points, against their formulas on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.evaluation import baselines
from lorentzrec.evaluation.baselines import EASE, GFCF, ItemItem, TransitionCounts
from lorentzrec.geometry import FloatArray
from lorentzrec.points.memory import SHARPNESS
from tests.reference import memory as reference


def events(*, ordered: bool) -> Interactions:
    random = np.random.default_rng(2)
    return Interactions.from_pairs(
        random.integers(0, 20, 150), random.integers(0, 12, 150), np.arange(150) if ordered else None
    )


def incidence(data: Interactions) -> FloatArray:
    matrix = np.zeros((len(data.users), len(data.items)))
    matrix[data.user_rows, data.item_rows] = 1
    return matrix


USERS = np.array([3, 0, 7])


def test_ease_solves_ridge_regressions_without_the_item_itself() -> None:
    data = events(ordered=False)
    history = incidence(data)
    expected = np.zeros((12, 12))
    for item in range(12):
        others = np.delete(np.arange(12), item)
        known = history[:, others]
        gram = known.T @ known + 5.0 * np.eye(11)
        expected[others, item] = np.linalg.solve(gram, known.T @ history[:, item])
    found = EASE(data, regularisation=5.0).score_histories(data, USERS)
    np.testing.assert_allclose(found, history[USERS] @ expected, atol=1e-5)


def test_ease_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "LARGEST_GRAM", 8 * 11**2)
    with pytest.raises(InputError, match="leave it out"):
        EASE(events(ordered=False))


def test_gf_cf_is_its_two_filters() -> None:
    data = events(ordered=False)
    history = incidence(data)
    users, items = np.sqrt(history.sum(axis=1)), np.sqrt(history.sum(axis=0))
    normalised = history / users[:, None] / items
    right: NDArray[np.float64] = np.linalg.svd(normalised)[2][:4].T
    expected = history @ normalised.T @ normalised + 0.5 * (history / items) @ right @ right.T * items
    found = GFCF(data, vectors=4, share=0.5).score_histories(data, USERS)
    np.testing.assert_allclose(found, expected[USERS], atol=1e-5)


@pytest.mark.parametrize("ordered", [True, False])
def test_memories_without_points_rank_by_the_sums_of_their_boosts(ordered: bool) -> None:
    data = events(ordered=ordered)
    matrix = reference.neighbours(data, ordered=ordered, found_count=0.0)
    found = (TransitionCounts if ordered else ItemItem)(data).score_histories(data, USERS)
    for row, user in enumerate(USERS.tolist()):
        expected = reference.boosts(matrix, data.history(user).tolist(), 1.0, ordered=ordered)
        sums = found[row] if ordered else found[row] / found[row].max()
        np.testing.assert_allclose(np.log1p(SHARPNESS * sums), expected, rtol=1e-5)


def test_transitions_need_an_order() -> None:
    with pytest.raises(InputError, match="item-item"):
        TransitionCounts(events(ordered=False))
