"""What customers dislike: events of negative weight.

A dislike pushes the midpoint of a history away (`lorentzrec.geometry.repulsion`), with its weight by recency like any
other event, and its item is not recommended to the customer. Memory, repeats and reasons know only what is liked. A
later event of positive weight with the item takes the dislike back; an item that is only looked at now does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.points.points import History
from lorentzrec.points.topk import Rows


def find_taken_back(
    items: Rows, weights: NDArray[Any], times: NDArray[Any] | None = None, owners: NDArray[Any] | None = None
) -> Booleans:
    """Which events are dislikes that a later event takes back.

    Events are oldest first; `times` are NaN for what is only looked at. owners: whose event each is; None: all are of
    one customer.
    """
    taken_back: Booleans = weights < 0
    if not taken_back.any():
        return taken_back
    keys = items.astype(np.int64)
    if owners is not None:
        keys += owners * (int(items.max()) + 1)
    pairs = np.unique(keys, return_inverse=True)[1]
    liked = weights > 0 if times is None else (weights > 0) & ~np.isnan(times)
    newest = np.full(len(items), -1)
    np.maximum.at(newest, pairs[liked], np.flatnonzero(liked))
    taken_back &= newest[pairs] > np.arange(len(items))
    return taken_back


def settle(history: History) -> History:
    """A history without the dislikes that were taken back."""
    if history.weights is None or not (history.weights < 0).any():
        return history
    return history.where(~find_taken_back(history.items, history.weights, history.times))
