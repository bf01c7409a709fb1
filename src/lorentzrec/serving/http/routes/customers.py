"""Customers: their events, their history, and its erasure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import NamedTuple

from litestar import delete, get, post
from litestar.params import JSONBody

from lorentzrec.errors import InputError
from lorentzrec.serving.http.messages import (
    ErasureResponse,
    EventsRequest,
    EventsResponse,
    HistoryEvent,
    HistoryQuery,
    HistoryResponse,
    NewEvent,
)
from lorentzrec.serving.http.problems import READING, WITH_BODY, NotReady
from lorentzrec.serving.http.requests import COSTLY, StrictRequest, TheWorker, UserInPath, Worker, decode_id
from lorentzrec.serving.stores.histories import DISLIKE, Event, derive_event_id
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.event_writer import find_deadline

STEP_SECONDS = 1e-6
"""Between events of one request that have no time: the smallest step that seconds since 1970 distinguish."""
COST = 25
"""Of checking an event, in the units of `requests.cost`."""
ERASURE_SECONDS = 8.0
"""Files are rewritten, which waits for their readers."""


@post("/events", status_code=200, opt={"writes": True}, responses=WITH_BODY)
async def add_events(data: JSONBody[EventsRequest], worker: TheWorker) -> EventsResponse:
    """Store events. A 200 means that they are durable; after a 503 they may not be: send them again, same ids.

    Order does not matter, since a history is ordered by time; only events without a time happen now, in the order in
    which they are sent. An event sent twice under one id counts once, and so does an item at one time under two ids.
    """
    checked = await worker.threads.run(cost_events(data), partial(check_events, data, worker), at_once=True)
    return await store_events(checked, worker)


class CheckedEvents(NamedTuple):
    """Events that can be stored."""

    events: list[Event]
    unknown: list[Event]
    """Those of items that the version does not contain."""
    version: Version | None


def cost_events(data: EventsRequest) -> int:
    """The work of `check_events`, in the units of `requests.cost`. It never makes a request take its turn."""
    return min(COST * (1 if data.events is None else len(data.events)), COSTLY)


async def store_events(checked: CheckedEvents, worker: Worker) -> EventsResponse:
    """Store events; they are durable when this returns."""
    seconds = find_deadline(worker.store, len(checked.events))
    if worker.store.writes_in_turn:
        added = await worker.events.add(checked.events)
    else:
        add = partial(Store.add_events, events=checked.events)
        added = await worker.threads.run(0, partial(worker.store.call, add, writes=True, seconds=seconds))
    if checked.version is not None and checked.unknown:
        await worker.threads.run(0, partial(_note_customers, worker, checked.unknown, seconds))
    counters = worker.metrics.event_outcomes
    counters["accepted"].inc(added.accepted)
    counters["duplicate"].inc(added.duplicates)
    counters["unknown_item"].inc(len(checked.unknown))
    name = checked.version.name if checked.version else None
    return EventsResponse(added.accepted, added.duplicates, len(checked.unknown), name)


def check_events(data: EventsRequest, worker: Worker) -> CheckedEvents:
    """The events of a request as they are stored. `InputError` if they cannot be."""
    sent, now, version = data.all(), time.time(), worker.versions.version
    weights = worker.versions.event_weights(version)
    if version is None and any(event.kind is not None and event.kind not in weights for event in sent):
        raise NotReady("there is no version yet, whose dataset has the weights of kinds: try again, or send a weight")
    events = [_to_event(event, now + index * STEP_SECONDS, weights) for index, event in enumerate(sent)]
    if version is None:
        return CheckedEvents(events, events, version)
    if len(events) == 1:  # as most requests; the way for many takes three times as long
        return CheckedEvents(events, [] if events[0].item in version.items else events, version)
    rows = version.items.rows([event.item for event in events]).tolist()
    return CheckedEvents(events, [event for event, row in zip(events, rows, strict=True) if row < 0], version)


def _note_customers(worker: Worker, events: Sequence[Event], seconds: float) -> None:
    """Events of enough customers with an item that the version does not contain place the item; dislikes do not."""
    new_items = worker.versions.new_items
    customers = new_items.missing_customers((event.item, event.user) for event in events if event.weight > 0)
    if customers:
        _, left_out = worker.store.call(
            lambda store: store.note_customers(customers, limit=new_items.limit), writes=True, seconds=seconds
        )
        worker.metrics.new_items_left_out.inc(left_out)
        worker.versions.poll_now()


def _to_event(event: NewEvent, now: float, weights: Mapping[str, float]) -> Event:
    """A stored event: with an id, a time and a weight."""
    item, weight = str(event.item), event.weight or 1.0
    usual = token_hex(12) if event.seconds is None else derive_event_id(item, event.seconds)
    id = usual if event.id is None else str(event.id)
    if event.kind is not None:
        if event.kind not in weights:
            configure = "start the service with --event-weight KIND=WEIGHT, or publish a dataset prepared with it"
            known = f"send one of {', '.join(weights)}" if weights.keys() - {DISLIKE} else configure
            raise InputError(f"events of the kind {event.kind!r} have no weight here: {known}, or send a `weight`")
        weight = weights[event.kind]
    return Event(str(event.user), item, now if event.seconds is None else event.seconds, id, weight)


@get("/users/{user:str}/history", sync_to_thread=True, responses=READING)
def get_history(user: UserInPath, request: StrictRequest[HistoryQuery], worker: TheWorker) -> HistoryResponse:
    """The newest events of a customer, oldest first. An unknown customer has none."""
    id, recommender = decode_id(user), worker.versions.in_use
    events = worker.store.call(lambda store: store.history(id, request.query.limit))
    titles: dict[str, str | None] = {}
    if recommender is not None:
        items = recommender.find_items([event.item for event in events])
        titles = {item.id: item.title for item in items if item is not None}
    history = [HistoryEvent(event.item, event.time, titles.get(event.item), event.weight) for event in events]
    return HistoryResponse(id, history, recommender.version.name if recommender else None)


@delete("/users/{user:str}", status_code=200, sync_to_thread=True, opt={"writes": True}, responses=WITH_BODY)
def forget_user(user: UserInPath, worker: TheWorker) -> ErasureResponse:
    """Erase all events of a customer. A hash of the id stays, so that a dataset published later leaves them out."""
    id = decode_id(user)
    events = worker.store.call(lambda store: store.forget(id), writes=True, seconds=ERASURE_SECONDS)
    return ErasureResponse(id, events, worker.versions.name)
