"""The catalogue of a store: which items may be recommended, and new items that no version contains yet."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import USUAL_HISTORY, StoredEvent
from lorentzrec.serving.stores.ids import check_ids
from lorentzrec.serving.stores.new_items import Change, NewItem, Origin

REMOVED_AT_ONCE = 2_500
"""New items that are removed in one step."""
SPARE_LIVE_IDS = 100_000
"""How many more ids a list of live or removed items may have in a service than its version has items: ids that no
version contains yet, or contains any more."""


@dataclass(frozen=True)
class LiveItems:
    """The items that may be recommended: only `items`, or, if that is None, all except `removed`. Sorted by id."""

    items: list[str] | None = None
    removed: list[str] = field(default_factory=list)
    """Empty if there is a list of live items."""


class LiveCounts(NamedTuple):
    """The sizes of the two lists in `LiveItems`."""

    live: int | None
    removed: int = 0

    def check_growth(self, before: int, limit: int) -> None:
        """Refuse a list that has grown beyond its limit. `before`: its size."""
        kind, size = ("removed", self.removed) if self.live is None else ("live", self.live)
        if size > max(before, limit):
            raise StoreFault.LONG_LIVE_LIST.error(kind=kind, size=f"{size:,}", limit=f"{limit:,}")


class Catalogue(Protocol):
    """The catalogue of a store; `tests/serving/stores/test_catalogue_contract.py` checks every store against this."""

    def live_items(self) -> LiveItems:
        """The items that may be recommended."""

    def set_live_items(self, items: Sequence[str] | None) -> LiveCounts:
        """Replace the live items; None: every item is live again, also those that were removed."""
        check_ids("item", items or ())
        unique = None if items is None else sorted(set(items))
        self._set_live_items(unique)
        return LiveCounts(None if unique is None else len(unique))

    def change_live_items(
        self, add: Sequence[str] = (), remove: Sequence[str] = (), *, limit: int = sys.maxsize
    ) -> LiveCounts:
        """Make single items live, and others not; an item in both lists is live. The revision grows only with a change.

        This changes the list of live items or, if there is none, the list of removed items.

        limit: a change that makes the list longer than this is refused.
        """
        check_ids("item", [*add, *remove])
        return self._change_live_items(sorted(set(add)), sorted(set(remove) - set(add)), limit)

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> list[NewItem]:
        """The new items that changed after the revision `since`, by id; all if it is 0. See `State.find_since`.

        limit: read only the first ones of each origin, in the order of their ids.
        """

    def describe_item(self, item: NewItem, *, limit: int) -> bool:
        """Add a new item by PUT, or replace its details; its customers stay.

        False if there would be more new items by PUT than `limit`.
        """
        check_ids("item", [item.id, *item.like])
        item.check_size()
        described = replace(item, origin=Origin.PUT)
        _, left_out = self._change_new_items(
            [item.id], lambda found: replace(described, customers=found.customers), limit
        )
        return not left_out

    def note_customers(self, customers: Mapping[str, Sequence[str]], *, limit: int) -> tuple[int, int]:
        """Record customers as the first ones of new items, by item, which are added up to `limit` of them by events.

        Returns how many items changed, and how many were not added because there are too many.

        Call it after their events were added. A customer who has no event with the item is left out.
        """
        check_ids("item", customers)
        check_ids("user", [user for users in customers.values() for user in users])
        noted = self._change_new_items(
            sorted(customers), lambda found: found.with_customers(customers[found.id]), limit
        )
        # After the change: an erasure that was too early to find the record has removed the events.
        for user in sorted({user for users in customers.values() for user in users}):
            gone = {item for item, users in customers.items() if user in users}
            for length in (USUAL_HISTORY, sys.maxsize):  # an event that has just arrived is usually one of the newest
                history = self._history(user, length)
                gone -= {event.item for event in history}
                if not gone or len(history) < length:
                    break
            if gone:
                self._change_new_items(sorted(gone), partial(NewItem.without_customer, user=user))
        return noted

    def remove_new_items(
        self, items: Sequence[str], origin: Origin | None = None, fewer_than: int | None = None
    ) -> int:
        """Remove new items, or only those of an origin, or with fewer customers than that; returns how many."""
        check_ids("item", items)
        changed, _ = self._change_new_items(
            sorted(set(items)), lambda item: None if item.is_one_of(origin, fewer_than) else item
        )
        return changed

    def find_new_items_of(self, origin: Origin, fewer_than: int | None = None) -> list[list[str]]:
        """The ids of the new items of an origin, or only of those with fewer customers than that.

        They come in parts for `remove_new_items`, so that events can be written while many are removed.
        """
        found = [item.id for item in self.new_items() if item.is_one_of(origin, fewer_than)]
        return [found[start : start + REMOVED_AT_ONCE] for start in range(0, len(found), REMOVED_AT_ONCE)]

    def remove_new_items_of(self, origin: Origin, fewer_than: int | None = None) -> int:
        """Remove all that `find_new_items_of` finds; returns how many. If it fails, call it again for the others."""
        parts = self.find_new_items_of(origin, fewer_than)
        return sum(self.remove_new_items(part, origin, fewer_than) for part in parts)

    # What a store does for the methods above, whose arguments are checked there.

    def _set_live_items(self, items: list[str] | None) -> None: ...

    def _change_live_items(self, add: list[str], remove: list[str], limit: int) -> LiveCounts: ...

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> tuple[int, int]:
        """Change these new items, or all that are there; the limit is on those of one origin.

        Returns how many changed, and how many were not added because there are too many.
        """

    def _history(self, user: str, limit: int) -> list[StoredEvent]:
        """As in `Histories`: a customer of a new item has an event with it."""
