"""The store in Azure Cosmos DB.

histories     partition /customer: the events of a customer as a list, in documents of about a thousand events each;
              the time of an erasure, in a partition of its own named by a salted hash; "salt" has the salt;
              "new-items" one document per new item
catalogue     partition /place: "state" is one document, replaced by ETag, with the last activation; "activations" one
              document for each earlier activation; "versions" one document per version; "files-TOKEN" the chunks of a
              version; "live-TOKEN" the live or removed items in parts; "publishers" one document for each process
              that publishes now, renewed every minute

Ids and partitions are digests or tokens, since Cosmos DB limits what they may hold. A batch of events is all or nothing
for each customer; if it fails halfway, sending it again does no harm.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from lorentzrec.serving.stores.activations import BEFORE_THE_LOG, Activation
from lorentzrec.serving.stores.cosmos_documents import Account, Conflict, Document
from lorentzrec.serving.stores.cosmos_upkeep import CosmosUpkeep
from lorentzrec.serving.stores.cosmos_versions import CosmosVersions, find_current
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.store import (
    Added,
    Event,
    EventPage,
    HistoryEvent,
    LiveCounts,
    LiveItems,
    Migrating,
    State,
    drop_erased,
    key_of,
    salted_key,
    sort_batch,
)

SEGMENT_EVENTS, SEGMENT_BYTES = 1000, 1_000_000
"""A document with this many events, or this much text, is full: the next event begins another."""
PARALLEL_CUSTOMERS = 8
FORMAT = 1
"""Of the documents, in the state. Before there was one, erasures were named by another hash."""


class CosmosStore(CosmosVersions, CosmosUpkeep):
    """The store at a Cosmos DB `address`; see `Store` for what each method means."""

    def __init__(self, address: str, *, create: bool = False, migrate: Migrating | None = None) -> None:
        self._account = Account(address)
        self.url = self._account.url
        try:
            self._account.refuse_several_regions()
            self._histories = self._account.container("histories", "customer", create=create)
            self._catalogue = self._account.container("catalogue", "place", create=create)
            self._chunks = self._catalogue.for_transfers()
            self._all_histories = self._histories.for_transfers()
            if create and not self._catalogue.all("state"):
                with suppress(Conflict):  # another process was first
                    state = {"id": "state", "place": "state", "activation": None, "live_revision": 0, "live": None}
                    self._catalogue.create({**state, "format": FORMAT})
            self._refuse_other_formats(migrate)
        except BaseException:
            self.close()
            raise

    def _refuse_other_formats(self, migrate: Migrating | None) -> None:
        """Refuse documents of another release; `migrate` changes those of an older one."""
        state = self._catalogue.read("state", "state")
        if state is None:
            return  # every call reports that
        format = int(state.get("format", 0))
        if format > FORMAT:
            raise StoreFault.NEWER.error(store=self.url)
        if format == FORMAT:
            return
        if migrate is None:
            raise StoreFault.OLDER.error(store=self.url, done=format, steps=FORMAT)
        migrate(FORMAT, FORMAT)
        if self._salt() is not None:
            # The hashes of customers in them are of another kind, and the customers are not known.
            raise StoreFault.OLD_ERASURES.error(store=self.url)
        self._until_unopposed(self._renew_state)

    def _renew_state(self) -> None:
        """Before there was a format, the state had the name of the current version, and no log."""
        state, last = self._state(), None
        if (name := state.pop("version", None)) is not None:
            last = {"number": 0, "entry": asdict(Activation(name, time.time(), BEFORE_THE_LOG))}
        self._catalogue.replace({"activation": last, **state, "format": FORMAT})

    def close(self) -> None:
        self._account.close()

    # Versions

    def state(self) -> State:
        state = self._state()
        return State(find_current(state), state["live_revision"], state.get("items_revision", 0))

    def _places_in_use(self) -> set[str]:
        return {"state", f"live-{_live_token(self._state())}"}

    # Histories

    def _add_events(self, events: Sequence[Event], respect_erasures: bool) -> Added:
        by_user: dict[str, list[Event]] = {}
        for event in events:
            by_user.setdefault(event.user, []).append(event)
        add = partial(self._add_unless_erased, salt=self._salt()) if respect_erasures else self._add
        if len(by_user) == 1:
            return add(*by_user.popitem())
        with ThreadPoolExecutor(PARALLEL_CUSTOMERS) as threads:
            return sum(threads.map(add, by_user.keys(), by_user.values()), Added(0, 0))

    def _add(self, user: str, events: Sequence[Event], erasure: float | None = None) -> Added:
        """Append what is new to the customer's last document, or to new ones.

        Whether a document is full depends on the document alone, and numbers have no gaps. So two writers always want
        the same document, and the slower one gets a conflict, reads again, and finds its duplicates. Only an erasure
        removes the document before a new one; that is checked.
        """
        customer, accepted = key_of(user), 0

        def append() -> Added:
            nonlocal accepted
            segments = self._histories.all(customer)
            wanted, erased = events, frozenset[str]()
            if erasure is not None:
                # Version 0.1 recorded the time of an erasure in the first document.
                first = segments[0].get("erased", -math.inf) if segments else -math.inf
                wanted, erased = drop_erased(events, {user: max(erasure, first)})
            stored = [event for segment in segments for event in segment["events"]]
            ids, moments = {event[2] for event in stored}, {(event[0], event[1]) for event in stored}
            waiting = []
            for event in sort_batch(wanted):
                moment = (float(event.time), event.item)
                if event.id not in ids and moment not in moments:
                    moments.add(moment)
                    waiting.append([*moment, event.id, *([] if event.weight == 1 else [float(event.weight)])])
            segment: Document | None = segments[-1] if segments else None
            while waiting:
                full = None
                if segment is None or not _take_fitting(segment["events"], waiting, SEGMENT_EVENTS):
                    full, number = segment, 0 if segment is None else int(segment["id"]) + 1
                    segment = {"id": f"{number:08d}", "customer": customer, "events": []}
                part = _take_fitting(segment["events"], waiting, SEGMENT_EVENTS)
                write = self._histories.replace if "_etag" in segment else self._histories.create
                segment = write({**segment, "user": user, "events": segment["events"] + part})
                if full is not None and not self._is_unchanged(full):
                    self._histories.delete(segment)
                    raise Conflict
                accepted += len(part)
                waiting = waiting[len(part) :]
            return Added(accepted, len(wanted) - accepted, erased)

        return self._until_unopposed(append)

    def _is_unchanged(self, segment: Document) -> bool:
        found = self._histories.read(segment["customer"], segment["id"])
        return found is not None and bool(found["_etag"] == segment["_etag"])

    def _add_unless_erased(self, user: str, events: Sequence[Event], salt: str | None) -> Added:
        """Add what happened after the customer's erasure.

        `forget` records the erasure before it removes events. So an erasure that may have missed the events added here
        is found by the second read.
        """
        before = self._erasure(user, salt)
        added = self._add(user, events, before)
        after = self._erasure(user, salt or self._salt())
        if after == before:
            return added
        removed = self._until_unopposed(lambda: self._remove_until(key_of(user), after))
        return Added(max(0, added.accepted - removed), added.duplicates, added.erased | {user})

    def _remove_until(self, customer: str, erasure: float) -> int:
        removed = 0
        for segment in self._histories.all(customer):
            later = [event for event in segment["events"] if event[0] > erasure]
            if later != segment["events"]:
                self._histories.replace({**segment, "events": later})
                removed += len(segment["events"]) - len(later)
        return removed

    def _history(self, user: str, limit: int) -> list[HistoryEvent]:
        """Reads all documents of the customer for any `limit`.

        They hold events in the order of their arrival: one that came late may be the newest by arrival and the oldest
        by time, so the newest documents need not hold the newest events. `_add` needs all of them to find duplicates.
        """
        events = [event for segment in self._histories.all(key_of(user)) for event in segment["events"]]
        return [HistoryEvent(item, float(moment), *weight) for moment, item, _, *weight in sorted(events)[-limit:]]

    def all_events(self) -> Iterator[EventPage]:
        for segment in self._all_histories.scan("c.user, c.events", "IS_DEFINED(c.events)"):
            if events := segment["events"]:
                columns = [(item, float(moment), *(weight or [1.0]), id) for moment, item, id, *weight in events]
                yield EventPage([segment["user"]] * len(events), *zip(*columns, strict=True))

    def erasures(self, users: Sequence[str]) -> dict[str, float]:
        if (salt := self._salt()) is None:
            return {}
        notes = self._all_histories.scan("c.customer, c.erased", "c.id = 'erased'")
        moments = {note["customer"]: float(note["erased"]) for note in notes}
        keys = {user: salted_key(key_of(user), salt) for user in users}
        return {user: moments[key] for user, key in keys.items() if key in moments}

    def _forget(self, user: str) -> int:
        customer, removed = key_of(user), 0
        salted = salted_key(customer, self._until_unopposed(self._find_or_make_salt))
        self._histories.put({"id": "erased", "customer": salted, "erased": time.time()})

        def erase() -> None:
            nonlocal removed
            for segment in reversed(self._histories.all(customer)):
                self._histories.delete(segment)
                removed += len(segment["events"])
            if self._histories.all(customer, "c.id"):
                raise Conflict  # another process has added to them meanwhile

        self._until_unopposed(erase)
        self._change_new_items(None, lambda item: item.without_customer(user))
        return removed

    def _erasure(self, user: str, salt: str | None) -> float:
        """When a customer was erased; minus infinity if never."""
        note = None if salt is None else self._histories.read(salted_key(key_of(user), salt), "erased")
        return -math.inf if note is None else float(note["erased"])

    def _salt(self) -> str | None:
        """What the hashes of erased customers are salted with; None before the first erasure.

        Read each time, since another store may have replaced this one.
        """
        found = self._histories.read("salt", "salt")
        return None if found is None else str(found["salt"])

    def _find_or_make_salt(self) -> str:
        if (salt := self._salt()) is None:
            salt = secrets.token_hex(16)
            self._histories.create({"id": "salt", "customer": "salt", "salt": salt})
        return salt

    # Live items

    def live_items(self) -> LiveItems:
        return self._until_unopposed(lambda: self._live(self._state()))

    def _set_live_items(self, items: list[str] | None) -> None:
        self._until_unopposed(lambda: self._switch_live(self._state(), LiveItems(items)))

    def _change_live_items(self, add: list[str], remove: list[str], limit: int) -> LiveCounts:
        def change() -> LiveCounts:
            state = self._state()
            before = self._live(state)
            if before.items is None:
                after = LiveItems(None, sorted((set(before.removed) - set(add)) | set(remove)))
            else:
                after = LiveItems(sorted((set(before.items) - set(remove)) | set(add)))
            counts = LiveCounts(None if after.items is None else len(after.items), len(after.removed))
            counts.check_growth(len(before.removed if before.items is None else before.items), limit)
            if after != before:
                self._switch_live(state, after)
            return counts

        return self._until_unopposed(change)

    def _live(self, state: Document) -> LiveItems:
        if (token := _live_token(state)) is None:
            return LiveItems()
        parts = self._catalogue.all(f"live-{token}")
        if len(parts) != state["live_parts"]:
            raise Conflict  # they were replaced after the state was read
        listed = [item for part in parts for item in part["items"]]
        return LiveItems(None, listed) if state["live"] is None else LiveItems(listed)

    def _switch_live(self, state: Document, live: LiveItems) -> None:
        """Write the items next to the old ones, then point to them."""
        token, parts = secrets.token_hex(8), []
        for number, part in enumerate(_split_items(live.removed if live.items is None else live.items)):
            parts.append({"id": f"{number:08d}", "place": f"live-{token}", "items": part})
            self._catalogue.put(parts[-1])
        pointers = {"live": None, "removed": token} if live.items is None else {"live": token, "removed": None}
        revision = state["live_revision"] + 1
        try:
            self._catalogue.replace({**state, **pointers, "live_parts": len(parts), "live_revision": revision})
        except Conflict:
            self._delete_all(parts)
            raise
        if (before := _live_token(state)) is not None:
            self._delete_all(self._catalogue.all(f"live-{before}", "c.id, c.place"))


def _live_token(state: Document) -> str | None:
    """Names the list of live items or, if there is none, of removed ones; None if every item is live.

    0.1 does not know removed ones: it leaves their token behind when it sets the number of parts to 0.
    """
    token: str | None = state["live"]
    return state["removed"] if token is None and state.get("live_parts") else token


def _take_fitting(present: Sequence[Any], waiting: Sequence[Any], most: int) -> list[Any]:
    """The first entries of `waiting` that fit in a document that holds those present; none if it is full."""
    part: list[Any] = []
    size = len(json.dumps(present))
    for entry in waiting[: max(0, most - len(present))]:
        if size >= SEGMENT_BYTES:
            break
        part.append(entry)
        size += len(json.dumps(entry)) + 2
    return part


def _split_items(items: list[str]) -> Iterator[list[str]]:
    """The items in lists that each fit in a document."""
    while items:
        yield (part := _take_fitting([], items, len(items)))
        items = items[len(part) :]
