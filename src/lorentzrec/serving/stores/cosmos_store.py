"""The store in Azure Cosmos DB.

histories     partition /customer: the events of a customer as a list, in documents of about a thousand events each;
              the time of an erasure, in a partition of its own named by a salted hash; "salt" has the salt;
              "new-items" one document per new item
catalogue     partition /place: "state" is one document, replaced by ETag; "versions" one document per version;
              "files-TOKEN" the chunks of a version; "live-TOKEN" the live or removed items in parts; "publishers" one
              document for each process that publishes now, renewed every minute

Ids and partitions are digests or tokens, since Cosmos DB limits what they may hold. A batch of events is all or nothing
for each customer; if it fails halfway, sending it again does no harm.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event as Signal
from threading import Thread
from typing import Any

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.cosmos_documents import Account, Conflict, Document
from lorentzrec.serving.stores.cosmos_new_items import CosmosNewItems
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
    check_name,
    drop_erased,
    key_of,
    salted_key,
    sort_batch,
)
from lorentzrec.serving.stores.version_files import ChunkedVersions

SEGMENT_EVENTS, SEGMENT_BYTES = 1000, 1_000_000
"""A document with this many events, or this much text, is full: the next event begins another."""
PARALLEL_CUSTOMERS = 8
FORMAT = 1
"""Of the documents, in the state. Before there was one, erasures were named by another hash."""
ORPHAN_SECONDS = 3600
"""Parts that nothing refers to are removed when they are this old: younger ones may belong to a change under way."""
PUBLISHER_SECONDS, RENEWAL_SECONDS = 600, 60
"""A publisher counts as gone if its document is this old; it renews the document this often."""


class CosmosStore(ChunkedVersions, CosmosNewItems):
    """The store at a Cosmos DB `address`; see `Store` for what each method means."""

    chunk_bytes = 2**20
    """As base64 1.4 MB, below the 2 MB that a document may have."""

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
                    state = {"id": "state", "place": "state", "version": None, "live_revision": 0, "live": None}
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
        self._until_unopposed(lambda: self._catalogue.replace({**self._state(), "format": FORMAT}))

    def close(self) -> None:
        self._account.close()

    # Versions

    def state(self) -> State:
        state = self._state()
        return State(state["version"], state["live_revision"], state.get("items_revision", 0))

    def versions(self) -> list[str]:
        found = self._catalogue.all("versions", "c.id, c.complete")
        return [document["id"] for document in reversed(found) if document["complete"]]

    def activated_versions(self) -> list[str]:
        found, current = self._catalogue.all("versions", "c.id, c.complete, c.activated"), self._state()["version"]
        return [version["id"] for version in reversed(found) if version["complete"] and _was_current(version, current)]

    @contextmanager
    def publishing(self) -> Iterator[None]:
        publisher = {"id": secrets.token_hex(8), "place": "publishers"}
        self._catalogue.put(publisher)
        over = Signal()

        def renew() -> None:
            while not over.wait(RENEWAL_SECONDS):
                with suppress(LorentzrecError):  # tried again in a minute
                    self._catalogue.put(publisher)

        renewing = Thread(target=renew, name="publisher", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            over.set()
            renewing.join()
            with suppress(Conflict, LorentzrecError):  # it counts as gone a few minutes later
                self._catalogue.delete(publisher)

    def activate(self, name: str) -> None:
        self._complete(name)
        before = self._set_version(name)
        # A process that discards a version hides it first and reads the state then: one of the two always sees the
        # other.
        try:
            self._complete(name)
        except InputError:
            self._set_version(before)
            raise
        for activated in (name, before):  # also the one before: 0.1 did not record it, nor did a process killed here
            self._until_unopposed(partial(self._record_activation, activated))

    def _record_activation(self, name: str | None) -> None:
        version = None if name is None else self._version(name)
        if version is not None and not version.get("activated"):
            self._catalogue.replace({**version, "activated": True})

    def discard(self, name: str) -> None:
        version = self._version(name)
        if version is None:
            raise self._no_version(name)
        try:
            if self._state()["version"] != name:
                version = self._catalogue.replace({**version, "complete": False})
            if self._state()["version"] != name:
                self._remove(version)
            else:
                if not version["complete"]:
                    self._catalogue.replace({**version, "complete": True})
                raise StoreFault.CURRENT_VERSION.error(name=name, store=self.url)
        except Conflict:
            raise self._no_version(name) from None

    def clean(self) -> int:
        removed = 0
        # In this order: the publisher of one of these versions has registered before, unless it has ended by then.
        versions, current = self._catalogue.all("versions"), self._state()["version"]
        publishers = self._catalogue.all("publishers", "c.id, c.place, c._ts")
        if any(publisher["_ts"] > time.time() - PUBLISHER_SECONDS for publisher in publishers):
            return 0
        for version in versions:
            if not (version["complete"] and _was_current(version, current)):
                with suppress(Conflict):  # it was completed, activated or removed meanwhile
                    self._remove(version)
                    removed += 1
        in_use = {"state", "versions", f"live-{_live_token(self._state())}"} | {
            f"files-{one['token']}" for one in versions
        }
        orphans = [
            document
            for document in self._catalogue.everywhere("c.id, c.place, c._ts")
            if document["place"] not in in_use and document["_ts"] < time.time() - ORPHAN_SECONDS
        ]
        self._delete_all(orphans)
        return removed + len({document["place"] for document in orphans})

    def _version(self, name: str) -> Document | None:
        return self._catalogue.read("versions", check_name(name))

    def _complete(self, name: str) -> Document:
        version = self._version(name)
        if version is None or not version["complete"]:
            raise self._no_version(name)
        return version

    def _remove(self, version: Document) -> None:
        """First the document, so that the rest does not count as a version; the token of its chunks is never reused."""
        self._catalogue.delete(version)
        self._delete_all(self._catalogue.all(f"files-{version['token']}", "c.id, c.place"))

    def _delete_all(self, documents: Sequence[Document]) -> None:
        for document in documents:
            with suppress(Conflict):  # gone already
                self._catalogue.delete({"id": document["id"], "place": document["place"]})

    def _set_version(self, name: str | None) -> Any:
        """Point to another version; returns the previous one."""

        def point() -> Any:
            self._catalogue.replace({**(state := self._state()), "version": name})
            return state["version"]

        return self._until_unopposed(point)

    # Chunks of versions; a version is its document

    def _begin_upload(self, name: str, manifest: bytes) -> Document:
        return self._until_unopposed(lambda: self._find_or_create(name, base64.b64encode(manifest).decode()))

    def _find_or_create(self, name: str, encoded: str) -> Document:
        version = self._version(name)
        if version is not None and version["manifest"] != encoded:
            if version["complete"]:
                raise StoreFault.OTHER_CONTENT.error(name=name, store=self.url)
            self._remove(version)  # an interrupted upload of other content: nothing of it could be resumed
            version = None
        if version is None:
            start = {"id": name, "place": "versions", "token": secrets.token_hex(8), "manifest": encoded}
            version = self._catalogue.create({**start, "complete": False, "activated": False})
        return version

    def _end_upload(self, version: Document) -> bool:
        try:
            return version["complete"] or bool(self._catalogue.replace({**version, "complete": True}))
        except Conflict:
            return False

    def _find_version(self, name: str) -> tuple[Document, bytes]:
        version = self._complete(name)
        return version, base64.b64decode(version["manifest"])

    def _list_chunks(self, version: Document) -> dict[tuple[str, int], str]:
        found = self._chunks.all(f"files-{version['token']}", "c.id, c.file, c.number, c.sha256")
        return {(chunk["file"], chunk["number"]): chunk["sha256"] for chunk in found}

    def _write_chunk(self, version: Document, file: str, number: int, digest: str, data: bytes) -> bool:
        chunk = {"id": f"{file}-{number:08d}", "place": f"files-{version['token']}", "file": file, "number": number}
        self._chunks.put({**chunk, "sha256": digest, "data": base64.b64encode(data).decode()})
        return True  # whether the version is still there, `_end_upload` finds out

    def _read_chunk(self, version: Document, file: str, number: int) -> bytes | None:
        chunk = self._chunks.read(f"files-{version['token']}", f"{file}-{number:08d}")
        return None if chunk is None else base64.b64decode(chunk["data"])

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
            events = [HistoryEvent(item, float(moment), *weight) for moment, item, _, *weight in segment["events"]]
            if events:
                yield EventPage([segment["user"]] * len(events), *zip(*events, strict=True))

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

    def _change_live_items(self, add: list[str], remove: list[str]) -> LiveCounts:
        def change() -> LiveCounts:
            state = self._state()
            before = self._live(state)
            if before.items is None:
                after = LiveItems(None, sorted((set(before.removed) - set(add)) | set(remove)))
            else:
                after = LiveItems(sorted((set(before.items) - set(remove)) | set(add)))
            if after != before:
                self._switch_live(state, after)
            return LiveCounts(None if after.items is None else len(after.items), len(after.removed))

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


def _was_current(version: Document, current: str | None) -> bool:
    """Whether a version is or was current. 0.1 did not record it: there, versions up to the current one count."""
    recorded: bool | None = version.get("activated")
    if recorded is None:
        return current is not None and str(version["id"]) <= current
    return recorded or version["id"] == current


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
