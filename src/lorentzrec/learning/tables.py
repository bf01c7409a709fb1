"""The arrays that training writes to: points with the state of their optimiser, and one workspace per thread."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.config import TrainingConfig
from lorentzrec.learning.kernels.structures import (
    TILE,
    Events,
    Negatives,
    Positives,
    Queries,
    Settings,
    Slots,
    Table,
    Tile,
    Workspace,
)

BLOCK_ROWS = 256
"""Positives that share one set of negatives and are learned from at once (a longer history is a block of its own)."""
FOLDED_BLOCK_ROWS = 512
"""The same where several positives share a query: as good, and faster, since a block steps once for each negative."""

_LOSSES = ("bpr", "wmrb", "softmax")
_OPTIMISERS = ("rsgd", "adagrad", "adam")


def padded(dimension: int) -> int:
    """Floats per row: time and space coordinates, and zeros up to a multiple of eight, so that vector loops have no
    remainder."""
    return -(-(dimension + 1) // 8) * 8


def table_of(space: NDArray[np.float32], config: TrainingConfig) -> Table:
    """A table with these space coordinates and an optimiser that has seen nothing."""
    count, dimension = space.shape
    points = _aligned(count, padded(dimension))
    points[:, 1 : dimension + 1] = space
    if config.geometry == "hyperboloid":
        points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", space, space))
    momentum = config.optimiser == "adam"
    return Table(
        points=points,
        squared=np.zeros(count, np.float32),  # for RSGD, too, which has no use for it: the kernels read it all the same
        momentum=_aligned(count if momentum else 1, points.shape[1]),
        steps=np.zeros(count if momentum else 1, np.int32),
    )


def points_of(table: Table, config: TrainingConfig) -> NDArray[np.float32]:
    """A copy of the points as the world sees them: d + 1 coordinates on the hyperboloid, d in flat space."""
    first = 0 if config.geometry == "hyperboloid" else 1
    points: NDArray[np.float32] = table.points[:, first : config.dimension + 1].copy()
    if config.geometry == "hyperboloid":
        # a row that two threads wrote at once in the last steps has no next step to become a point again
        points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", points[:, 1:], points[:, 1:]))
    return points


def events_of(data: Interactions) -> Events:
    """The histories as the kernels read them: writeable copies of what is not, which numba would compile for anew."""
    arrays = data.offsets, data.item_rows, np.ones(1, np.float32) if data.weights is None else data.weights
    return Events(*(np.require(array, requirements="W") for array in arrays))


def settings_of(config: TrainingConfig, learning_rate: float) -> Settings:
    """A resolved config as the kernels read it."""
    if config.loss is None or config.scale is None or config.recency is None or config.negative_count is None:
        raise ValueError("resolve the config first")
    return Settings(
        curved=config.geometry == "hyperboloid",
        distance=config.score == "distance",
        loss=_LOSSES.index(config.loss),
        optimiser=_OPTIMISERS.index(config.optimiser),
        learning_rate=np.float32(learning_rate),
        margin=np.float32(config.margin),
        scale=np.float32(config.scale),
        regularisation=np.float32(config.regularisation),
        clip_norm=np.float32(math.inf if config.clip_norm is None else config.clip_norm),
        recency=np.float32(config.recency),
        leave_one_out=config.history == "leave_one_out",
        folds=config.folds,
        popular=config.sampler == "popularity",
        negative_count=config.negative_count,
    )


def workspace_of(config: TrainingConfig, rows: int, history_count: int, item_count: int, *, shared: bool) -> Workspace:
    """Paper for one thread and blocks of up to `rows` events; triplets need little of it."""
    if config.negative_count is None:
        raise ValueError("resolve the config first")
    width = padded(config.dimension)
    if config.model == "symmetric" and config.loss == "bpr":
        rows, negatives, history_count, places = 1, 1, 1, 1
    else:
        negatives, places = min(config.negative_count, item_count), item_count
    slots = 2 * rows + negatives
    target_slots = np.full(places, -1, np.int32)
    return Workspace(
        queries=Queries(
            points=_aligned(rows, width),
            gradients=_aligned(rows, width),
            divisors=np.empty(rows, np.float32),
            ends=np.empty(rows, np.int32),
            owners=np.empty(rows, np.int32),
            customers=np.empty(rows, np.int32),
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
            sizes=np.empty(negatives, np.float32),
            rows=np.empty(negatives, np.int32),
            places=np.empty(places, np.int32),
            bits=np.zeros(item_count // 32 + 1, np.uint32),
            masks=np.empty(max(rows, BLOCK_ROWS * negatives), np.int32),
            mask_offsets=np.zeros(rows + 1, np.int64),
        ),
        slots=Slots(
            gradients=_aligned(slots, width),
            rows=np.empty(slots, np.int32),
            sides=np.empty(slots, np.int32),
            histories=target_slots if shared else np.full(history_count, -1, np.int32),
            targets=target_slots,
        ),
        tile=Tile(
            scores=_aligned(TILE, negatives),
            slopes=_aligned(TILE, negatives),
            products=_aligned(max(TILE, negatives), width),
            sums=np.empty(negatives, np.float32),
        ),
        vectors=_aligned(3, width),
        counters=np.zeros(5, np.int64),
    )


def _aligned(count: int, width: int) -> NDArray[np.float32]:
    """Zeros that start on a cache line."""
    memory = np.zeros(count * width + 16, np.float32)
    start = (-memory.ctypes.data // 4) % 16
    return memory[start : start + count * width].reshape(count, width)
