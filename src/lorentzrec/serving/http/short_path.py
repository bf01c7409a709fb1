"""The short path of the most frequent requests: without routing, dependencies and guards.

These are POST /v1/recommend, POST /v1/events and GET /healthz.

It decodes and checks with the same functions as the routes, so a response is the same either way. Everything else goes
the long way, through Litestar, with the body as it was received: other routes, wrong keys, bodies that are refused,
costly requests, remote stores, and whatever fails.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from lorentzrec.serving.http.bodies import decode_body
from lorentzrec.serving.http.keys import ApiKeys, read_key
from lorentzrec.serving.http.messages import EventsRequest, RecommendRequest
from lorentzrec.serving.http.problems import NotReady, to_problem
from lorentzrec.serving.http.requests import CHEAP, LARGE_BODY, Worker, cost
from lorentzrec.serving.http.routes.customers import check_events, cost_events, store_events
from lorentzrec.serving.http.routes.public import get_liveness
from lorentzrec.serving.http.routes.recommendations import rank_for, respond

RECOMMEND, EVENTS, PROBE = "/v1/recommend", "/v1/events", "/healthz"
METHODS = {RECOMMEND: "POST", EVENTS: "POST", PROBE: "GET"}
JSON_HEADER = (b"content-type", b"application/json")


class ShortPath:
    """An ASGI application before another."""

    def __init__(
        self, app: ASGIApp, worker: Worker, keys: ApiKeys | None, *, open_to_all: bool, body_bytes: int
    ) -> None:
        """open_to_all: whether no key is needed. body_bytes: the largest body that the service accepts."""
        self._app, self._worker, self._keys, self._open = app, worker, keys, open_to_all
        self._limit = min(body_bytes, LARGE_BODY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["path"] not in METHODS or not self._is_usual(scope):
            await self._app(scope, receive, send)
            return
        path, request_id = scope["path"], str(scope.get("request_id", ""))
        # For the log and the metrics, also if the client is gone before its body is complete.
        scope["path_template"] = path
        messages, body = [], b""
        while True:
            message: Any = await receive()
            messages.append(message)
            body += message.get("body", b"")
            if not message.get("more_body", False) or len(body) > self._limit:
                break
        whole = not message.get("more_body", False) and len(body) <= self._limit
        found = None
        if whole:
            if path == RECOMMEND:
                found = self._respond(body)
            elif path == EVENTS:
                found = await self._store(body, request_id)
            elif not body:
                found = self._report_liveness()
        if found is None:
            await self._app(scope, partial(_replay, messages, receive), send)
            return
        headers = [JSON_HEADER, (b"content-length", str(len(found)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": found, "more_body": False})

    def _is_usual(self, scope: Any) -> bool:
        if scope["method"] != METHODS[scope["path"]] or scope["query_string"] or scope["body_length"] > self._limit:
            return False
        headers = dict(reversed([*scope["headers"]]))  # of repeated ones, the first counts, as for `authorise`
        if b"origin" in headers:  # which may need headers in the response
            return False
        if self._open or scope["path"] == PROBE:
            return True
        key = read_key(
            headers.get(b"authorization", b"").decode("latin-1"), headers.get(b"x-api-key", b"").decode("latin-1")
        )
        found = self._keys.find(key) if self._keys is not None and key else None
        return found is not None and (found.writes or scope["path"] == RECOMMEND)

    def _respond(self, body: bytes) -> bytes | None:
        """The body of the response to a query; None if it has to go the long way."""
        worker = self._worker
        try:
            data = decode_body(body, RecommendRequest)
            user = None if data.user is None else str(data.user)
            if cost(data, data.history_length, worker.versions.in_use) > CHEAP or not (
                user is None or worker.store.nearby
            ):
                return None
            return msgspec.json.encode(respond(worker, data, partial(rank_for, data, worker), user))
        except Exception:  # the long way has the words for it
            return None

    def _report_liveness(self) -> bytes | None:
        """The body of the response to a probe; None if something is wrong, which the long way has the words for."""
        try:
            return msgspec.json.encode(get_liveness.fn(self._worker))
        except NotReady:
            return None

    async def _store(self, body: bytes, request_id: str) -> bytes | None:
        """The body of the response to events, when they are durable; None if they have to go the long way."""
        worker = self._worker
        try:
            data = decode_body(body, EventsRequest)
            if cost_events(data) > CHEAP:
                return None
            checked = check_events(data, worker)
        except Exception:  # the long way has the words for it
            return None
        try:
            return msgspec.json.encode(await store_events(checked, worker))
        except Exception as error:  # not the long way, which would store them once more
            raise to_problem(error, request_id) from error


async def _replay(messages: list[Any], receive: Receive) -> Any:
    """The messages that were received already, and then those that come."""
    return messages.pop(0) if messages else await receive()
