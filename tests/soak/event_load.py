"""Senders of events that write down what was acknowledged, and the comparison with what the store holds."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

import httpx

from lorentzrec.serving.stores.address import open_store
from soak.outcome import Outcome
from soak.service import wait_for

SENDERS = 4
ENOUGH = 25
"""Acknowledged events that show that the service is at work."""
REQUEST_SECONDS = 10.0


@dataclass
class Acknowledged:
    """An event that the service has promised to keep; `sent` is when the request that was acknowledged began."""

    user: str
    time: float
    sent: float


@dataclass
class EventLoad:
    """Several senders, each with a customer of its own and one that all share; every event has a time of its own.

    An event that was not acknowledged is sent again with the same id until it is, or until the load ends: that is what
    might store it twice.
    """

    url: str
    label: str
    acknowledged: list[Acknowledged] = field(default_factory=list)
    tried: set[tuple[str, float]] = field(default_factory=set)
    surprises: Counter[int] = field(default_factory=Counter)
    """Statuses other than 200 and 503."""

    def __post_init__(self) -> None:
        self._ended, self._lock, self._numbers = Event(), Lock(), itertools.count(1)

    @property
    def users(self) -> list[str]:
        return [f"{self.label}-{sender}" for sender in range(SENDERS)] + [f"{self.label}-shared"]

    @contextmanager
    def sending(self) -> Iterator[EventLoad]:
        threads = [Thread(target=self._send, args=(sender,), daemon=True) for sender in range(SENDERS)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            for thread in threads:
                thread.join(2 * REQUEST_SECONDS)

    def wait_for_more(self, number: int = ENOUGH) -> None:
        """Until so many more events are acknowledged."""
        goal = len(self.acknowledged) + number
        wait_for(lambda: len(self.acknowledged) >= goal, f"{number} more acknowledged events")

    def _send(self, sender: int) -> None:
        with httpx.Client(base_url=self.url, timeout=REQUEST_SECONDS) as http:
            for turn in itertools.count():
                user = f"{self.label}-{'shared' if turn % 4 == 3 else sender}"
                events = [self._event(user) for _ in range(5 if turn % 8 == 7 else 1)]
                while not self._post(http, events):
                    if self._ended.wait(0.05):
                        return
                if self._ended.wait(0.01):
                    return

    def _event(self, user: str) -> dict[str, object]:
        number = next(self._numbers)
        self.tried.add((user, float(number)))
        return {"user": user, "item": f"i{number % 40}", "time": number, "id": f"event-{number}"}

    def _post(self, http: httpx.Client, events: list[dict[str, object]]) -> bool:
        sent = time.monotonic()
        try:
            response = http.post("/v1/events", json={"events": events})
        except httpx.TransportError:
            return False
        if response.status_code == 200:
            with self._lock:
                for event in events:
                    self.acknowledged.append(Acknowledged(str(event["user"]), float(str(event["time"])), sent))
            return True
        if response.status_code != 503:
            self.surprises[response.status_code] += 1
        return False

    def compare(self, store_url: str, outcome: Outcome, since: float = 0.0) -> None:
        """Count what is lost of the events sent after `since`, and what is stored twice or was never sent."""
        kept: Counter[tuple[str, float]] = Counter()
        store = open_store(store_url)
        try:
            for user in self.users:
                kept.update((user, touch.time) for touch in store.history(user, 10**7))
        finally:
            store.close()
        expected = [(one.user, one.time) for one in self.acknowledged if one.sent > since]
        lost = [event for event in expected if event not in kept]
        twice = [event for event, number in kept.items() if number > 1]
        outcome.count(acknowledged=len(expected))
        outcome.fault(f"{self.label}: lost {lost[:3]}", lost=len(lost))
        outcome.fault(f"{self.label}: stored twice {twice[:3]}", stored_twice=len(twice))
        outcome.fault(f"{self.label}: never sent", never_sent=sum(event not in self.tried for event in kept))
        outcome.fault(f"{self.label}: statuses {dict(self.surprises)}", other_statuses=self.surprises.total())
