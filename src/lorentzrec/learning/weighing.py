"""How much the memory counts: a line search on events that neither the points nor the memory have seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.memory import build_memory
from lorentzrec.model.model import Model

WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""In units of the loss, where the score is multiplied by `scale`."""
MOST_CUSTOMERS = 1000
"""Customers that the weight is chosen on."""
PATIENCE = 2
"""Weights that may be worse than the best one before the search ends."""


@dataclass(frozen=True)
class Choice:
    weight: float
    """0: points alone are better, or as good within a standard error."""
    customers: int
    points: float
    """The metric of the points alone ..."""
    memory: float
    """... and with the best weight above 0."""


def choose_weight(model: Model, held_out: Interactions, metric: str) -> Choice:
    """The best weight of a memory of the histories of `model` for finding the `held_out` events."""
    config = model.config
    if model.histories is None:
        raise ValueError("the model has no histories")
    memory = build_memory(model.histories, config.memory_neighbours, ordered=config.history == "causal")

    def measure(weight: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        weighed = replace(model, memory=memory.with_weight(weight / config.scale))
        options = {"k": cutoff_of(metric), "users": MOST_CUSTOMERS, "threads": config.threads}
        return evaluate(weighed, held_out, intervals=False, **options).per_user[metric]  # type: ignore[arg-type]

    points = measure(0.0)
    best, best_weight, waited = points, 0.0, 0
    for weight in WEIGHTS:
        values = measure(weight)
        if values.mean() > best.mean() or best_weight == 0:
            best, best_weight, waited = values, weight, 0
        else:
            waited += 1
        if waited == PATIENCE:
            break
    gains = best - points
    helps = gains.mean() > gains.std() / np.sqrt(len(gains))
    return Choice(best_weight if helps else 0.0, len(points), float(points.mean()), float(best.mean()))
