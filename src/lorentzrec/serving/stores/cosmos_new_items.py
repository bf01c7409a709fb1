"""New items in Cosmos DB: a document each in one partition of the histories, since they name customers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lorentzrec.serving.stores.cosmos_documents import Conflict, Document, Documents
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.new_items import Change, NewItem, NewItems, NewItemsChanged
from lorentzrec.serving.stores.store import Store, key_of

PARTITION = "new-items"
MOST_CONFLICTS = 200

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

    def new_items(self, since: int = 0) -> NewItems:
        state = self._state()
        revision = state.get("items_revision", 0)
        if state.get("items_reset", 0) > since or revision < since:
            since = 0
        found = self._histories.all(PARTITION, condition="c.changed > @since", since=since)
        items = sorted((NewItem.from_json(one["item"], one["content"]) for one in found), key=lambda item: item.id)
        return NewItems(items, revision, complete=since == 0)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, most: int = 0) -> NewItemsChanged:
        """`items`: None for all that are there."""
        written: set[str] = set()
        reset = False

        def step() -> NewItemsChanged:
            nonlocal reset
            state = self._state()
            revision, left_out = state.get("items_revision", 0) + 1, 0
            room: int | None = None
            for item, document in self._documents(items).items():
                before = None if document is None else NewItem.from_json(item, document["content"])
                after = change(before or NewItem(item))
                # What was written before a conflict is written again, with the revision that the state will get.
                if after == before and not (item in written and document is not None):
                    continue
                if after is None and document is not None:
                    written.add(item)
                    reset = True
                    self._histories.delete(document)
                elif after is not None:
                    if document is None:
                        room = most - len(self._histories.all(PARTITION, "c.id")) if room is None else room
                        if room <= 0:
                            left_out += 1
                            continue
                        room -= 1
                    content = {"item": item, "changed": revision, "content": after.to_json()}
                    written.add(item)
                    if document is None:
                        self._histories.create({"id": key_of(item), "customer": PARTITION, **content})
                    else:
                        self._histories.replace({**document, **content})
            if written:
                removal = {"items_reset": revision} if reset else {}
                self._catalogue.replace({**state, "items_revision": revision, **removal})
            return NewItemsChanged(len(written), left_out)

        return self._until_unopposed(step)

    def _documents(self, items: Sequence[str] | None) -> dict[str, Document | None]:
        if items is None:
            return {document["item"]: document for document in self._histories.all(PARTITION)}
        return {item: self._histories.read(PARTITION, key_of(item)) for item in items}
