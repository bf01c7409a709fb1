"""A small client of the service: questions in, typed answers out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.http.messages import (
    EventsAnswer,
    Forgotten,
    FoundItems,
    History,
    ItemAnswer,
    ItemDetails,
    LiveChanged,
    LiveItems,
    ModelInformation,
    Problem,
    Recommended,
    Touched,
)

Message = TypeVar("Message")
Id = str | int


class ServiceError(LorentzrecError):
    """The service has not answered as asked. `problem` is its own account of why; None if it could not be reached."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class Client:
    """Asks a service. Safe to share between threads; use it in a `with` block, or call `close` at the end.

        with Client("http://127.0.0.1:8000") as client:
            client.add_events([{"user": "ann", "item": "sku-1"}])
            for item in client.recommend(user="ann", k=5).items:
                print(item.id, item.title, item.score)

    A service that cannot answer now (503) or cannot be reached is asked again, `retries` times, after the pause it asks
    for. That is safe for events, too: the client gives each an id, so none counts twice.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 10.0, retries: int = 2) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._retries = retries
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def recommend(
        self, history: Sequence[Id] | None = None, *, user: Id | None = None, k: int = 10, **wishes: Any
    ) -> Recommended:
        """The best items for a history (oldest first), or for a customer of the store.

        wishes: context, exclude, allow, categories, exclude_seen, diversity, reasons, twin.
        """
        return self._ask(Recommended, "POST", "/v1/recommend", {"history": history, "user": user, "k": k, **wishes})

    def similar(self, item: Id, k: int = 10, **wishes: Any) -> Recommended:
        """The items nearest to an item. wishes: categories, exclude, diversity, twin."""
        return self._ask(Recommended, "GET", f"/v1/items/{_part(item)}/similar", parameters={"k": k, **wishes})

    def basket(self, items: Sequence[Id], k: int = 10, **wishes: Any) -> Recommended:
        """What goes with the items of a basket. wishes: exclude, allow, categories, diversity, reasons, twin."""
        return self._ask(Recommended, "POST", "/v1/basket", {"items": items, "k": k, **wishes})

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> EventsAnswer:
        """Send events: user and item, perhaps time and id. They are durable when this returns.

        Give the time that your data will have: then `publish --histories` knows the event again.
        """
        sent = [{**event, "id": secrets.token_hex(12) if event.get("id") is None else event["id"]} for event in events]
        return self._ask(EventsAnswer, "POST", "/v1/events", {"events": sent})

    def history(self, user: Id, limit: int = 100) -> list[Touched]:
        """The newest events of a customer, oldest first."""
        return self._ask(History, "GET", f"/v1/users/{_part(user)}/history", parameters={"limit": limit}).history

    def forget(self, user: Id) -> int:
        """Erase a customer; the number of events that were kept."""
        return self._ask(Forgotten, "DELETE", f"/v1/users/{_part(user)}").events

    def search(self, query: str = "", limit: int = 20) -> list[ItemDetails]:
        """Items by the words of their titles; the most popular ones without a query."""
        return self._ask(FoundItems, "GET", "/v1/items", parameters={"query": query, "limit": limit}).items

    def item(self, item: Id) -> ItemAnswer:
        """What is known of an item."""
        return self._ask(ItemAnswer, "GET", f"/v1/items/{_part(item)}")

    def live_items(self) -> list[str] | None:
        """The items that may be recommended; None if all may."""
        return self._ask(LiveItems, "GET", "/v1/live").items

    def set_live_items(self, items: Sequence[Id] | None) -> LiveChanged:
        """Replace the live items; None makes all live."""
        return self._ask(LiveChanged, "PUT", "/v1/live", {"items": items})

    def change_live_items(self, add: Sequence[Id] = (), remove: Sequence[Id] = ()) -> LiveChanged:
        """Add to the live items, and remove from them."""
        return self._ask(LiveChanged, "PATCH", "/v1/live", {"add": add, "remove": remove})

    def model(self) -> ModelInformation:
        """The version that answers now."""
        return self._ask(ModelInformation, "GET", "/v1/model")

    def _ask(
        self,
        kind: type[Message],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Message:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        for attempts_left in range(self._retries, -1, -1):
            try:
                response = self._http.request(method, path, content=content, headers=headers, params=parameters)
            except httpx.TransportError as error:
                failure, pause = ServiceError(f"{self._http.base_url} cannot be reached ({error}): is it running?"), 0.5
            else:
                if response.is_success:
                    return msgspec.json.decode(response.content, type=kind)
                failure, pause = _failure(response), _pause(response.headers.get("Retry-After", ""))
                if response.status_code != 503:
                    raise failure
            if attempts_left:
                time.sleep(pause)
        raise failure


def _part(id: Id) -> str:
    return quote(str(id), safe="")


def _pause(wish: str) -> float:
    """The seconds that Retry-After asks for, as a number or as a date; one if it says nothing that can be read."""
    if wish.isdecimal():
        return float(wish)
    try:
        return max(0.0, parsedate_to_datetime(wish).timestamp() - time.time())
    except ValueError:
        return 1.0


def _failure(response: httpx.Response) -> ServiceError:
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        return ServiceError(f"{response.url} answered {response.status_code} and no problem document: check the URL")
    return ServiceError(f"{problem.title}: {problem.detail}", problem)
