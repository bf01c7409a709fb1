"""Customers on the map of items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.geometry.charts import from_poincare, to_poincare
from lorentzrec.geometry.midpoint import einstein_midpoint


def customer_coordinates(
    coordinates: NDArray[np.float32], histories: Interactions, user_rows: NDArray[Any]
) -> NDArray[np.float32]:
    """For each customer, the Einstein midpoint of the places of their history on the map: Poincare coordinates (n, 2).

    `coordinates` are those of the items of `histories`.
    """
    places = from_poincare(coordinates.astype(np.float64))
    midpoints = [einstein_midpoint(places[histories.history(int(row))]) for row in user_rows]
    return to_poincare(np.reshape(midpoints, (-1, 3))).astype(np.float32)


def sampled_customers(histories: Interactions, count: int, seed: int = 0) -> NDArray[np.int64]:
    """The rows of `count` customers who have events, drawn by chance, in rising order."""
    active = np.flatnonzero(np.diff(histories.offsets) > 0)
    if count > len(active):
        raise InputError(f"there are {len(active):,} customers with events, not {count:,}: ask for fewer")
    return np.sort(np.random.default_rng(seed).choice(active, count, replace=False))
