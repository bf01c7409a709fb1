"""Points of items with attributes: normalised sums of an item's own vector and the vectors of its attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.model.config import TrainingConfig

ITEMS_PER_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class AttributePoints:
    """Attributes that a model was trained with, and their points."""

    values: Vocabulary
    points: NDArray[np.float32]
    """One row per attribute, as `Model.item_points`."""
    history_points: NDArray[np.float32]
    """The same array unless targets are separate."""


def compose(
    own: NDArray[np.float32],
    known: NDArray[np.bool_],
    attributes: ItemAttributes,
    vectors: NDArray[np.float32],
    config: TrainingConfig,
) -> NDArray[np.float32]:
    """Points of items from their own vectors, where `known`, and the vectors of their attributes.

    The own vector has weight 1 and all attributes together `attribute_weight`. An item that is not known and has no
    attributes keeps its own vector.
    """
    counts = np.diff(attributes.offsets)
    known = known | (counts == 0)
    points = np.empty_like(own)
    shares = attributes.shares(config.attribute_weight)
    for start in range(0, len(own), ITEMS_PER_BLOCK):
        block = slice(start, start + ITEMS_PER_BLOCK)
        first, last = attributes.offsets[block][0], attributes.offsets[start : start + ITEMS_PER_BLOCK + 1][-1]
        rows = attributes.rows[first:last]
        owners = np.repeat(np.arange(len(counts[block])), counts[block])
        share = shares[first:last]
        total = np.where(known[block, None], _precise(own[block], config), 0.0)
        np.add.at(total, owners, share[:, None] * _precise(vectors[rows], config))
        if config.hyperbolic:
            points[block] = normalise_sum(total)
        else:
            points[block] = total / (known[block] + config.attribute_weight * (counts[block] > 0))[:, None]
    return points


def _precise(points: NDArray[np.float32], config: TrainingConfig) -> NDArray[np.float64]:
    """In float64, with the time coordinate that belongs to the space part."""
    wide = points.astype(np.float64)
    if config.hyperbolic:
        wide[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", wide[:, 1:], wide[:, 1:]))
    return wide
