"""Points of items with attributes: normalised sums of an item's own vector and the vectors of its attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers
from lorentzrec.data.attributes import ItemAttributes
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

    @property
    def depths(self) -> Integers:
        """Categories on the path to each attribute, itself included: 2 for `category=Women > Shoes`; 0 for attributes
        that are not paths."""
        paths = [f"{column.name}=" for column in self.of_items.columns if column.kind == "path"]
        texts = map(str, self.of_items.values.series)
        return np.array([(text.count(" > ") + 1) * text.startswith((*paths, "\0")) for text in texts], np.int64)

    def radii(self, *, hyperbolic: bool) -> Floats:
        """Distance of each point from the origin."""
        space = self.points[:, 1:] if hyperbolic else self.points
        lengths: Floats = np.linalg.norm(space.astype(np.float64), axis=1)
        return np.arcsinh(lengths) if hyperbolic else lengths

    def depth_correlation(self, *, hyperbolic: bool) -> float | None:
        """The rank correlation of depth and radius over the attributes that are paths; None if all are equally deep."""
        from scipy.stats import spearmanr

        depths = self.depths
        paths = depths > 0
        if len(np.unique(depths[paths])) < 2:
            return None
        return float(spearmanr(depths[paths], self.radii(hyperbolic=hyperbolic)[paths]).statistic)


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
    for start in range(0, len(own), ITEMS_PER_BLOCK):
        end = min(start + ITEMS_PER_BLOCK, len(own))
        entries = slice(attributes.offsets[start], attributes.offsets[end])
        counts, present = attributes.counts[start:end], known[start:end]
        owners = np.repeat(np.arange(end - start), counts)
        share = config.attribute_weight / np.maximum(counts, 1)
        total = np.where(present[:, None], precise(own[start:end], config), 0.0)
        np.add.at(total, owners, share[owners, None] * precise(vectors, config)[attributes.rows[entries]])
        points[start:end] = (
            normalise_sum(total)
            if config.hyperbolic
            else total / (present + config.attribute_weight * (counts > 0))[:, None]
        )
    return points


def precise(points: NDArray[np.float32], config: TrainingConfig) -> Floats:
    """In float64, with the time coordinate that belongs to the space part."""
    wide = points.astype(np.float64)
    if config.hyperbolic:
        wide[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", wide[:, 1:], wide[:, 1:]))
    return wide
