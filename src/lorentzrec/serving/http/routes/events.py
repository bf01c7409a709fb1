"""Events: what customers do, kept for their next recommendation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from secrets import token_hex

from litestar import post
from litestar.params import JSONBody

from lorentzrec.errors import InputError
from lorentzrec.serving.http.identifiers import text
from lorentzrec.serving.http.messages import EventsAnswer, EventsRequest, NewEvent
from lorentzrec.serving.http.problems import described
from lorentzrec.serving.http.routes.worker import TheWorker
from lorentzrec.serving.stores.store import Event, usual_id

STEP_SECONDS = 1e-6
"""Between events of one request that have no time: a number of seconds since 1970 tells these apart, and not less."""

EVENTS_A_SECOND = 200
"""What the slowest store keeps when every event is of another customer. A store at work is not to be taken for away."""


@post(
    "/events",
    status_code=200,
    sync_to_thread=True,
    opt={"writes": True},
    responses=described(400, 401, 403, 413, 415, 421),
)
def add_events(
    data: JSONBody[EventsRequest],
    worker: TheWorker,
) -> EventsAnswer:
    """Keep events. With the answer they are durable; a 503 means that they may not be: send them again, same ids.

    Order does not matter, since a history is ordered by time; only events without a time happen now, in the order in
    which they are sent. An event sent twice under one id counts once, and so does an item at one time under two ids.
    """
    now, version = time.time(), worker.current.version
    weights = {} if version is None else version.event_weights
    events = [_event(event, now + place * STEP_SECONDS, weights) for place, event in enumerate(data.all())]
    seconds = worker.store.seconds + len(events) / EVENTS_A_SECOND
    added = worker.store.call(lambda opened: opened.add_events(events), writes=True, seconds=seconds)
    known = 0 if version is None else int((version.items.rows([event.item for event in events]) >= 0).sum())
    worker.metrics.events.labels("accepted").inc(added.accepted)
    worker.metrics.events.labels("duplicate").inc(added.duplicates)
    worker.metrics.events.labels("unknown_item").inc(len(events) - known)
    name = version.name if version else None
    return EventsAnswer(added.accepted, added.duplicates, len(events) - known, name)


def _event(event: NewEvent, now: float, weights: Mapping[str, float]) -> Event:
    item = text(event.item)
    if event.id is not None:
        id = text(event.id)
    elif event.time is not None:
        id = usual_id(item, event.time)
    else:
        id = token_hex(12)
    if event.kind is not None and event.weight is not None:
        raise InputError(f"the event on {item!r} has a kind and a weight: send one of them")
    weight = event.weight or 1.0
    if event.kind is not None and weights:
        if event.kind not in weights:
            raise InputError(
                f"events of the kind {event.kind!r} have no weight here: send one of {', '.join(weights)}, or a weight"
            )
        weight = weights[event.kind]
    return Event(text(event.user), item, now if event.time is None else event.time, id, weight)
