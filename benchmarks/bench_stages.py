"""Where the processor time of a recommendation goes: a bare server, a bare framework, the service, and its stages.

    python benchmarks/bench_stages.py [--items N] [--live N]

The server is granian with one worker; what it runs is an ASGI application that returns ten items, Litestar that
decodes the same body and returns them, and `lorentzrec serve`. One client sends requests one after the other, so that
nothing waits; the processor time is that of all threads of the worker. The stages of a recommendation are measured in
this process, in one thread, on the same version: each is the median of blocks of 100 requests.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from bench_serve import LARGE, LIVE, serving
from load_client import Connection, post
from lorentzrec.points.points import History
from lorentzrec.serving.http.bodies import decode_body
from lorentzrec.serving.http.messages import RecommendRequest, RecommendResponse
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.version import open_version
from lorentzrec.serving.worker.recommender import Recommender
from measuring import report, worker_seconds
from served_catalogue import Catalogue, catalogue, live_subset, model_of

BLOCK, ROUNDS, WARM = 100, 15, 3
ANSWER = {
    "items": [
        {
            "id": f"p{n:07}",
            "row": n,
            "score": -1.25,
            "title": f"Item {n}",
            "category": "12",
            "because": [],
            "new": False,
        }
        for n in range(10)
    ],
    "model": "a-version",
    "milliseconds": 0.5,
}


class Request(msgspec.Struct):
    history: list[str]


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application: reads the body, and returns the same bytes each time."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(ENCODED)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ENCODED})


def framework() -> Any:
    """A Litestar application with one route."""
    from litestar import Litestar
    from litestar import post as route

    @route("/v1/recommend", status_code=200)
    async def recommend(data: Request) -> dict[str, Any]:
        return ANSWER

    return Litestar([recommend])


ENCODED = msgspec.json.encode(ANSWER)


def per_request(send: Callable[[], object], spent: Callable[[], float]) -> float:
    """Microseconds of processor time: the median of blocks."""
    found = []
    for number in range(-WARM, ROUNDS):
        before = spent()
        for _ in range(BLOCK):
            send()
        if number >= 0:
            found.append(1e6 * (spent() - before) / BLOCK)
    return statistics.median(found)


@contextmanager
def granian(application: str, *options: str) -> Iterator[tuple[int, int]]:
    """The port and the process of a server with one worker."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--port", str(port), "--no-log", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([*command, f"bench_stages:{application}"], env=environment) as process:
        try:
            for _ in range(300):
                try:
                    Connection(port).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield port, process.pid
        finally:
            process.terminate()


def measure_server(port: int, pid: int, requests: list[bytes]) -> float:
    turn = iter(range(10**9))
    with closing(Connection(port)) as connection:

        def send() -> None:
            status, body = connection.send(requests[next(turn) % len(requests)])
            if status != 200:
                raise SystemExit(f"status {status}: {body[:200].decode(errors='replace')}")

        return per_request(send, lambda: worker_seconds(pid))


def measure_stages(shop: Catalogue, live: int) -> dict[str, float]:
    """Microseconds of one thread."""
    with closing(open_store(shop.store)) as store:
        version = open_version(store.fetch(str(store.state().version), Path()))
        ids = model_of(shop).items.series.cast(pl.String)
        chosen = ids[live_subset(len(ids), live)].to_list() if live else None
        recommender = Recommender(version, chosen)
        recommender.tune()
        bodies = [json.dumps({"history": history}).encode() for history in shop.histories[:1_000]]
        decoded = [decode_body(body, RecommendRequest) for body in bodies]
        histories = shop.histories[:1_000]
        rows = [version.items.rows(history) for history in histories]
        ranker = recommender._ranker
        ranked = [ranker.top(None, 10, row, history=History(row))[0] for row in rows]
        users = list(shop.users)
        found = recommender.recommend(histories[0])
        response = RecommendResponse(
            items=found.items,
            model=version.name,
            arm="main",
            fallback=None,
            fallback_kinds=[],
            rules=(),
            degraded=None,
            milliseconds=0.5,
        )
        stages: dict[str, Callable[[int], object]] = {
            "decode and check the body": lambda n: decode_body(bodies[n], RecommendRequest),
            "read a history from the store": lambda n: store.history(users[n]),
            "rows of its ids": lambda n: version.items.rows(histories[n]),
            "rank: one compiled call and its preparation": lambda n: ranker.top(
                None, 10, rows[n], history=History(rows[n])
            ),
            "ids, titles and categories of ten items": lambda n: version.items.items(ranked[n]),
            "all of `Recommender.recommend`": lambda n: recommender.recommend(histories[n], decoded[n]),
            "encode the response": lambda n: msgspec.json.encode(response),
        }
        results = {}
        for name, stage in stages.items():
            turn = iter(range(10**9))
            results[name] = per_request(lambda: stage(next(turn) % 1_000), time.thread_time)  # noqa: B023
        version.items.close()
        return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=LARGE)
    parser.add_argument("--live", type=int, default=LIVE, help="0: all")
    options = parser.parse_args()
    shop = catalogue(options.items)
    histories = [post("/v1/recommend", json.dumps({"history": one})) for one in shop.histories[:1_000]]
    users = [post("/v1/recommend", json.dumps({"user": one})) for one in list(shop.users)[:1_000]]
    probe = [b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"]
    rows: list[dict[str, Any]] = []

    def add(what: str, microseconds: float) -> None:
        rows.append({"what": what, "us of processor": round(microseconds)})

    with granian("bare") as (port, pid):
        add("granian: reads a body, returns ten items", measure_server(port, pid, histories))
    with granian("framework", "--factory") as (port, pid):
        add("Litestar on it: decodes the body, encodes ten items", measure_server(port, pid, histories))
    with closing(open_store(shop.store)) as store:
        if options.live:
            ids = model_of(shop).items.series.cast(pl.String)
            store.set_live_items(ids[live_subset(len(ids), options.live)].to_list())
    try:
        with serving(shop.store, 1, "--log-level", "warning") as service:
            time.sleep(5)  # until the lists of live items are ready
            add("lorentzrec: /healthz", measure_server(service.port, service.pid, probe))
            add("lorentzrec: a recommendation by history", measure_server(service.port, service.pid, histories))
            add("lorentzrec: a recommendation by customer", measure_server(service.port, service.pid, users))
    finally:
        with closing(open_store(shop.store)) as store:
            store.set_live_items(None)
    for name, microseconds in measure_stages(shop, options.live).items():
        add(f"  {name}", microseconds)
    report("stages", f"{options.live or options.items:,} live of {options.items:,} items, one worker", rows)


if __name__ == "__main__":
    main()
