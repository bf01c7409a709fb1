"""The weight of the memory: a line search on events that neither the points nor the memory have seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lorentzrec.data.arrays import Floats
from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.next_events import NextEvents
from lorentzrec.evaluation.protocol import evaluate_variants
from lorentzrec.evaluation.reality_check import find_repeats
from lorentzrec.model.config import History, ResolvedConfig
from lorentzrec.model.model import Model
from lorentzrec.points.memory import Memory, build_memory
from lorentzrec.points.ranking import Variant

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""In units of the loss, where the score is multiplied by `scale`."""
USUAL_WEIGHTS: dict[History, float] = {"causal": 1.0, "orders": 2.0, "folds": 2.0}
"""By how histories are read: a weight that is within 1 % of the best one on validation events, with order of Toys,
Sports and MovieLens 1M, and without order of gowalla."""
ERRORS = 3
"""By how many standard errors another weight has to be better than the usual one. The usual weight is good for all data
that were tried, so that most other choices are chance. With order, by one, random 500 of 10,000 customers of Toys
change the weight in 19 % of all cases and of 8,000 customers of Sports in 16 %, by two in 1 %, and by three in none of
2,000. Without order, by three, 500 draws of 94 of 376 customers of MovieLens 100K all keep it."""
FEW_CUSTOMERS = 1000
"""With orders, another weight has to be better by one standard error, and with fewer customers by two."""


@dataclass(frozen=True)
class Choice:
    weight: float
    """0: points alone are better."""
    customers: int
    points: float
    """The metric of the points alone."""
    memory: float
    """The metric with the chosen weight, or with the usual weight if the chosen weight is 0."""


def build_memory_for(data: Interactions, config: ResolvedConfig) -> Memory:
    """The memory of these events for a model with this config."""
    return build_memory(data, config.memory_neighbours, ordered=config.history == "causal")


def choose_weight(model: Model, memory: Memory, held_out: Interactions, metric: str) -> Choice:
    """The weight of the `memory` of the histories of `model` for finding the `held_out` events: the usual one, unless
    another one is clearly better.

    The metric is almost flat near its maximum, so the weight that is best for some customers is often far from the best
    one for all.
    """
    config = model.config
    if model.histories is None:
        raise ValueError("the model has no histories")
    of_new = config.history == "orders" and not find_repeats(held_out, model.histories).all()
    candidates: Candidates = "new" if of_new else "unseen"
    values = measure_weights(model, memory, WEIGHTS, held_out, metric, model.histories, candidates)
    means, best = values.mean(axis=1), find_best_weight(values, config.history)
    shown = best or WEIGHTS.index(USUAL_WEIGHTS[config.history])
    return Choice(WEIGHTS[best], values.shape[1], float(means[0]), float(means[shown]))


def find_best_weight(values: Floats, history: History) -> int:
    """The index of the weight to take, from the metric of each customer with each of `WEIGHTS`."""
    # Each mean is smoothed with its neighbours, since a few customers more or less move the maximum.
    means = values.mean(axis=1)
    smooth = [means[max(index - 1, 0) : index + 2].mean() for index in range(len(means))]
    best, usual = int(np.argmax(smooth)), WEIGHTS.index(USUAL_WEIGHTS[history])
    gains = values[best] - values[usual]
    errors = ERRORS
    if history == "orders":
        errors = 1 if len(gains) >= FEW_CUSTOMERS else 2
    return usual if gains.mean() < errors * gains.std() / np.sqrt(len(gains)) else best


def adjust_weight(model: Model, task: NextEvents, metric: str) -> float:
    """The weight of the memory of `model`, or its neighbour among the weights that is better for finding events which
    neither the points nor the memory have seen; 0: no memory."""
    config, memory = model.config, model.memory
    if memory is None and model.histories is not None:
        memory = build_memory_for(model.histories, config)
    if memory is None:
        return 0.0
    weight = 0.0 if model.memory is None else memory.weight * config.scale
    index = int(np.abs(np.array(WEIGHTS) - weight).argmin())
    weights = WEIGHTS[max(index - 1, 0) : index + 2]
    values = measure_weights(model, memory, weights, task.test, metric, task.histories)
    return weights[int(np.argmax(values.mean(axis=1)))]


def measure_weights(
    model: Model,
    memory: Memory,
    weights: Sequence[float],
    test: Interactions,
    metric: str,
    histories: Interactions,
    candidates: Candidates = "unseen",
) -> Floats:
    """The metric of each customer with each of the weights."""
    remembering = model.with_points(memory=memory)
    variants = [Variant(weight / model.config.scale, model.repeats) for weight in weights]
    return np.array(
        evaluate_variants(
            remembering,
            partial(remembering.score_variants, variants),
            len(variants),
            test,
            metric,
            candidates=candidates,
            histories=histories,
            threads=model.config.threads,
        )
    )
