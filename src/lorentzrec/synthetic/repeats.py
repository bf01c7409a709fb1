"""Customers of a synthetic shop who buy again what they have bought before."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lorentzrec.data.arrays import Booleans, Floats, Integers


def repeat_items(
    generator: np.random.Generator,
    customer: Integers,
    items: Integers,
    opens_order: Booleans,
    probabilities: Floats,
) -> Integers:
    """The items of events, some of them replaced by an item of an earlier order of the same customer.

    Each event after the first order of its customer meets a random earlier event, so that what was bought often is
    bought again more often. It repeats that item with the probability of the item, unless its order has the item
    already. Events are grouped by customer, no customer has an item twice, and orders are contiguous.
    """
    items = items.copy()
    history_starts = np.searchsorted(customer, customer)
    order_starts = np.flatnonzero(opens_order)[np.cumsum(opens_order) - 1]
    orders = np.cumsum(opens_order)
    positions: Integers = orders - orders[history_starts]
    # All customers' second orders, then their third orders, and so on: each sees the repeats of those before.
    by_position = np.argsort(positions, kind="stable")
    bounds = np.searchsorted(positions[by_position], np.arange(1, positions.max() + 2))
    for start, stop in pairwise(bounds):
        now = by_position[start:stop]
        earlier = order_starts[now] - history_starts[now]
        met = items[history_starts[now] + (generator.random(len(now)) * earlier).astype(np.int64)]
        repeating = np.flatnonzero(generator.random(len(now)) < probabilities[met])
        pairs = customer[now[repeating]] * len(probabilities) + met[repeating]
        repeating = repeating[np.unique(pairs, return_index=True)[1]]
        items[now[repeating]] = met[repeating]
    return items
