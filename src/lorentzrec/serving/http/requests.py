"""What route handlers receive, bodies of exactly the declared type and ids from paths, and the queue of costly ones."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
from litestar import Request, Response
from litestar.concurrency import get_asyncio_executor
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.params import PathParameter
from litestar.types import ASGIApp, Empty

from lorentzrec.errors import InputError
from lorentzrec.points.diversity import pool_size
from lorentzrec.serving.http.bodies import decode_body
from lorentzrec.serving.http.problems import Overloaded
from lorentzrec.serving.http.queries import Query, decode_query, query_type
from lorentzrec.serving.rules.document import Route
from lorentzrec.serving.stores.ids import LONGEST_ID
from lorentzrec.serving.worker.event_writer import EventWriter
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.health import Health
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.query import ID_PATTERN, ItemOptions, ListOptions, OutfitOptions, RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.version_watcher import VersionWatcher

Result = TypeVar("Result")

LARGE_BODY = 2**14
"""Bytes. Larger bodies are decoded in a thread: 10,000 ids take 5 ms, in which a worker could do nothing else."""
COSTLY = 10_000
"""Requests above this cost take turns. A unit is about a microsecond: ordinary requests cost a few hundred."""
CHEAP = 1_100
"""Requests up to this cost run where they arrive: handing one over to a thread and back costs more than its ranking."""
MOST_WAITING = 16
"""Costly requests that wait in one worker; further ones get a 503."""
BYTES_A_UNIT = 10
"""Bytes of a body that are decoded at the cost of one unit."""
SCANNED_A_UNIT = 1_000
"""Rows of the catalogue that a filter looks at for the cost of one unit."""
MOST_FOR_SCANS = COSTLY // 2
"""Filters alone make no request take its turn: most of their work is done without Python's lock."""
_ID_SCHEMA = {"minLength": 1, "maxLength": LONGEST_ID, "pattern": ID_PATTERN}

ItemInPath: TypeAlias = Annotated[str, PathParameter(description="The id of an item.", schema_extra=_ID_SCHEMA)]
UserInPath: TypeAlias = Annotated[str, PathParameter(description="The id of a customer.", schema_extra=_ID_SCHEMA)]


class RequestThreads:
    """Runs handlers: cheap ones at once if they may, others in threads, costly ones one at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def run(self, cost: int, handle: Callable[[], Result], *, at_once: bool = False) -> Result:
        """The result of `handle`. at_once: it waits for nothing outside of this machine, so it needs no thread if it is
        cheap."""
        if at_once and cost <= CHEAP:
            return handle()
        if cost <= COSTLY:
            return await _run_in_thread(handle)
        if self._waiting >= MOST_WAITING:
            raise Overloaded(
                "too many costly requests at once: try again in a second, or with fewer ids or a smaller k"
            )
        self._waiting += 1
        try:
            async with self._turn:
                return await _run_in_thread(handle)
        finally:
            self._waiting -= 1


def _run_in_thread(handle: Callable[[], Result]) -> asyncio.Future[Result]:
    """Like Litestar's `sync_to_thread`, without a copy of the context: handlers have no context variables."""
    return asyncio.get_running_loop().run_in_executor(get_asyncio_executor(), handle)


def cost(options: ListOptions, history: int, used: Recommender | None = None, route: Route = "recommend") -> int:
    """The work of a request: looking up its ids, comparing candidates with each other, computing reasons, and passes
    over the catalogue for filters and rules.

    history: the number of items in the history, at most.
    used: has the catalogue; an arm has one of about the same size.
    """
    k, ids = options.k, history + len(options.exclude) + len(options.allow or ())
    diversity = options.diversity if isinstance(options, ItemOptions) else 0.0
    compared = k * pool_size(k, diversity) // 10 if diversity else 0
    weighed = k * history // 20 if isinstance(options, RankingOptions | OutfitOptions) and options.reasons else 0
    scanned = 0 if used is None else min(used.count_scanned(options, route) // SCANNED_A_UNIT, MOST_FOR_SCANS)
    return k + ids + compared + weighed + scanned


@dataclass(frozen=True)
class Worker:
    """The parts of one process. One dependency, since Litestar starts a task for each as soon as there are two."""

    versions: VersionWatcher
    store: GuardedStore
    metrics: Metrics
    threads: RequestThreads
    health: Health
    events: EventWriter


TheWorker: TypeAlias = NamedDependency[Worker]


class StrictRequest(Request[Any, Any, State], Generic[Query]):
    """Litestar decodes a body as any JSON and converts it later, so that "10" is accepted for 10. This one is strict.

    Decoding straight into the type is also faster, and stops at the first error. Litestar ignores parameters that a
    handler does not name; here they are one message, and others are refused.
    """

    query: Query
    """All parameters. A handler that takes some names their message: `request: StrictRequest[SearchQuery]`."""

    async def body(self) -> bytes:
        """All of the body, in the messages of `RequestMiddleware`, which responds itself to a client that is gone."""
        if self._body is not Empty:
            return self._body
        handler: Any = self.route_handler
        limit: int = handler.resolve_request_max_body_size()
        scope: Any = self.scope
        if scope["body_length"] > limit:
            raise RequestEntityTooLarge
        parts, size, more = [], 0, True
        while more:
            message: Any = await self.receive()
            part: bytes = message.get("body", b"")
            size, more = size + len(part), message.get("more_body", False)
            if size > limit:
                raise RequestEntityTooLarge
            parts.append(part)
        self._body = b"".join(parts)
        return self._body

    async def json(self) -> Any:
        body = await self.body()
        field = self.route_handler.parsed_data_field
        if field is None:
            return None
        if len(body) <= LARGE_BODY:
            return decode_body(body, field.annotation)
        threads: RequestThreads = self.app.state.threads
        return await threads.run(len(body) // BYTES_A_UNIT, partial(decode_body, body, field.annotation))


class MessageResponse(Response[Any]):
    """A message as JSON. It needs no cookies, encoders or other media types, for which Litestar's own class looks."""

    def __init__(self, content: Any, *, status_code: int, **_: Any) -> None:
        self._status, self._body = status_code, msgspec.json.encode(content)

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIApp:  # type: ignore[override]
        return self._send

    async def _send(self, scope: Any, receive: Any, send: Any) -> None:
        length = str(len(self._body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})


async def check_query(request: Request[Any, Any, Any]) -> None:
    """Decode the parameters of a request before its handler is called, also if that takes none.

    Only routes of the OpenAPI document are strict: links to the page may have parameters of other sites.
    """
    handler: Any = request.route_handler
    if isinstance(request, StrictRequest) and handler.resolve_include_in_schema():
        request.query = decode_query(request.scope["query_string"], query_type(handler))


def decode_id(part: str) -> str:
    """The id in a part of a path. Percent signs are decoded here, since `RequestMiddleware` passes paths on as sent."""
    try:
        decoded = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InputError("the id in the path is not UTF-8: encode it as UTF-8, then with percent signs") from None
    if len(decoded) > LONGEST_ID or not re.search(ID_PATTERN, decoded):
        raise InputError(f"the id in the path is empty, longer than {LONGEST_ID} or has control characters: check it")
    return decoded
