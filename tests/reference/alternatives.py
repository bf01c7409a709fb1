"""Alternatives by a sort of all items: see `lorentzrec.points.alternatives`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def find_parents(categories: Sequence[str | None], parents: Sequence[str | None] | None) -> dict[str, str | None]:
    """The parent of each category: what most of its items have, or the path before the last >."""
    found: dict[str, str | None] = {}
    for category in sorted({one for one in categories if one is not None}):
        if parents is None:
            found[category] = " > ".join(category.split(" > ")[:-1]) or None
            continue
        pairs = zip(categories, parents, strict=True)
        counts = Counter(parent for own, parent in pairs if own == category and parent is not None)
        found[category] = min(counts, key=lambda parent: (-counts[parent], parent)) if counts else None
    return found


def list_alternatives(
    item: int,
    similarity: Sequence[float],
    cosines: Sequence[float],
    counts: Sequence[int],
    categories: Sequence[str | None],
    parents: Sequence[str | None] | None,
    eligible: Sequence[bool],
    k: int,
) -> tuple[list[tuple[int, float]], bool]:
    """Rows and scores, best first, and whether the parent category was needed."""
    own = categories[item]
    if own is None:
        return [], False
    above = find_parents(categories, parents)

    def is_below_parent(category: str | None) -> bool:
        parent = above[own]
        if category is None or parent is None:
            return False
        if parents is not None:
            return above[category] == parent
        return category == parent or category.startswith(f"{parent} > ")

    others = [row for row in range(len(counts)) if eligible[row] and row != item]
    scores = {row: similarity[row] + 0.1 * cosines[row] + 0.08 * math.log(1 + counts[row]) for row in others}
    near = sorted((row for row in others if categories[row] == own), key=lambda row: (-scores[row], row))
    far = sorted(
        (row for row in others if categories[row] != own and is_below_parent(categories[row])),
        key=lambda row: (-scores[row], row),
    )
    ranked = [(row, scores[row]) for row in near]
    if len(near) < k:
        ranked += [(row, scores[row] - 3) for row in far]
    return ranked[:k], len(near) < k and bool(far)
