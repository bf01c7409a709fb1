"""A load generator: requests over keep-alive connections, at a given rate or as fast as responses arrive.

    python benchmarks/load_client.py      a `Task` as a line of JSON from standard input, a `Tally` to standard output

It runs in its own process, so that it neither shares the service's lock nor measures itself. At a rate, request
number i is due at i / rate regardless of those before it, and its latency is counted from then: a service that stalls
does not get fewer requests, and the stall shows in all requests that are due in it. One thread and one blocking socket
per connection, and bodies made in advance, cost the least: see `client` in the results.
"""

from __future__ import annotations

import gc
import json
import math
import os
import re
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import count

PATIENCE = 30.0
"""Seconds after which a missing response counts as an error."""


@dataclass(frozen=True)
class Task:
    """What to send, and how often."""

    port: int
    bodies: list[str]
    """JSON for POST /v1/recommend, sent in a cycle."""
    seconds: float = math.inf
    """Duration; always ends with standard input."""
    rate: float | None = None
    """Requests per second; None: the next one as soon as a connection is free."""
    connections: int = 32
    key: str | None = None
    """Of the service, if it needs one."""
    each: bool = False
    """Whether the tally has the latency of each request."""


@dataclass
class Tally:
    """The result. Latencies are in milliseconds."""

    sent: int = 0
    errors: list[str] = field(default_factory=list)
    """Some responses that were not complete: a status, a lost connection, a fallback."""
    failures: int = 0
    """Their number."""
    rate: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    client_cpu: float = 0.0
    """Share of one core that this process used."""
    each: list[tuple[float, float]] = field(default_factory=list)
    """When each request was due, as `time.time()`, and its latency; in order of time, if the task wants them."""
    labels: dict[str, int] = field(default_factory=dict)
    """Number of responses by version and first words of titles: "VERSION LABEL LABEL"."""


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of the response."""
        self._socket.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        length = re.search(rb"content-length: *(\d+)", received[:end], re.IGNORECASE)
        expected = end + 4 + int(length[1] if length else 0)
        while len(received) < expected:
            received += self._more()
        return int(received[9:12]), received[end + 4 :]

    def _more(self) -> bytes:
        if not (part := self._socket.recv(65536)):
            raise ConnectionError("the service closed the connection")
        return part

    def close(self) -> None:
        self._socket.close()


def post(path: str, body: str, key: str | None = None) -> bytes:
    """A request as it is sent."""
    encoded = body.encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"X-API-Key: {key}\r\n" if key else ""
    return f"{head}Content-Length: {len(encoded)}\r\n\r\n".encode() + encoded


def fault(status: int, body: bytes) -> str | None:
    """Why this is not a full response, which is ten items for the history of the query; None if it is."""
    if status != 200:
        return f"status {status}: {body[:200].decode(errors='replace')}"
    if b'"degraded":null' not in body or b'"fallback":null' not in body:
        return f"a fallback: {body[-300:].decode(errors='replace')}"
    items = body.count(b'"id":')
    return None if items == 10 else f"{items} items instead of 10"


def run(task: Task, stopped: threading.Event) -> Tally:
    """Send requests for the seconds of the task, or until it is stopped."""
    requests = [post("/v1/recommend", body, task.key) for body in task.bodies]
    tally, latencies, labels = Tally(), [], Counter[str]()
    numbers, start = count(), time.perf_counter() + 0.1
    epoch = time.time() - time.perf_counter()

    def keep_sending() -> None:
        connection = None
        while True:
            number = next(numbers)
            due = start + number / task.rate if task.rate else max(time.perf_counter(), start)
            if due >= start + task.seconds or stopped.is_set():
                return
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                connection = connection or Connection(task.port)
                status, body = connection.send(requests[number % len(requests)])
                trouble = fault(status, body)
            except (OSError, ValueError) as error:
                trouble, connection = repr(error), None
            latency = time.perf_counter() - due
            latencies.append(latency)
            if task.each:
                tally.each.append((epoch + due, 1e3 * latency))
            if trouble:
                tally.errors.append(trouble)
            else:
                words = sorted(set(re.findall(rb'"title":"(\w+)', body)))
                model = re.search(rb'"model":"([^"]+)', body)
                labels[b" ".join([model[1] if model else b"", *words]).decode()] += 1

    threads = [threading.Thread(target=keep_sending) for _ in range(task.connections)]
    gc.disable()
    before = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - start
    latencies.sort()
    tally.sent, tally.rate = len(latencies), len(latencies) / elapsed
    tally.p50, tally.p95, tally.p99 = (
        latencies[int(share * (len(latencies) - 1))] * 1e3 for share in (0.5, 0.95, 0.99)
    )
    tally.max, tally.client_cpu = latencies[-1] * 1e3, (time.process_time() - before) / elapsed
    tally.each.sort()
    tally.failures, tally.errors, tally.labels = len(tally.errors), tally.errors[:3], dict(labels)
    return tally


def main() -> None:
    task, stopped = Task(**json.loads(sys.stdin.readline())), threading.Event()

    def stop_with_input() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=stop_with_input, daemon=True).start()
    print(json.dumps(asdict(run(task, stopped))), flush=True)
    os._exit(0)  # the thread at standard input cannot be woken


if __name__ == "__main__":
    main()
