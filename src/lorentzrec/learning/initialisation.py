"""Where points start: in a cube, in a ball, or at a radius that falls with an item's frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lorentzrec.model.config import TrainingConfig


def initial_space(
    count: int, config: TrainingConfig, frequency: NDArray[np.int64] | None, random: np.random.Generator
) -> NDArray[np.float32]:
    """The space coordinates of `count` points, near the origin; the lift to the sheet is the caller's.

    cube: uniform in a cube of side `initial_width` (the paper's MovieLens runs).
    ball: uniform in a ball of Poincare radius `initial_width`.
    frequency: on the sphere of Poincare radius `initial_width` / ln(e - 1 + n) for an item met n times. The paper
    prints 1 / ln n, which is infinite for n = 1; the shift by e - 1 makes it 1 there. Customers have no frequency and
    start in the ball.
    """
    dimension, width = config.dimension, config.initial_width
    if width is None:
        raise ValueError("resolve the config first")
    if config.initialisation == "cube":
        return random.uniform(-width / 2, width / 2, (count, dimension)).astype(np.float32)
    direction = random.standard_normal((count, dimension), np.float32)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    if config.initialisation == "frequency" and frequency is not None:
        radius = width / np.log(np.e - 1 + np.maximum(frequency, 1))
    else:
        radius = width * random.random(count) ** (1 / dimension)
    # Poincare radius r stands at 2 r / (1 - r^2) on the hyperboloid
    return direction * (2 * radius / (1 - radius**2)).astype(np.float32)[:, None]
