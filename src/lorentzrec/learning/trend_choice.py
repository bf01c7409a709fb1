"""How much a trend counts, and over how many days: chosen on the newest held-out events, by trends of earlier events.

Held-out events are the last ones of their customers, at any time. A trend of today says nothing of events a year ago,
so only those of the last days decide, and the trend is that of the moment before these days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, make_mask
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.protocol import evaluate, parse_cutoff
from lorentzrec.evaluation.reality_check import find_repeats
from lorentzrec.model.model import Model
from lorentzrec.points.trend import USUAL_DAYS, Trend, find_trend

WEIGHTS = (0.5, 1.0, 2.0, 4.0)
"""In units of the loss, where the score is multiplied by `scale`."""
DAYS = (7.0, 14.0, 28.0)
USUAL_WEIGHT = 2.0
"""Where the search begins."""
DECIDING_DAYS = (7.0, 14.0, 28.0)
ENOUGH_CUSTOMERS, FEWEST_CUSTOMERS, CUSTOMER_LIMIT = 200, 50, 500
"""The events that decide are those of the first of `DECIDING_DAYS` with enough customers. With fewer than the fewest in
the last of them, nothing is chosen."""
SCORES = 50_000_000
"""Scores that are held in memory: with more items, fewer customers decide."""
STANDARD_ERRORS = 2.0
"""A trend has to be better by this many."""


@dataclass(frozen=True)
class TrendChoice:
    weight: float
    """0: scores are better without a trend."""
    days: float
    customers: int
    deciding_days: float
    without: float
    """The metric without a trend, of all candidates; and of items that are new to the customer, if customers buy
    again."""
    trend: float
    """The metric with the best trend."""
    without_of_new: float | None = None
    trend_of_new: float | None = None


def choose_trend(model: Model, held_out: Interactions, metric: str, now: float) -> TrendChoice | None:
    """The trend for finding the newest `held_out` events; None if the clock says nothing, or too few events are new.

    The days are chosen first, with the usual weight, and the weight with these days: the usual one, unless lists of all
    items are better with another one by two standard errors. If customers buy again, lists of all items and of items
    that are new to the customer count equally. A trend is kept if one of the two is better by two standard errors, and
    lists of all items are not worse by one.
    """
    found = _find_deciding(model, held_out, now)
    if found is None or model.histories is None or model.histories.times is None:
        return None
    test, days_of_test, start = found
    trends = {days: trend for days in DAYS if (trend := find_trend(model.histories, days, start)) is not None}
    if not trends:
        return None
    scored = _Scored(model, test)
    kinds: tuple[Candidates, ...] = ("unseen",)
    if model.repeats is not None:
        kinds = ("all",) if find_repeats(test, model.histories).all() else ("all", "new")

    def measure(trend: Trend | None, weight: float = 0.0) -> list[Floats]:
        scored.offsets = None if trend is None else replace(trend, weight=weight / model.config.scale).offsets
        options: dict[str, Any] = {"k": parse_cutoff(metric), "intervals": False, "threads": model.config.threads}
        return [evaluate(scored, test, candidates=kind, **options).per_user[metric] for kind in kinds]

    def average(values: list[Floats]) -> float:
        return float(np.mean([value.mean() for value in values]))

    without = measure(None)
    by_days = {days: measure(trend, USUAL_WEIGHT) for days, trend in trends.items()}
    days = max(by_days, key=lambda one: average(by_days[one]))
    by_weight = {
        weight: by_days[days] if weight == USUAL_WEIGHT else measure(trends[days], weight) for weight in WEIGHTS
    }
    means = np.pad([average(values) for values in by_weight.values()], 1, mode="edge")
    # Each mean is smoothed with its neighbours, since a few customers more or less move the maximum.
    weight = WEIGHTS[int(np.argmax(means[:-2] + 2 * means[1:-1] + means[2:]))]
    if not _is_better(by_weight[weight][0] - by_days[days][0]):
        weight = USUAL_WEIGHT
    values = by_weight[weight]
    gains = [with_trend - alone for with_trend, alone in zip(values, without, strict=True)]
    better = any(map(_is_better, gains))
    measured = [float(value.mean()) for value in (without[0], values[0])]
    of_new = [float(value.mean()) for value in (without[1], values[1])] if len(kinds) > 1 else []
    kept = better and gains[0].mean() >= -gains[0].std() / np.sqrt(len(gains[0]))
    return TrendChoice(weight if kept else 0.0, days, len(gains[0]), days_of_test, *measured, *of_new)


def _find_deciding(model: Model, held_out: Interactions, now: float) -> tuple[Interactions, float, float] | None:
    """The held-out events that decide, of how many days they are, and when these begin."""
    known = model.histories
    if held_out.times is None or known is None or known.times is None:
        return None
    rows = known.users.rows(held_out.users.series)
    learned = (rows != UNKNOWN) & (known.lengths[rows] > 0)
    times = np.concatenate([held_out.times, known.times])
    if not (times <= now).any():
        return None
    newest = float(times[times <= now].max())
    for days in DECIDING_DAYS:
        start = newest - days * SECONDS_PER_DAY
        new = (held_out.times > start) & (held_out.times <= now) & learned[held_out.user_rows]
        customers = np.unique(held_out.user_rows[new])
        if len(customers) >= ENOUGH_CUSTOMERS or (days == DECIDING_DAYS[-1] and len(customers) >= FEWEST_CUSTOMERS):
            limit = min(CUSTOMER_LIMIT, max(FEWEST_CUSTOMERS, SCORES // len(model.items)))
            chosen = np.random.default_rng([model.config.seed, 3]).permutation(customers)[:limit]
            return held_out.select(new & make_mask(chosen, len(held_out.users))[held_out.user_rows]), days, start
    return None


def _is_better(gains: Floats) -> bool:
    return bool(gains.mean() > STANDARD_ERRORS * gains.std() / np.sqrt(len(gains)))


class _Scored:
    """A model whose scores for some customers are computed once, with offsets that change."""

    def __init__(self, model: Model, test: Interactions) -> None:
        assert model.histories is not None
        self.items: Vocabulary = model.items
        self.item_counts: NDArray[np.int64] = model.item_counts
        self.offsets: NDArray[np.float32] | None = None
        rows = model.histories.users.rows(test.users.ids(np.unique(test.user_rows)))
        self._rows = np.sort(rows[rows != UNKNOWN])
        self.histories: Interactions | None = model.histories.of_customers(self._rows)
        # A trend of which nothing is known changes no score, but makes scores of numbers in their order.
        nothing = np.zeros(len(model.items), np.float32)
        scoring = model.with_points(trend=Trend(nothing, nothing, 1.0, USUAL_DAYS, 0.0))
        self._scores = scoring.score_histories(self.histories, self._rows)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `Recommender`; the histories are those of the model."""
        scores = self._scores[np.searchsorted(self._rows, user_rows)]
        if self.offsets is not None:
            scores += self.offsets
        return scores
