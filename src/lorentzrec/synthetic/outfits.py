"""Customers of a synthetic shop who buy outfits: items of one order that belong together."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.arrays import Booleans, Integers, make_offsets
from lorentzrec.synthetic.hierarchy import HIERARCHY, STYLES

STYLES_PER_CATEGORY = len(next(iter(HIERARCHY.values()))[1])
CATEGORIES = [category for _, category, _ in STYLES[::STYLES_PER_CATEGORY]]


def pair_categories(generator: np.random.Generator) -> Integers:
    """The category that completes each category, by its position in `CATEGORIES`: all of them on one circle, so that no
    category completes itself."""
    circle = generator.permutation(len(CATEGORIES))
    partners = np.empty(len(circle), np.int64)
    partners[circle] = np.roll(circle, 1)
    return partners


def complete_orders(
    generator: np.random.Generator,
    customer: Integers,
    items: Integers,
    opens_order: Booleans,
    sectors: Integers,
    partners: Integers,
    share: float,
) -> Integers:
    """The items of events, some of them replaced by one that completes the event before in the same order.

    With the probability `share`, an event is of the category that completes that of the event before, and of the style
    at the same position among those of its department: one of these items at random. It stays as it is if there are
    none, or if the customer has the item already.
    sectors: of each item, its position in `STYLES`.
    """
    items = items.copy()
    positions = np.arange(len(items)) - np.flatnonzero(opens_order)[np.cumsum(opens_order) - 1]
    replacing = generator.random(len(items)) < share
    by_sector = np.argsort(sectors, kind="stable")
    offsets = make_offsets(np.bincount(sectors, minlength=len(STYLES)))
    # All second items of orders, then all third ones, and so on: each completes what its order has by then.
    for position in range(1, int(positions.max()) + 1):
        now = np.flatnonzero(replacing & (positions == position))
        before = sectors[items[now - 1]]
        wanted = partners[before // STYLES_PER_CATEGORY] * STYLES_PER_CATEGORY + before % STYLES_PER_CATEGORY
        sizes = offsets[wanted + 1] - offsets[wanted]
        now, wanted, sizes = (column[sizes > 0] for column in (now, wanted, sizes))
        drawn = by_sector[offsets[wanted] + (generator.random(len(now)) * sizes).astype(np.int64)]
        pairs = customer[now] * len(sectors) + drawn
        first = np.unique(pairs, return_index=True)[1]
        first = first[~np.isin(pairs[first], customer * len(sectors) + items)]
        items[now[first]] = drawn[first]
    return items
