"""Points composed of vectors, one item at a time: the reference of `kernels.attributes`, in float64."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import weighted_sum
from lorentzrec.learning.kernels.structures import HISTORY, TARGET, Attributes, Settings, Table
from tests.reference import euclidean, midpoint
from tests.reference.blocks import Block
from tests.reference.optimisers import Counters, mass_step, row_step
from tests.reference.sampling import GOLDEN, WORD, mix


def own_weight(row: int, side: int, attributes: Attributes, key: int) -> float:
    """0 with the item's probability, from the upper 24 bits of a word of its own."""
    chance = (mix(key + (2 * row + side) * GOLDEN & WORD) >> 40) / 2**24
    return 0.0 if chance < attributes.dropouts[row] else 1.0


def parts_of(row: int, own: float, attributes: Attributes) -> tuple[list[int], FloatArray]:
    """The vectors that an item's point is composed of, and their weights."""
    entries = slice(attributes.offsets[row], attributes.offsets[row + 1])
    return [row, *attributes.rows[entries].tolist()], np.array([own, *attributes.shares[entries]], np.float64)


def compose(row: int, own: float, vectors: FloatArray, attributes: Attributes, *, curved: bool) -> FloatArray:
    """The midpoint of an item's own vector, with weight `own`, and the vectors of its attributes."""
    rows, weights = parts_of(row, own, attributes)
    if curved:
        return midpoint.einstein_midpoint(vectors[rows], weights)
    return euclidean.midpoint(vectors[rows], weights)


def gradients_of_parts(
    row: int, own: float, vectors: FloatArray, gradient: FloatArray, attributes: Attributes, *, curved: bool
) -> dict[int, FloatArray]:
    """The gradient of each vector of an item, from that of its point; the own vector of a dropped item has none."""
    rows, weights = parts_of(row, own, attributes)
    if curved:
        in_sum = midpoint.midpoint_gradient(weighted_sum(vectors[rows], weights), gradient)
    else:
        in_sum = euclidean.midpoint_gradient(weights.sum(), gradient)
    return {part: weight * in_sum for part, weight in zip(rows, weights, strict=True) if weight}


class ComposedStep:
    """A step of blocks on composed points, whose gradients move the vectors."""

    def __init__(self, histories: Table, items: Table, attributes: Attributes, settings: Settings, key: int) -> None:
        self.vectors = {HISTORY: histories, TARGET: items}
        self.attributes, self.settings, self.key = attributes, settings, key
        self.shared = histories is items
        self.own: dict[int, list[float]] = {}
        self.tables: dict[int, Table] = {}

    def compose(self, sides: dict[int, int]) -> tuple[Table, Table]:
        """Tables of composed points. `sides`: for shared points, the side that each row was first composed for."""
        count = len(self.attributes.dropouts)
        for side, table in self.vectors.items():
            self.own[side] = [
                own_weight(row, sides.get(row, side) if self.shared else side, self.attributes, self.key)
                for row in range(count)
            ]
            points = [
                compose(row, self.own[side][row], table.points, self.attributes, curved=self.settings.curved)
                for row in range(count)
            ]
            self.tables[side] = table._replace(points=np.array(points))
        if self.shared:
            self.tables[HISTORY] = self.tables[TARGET]
        return self.tables[HISTORY], self.tables[TARGET]

    def apply(self, blocks: list[Block], counters: Counters) -> None:
        """Pass the gradients of blocks on to the vectors, and move these block after block."""
        start = {side: table.points.copy() for side, table in self.vectors.items()}
        for block in blocks:
            of_sides = {TARGET: block.of_items} | ({} if self.shared else {HISTORY: block.of_histories})
            for side, of_rows in of_sides.items():
                totals: defaultdict[int, FloatArray] = defaultdict(lambda: np.zeros(start[TARGET].shape[1]))
                for row, gradient in of_rows.items():
                    parts = gradients_of_parts(
                        row, self.own[side][row], start[side], gradient, self.attributes, curved=self.settings.curved
                    )
                    for part, in_part in parts.items():
                        totals[part] += in_part
                for row, gradient in totals.items():
                    row_step(self.vectors[side], row, gradient, self.settings, counters)
            if self.settings.masses:
                for row, slope in block.of_masses.items():
                    mass_step(self.vectors[TARGET], row, slope, self.settings)
