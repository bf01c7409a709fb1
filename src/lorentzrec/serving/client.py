"""Clients of the HTTP service with typed responses: `Client`, and `AsyncClient` for asyncio."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import closing
from email.utils import parsedate_to_datetime
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import httpx
import msgspec

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving import calls
from lorentzrec.serving.calls import Call
from lorentzrec.serving.http.messages import Problem

P = ParamSpec("P")
Result = TypeVar("Result")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)

PAUSE = 0.5
"""Seconds before a service that cannot be reached is tried again."""


class ServiceError(LorentzrecError):
    """A request failed. `problem` is the problem document of the service; None if the service could not be reached."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class _Connection(Generic[Http]):
    """Where a service is, and how long and how often a client tries to reach it."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 10.0, retries: int = 2) -> None:
        self._url, self._timeout, self._retries = url.rstrip("/"), timeout, retries
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http: Http = self._open()

    @abstractmethod
    def _open(self) -> Http: ...

    def _request(self, call: Call[Any]) -> httpx.Request:
        address, headers = self._url + call.path, dict(self._headers)
        if call.content is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._http.build_request(
                call.method, address, params=call.parameters, content=call.content, headers=headers
            )
        except httpx.InvalidURL as error:
            raise InputError(f"{self._url} cannot be asked for this ({error}): check the URL, send fewer ids") from None


class _Attempts:
    """The attempts of one call. All of them and the pauses between them have one deadline."""

    def __init__(self, url: str, seconds: float, retries: int) -> None:
        self._url, self._end, self._left = url, time.monotonic() + seconds, retries

    @property
    def seconds(self) -> float:
        """Until the deadline."""
        return max(0.0, self._end - time.monotonic())

    def pause_after(self, outcome: httpx.Response | Exception) -> float:
        """The seconds to wait before the next attempt; raises `ServiceError` if there is none.

        A pause that would not end before the deadline is pointless, so that a long Retry-After is an error at once.
        """
        if isinstance(outcome, httpx.Response):
            failure, pause = _failure(outcome), _parse_pause(outcome.headers.get("Retry-After", ""))
            again = outcome.status_code == 503
        else:
            reason = str(outcome) or "it did not respond in time"
            failure, pause = ServiceError(f"{self._url} cannot be reached ({reason}): is it running?"), PAUSE
            again = True
        if not again or self._left <= 0 or pause >= self.seconds:
            raise failure
        self._left -= 1
        return pause


def _sends(call: Callable[P, Call[Result]]) -> Callable[Concatenate[Client, P], Result]:
    """A method of `Client` that sends a call."""

    @wraps(call)
    def method(self: Client, /, *arguments: P.args, **options: P.kwargs) -> Result:
        return self._send(call(*arguments, **options))

    return method


def _awaits(call: Callable[P, Call[Result]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[Result]]:
    """A method of `AsyncClient` that sends a call."""

    @wraps(call)
    async def method(self: AsyncClient, /, *arguments: P.args, **options: P.kwargs) -> Result:
        return await self._send(call(*arguments, **options))

    return method


class Client(_Connection[httpx.Client]):
    """Sends requests to a service. Threads may share it; use it in a `with` block, or call `close` at the end::

        with Client("http://127.0.0.1:8000") as client:
            client.add_events([{"user": "ann", "item": "sku-1"}])
            for item in client.recommend(user="ann", k=5).items:
                print(item.id, item.title, item.score)

    timeout: seconds until a call is given up, with all its attempts and the pauses between them.
    retries: how often a request is sent again if the service is unavailable (503) or cannot be reached, after the pause
    in Retry-After. That is safe for events, too: the client gives each an id, so none counts twice.
    """

    recommend = _sends(calls.recommend)
    similar = _sends(calls.similar)
    alternatives = _sends(calls.alternatives)
    outfits = _sends(calls.outfits)
    trending = _sends(calls.trending)
    add_events = _sends(calls.add_events)
    history = _sends(calls.history)
    forget = _sends(calls.forget)
    search = _sends(calls.search)
    item = _sends(calls.item)
    lookup = _sends(calls.lookup)
    add_item = _sends(calls.add_item)
    remove_item = _sends(calls.remove_item)
    remove_items = _sends(calls.remove_items)
    live_items = _sends(calls.live_items)
    removed_items = _sends(calls.removed_items)
    set_live_items = _sends(calls.set_live_items)
    change_live_items = _sends(calls.change_live_items)
    rules = _sends(calls.rules)
    set_rules = _sends(calls.set_rules)
    rules_log = _sends(calls.rules_log)
    preview_rules = _sends(calls.preview_rules)
    model = _sends(calls.model)

    def _open(self) -> httpx.Client:
        return httpx.Client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, call: Call[Result]) -> Result:
        request, attempts = self._request(call), _Attempts(self._url, self._timeout, self._retries)
        while True:
            outcome = self._attempt(request, attempts)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return call.read(outcome.content)
            time.sleep(attempts.pause_after(outcome))

    def _attempt(self, request: httpx.Request, attempts: _Attempts) -> httpx.Response | Exception:
        # Of each step: httpx has no limit for a whole response, which is checked between its parts.
        request.extensions = {"timeout": httpx.Timeout(attempts.seconds).as_dict()}
        try:
            with closing(self._http.send(request, stream=True)) as response:
                content = b""
                for part in response.iter_raw():
                    content += part
                    if not attempts.seconds:
                        return httpx.ReadTimeout("")
        except httpx.TransportError as error:
            return error
        return httpx.Response(response.status_code, headers=response.headers, content=content, request=request)


class AsyncClient(_Connection[httpx.AsyncClient]):
    """The same for asyncio.

    It has all methods of `Client`, to be awaited::

        async with AsyncClient("http://127.0.0.1:8000", timeout=0.3) as client:
            found = await client.recommend(user="ann", k=5)
    """

    recommend = _awaits(calls.recommend)
    similar = _awaits(calls.similar)
    alternatives = _awaits(calls.alternatives)
    outfits = _awaits(calls.outfits)
    trending = _awaits(calls.trending)
    add_events = _awaits(calls.add_events)
    history = _awaits(calls.history)
    forget = _awaits(calls.forget)
    search = _awaits(calls.search)
    item = _awaits(calls.item)
    lookup = _awaits(calls.lookup)
    add_item = _awaits(calls.add_item)
    remove_item = _awaits(calls.remove_item)
    remove_items = _awaits(calls.remove_items)
    live_items = _awaits(calls.live_items)
    removed_items = _awaits(calls.removed_items)
    set_live_items = _awaits(calls.set_live_items)
    change_live_items = _awaits(calls.change_live_items)
    rules = _awaits(calls.rules)
    set_rules = _awaits(calls.set_rules)
    rules_log = _awaits(calls.rules_log)
    preview_rules = _awaits(calls.preview_rules)
    model = _awaits(calls.model)

    def _open(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, call: Call[Result]) -> Result:
        request, attempts = self._request(call), _Attempts(self._url, self._timeout, self._retries)
        while True:
            outcome = await self._attempt(request, attempts)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return call.read(outcome.content)
            await asyncio.sleep(attempts.pause_after(outcome))

    async def _attempt(self, request: httpx.Request, attempts: _Attempts) -> httpx.Response | Exception:
        try:
            async with asyncio.timeout(attempts.seconds):
                return await self._http.send(request)
        except (httpx.TransportError, TimeoutError) as error:
            return error


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
