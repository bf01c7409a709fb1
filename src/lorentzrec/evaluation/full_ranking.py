"""Ranking of the held-out items among all items, without sorting all items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.evaluation.held_out import HeldOut
from lorentzrec.evaluation.metrics import METRICS, Ranks
from lorentzrec.topk import best_scores, places_and_columns

Scores = NDArray[np.floating[Any]]


class Listed(NamedTuple):
    """The items that may be in a list, as flat arrays."""

    places: Integers
    items: Integers
    values: Scores


class FullRanking:
    """Collects the metrics of each customer, and how often each item was missed, from scores of blocks of customers.

    `measure` may run in several threads at once, on different customers; its results are passed to `add` in one thread
    and in the order of the customers, so that the result does not depend on the threads.

    Candidates are all items that are not in the history. A held-out item is a candidate even if it is in the history,
    because a repeat purchase could not be found otherwise.
    """

    def __init__(self, held_out: HeldOut, item_counts: Integers, cutoffs: Sequence[int]) -> None:
        """`cutoffs`: lengths of lists, ascending."""
        self.held_out = held_out
        self.cutoffs = cutoffs
        self.quantiles = popularity_quantiles(item_counts)
        names = [f"{name}@{k}" for k in cutoffs for name in (*METRICS, "popularity")]
        self.per_user = {name: np.zeros(len(held_out.users)) for name in names}
        self.counts: dict[str, int] = {}
        self._log_missed = {k: np.zeros(len(item_counts)) for k in cutoffs}

    @property
    def notes(self) -> tuple[str, ...]:
        wanted = self.quantiles[self.held_out.item_rows].mean()
        return (f"the popularity of the held-out items themselves is {wanted:.4f}, that of the whole catalogue 0.5",)

    @property
    def over_all(self) -> dict[str, float]:
        """Coverage@k: the expected share of items in at least one list, over all orders of ties."""
        return {f"coverage@{k}": float(np.mean(-np.expm1(log_missed))) for k, log_missed in self._log_missed.items()}

    def add(self, log_missed: dict[int, Floats]) -> None:
        """Take what `measure` returned."""
        for k, logarithms in log_missed.items():
            self._log_missed[k] += logarithms

    def measure(self, user_rows: Integers, scores: Scores) -> dict[int, Floats]:
        """Rank for some customers. `scores`: (user_rows, items), finite; overwritten.

        Returns for each cutoff and item the logarithm of the probability that none of their lists has the item.
        """
        places, item_rows = self.held_out.positives_of(user_rows)
        own = scores[places, item_rows]
        scores[self.held_out.histories_of(user_rows)] = -np.inf
        scores[places, item_rows] = own

        # Where there are fewer candidates than places, the last of the best is below every candidate, but above -inf.
        best = best_scores(scores, min(self.cutoffs[-1], scores.shape[1]))
        best = np.maximum(best, np.finfo(scores.dtype).min)
        # What is below the last of the best is in no list. What equals it may have more equals beyond the best.
        last = best[:, -1]
        rows, items = places_and_columns(scores >= last[:, None])
        listed = Listed(rows, items, scores[rows, items])
        log_missed = {}
        for k in self.cutoffs:
            last_of_list = best[:, min(k, best.shape[1]) - 1]
            log_missed[k], equals_of_last = self._measure_lists(k, user_rows, listed, last_of_list)
        inside = own >= last[places]
        places, own = places[inside], own[inside]
        above = (best[places] > own[:, None]).sum(axis=1)
        tied = np.where(own == last[places], equals_of_last[places], (best[places] == own[:, None]).sum(axis=1))
        ranks = Ranks(places, above, tied, self.held_out.positives[user_rows])
        for k in self.cutoffs:
            for name, metric in METRICS.items():
                self.per_user[f"{name}@{k}"][user_rows] = metric(ranks, k)
        return log_missed

    def _measure_lists(self, k: int, user_rows: Integers, listed: Listed, last: Scores) -> tuple[Floats, Integers]:
        """Lists of length k: items better than the `last` of a list are sure of a place, its equals share those left.

        Returns the logarithms for `measure`, and the number of items tied with the last one, including itself.
        """
        count, item_count = len(user_rows), len(self.quantiles)
        values, bounds = listed.values, last[listed.places]
        sure_places, sure_items = listed.places[values > bounds], listed.items[values > bounds]
        tied_places, tied_items = listed.places[values == bounds], listed.items[values == bounds]
        sure = np.bincount(sure_places, minlength=count)
        tied = np.bincount(tied_places, minlength=count)
        share = np.minimum((k - sure) / np.maximum(tied, 1), 1.0)

        with np.errstate(divide="ignore"):  # a share of 1 is sure too: log(0) = -inf
            log_missed = np.bincount(tied_items, np.log1p(-share)[tied_places], item_count).astype(float, copy=False)
        log_missed[sure_items] = -np.inf
        sure_popularity = np.bincount(sure_places, self.quantiles[sure_items], count)
        popularity = sure_popularity + share * np.bincount(tied_places, self.quantiles[tied_items], count)
        # A list is empty if the history has every item and the item to find is unknown: popularity 0.
        self.per_user[f"popularity@{k}"][user_rows] = popularity / np.maximum(sure + share * tied, np.finfo(float).tiny)
        return log_missed, tied


def popularity_quantiles(item_counts: Integers) -> Floats:
    """The share of the catalogue with fewer training events than an item, half of those with equally many counted in.

    The mean over the catalogue is always 0.5.
    """
    _, inverse, equals = np.unique(item_counts, return_inverse=True, return_counts=True)
    quantiles: Floats = ((np.cumsum(equals) - equals / 2) / len(item_counts))[inverse]
    return quantiles
