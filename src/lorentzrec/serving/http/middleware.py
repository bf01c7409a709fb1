"""What applies to every request, before any route: limits, checks of the headers, request ids, logs and metrics."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import secrets
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from litestar import Request
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from lorentzrec.serving.http.host_policy import HostPolicy
from lorentzrec.serving.http.problems import Overloaded, ServiceProblem
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.worker.metrics import Metrics

ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")
"""Available under overload and under any host name: probes and scrapers use the address of a container."""
SANE_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
"""Ids of clients for their requests that are safe in a log; others are replaced."""
TRACE_PARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
"""The header `traceparent` of W3C Trace Context."""
JSON_TYPE = re.compile(rb"application/([\w.+-]+\+)?json\s*(;.*)?", re.IGNORECASE)
KNOWN_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
LOOKUP = "/v1/items/lookup"
WRITING_METHODS = {"POST", "PUT", "PATCH", "DELETE"}
SLOW_SECONDS = 0.5
"""Requests that take longer are logged whatever share of the others is."""
TOO_MANY = "too many requests at once: try again in a second"

logger = logging.getLogger("lorentzrec.serving.requests")


class RequestMiddleware:
    """An ASGI application around another: bounds the number, size and time of requests, and logs and counts them.

    A request takes one of the worker's slots only when its body is complete, so slow clients do not keep others out.
    Bodies that are still arriving have their own, larger limits. Beyond these limits the oldest body is given up, or
    the largest if it is about bytes: a body that arrives at a normal speed is never the oldest for long.

    The path is passed on as it was sent, still percent-encoded. Servers decode it first, and then an id with a slash in
    it (%2F) cannot be distinguished from two parts of a path. `requests.decode_id` decodes the parts.
    """

    def __init__(
        self, app: ASGIApp, settings: ServiceSettings, metrics: Metrics, methods: Mapping[str, frozenset[str]]
    ) -> None:
        """`methods`: the methods of each route, by the template of its path."""
        self.app, self._settings, self._metrics, self._methods = app, settings, metrics, methods
        self._host_policy = HostPolicy(settings)
        self._slots_taken = 0
        self._arriving: dict[_Exchange, None] = {}
        self._arriving_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self)
        self._metrics.in_flight.inc()
        try:
            self._check_headers(exchange)
            async with asyncio.timeout(self._settings.request_seconds) as exchange.deadline:
                if not exchange.has_body:
                    self.complete(exchange)
                else:
                    self._arriving[exchange] = None
                    if len(self._arriving) > self._settings.arriving_bodies:
                        self._give_up(next(iter(self._arriving)))
                try:
                    await self.app(exchange.scope, exchange.receive, exchange.send)
                finally:
                    self._no_longer_arriving(exchange)
        except ServiceProblem as problem:
            await exchange.refuse(problem)
        except TimeoutError:
            if exchange.status is not None:
                raise  # the response has begun, so all that is left is to close the connection
            await exchange.refuse(self._timeout_problem(exchange))
        finally:
            self._slots_taken -= exchange.has_slot
            self._metrics.in_flight.dec()
            self._record(exchange)

    def _timeout_problem(self, exchange: _Exchange) -> ServiceProblem:
        seconds = f"{self._settings.request_seconds:g} seconds"
        if exchange.given_up:
            return Overloaded(TOO_MANY)
        if exchange.complete:
            return ServiceProblem(f"there was no response within {seconds}: try again in a second", 503, "too-slow")
        return ServiceProblem(f"the body did not arrive within {seconds}: send it faster", 408, "too-slow")

    def _check_headers(self, exchange: _Exchange) -> None:
        headers = exchange.headers
        hosts = [value for name, value in exchange.scope["headers"] if name == b"host"]
        if len(hosts) > 1 or (not any(hosts) and exchange.scope["http_version"] not in ("1", "1.0")):
            raise ServiceProblem("the request needs one Host header: send exactly one", 400, "invalid-request")
        # Browsers let any web page send text and forms to any address, but JSON only where that is allowed.
        sends = exchange.has_body and exchange.method in WRITING_METHODS
        if sends and not JSON_TYPE.fullmatch(headers.get(b"content-type", b"")):
            raise ServiceProblem("the body is not sent as JSON: set Content-Type: application/json", 415, "not-json")
        if exchange.scope["path"] not in ALWAYS_OPEN and any(hosts):
            self._host_policy.check(hosts[0], headers.get(b"origin"))

    def complete(self, exchange: _Exchange) -> None:
        """The request is complete and takes a slot; `Overloaded` if there is none left."""
        self._no_longer_arriving(exchange)
        exchange.complete = True
        if exchange.scope["path"] in ALWAYS_OPEN:
            return
        if self._slots_taken >= self._settings.concurrent_requests:
            raise Overloaded(TOO_MANY)
        exchange.has_slot = True
        self._slots_taken += 1

    def count_bytes(self, exchange: _Exchange, count: int) -> None:
        exchange.received += count
        if exchange in self._arriving:
            self._arriving_bytes += count
            if self._arriving_bytes > self._settings.arriving_bytes:
                self._give_up(max(self._arriving, key=lambda one: one.received))

    def _give_up(self, exchange: _Exchange) -> None:
        self._no_longer_arriving(exchange)
        exchange.given_up = True
        if exchange.deadline is not None and not exchange.deadline.expired():
            exchange.deadline.reschedule(0)  # in the past: its wait for the rest of the body ends now

    def _no_longer_arriving(self, exchange: _Exchange) -> None:
        if exchange in self._arriving:
            del self._arriving[exchange]
            self._arriving_bytes -= exchange.received

    def allow(self, exchange: _Exchange, value: bytes) -> bytes:
        """The methods of a path. Litestar names those of its first handler for OPTIONS, and HEAD never."""
        methods = {method.strip() for method in value.decode().split(",")}
        methods |= self._methods.get(str(exchange.scope.get("path_template")), frozenset())
        return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set()))).encode()

    def _record(self, exchange: _Exchange) -> None:
        # The template of the route, never the path: paths hold the ids of customers.
        route = str(exchange.scope.get("path_template") or "none")
        method = exchange.method if exchange.method in KNOWN_METHODS else "other"
        seconds = perf_counter() - exchange.begun
        # 499 as in nginx: the client closed the connection, and has not read what was sent, if anything.
        status = 499 if exchange.gone or exchange.status is None else exchange.status
        self._metrics.count_request(method, route, status, seconds)
        unusual = status >= 400 or seconds > SLOW_SECONDS
        if not logger.isEnabledFor(logging.INFO) or not (unusual or random.random() < self._settings.log_sample):
            return
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 2),
            "request_id": exchange.request_id,
        }
        text = "%s %s %s in %.1f ms, request %s"
        logger.info(text, *fields.values(), extra={"fields": fields | exchange.trace})


class _Exchange:
    """One request and its response, seen while they pass."""

    def __init__(self, scope: Any, receive: Receive, send: Send, middleware: RequestMiddleware) -> None:
        self._receive, self._send, self._middleware = receive, send, middleware
        self.begun = perf_counter()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.method: str = scope["method"]
        length = self.headers.get(b"content-length", b"0")
        self.length = int(length) if length.isdigit() else 0
        self.has_body = self.length > 0 or b"transfer-encoding" in self.headers
        self.received = 0
        self.complete = self.has_slot = self.given_up = self.gone = False
        self.deadline: asyncio.Timeout | None = None
        self.status: int | None = None
        sent = self.headers.get(b"x-request-id", b"").decode("latin-1")
        self.request_id = sent if SANE_REQUEST_ID.fullmatch(sent) else secrets.token_hex(8)
        found = TRACE_PARENT.fullmatch(self.headers.get(b"traceparent", b""))
        ids = () if found is None else (part.decode() for part in found.groups())
        self.trace = dict(zip(("trace_id", "parent_span_id"), ids, strict=False))
        """The trace that the request belongs to, for the log."""
        raw_path: bytes = scope.get("raw_path") or b""
        path = raw_path.partition(b"?")[0].decode("latin-1") or scope["path"]
        method = "GET" if self.method == "HEAD" else self.method  # the same headers, and no body: see `send`
        if path.startswith(LOOKUP) and method in ("GET", "PUT", "DELETE"):
            path = path.replace("lookup", "%6Cookup", 1)  # an item may have this id; only POST looks up others
        self.scope: Any = {
            **scope,
            "path": path,
            "method": method,
            "request_id": self.request_id,
            "body_length": self.length,
        }

    async def receive(self) -> Any:
        message: Any = await self._receive()
        if self.complete:
            return message
        if message["type"] == "http.disconnect":
            self.gone = True
            # The client closed the connection or violated HTTP, so it may still read this.
            problem = "the body ends too early or its chunks are damaged: send all of it"
            raise ServiceProblem(problem, 400, "invalid-request")
        self._middleware.count_bytes(self, len(message.get("body", b"")))
        if 0 < self.length <= self.received:
            message["more_body"] = False  # the server would say so in one more message
        if not message.get("more_body", False):
            self._middleware.complete(self)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            more = [(b"x-request-id", self.request_id.encode()), (b"x-content-type-options", b"nosniff")]
            headers = [*message["headers"], *more]
            # Caches may keep responses to requests with X-API-Key. Only the map, which is large, says otherwise.
            if self.scope["path"].startswith("/v1") and not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            if self.method == "OPTIONS" or self.status == 405:
                allow = self._middleware.allow
                headers = [(name, allow(self, value) if name == b"allow" else value) for name, value in headers]
            message["headers"] = headers
        elif self.method == "HEAD" and message["type"] == "http.response.body":
            message["body"] = b""
        await self._send(message)

    async def refuse(self, problem: ServiceProblem) -> None:
        request: Request[Any, Any, Any] = Request(self.scope)
        response = problem.to_response(request).to_asgi_response(None, request)
        await response(self.scope, self.receive, self.send)
