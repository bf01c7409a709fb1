"""The store in Azure Cosmos DB.

histories     partition /customer: the events of a customer as a list, in documents of about a thousand events each;
              the time of an erasure, in a partition of its own named by a salted hash; "salt" has the salt
catalogue     partition /place: "state" is one document, replaced by ETag; "versions" one document per version;
              "files-TOKEN" the chunks of a version; "live-TOKEN" the live items in parts; "publishers" one document
              for each process that publishes now, renewed every minute

Ids and partitions are digests or tokens, since Cosmos DB limits what they may hold. A batch of events is all or nothing
for each customer; if it fails halfway, sending it again does no harm.
"""

from __future__ import annotations

import base64
import json
import math
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Any, TypeVar

from lorentzrec.errors import LorentzrecError, StoreUnavailable
from lorentzrec.serving.stores.cosmos_documents import Account, Conflict, Document, Documents
from lorentzrec.serving.stores.store import (
    USUAL_HISTORY,
    Added,
    Event,
    State,
    Touch,
    after_erasures,
    check_events,
    check_ids,
    check_limit,
    checked_name,
    in_order,
    key_of,
    no_such_version,
    nothing_to_change,
    still_current,
)
from lorentzrec.serving.stores.version_files import another_content, read_manifest, receive, removed_meanwhile, send

CHUNK_BYTES = 2**20
"""As base64 1.4 MB, below the 2 MB that a document may have."""
SEGMENT_EVENTS, SEGMENT_BYTES = 1000, 1_000_000
"""A document with so many events, or so much text, is full: the next event begins another."""
PARALLEL_CUSTOMERS = 8
MOST_CONFLICTS = 200
ORPHAN_SECONDS = 3600
"""Parts that nothing refers to are removed when they are this old: younger ones may belong to a change under way."""
PUBLISHER_SECONDS, RENEWAL_SECONDS = 600, 60
"""A publisher counts as gone if its document is this old; it renews the document this often."""

Result = TypeVar("Result")


class CosmosStore:
    """The store at a Cosmos DB `address`; see `Store` for what each method means."""

    notices: Sequence[str] = ()

    def __init__(self, address: str, *, create: bool = False) -> None:
        self._account = Account(address)
        self.url = self._account.url
        try:
            self._histories = self._account.container("histories", "customer", create=create)
            self._catalogue = self._account.container("catalogue", "place", create=create)
            if create and not self._catalogue.all("state"):
                with suppress(Conflict):  # another process was faster
                    state = {"id": "state", "place": "state", "version": None, "live_revision": 0, "live": None}
                    self._catalogue.create(state)
        except BaseException:
            self.close()
            raise

    # Versions

    def state(self) -> State:
        state = self._state()
        return State(state["version"], state["live_revision"])

    def versions(self) -> list[str]:
        found = self._catalogue.all("versions", "c.id, c.complete")
        return sorted((document["id"] for document in found if document["complete"]), reverse=True)

    def activated_versions(self) -> list[str]:
        found, current = self._catalogue.all("versions", "c.id, c.complete, c.activated"), self._state()["version"]
        names = [document["id"] for document in found if document["complete"] and _activated(document, current)]
        return sorted(names, reverse=True)

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

    def upload(self, folder: Path, progress: Callable[[int], None] | None = None) -> None:
        files = read_manifest(folder)
        manifest = base64.b64encode(files.manifest).decode()
        version = self._version(files.name)
        if version is not None and version["manifest"] != manifest:
            if version["complete"]:
                raise another_content(files.name, self.url)
            self._remove(version)  # an interrupted upload of other content: nothing of it could be resumed
            version = None
        try:
            if version is None:
                token = secrets.token_hex(8)
                start = {"id": files.name, "place": "versions", "token": token, "manifest": manifest, "complete": False}
                version = self._catalogue.create({**start, "activated": False})
            send(folder, files, _CosmosChunks(self._catalogue, version["token"]), progress)
            if not version["complete"]:
                self._catalogue.replace({**version, "complete": True})
        except Conflict:
            raise removed_meanwhile(files.name, self.url) from None

    def fetch(self, name: str, cache: Path) -> Path:
        version = self._complete(name)
        chunks = _CosmosChunks(self._catalogue, version["token"])
        return receive(name, base64.b64decode(version["manifest"]), chunks, cache, self.url)

    def activate(self, name: str) -> None:
        self._complete(name)
        before = self._set_version(name)
        # Whoever discards a version hides it first and looks at the state then: one of the two always sees the other.
        version = self._version(name)
        if version is None or not version["complete"]:
            self._set_version(before)
            raise no_such_version(name, self.url, self.versions())
        for activated in (name, before):  # also the one before: 0.1 did not record it, nor did a process killed here
            self._until_unopposed(partial(self._record_activation, activated))

    def _record_activation(self, name: str | None) -> None:
        version = None if name is None else self._version(name)
        if version is not None and not version.get("activated"):
            self._catalogue.replace({**version, "activated": True})

    def discard(self, name: str) -> None:
        version = self._version(name)
        if version is None:
            raise no_such_version(name, self.url, self.versions())
        try:
            if self._state()["version"] != name:
                version = self._catalogue.replace({**version, "complete": False})
            if self._state()["version"] != name:
                self._remove(version)
            else:
                if not version["complete"]:
                    self._catalogue.replace({**version, "complete": True})
                raise still_current(name, self.url)
        except Conflict:
            raise no_such_version(name, self.url, self.versions()) from None

    def clean(self) -> int:
        removed = 0
        # In this order: who owns one of these versions has made itself known before, unless it was gone by then.
        versions, current = self._catalogue.all("versions"), self._state()["version"]
        publishers = self._catalogue.all("publishers", "c.id, c.place, c._ts")
        if any(publisher["_ts"] > time.time() - PUBLISHER_SECONDS for publisher in publishers):
            return 0
        for version in versions:
            if not (version["complete"] and _activated(version, current)):
                with suppress(Conflict):  # it was completed, activated or removed meanwhile
                    self._remove(version)
                    removed += 1
        kept = {"state", "versions", f"live-{self._state()['live']}"} | {f"files-{one['token']}" for one in versions}
        orphans = [
            document
            for document in self._catalogue.everywhere("c.id, c.place, c._ts")
            if document["place"] not in kept and document["_ts"] < time.time() - ORPHAN_SECONDS
        ]
        self._delete_all(orphans)
        return removed + len({document["place"] for document in orphans})

    def _version(self, name: str) -> Document | None:
        checked_name(name)
        return next((version for version in self._catalogue.all("versions") if version["id"] == name), None)

    def _complete(self, name: str) -> Document:
        version = self._version(name)
        if version is None or not version["complete"]:
            raise no_such_version(name, self.url, self.versions())
        return version

    def _remove(self, version: Document) -> None:
        """First the document, so that nobody takes the rest for a version; the token of its chunks never returns."""
        self._catalogue.delete(version)
        self._delete_all(self._catalogue.all(f"files-{version['token']}", "c.id, c.place"))

    def _delete_all(self, documents: Sequence[Document]) -> None:
        for document in documents:
            with suppress(Conflict):  # gone already
                self._catalogue.delete({"id": document["id"], "place": document["place"]})

    def _state(self) -> Document:
        state = self._catalogue.read("state", "state")
        if state is None:
            raise StoreUnavailable(f"{self.url} has lost its state: publish a model to it again")
        return state

    def _set_version(self, name: str | None) -> str | None:
        """Point to another version; the one before."""

        def point() -> str | None:
            state = self._state()
            self._catalogue.replace({**state, "version": name})
            before: str | None = state["version"]
            return before

        return self._until_unopposed(point)

    # Histories

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        check_events(events)
        by_user: dict[str, list[Event]] = {}
        for event in events:
            by_user.setdefault(event.user, []).append(event)
        add = partial(self._add_respectfully, salt=self._salt()) if respect_erasures else self._add
        if len(by_user) == 1:
            results = [add(*by_user.popitem())]
        else:
            with ThreadPoolExecutor(PARALLEL_CUSTOMERS) as threads:
                results = list(threads.map(add, by_user.keys(), by_user.values()))
        accepted, duplicates = (sum(getattr(one, name) for one in results) for name in ("accepted", "duplicates"))
        return Added(accepted, duplicates, frozenset().union(*(one.erased for one in results)))

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
                # Version 0.1 kept the time of an erasure in the first document.
                first = segments[0].get("erased", -math.inf) if segments else -math.inf
                wanted, erased = after_erasures(events, {user: max(erasure, first)})
            kept = [event for segment in segments for event in segment["events"]]
            ids, touches = {event[2] for event in kept}, {(event[0], event[1]) for event in kept}
            waiting = []
            for event in in_order(wanted):
                touch = (float(event.time), event.item)
                if event.id not in ids and touch not in touches:
                    touches.add(touch)
                    waiting.append([*touch, event.id, *([] if event.weight == 1 else [float(event.weight)])])
            segment: Document | None = segments[-1] if segments else None
            while waiting:
                full = None
                if segment is None or not _fitting(segment["events"], waiting):
                    full, number = segment, 0 if segment is None else int(segment["id"]) + 1
                    segment = {"id": f"{number:08d}", "customer": customer, "events": []}
                part = _fitting(segment["events"], waiting)
                write = self._histories.replace if "_etag" in segment else self._histories.create
                segment = write({**segment, "user": user, "events": segment["events"] + part})
                if full is not None and not self._unchanged(full):
                    self._histories.delete(segment)
                    raise Conflict
                accepted += len(part)
                waiting = waiting[len(part) :]
            return Added(accepted, len(wanted) - accepted, erased)

        return self._until_unopposed(append)

    def _unchanged(self, segment: Document) -> bool:
        found = self._histories.read(segment["customer"], segment["id"])
        return found is not None and bool(found["_etag"] == segment["_etag"])

    def _add_respectfully(self, user: str, events: Sequence[Event], salt: str | None) -> Added:
        """Add what happened after the customer's erasure.

        `forget` notes the erasure before it removes events. So an erasure that may have missed the events added here
        was noted before the second look.
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
            kept = [event for event in segment["events"] if event[0] > erasure]
            if kept != segment["events"]:
                self._histories.replace({**segment, "events": kept})
                removed += len(segment["events"]) - len(kept)
        return removed

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[Touch]:
        """All documents of the customer are read, whatever `limit` is.

        They hold events in the order of their arrival: one that came late may be the newest by arrival and the oldest
        by time, so the newest documents need not hold the newest events. `_add` needs all of them to find duplicates.
        """
        check_ids("user", [user])
        check_limit(limit)
        events = [event for segment in self._histories.all(key_of(user)) for event in segment["events"]]
        return [Touch(item, float(moment), *weight) for moment, item, _, *weight in sorted(events)[-limit:]]

    def forget(self, user: str) -> int:
        check_ids("user", [user])
        customer, removed = key_of(user), 0
        note = {"id": "erased", "customer": key_of(self._until_unopposed(self._made_salt), user), "erased": time.time()}
        self._histories.put(note)

        def erase() -> None:
            nonlocal removed
            for segment in reversed(self._histories.all(customer)):
                self._histories.delete(segment)
                removed += len(segment["events"])
            if self._histories.all(customer, "c.id"):
                raise Conflict  # somebody has added to them meanwhile

        self._until_unopposed(erase)
        return removed

    def _erasure(self, user: str, salt: str | None) -> float:
        """When a customer was erased; minus infinity if never."""
        note = None if salt is None else self._histories.read(key_of(salt, user), "erased")
        return -math.inf if note is None else float(note["erased"])

    def _salt(self) -> str | None:
        """What the hashes of erased customers are salted with; None before the first erasure.

        Read whenever it is needed, since another store may have taken the place of this one.
        """
        found = self._histories.read("salt", "salt")
        return None if found is None else str(found["salt"])

    def _made_salt(self) -> str:
        if (salt := self._salt()) is None:
            salt = secrets.token_hex(16)
            self._histories.create({"id": "salt", "customer": "salt", "salt": salt})
        return salt

    # Live items

    def live_items(self) -> list[str] | None:
        return self._until_unopposed(lambda: self._live(self._state()))

    def set_live_items(self, items: Sequence[str] | None) -> int | None:
        check_ids("item", items or ())
        wanted = None if items is None else sorted(set(items))
        self._until_unopposed(lambda: self._switch_live(self._state(), wanted))
        return None if wanted is None else len(wanted)

    def change_live_items(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        check_ids("item", [*add, *remove])

        def change() -> int:
            state = self._state()
            before = self._live(state)
            if before is None:
                raise nothing_to_change()
            after = sorted((set(before) - set(remove)) | set(add))
            if after != before:
                self._switch_live(state, after)
            return len(after)

        return self._until_unopposed(change)

    def _live(self, state: Document) -> list[str] | None:
        if state["live"] is None:
            return None
        parts = self._catalogue.all(f"live-{state['live']}")
        if len(parts) != state["live_parts"]:
            raise Conflict  # they were replaced after the state was read
        return [item for part in parts for item in part["items"]]

    def _switch_live(self, state: Document, items: list[str] | None) -> None:
        """Write the items beside the old ones, then point to them."""
        token, parts = None, []
        if items is not None:
            token = secrets.token_hex(8)
            for number, part in enumerate(_in_parts(items)):
                parts.append({"id": f"{number:08d}", "place": f"live-{token}", "items": part})
                self._catalogue.put(parts[-1])
        changed = {**state, "live": token, "live_parts": len(parts), "live_revision": state["live_revision"] + 1}
        try:
            self._catalogue.replace(changed)
        except Conflict:
            self._delete_all(parts)
            raise
        if state["live"] is not None:
            self._delete_all(self._catalogue.all(f"live-{state['live']}", "c.id, c.place"))

    def close(self) -> None:
        self._account.close()

    def _until_unopposed(self, step: Callable[[], Result]) -> Result:
        """Do `step`, and again from its reading on as long as others are faster with their writes."""
        for _ in range(MOST_CONFLICTS):
            try:
                return step()
            except Conflict:
                time.sleep(random.uniform(0, 0.05))
        raise StoreUnavailable(f"others keep changing the same document of {self.url}: try again")


def _activated(version: Document, current: str | None) -> bool:
    """Whether a version is or was current. 0.1 did not record it: there, versions up to the current one count."""
    recorded: bool | None = version.get("activated")
    if recorded is None:
        return current is not None and str(version["id"]) <= current
    return recorded or version["id"] == current


class _CosmosChunks:
    """The chunks of one version; see `Chunks`."""

    size = CHUNK_BYTES

    def __init__(self, catalogue: Documents, token: str) -> None:
        self._catalogue = catalogue.for_transfers()
        self._place = f"files-{token}"

    def present(self) -> dict[tuple[str, int], str]:
        found = self._catalogue.all(self._place, "c.id, c.file, c.number, c.sha256")
        return {(chunk["file"], chunk["number"]): chunk["sha256"] for chunk in found}

    def put(self, file: str, number: int, digest: str, data: bytes) -> None:
        chunk = {"id": f"{file}-{number:08d}", "place": self._place, "file": file, "number": number, "sha256": digest}
        self._catalogue.put({**chunk, "data": base64.b64encode(data).decode()})

    def get(self, file: str, number: int) -> bytes | None:
        chunk = self._catalogue.read(self._place, f"{file}-{number:08d}")
        return None if chunk is None else base64.b64decode(chunk["data"])


def _fitting(present: list[Any], waiting: list[Any]) -> list[Any]:
    """As many of the first events waiting as a document takes that holds those present; none if it is full."""
    part: list[Any] = []
    size = len(json.dumps(present))
    for event in waiting[: max(0, SEGMENT_EVENTS - len(present))]:
        if size >= SEGMENT_BYTES:
            break
        part.append(event)
        size += len(json.dumps(event)) + 2
    return part


def _in_parts(items: list[str]) -> Iterator[list[str]]:
    """The items in lists that each fit in a document."""
    part: list[str] = []
    size = 0
    for item in items:
        part.append(item)
        size += len(json.dumps(item)) + 2
        if size >= SEGMENT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
