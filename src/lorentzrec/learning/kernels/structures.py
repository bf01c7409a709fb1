"""What the kernels take: settings, tables of points, events, and scratch buffers."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.uint32]
Booleans: TypeAlias = NDArray[np.bool_]


class Loss(IntEnum):
    """Losses as `Settings` has them; a name in lower case is that of the config."""

    BPR = 0
    WMRB = 1
    SOFTMAX = 2
    OWN = 3


class Optimiser(IntEnum):
    RSGD = 0
    ADAGRAD = 1
    ADAM = 2


CLIPPED, CAPPED, COINCIDENT, SATURATED, BROKEN = 0, 1, 2, 3, 4
"""Indexes of the counters: gradients shortened, steps shortened, distances at zero, customers without a negative,
first broken row + 1."""

HISTORY, TARGET, NEITHER = 0, 1, -1
"""The two sides of a block: what customers are made of (item points, or their own), and what is recommended. A slot of
neither side moves nothing."""

RUN = 4
"""Neighbouring events that a block of the symmetric model takes together: the history of their customer is looked up
once for all of them."""

TILE = 128
"""Queries scored at once: fewer make the matrix products slow, and the scores of more leave the second-level cache."""


# --- limits: each is counted in the epoch's record when training reaches it

MAXIMUM_STEP = 1.0
"""Longest step a point makes at once, in units of the space's own length; longer ones are shortened."""

MAXIMUM_RADIUS = 8.0
"""Farthest from the origin a point of the hyperboloid goes: beyond it, float32 cannot separate a point from its
neighbours."""

NEAR = 1e-3
"""Where -<u, v> - 1 is below this, the inner product has lost the digits of the distance, which is then computed from
the difference of the points."""

COINCIDENT_DISTANCE = 1e-5
"""Below this distance two points are taken as one: there is no direction from one to the other."""

ADAM_DECAY = 0.9
ADAM_SQUARED_DECAY = 0.999
ADAM_EPSILON = 1e-8


class Settings(NamedTuple):
    """The hyper-parameters as the kernels read them."""

    curved: bool
    distance: bool
    loss: int
    loss_address: int
    optimiser: int
    learning_rate: np.float32
    margin: np.float32
    scale: np.float32
    regularisation: np.float32
    clip_norm: np.float32
    recency: np.float32
    folded: bool
    folds: int
    negative_count: int
    masses: bool  # whether items have a mass that is learned
    mass_rate: np.float32  # learning rate of masses


class Table(NamedTuple):
    """Points and the state of their optimiser: a squared length per row, and for Adam a tangent momentum and a count
    of steps. Items that are recommended have a mass as well, if the config says so."""

    points: Floats
    squared: Floats
    momentum: Floats
    steps: Integers
    masses: Floats  # (rows,) added to the scores of items; a single 0 if they have none
    mass_squared: Floats  # (rows,) Adagrad's sums of masses; a single 0 if there are none


class Attributes(NamedTuple):
    """Which attributes items have. Rows of attributes follow those of items in a table of vectors."""

    offsets: Longs  # (items + 1,) item row i owns rows[offsets[i]:offsets[i + 1]]
    rows: Integers  # item count + number of the attribute
    shares: Floats  # weight of each of these attributes; an item's own vector has weight 1
    dropouts: Floats  # (items,) how probable it is that an item goes without its own vector in a step


class Composed(NamedTuple):
    """The points of one side that are composed of vectors: those of the rows of the current step are up to date."""

    points: Floats  # (items, width)
    divisors: Floats  # (items,) what the sum of the vectors was divided by
    own: Floats  # (items,) weight of the item's own vector, 1 or 0
    stamps: Longs  # (items,) the step that a row was composed for


class Events(NamedTuple):
    """Histories: user row u owns items[offsets[u]:offsets[u + 1]]."""

    offsets: Longs
    items: Integers
    weights: Floats  # one per event, or a single 1: all events weigh the same
    labels: Booleans  # one bool per event, whether it is a target; or a single True: all events are
    targets: Longs  # event numbers of the targets; a single 0 where all events are
    orders: Integers  # one number per event, equal for neighbours of one order; or a single 0: every event is an order


class Queries(NamedTuple):
    """The queries of a block: a customer's point, and the positives it should find.

    Query q owns the entries offsets[q]..offsets[q + 1] - 1 of `Positives`. The entries from ends[q] on are events of
    its fold that are not targets: the gradients of histories need them, scores and losses do not.
    """

    points: Floats  # (rows, width) the customers' points
    gradients: Floats  # (rows, width)
    divisors: Floats  # (rows,) what the sum of a history was divided by
    offsets: Integers  # (rows + 1,) starts with 0
    ends: Integers  # (rows,)
    owners: Integers  # (rows,) position of the query's customer in the block
    customers: Integers  # (rows,) their user rows, where they have points of their own
    starts: Integers  # (customers + 1,) first query of each customer of the block


class Positives(NamedTuple):
    """What the queries of a block should find."""

    targets: Integers  # (rows,) item rows
    weights: Floats  # (rows,)
    scores: Floats  # (rows,)
    slopes: Floats  # (rows,) derivatives of the scores by the inner products
    pulls: Floats  # (rows,) derivatives of the loss by the scores


class Negatives(NamedTuple):
    """The items that all queries of a block are compared with, and which customers must not be compared with them."""

    points: Floats  # (negatives, width)
    gradients: Floats  # (negatives, width)
    masses: Floats  # (negatives,)
    mass_gradients: Floats  # (negatives,)
    sizes: Floats  # (negatives,) time coordinate, or in flat space squared length
    rows: Integers  # (negatives,) item rows
    positions: Integers  # (items,) position among the negatives, where the item's bit is set
    bits: Bits  # one per item
    masks: Integers  # positions of negatives that a customer has interacted with, customer after customer
    mask_offsets: Longs  # (customers + 1,)


class Step(NamedTuple):
    """The blocks of one step: for each, one gradient per distinct point, in the order of first use."""

    gradients: Floats  # (blocks, slots, width)
    mass_gradients: Floats  # (blocks, slots), or (blocks, 1) without masses
    rows: Integers  # (blocks, slots)
    sides: Integers  # (blocks, slots) HISTORY, TARGET, or NEITHER: of an item without its own vector
    used: Longs  # (blocks,) slots in use
    losses: NDArray[np.float64]  # (blocks,) float64


class Slots(NamedTuple):
    """One gradient for each distinct point of a block: a block of a `Step`, and where each row's gradient is in it."""

    gradients: Floats  # (slots, width)
    mass_gradients: Floats  # (slots,), or (1,) without masses
    rows: Integers  # (slots,)
    sides: Integers  # (slots,) HISTORY or TARGET
    histories: Integers  # (rows of the history side's table,) slot of each row, or -1
    targets: Integers  # (items,) the same array where both sides share their points


class Tile(NamedTuple):
    """A few queries against all negatives: what the matrix products read and write."""

    scores: Floats  # (TILE, negatives) scores, then the loss's derivatives by the inner products
    slopes: Floats  # (TILE, negatives) derivatives of the scores by the inner products
    products: Floats  # (max(TILE, negatives), width)
    sums: Floats  # (negatives,) of the derivatives by the scores, over the positives of one query
    compared: Floats  # (negatives + 1,) scores of one positive and its negatives, for a registered loss
    derivatives: Floats  # (negatives + 1,) the derivatives that it writes


class Workspace(NamedTuple):
    """Scratch buffers of one thread: allocated once, sized for the largest block."""

    queries: Queries
    positives: Positives
    negatives: Negatives
    histories: Integers  # see `Slots`; all -1 between blocks
    targets: Integers
    tile: Tile
    vectors: Floats  # (3, width)
    sums: NDArray[np.float64]  # (2, width) float64
    rows: Integers  # (3,) of a triplet
    chosen: Integers  # (slots,) those of a block that one thread applies
    counters: Longs  # int64
