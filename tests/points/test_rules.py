"""The rules of a shop on top of a ranking, compared with a ranking of all items."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.points.rule_classes import RuleClasses, RuleKind, RuleOnRows
from lorentzrec.points.rules import Ranked, RowRules, RuledRanking
from lorentzrec.points.topk import Rows
from tests.reference.rules import PlainRule, rule_list


class FixedRanking:
    """A ranking by fixed scores, of items of which some may not be recommended; counts what it was asked for."""

    def __init__(self, scores: list[float], never: set[int]) -> None:
        self.scores = np.array(scores, np.float32)
        order = np.argsort(-self.scores, kind="stable")
        self.order = np.array([row for row in order.tolist() if row not in never], np.int64)
        self.asked: list[int] = []

    def __call__(self, count: int, allowed: Rows | None) -> Ranked:
        self.asked.append(count)
        rows = self.order if allowed is None else self.order[np.isin(self.order, allowed)]
        return rows[:count], self.scores[rows[:count]]

    def pairs(self, allowed: set[int] | None) -> list[tuple[int, float]]:
        return [(row, float(self.scores[row])) for row in self.order.tolist() if allowed is None or row in allowed]


def compile_rules(rules: list[PlainRule], count: int) -> RowRules | None:
    on_rows = [
        RuleOnRows(
            RuleKind(rule.kind),
            np.array(rule.rows, np.int64),
            rule.factor,
            None if rule.shares is None else np.array(rule.shares),
            rule.position,
            rule.limit,
            np.array(rule.groups, np.int32) if rule.groups else None,
        )
        for rule in rules
    ]
    return RuleClasses(count, on_rows).in_force(range(len(rules)))


@st.composite
def plain_rules(draw: st.DrawFn, count: int) -> PlainRule:
    kind = draw(st.sampled_from([*RuleKind]))
    size = draw(st.sampled_from([1, 3, 30, count]))
    rows = tuple(draw(st.lists(st.integers(0, count - 1), unique=True, min_size=1, max_size=min(size, 40))))
    if size == count and kind is not RuleKind.PIN:
        step = draw(st.integers(1, 5))
        rows = tuple(range(0, count, step))
    if kind is RuleKind.PIN:
        return PlainRule(kind, rows[:3], position=draw(st.integers(0, 12)))
    rows = tuple(sorted(rows))
    if kind in (RuleKind.BOOST, RuleKind.BURY):
        factor = draw(st.sampled_from([1.0, 1.5, 2.0, 10.0, 100.0]))
        shares = None
        if draw(st.booleans()):
            shares = tuple((row * 7 % 11) / 10 for row in rows)
        return PlainRule(kind, rows, factor=factor, shares=shares)
    if kind is RuleKind.QUOTA:
        modulus = draw(st.integers(1, 4))
        groups = tuple(row % modulus if row in rows else -1 for row in range(count))
        return PlainRule(kind, rows, limit=draw(st.integers(0, 3)), groups=groups)
    return PlainRule(kind, rows)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_ruled_list_is_that_of_a_ranking_of_all_items(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 7, 60, 700]))
    seed, levels = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([3, 20, 10**6]))
    generator = np.random.default_rng(seed)
    scores = (generator.standard_exponential(count) * levels / 5).round() / levels - 2
    never = set(np.flatnonzero(generator.random(count) < 0.1).tolist())
    allowed = None
    if data.draw(st.booleans()):
        allowed = set(np.flatnonzero(generator.random(count) < 0.5).tolist())
    rules = data.draw(st.lists(plain_rules(count), min_size=1, max_size=6))
    k = data.draw(st.sampled_from([1, 5, 10, 40]))

    ranking = FixedRanking(scores.tolist(), never)
    row_rules = compile_rules(rules, count)
    assert row_rules is not None
    ruled = RuledRanking(ranking, row_rules, k, None if allowed is None else np.array(sorted(allowed), np.int64))
    rows, found = ruled.arrange(ruled.first(k))

    expected, acted = rule_list(ranking.pairs(allowed), rules, k)
    assert rows.tolist() == [row for row, _ in expected]
    np.testing.assert_allclose(found, [score for _, score in expected], rtol=1e-5, atol=1e-6)
    assert set(ruled.acted) == acted


def test_a_boost_of_ten_carries_an_item_from_rank_100_to_rank_10() -> None:
    scores = [-math.log(rank) for rank in range(1, 1001)]  # so that the spread is 1 everywhere
    rules = compile_rules([PlainRule("boost", (99,), factor=10 * 1.001)], 1000)
    assert rules is not None
    ruled = RuledRanking(FixedRanking(scores, set()), rules, 20)
    assert ruled.first(20)[0].tolist() == [*range(9), 99, *range(9, 19)]
    assert ruled.acted == (0,)


def test_a_boost_reads_little_of_the_ranking() -> None:
    ranking = FixedRanking([-math.log(rank) for rank in range(1, 100_001)], set())
    rules = compile_rules([PlainRule("boost", tuple(range(0, 100_000, 3)), factor=3.0)], 100_000)
    assert rules is not None
    RuledRanking(ranking, rules, 10).first(10)
    assert max(ranking.asked) <= 100, "lifts of log 3 reach no further than three times the rank"


def test_a_rule_that_selects_items_beyond_the_list_did_not_act() -> None:
    ranking = FixedRanking([float(-row) for row in range(50)], set())
    rules = compile_rules([PlainRule("exclude", (30,)), PlainRule("exclude", (2, 31)), PlainRule("bury", (45,))], 50)
    assert rules is not None
    ruled = RuledRanking(ranking, rules, 5)
    assert ruled.first(5)[0].tolist() == [0, 1, 3, 4, 5]
    assert ruled.acted == (1,)


def test_a_quota_counts_pins() -> None:
    ranking = FixedRanking([float(-row) for row in range(6)], set())
    groups = (0, 0, 1, 1, 0, -1)
    rules = compile_rules([PlainRule("pin", (4,), position=0), PlainRule("quota", (), limit=1, groups=groups)], 6)
    assert rules is not None
    ruled = RuledRanking(ranking, rules, 4)
    assert ruled.arrange(ruled.first(4))[0].tolist() == [4, 2, 5]
    assert ruled.acted == (0, 1)


@pytest.mark.parametrize("count", [0, 5])
def test_without_rules_in_force_there_is_nothing_to_apply(count: int) -> None:
    assert RuleClasses(count, []).in_force([]) is None
