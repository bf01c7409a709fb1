"""Training on points that are composed of vectors: an item's own and those of its attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.learning.kernels.attributes import compose_points, pass_to_vectors
from lorentzrec.learning.kernels.structures import Composed, Step, Table, Workspace
from lorentzrec.learning.tables import attributes_of, composed_of
from lorentzrec.model.config import ResolvedConfig


class Composition:
    """The points that blocks see, and what they are composed of: `histories` and `items` are tables of vectors, the
    items' own, if they are `known`, followed by the attributes'."""

    def __init__(
        self,
        known: Booleans,
        config: ResolvedConfig,
        histories: Table,
        items: Table,
        attributes: ItemAttributes,
        threads: int,
    ) -> None:
        self.histories, self.items = histories, items
        self.attributes = attributes_of(attributes, known, config)
        count = len(known)
        of_items = composed_of(count, config.dimension)
        of_histories = of_items if histories is items else composed_of(count, config.dimension)
        self.composed = of_histories, of_items
        self.tables = _table_of(of_histories), _table_of(of_items)
        self.lookups = [self._lookups(len(attributes.values), histories is items) for _ in range(threads)]

    @staticmethod
    def _lookups(count: int, shared: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        lookup = np.full(count, -1, np.int32)
        return lookup, lookup if shared else lookup.copy()

    def begin(self, epoch: int, *arguments: Any) -> tuple[Table, Table]:
        """Begin an epoch: takes the blocks' order and bounds, events, settings and key, as `asymmetric_gradients` does.
        The tables of points that its blocks read."""
        self.epoch, self.arguments = epoch, arguments
        return self.tables

    def compose(self, step: int, first: int, blocks: int, thread: int, workspace: Workspace) -> None:
        """Compose a thread's share of the points of a step."""
        cut, events, settings, key = self.arguments
        number = (self.epoch << 32) + step
        vectors = self.histories, self.items
        compose_points(
            number,
            first,
            first + blocks,
            thread,
            len(self.lookups),
            *cut,
            events,
            *vectors,
            self.attributes,
            self.composed,
            settings,
            key,
            workspace,
        )

    def pass_gradients(self, blocks: int, place: NDArray[np.int64], thread: int, step: Step) -> None:
        """Turn gradients of points into those of vectors; threads take blocks from a shared place."""
        curved = self.arguments[2].curved
        pass_to_vectors(blocks, place, self.attributes, self.composed, curved, self.lookups[thread], step)


def _table_of(composed: Composed) -> Table:
    """Points that blocks read; steps move vectors, so there is no state of an optimiser."""
    return Table(composed.points, np.zeros(1, np.float32), np.zeros((1, 1), np.float32), np.zeros(1, np.int32))
