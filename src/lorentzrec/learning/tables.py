"""The arrays that training reads and writes: points with the state of their optimiser, events, scratch buffers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.kernels.structures import (
    RUN,
    TILE,
    Attributes,
    Composed,
    Events,
    Loss,
    Negatives,
    Optimiser,
    Positives,
    Queries,
    Settings,
    Step,
    Table,
    Tile,
    Workspace,
)
from lorentzrec.learning.own_losses import find_address
from lorentzrec.model.config import OWN, ResolvedConfig, TrainingConfig

BLOCK_ROWS = 256
"""Positives that share one set of negatives and are learned from at once (a longer history is a block of its own)."""
FOLDED_BLOCK_ROWS = 512
"""The same where several positives share a query: as good, and faster, since a block steps once for each negative."""
MASS_RATE = 0.3
"""Learning rate of masses, relative to that of points. More of it is better where items have few events, and worse
where they have many."""
assert BLOCK_ROWS % RUN == 0, "the symmetric model fills a block with whole runs"


def padded(dimension: int) -> int:
    """Floats per row: time and space coordinates, and zeros up to a multiple of eight, so that vector loops have no
    remainder."""
    return -(-(dimension + 1) // 8) * 8


def make_table(space: NDArray[np.float32], config: ResolvedConfig) -> Table:
    """A table with these space coordinates, masses of 0, and a new optimiser state."""
    count, dimension = space.shape
    points = _aligned(count, padded(dimension))
    points[:, 1 : dimension + 1] = space
    if config.hyperbolic:
        points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", space, space))
    momentum = config.optimiser == "adam"
    return Table(
        points=points,
        squared=np.zeros(count, np.float32),  # unused by RSGD, but the kernels read it
        momentum=_aligned(count if momentum else 1, points.shape[1]),
        steps=np.zeros(count if momentum else 1, np.int32),
        masses=np.zeros(count if config.massive else 1, np.float32),  # unused unless rows are recommended
        mass_squared=np.zeros(count if config.massive else 1, np.float32),
    )


def copy_points(table: Table, config: TrainingConfig) -> NDArray[np.float32]:
    """A copy of the points in their public form: d + 1 coordinates on the hyperboloid, d in flat space."""
    first = 0 if config.hyperbolic else 1
    points: NDArray[np.float32] = table.points[:, first : config.dimension + 1].copy()
    if config.hyperbolic:
        # threads that share triplets' points without locks can leave a row that two of them wrote at once
        points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", points[:, 1:], points[:, 1:]))
    return points


def convert_attributes(attributes: ItemAttributes, known: Booleans, config: ResolvedConfig) -> Attributes:
    """The attributes of items as the kernels read them. Without attributes an item always has its own vector, and
    one that is not `known` never has."""
    dropouts = np.full(len(known), config.item_dropout, np.float32)
    dropouts[~known] = 1.0
    dropouts[attributes.counts == 0] = 0.0
    shares = config.attribute_weight / np.maximum(attributes.counts, 1)
    return Attributes(
        offsets=_writeable(attributes.offsets),
        rows=(attributes.rows + np.int32(len(known))).astype(np.int32),
        shares=shares[attributes.owners].astype(np.float32),
        dropouts=dropouts,
    )


def allocate_composed(count: int, dimension: int) -> Composed:
    """Room for the composed points of `count` items."""
    return Composed(
        points=_aligned(count, padded(dimension)),
        divisors=np.ones(count, np.float32),
        own=np.ones(count, np.float32),
        stamps=np.full(count, -1, np.int64),
    )


def wrap_composed(composed: Composed, vectors: Table) -> Table:
    """Composed points as blocks read them, with the masses of the table of vectors, which is what steps move."""
    return vectors._replace(points=composed.points)


def convert_events(data: Interactions, model: str, *, orders: bool = False) -> Events:
    """The histories as the kernels read them: arrays that are not writeable are copied, since numba would compile the
    kernels again for their type. Without `orders`, every event is an order of its own."""
    return Events(
        offsets=_writeable(data.offsets),
        items=_writeable(data.item_rows),
        weights=np.ones(1, np.float32) if data.weights is None else _writeable(data.weights),
        labels=np.ones(1, bool) if data.labels is None else _writeable(data.labels),
        targets=np.zeros(1, np.int64)
        if data.labels is None or model == "asymmetric"
        else np.flatnonzero(data.labels).astype(np.int64),
        orders=_writeable(data.order_positions) if orders else np.zeros(1, np.int32),
    )


def _writeable(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements="W")


def convert_settings(config: ResolvedConfig, learning_rate: float) -> Settings:
    """A config as the kernels read it."""
    own = config.loss.startswith(OWN)
    return Settings(
        curved=config.hyperbolic,
        distance=config.score == "distance",
        loss=int(Loss.OWN if own else Loss[config.loss.upper()]),
        loss_address=find_address(config.loss) if own else 0,
        optimiser=int(Optimiser[config.optimiser.upper()]),
        learning_rate=np.float32(learning_rate),
        margin=np.float32(config.margin),
        scale=np.float32(config.scale),
        regularisation=np.float32(config.regularisation),
        clip_norm=np.float32(math.inf if config.clip_norm is None else config.clip_norm),
        recency=np.float32(config.recency),
        folded=config.history == "folds",
        folds=config.folds,
        negative_count=config.negative_count,
        masses=config.massive,
        mass_rate=np.float32(learning_rate * MASS_RATE),
    )


def allocate_workspace(
    config: ResolvedConfig, rows: int, history_count: int, item_count: int, *, shared: bool, extra_slots: int = 0
) -> Workspace:
    """Scratch buffers for one thread and blocks of up to `rows` events; triplets need little of them."""
    width = padded(config.dimension)
    if config.triplets:
        rows, negatives, history_count, positions = 1, 1, 1, 1
    else:
        negatives, positions = min(config.negative_count, item_count), item_count
    target_slots = np.full(positions, -1, np.int32)
    # an asymmetric block holds whole histories, so it masks at most one negative per event; in a symmetric block any
    # event can bring the whole history of its customer
    masks = rows * negatives if config.model == "symmetric" else rows
    return Workspace(
        queries=Queries(
            points=_aligned(rows, width),
            gradients=_aligned(rows, width),
            divisors=np.empty(rows, np.float32),
            offsets=np.zeros(rows + 1, np.int32),
            ends=np.empty(rows, np.int32),
            owners=np.empty(rows, np.int32),
            customers=np.empty(rows, np.int32),
            starts=np.zeros(rows + 1, np.int32),
        ),
        positives=Positives(
            targets=np.empty(rows, np.int32),
            weights=np.empty(rows, np.float32),
            scores=np.empty(rows, np.float32),
            slopes=np.empty(rows, np.float32),
            pulls=np.empty(rows, np.float32),
        ),
        negatives=Negatives(
            points=_aligned(negatives, width),
            gradients=_aligned(negatives, width),
            masses=np.zeros(negatives, np.float32),
            mass_gradients=np.zeros(negatives, np.float32),
            sizes=np.empty(negatives, np.float32),
            rows=np.empty(negatives, np.int32),
            positions=np.empty(positions, np.int32),
            bits=np.zeros(item_count // 32 + 1, np.uint32),
            masks=np.empty(masks, np.int32),
            mask_offsets=np.zeros(rows + 1, np.int64),
        ),
        histories=target_slots if shared else np.full(history_count, -1, np.int32),
        targets=target_slots,
        tile=Tile(
            scores=_aligned(TILE, negatives),
            slopes=_aligned(TILE, negatives),
            products=_aligned(max(TILE, negatives), width),
            sums=np.empty(negatives, np.float32),
            compared=np.empty(negatives + 1, np.float32),
            derivatives=np.empty(negatives + 1, np.float32),
        ),
        vectors=_aligned(3, width),
        sums=np.zeros((2, width)),
        rows=np.zeros(3, np.int32),
        chosen=np.empty(3 + _slot_count(rows, negatives) + extra_slots, np.int32),
        counters=np.zeros(5, np.int64),
    )


def allocate_step(config: ResolvedConfig, rows: int, item_count: int, extra_slots: int = 0) -> Step:
    """Room for the gradients of the blocks of a step, each of up to `rows` events."""
    blocks = config.blocks_per_step
    slots = _slot_count(rows, min(config.negative_count, item_count)) + extra_slots
    width = padded(config.dimension)
    return Step(
        gradients=_aligned(blocks * slots, width).reshape(blocks, slots, width),
        mass_gradients=np.zeros((blocks, slots if config.massive else 1), np.float32),
        rows=np.empty((blocks, slots), np.int32),
        sides=np.empty((blocks, slots), np.int32),
        used=np.zeros(blocks, np.int64),
        losses=np.zeros(blocks),
    )


def count_attribute_slots(attributes: ItemAttributes, config: ResolvedConfig, rows: int) -> int:
    """Slots that the attributes of a block's items need, on top of those of the items."""
    sides = 2 if config.targets == "separate" else 1
    negatives = min(config.negative_count, len(attributes.items))
    most = int(attributes.counts.max(initial=0))
    return min(sides * len(attributes.values), _slot_count(rows, negatives) * most)


def allocate_lookups(attributes: ItemAttributes, *, shared: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Slots of attributes in a block, for histories and for targets; the same array if they share their vectors."""
    lookup = np.full(len(attributes.values), -1, np.int32)
    return lookup, lookup if shared else lookup.copy()


def _slot_count(rows: int, negatives: int) -> int:
    """Points of a block: each event as a target and in a history, and the negatives."""
    return 2 * rows + negatives


def _aligned(count: int, width: int) -> NDArray[np.float32]:
    """Zeros that start on a cache line."""
    memory = np.zeros(count * width + 16, np.float32)
    start = (-memory.ctypes.data // 4) % 16
    return memory[start : start + count * width].reshape(count, width)
