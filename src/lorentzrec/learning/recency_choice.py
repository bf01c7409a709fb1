"""The recency of orders: a few values, compared by short trainings on the orders of some customers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lorentzrec.data.arrays import make_mask
from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.protocol import evaluate, parse_cutoff
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model

RECENCIES = (0.7, 0.9, 0.97, 1.0)
"""Per order. The last one is kept unless another one is better by a standard error."""
EVENT_LIMIT = 200_000
"""Events of the customers that a short training learns from. It has at most half of all events."""
DIMENSION, EPOCHS, NEGATIVES = 16, 4, 128
"""What a short training has at most."""
FEWEST_CUSTOMERS, CUSTOMER_LIMIT = 50, 1000
"""Customers whose newest orders are held out. With fewer, nothing is chosen."""


@dataclass(frozen=True)
class RecencyChoice:
    recency: float
    customers: int
    usual: float
    """The metric with recency 1."""
    best: float
    """The metric with the chosen recency, or with the best other one if recency 1 is kept."""


def choose_recency(
    data: Interactions,
    config: ResolvedConfig,
    metric: str,
    hold_out: Callable[[Interactions, ResolvedConfig, int], tuple[Interactions, Interactions | None]],
    train: Callable[[Interactions, TrainingConfig], Model],
) -> RecencyChoice | None:
    """The recency that finds held-out orders best; None if there are too few customers, or epochs, to choose by.

    The choice depends on data, config and seed only.

    hold_out: divides events into those to learn from and the newest orders of a number of customers.
    train: a model of points alone.
    """
    if config.epochs < EPOCHS:
        return None
    sample = sample_customers(data, config.seed)
    customers = min(CUSTOMER_LIMIT, int((sample.lengths >= 3).sum()) // 2)
    training, held_out = hold_out(sample, config, customers) if customers else (sample, None)
    if held_out is None or int((held_out.lengths > 0).sum()) < FEWEST_CUSTOMERS:
        return None
    pilot = config.replace(
        dimension=min(config.dimension, DIMENSION),
        epochs=EPOCHS,
        negative_count=min(config.negative_count, NEGATIVES),
        memory="none",
        validation=0.0,
    )
    values = []
    for recency in RECENCIES:
        model = train(training, pilot.replace(recency=recency))
        report = evaluate(model, held_out, k=parse_cutoff(metric), intervals=False, threads=config.threads)
        values.append(report.per_user[metric])
    means = np.array([value.mean() for value in values])
    best = int(np.argmax(means[:-1]))
    gains = values[best] - values[-1]
    better = gains.mean() > gains.std() / np.sqrt(len(gains))
    return RecencyChoice(RECENCIES[best] if better else RECENCIES[-1], len(gains), float(means[-1]), float(means[best]))


def sample_customers(data: Interactions, seed: int) -> Interactions:
    """The events of random customers: as many customers as fit into half of all events and into `EVENT_LIMIT`."""
    order = np.random.default_rng([seed, 2]).permutation(len(data.users))
    fitting = np.cumsum(data.lengths[order]) <= min(EVENT_LIMIT, len(data) // 2)
    return data.select(make_mask(order[fitting], len(data.users))[data.user_rows])
