"""The rules of a shop, applied to the ranking of all items one after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlainRule:
    kind: str
    rows: tuple[int, ...]
    factor: float = 1.0
    shares: tuple[float, ...] | None = None
    position: int = 0
    limit: int = 0
    groups: tuple[int, ...] = ()


def rule_list(
    ranking: Sequence[tuple[int, float]], rules: Sequence[PlainRule], k: int
) -> tuple[list[tuple[int, float]], set[int]]:
    """The list of `k` items, and the rules that acted. `ranking`: all items that may be recommended, best first."""
    acted: set[int] = set()
    numbered = list(enumerate(rules))

    only = [(number, rule) for number, rule in numbered if rule.kind == "only"]
    if only:
        acted |= {number for number, _ in only}
        ranking = [(row, score) for row, score in ranking if any(row in rule.rows for _, rule in only)]

    exclude = [(number, rule) for number, rule in numbered if rule.kind == "exclude"]
    acted |= {number for number, rule in exclude for row, _ in ranking[:k] if row in rule.rows}
    ranking = [(row, score) for row, score in ranking if not any(row in rule.rows for _, rule in exclude)]

    lifting = [(number, rule) for number, rule in numbered if rule.kind in ("boost", "bury")]
    if lifting:
        spread, before = find_spread([score for _, score in ranking]), ranking
        lifted = [(row, score + spread * sum(find_lift(rule, row) for _, rule in lifting)) for row, score in ranking]
        ranking = sorted(lifted, key=lambda pair: -pair[1])
        old, new = ({row: place for place, (row, _) in enumerate(one[:k])} for one in (before, ranking))
        moved = {row for row in {*old, *new} if old.get(row) != new.get(row)}
        acted |= {number for number, rule in lifting if moved & set(rule.rows)}

    score_of, pinned = dict(ranking), dict[int, int]()
    for number, rule in numbered:
        position = rule.position
        for row in rule.rows if rule.kind == "pin" else ():
            if row not in score_of or row in pinned.values():
                continue
            while position in pinned:
                position += 1
            if position < k:
                pinned[position] = row
                acted.add(number)

    quotas = [(number, rule) for number, rule in numbered if rule.kind == "quota"]
    others: list[int] = []
    for row, _ in ranking:
        if len(others) + len(pinned) == k:
            break
        if row in pinned.values():
            continue
        full = {
            number
            for number, rule in quotas
            if rule.groups[row] >= 0
            and sum(rule.groups[other] == rule.groups[row] for other in [*pinned.values(), *others]) >= rule.limit
        }
        acted |= full
        if not full:
            others.append(row)

    rows: list[int] = []
    waiting = sorted(pinned.items())
    while others or waiting:
        if waiting and (waiting[0][0] <= len(rows) or not others):
            rows.append(waiting.pop(0)[1])
        else:
            rows.append(others.pop(0))
    return [(row, score_of[row]) for row in rows[:k]], acted


def find_lift(rule: PlainRule, row: int) -> float:
    if row not in rule.rows:
        return 0.0
    share = 1.0 if rule.shares is None else rule.shares[rule.rows.index(row)]
    return math.log(rule.factor) * share * (-1 if rule.kind == "bury" else 1)


def find_spread(scores: Sequence[float]) -> float:
    """By how much the score falls when the rank grows by a factor of e."""
    if len(scores) >= 100:
        return (scores[9] - scores[99]) / math.log(10)
    return (scores[0] - scores[-1]) / math.log(len(scores)) if len(scores) > 1 else 0.0
