"""New items in Cosmos DB: a document each in one partition of the histories, since they name customers."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from lorentzrec.serving.stores.cosmos_documents import Conflict, Document, Documents
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.new_items import (
    Change,
    NewItem,
    NewItemsChanged,
    NewItemsRead,
    Origin,
    plan_changes,
)
from lorentzrec.serving.stores.store import Store, key_of

PARTITION = "new-items"
MOST_CONFLICTS = 200
PARALLEL_CALLS = 8

Value = TypeVar("Value")
Result = TypeVar("Result")


class CosmosNewItems(Store, Protocol):
    """The part of `CosmosStore` that keeps new items, and what both parts use.

    Each document has the revision of its last change. It is written before the state gets that revision, so whoever
    reads the state and then the documents misses none. A removal leaves no document, so the state also has the revision
    of the last one, `items_reset`: a reader who has an older revision reads all documents.
    """

    _histories: Documents
    _catalogue: Documents

    def _state(self) -> Document:
        state = self._catalogue.read("state", "state")
        if state is None:
            raise StoreFault.STATE_LOST.error(store=self.url)
        return state

    def _until_unopposed(self, step: Callable[[], Result]) -> Result:
        """Do `step`, and repeat it from its reads on while other processes are faster with their writes."""
        for _ in range(MOST_CONFLICTS):
            try:
                return step()
            except Conflict:
                time.sleep(random.uniform(0, 0.05))
        raise StoreFault.BUSY.error(store=self.url, reason="other processes keep changing the same document")

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> NewItemsRead:
        state = self._state()
        revision = state.get("items_revision", 0)
        if state.get("items_reset", 0) > since or revision < since:
            since = 0
        condition = "c.origin = @origin AND c.changed > @since"
        found = [
            document
            for origin in Origin
            for document in self._histories.first(limit, "item", PARTITION, condition, origin=origin, since=since)
        ]
        items = sorted((NewItem.from_json(one["item"], one["content"]) for one in found), key=lambda item: item.id)
        return NewItemsRead(items, revision, complete=since == 0)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> NewItemsChanged:
        written: dict[str, NewItem | None] = {}

        def room(origin: Origin) -> int:
            return limit - len(self._histories.all(PARTITION, "c.id", "c.origin = @origin", origin=origin))

        def step() -> NewItemsChanged:
            state, documents = self._state(), self._documents(items)
            revision = state.get("items_revision", 0) + 1
            found = {item: NewItem.from_json(item, document["content"]) for item, document in documents.items()}
            changes, left_out = plan_changes(items, found, change, room)

            def write(change: tuple[str, NewItem | None]) -> None:
                item, after = change
                written[item] = after
                if after is None:
                    self._histories.delete(documents[item])
                    return
                content = {"item": item, "changed": revision, "origin": after.origin, "content": after.to_json()}
                if item in documents:
                    self._histories.replace({**documents[item], **content})
                else:
                    self._histories.create({"id": key_of(item), "customer": PARTITION, **content})

            # What was written before a conflict is written again, with the revision that the state will get.
            wanted = {item: found[item] for item in written if item in found} | changes
            _do_all(write, wanted.items())
            if written:
                removal = {"items_reset": revision} if None in written.values() else {}
                self._catalogue.replace({**state, "items_revision": revision, **removal})
            return NewItemsChanged(len(written), left_out)

        return self._until_unopposed(step)

    def _documents(self, items: Sequence[str] | None) -> dict[str, Document]:
        """The documents of those that are there, by item."""
        if items is None:
            found: Iterable[Document | None] = self._histories.all(PARTITION)
        else:
            found = _do_all(lambda item: self._histories.read(PARTITION, key_of(item)), items)
        return {document["item"]: document for document in found if document is not None}


def _do_all(call: Callable[[Value], Result], values: Iterable[Value]) -> list[Result]:
    """The results of a call for each value, some at a time."""
    with ThreadPoolExecutor(PARALLEL_CALLS) as threads:
        return list(threads.map(call, values))
