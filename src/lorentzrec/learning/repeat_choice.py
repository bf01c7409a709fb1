"""Whether customers buy again, and how much that counts, by events that neither points nor memory have seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.model.model import Model
from lorentzrec.points.repeats import Repeats, find_rates

WEIGHTS = (4.0, 8.0, 16.0, 32.0, 64.0)
"""In units of the loss, where the score is multiplied by `scale`."""
HALF_LIVES = (20.0, 40.0, 80.0, 160.0, None)
USUAL_WEIGHT, USUAL_HALF_LIFE = 32.0, 80.0
"""Where the search begins, and what an interrupted training uses."""
LOWEST = np.float32(-1e30)
"""The score of an item that must not be recommended."""


@dataclass(frozen=True)
class RepeatChoice:
    weight: float
    """0: items of the history are better left out."""
    half_life: float | None
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

    The weight is chosen first, with the usual half-life, and the half-life with this weight. Repeats have to be better
    than a list without items of the history by a standard error.
    """
    config = model.config
    if model.histories is None:
        raise ValueError("the model has no histories")
    rates = find_rates(model.histories)
    timed = model.histories.times is not None

    def measure(recommender: Any) -> Floats:
        return evaluate(
            recommender, held_out, k=cutoff_of(metric), candidates="all", intervals=False, threads=config.threads
        ).per_user[metric]

    def measure_repeats(weight: float, half_life: float | None) -> Floats:
        return measure(model.with_points(repeats=Repeats(rates, weight / config.scale, half_life)))

    unseen = measure(_Unseen(model))
    usual = USUAL_HALF_LIFE if timed else None
    by_weight = [measure_repeats(weight, usual) for weight in WEIGHTS]
    weight = WEIGHTS[_best(by_weight)]
    half_life, values = usual, by_weight[WEIGHTS.index(weight)]
    if timed:
        by_half_life = [values if one == usual else measure_repeats(weight, one) for one in HALF_LIVES]
        best = _best(by_half_life)
        half_life, values = HALF_LIVES[best], by_half_life[best]
    gains = values - unseen
    if gains.mean() <= gains.std() / np.sqrt(len(gains)):
        weight = 0.0
    return RepeatChoice(weight, half_life, len(gains), float(unseen.mean()), float(values.mean()))


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
