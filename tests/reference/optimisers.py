"""One step of one point, as the paper writes it: the reference of `kernels.steps`, in float64 and from the functions of
`geometry`.

A row of a table is a point of either space: flat rows have a time part that stays zero, and the zeros behind the last
coordinate are coordinates like all others. So the rows go into `geometry` as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels.structures import (
    ADAM_DECAY,
    ADAM_EPSILON,
    ADAM_SQUARED_DECAY,
    BROKEN,
    CAPPED,
    CLIPPED,
    MAXIMUM_RADIUS,
    MAXIMUM_STEP,
    Optimiser,
    Settings,
    Table,
)
from tests.reference import euclidean, hyperboloid
from tests.reference.losses import penalty

Counters = NDArray[np.int64]


def row_step(table: Table, row: int, gradient: FloatArray, settings: Settings, counters: Counters) -> None:
    """Move one row down a gradient, in place.

    The paper's three steps: h with the metric applied (the caller's), its projection h_t = h + <x, h> x, and the
    exponential map of a multiple of -h_t, or with Adam of its momentum (equations 20 to 22). Around them: the penalty's
    gradient is added to h, h_t is shortened to `clip_norm`, the step to `MAXIMUM_STEP`, and the point is held within
    `MAXIMUM_RADIUS`. Whatever is shortened is counted, and the first row that is not finite is noted.
    """
    space: Any = hyperboloid if settings.curved else euclidean
    point = table.points[row].copy()
    _, pull = penalty("hyperboloid" if settings.curved else "euclidean", float(settings.regularisation), point)
    tangent = space.project_to_tangent(point, gradient + pull)
    length = float(space.tangent_norm(point, tangent))
    clipping = 1.0 if length <= settings.clip_norm else float(settings.clip_norm) / length
    counters[CLIPPED] += clipping < 1
    tangent, length = clipping * tangent, clipping * length
    if settings.optimiser == Optimiser.ADAM:
        direction, rate = adam(table, row, tangent, length, settings)
    elif settings.optimiser == Optimiser.ADAGRAD:
        direction, rate = tangent, adagrad(table, row, length, settings)
    else:
        direction, rate = tangent, float(settings.learning_rate)
    step = rate * float(space.tangent_norm(point, direction))
    allowed = rate if step <= MAXIMUM_STEP else rate * MAXIMUM_STEP / step
    counters[CAPPED] += allowed < rate
    moved = space.exp_map(point, -allowed * direction)
    size = float(np.linalg.norm(moved[1:]))
    outside = settings.curved and np.arcsinh(size) > MAXIMUM_RADIUS
    shrink = float(np.sinh(MAXIMUM_RADIUS)) / size if outside else 1.0
    counters[CAPPED] += shrink < 1
    if settings.optimiser == Optimiser.ADAM:
        # shrunk with its point, or its length would grow with every step that is taken back
        table.momentum[row] = shrink * space.parallel_transport(point, moved, direction)
    table.points[row] = hyperboloid.lift(shrink * moved[1:]) if settings.curved else moved
    if not np.isfinite(table.points[row]).all():
        counters[BROKEN] = counters[BROKEN] or row + 1


def adagrad(table: Table, row: int, length: float, settings: Settings) -> float:
    """The rate of a gradient of this length: G <- G + |h_t|^2, one number per row, and rate / sqrt(G).

    Lengths are what all observers agree on; single coordinates are not, so they have no sums of their own.
    """
    table.squared[row] += length**2
    return float(settings.learning_rate / np.sqrt(table.squared[row])) if length > 0 else 0.0


def adam(table: Table, row: int, tangent: FloatArray, length: float, settings: Settings) -> tuple[FloatArray, float]:
    """Direction and rate: m <- b1 m + (1 - b1) h_t and G <- b2 G + (1 - b2) |h_t|^2, both corrected for their start at
    zero.

    The momentum is tangent at its point because it was carried along at the last step. Of points only the space part
    counts, and so it is with it: its time part follows from tangency.
    """
    momentum = table.momentum[row].copy()
    if settings.curved:
        momentum[0] = momentum[1:] @ table.points[row, 1:] / table.points[row, 0]
    table.steps[row] += 1
    table.squared[row] = ADAM_SQUARED_DECAY * table.squared[row] + (1 - ADAM_SQUARED_DECAY) * length**2
    unbiased = np.sqrt(table.squared[row] / (1 - ADAM_SQUARED_DECAY ** int(table.steps[row])))
    rate = settings.learning_rate / (1 - ADAM_DECAY ** int(table.steps[row])) / (unbiased + ADAM_EPSILON)
    return ADAM_DECAY * momentum + (1 - ADAM_DECAY) * tangent, float(rate)


def mass_step(table: Table, row: int, gradient: float, settings: Settings) -> None:
    """Move the mass of one row down a derivative, in place: m' = m - rate g, and with Adagrad G' = G + g^2 and
    m' = m - rate g / sqrt(G')."""
    step = float(settings.mass_rate) * gradient
    if settings.optimiser == Optimiser.ADAGRAD and gradient != 0:
        table.mass_squared[row] += gradient**2
        step /= np.sqrt(table.mass_squared[row])
    table.masses[row] -= step
