"""Each held-out item among a few sampled ones: the protocol of the paper."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import Id
from lorentzrec.evaluation.held_out import HeldOut
from lorentzrec.evaluation.metrics import Ranks, hit_rate, ndcg

Integers = NDArray[np.int64]


class SampledRanking:
    """Takes the scores of some customers at a time and keeps the metrics of each: the mean over their held-out items.

    The negatives depend on the seed, the customer's id, what the customer touched and the order of the catalogue, and
    on nothing else: every model of one catalogue is asked the same question.
    """

    def __init__(self, held_out: HeldOut, cutoffs: Sequence[int], negatives: int, seed: int) -> None:
        self.held_out = held_out
        self.cutoffs = cutoffs
        self.seed = seed
        self.per_user = {f"{name}@{k}": np.zeros(len(held_out.users)) for k in cutoffs for name in ("hr", "ndcg")}
        self.over_all: dict[str, float] = {}
        self.counts = {"negatives": negatives, "few_negatives": 0}

    @property
    def notes(self) -> tuple[str, ...]:
        few, wanted = self.counts["few_negatives"], self.counts["negatives"]
        return (f"{few:,} customers have fewer than {wanted} untouched items: all of these were used",) * (few > 0)

    def add(self, few_negatives: int) -> None:
        """Take what `measure` returned."""
        self.counts["few_negatives"] += few_negatives

    def measure(self, user_rows: Integers, scores: NDArray[np.floating]) -> int:
        """Rank for some customers, as `FullRanking.measure`. `scores`: (user_rows, items), finite.

        Returns how many of the customers have too few untouched items.
        """
        few_negatives = 0
        places, item_rows = self.held_out.positives_of(user_rows)
        bounds = np.searchsorted(places, np.arange(len(user_rows) + 1))
        above, tied = np.zeros(len(places), np.int64), np.ones(len(places), np.int64)
        for place, user in enumerate(self.held_out.users.ids(user_rows)):
            wanted = item_rows[bounds[place] : bounds[place + 1]]
            negatives = draw_negatives(
                self.held_out, int(user_rows[place]), user, scores.shape[1], self.counts["negatives"], self.seed
            )
            few_negatives += len(negatives) < self.counts["negatives"]
            rivals, own = scores[place, negatives], scores[place, wanted][:, None]
            above[bounds[place] : bounds[place + 1]] += (rivals > own).sum(axis=1)
            tied[bounds[place] : bounds[place + 1]] += (rivals == own).sum(axis=1)
        # Every held-out item is alone with its negatives: a question of its own, with one item to find.
        ranks = Ranks(np.arange(len(places)), above, tied, np.ones(len(places), np.int64))
        positives = self.held_out.positives[user_rows]
        for k in self.cutoffs:
            self.per_user[f"hr@{k}"][user_rows] = np.bincount(places, hit_rate(ranks, k), len(user_rows)) / positives
            self.per_user[f"ndcg@{k}"][user_rows] = np.bincount(places, ndcg(ranks, k), len(user_rows)) / positives
        return few_negatives


def draw_negatives(held_out: HeldOut, user_row: int, user: Id, item_count: int, wanted: int, seed: int) -> Integers:
    """The items to compare with for one customer, whose id is `user`: none of the history, none that is held out."""
    history = held_out.histories.history(int(held_out.history_rows[user_row]))
    held = held_out.item_rows[held_out.offsets[user_row] : held_out.offsets[user_row + 1]]
    return draw_untouched(np.union1d(history, held), item_count, wanted, _generator(seed, user))


def draw_untouched(touched: Integers, item_count: int, wanted: int, generator: np.random.Generator) -> Integers:
    """Distinct item rows outside `touched` (sorted, distinct), all equally likely; every one if there are too few."""
    untouched = item_count - len(touched)
    picks = generator.choice(untouched, min(wanted, untouched), replace=False)
    # The pick-th untouched row lies behind all touched rows t_m with t_m - m <= pick.
    return picks + np.searchsorted(touched - np.arange(len(touched)), picks, side="right")


def _generator(seed: int, user: Id) -> np.random.Generator:
    digest = hashlib.blake2b(repr(user).encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])
