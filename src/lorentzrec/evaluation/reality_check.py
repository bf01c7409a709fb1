"""The reality check: a model next to popularity, habits and item-kNN, on the same held-out events and candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from lorentzrec.data.arrays import Booleans, Floats, make_mask
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.evaluation.baselines import ItemKNN, Popularity
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.report import Report
from lorentzrec.evaluation.shop_baselines import OwnFrequency, RecentPopularity
from lorentzrec.model.reality_check import OURS, CheckedSystem, RealityCheck

CUSTOMER_LIMIT = 1000
"""Customers who are evaluated, chosen at random."""
REPEATED_SHARE = 0.1
"""From this share of held-out items that are in the history of their customer on, customers buy again."""
HALF_LIFE = 80.0
"""Days after which an event counts half in own-frequency."""
PAIR_LIMIT = 500_000_000
"""Pairs of items that item-kNN counts, in about two seconds. If there are more, it learns from some customers."""
STANDARD_ERRORS = 2.0
"""A difference of more standard errors than these is significant."""
NDCG, RECALL = "ndcg@10", "recall@10"


def check_reality(
    model: Recommender,
    test: Interactions,
    train: Interactions,
    *,
    events: Literal["held-out", "new"] = "held-out",
    seed: int = 0,
    threads: int | None = None,
    baselines: Baselines | None = None,
) -> RealityCheck:
    """Compare `model` with baselines on the events of `test`.

    train: the earlier events of all customers, in the rows of the model's items. The model and its settings know only
    these, and the baselines learn from them.
    events: what `test` is, for the reader.
    baselines: those of `train`, from an earlier check with the same seed; None: they are made here.
    """
    test = test if test.labels is None else test.select(test.labels)
    customers = np.flatnonzero(test.lengths)
    if len(customers) > CUSTOMER_LIMIT:
        customers = np.random.default_rng(seed).choice(customers, CUSTOMER_LIMIT, replace=False)
        test = test.select(make_mask(customers, len(test.users))[test.user_rows])
    rows = train.users.rows(test.users.ids(customers))
    histories = train.of_customers(rows[rows >= 0])
    repeats = find_repeats(test, histories).mean() >= REPEATED_SHARE
    candidates: Literal["unseen", "all"] = "all" if repeats else "unseen"

    def measure(system: Recommender) -> Report:
        options = {"histories": histories, "candidates": candidates, "threads": threads, "intervals": False}
        return evaluate(system, test, k=10, metrics=("ndcg", "recall"), **options)  # type: ignore[arg-type]

    ours = measure(model)
    checked = [CheckedSystem(name=OURS, ndcg=ours[NDCG], recall=ours[RECALL])]
    known = Baselines(train, seed) if baselines is None else baselines
    for name, baseline in known.make(histories, repeats=bool(repeats)).items():
        report = measure(baseline)
        row = CheckedSystem(name=name, ndcg=report[NDCG], recall=report[RECALL])
        checked.append(_compare(row, ours.per_user[NDCG] - report.per_user[NDCG]))
    return RealityCheck(rows=tuple(checked), customers=len(ours.users), candidates=candidates, events=events)


class Baselines:
    """The baselines that learn from some events, for several checks: what one check needs is not learned again for the
    next."""

    def __init__(self, train: Interactions, seed: int = 0) -> None:
        self.train, self.seed = train, seed
        self._item_knn: ItemKNN | None = None

    def make(self, histories: Interactions, *, repeats: bool) -> dict[str, Recommender]:
        """The baselines by name, as far as the data have what they need: times, and customers who buy again.

        histories: those that are to be scored.
        """
        train, timed = self.train, self.train.times is not None
        baselines: dict[str, Recommender] = {"popularity": Popularity(train)}
        if timed:
            baselines["recent-popularity"] = RecentPopularity(train)
        if repeats:
            baselines["own-frequency"] = OwnFrequency(train, HALF_LIFE if timed else None)
        items = np.flatnonzero(histories.item_counts)
        if self._item_knn is None:
            self._item_knn = ItemKNN(sample_customers(train, PAIR_LIMIT, self.seed), for_items=items)
        self._item_knn.learn(items)
        return baselines | {"item-knn": self._item_knn}


def find_repeats(test: Interactions, histories: Interactions) -> Booleans:
    """Which events of `test`, among those of customers and items that `histories` know, repeat an earlier item."""
    found = reindex(test, histories.users, histories.items)
    if len(found) == 0:
        return np.zeros(1, bool)
    histories = histories.of_customers(found.user_rows)
    pairs, known = (data.user_rows.astype(np.int64) * len(data.items) + data.item_rows for data in (found, histories))
    return np.isin(pairs, known)


def sample_customers(data: Interactions, pairs: int, seed: int = 0) -> Interactions:
    """The events of customers at random, as many as have this number of pairs of items, and of at least one."""
    squares = data.lengths.astype(np.int64) ** 2
    if squares.sum() <= pairs:
        return data
    order = np.random.default_rng(seed).permutation(len(squares))
    kept = order[: max(1, int(np.searchsorted(np.cumsum(squares[order]), pairs, side="right")))]
    return data.of_customers(kept)


def _compare(row: CheckedSystem, differences: Floats) -> CheckedSystem:
    """The row of a baseline with its difference, from the difference of each customer."""
    difference, count = float(differences.mean()), len(differences)
    error = float(differences.std(ddof=1) / np.sqrt(count)) if count > 1 else None
    significant = error is not None and abs(difference) > STANDARD_ERRORS * error
    return replace(row, difference=difference, standard_error=error, significant=significant)
