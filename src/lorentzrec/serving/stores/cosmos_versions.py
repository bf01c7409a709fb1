"""Versions in Cosmos DB, their chunks, and the log of activations.

The state has the last activation of each arm. Each earlier one has a document of its own, which is never changed.
"""

from __future__ import annotations

import base64
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from threading import Event as Signal
from threading import Thread
from typing import Protocol, TypeVar

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.activations import Activation, Arms, find_arms
from lorentzrec.serving.stores.cosmos_documents import Conflict, Document, Documents
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.version_files import ChunkedVersions
from lorentzrec.serving.stores.versions import Decide, Versions, check_name

CONFLICT_LIMIT = 200
"""Conflicts in a row with other processes, after which a change is given up."""
ORPHAN_SECONDS = 3600
"""Parts that nothing refers to are removed when they are this old: younger ones may belong to a change under way."""
PUBLISHER_SECONDS, RENEWAL_SECONDS = 600, 60
"""A publisher counts as gone if its document is this old; it renews the document this often."""

Result = TypeVar("Result")


class CosmosVersions(ChunkedVersions, Versions, Protocol):
    """The part of `CosmosStore` that keeps versions."""

    chunk_bytes: int = 2**20
    """As base64 1.4 MB, below the 2 MB that a document may have."""
    _catalogue: Documents
    _chunks: Documents

    def _state(self) -> Document:
        state = self._catalogue.read("state", "state")
        if state is None:
            raise StoreFault.STATE_LOST.error(store=self.url)
        return state

    def _retry_on_conflict(self, step: Callable[[], Result]) -> Result:
        """Do `step`, and repeat it from its reads on while other processes are faster with their writes."""
        for _ in range(CONFLICT_LIMIT):
            try:
                return step()
            except Conflict:
                time.sleep(random.uniform(0, 0.05))
        raise StoreFault.BUSY.error(store=self.url, reason="other processes keep changing the same document")

    def _places_in_use(self) -> set[str]:
        """The partitions of the catalogue that hold neither versions nor activations, and must stay."""

    def versions(self) -> list[str]:
        found = self._catalogue.all("versions", "c.id, c.complete")
        return [document["id"] for document in reversed(found) if document["complete"]]

    def activations(self) -> list[Activation]:
        last = self._state()["activations"].values()  # first: what was earlier than these has its document by now
        end = max((one["number"] for one in last), default=-1)
        numbered = {int(one["id"]): one["entry"] for one in self._catalogue.all("activations") if int(one["id"]) < end}
        numbered |= {one["number"]: one["entry"] for one in last}
        return [Activation(**entry) for _, entry in sorted(numbered.items())]

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

    def _activate(self, decide: Decide) -> None:
        entry, before, after = self._retry_on_conflict(partial(self._append, decide))
        # A process that discards a version hides it first and reads the state then: one of the two always sees the
        # other.
        try:
            if not entry.ends:
                self._complete(entry.version)
        except InputError:
            with suppress(Conflict):  # another activation followed
                self._catalogue.replace({**after, "activations": before})
            raise

    def _append(self, decide: Decide) -> tuple[Activation, Document, Document]:
        """Make this the last activation of its arm; returns it, the last ones before it, and the new state.

        The one before gets its own document first. That changes nothing: until the state is replaced, it is also there.
        """
        state = self._state()
        entry, before = decide(read_arms(state)), state["activations"]
        if not entry.ends:
            self._complete(entry.version)
        if (last := before.get(entry.arm)) is not None:
            self._catalogue.put({"id": f"{last['number']:012d}", "place": "activations", "entry": last["entry"]})
        number = max((one["number"] for one in before.values()), default=-1) + 1
        after = before | {entry.arm: {"number": number, "entry": asdict(entry)}}
        return entry, before, self._catalogue.replace({**state, "activations": after})

    def discard(self, name: str) -> None:
        version = self._version(name)
        if version is None:
            raise self._no_version(name)
        try:
            if not self._is_live(name):
                version = self._catalogue.replace({**version, "complete": False})
            if not self._is_live(name):
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
        versions = self._catalogue.all("versions")
        activated = {entry.version for entry in self.activations()}
        publishers = self._catalogue.all("publishers", "c.id, c.place, c._ts")
        if any(publisher["_ts"] > time.time() - PUBLISHER_SECONDS for publisher in publishers):
            return 0
        for version in versions:
            if not (version["complete"] and version["id"] in activated):
                with suppress(Conflict, InputError):  # it was completed, activated or removed meanwhile
                    self.discard(version["id"]) if version["complete"] else self._remove(version)
                    removed += 1
        in_use = {"activations", "versions", *self._places_in_use(), *(f"files-{one['token']}" for one in versions)}
        orphans = [
            document
            for document in self._catalogue.everywhere("c.id, c.place, c._ts")
            if document["place"] not in in_use and document["_ts"] < time.time() - ORPHAN_SECONDS
        ]
        self._delete_all(orphans)
        return removed + len({document["place"] for document in orphans})

    def _is_live(self, name: str) -> bool:
        return name in [arm.version for arm in read_arms(self._state()).values()]

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

    # Chunks of versions; a version is its document

    def _begin_upload(self, name: str, manifest: bytes) -> Document:
        return self._retry_on_conflict(lambda: self._find_or_create(name, base64.b64encode(manifest).decode()))

    def _find_or_create(self, name: str, encoded: str) -> Document:
        version = self._version(name)
        if version is not None and version["manifest"] != encoded:
            if version["complete"]:
                raise StoreFault.OTHER_CONTENT.error(name=name, store=self.url)
            self._remove(version)  # an interrupted upload of other content: nothing of it could be resumed
            version = None
        if version is None:
            start = {"id": name, "place": "versions", "token": secrets.token_hex(8), "manifest": encoded}
            version = self._catalogue.create({**start, "complete": False})
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


def read_arms(state: Document) -> Arms:
    """The live arms according to the state."""
    return find_arms(Activation(**one["entry"]) for one in state["activations"].values())
