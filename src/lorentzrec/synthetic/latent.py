"""The two latent spaces that synthetic events come from: a hyperbolic plane, and a flat square as its control.

In both, items are points, a customer's interest is a point that moves, and customers choose items near it. In both, the
items have the same expected degrees. They differ in what makes a space hyperbolic: in the plane the reach of an item
grows with its popularity and with the customer's activity; in the square everything has the same reach.

Items are arranged in layers of similar popularity. Within a layer each item has a random slot, all of equal size, and a
random position inside it. So an item near a position is found by division instead of by comparing all pairs.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from lorentzrec.data.arrays import Floats, Integers, make_offsets
from lorentzrec.synthetic.hierarchy import STYLES

REJECTED = -1
"""Drawn instead of an item where the draw must be repeated."""

FIRST_LAYER = 64
"""Items in the layer of the most popular; each further layer holds twice as many."""

STYLE_GRID = (16, 8)
"""Style clusters along the two sides of the flat square; a department is a block of 4 x 4 of them."""


class Layers:
    """Items in descending order of popularity, divided into layers; the expected degrees follow a power law."""

    def __init__(self, item_count: int, interactions: int, exponent: float, generator: np.random.Generator) -> None:
        # P(degree > k) = (k / k_min)^(1 - exponent), inverted at one random point in each of n equal steps:
        # random, but no single large draw changes the fitted exponent.
        quantiles = (np.arange(item_count) + generator.random(item_count)) / item_count
        degrees = np.maximum(quantiles, 0.5 / item_count) ** (-1 / (exponent - 1))
        degrees *= interactions / degrees.sum()
        edges = [0]
        while edges[-1] < item_count:
            edges.append(min(item_count, max(FIRST_LAYER, 2 * edges[-1])))
        self.starts = np.array(edges[:-1])
        self.sizes = np.diff(edges)
        self.layer_of = np.repeat(np.arange(len(self.sizes)), self.sizes)
        # The slot of an item must not depend on its popularity, so each layer is shuffled.
        order = np.concatenate(
            [start + generator.permutation(size) for start, size in zip(self.starts, self.sizes, strict=True)]
        )
        self.ranks = order
        """0 for the most popular item."""
        self.set_degrees(degrees[order])

    def set_degrees(self, degrees: Floats) -> None:
        """Draw the items with these expected degrees from now on."""
        self.degrees = degrees
        self.largest = np.maximum.reduceat(degrees, self.starts)
        self.mass = np.cumsum(np.add.reduceat(degrees, self.starts))

    def choose(self, generator: np.random.Generator, count: int) -> Integers:
        """Random layers, with probabilities proportional to the expected degrees of their items."""
        layer: Integers = np.searchsorted(self.mass[:-1], generator.random(count) * self.mass[-1], side="right")
        return layer


class HyperbolicPlane:
    """Krioukov's plane: an item of degree k and a customer of n events, some angle apart, link with probability

        1 / (1 + (angle / (c k n))^(1 / temperature)),   c = sin(pi temperature) / (temperature * interactions)

    (the curve is averaged over the item's slot). Its mean over all angles is k n / interactions.
    With the item at radius r = 2 log(2 / (c k)) and the customer at radius s = R - 2 log n it is

        1 / (1 + exp((d - R) / (2 temperature)))   of their distance   d = r + s + 2 log(angle / 2)

    so a popular item is near the origin, which is near to everything.
    """

    dimension = 1
    """Number of coordinates of a position; each runs from 0 to 1 and is periodic."""

    def __init__(self, layers: Layers, interactions: int, temperature: float, generator: np.random.Generator) -> None:
        self.layers = layers
        self.temperature = temperature
        self.reach_of_one = np.sin(np.pi * temperature) / (temperature * interactions) / (2 * np.pi)
        """c above, in turns: the reach of an item of degree 1 for a history of 1."""
        slots = np.concatenate([np.arange(size) for size in layers.sizes])
        self.angles = (slots + generator.random(len(slots))) / layers.sizes[layers.layer_of]
        self.sectors = (self.angles * len(STYLES)).astype(np.int64)
        """The position of each item in the product hierarchy."""
        # The integral of the linking curve from 0, interpolated in both directions; steps of 1 % are fine enough.
        self._distance = np.concatenate([[0.0], np.geomspace(1e-6, 1e12, 4200)])
        curve = self._linking(self._distance)
        self._area = np.concatenate([[0.0], np.cumsum((curve[1:] + curve[:-1]) / 2 * np.diff(self._distance))])

    def _linking(self, distance: Floats) -> Floats:
        result: Floats = 1 / (1 + distance ** (1 / self.temperature))
        return result

    def coordinates(self) -> dict[str, Floats]:
        """Angle in radians and hyperbolic distance from the origin; the most popular item is nearest to it."""
        reach = 2 * np.pi * self.reach_of_one * self.layers.degrees
        return {"angle": 2 * np.pi * self.angles, "radius": 2 * np.log(2 / reach)}

    def draw(
        self, generator: np.random.Generator, layer: Integers, positions: Floats, activity: Integers, widening: float
    ) -> Integers:
        """One item of each `layer`, or `REJECTED`, near each row of `positions`, for histories of length `activity`.

        `widening` multiplies the reach, for customers who already have all items nearby.
        """
        layers = self.layers
        unit = self.reach_of_one * activity * widening
        reach = unit * layers.largest[layer]
        # A distance by the linking curve of the layer's most popular item, at most half a turn away ...
        area = np.interp(0.5 / reach, self._distance, self._area) * generator.random(len(positions))
        distance = np.interp(area, self._area, self._distance)
        side = np.where(generator.random(len(positions)) < 0.5, -reach, reach)
        angle = (positions[:, 0] + side * distance) % 1.0
        sizes = layers.sizes[layer]
        item = layers.starts[layer] + np.minimum((angle * sizes).astype(np.int64), sizes - 1)
        # ... thinned to the curve of the item at that position.
        thinned = self._linking(distance * reach / (unit * layers.degrees[item]))
        return np.where(generator.random(len(positions)) * self._linking(distance) < thinned, item, REJECTED)


class FlatSquare:
    """The control: a periodic square, items clustered by style, one reach for everything.

    A customer draws from the style cluster at a normal displacement (`temperature` / 3 of a side) from the position of
    interest, each item with a probability proportional to its degree: Zipf within clusters.
    """

    dimension = 2

    def __init__(self, layers: Layers, temperature: float, generator: np.random.Generator) -> None:
        self.layers = layers
        self.spread = temperature / 3
        self.per_cluster = -(-layers.sizes // len(STYLES))
        # Slots (cluster, position in cluster) of each layer; those without an item hold REJECTED.
        self.slot_starts = make_offsets(self.per_cluster * len(STYLES))
        self.items = np.full(self.slot_starts[-1], REJECTED)
        self.sectors = np.empty(len(layers.degrees), np.int64)
        for layer, (start, size) in enumerate(zip(layers.starts, layers.sizes, strict=True)):
            slots = generator.permutation(self.per_cluster[layer] * len(STYLES))[:size]
            self.items[self.slot_starts[layer] + slots] = start + np.arange(size)
            self.sectors[start : start + size] = slots // self.per_cluster[layer]
        columns, rows = STYLE_GRID
        # Sector = department (8) x category (4) x style (4): departments tile the square as 4 x 2 blocks of 4 x 4.
        department, inside = np.divmod(self.sectors, 16)
        column, row = department % 4 * 4 + inside % 4, department // 4 * 4 + inside // 4
        jitter = generator.normal(0.5, 0.15, (2, len(self.sectors)))
        self.x, self.y = (column + jitter[0]) / columns % 1.0, (row + jitter[1]) / rows % 1.0

    def coordinates(self) -> dict[str, Floats]:
        """Both coordinates in the unit square."""
        return {"x": self.x, "y": self.y}

    def draw(
        self, generator: np.random.Generator, layer: Integers, positions: Floats, activity: Integers, widening: float
    ) -> Integers:
        """As `HyperbolicPlane.draw`."""
        layers = self.layers
        there = (positions + generator.normal(0, self.spread * widening, positions.shape)) % 1.0
        column, row = (
            np.minimum((there[:, axis] * STYLE_GRID[axis]).astype(np.int64), STYLE_GRID[axis] - 1) for axis in (0, 1)
        )
        sector = (row // 4 * 4 + column // 4) * 16 + row % 4 * 4 + column % 4
        size = self.per_cluster[layer]
        slot = sector * size + (generator.random(len(positions)) * size).astype(np.int64)
        item = self.items[self.slot_starts[layer] + slot]
        accepted = generator.random(len(positions)) * layers.largest[layer] < layers.degrees[item]
        return np.where(accepted, item, REJECTED)


World: TypeAlias = HyperbolicPlane | FlatSquare
"""A space with items in it, from which customers draw."""
