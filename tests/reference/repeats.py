"""Repeats, one event at a time; see `lorentzrec.points.repeats`."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry import FloatArray


def rates(data: Interactions) -> list[float]:
    """r_j of all items."""
    orders: list[set[tuple[int, int]]] = [set() for _ in range(len(data.items))]
    for user, item, order in zip(data.user_rows, data.item_rows, data.order_positions, strict=True):
        orders[item].add((int(user), int(order)))
    again = [len(found) - len({user for user, _ in found}) for found in orders]
    average = max(1, sum(again)) / max(1, sum(map(len, orders)))
    return [
        math.sqrt((count + 20 * average) / (len(found) + 20) / average)
        for count, found in zip(again, orders, strict=True)
    ]


def boosts(
    rates: Any,
    weight: float,
    half_life: float | None,
    history: list[int],
    times: Any = None,
    event_weights: Any = None,
    order_decay: float = 1.0,
) -> FloatArray:
    """weight * log(1 + r f) of all items."""
    counts = np.zeros(len(rates))
    bought = [] if times is None else [time for time in times if not math.isnan(time)]
    purchase = -1
    for event, item in enumerate(history):
        share = 1.0 if event_weights is None else float(event_weights[event])
        if times is not None:
            if math.isnan(times[event]):
                continue
            purchase += 1
            for earlier, later in pairwise(bought[purchase:]):
                share *= order_decay if later != earlier else 1
            if half_life is not None:
                share *= 0.5 ** ((max(bought) - times[event]) / 86_400 / half_life)
        counts[item] += share
    return np.array([weight * math.log1p(rate * count) for rate, count in zip(rates, counts, strict=True)])
