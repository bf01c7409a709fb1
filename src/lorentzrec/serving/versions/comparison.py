"""Two versions on the same histories: how much their lists have in common, and how well each finds later events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import gather_groups, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from lorentzrec.serving.versions.version import Version

OVERLAP_HISTORIES = 1_000
"""Histories that two versions are compared on: the standard error of the overlap is then below .01."""


class Overlap(NamedTuple):
    """How much the lists of two versions have in common."""

    value: float
    """The mean share of a list that is in the list of the other version; 0 if there is no history to compare."""
    histories: int
    """Size of the sample."""
    items: int
    """Items that both versions contain; only these are ranked, and only these count in histories."""


@dataclass(frozen=True, eq=False)
class VersionRecommender:
    """A version as `lorentzrec.evaluate` takes it. It scores what the service would rank, without live items."""

    version: Version
    histories: None = None

    @cached_property
    def items(self) -> Vocabulary:
        return Vocabulary(self.version.items.ids(), name="item")

    @property
    def item_counts(self) -> NDArray[np.int64]:
        return self.version.points.item_counts

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """By the midpoint of the history, and by popularity without one: see `Model.score_histories`."""
        points, given = self.version.points, histories.histories_of(user_rows)
        informed = np.diff(given.offsets) > 0
        queries = np.zeros((len(user_rows), points.item_points.shape[1]))
        if informed.any():
            queries[informed] = points.queries(*histories.histories_of(user_rows[informed]).for_queries)
        scores = Ranker(points).score_all(queries, *given.for_boosts)
        scores[~informed] = np.unique(points.popularity, return_inverse=True)[1]
        return scores


def with_text_ids(events: Interactions) -> Interactions:
    """The events with ids as text, as versions have them."""
    import polars as pl

    users, items = (Vocabulary(ids.series.cast(pl.String), name=ids.name) for ids in (events.users, events.items))
    return replace(events, users=users, items=items)


def measure_overlap(first: Version, second: Version, histories: Interactions, k: int, seed: int = 0) -> Overlap:
    """The overlap of the best `k` items of two versions, over a random sample of histories.

    Items of the history are not recommended. Two kinds of customers are not in the sample: those who have no item that
    both versions contain, and those for whom no more than `k` items are left, which any two versions would list.
    """
    ids = [str(item) for item in histories.items.series.to_list()]
    rows = [version.items.rows(ids) for version in (first, second)]
    in_both = (rows[0] != UNKNOWN) & (rows[1] != UNKNOWN)
    # Items that no history has can be recommended, too.
    all_ids = first.items.ids()
    others = second.items.rows(all_ids)
    allowed = np.flatnonzero(others != UNKNOWN), np.sort(others[others != UNKNOWN])
    pairs = np.unique(histories.user_rows.astype(np.int64) * len(ids) + histories.item_rows)
    pairs = pairs[in_both[pairs % max(len(ids), 1)]]
    known = np.bincount(pairs // max(len(ids), 1), minlength=len(histories.users))
    customers = np.flatnonzero((known > 0) & (len(allowed[0]) - known > k))
    if len(customers) > OVERLAP_HISTORIES:
        customers = np.sort(np.random.default_rng(seed).choice(customers, OVERLAP_HISTORIES, replace=False))
    owners, events = gather_groups(histories.offsets, customers)
    kept = in_both[histories.item_rows[events]]
    owners, events = owners[kept], events[kept]
    weights = None if histories.weights is None else histories.weights[events]
    ages = None if histories.order_ages is None else histories.order_ages[events]
    offsets = make_offsets(np.bincount(owners, minlength=len(customers)))
    lists = []
    for version, of_items, candidates in zip((first, second), rows, allowed, strict=True):
        item_rows = of_items[histories.item_rows[events]]
        lists.append(_rank(version, item_rows, offsets, weights, ages, candidates, k))
    shares = [np.isin(others[one], other).sum() / len(one) for one, other in zip(*lists, strict=True) if len(one)]
    return Overlap(float(np.mean(shares)) if shares else 0.0, len(shares), len(allowed[0]))


def _rank(
    version: Version,
    item_rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float32] | None,
    order_ages: NDArray[np.int32] | None,
    allowed: NDArray[np.int64],
    k: int,
) -> list[NDArray[np.int64]]:
    """The rows of the best `k` of the `allowed` items for each of these histories, none of which is empty."""
    if len(offsets) == 1:
        return []
    ends = offsets[1:-1]
    parts = np.split(item_rows, ends)
    part_weights = [None] * len(parts) if weights is None else np.split(weights, ends)
    histories = [History(*one) for one in zip(parts, part_weights, strict=True)]
    queries = version.points.queries(item_rows, offsets, weights, order_ages)
    excluded = [np.unique(part) for part in parts]
    return [rows for rows, _ in Ranker(version.points).top_many(queries, k, excluded, allowed, histories=histories)]
