"""Whether customers buy again, and how much that counts, by events that neither points nor memory have seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.evaluation.protocol import evaluate, parse_cutoff
from lorentzrec.model.model import Model
from lorentzrec.points.repeats import Repeats, find_rates

WEIGHTS = (4.0, 8.0, 16.0, 32.0, 64.0)
"""In units of the loss, where the score is multiplied by `scale`."""
HALF_LIVES = (20.0, 40.0, 80.0, 160.0, 320.0, None)
ORDER_DECAYS = (0.9, 0.97, 1.0)
USUAL_WEIGHT, USUAL_HALF_LIFE, USUAL_DECAY = 32.0, 320.0, 0.97
"""What is kept unless another value is better by a standard error."""
LOWEST = np.float32(-1e30)
"""The score of an item that must not be recommended."""


@dataclass(frozen=True)
class RepeatChoice:
    weight: float
    """0: items of the history are better left out."""
    half_life: float | None
    order_decay: float
    customers: int
    unseen: float
    """The metric if items of the history are left out."""
    repeats: float
    """The metric with the best repeats."""


def has_repeats(held_out: Interactions, histories: Interactions) -> bool:
    """Whether a customer has a held-out item in the history."""
    held_out = reindex(held_out, histories.users, histories.items)
    known, found = (
        data.user_rows.astype(np.int64) * len(data.items) + data.item_rows for data in (histories, held_out)
    )
    return bool(np.isin(found, known).any())


def choose_repeats(model: Model, held_out: Interactions, metric: str) -> RepeatChoice:
    """The repeats for finding the `held_out` events with the points and the memory of `model`.

    The weight is chosen first, then the half-life, and the decay per order last. The usual value is kept unless another
    one is better by a standard error, and so is a list without items of the history.
    """
    config = model.config
    if model.histories is None:
        raise ValueError("the model has no histories")
    rates = find_rates(model.histories)
    timed = model.histories.times is not None

    def measure(recommender: Any) -> Floats:
        return evaluate(
            recommender, held_out, k=parse_cutoff(metric), candidates="all", intervals=False, threads=config.threads
        ).per_user[metric]

    def measure_repeats(repeats: Repeats) -> Floats:
        return measure(model.with_points(repeats=repeats))

    unseen = measure(_Unseen(model))
    usual = Repeats(rates, USUAL_WEIGHT / config.scale, *((USUAL_HALF_LIFE, USUAL_DECAY) if timed else (None,)))
    best, values = usual, np.empty(0)
    grids: dict[str, Sequence[Any]] = {"weight": [weight / config.scale for weight in WEIGHTS]}
    if timed:
        grids |= {"half_life": HALF_LIVES, "order_decay": ORDER_DECAYS}
    for name, grid in grids.items():
        kept, index = values, grid.index(getattr(best, name))
        found = [
            kept if len(kept) and number == index else measure_repeats(replace(best, **{name: value}))
            for number, value in enumerate(grid)
        ]
        index = highest if _is_better(found[highest := _best(found)], found[index]) else index
        best, values = replace(best, **{name: grid[index]}), found[index]
    better = _is_better(values, unseen)
    means = float(unseen.mean()), float(values.mean())
    return RepeatChoice(best.weight * config.scale * better, best.half_life, best.order_decay, len(values), *means)


def _is_better(values: Floats, usual: Floats) -> bool:
    """Whether the mean is higher by more than a standard error of the difference."""
    gains = values - usual
    return bool(gains.mean() > gains.std() / np.sqrt(len(gains)))


def _best(values: list[Floats]) -> int:
    """The index of the best mean, smoothed with its neighbours: a few customers more or less move the maximum."""
    means = np.array([each.mean() for each in values])
    padded = np.pad(means, 1, mode="edge")
    return int(np.argmax(padded[:-2] + 2 * means + padded[2:]))


class _Unseen:
    """A model that never recommends items of the history."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def items(self) -> Vocabulary:
        return self._model.items

    @property
    def histories(self) -> Interactions | None:
        return self._model.histories

    @property
    def item_counts(self) -> NDArray[np.int64]:
        return self._model.item_counts

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = self._model.score_histories(histories, user_rows)
        owners, events = gather_groups(histories.offsets, user_rows)
        scores[owners, histories.item_rows[events]] = LOWEST
        return scores
