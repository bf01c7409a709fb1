"""A small client of the HTTP service with typed responses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.http.messages import (
    ErasureResponse,
    EventsResponse,
    HistoryEvent,
    HistoryResponse,
    ItemResponse,
    ItemsResponse,
    LiveItemsChanged,
    LiveItemsResponse,
    ModelInformation,
    NewItemRemoved,
    NewItemResponse,
    NewItemsRemoved,
    Problem,
    RecommendResponse,
)
from lorentzrec.serving.recommending.query import Id
from lorentzrec.serving.versions.item_directory import Item

Message = TypeVar("Message")


class ServiceError(LorentzrecError):
    """A request failed. `problem` is the problem document of the service; None if the service could not be reached."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class Client:
    """Sends requests to a service. Threads may share it; use it in a `with` block, or call `close` at the end::

        with Client("http://127.0.0.1:8000") as client:
            client.add_events([{"user": "ann", "item": "sku-1"}])
            for item in client.recommend(user="ann", k=5).items:
                print(item.id, item.title, item.score)

    If the service is unavailable (503) or cannot be reached, a request is sent again up to `retries` times, after the
    pause in Retry-After. That is safe for events, too: the client gives each an id, so none counts twice.
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
        self, history: Sequence[Id] | None = None, *, user: Id | None = None, k: int = 10, **options: Any
    ) -> RecommendResponse:
        """The best items for a history (oldest first), or for a customer whose history is in the store.

        options: context, exclude, allow, categories, exclude_seen, diversity, reasons, twin, explore, seed, fields.
        """
        body = {"history": history, "user": user, "k": k, **options}
        return self._send(RecommendResponse, "POST", "/v1/recommend", body)

    def similar(self, item: Id, k: int = 10, **options: Any) -> RecommendResponse:
        """The items nearest to an item.

        options: exclude, allow, categories, diversity, twin, explore, seed, fields.
        """
        return self._send(RecommendResponse, "GET", f"/v1/items/{_part(item)}/similar", parameters={"k": k, **options})

    def basket(self, items: Sequence[Id], k: int = 10, **options: Any) -> RecommendResponse:
        """Items that complement those of a basket.

        options: exclude, allow, categories, diversity, reasons, twin, explore, seed, fields.
        """
        return self._send(RecommendResponse, "POST", "/v1/basket", {"items": items, "k": k, **options})

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> EventsResponse:
        """Send events: user and item, perhaps time and id. They are durable when this returns.

        Give the time that your data will have: then `publish --histories` recognises the event.
        """
        sent = [{**event, "id": secrets.token_hex(12) if event.get("id") is None else event["id"]} for event in events]
        return self._send(EventsResponse, "POST", "/v1/events", {"events": sent})

    def history(self, user: Id, limit: int = 100) -> list[HistoryEvent]:
        """The newest events of a customer, oldest first."""
        path = f"/v1/users/{_part(user)}/history"
        return self._send(HistoryResponse, "GET", path, parameters={"limit": limit}).history

    def forget(self, user: Id) -> int:
        """Erase a customer; returns the number of events erased."""
        return self._send(ErasureResponse, "DELETE", f"/v1/users/{_part(user)}").events

    def search(self, query: str = "", limit: int = 20) -> list[Item]:
        """Items by the words of their titles; the most popular ones without a query."""
        return self._send(ItemsResponse, "GET", "/v1/items", parameters={"query": query, "limit": limit}).items

    def item(self, item: Id) -> ItemResponse:
        """The details of an item."""
        return self._send(ItemResponse, "GET", f"/v1/items/{_part(item)}")

    def add_item(self, item: Id, *, like: Sequence[Id] = (), **details: Any) -> NewItemResponse:
        """Create an item that the version does not contain, or replace what was sent about it.

        like: similar items of the version, whose midpoint places it. details: title, category, price, image, and, if
        the model was trained with them, attributes by column.
        """
        return self._send(NewItemResponse, "PUT", f"/v1/items/{_part(item)}", {"like": like, **details})

    def remove_item(self, item: Id) -> None:
        """Remove a new item."""
        self._send(NewItemRemoved, "DELETE", f"/v1/items/{_part(item)}")

    def remove_items(self, origin: Literal["events", "put"], *, fewer_than: int | None = None) -> int:
        """Remove all new items of one origin, or only those with fewer customers than that; returns how many."""
        parameters: dict[str, Any] = {"origin": origin}
        if fewer_than is not None:
            parameters["fewer_than"] = fewer_than
        return self._send(NewItemsRemoved, "DELETE", "/v1/items", parameters=parameters).removed

    def live_items(self) -> list[str] | None:
        """The only items that may be recommended; None if all may except `removed_items`."""
        return self._send(LiveItemsResponse, "GET", "/v1/live").items

    def removed_items(self) -> list[str]:
        """The items that were removed while every item was live; empty if there is a list of live items."""
        return self._send(LiveItemsResponse, "GET", "/v1/live").removed

    def set_live_items(self, items: Sequence[Id] | None, *, force: bool = False) -> LiveItemsChanged:
        """Replace the live items; None makes all live, also removed ones. A list that is probably a mistake is refused
        with 409 unless `force`."""
        return self._send(LiveItemsChanged, "PUT", "/v1/live", {"items": items, "force": force})

    def change_live_items(
        self, add: Sequence[Id] = (), remove: Sequence[Id] = (), *, force: bool = False
    ) -> LiveItemsChanged:
        """Make items live, and others not. Without a list of live items, all stay live except the removed ones. A
        change that is probably a mistake is refused with 409 unless `force`."""
        return self._send(LiveItemsChanged, "PATCH", "/v1/live", {"add": add, "remove": remove, "force": force})

    def model(self) -> ModelInformation:
        """The version in use."""
        return self._send(ModelInformation, "GET", "/v1/model")

    def _send(
        self, kind: type[Message], method: str, path: str, body: object = None, parameters: dict[str, Any] | None = None
    ) -> Message:
        content, headers = None, {}
        # An empty list is a parameter without a value: one that is left out has its default.
        sent = {name: value if value != [] else "" for name, value in (parameters or {}).items() if value is not None}
        if body is not None:
            content, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
        for attempts_left in range(self._retries, -1, -1):
            try:
                response = self._http.request(method, path, content=content, headers=headers, params=sent)
            except httpx.TransportError as error:
                failure, pause = ServiceError(f"{self._http.base_url} cannot be reached ({error}): is it running?"), 0.5
            else:
                if response.is_success:
                    return msgspec.json.decode(response.content, type=kind)
                failure, pause = _failure(response), _parse_pause(response.headers.get("Retry-After", ""))
                if response.status_code != 503:
                    raise failure
            if attempts_left:
                time.sleep(pause)
        raise failure


def _part(id: Id) -> str:
    return quote(str(id), safe="")


def _parse_pause(retry_after: str) -> float:
    """The seconds of a Retry-After header, which is a number or a date; one if it is neither."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 1.0


def _failure(response: httpx.Response) -> ServiceError:
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        text = f"{response.url} responded {response.status_code} without a problem document: check the URL"
        return ServiceError(text)
    return ServiceError(f"{problem.title}: {problem.detail}", problem)
