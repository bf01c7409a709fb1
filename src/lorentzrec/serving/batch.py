"""Recommendations for all customers of a model, many at a time.

Large catalogues are searched with the index that the service uses, built for this run: candidates of many customers are
found, and scored again exactly, in a few array operations. Smaller ones are ranked exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.atomic import MARKER, atomic_file, checksum
from lorentzrec.data.arrays import gather_groups, offsets_of
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.memory import Boosts
from lorentzrec.model.model import Model
from lorentzrec.model.queries import history_of
from lorentzrec.serving.part_files import finish_parts, key_of, part_name, unfinished_folder
from lorentzrec.serving.versions.index import (
    FEW_EXCLUDED,
    INDEX,
    INDEXED_ITEMS,
    MOST_BOOSTED,
    MOST_CANDIDATES,
    Index,
    build_index,
    is_installed,
    open_index,
    sample_queries,
)
from lorentzrec.threads import available_cores, thread_pool

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.vocabulary import Id

CUSTOMERS_PER_PART = 131_072
"""Customers of one file of results."""
CUSTOMERS_PER_BLOCK = 1024
"""Customers whose candidates a thread holds at a time."""
EXACT_CUSTOMERS_PER_BLOCK = 16_384
"""The same where all items are scored, by all threads."""


@dataclass(frozen=True)
class BatchOptions:
    k: int = 10
    exclude: tuple[Id, ...] = ()
    items: tuple[Id, ...] | None = None
    threads: int | None = None


class BatchRecommender:
    """Recommends to the customers of a model's histories."""

    def __init__(self, model: Model, options: BatchOptions, index: Index | None = None) -> None:
        if model.histories is None or model.users is None:
            raise InputError(
                "the model was saved without training histories, so it has no customers: save it with them"
            )
        if options.k < 1:
            raise InputError(f"k is {options.k}: give a whole number of items, 1 or more")
        self.model, self.options, self.index = model, options, index
        self.histories, self.users = model.histories, model.users
        self.customers = np.flatnonzero(self.histories.lengths)
        """Rows of the customers with events."""
        self._ranker = model.ranker

    def report(self, rows: int, index: dict[str, Any]) -> BatchReport:
        return BatchReport(len(self.customers), rows, len(self.users) - len(self.customers), index.get("recall"))

    @property
    def parts(self) -> int:
        return max(1, -(-len(self.customers) // CUSTOMERS_PER_PART))

    def part(self, number: int) -> pl.DataFrame:
        """One file of results: user, rank, item, score."""
        return self.frame(self.customers[number * CUSTOMERS_PER_PART : (number + 1) * CUSTOMERS_PER_PART])

    def frame(self, users: NDArray[np.int64]) -> pl.DataFrame:
        """Recommendations for the customers in these rows."""
        import polars as pl

        if self.index is None:
            return pl.concat([self._exact(block) for block in _blocks(users, EXACT_CUSTOMERS_PER_BLOCK)])
        counts, rows, scores = (np.concatenate(arrays) for arrays in zip(*self._search(users), strict=True))
        ends = np.cumsum(counts)
        return pl.DataFrame(
            {
                "user": self.users.series.gather(np.repeat(users, counts)).alias("user"),
                "rank": (np.arange(1, len(rows) + 1) - np.repeat(ends - counts, counts)).astype(np.int32),
                "item": self.model.items.series.gather(rows),
                "score": scores,
            }
        )

    def _exact(self, users: NDArray[np.int64]) -> pl.DataFrame:
        import polars as pl

        options, model = self.options, self.model
        found = model.recommend_many(
            users=self.users.ids(users),
            k=options.k,
            exclude=options.exclude,
            items=options.items,
            threads=options.threads,
        )
        return found.to_frame().cast(
            {"user": self.users.series.dtype, "rank": pl.Int32, "item": model.items.series.dtype}
        )

    def _search(self, users: NDArray[np.int64]) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        import faiss

        faiss.omp_set_num_threads(1)  # the threads are ours
        with thread_pool(self.options.threads or available_cores()) as in_threads:
            return list(in_threads(self._search_block, _blocks(users, CUSTOMERS_PER_BLOCK)))

    def _search_block(self, users: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """How many items each customer gets, and all their rows and scores.

        Candidates are from the index; customers for whom it finds too few are ranked exactly.
        """
        k, histories = self.options.k, self.histories
        lengths = histories.lengths[users]
        owners, events = gather_groups(histories.offsets, users)
        weights = None if histories.weights is None else histories.weights[events]
        queries = self._ranker.queries(histories.item_rows[events], offsets_of(lengths), weights)
        never = self.model.items.rows(list(self.options.exclude))
        rows, scores = np.full((len(users), k), -1), np.full((len(users), k), -np.inf)
        # Customers with long histories need more candidates, since items of the history are dropped.
        for shortest, longest in pairwise((0, 16, 64, 256)):  # beyond that, exact ranking is as fast
            chosen = np.flatnonzero((lengths > shortest) & (lengths <= longest))
            if not len(chosen):
                continue
            own = np.isin(owners, chosen)
            places = np.searchsorted(chosen, owners[own])
            found = self._candidates(
                queries[chosen], 2 * k + longest + len(never), places, histories.item_rows[events[own]]
            )
            found[np.isin(found, never)] = -1
            if self._ranker.memory is None:
                rows[chosen], scores[chosen] = self._best(queries[chosen], found)
                continue
            for place, candidates in zip(chosen, found, strict=True):
                candidates = candidates[candidates >= 0]
                if len(candidates) >= k:
                    boosts = self._boosts(users[place], never).strongest(MOST_BOOSTED)
                    nearby = np.union1d(candidates, boosts.items)
                    rows[place], scores[place] = self._ranker.best(queries[place], k, nearby, boosts)
        for place in np.flatnonzero(rows[:, -1] < 0):
            excluded = np.concatenate([never, histories.history(users[place])])
            own_boosts = None if self._ranker.memory is None else self._boosts(users[place], never)
            best, values = self._ranker.top(queries[place], k, excluded, boosts=own_boosts)
            rows[place, : len(best)], scores[place, : len(best)] = best, values
            rows[place, len(best) :] = -1
        kept = rows >= 0
        return kept.sum(axis=1), rows[kept], scores[kept].astype(np.float32)

    def _boosts(self, user: int, never: NDArray[np.int64]) -> Boosts:
        """What the memory adds to the scores of items that one customer has not seen."""
        history = history_of(self.histories, user)
        boosts = self._ranker.boosts(history)
        assert boosts is not None
        return boosts.among(None, np.concatenate([never, history.items]))

    def _candidates(
        self, queries: FloatArray, count: int, places: NDArray[np.int64], seen: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Items near each query, in rising order of row; -1 instead of what was `seen` by the query in `places`."""
        assert self.index is not None
        found = self.index.search(self._ranker, queries, count, self.options.k)
        found.sort(axis=1)
        size = len(self._ranker.item_points)
        keys = found + np.arange(len(found))[:, None] * size
        found[(found >= 0) & np.isin(keys, seen + places * size)] = -1
        return found

    def _best(self, queries: FloatArray, found: NDArray[np.int64]) -> tuple[NDArray[np.int64], FloatArray]:
        """The best k candidates of each query by their exact scores; -1 and -inf where there are fewer."""
        ranker = self._ranker
        points, first = ranker.precise(ranker.item_points[np.maximum(found, 0)]), queries[:, None, :]
        exact = ranker.score_points(first, points)
        exact[found < 0] = -np.inf
        order = np.argsort(-exact, axis=1, kind="stable")[:, : self.options.k]
        exact = np.take_along_axis(exact, order, axis=1)
        return np.where(exact > -np.inf, np.take_along_axis(found, order, axis=1), -1), exact


def _blocks(users: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """At least one, so that a table without customers has columns."""
    return [users[start : start + size] for start in range(0, max(len(users), 1), size)]


@dataclass(frozen=True)
class BatchReport:
    users: int
    rows: int
    users_without_events: int
    recall: float | None = None
    """Share of the true first ten that the index finds; None without an index."""


def recommend_to_all(
    path: Path, model: Model, out: Path, options: BatchOptions, done: Callable[[int], None] = lambda count: None
) -> BatchReport:
    """Write the recommendations for all customers of the model at `path` to `out`, part by part.

    done: called with the number of customers done so far.
    """
    batch = BatchRecommender(model, options)
    folder = unfinished_folder(out, batch_key(path, options))
    description = make_index(model, options, folder)
    batch.index = None if not description else open_index(folder / INDEX, description, len(model.items))
    for number in range(batch.parts):
        if not (folder / part_name(number)).exists():
            with atomic_file(folder / part_name(number)) as partial:
                batch.part(number).write_parquet(partial)
        done(min((number + 1) * CUSTOMERS_PER_PART, len(batch.customers)))
    return batch.report(finish_parts(folder, out), description)


def batch_key(path: Path, options: BatchOptions) -> str:
    """A key of everything that the results depend on."""
    return key_of(checksum(path / MARKER), asdict(replace(options, threads=None)), CUSTOMERS_PER_PART)


def make_index(model: Model, options: BatchOptions, folder: Path) -> dict[str, Any]:
    """Build an index in `folder`, unless there is one; its description. Empty if exact ranking is as fast (a small
    catalogue, a filter, or very many items per customer), or if the extra `ann` is missing."""
    few = options.k <= MOST_CANDIDATES // 4 and len(options.exclude) <= FEW_EXCLUDED
    large = model.user_points is None and len(model.items) >= INDEXED_ITEMS
    if not (large and few and options.items is None and is_installed()):
        return {}
    record = folder / f"{INDEX}.json"
    if not record.exists():
        description = build_index(model.ranker, sample_queries(model.ranker, model.histories), folder / INDEX)
        with atomic_file(record) as partial:
            partial.write_text(json.dumps(description))
    found: dict[str, Any] = json.loads(record.read_text())
    return found
