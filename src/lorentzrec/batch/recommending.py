"""Recommendations for all customers of a model, many at a time.

Where exact ranking would take long, candidates come from an index like that of the service, built for this run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.atomic import MARKER, atomic_file, checksum, write_text
from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.list_search import ListSearch
from lorentzrec.batch.part_files import finish_parts, key_of, part_name, unfinished_folder
from lorentzrec.data.vocabulary import UNKNOWN, Id
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels.compiling import announced
from lorentzrec.model.model import Model
from lorentzrec.model.queries import check_count, history_of, rows_of
from lorentzrec.serving.versions.index import (
    FEW_EXCLUDED,
    INDEX,
    LEAST_RECALL,
    MOST_CANDIDATES,
    SAMPLED_QUERIES,
    SHARES,
    build_index,
    is_installed,
    mean_recall,
    open_index,
    sample_queries,
)
from lorentzrec.threads import available_cores, thread_pool

if TYPE_CHECKING:
    import polars as pl

CUSTOMERS_PER_PART = 131_072
"""Customers of one file of results."""
CUSTOMERS_PER_BLOCK = 16_384
"""Customers whose candidates a thread holds at a time, or that are ranked exactly by all threads."""
HISTORY_LENGTHS = (0, 16, 64, 256, 1024)
"""Customers with long histories need more candidates, since items of the history are dropped; beyond the last length,
exact ranking is as fast. A block has customers between two of these lengths."""
INDEXED_SCORES = 10**11
"""From this many pairs of a customer and an item on, exact ranking takes many minutes, and an index pays."""


@dataclass(frozen=True)
class BatchOptions:
    k: int = 10
    exclude: tuple[Id, ...] = ()
    items: tuple[Id, ...] | None = None
    threads: int | None = None


class BatchRecommender:
    """Recommends to the customers of a model's histories."""

    def __init__(self, model: Model, options: BatchOptions) -> None:
        if model.histories is None or model.users is None:
            raise InputError(
                "the model was saved without training histories, so it has no customers: save it with them"
            )
        check_count(options.k)
        self.model, self.options, self._ranker = model, options, model.ranker
        self._lists: ListSearch | None = None
        self.histories, self.users = model.histories, model.users
        self._lengths = self.histories.lengths
        self.customers = np.flatnonzero(self._lengths)
        """Rows of the customers with events."""
        self._never = _known_rows(model, options.exclude, "exclude")
        self._allowed = None if options.items is None else _known_rows(model, options.items, "items")

    def make_index(self, folder: Path, announce: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
        """Build an index in `folder`, unless there is one, and use it; returns its description.

        Empty if exact ranking is as fast (few customers or items, a filter, or very many items per customer), or if the
        extra `ann` is missing. `announce` is called with a line if kernels are compiled.
        """
        model, options, ranker = self.model, self.options, self._ranker
        few = options.k <= MOST_CANDIDATES // 4 and len(options.exclude) <= FEW_EXCLUDED
        large = model.user_points is None and len(model.items) * len(self.customers) >= INDEXED_SCORES
        if not (large and few and options.items is None and is_installed()):
            return {}
        record = folder / f"{INDEX}.json"
        if record.exists():
            found: dict[str, Any] = json.loads(record.read_text())
            self.use_index(folder / INDEX, found, announce)
            return found
        queries = sample_queries(ranker, model.histories)
        found = build_index(ranker, queries, folder / INDEX, wanted=LEAST_RECALL, shares=(*SHARES, 0.5, 1))
        self.use_index(folder / INDEX, found, announce)
        found["recall"] = self.measure_recall()
        write_text(record, json.dumps(found))
        return found

    def use_index(
        self, path: Path, description: dict[str, Any], announce: Callable[[str], None] = lambda line: None
    ) -> None:
        """Get candidates from an index that `make_index` has built; all items are ranked if there is none."""
        if description:
            self._lists = ListSearch(open_index(path, description, len(self.model.items)), self._ranker)
            with announced(cache(announce)):  # the first search compiles: here, and not in the threads of `_search`
                self._search_block(self.customers[:1], HISTORY_LENGTHS[1])

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

        rows, scores = self._ranked(users)
        kept = rows >= 0
        counts = kept.sum(axis=1)
        return pl.DataFrame(
            {
                "user": self.users.series.gather(np.repeat(users, counts)).alias("user"),
                "rank": (np.nonzero(kept)[1] + 1).astype(np.int32),
                "item": self.model.items.series.gather(rows[kept]),
                "score": scores[kept],
            }
        )

    def _ranked(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(users, k): the rows of the items for each customer and their scores, -1 where there are no more."""
        candidates = len(self.model.items) if self._allowed is None else max(1, len(self._allowed))
        shape = len(users), min(self.options.k, candidates)
        rows, scores = np.full(shape, -1), np.full(shape, -np.inf, np.float32)
        if self._lists is not None:
            self._search(users, rows, scores)
        for places in _blocks(np.flatnonzero(rows[:, 0] < 0), CUSTOMERS_PER_BLOCK):
            for place, (best, values) in zip(places, self._ranked_exactly(users[places]), strict=True):
                rows[place, : len(best)], scores[place, : len(best)] = best, values
        return rows, scores

    def _search(self, users: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Write what the index finds; -1 stays for customers with very long histories, or if it finds too few items."""
        import faiss

        lengths = self._lengths[users]
        groups = [
            (places, longest)
            for shortest, longest in pairwise(HISTORY_LENGTHS)
            for places in _blocks(np.flatnonzero((lengths > shortest) & (lengths <= longest)), CUSTOMERS_PER_BLOCK)
        ]

        def search(group: tuple[NDArray[np.int64], int]) -> None:
            places, longest = group
            rows[places], scores[places] = self._search_block(users[places], longest)

        faiss.omp_set_num_threads(1)  # the threads are ours
        with thread_pool(self.options.threads or available_cores()) as in_threads:
            list(in_threads(search, groups))

    def _search_block(self, users: NDArray[np.int64], longest: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Rows and scores for customers with at most `longest` events; -1 if the index finds too few items."""
        assert self._lists is not None
        k, histories = self.options.k, self.histories.histories_of(users)
        queries = self._ranker.queries(*histories)
        # Items of the history are near the query, and take the place of others in the nearest lists.
        found = self._lists.search(queries, 2 * k + longest + len(self._never), best=k + longest / 8)
        return best_candidates(self._ranker, queries, found, k, *histories, self._never)

    def _ranked_exactly(self, users: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        ranker, options, points = self._ranker, self.options, self.model.user_points
        histories = [history_of(self.histories, row) for row in users.tolist()]
        if points is not None:
            queries = ranker.precise(points[users])
        else:
            queries = np.array([ranker.query(*history) for history in histories])
        excluded = [np.concatenate([self._never, history.items]) for history in histories]
        return ranker.top_many(queries, options.k, excluded, self._allowed, options.threads, histories)

    def measure_recall(self, customers: int = SAMPLED_QUERIES) -> float:
        """The share of the true first k, by exact ranking, that some customers get with the index."""
        drawn = np.random.default_rng(0).choice(self.customers, min(customers, len(self.customers)), replace=False)
        truth = [best for best, _ in self._ranked_exactly(np.sort(drawn))]
        return mean_recall(self._ranked(np.sort(drawn))[0], truth)


def _known_rows(model: Model, ids: Iterable[Id], name: str) -> NDArray[np.int64]:
    """The rows of the items that the model has."""
    rows = rows_of(model.items, ids, name)
    return np.compress(rows != UNKNOWN, rows)


def _blocks(places: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


@dataclass(frozen=True)
class BatchReport:
    users: int
    rows: int
    users_without_events: int
    recall: float | None = None
    """Share of the true first k that customers get with the index, measured on some; None without an index."""


def recommend_to_all(
    path: Path,
    model: Model,
    out: Path,
    options: BatchOptions,
    done: Callable[[float], None] = lambda share: None,
    announce: Callable[[str], None] = lambda line: None,
) -> BatchReport:
    """Write the recommendations for all customers of the model at `path` to `out`, part by part.

    done: called with the share that is done so far.
    announce: called with a line if kernels are compiled.
    """
    batch = BatchRecommender(model, options)
    folder = unfinished_folder(out, batch_key(path, options))
    description = batch.make_index(folder, announce)
    for number in range(batch.parts):
        if not (folder / part_name(number)).exists():
            with atomic_file(folder / part_name(number)) as partial:
                batch.part(number).write_parquet(partial)
        done((number + 1) / batch.parts)
    return batch.report(finish_parts(folder, out), description)


def batch_key(path: Path, options: BatchOptions) -> str:
    """A key of everything that the results depend on."""
    return key_of(checksum(path / MARKER), asdict(replace(options, threads=None)), CUSTOMERS_PER_PART)
