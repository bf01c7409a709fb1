"""Ranking of the held-out items among all items, without sorting all items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.evaluation.held_out import HeldOut
from lorentzrec.evaluation.list_metrics import (
    CustomerSimilarity,
    Listed,
    Lists,
    coverage,
    gini,
    novelties,
    popularity_quantiles,
)
from lorentzrec.evaluation.metrics import METRICS, Ranks
from lorentzrec.points.topk import best_scores, rows_and_columns

Scores = NDArray[np.floating[Any]]
Sums = dict[tuple[str, int], Floats]
"""Metric over all lists and cutoff -> a sum over lists for each item."""

DEFAULT_METRICS = ("hr", "recall", "ndcg", "mrr", "popularity", "coverage")
OVER_ALL: dict[str, Callable[[Floats], float]] = {"coverage": coverage, "gini": gini}
LISTED = ("popularity", "novelty", "diversity", *OVER_ALL)
"""What is computed from the lists alone, and not from the held-out items."""


class FullRanking:
    """Collects the metrics of each customer and of all lists together, from scores of blocks of customers.

    `measure` may run in several threads at once, on different customers; its results are passed to `add` in one thread
    and in the order of the customers, so that the result does not depend on the threads.

    Candidates are as `HeldOut.candidates` says. With "unseen", a held-out item is a candidate even if it is in the
    history, because it could not be found otherwise.
    """

    def __init__(
        self, held_out: HeldOut, item_counts: Integers, cutoffs: Sequence[int], metrics: Sequence[str] = DEFAULT_METRICS
    ) -> None:
        """`cutoffs`: lengths of lists, ascending. `metrics`: names of `METRICS` and `LISTED`."""
        self.held_out, self.cutoffs, self.metrics = held_out, cutoffs, metrics
        self.quantiles = popularity_quantiles(item_counts)
        self._values = {"popularity": self.quantiles}
        if "novelty" in metrics:
            self._values["novelty"] = novelties(item_counts)
        self._similarity = CustomerSimilarity(held_out.histories) if "diversity" in metrics else None
        per_user = [name for name in metrics if name not in OVER_ALL]
        self.per_user = {f"{name}@{k}": np.zeros(len(held_out.users)) for k in cutoffs for name in per_user}
        self.counts: dict[str, int] = {}
        self._sums = {(name, k): np.zeros(len(item_counts)) for name in metrics if name in OVER_ALL for k in cutoffs}

    @property
    def notes(self) -> tuple[str, ...]:
        if "popularity" not in self.metrics:
            return ()
        wanted = self.quantiles[self.held_out.item_rows].mean()
        return (f"the popularity of the held-out items themselves is {wanted:.4f}, that of the whole catalogue 0.5",)

    @property
    def over_all(self) -> dict[str, float]:
        """Metrics of all lists together, from sums over the lists for each item."""
        return {f"{name}@{k}": OVER_ALL[name](sums) for (name, k), sums in self._sums.items()}

    def add(self, sums: Sums) -> None:
        """Take what `measure` returned."""
        for key, of_items in sums.items():
            self._sums[key] += of_items

    def measure(self, user_rows: Integers, scores: Scores) -> Sums:
        """Rank for some customers. `scores`: (user_rows, items), finite; overwritten. Returns sums for `over_all`."""
        indices, item_rows = self.held_out.positives_of(user_rows)
        own = scores[indices, item_rows]
        if self.held_out.candidates == "repeats":
            seen = self.held_out.histories_of(user_rows)
            kept = scores[seen]
            scores[:] = -np.inf
            scores[seen] = kept
        elif self.held_out.candidates != "all":
            scores[self.held_out.histories_of(user_rows)] = -np.inf
            scores[indices, item_rows] = own

        # With fewer candidates than positions, the last of the best is below every candidate, but above -inf.
        best = best_scores(scores, min(self.cutoffs[-1], scores.shape[1]))
        best = np.maximum(best, np.finfo(scores.dtype).min)
        # What is below the last of the best is in no list. What equals it may have more equals beyond the best.
        last = best[:, -1]
        rows, items = rows_and_columns(scores >= last[:, None])
        listed = Listed(rows, items, scores[rows, items])
        sums: Sums = {}
        for k in self.cutoffs:
            lists = Lists.of(listed, best[:, min(k, best.shape[1]) - 1], k)
            self._measure_lists(k, user_rows, lists, sums)
        inside = own >= last[indices]
        indices, own = indices[inside], own[inside]
        above = (best[indices] > own[:, None]).sum(axis=1)
        tied = np.where(own == last[indices], lists.tied[indices], (best[indices] == own[:, None]).sum(axis=1))
        ranks = Ranks(indices, above, tied, self.held_out.positives[user_rows])
        for name in self.metrics:
            if name in METRICS:
                for k in self.cutoffs:
                    self.per_user[f"{name}@{k}"][user_rows] = METRICS[name](ranks, k)
        return sums

    def _measure_lists(self, k: int, user_rows: Integers, lists: Lists, sums: Sums) -> None:
        """The metrics of lists of length k, whatever is held out."""
        for name in self.metrics:
            if name in self._values:
                self.per_user[f"{name}@{k}"][user_rows] = lists.means(self._values[name])
            elif name == "diversity" and self._similarity is not None:
                self.per_user[f"{name}@{k}"][user_rows] = self._similarity.diversity(lists)
            elif name == "coverage":
                sums[name, k] = lists.log_missed(len(self.quantiles))
            elif name == "gini":
                sums[name, k] = lists.appearances(len(self.quantiles))
