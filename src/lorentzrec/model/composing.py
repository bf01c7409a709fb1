"""Points of items with attributes: normalised sums of an item's own vector and the vectors of its attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Integers, rank_correlation
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.model.config import TrainingConfig

ITEMS_PER_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class AttributePoints:
    """The attributes that a model was trained with, and their points."""

    of_items: ItemAttributes
    """Which items of the model have which attributes."""
    points: NDArray[np.float32]
    """One row per attribute, as `Model.item_points`."""
    history_points: NDArray[np.float32]
    """As `Model.history_points`: the same array unless targets are separate."""

    def of_side(self, side: str) -> NDArray[np.float32]:
        """The points of "items" or "histories"."""
        return self.history_points if side == "histories" else self.points

    @property
    def depths(self) -> Integers:
        """Categories on the path to each attribute, itself included: 2 for `category=Women > Shoes`; 0 for attributes
        that are not paths."""
        paths = tuple(f"{column.name}=" for column in self.of_items.columns if column.kind == "path")
        texts = map(str, self.of_items.values.series)
        return np.array([(text.count(" > ") + 1) * text.startswith(paths) for text in texts], np.int64)

    def depth_correlation(self, *, hyperbolic: bool) -> float | None:
        """The rank correlation of depth and radius over the attributes that are paths; None if all are equally deep."""
        depths = self.depths
        paths = depths > 0
        radii = (hyperboloid if hyperbolic else euclidean).distance_to_origin(self.points.astype(np.float64))
        return rank_correlation(depths[paths], radii[paths])


def compose(
    own: NDArray[np.float32],
    known: Booleans,
    attributes: ItemAttributes,
    vectors: NDArray[np.float32],
    config: TrainingConfig,
) -> NDArray[np.float32]:
    """Points of items from their own vectors, if they are `known`, and the vectors of their attributes.

    The own vector has weight 1 and all attributes together `attribute_weight`. An item without attributes has the point
    of its own vector.
    """
    known = known | (attributes.counts == 0)
    points = np.empty_like(own)
    for block, total, weights in _attribute_sums(attributes, vectors, config):
        total += np.where(known[block, None], precise(own[block], config), 0.0)
        points[block] = normalise_sum(total) if config.hyperbolic else total / (known[block] + weights)[:, None]
    return points


def decompose(
    points: NDArray[np.float32], attributes: ItemAttributes, vectors: NDArray[np.float32], config: TrainingConfig
) -> NDArray[np.float32]:
    """The own vectors of which `compose` makes these points, with the vectors of their attributes.

    With the sum s of the attributes, o = c x - s is on the sheet for one c that makes it point to the future:
    c = -<x, s> + sqrt(<x, s>^2 + <s, s> + 1).
    """
    own = np.empty_like(points)
    for block, total, weights in _attribute_sums(attributes, vectors, config):
        wide, factor = precise(points[block], config), 1 + weights
        if config.hyperbolic:
            along = -hyperboloid.minkowski_dot(wide, total)
            factor = along + np.sqrt(along**2 + hyperboloid.minkowski_squared_norm(total) + 1)
        own[block] = factor[:, None] * wide - total
    return own


def _attribute_sums(
    attributes: ItemAttributes, vectors: NDArray[np.float32], config: TrainingConfig
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Blocks of items, with the weighted sums of their attributes' vectors, and the sums of the weights."""
    wide, counts = precise(vectors, config), attributes.counts
    for start in range(0, len(attributes), ITEMS_PER_BLOCK):
        block = slice(start, min(start + ITEMS_PER_BLOCK, len(attributes)))
        entries = slice(attributes.offsets[start], attributes.offsets[block.stop])
        owners = np.repeat(np.arange(block.stop - start), counts[block])
        share = config.attribute_weight / np.maximum(counts[block], 1)
        total = np.zeros((block.stop - start, wide.shape[1]))
        np.add.at(total, owners, share[owners, None] * wide[attributes.rows[entries]])
        yield block, total, config.attribute_weight * (counts[block] > 0)


def precise(points: NDArray[np.float32], config: TrainingConfig) -> FloatArray:
    """See `hyperboloid.precise`."""
    return hyperboloid.precise(points) if config.hyperbolic else euclidean.precise(points)
