"""Exploration: a share of the places of a list goes to new items, so that customers see them at all."""

from __future__ import annotations

import numpy as np

from lorentzrec.serving.recommending.live_ranker import Ranked


def explore(ranked: Ranked, new: Ranked, k: int, share: float, random: np.random.Generator) -> Ranked:
    """`ranked` with new items in `share` of `k` places; those that are there by their score count.

    A fraction of a place is one with that probability. Items that are not in the list are drawn without replacement,
    the r-th best of them with a probability proportional to 1 / r. They are spread evenly over the list, and the last
    items that are not new make room for them.

    new: all new items that may be recommended, best first.
    """
    rows, scores = ranked
    candidates = np.flatnonzero(~np.isin(new[0], rows))
    there = np.isin(rows, new[0])
    missing = min(int(share * k + random.random()) - int(there.sum()), len(candidates))
    if missing <= 0:
        return ranked
    weights = 1 / np.arange(1, len(candidates) + 1)
    drawn = candidates[np.sort(random.choice(len(candidates), missing, replace=False, p=weights / weights.sum()))]
    surplus = max(0, len(rows) + missing - k)
    kept = np.delete(np.arange(len(rows)), np.flatnonzero(~there)[::-1][:surplus])
    total = len(kept) + missing
    places = ((np.arange(missing) + 0.5) * total / missing).astype(np.int64)
    others = np.delete(np.arange(total), places)
    mixed_rows, mixed_scores = np.empty(total, np.int64), np.empty(total, np.float32)
    mixed_rows[places], mixed_scores[places] = new[0][drawn], new[1][drawn]
    mixed_rows[others], mixed_scores[others] = rows[kept], scores[kept]
    return mixed_rows, mixed_scores
