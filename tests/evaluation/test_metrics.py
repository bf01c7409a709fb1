"""Metrics against fractions worked out by hand, and against every order of ties."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.vocabulary import Id
from lorentzrec.evaluation.metrics import METRICS, Ranks, hit_rate, ndcg, recall, reciprocal_rank
from lorentzrec.evaluation.metrics import average_precision as map_at
from lorentzrec.evaluation.metrics import precision as precision_at
from tests.evaluation.fixed_scores import tied_lists


def ranks(owners: list[int], above: list[int], tied: list[int], positives: list[int]) -> Ranks:
    return Ranks(*(np.array(column, np.int64) for column in (owners, above, tied, positives)))


def test_one_item_at_rank_three() -> None:
    third = ranks([0], [2], [1], [1])
    assert hit_rate(third, 2) == [0]
    assert hit_rate(third, 3) == [1]
    assert recall(third, 3) == [1]
    assert ndcg(third, 3) == pytest.approx([1 / 2])  # 1 / log2(3 + 1), and a perfect list has 1
    assert reciprocal_rank(third, 2) == [0]
    assert reciprocal_rank(third, 3) == pytest.approx([1 / 3])
    assert precision_at(third, 4) == pytest.approx([1 / 4])
    assert map_at(third, 4) == pytest.approx([1 / 3])
    assert map_at(third, 2) == [0]


def test_several_items() -> None:
    """Ranks 1, 3 and 9; a fourth item is never found."""
    several = ranks([0, 0, 0], [0, 2, 8], [1, 1, 1], [4])
    assert hit_rate(several, 5) == [1]
    assert recall(several, 5) == pytest.approx([2 / 4])
    assert ndcg(several, 5) == pytest.approx([(1 + 1 / 2) / (1 + 1 / log2(3) + 1 / 2 + 1 / log2(5))])
    assert ndcg(several, 2) == pytest.approx([1 / (1 + 1 / log2(3))])  # a perfect list of two holds two of the four
    assert reciprocal_rank(several, 5) == pytest.approx([1])
    assert precision_at(several, 5) == pytest.approx([2 / 5])
    assert map_at(several, 5) == pytest.approx([(1 / 1 + 2 / 3) / 4])  # of four items
    assert map_at(several, 9) == pytest.approx([(1 / 1 + 2 / 3 + 3 / 9) / 4])
    assert map_at(several, 3) == pytest.approx([(1 / 1 + 2 / 3) / 3])  # a perfect list of three has three of the four


def test_one_item_in_a_tie() -> None:
    """One better candidate, then four ties: ranks 2, 3, 4 and 5 with 1/4 each."""
    tie = ranks([0], [1], [4], [1])
    assert hit_rate(tie, 3) == pytest.approx([2 / 4])
    assert recall(tie, 3) == pytest.approx([2 / 4])
    assert ndcg(tie, 3) == pytest.approx([(1 / log2(3) + 1 / 2) / 4])
    assert reciprocal_rank(tie, 3) == pytest.approx([(1 / 2 + 1 / 3) / 4])
    assert precision_at(tie, 3) == pytest.approx([2 / 4 / 3])
    assert map_at(tie, 3) == pytest.approx([(1 / 2 + 1 / 3) / 4])


def test_two_items_in_one_tie() -> None:
    """Both among five ties, a list of two: both miss with 3/5 * 2/4; the first is at rank 1 with 2/5, 2 with 3/10."""
    tie = ranks([0, 0], [0, 0], [5, 5], [2])
    assert hit_rate(tie, 2) == pytest.approx([1 - 3 / 5 * 2 / 4])
    assert recall(tie, 2) == pytest.approx([2 / 5])
    assert reciprocal_rank(tie, 2) == pytest.approx([2 / 5 * 1 + 3 / 10 * 1 / 2])
    assert precision_at(tie, 2) == pytest.approx([2 * 2 / 5 / 2])
    # Place 1 has one of them with 2/5; place 2, too, and then place 1 has the other one with 1/4.
    assert map_at(tie, 2) == pytest.approx([(2 / 5 * 1 + 2 / 5 * (1 + 1 / 4) / 2) / 2])


def test_customers_do_not_mix() -> None:
    three = ranks([0, 2, 2], [0, 0, 1], [1, 1, 1], [1, 1, 2])
    assert hit_rate(three, 1).tolist() == [1, 0, 1]
    assert recall(three, 1).tolist() == [1, 0, 1 / 2]
    assert ndcg(three, 1).tolist() == [1, 0, 1]
    assert reciprocal_rank(three, 1).tolist() == [1, 0, 1]


def test_nothing_found() -> None:
    nothing = ranks([], [], [], [1, 3])
    for metric in METRICS.values():
        assert metric(nothing, 4).tolist() == [0, 0]


@given(
    scores=st.dictionaries(st.integers(0, 9), st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=6),
    k=st.integers(1, 7),
    data=st.data(),
)
def test_ties_are_the_mean_over_every_order(scores: dict[Id, float], k: int, data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.sampled_from(sorted(scores)), min_size=1))
    unknown = data.draw(st.integers(0, 2))
    positives = len(wanted) + unknown
    expected = np.zeros(6)
    lists = [ordered[:k] for ordered in tied_lists(scores)]
    for listed in lists:
        hits = [place for place, item in enumerate(listed, start=1) if item in wanted]
        ideal = sum(1 / log2(place + 1) for place in range(1, min(k, positives) + 1))
        expected += [
            bool(hits),
            len(hits) / positives,
            sum(1 / log2(place + 1) for place in hits) / ideal,
            1 / hits[0] if hits else 0,
            len(hits) / k,
            sum(number / place for number, place in enumerate(hits, 1)) / min(k, positives),
        ]
    found = sorted(wanted)
    above = [sum(score > scores[item] for score in scores.values()) for item in found]
    tied = [sum(score == scores[item] for score in scores.values()) for item in found]
    measured = ranks([0] * len(found), above, tied, [positives])
    values = [metric(measured, k)[0] for metric in METRICS.values()]
    np.testing.assert_allclose(values, expected / len(lists), atol=1e-12)
