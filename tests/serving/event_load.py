"""Senders that post events to a service over HTTP, remember which were acknowledged, and look for them in the store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event as Signal
from threading import Lock, Thread
from types import TracebackType
from uuid import uuid4

import httpx

from lorentzrec.serving.stores.address import open_store

PAUSE_SECONDS = 0.02
"""Between a refusal and the next attempt."""


@dataclass(frozen=True)
class Sent:
    """An event that was acknowledged with 200."""

    user: str
    number: int
    begun: float
    """When the request that was acknowledged began, by `time.monotonic`."""

    @property
    def id(self) -> str:
        return f"{self.user}-{self.number}"


@dataclass(frozen=True)
class Found:
    """What became of acknowledged events."""

    missing: list[str]
    duplicated: list[str]


@dataclass
class EventLoad:
    """Threads that send one event after the other, each again until it is acknowledged; a context manager.

    Each sender is a customer whose events have the times 0, 1, 2, ...; so an event is known by customer and time.
    """

    url: str
    senders: int = 4
    item: str = "i1"
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 30.0
    """The longest that a request may take."""

    def __post_init__(self) -> None:
        self.acknowledged: list[Sent] = []
        self.refused: Counter[str] = Counter()
        """Other outcomes by status, or by the name of the error."""
        self._lock, self._over, mark = Lock(), Signal(), uuid4().hex[:8]
        self._threads = [
            Thread(target=self._send, args=(f"{mark}-{number}",), daemon=True) for number in range(self.senders)
        ]

    def __enter__(self) -> EventLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more; requests under way are waited for."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int, seconds: float = 60.0) -> None:
        """Until this many more events were acknowledged."""
        end, wanted = time.monotonic() + seconds, len(self.acknowledged) + more
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, f"no more acknowledgements; refused: {dict(self.refused)}"
            time.sleep(0.01)

    def _send(self, user: str) -> None:
        number = 0
        with httpx.Client(base_url=self.url, timeout=self.seconds, headers=self.headers) as http:
            while not self._over.is_set():
                event = {"user": user, "item": self.item, "time": number, "id": f"{user}-{number}"}
                begun = time.monotonic()
                try:
                    outcome = str(http.post("/v1/events", json=event).status_code)
                except httpx.TransportError as error:
                    outcome = type(error).__name__
                with self._lock:
                    if outcome == "200":
                        self.acknowledged.append(Sent(user, number, begun))
                        number += 1
                    else:
                        self.refused[outcome] += 1
                if outcome != "200":
                    time.sleep(PAUSE_SECONDS)


def look_for(events: Iterable[Sent], store: str) -> Found:
    """Which of the events are not in the store at this address, and which are there twice."""
    by_user: dict[str, list[Sent]] = {}
    for event in events:
        by_user.setdefault(event.user, []).append(event)
    missing, duplicated = [], []
    with closing(open_store(store)) as opened:
        for user, sent in by_user.items():
            kept = Counter(round(touch.time) for touch in opened.history(user, limit=10_000_000))
            missing += [event.id for event in sent if event.number not in kept]
            duplicated += [f"{user}-{number}" for number, count in kept.items() if count > 1]
    return Found(missing, duplicated)
