"""The store in Azure Cosmos DB.

histories     partition /customer: the events of a customer as a list, in documents of about a thousand events each;
              the time of an erasure, in a partition of its own named by a salted hash; "salt" has the salt;
              "new-items" one document per new item
catalogue     partition /place: "state" is one document, replaced by ETag, with the last activation of each arm and the
              last change of rules; "activations" one document for each earlier activation; "versions" one per version;
              "rules" one document for each earlier change of the rules; "rules-TOKEN" the parts of its text;
              "files-TOKEN" the chunks of a version; "live-TOKEN" the live or removed items in parts; "publishers" one
              document for each process that publishes now, renewed every minute

Ids and partitions are digests or tokens, since Cosmos DB limits what they may hold. A batch of events is all or nothing
for each customer; if it fails halfway, sending it again does no harm.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.catalogue import LiveCounts, LiveItems
from lorentzrec.serving.stores.cosmos_documents import Account, Conflict, Document
from lorentzrec.serving.stores.cosmos_versions import CosmosVersions, read_arms
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import (
    LATEST_SECONDS,
    OVERLAP_SECONDS,
    Added,
    Event,
    EventMark,
    EventPage,
    RecentEvents,
    StoredEvent,
    drop_erased,
    sort_batch,
)
from lorentzrec.serving.stores.ids import make_key, salted_key
from lorentzrec.serving.stores.new_items import Change, NewItem, Origin, plan_changes
from lorentzrec.serving.stores.rules import KEPT_DOCUMENTS, Next, RuleChange
from lorentzrec.serving.stores.snapshot import CheckedPart, Erasure, Pruned, Snapshot, StoreSize
from lorentzrec.serving.stores.store import Migrating, Store, is_behind
from lorentzrec.serving.stores.versions import State

SEGMENT_EVENTS, SEGMENT_BYTES = 1000, 1_000_000
"""A document with this many events, or this much text, is full: the next event begins another."""
PARALLEL_REQUESTS = 8
RULES = "rules"
"""The partition of the catalogue that has the changes of rules."""
RULE_CHARACTERS = 400_000
"""Of a document of rules in one document of Cosmos DB, which holds 2 MB."""
NEW_ITEMS = "new-items"
"""The partition of the histories that has the new items, since these name customers."""
NEW_STATE: Document = {
    "activations": {},
    "live": None,
    "removed": None,
    "live_parts": 0,
    "live_revision": 0,
    "items_revision": 0,
    "items_reset": 0,
    "restoring": None,
    "rules": None,
}
Value = TypeVar("Value")
Result = TypeVar("Result")
MIGRATIONS: tuple[Callable[[CosmosStore], None], ...] = ()
"""Changes of documents, from one format to the next: a released one never changes, a new one follows it.

A new store has format 1, and one more for each migration. A migration must be such that it can be done again."""


class CosmosStore(CosmosVersions, Store):
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
                    first = {"id": "state", "place": "state", "format": 1 + len(MIGRATIONS)}
                    self._catalogue.create({**first, **NEW_STATE})
            self._check_format(migrate)
        except BaseException:
            self.close()
            raise

    def _check_format(self, migrate: Migrating | None) -> None:
        """Refuse documents of another release; `migrate` changes those of an older one."""
        state = self._catalogue.read("state", "state")
        if state is None:
            return  # every call reports that
        steps = 1 + len(MIGRATIONS)
        if is_behind(self.url, state["format"], steps, migrate) and migrate is not None:
            for number, change in enumerate(MIGRATIONS[state["format"] - 1 :], state["format"] + 1):
                migrate(number, steps)
                change(self)
                self._retry_on_conflict(partial(self._set_format, number))

    def _set_format(self, number: int) -> None:
        self._catalogue.replace({**self._state(), "format": number})

    def close(self) -> None:
        self._account.close()

    # Versions

    def state(self) -> State:
        state = self._state()
        revisions = state["live_revision"], state["items_revision"], state["items_reset"]
        return State(
            read_arms(state), *revisions, rules_revision=0 if state["rules"] is None else state["rules"]["revision"]
        )

    def _places_in_use(self) -> set[str]:
        state = self._state()
        texts = [one["token"] for one in [*self._catalogue.all(RULES), state["rules"]] if one is not None]
        return {"state", f"live-{_live_token(state)}", RULES, *(f"{RULES}-{token}" for token in texts)}

    # Histories

    def _add_events(self, events: Sequence[Event], respect_erasures: bool) -> Added:
        by_user: dict[str, list[Event]] = {}
        for event in events:
            by_user.setdefault(event.user, []).append(event)
        add = partial(self._add_unless_erased, salt=self._salt()) if respect_erasures else self._add
        if len(by_user) == 1:
            return add(*by_user.popitem())
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as threads:
            return sum(threads.map(add, by_user.keys(), by_user.values()), Added(0, 0))

    def _add(self, user: str, events: Sequence[Event], erasure: float | None = None) -> Added:
        """Append what is new to the customer's last document, or to new ones.

        Whether a document is full depends on the document alone, and numbers have no gaps. So two writers always want
        the same document, and the slower one gets a conflict, reads again, and finds its duplicates. Only an erasure
        removes the document before a new one; that is checked.
        """
        customer, accepted = make_key(user), 0

        def append() -> Added:
            nonlocal accepted
            segments = self._histories.all(customer)
            wanted, erased = events, frozenset[str]()
            if erasure is not None:
                wanted, erased = drop_erased(events, {user: erasure})
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
                if segment is None or not _select_fitting(segment["events"], waiting, SEGMENT_EVENTS):
                    full, number = segment, 0 if segment is None else int(segment["id"]) + 1
                    segment = {"id": f"{number:08d}", "customer": customer, "events": []}
                part = _select_fitting(segment["events"], waiting, SEGMENT_EVENTS)
                write = self._histories.replace if "_etag" in segment else self._histories.create
                segment = write({**segment, "user": user, "events": segment["events"] + part})
                if full is not None and not self._is_unchanged(full):
                    self._histories.delete(segment)
                    raise Conflict
                accepted += len(part)
                waiting = waiting[len(part) :]
            return Added(accepted, len(wanted) - accepted, erased)

        return self._retry_on_conflict(append)

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
        removed = self._retry_on_conflict(lambda: self._remove_until(make_key(user), after))
        return Added(max(0, added.accepted - removed), added.duplicates, added.erased | {user})

    def _remove_until(self, customer: str, erasure: float) -> int:
        removed = 0
        for segment in self._histories.all(customer):
            later = [event for event in segment["events"] if event[0] > erasure]
            if later != segment["events"]:
                self._histories.replace({**segment, "events": later})
                removed += len(segment["events"]) - len(later)
        return removed

    def _history(self, user: str, limit: int) -> list[StoredEvent]:
        """Reads all documents of the customer for any `limit`.

        They hold events in the order of their arrival: one that came late may be the newest by arrival and the oldest
        by time, so the newest documents need not hold the newest events. `_add` needs all of them to find duplicates.
        """
        events = [event for segment in self._histories.all(make_key(user)) for event in segment["events"]]
        return [StoredEvent(item, float(moment), *weight) for moment, item, _, *weight in sorted(events)[-limit:]]

    def all_events(self) -> Iterator[EventPage]:
        for segment in self._all_histories.scan("c.user, c.events", "IS_DEFINED(c.events)"):
            if events := segment["events"]:
                columns = [(item, float(moment), *(weight or [1.0]), id) for moment, item, id, *weight in events]
                yield EventPage([segment["user"]] * len(events), *zip(*columns, strict=True))

    def recent_events(
        self, since: float, take: Callable[[RecentEvents], None], after: EventMark | None = None
    ) -> EventMark:
        """Reads all documents that have changed: `_ts`, the second of the last change, has an index in each account."""
        begun = time.monotonic()
        store = self._salt() or ""
        start = since - LATEST_SECONDS if after is None else after.arrived - OVERLAP_SECONDS
        notes = self._all_histories.scan("c._ts", "c.id = 'erased' AND c._ts >= @start", start=math.floor(start))
        moments = [int(note["_ts"]) for note in notes]  # by the clock of the store: those of machines differ
        last = max(moments, default=0)
        erased = last + moments.count(last) / 1e6 if moments else 0.0 if after is None else after.erased
        newest = 0.0 if after is None else after.arrived
        changed = self._all_histories.scan(
            "c.user, c.events, c._ts", "IS_DEFINED(c.events) AND c._ts >= @start", start=math.floor(start)
        )
        for segment in changed:
            newest = max(newest, float(segment["_ts"]))
            events = [
                (item, float(moment))
                for moment, item, _, *weight in segment["events"]
                if moment > since and (weight or [1])[0] > 0
            ]
            if events:
                take(RecentEvents([segment["user"]] * len(events), *zip(*events, strict=True)))
        # A document that changed while others were read is read again.
        read_until = max(newest - (time.monotonic() - begun), 0.0 if after is None else after.arrived)
        return EventMark(read_until, erased, store)

    def erasures(self, users: Sequence[str]) -> dict[str, float]:
        if (salt := self._salt()) is None:
            return {}
        notes = self._all_histories.scan("c.customer, c.erased", "c.id = 'erased'")
        moments = {note["customer"]: float(note["erased"]) for note in notes}
        keys = {user: salted_key(make_key(user), salt) for user in users}
        return {user: moments[key] for user, key in keys.items() if key in moments}

    def _forget(self, user: str) -> int:
        customer, removed = make_key(user), 0
        salted = salted_key(customer, self._retry_on_conflict(self._find_or_make_salt))
        self._histories.put({"id": "erased", "customer": salted, "erased": time.time()})

        def erase() -> None:
            nonlocal removed
            for segment in reversed(self._histories.all(customer)):
                self._histories.delete(segment)
                removed += len(segment["events"])
            if self._histories.all(customer, "c.id"):
                raise Conflict  # another process has added to them meanwhile

        # New items first, so that a process that dies here leaves no customer of an item without the event. Then once
        # more, because a customer may be noted for an item until the events are gone.
        self._change_new_items(None, lambda item: item.without_customer(user))
        self._retry_on_conflict(erase)
        self._change_new_items(None, lambda item: item.without_customer(user))
        return removed

    def _erasure(self, user: str, salt: str | None) -> float:
        """When a customer was erased; minus infinity if never."""
        note = None if salt is None else self._histories.read(salted_key(make_key(user), salt), "erased")
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
        return self._retry_on_conflict(lambda: self._live(self._state()))

    def _set_live_items(self, items: list[str] | None) -> None:
        self._retry_on_conflict(lambda: self._switch_live(self._state(), LiveItems(items)))

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

        return self._retry_on_conflict(change)

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

    # New items: each document has the revision of its last change. It is written before the state gets that revision,
    # so whoever reads the state and then the documents misses none. A removal leaves no document, so the state also has
    # the revision of the last one, `items_reset`: a reader who has an older revision reads all documents.

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> list[NewItem]:
        condition = "c.origin = @origin AND c.changed > @since"
        found = [
            document
            for origin in Origin
            for document in self._histories.first(limit, "item", NEW_ITEMS, condition, origin=origin, since=since)
        ]
        return sorted((NewItem.from_json(one["item"], one["content"]) for one in found), key=lambda item: item.id)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> tuple[int, int]:
        written: dict[str, NewItem | None] = {}

        def room(origin: Origin) -> int:
            return limit - len(self._histories.all(NEW_ITEMS, "c.id", "c.origin = @origin", origin=origin))

        def step() -> tuple[int, int]:
            state, documents = self._state(), self._documents(items)
            revision = state["items_revision"] + 1
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
                    self._histories.create({"id": make_key(item), "customer": NEW_ITEMS, **content})

            # What was written before a conflict is written again, with the revision that the state will get.
            wanted = {item: found[item] for item in written if item in found} | changes
            _do_all(write, wanted.items())
            if written:
                removal = {"items_reset": revision} if None in written.values() else {}
                self._catalogue.replace({**state, "items_revision": revision, **removal})
            return len(written), left_out

        return self._retry_on_conflict(step)

    def _documents(self, items: Sequence[str] | None) -> dict[str, Document]:
        """The documents of those that are there, by item."""
        if items is None:
            found: Iterable[Document | None] = self._histories.all(NEW_ITEMS)
        else:
            found = _do_all(lambda item: self._histories.read(NEW_ITEMS, make_key(item)), items)
        return {document["item"]: document for document in found if document is not None}

    # Rules: the state has the newest change, and a document each the earlier ones. Their texts are in parts.

    def _rules(self, revision: int | None) -> RuleChange | None:
        def read() -> RuleChange | None:
            newest = self._state()["rules"]
            found = newest
            if newest is not None and revision not in (None, newest["revision"]):
                found = self._catalogue.read(RULES, f"{revision:012d}")
            if found is None or revision not in (None, found["revision"]):
                return None
            parts = [] if found["token"] is None else self._catalogue.all(f"{RULES}-{found['token']}")
            if len(parts) != found["parts"]:
                if self._state()["rules"] != newest:
                    raise Conflict  # they were replaced after the state was read
                return _read_change(found)
            return replace(_read_change(found), document="".join(part["text"] for part in parts) if parts else None)

        return self._retry_on_conflict(read)

    def rules_log(self) -> list[RuleChange]:
        newest = self._state()["rules"]
        if newest is None:
            return []
        earlier = [one for one in self._catalogue.all(RULES) if one["revision"] < newest["revision"]]
        return sorted(map(_read_change, [*earlier, newest]), key=lambda one: -one.revision)

    def _add_rules(self, decide: Next) -> RuleChange:
        def add() -> RuleChange:
            state = self._state()
            before = state["rules"]
            change = decide(0 if before is None else int(before["revision"]))
            entry, parts = self._write_document(change)
            if before is not None:
                self._catalogue.put({"id": f"{before['revision']:012d}", "place": RULES, **before})
            try:
                self._catalogue.replace({**state, "rules": entry})
            except Conflict:
                self._delete_all(parts)
                raise
            old = self._catalogue.read(RULES, f"{change.revision - KEPT_DOCUMENTS:012d}")
            if old is not None and old["token"] is not None:
                self._catalogue.replace({**old, "token": None})
                self._delete_all(self._catalogue.all(f"{RULES}-{old['token']}", "c.id, c.place"))
            return change

        return self._retry_on_conflict(add)

    def _write_document(self, change: RuleChange) -> tuple[Document, list[Document]]:
        """The entry of a change and the parts of its document, which are written."""
        token, parts = None, list[Document]()
        if change.document is not None:
            token = secrets.token_hex(8)
            for number, start in enumerate(range(0, len(change.document), RULE_CHARACTERS)):
                text = change.document[start : start + RULE_CHARACTERS]
                parts.append({"id": f"{number:08d}", "place": f"{RULES}-{token}", "text": text})
                self._catalogue.put(parts[-1])
        entry = {name: value for name, value in asdict(change).items() if name != "document"}
        return {**entry, "token": token, "parts": len(parts)}, parts

    def _put_rules(self, log: list[RuleChange]) -> None:
        entries = [self._write_document(change)[0] for change in log]
        for entry in entries[:-1]:
            self._catalogue.put({"id": f"{entry['revision']:012d}", "place": RULES, **entry})
        newest = entries[-1] if entries else None
        self._retry_on_conflict(lambda: self._catalogue.replace({**self._state(), "rules": newest}))

    # The whole store: read, measured, pruned, restored

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        # Erasures first: one that happens during the snapshot is not in it, but events of its customer may be, as if
        # the erasure followed the snapshot.
        notes = self._all_histories.scan("c.customer, c.erased", "c.id = 'erased'")
        erasures = sorted((str(note["customer"]), float(note["erased"])) for note in notes)
        yield Snapshot(
            activations=self.activations(),
            live=self.live_items(),
            new_items=self.new_items(),
            rules=[change for one in reversed(self.rules_log()) if (change := self._rules(one.revision)) is not None],
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
        origins = Counter(str(item["origin"]) for item in self._histories.all(NEW_ITEMS, "c.id, c.origin"))
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
            removed = self._retry_on_conflict(partial(self._prune_customer, customer, before, newest, dry_run))
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
        state = self._catalogue.read("state", "state")
        return None if state is None else state["restoring"]

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        def mark() -> None:
            state = self._state()
            if state["restoring"] is not None:
                raise StoreFault.RESTORING.error(store=self.url)
            check()
            self._catalogue.replace({**state, "restoring": backup})  # unless it has changed since the check began

        self._retry_on_conflict(mark)

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        self._marked_state(backup)
        if salt is not None:
            self._histories.put({"id": "salt", "customer": "salt", "salt": salt})
        for customer, moment in erasures:
            self._histories.put({"id": "erased", "customer": customer, "erased": moment})
        last = {}
        for number, entry in enumerate(log):
            last[entry.arm] = {"number": number, "entry": asdict(entry)}
            self._catalogue.put({"id": f"{number:012d}", "place": "activations", "entry": asdict(entry)})
        # Last, and in one step: this makes versions the current ones.
        change = {"activations": last, "restoring": None}
        self._retry_on_conflict(lambda: self._catalogue.replace({**self._marked_state(backup), **change}))

    def _marked_state(self, backup: str) -> Document:
        state = self._state()
        if state["restoring"] != backup:
            raise StoreFault.RESTORE_ENDED.error(store=self.url)
        return state


def _read_change(entry: Document) -> RuleChange:
    return RuleChange(entry["revision"], entry["time"], entry["reason"], entry["who"])


def _live_token(state: Document) -> str | None:
    """Names the list of live items or, if there is none, of removed ones; None if every item is live."""
    token: str | None = state["removed"] if state["live"] is None else state["live"]
    return token


def _select_fitting(present: Sequence[Any], waiting: Sequence[Any], limit: int) -> list[Any]:
    """The first entries of `waiting` that fit in a document that holds those present; none if it is full."""
    part: list[Any] = []
    size = len(json.dumps(present))
    for entry in waiting[: max(0, limit - len(present))]:
        if size >= SEGMENT_BYTES:
            break
        part.append(entry)
        size += len(json.dumps(entry)) + 2
    return part


def _split_items(items: list[str]) -> Iterator[list[str]]:
    """The items in lists that each fit in a document."""
    while items:
        yield (part := _select_fitting([], items, len(items)))
        items = items[len(part) :]


def _do_all(call: Callable[[Value], Result], values: Iterable[Value]) -> list[Result]:
    """The results of a call for each value, some at a time."""
    with ThreadPoolExecutor(PARALLEL_REQUESTS) as threads:
        return list(threads.map(call, values))


def _is_sound(document: Document) -> bool:
    """Whether a document of a history is in the partition of its customer, and each event has its fields."""
    user, events = document.get("user"), document.get("events")
    if not isinstance(user, str) or not isinstance(events, list) or document["customer"] != make_key(user):
        return False
    return all(
        isinstance(event, list)
        and len(event) in (3, 4)
        and all(isinstance(number, int | float) for number in (event[0], *event[3:]))
        and all(isinstance(text, str) for text in event[1:3])
        for event in events
    )
