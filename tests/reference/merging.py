"""Merging row by row, as `lorentzrec.spark.merging` does for whole tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def merge_row(
    start: NDArray[np.float64], squared: float, copies: Sequence[tuple[NDArray[np.float64], float]], *, hyperbolic: bool
) -> tuple[NDArray[np.float64], float]:
    """The merged point and Adagrad sum of one row, from its copies that were changed."""
    if not copies:
        return start, squared
    if len(copies) == 1:
        return copies[0]
    total, mass = np.zeros_like(start), 0.0
    for point, own in copies:
        total = total + (own - squared) * point
        mass += own - squared
    centre = total / mass
    if hyperbolic:
        centre = total / np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum())
    return centre, squared + mass
