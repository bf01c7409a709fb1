"""Other libraries under our protocol: the scores are theirs, and every customer gets recommendations."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.errors import InputError
from lorentzrec.evaluation import peers
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.peers import ImplicitALS, ImplicitBPR
from tests.evaluation.fixed_scores import events

TRAIN = events([(user, 10 * (user % 2) + (user + step) % 5) for user in range(20) for step in range(4)])
"""Even customers have four of the items 0 to 4, odd ones four of 10 to 14."""


@pytest.mark.parametrize("kind", [ImplicitALS, ImplicitBPR])
def test_scores_are_inner_products_of_factors(kind: type[ImplicitALS] | type[ImplicitBPR]) -> None:
    pytest.importorskip("implicit")
    peer = kind(TRAIN, factors=3, iterations=5, threads=1)
    rows = np.array([3, 0, 7])
    expected = [[float(user @ item) for item in peer.model.item_factors] for user in peer.model.user_factors[rows]]
    np.testing.assert_allclose(peer.score_histories(TRAIN, rows), expected, rtol=1e-5, atol=1e-6)


def test_a_stranger_has_factors_from_a_history_or_sees_what_is_popular() -> None:
    pytest.importorskip("implicit")
    history = events([(99, 11), (99, 12)])
    history = type(history)(history.users, TRAIN.items, history.offsets, TRAIN.items.rows([11, 12]).astype(np.int32))
    als = ImplicitALS(TRAIN, factors=4, iterations=10, threads=1).score_histories(history, np.array([0]))[0]
    of = dict(zip(TRAIN.items.series.to_list(), als.tolist(), strict=True))
    assert min(of[item] for item in range(10, 15)) > max(of[item] for item in range(5)), "as odd customers"
    bpr = ImplicitBPR(TRAIN, factors=4, iterations=2, threads=1).score_histories(history, np.array([0]))
    np.testing.assert_array_equal(bpr, Popularity(TRAIN).score_histories(history, np.array([0])))


def test_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "has_implicit", lambda: False)
    with pytest.raises(
        InputError,
        match="implicit is not installed: pip install 'lorentzrec\\[bench\\]', or leave",
    ):
        ImplicitALS(TRAIN)
