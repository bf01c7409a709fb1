"""Small training problems, once as the kernels see them (float32) and once as their twins do (float64)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import offsets_of
from lorentzrec.learning import reference
from lorentzrec.learning.config import TrainingConfig
from lorentzrec.learning.kernels.blocks import asymmetric_steps, symmetric_steps
from lorentzrec.learning.kernels.structures import Events, Settings, Table
from lorentzrec.learning.kernels.triplets import triplet_steps
from lorentzrec.learning.tables import settings_of, table_of, workspace_of

KEY = 0x0123456789ABCDEF


class Outcome(NamedTuple):
    loss: float
    histories: Table
    items: Table
    counters: NDArray[np.int64]


def resolved(**options: Any) -> TrainingConfig:
    """A config in which nothing is open."""
    config = TrainingConfig.from_mapping({"dimension": 5, "clip_norm": 0.3, "threads": 1} | options)
    return config.resolve(ordered=True, events=100, users=10, items=20)


def settings(**options: Any) -> Settings:
    config = resolved(**options)
    assert config.learning_rate is not None
    return settings_of(config, config.learning_rate)


def table(config: TrainingConfig, count: int, seed: int, radius: float = 1.0) -> Table:
    space = np.random.default_rng(seed).normal(0, radius / config.dimension**0.5, (count, config.dimension))
    return table_of(space.astype(np.float32), config)


def in_float64(table: Table) -> Table:
    return Table(*(array.astype(np.float64 if array.dtype == np.float32 else array.dtype) for array in table))


def events(lengths: list[int], item_count: int, *, weighted: bool, seed: int) -> Events:
    """Histories with repeated items now and then; the last customer, where long enough, has touched everything."""
    random = np.random.default_rng(seed)
    items = [random.integers(0, item_count, length) for length in lengths]
    if lengths[-1] >= item_count:
        items[-1][:item_count] = random.permutation(item_count)
    total = sum(lengths)
    weights = random.uniform(0.5, 2, total) if weighted else np.ones(1)
    return Events(offsets_of(np.array(lengths)), np.concatenate(items).astype(np.int32), weights.astype(np.float32))


def run_both(
    config: TrainingConfig, events: Events, item_count: int, *, block_rows: int = 8, seed: int = 0, radius: float = 1.0
) -> tuple[Outcome, Outcome]:
    """An epoch over all events by the kernel of this config, and by its twin."""
    users = len(events.offsets) - 1
    items = table(config, item_count, seed, radius)
    if config.model == "symmetric":
        histories = table(config, users, seed + 1, radius)
    else:
        histories = table(config, item_count, seed + 1, radius) if config.targets == "separate" else items
    shared = histories is items
    workspace = workspace_of(
        config, max(block_rows, len(events.items)), len(histories.points), item_count, shared=shared
    )
    assert config.learning_rate is not None
    kernel_settings = settings_of(config, config.learning_rate)
    slow_items = in_float64(items)
    slow_histories = slow_items if shared else in_float64(histories)
    slow_counters = np.zeros(5, np.int64)
    order = np.random.default_rng(seed).permutation(users)
    fast: Any = (events, histories, items, kernel_settings, np.uint64(KEY))
    slow: Any = (events, slow_histories, slow_items, kernel_settings, KEY, slow_counters)
    if config.model == "asymmetric":
        bounds = np.unique([0, *range(2, users, 2), users])
        blocks = len(bounds) - 1
        loss = asymmetric_steps(order, bounds, 0, blocks, *fast, workspace)
        slow_loss = reference.asymmetric_steps(order, bounds, 0, blocks, *slow)
    elif config.loss == "bpr":
        loss = triplet_steps(order, 0, users, *fast, workspace)
        slow_loss = reference.triplet_steps(order, 0, users, *slow)
    else:
        blocks = -(-len(events.items) // block_rows)
        loss = symmetric_steps(0, blocks, block_rows, *fast, workspace)
        slow_loss = reference.symmetric_steps(0, blocks, block_rows, *slow)
    return Outcome(loss, histories, items, workspace.counters), Outcome(
        slow_loss, slow_histories, slow_items, slow_counters
    )
