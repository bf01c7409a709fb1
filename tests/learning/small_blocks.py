"""Small training problems, once as the kernels see them (float32) and once as their references do (float64)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import make_offsets
from lorentzrec.learning.kernels.blocks import apply_gradients, asymmetric_gradients, symmetric_gradients
from lorentzrec.learning.kernels.structures import Events, Settings, Table
from lorentzrec.learning.kernels.triplets import triplet_steps
from lorentzrec.learning.tables import allocate_step, allocate_workspace, convert_settings, make_table
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from tests.reference import blocks as reference

KEY = 0x0123456789ABCDEF


class Outcome(NamedTuple):
    loss: float
    histories: Table
    items: Table
    counters: NDArray[np.int64]


def resolved(**options: Any) -> ResolvedConfig:
    """A config in which nothing is open."""
    config = TrainingConfig.from_mapping({"dimension": 5, "clip_norm": 0.3, "threads": 1} | options)
    return config.resolve(ordered=True, events=100, users=10, items=20)


def settings(**options: Any) -> Settings:
    config = resolved(**options)
    return convert_settings(config, config.learning_rate)


def table(config: ResolvedConfig, count: int, seed: int, radius: float = 1.0) -> Table:
    random = np.random.default_rng(seed)
    space = random.normal(0, radius / config.dimension**0.5, (count, config.dimension))
    made = make_table(space.astype(np.float32), config)
    made.masses[:] = random.normal(0, 0.5, len(made.masses)) * config.massive
    return made


def in_float64(table: Table) -> Table:
    """The same points with all digits of float64: those of the hyperboloid are lifted from their space part."""
    arrays: Any = (array.astype(np.float64 if array.dtype == np.float32 else array.dtype) for array in table)
    wide = Table(*arrays)
    if table.points[:, 0].any():
        wide.points[:, 0] = np.sqrt(1 + (wide.points[:, 1:] ** 2).sum(axis=1))
    return wide


def events(
    lengths: list[int], item_count: int, *, weighted: bool, seed: int, labelled: bool = False, in_orders: bool = False
) -> Events:
    """Histories with repeated items now and then; the last customer, where long enough, has every item.

    Labelled: half of the events are targets, among them the last of each customer, and not the first of the first.
    In orders: those of a customer have one to three events.
    """
    random = np.random.default_rng(seed)
    items = [random.integers(0, item_count, length) for length in lengths]
    if lengths[-1] >= item_count:
        items[-1][:item_count] = random.permutation(item_count)
    total = sum(lengths)
    offsets = make_offsets(np.array(lengths))
    weights = random.uniform(0.5, 2, total) if weighted else np.ones(1)
    labels = np.ones(1, bool)
    if labelled:
        labels = random.random(total) < 0.5
        labels[offsets[1:] - 1] = True
        labels[0] = False
    targets = np.flatnonzero(labels).astype(np.int64)
    orders = np.zeros(1, np.int32)
    if in_orders:
        numbers = [np.repeat(np.arange(length), random.integers(1, 4, length))[:length] for length in lengths]
        orders = np.concatenate(numbers).astype(np.int32)
    rows = np.concatenate(items).astype(np.int32)
    return Events(offsets, rows, weights.astype(np.float32), labels, targets, orders)


def tables(config: ResolvedConfig, users: int, item_count: int, seed: int, radius: float) -> tuple[Table, Table]:
    """What customers are made of, and the items."""
    items = table(config, item_count, seed, radius)
    if config.model == "symmetric":
        return table(config, users, seed + 1, radius), items
    return table(config, item_count, seed + 1, radius) if config.targets == "separate" else items, items


def run_both(
    config: ResolvedConfig,
    events: Events,
    item_count: int,
    *,
    block_rows: int = 8,
    seed: int = 0,
    radius: float = 1.0,
    start: tuple[Table, Table] | None = None,
) -> tuple[Outcome, Outcome]:
    """An epoch over all events by the kernels of this config, and by their references."""
    users = len(events.offsets) - 1
    histories, items = start or tables(config, users, item_count, seed, radius)
    rows = max(block_rows, len(events.items))
    workspace = allocate_workspace(config, rows, len(histories.points), item_count, shared=histories is items)
    chosen = convert_settings(config, config.learning_rate)
    slow_items = in_float64(items)
    slow_histories = slow_items if histories is items else in_float64(histories)
    slow_counters = np.zeros(5, np.int64)
    order = np.random.default_rng(seed).permutation(users)
    fast: Any = (events, histories, items, chosen, np.uint64(KEY), workspace)
    slow: Any = (events, slow_histories, slow_items, chosen, KEY, slow_counters)
    loss, slow_loss = 0.0, 0.0
    cut: tuple[Any, ...]
    kernel: Any
    slow_kernel: Any
    if config.model == "symmetric" and config.loss == "bpr":
        loss = triplet_steps(order, 0, users, *fast)
        slow_loss = reference.triplet_steps(order, *slow)
    else:
        if config.model == "symmetric":
            targets = len(events.targets) if len(events.labels) > 1 else len(events.items)
            blocks, cut = -(-targets // block_rows), (block_rows,)
            kernel, slow_kernel = symmetric_gradients, reference.symmetric_gradients
        else:
            bounds = np.unique([0, *range(2, users, 2), users])
            blocks, cut = len(bounds) - 1, (order, bounds)
            kernel, slow_kernel = asymmetric_gradients, reference.asymmetric_gradients
        step = allocate_step(config, rows, item_count)
        size = len(step.losses)
        for first in range(0, blocks, size):
            count = min(size, blocks - first)
            kernel(first, np.arange(count), np.zeros(1, np.int64), count, *cut, *fast, step)
            for part in (1, 0):  # two threads, in any order
                scratch = workspace.chosen, workspace.counters
                apply_gradients(count, part, 2, histories, items, chosen, *scratch, step)
            loss += float(step.losses[:count].sum())
            slow_loss += reference.apply_gradients([slow_kernel(first + block, *cut, *slow) for block in range(count)])
        assert (workspace.histories == -1).all()
        assert (workspace.targets == -1).all()
        assert (workspace.negatives.bits == 0).all()
    return Outcome(loss, histories, items, workspace.counters), Outcome(
        slow_loss, slow_histories, slow_items, slow_counters
    )
