"""Approximate search for large catalogues: items sorted into lists of neighbours when a version is published.

A search scans only the lists whose centres are nearest to the query. Nearest must mean best:
items are ranked by an inner product q . v, on the hyperboloid with q = (-u0, u1, ...). So each item gets one more
coordinate, sqrt(M^2 - |v|^2) with M the greatest length, and the query a zero: all items then have length M, and

    |q - v|^2 = |q|^2 + M^2 - 2 q . v

falls as the score rises. A Euclidean model that ranks by distance needs no such help: there the linear score is
q . v - |v|^2 / 2, the product with a point that has one more coordinate, |v|^2 / 2, for which the query has -1.

The lists hold codes instead of points: the difference between a point and the centre of its list, in 8 bits per
coordinate. The unit of a code is that of its coordinate, the typical difference, times that of its list, the largest
one. Items with the best codes are candidates, which are scored again precisely, so results differ from exact ranking
only by items that the index misses. How many those are is measured on other queries than those that chose how many
lists to scan, and a version that misses more than `LEAST_RECALL` allows is not published.

`narrow` gives the lists of the live items, which takes milliseconds for a million items. Fewer items are spread over
more lists for the same result, so the number of lists to scan is chosen again for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.array_files import Arrays, write_arrays
from lorentzrec.base.manifest import FolderKind
from lorentzrec.data.arrays import Booleans, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import LorentzrecError
from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.points.native import Bitmap, Lists, Question
from lorentzrec.points.points import Points, read_history
from lorentzrec.points.scoring import NO_ROWS, Scorer
from lorentzrec.points.space import Space

INDEX = "index.safetensors"
INDEXED_ITEMS = 20_000
"""From this many items on, an index pays."""
K, LEAST_RECALL = 10, 0.99
"""A version whose index finds less of the true first `K` than this is not published."""
WANTED_RECALL = 0.999
"""The target, so that most lists are those of exact ranking."""
LISTS, POINTS_A_LIST, ROUNDS = 2.0, 60, 8
"""The number of lists, in square roots of the number of items; the items per list that their centres are learned from,
and how often. More lists are faster to search and slower to build; see docs/lab/serving-index.md."""
CANDIDATES_PER_ITEM = 3
"""Items that are scored precisely, for each one that is recommended: codes of 8 bits swap near neighbours."""
MOST_CANDIDATES = 500
"""Beyond this, ranking is exact: more items are spread over too many lists for the index to be faster."""
SAMPLED_QUERIES = 300
"""The number of queries that choose how many lists to scan, and of those that measure the recall."""
SPREAD = 0.5
"""The best n items are in about n to this power as many lists; measured on trained points."""
BLOCK = 8_192
"""Points that are compared with all centres at a time."""
LANES, CODE_LANES = 8, 16
"""Coordinates that the compiled ranking multiplies at a time; arrays are padded with zeros to multiples of them."""


class IndexKind(StrEnum):
    """What the lists are made of; the values are in manifests."""

    POINTS = "8-bit lists, L2"
    AUGMENTED = "8-bit lists, L2 on augmented points"


@dataclass(eq=False)
class Index:
    """Lists of all items of a version, or of the live ones. How many are scanned may change while it is in use."""

    lists: Lists
    probes: int
    """The number of lists that a search for `K` items scans."""
    kind: IndexKind
    queries: FloatArray
    """Points of customers: the first half chooses the number of lists to scan, the second half measures the recall."""
    recall: float | None = None
    """What is found of the true first `K` items; None if it was not measured for these items."""

    @property
    def count(self) -> int:
        """The number of items in the lists."""
        return len(self.lists.rows)

    def lists_for(self, k: float, share: float = 1.0) -> int:
        """The number of lists to scan for `k` items, if this share of the items may be found."""
        # If one item in ten is permitted, the best ten are spread over as many lists as the best hundred of all.
        return int(min(np.ceil(self.probes * max(1.0, k / share / K) ** SPREAD), len(self.lists)))

    def nearest_lists(self, scorer: Scorer, queries: FloatArray, count: int) -> NDArray[np.int64]:
        """(queries, count): the lists that a search scans, in no order."""
        count, lists = min(count, len(self.lists)), self.lists
        scores = linear_queries(scorer.space, queries, lists.centres.shape[1]) @ lists.centres.T
        if lists.greatest_offsets is not None:
            squares = euclidean.squared_norm(queries)[:, None]
            raised = scorer.to_scores(scores, squares) + lists.greatest_offsets
            scores = scorer.to_linear(np.minimum(raised, 0) if scorer.space.by_distance else raised, squares)
        found: NDArray[np.int64] = np.argpartition(lists.biases - scores, count - 1, axis=1)[:, :count]
        return found

    def narrow(self, permitted: Booleans, before: Index | None = None) -> Index:
        """The index of some of the items, with as many lists to scan as they need by experience: see `tune`.

        before: another one, which was tuned: if it has about as many items, as many lists are scanned.
        """
        lists = self.lists
        kept = permitted[lists.rows]
        kept_so_far = np.concatenate([[0], np.cumsum(kept)])
        offsets: NDArray[np.int64] = kept_so_far[lists.offsets].astype(np.int64)
        some = Lists(
            lists.centres,
            lists.biases,
            lists.units,
            lists.scales,
            offsets,
            lists.rows[kept],
            np.ascontiguousarray(lists.codes[kept]),
        )
        if before is not None and before.recall is not None and abs(before.count - len(some.rows)) < before.count / 8:
            return replace(self, lists=some, probes=before.probes, recall=before.recall)
        share = max(1, len(some.rows)) / max(1, len(kept))
        return replace(self, lists=some, probes=self.lists_for(K, share), recall=None)

    def raise_by(self, item_offsets: NDArray[np.float32] | None) -> Index:
        """Search by scores with offsets of items (see `Catalogue`); returns the index itself."""
        if item_offsets is not self.lists.item_offsets:
            self.lists = Lists(**{name: getattr(self.lists, name) for name in ARRAYS}, item_offsets=item_offsets)
        return self

    def tune(
        self,
        scorer: Scorer,
        eligible: Bitmap | None = None,
        wanted: float = WANTED_RECALL,
        limit: int = 2 * SAMPLED_QUERIES,
        threads: int | None = None,
    ) -> Index:
        """Find the least number of lists to scan that reaches the `wanted` recall, in steps of an eighth, and the
        recall that other queries have; returns the index itself.

        eligible: the items in the lists. limit: the largest number of queries, of which half are those others.
        """
        lists = self.raise_by(scorer.item_offsets).lists  # which another thread may replace meanwhile
        asked, queries = Question(K, eligible=eligible), self.queries[:limit]
        truth = [answer.rows for answer in scorer.rank_many(queries, lambda _: asked, threads)]
        half = (len(truth) + 1) // 2

        def measure(probes: int, first: int, last: int) -> float:
            found = []
            for query in queries[first:last]:
                search = asked._replace(query=query, lists=lists, probes=probes, wanted=CANDIDATES_PER_ITEM * K)
                answer = scorer.rank(search)
                found.append(NO_ROWS if answer is None else answer.rows)
            return mean_recall(found, truth[first:last])

        too_few, enough = 0, len(lists)
        probes = min(self.probes, enough)
        while enough - too_few > max(1, enough // 8):
            if measure(probes, 0, half) >= wanted:
                enough = probes
            else:
                too_few = probes
            probes = (too_few + enough) // 2 if too_few == 0 else min(2 * too_few, (too_few + enough) // 2)
        self.recall = measure(enough, half, len(truth))
        self.probes = enough
        return self


def build_index(points: Points, queries: FloatArray, seed: int = 0) -> Index:
    """The lists of all items. `tune` finds how many of them to scan."""
    kind = find_kind(points.space)
    vectors = points.item_points
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    extra = np.sqrt(squares.max(initial=0) - squares) if kind is IndexKind.AUGMENTED else np.zeros(len(vectors))
    augmented = np.column_stack([vectors, extra.astype(np.float32)])
    centres, owners = cluster(augmented, round(LISTS * len(vectors) ** 0.5), np.random.default_rng(seed))
    half = np.einsum("ij,ij->i", centres, centres, dtype=np.float64) / 2
    width = points.item_points.shape[1]
    if kind is IndexKind.AUGMENTED:
        linear, bases, biases = vectors, centres[:, :width], half
    else:  # the linear score of a centre is the product with a query that has -1 for half its square
        linear = np.column_stack([vectors, squares / 2]).astype(np.float32)
        bases, biases = np.column_stack([centres[:, :width], half]), np.zeros(len(centres))
    order = np.argsort(owners, kind="stable")
    offsets = make_offsets(np.bincount(owners, minlength=len(centres)))
    units, scales, codes = encode(linear, bases.astype(np.float32), owners, order, offsets)
    lists = Lists(
        _pad(bases.astype(np.float32), LANES),
        biases.astype(np.float32),
        units,
        scales,
        offsets,
        order.astype(np.int32),
        codes,
    )
    return Index(lists, max(1, len(lists) // 32), kind, queries)


def cluster(
    vectors: NDArray[np.float32], count: int, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Centres of `count` lists (k-means on a sample), and the list of each vector."""
    count = min(count, len(vectors))
    sample = vectors[np.sort(random.choice(len(vectors), min(len(vectors), count * POINTS_A_LIST), replace=False))]
    centres = sample[random.choice(len(sample), count, replace=False)]
    for _ in range(ROUNDS):
        owners = nearest(sample, centres)
        order, sizes = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=count)
        filled = np.flatnonzero(sizes)
        sums = np.add.reduceat(sample[order], make_offsets(sizes)[filled], axis=0, dtype=np.float64)
        centres = sample[random.choice(len(sample), count)]  # for lists without any item
        centres[filled] = sums / sizes[filled, None]
    return centres, nearest(vectors, centres)


def nearest(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """The nearest centre of each vector."""
    half = np.einsum("ij,ij->i", centres, centres) / 2
    found = np.empty(len(vectors), np.int64)
    for start in range(0, len(vectors), BLOCK):
        scores = vectors[start : start + BLOCK] @ centres.T
        scores -= half
        found[start : start + BLOCK] = scores.argmax(axis=1)
    return found


def encode(
    vectors: NDArray[np.float32],
    bases: NDArray[np.float32],
    owners: NDArray[np.int64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int8]]:
    """The units of coordinates, the scales of lists, and the codes in the `order` of the lists.

    A vector is about base + unit * scale * code.
    """
    total = np.zeros(vectors.shape[1])
    for start in range(0, len(vectors), BLOCK):
        part = slice(start, start + BLOCK)
        total += np.square(vectors[part] - bases[owners[part]], dtype=np.float64).sum(axis=0)
    units = np.sqrt(total / max(1, len(vectors)))
    units[units == 0] = 1
    codes = np.zeros((len(vectors), _padded(vectors.shape[1], CODE_LANES)), np.int8)
    scales = np.zeros(len(bases))
    for number, (start, end) in enumerate(pairwise(offsets.tolist())):
        if start < end:
            parts = (vectors[order[start:end]] - bases[number]) / units
            scales[number] = np.abs(parts).max() / 127 or 1.0
            codes[start:end, : parts.shape[1]] = np.rint(parts / scales[number])
    return _pad(units[None].astype(np.float32), CODE_LANES)[0], scales.astype(np.float32), codes


def linear_queries(space: Space, queries: FloatArray, width: int) -> NDArray[np.float32]:
    """Queries whose products with centres are linear scores, with zeros up to `width`."""
    linear = np.zeros((len(queries), width), np.float32)
    linear[:, : queries.shape[1]] = queries
    if space.hyperbolic:
        linear[:, 0] *= -1
    elif space.by_distance:
        linear[:, queries.shape[1]] = -1
    return linear


def write_index(path: Path, index: Index) -> dict[str, Any]:
    """Write an index to a file; returns its description for the manifest."""
    lists = index.lists
    arrays: Arrays = {name: getattr(lists, name) for name in ARRAYS}
    write_arrays(path, arrays | {"queries": index.queries})
    measured = {"recall": index.recall, "k": K, "questions": len(index.queries) - len(index.queries) // 2}
    return {"kind": index.kind, **measured, "lists": len(lists), "probes": index.probes}


ARRAYS = {
    "centres": np.float32,
    "biases": np.float32,
    "units": np.float32,
    "scales": np.float32,
    "offsets": np.int64,
    "rows": np.int32,
    "codes": np.int8,
}
"""The arrays of an index in its file, besides its queries."""


def read_index(path: Path, arrays: Arrays, description: Mapping[str, Any], points: Points, kind: FolderKind) -> Index:
    """The index of these points that `write_index` wrote; `arrays`: what the file has."""
    count, width = points.item_points.shape
    index_kind = IndexKind(description["kind"])
    if index_kind is not find_kind(points.space):
        raise kind.damaged(path, "it is not an index of such points")
    if missing := [*{*ARRAYS, "queries"} - arrays.keys()]:
        raise kind.damaged(path, f"it has no {min(missing)}")
    number = len(arrays["biases"])
    wide = _padded(width + (index_kind is IndexKind.POINTS), LANES)
    coded = _padded(width + (index_kind is IndexKind.POINTS), CODE_LANES)
    shapes = {
        "centres": (number, wide),
        "biases": (number,),
        "units": (coded,),
        "scales": (number,),
        "offsets": (number + 1,),
        "rows": (count,),
        "codes": (count, coded),
    }
    for name, dtype in ARRAYS.items():
        found = arrays[name]
        if (found.dtype, found.shape) != (np.dtype(dtype), shapes[name]):
            raise kind.damaged(path, f"{name} is {found.dtype} {found.shape}, not {np.dtype(dtype)} {shapes[name]}")
    offsets, rows, queries = arrays["offsets"], arrays["rows"], arrays["queries"]
    if (offsets[0], offsets[-1]) != (0, count) or (np.diff(offsets) < 0).any():
        raise kind.damaged(path, "its lists do not hold all items")
    seen = np.zeros(count, bool)
    if rows.min(initial=0) < 0 or rows.max(initial=0) >= max(1, count):
        raise kind.damaged(path, "it has rows of other items")
    seen[rows] = True
    if not seen.all():
        raise kind.damaged(path, "its lists do not hold all items")
    if queries.ndim != 2 or (queries.dtype, queries.shape[1]) != (np.dtype(np.float64), width):
        raise kind.damaged(path, "its queries are not points")
    for name in ("centres", "biases", "units", "scales", "queries"):
        if not np.isfinite(arrays[name]).all():
            raise kind.damaged(path, f"{name} has values that are not finite")
    if not min(1, number) <= description["probes"] <= number:
        raise kind.damaged(path, f"{description['probes']} of its {number} lists are to be scanned")
    lists = Lists(*(np.ascontiguousarray(arrays[name]) for name in ARRAYS))
    return Index(lists, description["probes"], index_kind, queries, description["recall"])


def check_recall(index: Index) -> None:
    """An error if the index misses too much."""
    if index.recall is None or index.recall < LEAST_RECALL:
        raise LorentzrecError(
            f"the index finds {index.recall or 0:.3f} of the true first {K}, below the minimum of {LEAST_RECALL}: "
            "publish with --no-index to rank exactly"
        )


def mean_recall(found: Iterable[NDArray[np.int64]], truth: Iterable[NDArray[np.int64]]) -> float:
    """The share of the true items of a query that were found, on average over the queries."""
    shares = [len(np.intersect1d(rows, best)) / max(1, len(best)) for rows, best in zip(found, truth, strict=True)]
    return float(np.mean(shares)) if shares else 1.0


def sample_queries(points: Points, histories: Interactions | None, seed: int = 0) -> FloatArray:
    """Query points of customers drawn from `histories`; without any, of neighbourhoods: five of the twenty items
    nearest to a random item."""
    random = np.random.default_rng(seed)
    if histories is not None and len(histories):
        # Customers who only dislike items have no query point.
        liked = histories.user_rows if histories.weights is None else histories.user_rows[histories.weights > 0]
        customers = np.flatnonzero(np.bincount(liked))
        drawn = random.choice(customers, min(2 * SAMPLED_QUERIES, len(customers)), replace=False)
        return np.stack([points.query(*read_history(histories, row).for_query) for row in drawn])
    centres = random.integers(0, len(points), min(2 * SAMPLED_QUERIES, len(points)))
    around = points.scorer.rank_many(points.precise_items(centres), lambda _: Question(20))
    return np.stack([points.query(random.choice(one.rows, min(5, len(one.rows)), replace=False)) for one in around])


def find_kind(space: Space) -> IndexKind:
    """The kind of index that finds the best items in a space."""
    return IndexKind.AUGMENTED if space.hyperbolic or not space.by_distance else IndexKind.POINTS


def _padded(width: int, lanes: int) -> int:
    return -(-width // lanes) * lanes


def _pad(array: NDArray[np.float32], lanes: int) -> NDArray[np.float32]:
    """With zeros up to a multiple of `lanes` columns."""
    return np.ascontiguousarray(np.pad(array, ((0, 0), (0, _padded(array.shape[1], lanes) - array.shape[1]))))
