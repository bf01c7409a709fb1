"""Recommendations for all customers of a model, many at a time.

Where exact ranking would take long, candidates come from an index like that of the service, built for this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.array_files import open_arrays
from lorentzrec.base.atomic import MARKER, checksum
from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.batch.candidates import best_candidates
from lorentzrec.batch.list_search import ListSearch
from lorentzrec.batch.part_files import PartFiles, finish_parts, hash_key, unfinished_parts
from lorentzrec.batch.store_customers import StoreCustomers, StoreReport, list_customers
from lorentzrec.data.arrays import make_mask
from lorentzrec.data.vocabulary import UNKNOWN, Id
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.ingest.storage import read_record, write_record
from lorentzrec.learning.kernels.compiling import announced
from lorentzrec.model.artifact import MODEL, load
from lorentzrec.model.model import Model
from lorentzrec.model.queries import check_count, require_rows
from lorentzrec.points.diversity import check_diversity, diversify, pool_size
from lorentzrec.points.index import (
    INDEX,
    LEAST_RECALL,
    MOST_CANDIDATES,
    SAMPLED_QUERIES,
    build_index,
    mean_recall,
    read_index,
    sample_queries,
    write_index,
)
from lorentzrec.points.points import read_history
from lorentzrec.points.ranking import INDEXED_SHARE
from lorentzrec.points.reasons import Reason, strongest_reasons

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.serving.stores.store import Store

CUSTOMERS_PER_PART = 131_072
"""Customers of one file of results."""
CUSTOMERS_PER_BLOCK = 16_384
"""Customers whose candidates a thread holds at a time, or that are ranked exactly by all threads."""
CUSTOMERS_WITH_REASONS = 2_048
"""Customers whose reasons are Python objects at a time."""
HISTORY_LENGTHS = (0, 16, 64, 256, 1024)
"""Customers with long histories need more candidates, since items of the history are dropped; beyond the last length,
exact ranking is as fast. A block has customers between two of these lengths."""
WITHOUT_CUSTOMERS = "the model was saved without training histories, so it has no customers: save it with them"
INDEXED_SCORES = 10**11
"""From this many pairs of a customer and an item on, exact ranking takes many minutes, and an index pays."""


@dataclass(frozen=True)
class BatchOptions:
    k: int = 10
    exclude: tuple[Id, ...] = ()
    exclude_seen: bool | None = None
    """As in `Model.recommend`."""
    allow: tuple[Id, ...] | None = None
    threads: int | None = None
    diversity: float = 0.0
    reasons: bool = False

    def __post_init__(self) -> None:
        check_count(self.k)
        check_diversity(self.diversity)


class BatchRecommender:
    """Recommends to the customers of a model's histories."""

    def __init__(self, model: Model, options: BatchOptions, titles: pl.Series | None = None) -> None:
        """`titles`: one per item of the model, for the results."""
        if model.histories is None or model.users is None:
            raise InputError(WITHOUT_CUSTOMERS)
        self.model, self.options, self._ranker, self._titles = model, options, model.ranker, titles
        self._count = pool_size(options.k, options.diversity)
        """Items that are ranked for each customer."""
        self._lists: ListSearch | None = None
        self.histories, self.users = model.histories, model.users
        self._lengths = self.histories.lengths
        liked = self._lengths
        if self.histories.weights is not None:
            liked = np.bincount(self.histories.user_rows[self.histories.weights > 0], minlength=len(self.users))
        self.customers = np.flatnonzero(liked)
        """Rows of the customers with events that are no dislikes."""
        self._seen_excluded = model.repeats is None if options.exclude_seen is None else options.exclude_seen
        self._never = _known_rows(model, options.exclude, "exclude")
        self._allowed = None if options.allow is None else _known_rows(model, options.allow, "allow")
        self._permitted = None
        if self._allowed is not None or len(self._never):
            every = np.arange(len(model.items)) if self._allowed is None else self._allowed
            self._permitted = make_mask(np.setdiff1d(every, self._never), len(model.items))

    def make_index(self, folder: Path, announce: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
        """Build an index in `folder`, unless there is one, and use it; returns its description.

        Empty if exact ranking is as fast (few customers or items, a filter that leaves few items, or very many items
        per customer). `announce` is called with a line if kernels are compiled.
        """
        model, points, items = self.model, self.model.points, len(self.model.items)
        left = items if self._permitted is None else int(np.count_nonzero(self._permitted))
        large = model.user_points is None and left * len(self.customers) >= INDEXED_SCORES
        if not (large and left * INDEXED_SHARE >= items and self._count <= MOST_CANDIDATES // 4):
            return {}
        path, record = folder / INDEX, str(folder / f"{INDEX}.json")
        found = read_record(record)
        if found is not None and path.is_file() and found.get("sha256") == checksum(path):
            self.use_index(path, found, announce)
            return found
        index = build_index(points, sample_queries(points, model.histories))
        made = write_index(path, index.tune(points.scorer, wanted=LEAST_RECALL))
        self.use_index(path, made, announce)
        made |= {"recall": self.measure_recall(), "sha256": checksum(path)}
        write_record(record, made)
        return made

    def use_index(
        self, path: Path, description: dict[str, Any], announce: Callable[[str], None] = lambda line: None
    ) -> None:
        """Get candidates from an index that `make_index` has built; all items are ranked if there is none."""
        if description:
            points = self.model.points
            opened = read_index(path, open_arrays(path, MODEL), description, points, MODEL)
            self._lists = ListSearch(opened, self.model.points, self._permitted)
            with announced(cache(announce)):  # the first search compiles: here, and not in the threads of `_search`
                self._search_block(self.customers[:1], HISTORY_LENGTHS[1])

    def report(
        self, rows: int, index: dict[str, Any], again: int = 0, store: StoreReport | None = None, erased: int = 0
    ) -> BatchReport:
        """`erased`: customers who were erased meanwhile, and are not in the results."""
        return BatchReport(
            users=len(self.customers) - erased,
            rows=rows,
            users_without_events=len(self.users) - len(self.customers),
            recall=index.get("recall"),
            parts_again=again,
            store=None if store is None else replace(store, erased_customers=store.erased_customers + erased),
        )

    @property
    def parts(self) -> int:
        return max(1, -(-len(self.customers) // CUSTOMERS_PER_PART))

    def part(self, number: int) -> pl.DataFrame:
        """One file of results: user, rank, item, score, title if there are any, and because with reasons."""
        return self.frame(self.customers[number * CUSTOMERS_PER_PART : (number + 1) * CUSTOMERS_PER_PART])

    def frame(self, users: NDArray[np.int64]) -> pl.DataFrame:
        """Recommendations for the customers in these rows."""
        import polars as pl

        rows, scores = self._ranked(users)
        if self.options.diversity:
            rows, scores = self._diversified(rows, scores)
        kept = rows >= 0
        counts = kept.sum(axis=1)
        columns: dict[str, Any] = {
            "user": self.users.series.gather(np.repeat(users, counts)).alias("user"),
            "rank": (np.nonzero(kept)[1] + 1).astype(np.int32),
            "item": self.model.items.series.gather(rows[kept]),
            "score": scores[kept],
        }
        if self._titles is not None:
            columns["title"] = self._titles.gather(rows[kept])
        if self.options.reasons:
            blocks = [
                self._reasons(users[indices], rows[indices])
                for indices in _blocks(np.arange(len(users)), CUSTOMERS_WITH_REASONS)
            ]
            columns["because"] = pl.concat(blocks) if blocks else self._reasons(users, rows)
        return pl.DataFrame(columns)

    def _diversified(
        self, rows: NDArray[np.int64], scores: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The items of each customer that differ most from one another, of those that were ranked."""
        options, shape = self.options, (len(rows), min(self.options.k, rows.shape[1]))
        chosen, values = np.full(shape, -1), np.full(shape, -np.inf, np.float32)
        for position, (found, score) in enumerate(zip(rows, scores, strict=True)):
            count = np.count_nonzero(found >= 0)
            if count:
                picked = diversify(self._ranker, found[:count], score[:count], options.k, options.diversity)
                chosen[position, : len(picked)], values[position, : len(picked)] = found[picked], score[picked]
        return chosen, values

    def _reasons(self, users: NDArray[np.int64], rows: NDArray[np.int64]) -> pl.Series:
        """The items of each customer's history that contribute most to each recommended item; none if the customer has
        a point of their own."""
        import polars as pl

        items = self.model.items
        lists: list[list[dict[str, Any]]] = []
        for user, found in zip(users.tolist(), rows, strict=True):
            recommended = found[found >= 0]
            if self.model.user_points is not None or not len(recommended):
                lists += [[] for _ in recommended]
                continue
            for reasons in strongest_reasons(self._ranker, read_history(self.histories, user), recommended):
                lists.append([Reason(items.id(reason.row), *reason[1:])._asdict() for reason in reasons])
        kind = pl.List(
            pl.Struct({"item": items.series.dtype, "share": pl.Float64, "kind": pl.String, "bought": pl.Int64})
        )
        return pl.Series("because", lists, dtype=kind)

    def _ranked(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(users, k): the rows of the items for each customer and their scores, -1 where there are no more."""
        candidates = len(self.model.items) if self._allowed is None else max(1, len(self._allowed))
        shape = len(users), min(self._count, candidates)
        rows, scores = np.full(shape, -1), np.full(shape, -np.inf, np.float32)
        if self._lists is not None:
            self._search(users, rows, scores)
        for indices in _blocks(np.flatnonzero(rows[:, 0] < 0), CUSTOMERS_PER_BLOCK):
            for position, (best, values) in zip(indices, self._ranked_exactly(users[indices]), strict=True):
                rows[position, : len(best)], scores[position, : len(best)] = best, values
        return rows, scores

    def _search(self, users: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Write what the index finds; -1 stays for customers with very long histories, or if it finds too few items."""
        lengths = self._lengths[users]
        groups = [
            (indices, longest)
            for shortest, longest in pairwise(HISTORY_LENGTHS)
            for indices in _blocks(np.flatnonzero((lengths > shortest) & (lengths <= longest)), CUSTOMERS_PER_BLOCK)
        ]

        def search(group: tuple[NDArray[np.int64], int]) -> None:
            indices, longest = group
            rows[indices], scores[indices] = self._search_block(users[indices], longest)

        with thread_pool(self.options.threads or available_cores()) as in_threads:
            list(in_threads(search, groups))

    def _search_block(self, users: NDArray[np.int64], longest: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Rows and scores for customers with at most `longest` events; -1 if the index finds too few items."""
        assert self._lists is not None
        k, histories = self._count, self.histories.histories_of(users)
        queries = self.model.points.queries(*histories.for_queries)
        # Items of the history are near the query, and take the place of others in the nearest lists.
        found = self._lists.search(queries, 2 * k + longest, best=k + longest / 8)
        never = None if self._permitted is None else np.flatnonzero(~self._permitted)
        return best_candidates(self._ranker, queries, found, k, histories, never, exclude_seen=self._seen_excluded)

    def _ranked_exactly(self, users: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        ranker, options, points = self._ranker, self.options, self.model.user_points
        histories = [read_history(self.histories, row) for row in users.tolist()]
        if points is not None:
            queries = self.model.points.space.precise(points[users])
        else:
            queries = np.array([ranker.query(*history.for_query) for history in histories])
        seen = [history.items if self._seen_excluded else history.disliked for history in histories]
        excluded = [np.concatenate([self._never, items]) for items in seen]
        return ranker.top_many(queries, self._count, excluded, self._allowed, options.threads, histories)

    def measure_recall(self, customers: int = SAMPLED_QUERIES) -> float:
        """The share of the true first k, by exact ranking, that some customers get with the index."""
        drawn = np.random.default_rng(0).choice(self.customers, min(customers, len(self.customers)), replace=False)
        truth = [best for best, _ in self._ranked_exactly(np.sort(drawn))]
        return mean_recall(self._ranked(np.sort(drawn))[0], truth)


def _known_rows(model: Model, ids: Iterable[Id], name: str) -> NDArray[np.int64]:
    """The rows of the items that the model has."""
    rows = require_rows(model.items, ids, name)
    return np.compress(rows != UNKNOWN, rows)


def _blocks(indices: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [indices[start : start + size] for start in range(0, len(indices), size)]


@dataclass(frozen=True)
class BatchReport:
    users: int
    rows: int
    users_without_events: int
    """Also those who have nothing but dislikes."""
    recall: float | None = None
    """Share of the true first k that customers get with the index, measured on some; None without an index."""
    parts_again: int = 0
    """Parts of an earlier run that were damaged, and computed again."""
    store: StoreReport | None = None
    """Whose histories were used, if the customers are those of a store."""


@dataclass(frozen=True)
class BatchSource:
    """What to recommend from, and to whom."""

    model: Model
    identity: str
    """Differs if the model does."""
    path: Path | None = None
    """The folder of the model, if it has one."""
    store: Store | None = None
    """Its customers get the recommendations; None for those of the model."""
    titles: pl.Series | None = None
    """One per item of the model."""

    def __post_init__(self) -> None:
        if self.store is None and self.model.histories is None:
            raise InputError(WITHOUT_CUSTOMERS)

    def key(self, options: BatchOptions) -> str:
        """A key of everything that the results depend on but the histories in a store."""
        titles = None if self.titles is None else hash_key(self.titles.to_list())
        chosen = asdict(replace(options, threads=None))
        return hash_key(self.identity, chosen, CUSTOMERS_PER_PART, titles, self.store and self.store.url)


def source_of_model(path: Path, store: Store | None = None) -> BatchSource:
    """The model in a folder, with its own customers or those of a store."""
    return BatchSource(load(path), checksum(path / MARKER), path, store)


def recommend_to_all(
    source: BatchSource,
    out: Path,
    options: BatchOptions,
    done: Callable[[float], None] = lambda share: None,
    announce: Callable[[str], None] = lambda line: None,
) -> BatchReport:
    """Write recommendations for all customers to `out`, part by part.

    done: called with the share that is done so far.
    announce: called with a line if kernels are compiled, or something of an unfinished run is used or refused.
    """
    with unfinished_parts(out, source.key(options)) as parts:
        folder, store, model = Path(parts.folder), source.store, source.model
        customers = None if store is None else list_customers(store, model, parts, announce)
        batch = BatchRecommender(model if customers is None else customers.model, options, source.titles)
        description = batch.make_index(folder, announce)
        again = 0
        for number in range(batch.parts):
            if parts.find(number) is None:
                again += parts.write(number, batch.part(number)).again
            done((number + 1) / batch.parts)
        erased = drop_erased(parts, batch.parts, customers, store)
        rows = finish_parts(parts, out, batch.parts)
        return batch.report(rows, description, again, None if customers is None else customers.report, erased)


def drop_erased(parts: PartFiles, count: int, customers: StoreCustomers | None, store: Store | None) -> int:
    """Remove customers who were erased since their histories were read from the results; returns how many."""
    if customers is None or store is None:
        return 0
    return parts.drop_customers(customers.erased_since(store), count)
