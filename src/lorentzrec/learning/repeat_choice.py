"""Whether customers buy again, and how much that counts, by events that neither points nor memory have seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, gather_groups
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.evaluation.protocol import evaluate_variants
from lorentzrec.model.model import Model
from lorentzrec.points.ranking import Variant
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
    histories = histories.of_customers(held_out.user_rows)
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

    def measure(variants: Sequence[Repeats | None]) -> list[Floats]:
        """The metric of each customer; None: items of the history are left out."""
        score = partial(_score, model, variants)
        return evaluate_variants(
            model, score, len(variants), held_out, metric, candidates="all", threads=config.threads
        )

    usual = Repeats(rates, USUAL_WEIGHT / config.scale, *((USUAL_HALF_LIFE, USUAL_DECAY) if timed else (None,)))
    best, unseen, values = usual, np.empty(0), np.empty(0)
    grids: dict[str, Sequence[Any]] = {"weight": [weight / config.scale for weight in WEIGHTS]}
    if timed:
        grids |= {"half_life": HALF_LIVES, "order_decay": ORDER_DECAYS}
    for name, grid in grids.items():
        index = grid.index(getattr(best, name))
        unseen, *found = measure([None, *(replace(best, **{name: value}) for value in grid)])
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


def _score(
    model: Model, variants: Sequence[Repeats | None], histories: Interactions, user_rows: NDArray[np.int64]
) -> Iterator[NDArray[np.float32]]:
    """The scores with each of the repeats; None: with the lowest score for items of the history."""
    weight = model.ranker.variant.memory_weight
    found = model.score_variants([Variant(weight, repeats) for repeats in variants], histories, user_rows)
    for repeats, scores in zip(variants, found, strict=True):
        if repeats is None:
            owners, events = gather_groups(histories.offsets, user_rows)
            scores[owners, histories.item_rows[events]] = LOWEST
        yield scores
