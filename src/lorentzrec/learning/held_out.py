"""Events that are held out from training: one half of their customers chooses settings, the other half is the check.

Every choice that a run makes after its last epoch is made on `choosing`, and keeps the usual value unless another one
is clearly better. Nothing is chosen on `checking`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lorentzrec.data.arrays import make_mask, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.model.config import ResolvedConfig

CUSTOMER_LIMIT, UNORDERED_LIMIT, ORDERS_LIMIT = 1000, 5000, 2000
"""Customers with held-out events: with order, without order, and with orders of several items. A last event is worth
more to the points than another event, so fewer last events are held out."""


@dataclass(frozen=True)
class HeldOutHalves:
    """Held-out events, divided by customers."""

    choosing: Interactions
    """Events to choose settings by, such as the weight of the memory."""
    checking: Interactions | None
    """Events for the reality check; None if there are too few customers."""


def count_customers(data: Interactions, config: ResolvedConfig) -> int:
    """How many customers have held-out events, at most: a tenth of the customers with three events or more; without
    order a fifth, and with orders half of them."""
    eligible = int((data.lengths >= 3).sum())
    if config.history == "orders":
        return min(ORDERS_LIMIT, eligible // 2)
    return min(CUSTOMER_LIMIT, eligible // 10) if data.ordered else min(UNORDERED_LIMIT, eligible // 5)


def divide(held_out: Interactions, training: Interactions, config: ResolvedConfig) -> HeldOutHalves:
    """Divide the customers of held-out events at random.

    Customers without a training event, or without a held-out item that was trained on, are in neither half. If all
    customers are like this, all of them choose.
    """
    rows = training.users.rows(held_out.users.series)
    known = (rows != UNKNOWN) & (training.lengths[rows] > 0)
    found = known[held_out.user_rows] & (training.items.rows(held_out.items.series) != UNKNOWN)[held_out.item_rows]
    if held_out.labels is not None:
        found &= held_out.labels
    customers = np.unique(held_out.user_rows[found])
    if len(customers) == 0:
        return HeldOutHalves(held_out, None)
    order = np.random.default_rng([config.seed, 2]).permutation(customers)
    half, limit = (len(order) + 1) // 2, max(1, count_customers(training, config))
    choosing, checking = (
        held_out.select(make_mask(chosen, len(held_out.users))[held_out.user_rows])
        for chosen in (order[: min(half, limit)], order[half:])
    )
    return HeldOutHalves(choosing, checking if len(checking) else None)


def hold_out(
    data: Interactions, config: ResolvedConfig, customers: int | None = None
) -> tuple[Interactions, Interactions | None]:
    """Divide the data into events to learn from and held-out events: the last event, with orders the last order, and
    without times a random event, of some customers with at least three events. If there are labels, the held-out event
    is labelled, or an event of the held-out order.

    customers: how many customers, at most. None takes the number from `config.validation`.
    """
    if (customers is None and config.validation == 0) or customers == 0:
        return data, None
    labels = np.ones(len(data), bool) if data.labels is None else data.labels
    last = np.maximum(data.offsets[1:] - 1, 0)
    before = data.offsets if data.labels is None else make_offsets(labels.view(np.int8))[data.offsets]
    """Labelled events before each customer."""
    counts = np.diff(before)
    if config.history == "orders":
        count_before = np.zeros(len(data.users), np.int32)  # orders before the newest one
        np.maximum.at(count_before, data.user_rows, data.order_positions)
        newest = data.order_positions == count_before[data.user_rows]
        wholly = np.bincount(data.user_rows[newest & labels], minlength=len(data.users)) > 0
        eligible = np.flatnonzero((data.lengths >= 3) & wholly & (count_before > 0))
    else:
        eligible = np.flatnonzero((data.lengths >= 3) & (labels[last] if data.ordered else counts > 0))
    wanted = config.validation if config.validation >= 1 else config.validation * len(eligible)
    count = min(int(wanted) if customers is None else customers, len(eligible))
    if count == 0 and customers is not None:
        return data, None
    if count == 0:
        raise InputError(
            f"validation={config.validation} selects no customer: only {len(eligible)} have the required three events; "
            "set it to 0, or higher"
        )
    random = np.random.default_rng([config.seed, 1])
    chosen = random.choice(eligible, count, replace=False)
    positions = data.offsets[chosen + 1] - 1
    if not data.ordered:
        skipped = (random.random(count) * counts[chosen]).astype(np.int64)  # labelled events before the chosen one
        positions = np.flatnonzero(labels)[before[chosen] + skipped]
    held_out = make_mask(positions, len(data))
    if config.history == "orders":
        held_out = newest & make_mask(chosen, len(data.users))[data.user_rows]
    return data.select(~held_out), data.select(held_out)
