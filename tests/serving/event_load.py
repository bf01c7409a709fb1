"""Senders that post events to a service over HTTP, record which were acknowledged, and look for them in the store."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event as Signal
from threading import Lock, Thread
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

import httpx

from lorentzrec.serving.stores.address import open_store

REQUEST_SECONDS = 30.0
PAUSE_SECONDS = 0.02
"""Between a refusal and the next attempt."""


class Sent(NamedTuple):
    """An event that was acknowledged with 200."""

    user: str
    time: float
    begun: float
    """When the request that was acknowledged began, by `time.monotonic`."""


@dataclass(frozen=True)
class Found:
    """Faults in what a store holds; all empty if there are none."""

    missing: list[tuple[str, float]]
    duplicated: list[tuple[str, float]]


@dataclass
class EventLoad:
    """Threads that send one batch of events after the other, each again until it is acknowledged; a context manager.

    Each sender has a customer of its own, and one that all share; batches have one event or five. Every event has a
    time of its own, so it is identified by customer and time. A batch is repeated with the same ids: that is what could
    store an event twice.
    """

    url: str
    senders: int = 4
    label: str = field(default_factory=lambda: uuid4().hex[:8])

    def __post_init__(self) -> None:
        self.acknowledged: list[Sent] = []
        self.tried: set[tuple[str, float]] = set()
        self.refused: Counter[str] = Counter()
        """Other outcomes by status, or by the name of the error."""
        self._lock, self._over, self._numbers = Lock(), Signal(), itertools.count(1)
        self._threads = [Thread(target=self._send, args=(str(one),), daemon=True) for one in range(self.senders)]

    def __enter__(self) -> EventLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more; waits for requests under way."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * REQUEST_SECONDS)

    def wait_for(self, more: int, seconds: float = 60.0) -> None:
        """Until this many more events were acknowledged."""
        end, wanted = time.monotonic() + seconds, len(self.acknowledged) + more
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, f"no more acknowledgements; refused: {dict(self.refused)}"
            time.sleep(0.01)

    def _send(self, sender: str) -> None:
        with httpx.Client(base_url=self.url, timeout=REQUEST_SECONDS) as http:
            for turn in itertools.count():
                user = f"{self.label}-{'shared' if turn % 4 == 3 else sender}"
                events = [self._next_event(user) for _ in range(5 if turn % 8 == 7 else 1)]
                while not self._post(http, user, events):
                    if self._over.wait(PAUSE_SECONDS):
                        return
                if self._over.is_set():
                    return

    def _next_event(self, user: str) -> dict[str, object]:
        number = next(self._numbers)
        self.tried.add((user, float(number)))
        return {"user": user, "item": f"i{number % 40}", "time": float(number), "id": f"event-{number}"}

    def _post(self, http: httpx.Client, user: str, events: list[dict[str, object]]) -> bool:
        begun = time.monotonic()
        try:
            outcome = str(http.post("/v1/events", json={"events": events}).status_code)
        except httpx.TransportError as error:
            outcome = type(error).__name__
        with self._lock:
            if outcome == "200":
                self.acknowledged += [Sent(user, float(str(event["time"])), begun) for event in events]
            else:
                self.refused[outcome] += 1
        return outcome == "200"


def stored_events(users: Iterable[str], store: str) -> Counter[tuple[str, float]]:
    """How often each event of these customers is in the store at this address."""
    with closing(open_store(store)) as opened:
        return Counter((user, event.time) for user in set(users) for event in opened.history(user, limit=10**7))


def look_for(events: Iterable[Sent], store: str) -> Found:
    """Which of the events are not in the store at this address, and which events of their customers are there twice."""
    wanted = [(event.user, event.time) for event in events]
    stored = stored_events((user for user, _ in wanted), store)
    missing = [event for event in wanted if event not in stored]
    return Found(missing, [event for event, count in stored.items() if count > 1])
