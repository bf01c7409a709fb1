"""Random requests against a service whose processes die at commits; a model of the interface checks every response.

A client owns the objects that it changes, so its requests have an order, and `PossibleStates` knows what each object
can be. The model has histories, erasures, new items, live items and activations.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from lorentzrec.serving.stores.address import open_store
from tests.soak.possible_states import PossibleStates, ViolationError
from tests.soak.service import wait_for

CUSTOMERS = 4
"""Of each client, so that there are often several events before an erasure."""
SHOP_ITEMS = 40
"""Items i0, i1, ... of the version."""
NEW_ITEMS = 6
TIMES = 30
"""Few, so that the same event is often sent again."""
REQUEST_SECONDS = 30.0
MOST_PENDING = 3
"""Changes of an object without an acknowledgement, before its client waits and looks."""
SETTLING_SECONDS = 10.0
"""Longer than a worker or a database needs for a write whose client has given up."""

Happening = tuple[str, float]
"""Item and time of an event."""
Live = tuple[Literal["only", "all except"], frozenset[str]]


@dataclass
class Counts:
    """What a client did."""

    acknowledged: int = 0
    uncertain: int = 0
    observed: int = 0


@dataclass
class Client:
    """Sends one request after the other and compares every response with what is possible."""

    url: str
    number: int
    seed: int
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} {self.number}")
        self._http = httpx.Client(base_url=self.url, timeout=REQUEST_SECONDS)

    def close(self) -> None:
        self._http.close()

    def _send(self, method: str, path: str, body: Any = None, expected: tuple[int, ...] = (200,)) -> Any | None:
        """The response, with its status as `status`; None if it is uncertain whether the request had an effect."""
        try:
            response = self._http.request(method, path, json=body)
        except httpx.TransportError:
            response = None
        if response is None or response.status_code == 503:
            self.counts.uncertain += 1
            wait_for(self._alive, "a worker")
            return None
        if response.status_code not in expected:
            raise ViolationError(f"{method} {path} {body}: {response.status_code} {response.text[:300]}")
        if method == "GET":
            self.counts.observed += 1
        else:
            self.counts.acknowledged += 1
        return response.json() | {"status": response.status_code}

    def _alive(self) -> bool:
        try:
            return self._http.get("/v1/model").status_code == 200
        except httpx.TransportError:
            return False


class CustomerClient(Client):
    """Adds events, reads histories, erases customers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        users = [f"model-{self.seed}-{self.number}-{one}" for one in range(CUSTOMERS)]
        self.histories = {user: PossibleStates[frozenset[Happening]](user, frozenset()) for user in users}

    def step(self) -> None:
        user = self._random.choice(list(self.histories))
        if self.histories[user].pending >= MOST_PENDING:
            time.sleep(SETTLING_SECONDS)
            self.histories[user].settle()
            self._read(user)
        match self._random.random():
            case chance if chance < 0.6:
                self._add(user)
            case chance if chance < 0.7:
                self._erase(user)
            case _:
                self._read(user)

    def check(self) -> None:
        for user in self.histories:
            self._read(user)

    def check_store(self, url: str) -> None:
        """Read all histories from the store itself."""
        with closing(open_store(url)) as store:
            for user, history in self.histories.items():
                stored = [(event.item, event.time) for event in store.history(user)]
                self._compare(history, stored, "the store holds")

    def settle(self) -> None:
        for history in self.histories.values():
            history.settle()

    def _add(self, user: str) -> None:
        unknown = self._random.random() < 0.2  # such an event makes a new item known
        items = [f"event-born-{one}" for one in range(NEW_ITEMS)] if unknown else [f"i{n}" for n in range(SHOP_ITEMS)]
        events = {
            (self._random.choice(items), float(self._random.randrange(TIMES)))
            for _ in range(self._random.choice((1, 1, 3)))
        }
        body = {"events": [{"user": user, "item": item, "time": moment} for item, moment in sorted(events)]}
        response, history = self._send("POST", "/v1/events", body), self.histories[user]
        if response is not None:
            accepted = response["accepted"]
            history.observe(
                lambda state: len(events - state) == accepted, f"{accepted} of {sorted(events)} were accepted"
            )
        history.change(lambda state: state | events, acknowledged=response is not None)

    def _erase(self, user: str) -> None:
        response, history = self._send("DELETE", f"/v1/users/{user}"), self.histories[user]
        if response is not None:
            erased = response["events"]
            history.observe(lambda state: len(state) == erased, f"{erased} events were erased")
        history.change(lambda _: frozenset(), acknowledged=response is not None)

    def _read(self, user: str) -> None:
        response = self._send("GET", f"/v1/users/{user}/history")
        if response is not None:
            seen = [(event["item"], event["time"]) for event in response["history"]]
            self._compare(self.histories[user], seen, "the history is")

    @staticmethod
    def _compare(history: PossibleStates[frozenset[Happening]], seen: list[Happening], what: str) -> None:
        if len(set(seen)) < len(seen):
            raise ViolationError(f"{history.name}: an event is there twice: {seen}")
        if [moment for _, moment in seen] != sorted(moment for _, moment in seen):
            raise ViolationError(f"{history.name}: the history is not in the order of time: {seen}")
        history.observe(lambda state: state == frozenset(seen), f"{what} {sorted(seen)}")


class CatalogueClient(Client):
    """Describes and removes new items, and changes which items are live. There is one: live items are shared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [f"model-{self.seed}-item-{one}" for one in range(NEW_ITEMS)]
        self.titles = {item: PossibleStates[str | None](item, None) for item in names}
        self.live = PossibleStates[Live]("live items", ("all except", frozenset()))

    def step(self) -> None:
        if self.live.pending >= MOST_PENDING:
            time.sleep(SETTLING_SECONDS)
            self.live.settle()
            self._read_live()
        match self._random.random():
            case chance if chance < 0.3:
                self._describe(self._random.choice(list(self.titles)))
            case chance if chance < 0.4:
                self._remove(self._random.choice(list(self.titles)))
            case chance if chance < 0.7:
                self._change_live()
            case chance if chance < 0.8:
                self._set_live()
            case _:
                self._read_live()

    def check(self) -> None:
        self._read_live()

    def check_store(self, url: str) -> None:
        with closing(open_store(url)) as store:
            live = store.live_items()
            self._compare_live(live.items, live.removed, "the store holds")
            stored = {item.id: item for item in store.new_items()}
            for item in self.titles:
                self._compare_title(item, stored[item].title if item in stored else None)
            for new in stored.values():
                for user in new.customers:
                    if new.id not in {event.item for event in store.history(user)}:
                        raise ViolationError(f"{new.id}: the customer {user} has no event with it")

    def settle(self) -> None:
        self.live.settle()
        for title in self.titles.values():
            title.settle()

    def _compare_title(self, item: str, seen: str | None) -> None:
        self.titles[item].observe(lambda title: title == seen, f"the store holds the title {seen!r}")

    def _describe(self, item: str) -> None:
        title = f"title {self._random.randrange(100)}"
        response = self._send("PUT", f"/v1/items/{item}", {"title": title, "like": ["i1"]})
        self.titles[item].change(lambda _: title, acknowledged=response is not None)

    def _remove(self, item: str) -> None:
        response, title = self._send("DELETE", f"/v1/items/{item}", expected=(200, 404)), self.titles[item]
        if response is not None:
            there = response["status"] == 200
            title.observe(lambda state: (state is not None) == there, f"it {'was' if there else 'was not'} there")
        title.change(lambda _: None, acknowledged=response is not None)

    def _change_live(self) -> None:
        add, remove = self._choose_items(3), self._choose_items(3)
        response = self._send("PATCH", "/v1/live", {"add": sorted(add), "remove": sorted(remove)})

        def change(live: Live) -> Live:
            kind, items = live
            return (kind, (items - remove) | add) if kind == "only" else (kind, (items | (remove - add)) - add)

        self.live.change(change, acknowledged=response is not None)
        if response is not None:
            self._compare_counts(response)

    def _set_live(self) -> None:
        items = None if self._random.random() < 0.5 else self._choose_items(30)
        body = {"items": None if items is None else sorted(items), "force": True}
        response = self._send("PUT", "/v1/live", body)
        after: Live = ("all except", frozenset()) if items is None else ("only", items)
        self.live.change(lambda _: after, acknowledged=response is not None)
        if response is not None:
            self._compare_counts(response)

    def _compare_counts(self, response: dict[str, Any]) -> None:
        live, removed = response["live"], response["removed"]

        def fits(state: Live) -> bool:
            return (live, removed) == ((len(state[1]), 0) if state[0] == "only" else (None, len(state[1])))

        self.live.observe(fits, f"{live} are live and {removed} removed")

    def _read_live(self) -> None:
        response = self._send("GET", "/v1/live")
        if response is not None:
            self._compare_live(response["items"], response["removed"], "the response is")

    def _compare_live(self, items: list[str] | None, removed: list[str], what: str) -> None:
        seen: Live = ("all except", frozenset(removed)) if items is None else ("only", frozenset(items))
        self.live.observe(lambda state: state == seen, f"{what} {seen}")

    def _choose_items(self, limit: int) -> frozenset[str]:
        return frozenset(f"i{self._random.randrange(SHOP_ITEMS)}" for _ in range(self._random.randint(1, limit)))
