"""Baselines: chance, popularity, and methods on the item-item matrix, none of which learns by gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers, make_mask, make_offsets, spans_within, strongest_entries
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.points.memory import build_memory

LARGEST_GRAM = 8 * 2**30
"""Bytes of the matrix that EASE inverts."""
PAIRS_PER_BLOCK = 1_000_000
"""Pairs of items whose similarities are in memory at a time: at most 40 MB, unless an item alone has more."""


class Chance:
    """Gives every item the same score. Ties count at their expected rank, so its metrics are those of a random list."""

    def __init__(self, train: Interactions) -> None:
        self.items = train.items
        self.histories = train
        self.item_counts = train.item_counts

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.zeros((len(user_rows), len(self.items)), np.float32)


class Popularity(Chance):
    """Scores every item by its number of training events: the same list for all, apart from their histories."""

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        # Ranks among the distinct counts, because float32 would round large counts to ties.
        ranks = np.unique(self.item_counts, return_inverse=True)[1].astype(np.float32)
        return np.tile(ranks, (len(user_rows), 1))


class ItemKNN(Chance):
    """Scores an item by the sum of its similarities to the items of the history that have it among their neighbours.

    The similarity of items i and j is the cosine between their customers, n_ij / (sqrt(n_i n_j) + shrinkage), with n_ij
    the customers who have both; shrinkage reduces the similarity of items with few customers. Repeated events count
    once, and weights are ignored. Among equally similar items, those with the lower rows are neighbours.

    for_items: the rows of all items that histories to be scored will have; None: every item. Only the neighbours of
    these are computed. `learn` adds those of other items.
    """

    def __init__(
        self,
        train: Interactions,
        neighbours: int = 100,
        shrinkage: float = 10.0,
        *,
        for_items: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        from scipy import sparse

        if neighbours < 1 or not 0 <= shrinkage < np.inf:
            raise ConfigError(f"neighbours={neighbours}, shrinkage={shrinkage}: give 1 or more, and a number from 0 up")
        super().__init__(train)
        self.neighbours, self.shrinkage = neighbours, shrinkage
        self.learned = np.zeros(len(self.items), bool)
        """The items whose neighbours are computed."""
        self.similarity: Any = sparse.csr_array((len(self.items), len(self.items)), dtype=np.float32)
        """Sparse (items, items): row i has the neighbours of item i."""
        self.learn(np.arange(len(self.items)) if for_items is None else for_items)

    def learn(self, rows: NDArray[np.integer[Any]]) -> None:
        """Compute the neighbours of these items, unless they are known."""
        new = np.flatnonzero(make_mask(rows, len(self.items)) & ~self.learned)
        if len(new):
            found = _nearest(self.histories.incidence(), new, self.neighbours, self.shrinkage)
            self.similarity = found if not self.learned.any() else self.similarity + found
            self.learned[new] = True

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        given = histories.incidence(user_rows)
        if not self.learned[given.indices].all():
            raise InputError("these histories have items whose neighbours are not computed: call learn with them first")
        scores: NDArray[np.float32] = (given @ self.similarity).toarray()
        return scores


class TransitionCounts(Chance):
    """Scores an item by how often it came soon after the last items of the history: an ordered memory alone, in which
    popular items count in full, since there are no points that know how popular they are."""

    def __init__(self, train: Interactions) -> None:
        if not train.ordered:
            raise InputError("transition counts need the order of events, and these have no times: use item-item")
        super().__init__(train)
        self.memory = build_memory(train, len(train.items), ordered=True, found_count=0.0)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The sums that boosts would be made of, which are in the same order, by a product of sparse matrices: a memory
        of all neighbours has thousands for each item of a history."""
        from scipy import sparse

        given = histories.histories_of(user_rows)
        weights = self.memory.item_weights(given.ages, given.weights)
        known = sparse.csr_array((weights, given.items, given.offsets), (len(user_rows), len(self.items)))
        scores: NDArray[np.float32] = (known @ self.memory.to_csr()).toarray().astype(np.float32)
        return scores


class ItemItem(TransitionCounts):
    """Scores an item by the customers it shares with the items of the history, with the degrees of items and customers
    normalised: an unordered memory alone."""

    def __init__(self, train: Interactions) -> None:
        Chance.__init__(self, train)
        self.memory = build_memory(train, len(train.items), ordered=False)


class EASE(Chance):
    """A linear item-item model in closed form, B = I - P diag(1 / P) with P = (R'R + regularisation I)^-1, without its
    diagonal (Steck, 2019)."""

    def __init__(self, train: Interactions, regularisation: float = 500.0) -> None:
        count = len(train.items)
        if 8 * count**2 > LARGEST_GRAM:
            raise InputError(
                f"EASE inverts a matrix of {count:,} x {count:,} items, {8 * count**2 / 2**30:.0f} GiB, above the "
                f"limit of {LARGEST_GRAM / 2**30:.0f}: leave it out"
            )
        super().__init__(train)
        incidence = train.incidence()
        gram = (incidence.T @ incidence).toarray().astype(np.float64)
        gram[np.diag_indices(count)] += regularisation
        inverse = np.linalg.inv(gram)
        self.weights = (-inverse / np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(self.weights, 0)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = np.asarray(histories.incidence(user_rows) @ self.weights, np.float32)
        return scores


class GFCF(Chance):
    """A graph filter (Shen et al., 2021): with R~ = D_u^-1/2 R D_i^-1/2 and V its first right singular vectors, the
    scores of a history r are r R~'R~ + share * r D_i^-1/2 V V' D_i^1/2."""

    def __init__(self, train: Interactions, vectors: int = 256, share: float = 0.3) -> None:
        from scipy import sparse

        super().__init__(train)
        incidence = train.incidence()
        users, items = (np.sqrt(np.maximum(incidence.sum(axis=axis), 1)) for axis in (1, 0))
        self.matrix = (sparse.diags_array(1 / users) @ incidence @ sparse.diags_array(1 / items)).tocsr()
        count = min(vectors, *(size - 1 for size in incidence.shape))
        start = np.random.default_rng(0).standard_normal(min(incidence.shape))
        self.vectors = sparse.linalg.svds(self.matrix, count, v0=start)[2].T
        self.roots, self.share = items, share

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        history = histories.incidence(user_rows)
        near = ((history @ self.matrix.T) @ self.matrix).toarray()
        smooth = ((history / self.roots) @ self.vectors) @ self.vectors.T * self.roots
        scores: NDArray[np.float32] = (near + self.share * smooth).astype(np.float32)
        return scores


def _nearest(incidence: Any, chosen: Integers, neighbours: int, shrinkage: float) -> Any:
    """Sparse (items, items): the `neighbours` highest similarities of the chosen rows, which rise; computed in blocks
    of rows. The other rows are empty."""
    from scipy import sparse

    by_item = incidence.T.tocsr()
    norms = np.sqrt(np.diff(by_item.indptr)).astype(np.float32)
    sizes = np.diff(incidence.indptr)
    pairs = np.bincount(incidence.indices, np.repeat(sizes, sizes), len(norms))
    found = []
    for start, end in spans_within(pairs[chosen], PAIRS_PER_BLOCK):
        block = chosen[start:end]
        similar = by_item[block] @ incidence
        rows = np.repeat(block, np.diff(similar.indptr))
        similar.data /= norms[rows] * norms[similar.indices] + np.float32(shrinkage)
        similar.data[similar.indices == rows] = 0
        found.append(strongest_entries(similar, neighbours))
    together = sparse.vstack(found, "csr")
    counts = np.zeros(len(norms), np.int64)
    counts[chosen] = np.diff(together.indptr)
    return sparse.csr_array((together.data, together.indices, make_offsets(counts)), (len(norms), len(norms)))
