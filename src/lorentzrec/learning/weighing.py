"""How much the memory counts: a line search on events that neither the points nor the memory have seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorentzrec.data.arrays import Floats
from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.next_events import NextEvents
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.memory import build_memory
from lorentzrec.model.model import Model

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""In units of the loss, where the score is multiplied by `scale`."""
USUAL_WEIGHT, USUAL_UNORDERED = 1.0, 2.0
"""Within 1 % of the best on validation events of Toys, Sports and MovieLens 1M, and of gowalla. Another one has to be
better by a standard error."""
MOST_CUSTOMERS, MOST_UNORDERED = 1000, 5000
"""Customers that the weight is chosen on. The last events are worth more than others, so fewer of them are held out."""


@dataclass(frozen=True)
class Choice:
    weight: float
    """0: points alone are better."""
    customers: int
    points: float
    """The metric of the points alone ..."""
    memory: float
    """... and with the weight, or with the usual one if that is 0."""


def choose_weight(model: Model, held_out: Interactions, metric: str) -> Choice:
    """The weight of a memory of the histories of `model` for finding the `held_out` events: the usual one, unless
    another one is clearly better.

    The metric is almost flat near its maximum, so the weight that is best for some customers is often far from the best
    one for all.
    """
    config = model.config
    if model.histories is None:
        raise ValueError("the model has no histories")
    memory = build_memory(model.histories, config.memory_neighbours, ordered=config.history == "causal")
    options = {"k": cutoff_of(metric), "users": max(1, customers_for(model.histories)), "threads": config.threads}

    def measure(weight: float) -> Floats:
        weighed = replace(model, memory=memory.with_weight(weight / config.scale))
        return evaluate(weighed, held_out, intervals=False, **options).per_user[metric]  # type: ignore[arg-type]

    values = np.array([measure(weight) for weight in WEIGHTS])
    # Each mean is smoothed with its neighbours, since a few customers more or less move the maximum.
    means = values.mean(axis=1)
    smooth = [means[max(place - 1, 0) : place + 2].mean() for place in range(len(means))]
    best, usual = int(np.argmax(smooth)), WEIGHTS.index(USUAL_WEIGHT if memory.ordered else USUAL_UNORDERED)
    gains = values[best] - values[usual]
    if gains.mean() < gains.std() / np.sqrt(len(gains)):
        best = usual
    return Choice(WEIGHTS[best], values.shape[1], float(means[0]), float(means[best or usual]))


def adjust_weight(model: Model, task: NextEvents, metric: str) -> float:
    """The weight of the memory of `model`, or its neighbour among the weights that is better for finding events which
    neither the points nor the memory have seen; 0: no memory."""
    config, memory = model.config, model.memory
    if memory is None and model.histories is not None:
        memory = build_memory(model.histories, config.memory_neighbours, ordered=config.history == "causal")
    if memory is None:
        return 0.0
    weight = 0.0 if model.memory is None else memory.weight * config.scale
    place = int(np.abs(np.array(WEIGHTS) - weight).argmin())
    options = {"k": cutoff_of(metric), "histories": task.histories, "intervals": False, "threads": config.threads}

    def measure(weight: float) -> float:
        weighed = replace(model, memory=memory.with_weight(weight / config.scale))
        return evaluate(weighed, task.test, **options)[metric]  # type: ignore[arg-type]

    return max(WEIGHTS[max(place - 1, 0) : place + 2], key=measure)


def customers_for(data: Interactions) -> int:
    """How many customers the weight is chosen on: at most a tenth of those with three events or more, or a fifth."""
    able = int((data.lengths >= 3).sum())
    return min(MOST_CUSTOMERS, able // 10) if data.ordered else min(MOST_UNORDERED, able // 5)
