"""Group commit: events that arrive while a transaction runs are stored together in the next one.

A transaction ends when its events are on disk, which takes milliseconds however few they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.stores.histories import Added, Event, check_events
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.worker.guarded_store import GuardedStore

EVENTS_A_SECOND = 200
"""The write rate of the slowest store if every event is of another customer. It decides how long the store may take."""


class EventWriter:
    """Adds events to the store of this machine, for requests of one event loop. Batches are stored as they arrive."""

    def __init__(self, store: GuardedStore) -> None:
        self._store = store
        self._waiting: list[tuple[Sequence[Event], asyncio.Future[Added]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, events: Sequence[Event]) -> Added:
        """What became of a batch, once it is durable. It is refused as a whole if one of its events is."""
        check_events(events)  # here, so that the batches of others are stored
        outcome: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._waiting.append((events, outcome))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await outcome

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._write_group(group)
        finally:
            self._writing = None

    async def _write_group(self, group: Sequence[tuple[Sequence[Event], asyncio.Future[Added]]]) -> None:
        batches = [events for events, _ in group]
        try:
            found = await self._store.write(
                partial(_add_batches, batches=batches), seconds=find_deadline(self._store, sum(map(len, batches)))
            )
        except Exception as error:
            for _, outcome in group:
                if not outcome.done():
                    outcome.set_exception(_copy(error))
        else:
            for added, (_, outcome) in zip(found, group, strict=True):
                if not outcome.done():  # the client may be gone
                    outcome.set_result(added)


def find_deadline(store: GuardedStore, events: int) -> float:
    """The seconds that a store may take to add this many events."""
    return store.seconds + events / EVENTS_A_SECOND


def _add_batches(store: Store, batches: Sequence[Sequence[Event]]) -> list[Added]:
    return store.add_batches(batches)


def _copy(error: Exception) -> Exception:
    """Each request raises its own: a traceback grows where it is raised."""
    return StoreUnavailable(str(error)) if isinstance(error, StoreUnavailable) else error
