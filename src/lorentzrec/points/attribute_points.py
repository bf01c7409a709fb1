"""Points of items with attributes: normalised sums of an item's own vector and the vectors of its attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Groups, Integers, gather_groups, make_offsets, rank_correlation
from lorentzrec.data.attributes import AttributeColumn, ItemAttributes
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum

ITEMS_PER_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class AttributePoints:
    """The attributes that a model was trained with, and their points."""

    values: Vocabulary
    """Texts such as `brand=Lego` and `category=Toys > Puzzles`."""
    columns: tuple[AttributeColumn, ...]
    offsets: Integers
    rows: NDArray[np.int32]
    """The attributes of item i are `rows[offsets[i]:offsets[i + 1]]`, as in `ItemAttributes`."""
    points: NDArray[np.float32]
    """One row per attribute, as `Points.item_points`."""
    history_points: NDArray[np.float32]
    """As `Points.history_points`: the same array unless targets are separate."""
    weight: float
    """Of all attributes of an item together; its own vector has weight 1."""

    @classmethod
    def of_items(
        cls,
        attributes: ItemAttributes,
        points: NDArray[np.float32],
        history_points: NDArray[np.float32],
        weight: float,
    ) -> AttributePoints:
        """Points of the attributes of some items."""
        described = attributes.values, attributes.columns, attributes.offsets, attributes.rows
        return cls(*described, points, history_points, weight)

    def name_items(self, items: Vocabulary) -> ItemAttributes:
        """The attributes of the items, which have these ids."""
        return ItemAttributes(items, self.values, self.offsets, self.rows, self.columns)

    def take(self, items: Integers) -> AttributePoints:
        """The attributes of some items, and the points of all attributes."""
        _, entries = gather_groups(self.offsets, items)
        return replace(self, offsets=make_offsets(np.diff(self.offsets)[items]), rows=self.rows[entries])

    def find_rows(self, sent: Mapping[str, str]) -> tuple[list[int], int]:
        """The rows of the values in some columns of an item, and the number of values that are not known."""
        columns = {column.name: column for column in self.columns}
        for name in sent:
            if name not in columns:
                raise InputError(
                    f"{name!r} is not an attribute of the model: send {', '.join(columns)}, or leave it out"
                )
        values = {value for name, text in sent.items() for value in columns[name].values_of(text)}
        known = [value for value in values if value in self.values]
        return sorted(map(self.values.row, known)), len(values) - len(known)

    def fits(self, items: int, width: int) -> bool:
        """Whether these are attributes of as many items, with points of `width` numbers."""
        shapes = {self.points.shape, self.history_points.shape}
        return shapes == {(len(self.values), width)} and len(self.offsets) == items + 1

    def of_side(self, side: str) -> NDArray[np.float32]:
        """The points of "items" or "histories"."""
        return self.history_points if side == "histories" else self.points

    @property
    def depths(self) -> Integers:
        """Categories on the path to each attribute, itself included: 2 for `category=Women > Shoes`; 0 for attributes
        that are not paths."""
        paths = tuple(f"{column.name}=" for column in self.columns if column.kind == "path")
        texts = map(str, self.values.series)
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
    attributes: ItemAttributes | Groups,
    vectors: NDArray[np.float32],
    *,
    weight: float,
    hyperbolic: bool,
) -> NDArray[np.float32]:
    """Points of items from their own vectors, if they are `known`, and the vectors of their attributes.

    The own vector has weight 1 and all attributes together `weight`. An item without attributes has the point of its
    own vector.
    """
    known = known | (attributes.counts == 0)
    points = np.empty_like(own)
    for block, total, weights in _attribute_sums(attributes, vectors, weight, hyperbolic):
        total += np.where(known[block, None], precise(own[block], hyperbolic), 0.0)
        points[block] = normalise_sum(total) if hyperbolic else total / (known[block] + weights)[:, None]
    return points


def decompose(
    points: NDArray[np.float32],
    attributes: ItemAttributes,
    vectors: NDArray[np.float32],
    *,
    weight: float,
    hyperbolic: bool,
) -> NDArray[np.float32]:
    """The own vectors of which `compose` makes these points, with the vectors of their attributes.

    With the sum s of the attributes, o = c x - s is on the sheet for one c that makes it point to the future:
    c = -<x, s> + sqrt(<x, s>^2 + <s, s> + 1).
    """
    own = np.empty_like(points)
    for block, total, weights in _attribute_sums(attributes, vectors, weight, hyperbolic):
        wide, factor = precise(points[block], hyperbolic), 1 + weights
        if hyperbolic:
            along = -hyperboloid.minkowski_dot(wide, total)
            factor = along + np.sqrt(along**2 + hyperboloid.minkowski_squared_norm(total) + 1)
        own[block] = factor[:, None] * wide - total
    return own


def _attribute_sums(
    attributes: ItemAttributes | Groups, vectors: NDArray[np.float32], weight: float, hyperbolic: bool
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Blocks of items, with the weighted sums of their attributes' vectors, and the sums of the weights."""
    wide, counts = precise(vectors, hyperbolic), attributes.counts
    for start in range(0, len(attributes), ITEMS_PER_BLOCK):
        block = slice(start, min(start + ITEMS_PER_BLOCK, len(attributes)))
        entries = slice(attributes.offsets[start], attributes.offsets[block.stop])
        owners = np.repeat(np.arange(block.stop - start), counts[block])
        share = weight / np.maximum(counts[block], 1)
        total = np.zeros((block.stop - start, wide.shape[1]))
        np.add.at(total, owners, share[owners, None] * wide[attributes.rows[entries]])
        yield block, total, weight * (counts[block] > 0)


def precise(points: NDArray[np.float32], hyperbolic: bool) -> FloatArray:
    """See `hyperboloid.precise`."""
    return hyperboloid.precise(points) if hyperbolic else euclidean.precise(points)
