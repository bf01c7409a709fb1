"""Approximate search for large catalogues: items sorted into lists of neighbours when a version is published.

A search scans only the lists whose centres are nearest to the query. Nearest must mean best:
items are ranked by an inner product q . v, on the hyperboloid with q = (-u0, u1, ...). So each item gets one more
coordinate, sqrt(M^2 - |v|^2) with M the greatest length, and the query a zero: all items then have length M, and

    |q - v|^2 = |q|^2 + M^2 - 2 q . v

falls as the score rises. A Euclidean model that ranks by distance needs no such help. Candidates are scored again
exactly, so results differ from exact ranking only by items that the index misses; how many those are is measured before
anything is published.

The lists are those of faiss (the extra `ann`): a large file is mapped into memory, so that a worker opens it in
milliseconds and workers share it, and a search takes a bitmap of the items that may be found. Measurements, and why
this is not a graph of neighbours, are in docs/serving-index.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.base.threads import SINGLE_THREADED_BLAS, available_cores
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ArtifactError, LorentzrecError
from lorentzrec.geometry import FloatArray
from lorentzrec.points.points import Points, read_history
from lorentzrec.points.scoring import Scorer
from lorentzrec.points.space import Space

INDEX = "index.faiss"
INDEXED_ITEMS = 400_000
"""From this many items on exact ranking takes more than about 10 ms, and an index pays."""
K, LEAST_RECALL = 10, 0.99
"""A version whose index finds less of the true first `K` than this is not published."""
WANTED_RECALL = 0.995
"""The target, so that other histories still have `LEAST_RECALL`."""
SHARES = (0.004, 0.006, 0.008, 0.012, 0.016, 0.024, 0.05, 0.1, 0.2)
"""Shares of the lists that a search may scan: the smallest that is good enough is recorded."""
LISTS, POINTS_A_LIST = 2.0, 60
"""The number of lists, in square roots of the number of items, and the items per list that they are trained on. More
lists are faster to search and slower to build; see docs/serving-index.md."""
MOST_CANDIDATES = 500
"""Beyond this, ranking is exact: more items are spread over too many lists for the index to be faster."""
MOST_BOOSTED = 2000
"""Items that the memory adds to the candidates of the index: those with the largest boosts."""
FEW_EXCLUDED = 100
"""Up to this many excluded items are dropped from the candidates: a bitmap of all others takes longer to make."""
SAMPLED_QUERIES = 300
"""The number of queries that the recall is measured with."""
SPREAD = 0.5
"""The best n items are in about n to this power as many lists; measured on trained points."""
EXTRA = how_to_install("ann")


class IndexKind(StrEnum):
    """What the vectors of the index are; the values are in manifests."""

    POINTS = "faiss lists, L2"
    AUGMENTED = "faiss lists, L2 on augmented points"


@dataclass(frozen=True, eq=False)
class Index:
    """An opened index over all items of a version."""

    lists: Any
    probes: int
    """The number of lists that a search for `K` items scans."""
    kind: IndexKind
    hyperbolic: bool

    def search(
        self, queries: FloatArray, count: int, best: float, permitted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """(queries, count): items near each query, in no order, -1 where there are fewer; all or only `permitted` ones.

        best: as many lists are scanned as hold about this many of the best items.
        """
        import faiss

        parameters: dict[str, Any] = {"nprobe": self._lists_for(best)}
        if permitted is not None:
            parameters["sel"] = faiss.IDSelectorBitmap(np.packbits(permitted, bitorder="little"))
        found: NDArray[np.int64]
        vectors = self._vectors(queries)
        found = self.lists.search(vectors, count, params=faiss.SearchParametersIVF(**parameters))[1]
        return np.where(found < self.lists.ntotal, found, -1)

    def nearest_lists(self, queries: FloatArray, best: float) -> NDArray[np.int64]:
        """(queries, lists): the lists that `search` scans."""
        found: NDArray[np.int64] = self.lists.quantizer.search(self._vectors(queries), self._lists_for(best))[1]
        return found

    def _lists_for(self, best: float) -> int:
        return int(min(round(self.probes * max(1.0, best / K) ** SPREAD), self.lists.nlist))

    def _vectors(self, queries: FloatArray) -> NDArray[np.float32]:
        """Queries in the space of the lists."""
        vectors = queries.astype(np.float32)
        if self.kind is IndexKind.AUGMENTED:
            if self.hyperbolic:
                vectors[:, 0] *= -1
            vectors = np.column_stack([vectors, np.zeros(len(vectors), np.float32)])
        return vectors

    def candidates(
        self, query: FloatArray, count: int, permitted: NDArray[np.bool_] | None = None, spare: int = 0
    ) -> NDArray[np.int64]:
        """About the best `count` items and as many more, in rising order of row; only `permitted` ones if given.

        spare: the number of further candidates, for a caller who drops some of them.
        """
        # If one item in ten is permitted, the best ten are spread over as many lists as the best hundred of all.
        share = 1.0 if permitted is None else max(int(np.count_nonzero(permitted)), 1) / len(permitted)
        found = self.search(query[None], 2 * count + spare, count / share, permitted)[0]
        return np.unique(found[found >= 0])


def is_installed() -> bool:
    """Whether the extra `ann` is installed."""
    return find_spec("faiss") is not None


def build_index(
    points: Points,
    queries: FloatArray,
    path: Path,
    *,
    wanted: float = WANTED_RECALL,
    shares: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Write an index of all items to `path`; returns its description for the manifest.

    The share of lists to scan is raised until the recall for `queries` reaches the `wanted` one.
    shares: those that are tried, in rising order; by default `SHARES`.
    """
    import faiss

    kind, scorer = find_kind(points.space), points.scorer
    vectors = augment(points.item_points) if kind is IndexKind.AUGMENTED else points.item_points
    count = round(LISTS * len(vectors) ** 0.5)
    lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(vectors.shape[1]), vectors.shape[1], count)
    lists.cp.niter, lists.cp.min_points_per_centroid, lists.cp.max_points_per_centroid = 10, 1, POINTS_A_LIST
    faiss.omp_set_num_threads(available_cores())
    with SINGLE_THREADED_BLAS:
        lists.train(vectors)
        lists.add(vectors)
    truth = [rows for rows, _ in scorer.top_many(queries, K, [None] * len(queries))]
    recall = 0.0
    shares = shares or SHARES
    for share in shares:
        index = Index(lists, max(1, round(share * count)), kind, points.space.hyperbolic)
        recall = measure_recall(index, scorer, queries, truth)
        if recall >= (LEAST_RECALL if share == shares[-1] else wanted):
            faiss.write_index(lists, str(path))
            measured = {"recall": recall, "k": K, "questions": len(queries)}
            return {"kind": kind, **measured, "lists": count, "probes": index.probes}
    raise LorentzrecError(
        f"the index finds {recall:.3f} of the true first {K}, below the minimum of {LEAST_RECALL}: "
        "publish with --no-index to rank exactly"
    )


def open_index(path: Path, description: dict[str, Any], points: Points, *, mapped: bool = True) -> Index:
    """The index of these points that `build_index` wrote, mapped into memory or read."""
    import faiss

    try:
        lists = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
    except (RuntimeError, IndexError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ArtifactError(f"{path} cannot be read by faiss ({reason}): publish the model again") from error
    if lists.ntotal != len(points):
        raise ArtifactError(f"{path} holds {lists.ntotal} items instead of {len(points)}: publish the model again")
    return Index(lists, description["probes"], IndexKind(description["kind"]), points.space.hyperbolic)


def measure_recall(index: Index, scorer: Scorer, queries: FloatArray, truth: list[NDArray[np.int64]]) -> float:
    """The recall of what is found with the index; `truth`: the true first items of each query."""
    found = [
        scorer.best(query, len(expected), index.candidates(query, len(expected)))[0]
        for query, expected in zip(queries, truth, strict=True)
    ]
    return mean_recall(found, truth)


def mean_recall(found: Iterable[NDArray[np.int64]], truth: Iterable[NDArray[np.int64]]) -> float:
    """The share of the true items of a query that were found, on average over the queries."""
    shares = [len(np.intersect1d(rows, best)) / max(1, len(best)) for rows, best in zip(found, truth, strict=True)]
    return float(np.mean(shares))


def sample_queries(points: Points, histories: Interactions | None, seed: int = 0) -> FloatArray:
    """Query points of customers drawn from `histories`; without any, of neighbourhoods: five of the twenty items
    nearest to a random item."""
    random = np.random.default_rng(seed)
    if histories is not None and len(histories):
        customers = np.flatnonzero(histories.lengths)
        drawn = random.choice(customers, min(SAMPLED_QUERIES, len(customers)), replace=False)
        return np.stack([points.query(*read_history(histories, row).for_query) for row in drawn])
    centres = random.integers(0, len(points), min(SAMPLED_QUERIES, len(points)))
    around = points.scorer.top_many(points.precise_items(centres), 20, [None] * len(centres))
    return np.stack([points.query(random.choice(rows, min(5, len(rows)), replace=False)) for rows, _ in around])


def find_kind(space: Space) -> IndexKind:
    """The kind of index that finds the best items in a space."""
    return IndexKind.AUGMENTED if space.hyperbolic or not space.by_distance else IndexKind.POINTS


def augment(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points with the coordinate sqrt(M^2 - |v|^2), which gives all of them the length M of the longest."""
    squared = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    return np.column_stack([points, np.sqrt(squared.max(initial=0) - squared).astype(np.float32)])
