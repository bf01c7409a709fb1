"""What events look like in numbers: how many, how long the histories are, how often customers come back to an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions

QUANTILES = {"smallest": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "90%": 0.9, "99%": 0.99, "largest": 1.0}


@dataclass(frozen=True)
class DataSummary:
    """Numbers of some events. Customers and items without an event do not count."""

    customers: int
    items: int
    events: int
    density: float
    """Share of all pairs of a customer and an item that have an event."""
    repeats: float
    """Share of the events whose customer had an event with the same item before."""
    ties: float | None
    """Share of the pairs of consecutive events of a customer that have equal times; None without times."""
    first_time: float | None
    """Of the oldest event, in seconds since 1970; None without times."""
    last_time: float | None
    orders: int | None
    """None where events have no orders; so are the sizes of orders."""
    order_sizes: Mapping[str, int] | None
    """Events per order, by the names of `QUANTILES`."""
    history_lengths: Mapping[str, int]
    """Events per customer."""
    item_events: Mapping[str, int]
    """Events per item."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        return asdict(self)


def summarise(data: Interactions, *, dated: bool = True) -> DataSummary:
    """The numbers of these events. `dated`: their times are moments, not positions in a history."""
    times = data.times if dated else None
    lengths, item_counts = data.lengths[data.lengths > 0], data.item_counts[data.item_counts > 0]
    pairs = len(_count_pairs(data.user_rows, data.item_rows))
    order_sizes = None if data.orders is None else _count_pairs(data.user_rows, data.orders)
    return DataSummary(
        customers=len(lengths),
        items=len(item_counts),
        events=len(data),
        density=pairs / (len(lengths) * len(item_counts)),
        repeats=1 - pairs / len(data),
        ties=None if times is None else data.tied_share,
        first_time=None if times is None else float(times.min()),
        last_time=None if times is None else float(times.max()),
        orders=None if order_sizes is None else len(order_sizes),
        order_sizes=None if order_sizes is None else _find_quantiles(order_sizes),
        history_lengths=_find_quantiles(lengths),
        item_events=_find_quantiles(item_counts),
    )


def _count_pairs(user_rows: Any, others: Any) -> Integers:
    """How often each pair of a customer and another number occurs."""
    # Sorted, because NumPy's unique hashes: many times slower where nearly all pairs differ.
    pairs = np.sort(user_rows.astype(np.int64) * (int(others.max()) + 1) + others)
    counts: Integers = np.diff(np.flatnonzero(np.diff(pairs, prepend=-1, append=-1)))
    return counts


def _find_quantiles(values: Integers) -> dict[str, int]:
    found = np.quantile(values, list(QUANTILES.values()), method="inverted_cdf")
    return dict(zip(QUANTILES, found.astype(int).tolist(), strict=True))
