"""Merging row by row, as `lorentzrec.spark.tables.merge` does for whole tables."""

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
    n = len(copies)
    added = sum(own - squared for _, own in copies) / n
    if not hyperbolic:
        mean = sum(point for point, _ in copies) / n
        return start + np.sqrt(n) * (mean - start), squared + added
    total = np.sum([point for point, _ in copies], axis=0)
    centre = total / np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum())
    cosine = start[0] * centre[0] - start[1:] @ centre[1:]
    if cosine <= 1:
        return centre, squared + added
    distance = np.arccosh(cosine)
    direction = (centre - cosine * start) / np.sinh(distance)
    far = np.sqrt(n) * distance
    return np.cosh(far) * start + np.sinh(far) * direction, squared + added
