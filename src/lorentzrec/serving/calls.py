"""The calls of the HTTP service: what is sent, and what the response means. The clients in `client.py` send them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from lorentzrec.errors import InputError
from lorentzrec.serving.http.messages import (
    ErasureResponse,
    EventsResponse,
    HistoryEvent,
    HistoryResponse,
    ItemResponse,
    ItemsResponse,
    LiveItemsChanged,
    LiveItemsResponse,
    LookupResponse,
    ModelInformation,
    NewItemRemoved,
    NewItemRequest,
    NewItemResponse,
    NewItemsRemoved,
    OutfitRequest,
    OutfitResponse,
    PreviewResponse,
    RecommendRequest,
    RecommendResponse,
    RuleChangeEntry,
    RulesChanged,
    RulesLogResponse,
    RulesResponse,
    TrendingResponse,
)
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.worker.query import DEFAULT_K, Id, ListOptions, RankingOptions

Result = TypeVar("Result")


@dataclass(frozen=True)
class Call(Generic[Result]):
    """A request, and how its response is read."""

    method: str
    path: str
    read: Callable[[bytes], Result]
    parameters: Mapping[str, Any]
    content: bytes | None


def recommend(
    history: Sequence[Id] | None = None, *, user: Id | None = None, k: int = DEFAULT_K, **options: Any
) -> Call[RecommendResponse]:
    """The best items for a history (oldest first), or for a customer whose history is in the store.

    options: context, exclude, allow, categories, where, set, exclude_seen, diversity, reasons, explore, seed, fields,
    arm.
    """
    _check_names("recommend", options, RecommendRequest)
    return _call(RecommendResponse, "POST", "/v1/recommend", {"history": history, "user": user, "k": k, **options})


def similar(item: Id, k: int = DEFAULT_K, **options: Any) -> Call[RecommendResponse]:
    """The items most similar to an item.

    options: exclude, allow, categories, where, set, diversity, reasons, explore, seed, fields, arm.
    """
    _check_names("similar", options, RankingOptions)
    return _call(RecommendResponse, "GET", f"/v1/items/{_part(item)}/similar", parameters={"k": k, **options})


def alternatives(item: Id, k: int = DEFAULT_K, **options: Any) -> Call[RecommendResponse]:
    """Items to buy instead of an item: of its category, or else of the parent of that.

    options: exclude, allow, categories, where, set, diversity, reasons, explore, seed, fields, arm.
    """
    _check_names("alternatives", options, RankingOptions)
    return _call(RecommendResponse, "GET", f"/v1/items/{_part(item)}/alternatives", parameters={"k": k, **options})


def outfits(basket: Sequence[Id], k: int = DEFAULT_K, **options: Any) -> Call[OutfitResponse]:
    """Items that go with those of a basket.

    options: per_category, slots, budget, exclude, allow, categories, where, set, reasons, fields, arm.
    """
    _check_names("outfits", options, OutfitRequest)
    return _call(OutfitResponse, "POST", "/v1/outfits", {"basket": basket, "k": k, **options})


def trending(k: int = DEFAULT_K, **options: Any) -> Call[TrendingResponse]:
    """The items that are more popular than usual in the last days.

    options: exclude, allow, categories, where, set, fields, arm.
    """
    _check_names("trending", options, ListOptions)
    return _call(TrendingResponse, "GET", "/v1/trending", parameters={"k": k, **options})


def add_events(events: Iterable[Mapping[str, Any]]) -> Call[EventsResponse]:
    """Send events: user and item, perhaps time and id. They are durable when this returns.

    Give the time that your data will have: then `publish --histories` recognises the event.
    """
    sent = [{**event, "id": secrets.token_hex(12) if event.get("id") is None else event["id"]} for event in events]
    return _call(EventsResponse, "POST", "/v1/events", {"events": sent})


def history(user: Id, limit: int = 100) -> Call[list[HistoryEvent]]:
    """The newest events of a customer, oldest first."""
    path = f"/v1/users/{_part(user)}/history"
    return _call(HistoryResponse, "GET", path, parameters={"limit": limit}, part=lambda response: response.history)


def forget(user: Id) -> Call[int]:
    """Erase a customer; returns the number of events erased."""
    return _call(ErasureResponse, "DELETE", f"/v1/users/{_part(user)}", part=lambda response: response.events)


def search(query: str = "", limit: int = 20) -> Call[list[Item]]:
    """Items by the words of their titles; the most popular ones without a query."""
    parameters = {"query": query, "limit": limit}
    return _call(ItemsResponse, "GET", "/v1/items", parameters=parameters, part=lambda response: response.items)


def item(item: Id) -> Call[ItemResponse]:
    """The details of an item."""
    return _call(ItemResponse, "GET", f"/v1/items/{_part(item)}")


def lookup(ids: Sequence[Id]) -> Call[LookupResponse]:
    """The details of many items, and which ids are unknown."""
    return _call(LookupResponse, "POST", "/v1/items/lookup", {"ids": ids})


def add_item(item: Id, *, like: Sequence[Id] = (), **details: Any) -> Call[NewItemResponse]:
    """Create an item that the version does not contain, or replace what was sent about it.

    like: similar items of the version, whose midpoint places it. details: title, category, price, image, and, if
    the model was trained with them, attributes by column.
    """
    _check_names("add_item", details, NewItemRequest)
    return _call(NewItemResponse, "PUT", f"/v1/items/{_part(item)}", {"like": like, **details})


def remove_item(item: Id) -> Call[None]:
    """Remove a new item."""
    return _call(NewItemRemoved, "DELETE", f"/v1/items/{_part(item)}", part=lambda _: None)


def remove_items(origin: Literal["events", "put"], *, fewer_than: int | None = None) -> Call[int]:
    """Remove all new items of one origin, or only those with fewer customers than that; returns how many."""
    parameters = {"origin": origin, "fewer_than": fewer_than}
    return _call(NewItemsRemoved, "DELETE", "/v1/items", parameters=parameters, part=lambda response: response.removed)


def live_items() -> Call[list[str] | None]:
    """The only items that may be recommended; None if all may except `removed_items`."""
    return _call(LiveItemsResponse, "GET", "/v1/live", part=lambda response: response.items)


def removed_items() -> Call[list[str]]:
    """The items that were removed while every item was live; empty if there is a list of live items."""
    return _call(LiveItemsResponse, "GET", "/v1/live", part=lambda response: response.removed)


def set_live_items(items: Sequence[Id] | None, *, force: bool = False) -> Call[LiveItemsChanged]:
    """Replace the live items; None makes all live, also removed ones. A list that is probably a mistake is refused with
    409 unless `force`."""
    return _call(LiveItemsChanged, "PUT", "/v1/live", {"items": items, "force": force})


def change_live_items(
    add: Sequence[Id] = (), remove: Sequence[Id] = (), *, force: bool = False
) -> Call[LiveItemsChanged]:
    """Make items live, and others not. Without a list of live items, all stay live except the removed ones. A change
    that is probably a mistake is refused with 409 unless `force`."""
    return _call(LiveItemsChanged, "PATCH", "/v1/live", {"add": add, "remove": remove, "force": force})


def rules() -> Call[RulesResponse]:
    """The rules of the shop, and its named sets of items."""
    return _call(RulesResponse, "GET", "/v1/rules")


def set_rules(
    rules: Sequence[Mapping[str, Any]],
    sets: Mapping[str, Sequence[Id]] | None = None,
    *,
    reason: str = "changed",
    instead_of: int | None = None,
) -> Call[RulesChanged]:
    """Replace all rules and sets; `docs/rules.md` has their form. Rules with any fault are refused whole.

    instead_of: the revision that the change was made from. If another one is current by now, nothing changes.
    """
    body = {"rules": rules, "sets": sets or {}, "reason": reason, "instead_of": instead_of}
    return _call(RulesChanged, "PUT", "/v1/rules", body)


def rules_log() -> Call[list[RuleChangeEntry]]:
    """Who changed the rules, when, and why; newest first."""
    return _call(RulesLogResponse, "GET", "/v1/rules/log", part=lambda response: response.changes)


def preview_rules(
    rules: Sequence[Mapping[str, Any]], sets: Mapping[str, Sequence[Id]] | None = None, **request: Any
) -> Call[PreviewResponse]:
    """The list that a request has with these rules, and without any. Nothing is stored.

    request: one of recommend, similar, alternatives and outfits, a mapping as the route takes it; and `at`, the moment
    that counts.
    """
    return _call(PreviewResponse, "POST", "/v1/rules/preview", {"rules": rules, "sets": sets or {}, **request})


def model() -> Call[ModelInformation]:
    """The version in use."""
    return _call(ModelInformation, "GET", "/v1/model")


def _call(
    kind: type[Any],
    method: str,
    path: str,
    body: object = None,
    *,
    parameters: Mapping[str, Any] | None = None,
    part: Callable[[Any], Any] = lambda response: response,
) -> Call[Any]:
    given = {name: _parameter(value) for name, value in (parameters or {}).items() if value is not None}
    content = None if body is None else msgspec.json.encode(body)
    return Call(method, path, lambda response: part(msgspec.json.decode(response, type=kind)), given, content)


def _parameter(value: Any) -> Any:
    """A list for every kind of sequence, and JSON for a mapping. An empty list has no value, since a parameter left out
    has its default."""
    if isinstance(value, Mapping):
        return msgspec.json.encode(value).decode()
    return (list(value) or "") if isinstance(value, Iterable) and not isinstance(value, str) else value


def _part(id: Id) -> str:
    """An id as a part of a path, from which everything that sends requests removes . and .., encoded or not."""
    if str(id) in (".", ".."):
        raise InputError(f"the id {id!r} cannot be part of an address: use another id")
    return quote(str(id), safe="")


def _check_names(method: str, options: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
    """Refuse unknown keywords before anything is sent, as Python does."""
    for name in options:
        if name not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__)
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}: there are {known}")
