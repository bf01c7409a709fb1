"""Outfits in plain Python: see `lorentzrec.points.outfits` and `complements`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import median

PRIOR, POPULARITY, LEAST = 2.0, 0.25, 1e-12

Counts = Mapping[tuple[int, int], float]
"""t of two items; (i, i) has the count of an item."""


def count_together(orders: Sequence[tuple[float, frozenset[int]]]) -> dict[tuple[int, int], float]:
    """t of all pairs. orders: for each the days since it, and its items."""
    found: dict[tuple[int, int], float] = {}
    for age, items in orders:
        if len(items) < 2:
            continue
        for first in items:
            for second in items:
                weight = 2 ** (-age / 140) / len(items)
                found[first, second] = found.get((first, second), 0.0) + weight
    return found


def scores(
    counts: Counts,
    categories: Sequence[str | None],
    basket: Sequence[int],
    eligible: Sequence[int] = (),
    by_points: Sequence[float] = (),
    scored: int = 0,
) -> list[float]:
    """The score of every item for a basket of distinct items. by_points: what points add to each item; only the
    `scored` best eligible items without it get it, and all others the least of theirs."""
    everything = range(len(categories))

    def own(item: int) -> float:
        return counts.get((item, item), 0.0)

    def together(first: str | None, second: str | None) -> float:
        pairs = ((i, j) for i in everything for j in everything if i != j)
        return math.fsum(counts.get((i, j), 0.0) for i, j in pairs if (categories[i], categories[j]) == (first, second))

    def total(category: str | None) -> float:
        return math.fsum(own(item) for item in everything if categories[item] == category)

    def usual(item: int) -> float:
        others = [own(other) for other in everything if categories[other] == categories[item] and own(other) > 0]
        return own(item) or (median(others) if others else 0.0)

    found = []
    for item in everything:
        size = total(categories[item])
        share = usual(item) / size if size else 0.0
        x = 0.0
        for one in basket:
            bought = total(categories[one])
            expected = together(categories[one], categories[item]) / bought if bought else 0.0
            known = counts.get((one, item), 0.0) if one != item else 0.0
            x += (known + PRIOR * expected * share) / (own(one) + PRIOR)
        found.append(math.log(max(x, LEAST)) - POPULARITY * math.log1p(usual(item)))
    if eligible and len(by_points):
        first = sorted(eligible, key=lambda item: (-found[item], item))[:scored]
        least = min(by_points[item] for item in first)
        found = [score + (by_points[item] if item in first else least) for item, score in enumerate(found)]
    return found


def fill(
    ranked: Sequence[int],
    categories: Sequence[str | None],
    k: int,
    per_category: int,
    slots: Sequence[str] | None,
    prices: Sequence[float] | None,
    budget: float | None,
) -> list[int]:
    """The items of an outfit from those that may be in it, best first."""

    def price(item: int) -> Decimal:
        return Decimal(0) if budget is None or prices is None else Decimal(str(prices[item]))

    left = Decimal(0) if budget is None else Decimal(str(budget))
    waiting: dict[str, Decimal] = {}
    if slots is not None:
        cheapest = {
            slot: min(price(item) for item in ranked if categories[item] == slot)
            for slot in slots
            if any(categories[item] == slot for item in ranked)
        }
        for slot in sorted(cheapest, key=lambda slot: cheapest[slot]):
            if sum(waiting.values()) + cheapest[slot] <= left:
                waiting[slot] = cheapest[slot]
        ranked = [item for item in ranked if categories[item] in waiting]
    found: list[int] = []
    for item in ranked:
        if len(found) == k:
            break
        category, room = categories[item], k - len(found)
        if sum(categories[other] == category for other in found) >= per_category:
            continue
        others = sorted(value for slot, value in waiting.items() if slot != category)
        if category not in waiting and len(others) >= room:
            continue
        if price(item) + sum(others[: room - 1], Decimal(0)) <= left:
            found.append(item)
            left -= price(item)
            waiting.pop(str(category), None)
    return found
