"""The similarity of items by counts, pair by pair: see `lorentzrec.points.similarity`."""

from __future__ import annotations

import math
from collections.abc import Sequence


def similarity(
    customers: Sequence[Sequence[Sequence[str]]], first: str, second: str, *, by_orders: bool, ordered: bool = True
) -> float:
    """v of two items. customers: the orders of each customer, oldest first, each a sequence of items."""
    weights: list[float] = [len({item for order in orders for item in order}) ** -0.25 for orders in customers]

    def common(a: str, b: str) -> float:
        held = [{item for order in orders for item in order} for orders in customers]
        return math.fsum(weight for weight, items in zip(weights, held, strict=True) if {a, b} <= items)

    c = common(first, second) / math.sqrt(common(first, first) * common(second, second))
    if not ordered:
        return c
    if by_orders:
        sets = [set(order) for orders in customers for order in orders]

        def together(a: str, b: str) -> int:
            return sum({a, b} <= items for items in sets)

        t = together(first, second) / math.sqrt(together(first, first) * together(second, second))
    else:
        total, counts = 0.0, {first: 0, second: 0}
        for orders in customers:
            events = [item for order in orders for item in order]
            for index, item in enumerate(events):
                counts[item] = counts.get(item, 0) + 1
                if item == first:
                    for step in range(1, 6):
                        near = [events[other] for other in (index - step, index + step) if 0 <= other < len(events)]
                        total += near.count(second) * 0.7 ** (step - 1)
        t = min(1.0, total / math.sqrt(counts[first] * counts[second]))
    return (c + 2 * t) / 3
