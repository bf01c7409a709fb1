"""Doubts about a change of the live items: what would empty most shelves is probably a mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lorentzrec.serving.stores.catalogue import LiveItems

MANY = 100
"""Up to this many items are removed without doubt: what is left of a small shop may sell out in one request."""


class KnownItems(NamedTuple):
    """What ids are compared with: the items of a version, and the new items."""

    version: str
    size: int
    count_known: Callable[[Sequence[str]], int]
    """How many of some ids it contains."""


def doubt_list(items: Sequence[str], before: LiveItems, catalogue: KnownItems | None) -> str | None:
    """Why a list of live items is probably a mistake; None if it seems right.

    It is compared with the list that it replaces. A first list may be of any length, since it is normal that most items
    of a version are no longer sold.

    catalogue: None if there is no version yet.
    """
    ids = sorted(set(items))
    if not ids:
        return "the list is empty, so nothing could be recommended"
    if catalogue is not None:
        unknown = len(ids) - catalogue.count_known(ids)
        if 2 * unknown > len(ids):
            return f"{unknown:,} of the {len(ids):,} ids in the list are not in version {catalogue.version}"
    if before.items is not None and 2 * len(ids) < len(before.items):
        return (
            f"the list has {len(ids):,} ids, fewer than half of the {len(before.items):,} in the list that it replaces"
        )
    return None


def doubt_change(
    add: Sequence[str], remove: Sequence[str], before: LiveItems, catalogue: KnownItems | None
) -> str | None:
    """Why a change of single items is probably a mistake: it removes many, and more than half; None if it seems right.

    catalogue: None if there is no version yet.
    """
    added, removed = set(add), set(remove) - set(add)
    if before.items is not None:
        live = set(before.items)
        count, gone, returned = len(live), len(live & removed), len(added - live)
    elif catalogue is not None:
        out = set(before.removed)
        count = catalogue.size - catalogue.count_known(sorted(out))
        gone, returned = catalogue.count_known(sorted(removed - out)), catalogue.count_known(sorted(added & out))
    else:
        return None
    left = count - gone + returned
    return f"of {count:,} live items, {left:,} would be left" if gone > MANY and 2 * left < count else None
