"""Ranking of each held-out item among sampled items: the protocol of the paper."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.data.vocabulary import Id
from lorentzrec.evaluation.held_out import HeldOut
from lorentzrec.evaluation.metrics import METRICS, Ranks

SAMPLED_METRICS = ("hr", "ndcg")
"""What is computed by default."""


class SampledRanking:
    """Collects the metrics of each customer, the mean over their held-out items, from scores of blocks of customers.

    The negatives depend only on the seed, the customer's id, the customer's items and the order of the catalogue, so
    that all models of one catalogue have the same ranking task.
    """

    def __init__(
        self,
        held_out: HeldOut,
        cutoffs: Sequence[int],
        negatives: int,
        seed: int,
        metrics: Sequence[str] = SAMPLED_METRICS,
    ) -> None:
        """`metrics`: names of `METRICS`."""
        self.held_out, self.cutoffs, self.metrics = held_out, cutoffs, metrics
        self.seed = seed
        self.per_user = {f"{name}@{k}": np.zeros(len(held_out.users)) for k in cutoffs for name in metrics}
        self.over_all: dict[str, float] = {}
        self.counts = {"negatives": negatives, "few_negatives": 0}
        self.notes: tuple[str, ...] = ()

    def add(self, few_negatives: int) -> None:
        """Take what `measure` returned."""
        self.counts["few_negatives"] += few_negatives

    def measure(self, user_rows: Integers, scores: NDArray[np.floating]) -> int:
        """Rank for some customers, as `FullRanking.measure`. `scores`: (user_rows, items), finite.

        Returns how many of the customers have too few possible negatives.
        """
        few_negatives = 0
        indices, item_rows = self.held_out.positives_of(user_rows)
        bounds = np.searchsorted(indices, np.arange(len(user_rows) + 1))
        above, tied = np.zeros(len(indices), np.int64), np.ones(len(indices), np.int64)
        for index, user in enumerate(self.held_out.users.ids(user_rows)):
            wanted = item_rows[bounds[index] : bounds[index + 1]]
            negatives = draw_negatives(
                self.held_out, int(user_rows[index]), user, scores.shape[1], self.counts["negatives"], self.seed
            )
            few_negatives += len(negatives) < self.counts["negatives"]
            rivals, own = scores[index, negatives], scores[index, wanted][:, None]
            above[bounds[index] : bounds[index + 1]] += (rivals > own).sum(axis=1)
            tied[bounds[index] : bounds[index + 1]] += (rivals == own).sum(axis=1)
        # Every held-out item is ranked with its negatives alone: a list of its own, with one item to find.
        ranks = Ranks(np.arange(len(indices)), above, tied, np.ones(len(indices), np.int64))
        positives = self.held_out.positives[user_rows]
        for k in self.cutoffs:
            for name in self.metrics:
                found = np.bincount(indices, METRICS[name](ranks, k), len(user_rows))
                self.per_user[f"{name}@{k}"][user_rows] = found / positives
        return few_negatives


def draw_negatives(held_out: HeldOut, user_row: int, user: Id, item_count: int, wanted: int, seed: int) -> Integers:
    """The negatives of one customer, whose id is `user`: not in the history, and not held out."""
    history = held_out.histories.history(int(held_out.history_rows[user_row]))
    held = held_out.item_rows[held_out.offsets[user_row] : held_out.offsets[user_row + 1]]
    return draw_others(np.union1d(history, held), item_count, wanted, _generator(seed, user))


def draw_others(excluded: Integers, item_count: int, wanted: int, generator: np.random.Generator) -> Integers:
    """Distinct item rows not in `excluded` (sorted, distinct), all equally likely; all of them if there are too few."""
    others = item_count - len(excluded)
    picks = generator.choice(others, min(wanted, others), replace=False)
    # The pick-th other row comes after all excluded rows e_m with e_m - m <= pick.
    return picks + np.searchsorted(excluded - np.arange(len(excluded)), picks, side="right")


def _generator(seed: int, user: Id) -> np.random.Generator:
    digest = hashlib.blake2b(repr(user).encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])
