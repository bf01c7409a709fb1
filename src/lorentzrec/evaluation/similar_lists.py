"""How good lists of similar items are: by what other customers buy together, by categories, and by popularity.

Customers are held out. Two items are a pair if a held-out customer bought both in one order, or, in histories without
orders, at most five steps apart. A system finds a pair if the second item is in its list for the first. The share of
pairs that it finds favours best sellers; weighted, each pair counts 1 / (training events of the second item).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers, gather_groups, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.similar import SimilarItems

STEPS = 5
NOTHING = -1
"""In a list that is shorter than the others."""
ITEMS_AT_ONCE = 256


class SimilarityQuality(NamedTuple):
    """Of the lists of one system."""

    same_category: float
    """The mean share of categories that an item and one in its list have in common, of those of either (Jaccard)."""
    most_lists: int
    """The lists that contain the most frequent item."""
    gini: float
    """Of the number of lists that contain each item: 0 if all are in equally many, towards 1 if few are in all."""
    found: float
    """The share of held-out pairs that are found."""
    found_weighted: float
    """The same, each pair weighted by 1 / (training events of its second item)."""


class FindsSimilar(Protocol):
    """Anything that has a list of similar items for each item row."""

    def find(self, rows: Integers, k: int) -> Integers:
        """(rows, k): the rows of the most similar items, best first, and `NOTHING` where there are fewer."""
        ...


class SimilarOfPoints:
    """What a model recommends as similar."""

    def __init__(self, points: Points) -> None:
        self._similar = SimilarItems(Ranker(points))

    def find(self, rows: Integers, k: int) -> Integers:
        return _fill([self._similar.rank(row, k)[0] for row in rows.tolist()], k)


class NearestPoints:
    """A baseline: the items whose points have the smallest distance."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def find(self, rows: Integers, k: int) -> Integers:
        scorer, queries = self._points.scorer.nearest, self._points.precise_items(rows)
        own = (rows[index : index + 1] for index in range(len(rows)))
        return _fill([scorer.top(query, k, item)[0] for query, item in zip(queries, own, strict=True)], k)


class CosineOfCustomers:
    """A baseline: the cosine between the columns of the interaction matrix."""

    def __init__(self, train: Interactions) -> None:
        from scipy import sparse

        incidence = train.incidence()
        lengths = np.sqrt(np.maximum(np.asarray(incidence.sum(axis=0)).ravel(), 1))
        self._customers = (incidence @ sparse.diags_array(1 / lengths)).tocsr()

    def find(self, rows: Integers, k: int) -> Integers:
        found = []
        for start in range(0, len(rows), ITEMS_AT_ONCE):
            block = rows[start : start + ITEMS_AT_ONCE]
            cosines = (self._customers[:, block].T @ self._customers).toarray()
            cosines[np.arange(len(block)), block] = 0
            order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
            found.append(np.where(np.take_along_axis(cosines, order, 1) > 0, order, NOTHING))
        return np.concatenate(found)


def evaluate_similar(
    systems: Mapping[str, FindsSimilar],
    held_out: Interactions,
    train: Interactions,
    categories: Any,
    k: int = 10,
) -> dict[str, SimilarityQuality]:
    """The lists of each system for all items with training events.

    held_out, train: events of different customers, in the same vocabularies.
    categories: sparse (items, categories), 1 where an item has a category.
    """
    if held_out.items != train.items:
        raise InputError("the held-out events have other items than the training data: select both from one object")
    known = np.flatnonzero(train.item_counts)
    pairs = find_pairs(held_out)
    pairs = pairs[(train.item_counts[pairs] > 0).all(axis=1)]
    if not len(pairs):
        raise InputError("the held-out customers have bought no two known items together: hold out more of them")
    found = {}
    for name, system in systems.items():
        lists = np.full((len(train.items), k), NOTHING)
        lists[known] = system.find(known, k)
        found[name] = _measure(lists, known, pairs, train.item_counts, categories)
    return found


def find_pairs(data: Interactions) -> Integers:
    """(pairs, 2): items that a customer bought in one order, or at most five steps apart, in both directions."""
    users = data.user_rows
    if not data.in_orders:
        steps = [np.flatnonzero(users[step:] == users[:-step]) for step in range(1, STEPS + 1)]
        before = np.concatenate(steps)
        after = np.concatenate([events + step for step, events in enumerate(steps, 1)])
        pairs = np.stack([data.item_rows[before], data.item_rows[after]], axis=1).astype(np.int64)
    else:
        numbers = np.repeat(data.offsets[:-1], data.lengths) + data.order_positions
        cells = np.unique(numbers * len(data.items) + data.item_rows)
        orders, items = np.divmod(cells, len(data.items))
        offsets = make_offsets(np.bincount(np.unique(orders, return_inverse=True)[1]))
        owners, index = gather_groups(offsets, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
        pairs = np.stack([items[owners], items[index]], axis=1)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.concatenate([pairs, pairs[:, ::-1]])


def _measure(lists: Integers, known: Integers, pairs: Integers, counts: Integers, categories: Any) -> SimilarityQuality:
    there = lists[known] != NOTHING
    owners, items = np.repeat(known, there.sum(axis=1)), lists[known][there]
    common = np.asarray(categories[owners].multiply(categories[items]).sum(axis=1)).ravel()
    sizes = np.asarray(categories.sum(axis=1)).ravel()
    either = sizes[owners] + sizes[items] - common
    described = sizes[owners] > 0
    of_items = np.sort(np.bincount(items, minlength=len(lists))[known])
    ranks = np.arange(1, len(known) + 1)
    gini = float((2 * ranks - len(known) - 1) @ of_items / (len(known) * of_items.sum()))
    hits = (lists[pairs[:, 0]] == pairs[:, 1:]).any(axis=1)
    weights = 1 / counts[pairs[:, 1]]
    return SimilarityQuality(
        float(np.mean(common[described] / either[described])) if described.any() else 0.0,
        int(of_items[-1]),
        gini,
        float(hits.mean()),
        float(hits @ weights / weights.sum()),
    )


def _fill(found: list[NDArray[np.int64]], k: int) -> Integers:
    """Lists as rows of one array."""
    lists = np.full((len(found), k), NOTHING)
    for row, items in zip(lists, found, strict=True):
        row[: len(items)] = items
    return lists
