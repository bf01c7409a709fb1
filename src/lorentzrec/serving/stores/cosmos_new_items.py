"""New items in Cosmos DB: a document each in one partition of the histories, since they name customers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from lorentzrec.serving.stores.cosmos_documents import Conflict, Document, Documents
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.new_items import Change, NewItem, NewItemsChanged, NewItemsRead, plan_changes
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

    def new_items(self, since: int = 0) -> NewItemsRead:
        state = self._state()
        revision = state.get("items_revision", 0)
        if state.get("items_reset", 0) > since or revision < since:
            since = 0
        found = self._histories.all(PARTITION, condition="c.changed > @since", since=since)
        items = sorted((NewItem.from_json(one["item"], one["content"]) for one in found), key=lambda item: item.id)
        return NewItemsRead(items, revision, complete=since == 0)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, most: int = 0) -> NewItemsChanged:
        """`items`: None for all that are there."""
        written: dict[str, NewItem | None] = {}

        def room() -> int:
            return most - len(self._histories.all(PARTITION, "c.id"))

        def step() -> NewItemsChanged:
            state, documents = self._state(), self._documents(items)
            revision = state.get("items_revision", 0) + 1
            found = {item: NewItem.from_json(item, document["content"]) for item, document in documents.items()}
            changes, left_out = plan_changes(items, found, change, room)
            # What was written before a conflict is written again, with the revision that the state will get.
            for item, after in ({item: found[item] for item in written if item in found} | changes).items():
                written[item] = after
                if after is None:
                    self._histories.delete(documents[item])
                    continue
                content = {"item": item, "changed": revision, "content": after.to_json()}
                if item in documents:
                    self._histories.replace({**documents[item], **content})
                else:
                    self._histories.create({"id": key_of(item), "customer": PARTITION, **content})
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
            found = (self._histories.read(PARTITION, key_of(item)) for item in items)
        return {document["item"]: document for document in found if document is not None}
