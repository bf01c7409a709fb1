"""Clients that are slow, hang up or send too much at once do not affect others."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from lorentzrec.serving.http.app import create_app
from lorentzrec.serving.http.problems import Overloaded
from lorentzrec.serving.http.requests import COSTLY, MOST_WAITING, RequestThreads, cost
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.worker.query import RankingOptions
from tests.serving.running_service import PATIENCE, Service, service_here, service_process, shop_store, wait_until
from tests.serving.slow_bodies import HEAD, slow_bodies

QUERY = {"history": ["i1"]}
CHUNKED = HEAD.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("shop")
    store = shop_store(folder)
    with service_process(store.url, folder, "--workers", "1") as running:  # the limits are each worker's
        yield running
    store.close()


def count(service: Service, status: int) -> float:
    """How many requests for recommendations had this status."""
    line = f'lorentzrec_requests_total{{method="POST",route="/v1/recommend",status="{status}"}}'
    found = [text for text in service.http.get("/metrics").text.splitlines() if text.startswith(line)]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def test_slow_bodies_do_not_keep_others_out(service: Service) -> None:
    """More slow bodies than a worker takes requests at once."""
    slow = ServiceSettings("file:store").concurrent_requests + 22
    with slow_bodies(service.port, slow):
        wait_until(lambda: f"lorentzrec_requests_in_flight {slow + 1:.1f}" in service.http.get("/metrics").text)
        statuses = [service.http.post("/v1/recommend", json=QUERY).status_code for _ in range(200)]
    wait_until(lambda: "lorentzrec_requests_in_flight 1.0" in service.http.get("/metrics").text)
    assert statuses.count(200) >= 0.95 * len(statuses)


@pytest.mark.parametrize("ending", ["closed", "half closed", "reset", "bad chunk"])
def test_a_client_that_hangs_up_is_no_error(service: Service, ending: str) -> None:
    before = count(service, 499)
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
        connection.sendall(CHUNKED + b"ZZ\r\n{" if ending == "bad chunk" else HEAD + b"{")
        if ending == "half closed":
            connection.shutdown(socket.SHUT_WR)
        if ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
        if ending in ("half closed", "bad chunk"):
            assert connection.recv(10_000).startswith(b"HTTP/1.1 400 ")
    wait_until(lambda: count(service, 499) == before + 1)
    assert count(service, 500) == 0
    assert "ERROR" not in service.log.read_text()


def test_more_requests_than_slots_get_a_503(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    event = {"user": "ann", "item": "i1"}
    with (
        service_here(store.url, concurrent_requests=1, store_seconds=PATIENCE, request_seconds=PATIENCE) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        assert service.post("/v1/events", json=event).status_code == 200
        lock = sqlite3.connect(tmp_path / "store" / "store.sqlite", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        first = pool.submit(service.post, "/v1/events", json=event)
        wait_until(lambda: "lorentzrec_requests_in_flight 2.0" in service.get("/metrics").text)
        refused = service.post("/v1/recommend", json=QUERY)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json()["type"] == "urn:lorentzrec:overloaded"
        assert service.get("/v1/model").status_code == 503
        assert service.get("/healthz").status_code == 200
        lock.execute("ROLLBACK")
        lock.close()
        first.result(PATIENCE)
        assert service.post("/v1/recommend", json=QUERY).status_code == 200
    store.close()


class _Request:
    """A request to an application in this process, whose body comes in parts that the test decides."""

    def __init__(self, app: Any, length: int) -> None:
        headers = {"host": "localhost", "content-type": "application/json", "content-length": str(length)}
        self.parts: asyncio.Queue[bytes] = asyncio.Queue()
        self.response: dict[str, Any] = {}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/v1/recommend",
            "raw_path": b"/v1/recommend",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": await self.parts.get(), "more_body": True}

    async def _send(self, message: Any) -> None:
        self.response |= message

    async def ended(self) -> tuple[int, str]:
        await asyncio.wait_for(self.task, PATIENCE)
        return self.response["status"], json.loads(self.response["body"])["type"].removeprefix("urn:lorentzrec:")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_beyond_the_limits_the_oldest_or_the_largest_body_is_given_up(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(f"file:{tmp_path}", arriving_bodies=3, arriving_bytes=1_000))

    async def visit() -> None:
        requests = [_Request(app, 2_000) for _ in range(3)]
        await settle()
        requests.append(_Request(app, 2_000))  # a fourth: the first is given up
        assert await requests[0].ended() == (503, "overloaded")
        for request, size in zip(requests[1:], (100, 600, 200), strict=True):
            request.parts.put_nowait(b" " * size)
        await settle()
        requests[1].parts.put_nowait(b" " * 101)  # 1,001 bytes in all: the largest is given up, not the last
        assert await requests[2].ended() == (503, "overloaded")
        requests[1].parts.put_nowait(b" " * 500)
        requests[3].parts.put_nowait(b" " * 1_800)  # complete, and so it has a slot and counts no more
        assert await requests[3].ended() == (400, "invalid-request")
        requests[1].parts.put_nowait(b" " * 1_299)
        assert await requests[1].ended() == (400, "invalid-request")

    asyncio.run(visit())


def test_a_body_that_never_comes_is_given_up(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(f"file:{tmp_path}", request_seconds=0.1))

    async def visit() -> None:
        request = _Request(app, 100)
        request.parts.put_nowait(b"{")
        assert await request.ended() == (408, "too-slow")

    asyncio.run(visit())


def test_costs_of_ordinary_and_of_large_requests() -> None:
    assert cost(RankingOptions(10, diversity=0.3, reasons=True), 100) < COSTLY / 10
    assert cost(RankingOptions(1_000, diversity=0.5), 2) > COSTLY
    assert cost(RankingOptions(1_000, reasons=True), 1_000) > COSTLY
    assert cost(RankingOptions(1), 20_000) > COSTLY
    assert cost(RankingOptions(1, exclude=["i1"] * 10_000, allow=["i2"] * 10_000), 0) > COSTLY


def test_costly_requests_take_turns_and_cheap_ones_do_not_wait() -> None:
    async def visit() -> None:
        threads, go, running, most = RequestThreads(), Event(), [0], [0]

        def work() -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            assert go.wait(PATIENCE)
            running[0] -= 1

        waiting = [asyncio.create_task(threads.run(COSTLY + 1, work)) for _ in range(MOST_WAITING)]
        await settle()
        assert await threads.run(COSTLY, lambda: "cheap") == "cheap"
        with pytest.raises(Overloaded, match="try again"):
            await threads.run(COSTLY + 1, work)
        go.set()
        await asyncio.gather(*waiting)
        assert most == [1]
        assert await threads.run(COSTLY + 1, lambda: "costly") == "costly"

    asyncio.run(visit())


def test_reasons_have_a_limit(service: Service) -> None:
    history = [f"i{number % 40}" for number in range(10_000)]
    query = {"history": history, "context": history, "reasons": True}
    assert service.http.post("/v1/recommend", json=query | {"k": 100}).status_code == 200
    assert service.http.post("/v1/recommend", json=query | {"k": 101, "reasons": False}).status_code == 200
    for path, body in (("recommend", query | {"k": 101}), ("outfits", {"basket": history, "k": 201, "reasons": True})):
        refused = service.http.post(f"/v1/{path}", json=body)
        assert refused.status_code == 400
        assert "2,000,000" in refused.json()["detail"]


def test_connections_of_one_client_stay_open(service: Service) -> None:
    """The middleware ends a body at its declared length, before the server's last message; connections survive that."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
        used = {
            http.post("/v1/recommend", json=QUERY).extensions["network_stream"].get_extra_info("client_addr")
            for _ in range(5)
        }
    assert len(used) == 1
