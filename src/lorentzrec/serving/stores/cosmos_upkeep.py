"""A whole store in Cosmos DB: read, measured, pruned, restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Protocol

from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.cosmos_documents import Document, Documents
from lorentzrec.serving.stores.cosmos_new_items import PARTITION, CosmosNewItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.snapshot import CheckedPart, Erasure, Pruned, Snapshot, StoreSize
from lorentzrec.serving.stores.store import key_of


class CosmosUpkeep(CosmosNewItems, Protocol):
    """The part of `CosmosStore` that handles all of it at once."""

    _all_histories: Documents

    def _salt(self) -> str | None: ...

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        # Erasures first: one that happens during the snapshot is not in it, but events of its customer may be, as if
        # the erasure followed the snapshot.
        notes = self._all_histories.scan("c.customer, c.erased", "c.id = 'erased'")
        erasures = sorted((str(note["customer"]), float(note["erased"])) for note in notes)
        yield Snapshot(
            activations=self.activations(),
            live=self.live_items(),
            new_items=self.new_items().items,
            salt=self._salt(),
            erasures=erasures,
            events=self.all_events(),
        )

    def measure(self) -> StoreSize:
        events, customers = 0, set()
        for segment in self._all_histories.scan("c.customer, ARRAY_LENGTH(c.events) AS events", "IS_DEFINED(c.events)"):
            events += segment["events"]
            customers |= {segment["customer"]} if segment["events"] else set()
        sizes = [self._histories.count_bytes(), self._catalogue.count_bytes()]
        origins = Counter(str(item["origin"]) for item in self._histories.all(PARTITION, "c.id, c.origin"))
        return StoreSize(events, len(customers), None if None in sizes else sum(filter(None, sizes)), origins)

    def check_database(self) -> Iterator[CheckedPart]:
        count, damage = 0, []
        for document in self._all_histories.scan("*", "IS_DEFINED(c.user) OR IS_DEFINED(c.events)"):
            count += 1
            if not _is_sound(document):
                damage.append(f"document {document['id']} of {document['customer']}")
        yield CheckedPart("documents of histories", f"{count:,} documents", damage)

    def prune_events(self, before: float, newest: int, *, dry_run: bool = False) -> Iterator[Pruned]:
        found = self._all_histories.scan("c.customer", "IS_DEFINED(c.events)")
        for customer in sorted({str(segment["customer"]) for segment in found}):
            removed = self._until_unopposed(partial(self._prune_customer, customer, before, newest, dry_run))
            yield Pruned(removed, int(removed > 0))

    def _prune_customer(self, customer: str, before: float, newest: int, dry_run: bool) -> int:
        segments = self._histories.all(customer)
        events = sorted(event for segment in segments for event in segment["events"])
        old = [event for event in events[: max(0, len(events) - newest)] if event[0] < before]
        ids = {event[2] for event in old}
        for segment in segments:
            kept = [event for event in segment["events"] if event[2] not in ids]
            # The document stays, also without events: numbers of documents have no gaps.
            if len(kept) < len(segment["events"]) and not dry_run:
                self._histories.replace({**segment, "events": kept})
        return len(old)

    def find_restore(self) -> str | None:
        state = self._catalogue.read("state", "state") or {}
        return state.get("restoring")

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        def mark() -> None:
            state = self._state()
            if state.get("restoring") is not None:
                raise StoreFault.RESTORING.error(store=self.url)
            check()
            self._catalogue.replace({**state, "restoring": backup})  # unless it has changed since the check began

        self._until_unopposed(mark)

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        self._marked_state(backup)
        if salt is not None:
            self._histories.put({"id": "salt", "customer": "salt", "salt": salt})
        for customer, moment in erasures:
            self._histories.put({"id": "erased", "customer": customer, "erased": moment})
        for number, entry in enumerate(log[:-1]):
            self._catalogue.put({"id": f"{number:012d}", "place": "activations", "entry": asdict(entry)})
        last = {"number": len(log) - 1, "entry": asdict(log[-1])} if log else None
        # Last, and in one step: this makes a version the current one.
        change = {"activation": last, "restoring": None}
        self._until_unopposed(lambda: self._catalogue.replace({**self._marked_state(backup), **change}))

    def _marked_state(self, backup: str) -> Document:
        state = self._state()
        if state.get("restoring") != backup:
            raise StoreFault.RESTORE_ENDED.error(store=self.url)
        return state


def _is_sound(document: Document) -> bool:
    """Whether a document of a history is in the partition of its customer, and each event has its fields."""
    user, events = document.get("user"), document.get("events")
    if not isinstance(user, str) or not isinstance(events, list) or document["customer"] != key_of(user):
        return False
    return all(
        isinstance(event, list)
        and len(event) in (3, 4)
        and all(isinstance(number, int | float) for number in (event[0], *event[3:]))
        and all(isinstance(text, str) for text in event[1:3])
        for event in events
    )
