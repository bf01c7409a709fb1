"""The gate in front of the application: what holds for every request, whatever it asks."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from time import perf_counter
from typing import Any

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from lorentzrec.serving.metrics import Metrics
from lorentzrec.serving.problems import MEDIA_TYPE, headers_of, problem
from lorentzrec.serving.settings import ServiceSettings

ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")
"""Answered under overload, too: it is then that somebody wants to know."""
SANE_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)

logger = logging.getLogger("lorentzrec.serving.requests")


class Gate:
    """An ASGI application around another: bounds the number and the time of requests, and logs and counts them.

    It also hands on the path as it was sent, percent signs and all. Servers decode it first, and then an id with a
    slash in it (%2F) cannot be told from two parts of a path. `routes/path_ids.py` decodes the parts.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics) -> None:
        self.app, self._settings, self._metrics = app, settings, metrics
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        self._inside += 1
        self._metrics.in_flight.inc()
        try:
            await self._pass(exchange)
        finally:
            self._inside -= 1
            self._metrics.in_flight.dec()
            self._record(exchange)

    async def _pass(self, exchange: _Exchange) -> None:
        scope = exchange.scope
        if self._inside > self._settings.concurrent_requests and scope["path"] not in ALWAYS_OPEN:
            await exchange.refuse(503, "too many requests at once: come back in a second", "overloaded")
            return
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                await self.app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            if exchange.status is not None:
                raise  # the answer has begun, so all that is left is to cut the line
            seconds = f"{self._settings.request_seconds:g} seconds"
            if exchange.arrived:
                await exchange.refuse(503, f"there was no answer within {seconds}: come back in a second", "too-slow")
            else:
                await exchange.refuse(408, f"the body did not arrive within {seconds}: send it faster", "too-slow")

    def _record(self, exchange: _Exchange) -> None:
        # The template of the route, never the path: paths hold the ids of customers.
        route = str(exchange.scope.get("path_template") or "none")
        method = exchange.scope["method"] if exchange.scope["method"] in KNOWN_METHODS else "other"
        seconds = perf_counter() - exchange.begun
        status = exchange.status or 499  # the client went away, as nginx has it
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 2),
            "request_id": exchange.request_id,
        }
        logger.info("%s %s %s in %.1f ms, request %s", *fields.values(), extra={"fields": fields})


KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class _Exchange:
    """One request and its answer, seen while they pass."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.begun = perf_counter()
        self.status: int | None = None
        self.arrived = False
        self.request_id = _request_id(scope)
        raw_path: bytes = scope.get("raw_path") or b""
        path = raw_path.partition(b"?")[0].decode("latin-1") or scope["path"]
        values: dict[str, Any] = {**scope, "path": path, "request_id": self.request_id}
        self.scope: Any = values

    async def receive(self) -> Any:
        message = await self._receive()
        self.arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = [(b"x-request-id", self.request_id.encode()), (b"x-content-type-options", b"nosniff")]
            message["headers"] = [*message["headers"], *more]
        await self._send(message)

    async def refuse(self, status: int, detail: str, kind: str) -> None:
        body = msgspec.json.encode(problem(status, detail, kind))
        headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **headers_of(status)}
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})


def _request_id(scope: Scope) -> str:
    """The caller's own number for the request, if it can do no harm in a log, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and SANE_REQUEST_ID.fullmatch(text := value.decode("latin-1")):
            return text
    return secrets.token_hex(8)
