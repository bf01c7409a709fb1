"""Probes on a port of their own, answered by the parent of the workers: connections to workers do not delay them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from lorentzrec.serving.worker.worker_records import (
    describe_hung,
    find_hung,
    find_problems,
    merge_warnings,
    read_records,
)

CONNECTIONS = 256
"""Beyond this many, the oldest connection is closed: a flood of them does not keep a probe out."""
SECONDS = 5.0
"""In which a request must arrive, and its response be read."""
HEAD_BYTES = 8192

logger = logging.getLogger("lorentzrec.serving")


class Response(NamedTuple):
    """What a probe receives."""

    status: HTTPStatus
    media_type: str
    body: bytes


class ProbeListener:
    """A small HTTP server in a thread of the parent. One request per connection; it never waits for a worker."""

    def __init__(self, listener: socket.socket, folder: Path, workers: int, stopping: Callable[[], bool]) -> None:
        """`folder`: what the processes of the service share; `stopping`: whether the service is about to end."""
        self._listener, self._folder, self._workers, self._stopping = listener, folder, workers, stopping
        self._open: dict[asyncio.StreamWriter, None] = {}

    def start(self) -> None:
        Thread(target=lambda: asyncio.run(self._run()), name="probes", daemon=True).start()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, sock=self._listener, limit=HEAD_BYTES)
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        while len(self._open) > CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]  # at once: many connections may come before its own task runs again
            oldest.transport.abort()
        try:
            async with asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._respond(head))
                # The end of the response, also if a worker that was started meanwhile has inherited the connection.
                writer.write_eof()
                await writer.drain()
        except (TimeoutError, EOFError, ConnectionError, asyncio.LimitOverrunError):
            pass  # not a probe, or one that has given up
        except Exception:
            logger.exception("a probe failed")
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _respond(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        response = (
            self.answer(path) if method in ("GET", "HEAD") else _problem(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        )
        lines = [
            f"HTTP/1.1 {response.status.value} {response.status.phrase}",
            f"Content-Type: {response.media_type}",
            f"Content-Length: {len(response.body)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else response.body)

    def answer(self, path: str) -> Response:
        """The response to a request for a path."""
        if path == "/metrics":
            from lorentzrec.serving.worker.metrics import render_metrics

            return Response(HTTPStatus.OK, "text/plain; version=0.0.4", render_metrics())
        if path not in ("/healthz", "/readyz"):
            return _problem(HTTPStatus.NOT_FOUND, "there are /healthz, /readyz and /metrics here: use one of them")
        records = read_records(self._folder)
        if path == "/healthz":
            hung = find_hung(records)
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, describe_hung(hung)) if hung else _ok({"alive": True})
        problems = ["the service is stopping"] if self._stopping() else find_problems(records, self._workers)
        if problems:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(problems))
        return _ok({"ready": True, "model": records[0].model, "warnings": merge_warnings(records)})


def _ok(content: dict[str, object]) -> Response:
    return Response(HTTPStatus.OK, "application/json", json.dumps(content).encode())


def _problem(status: HTTPStatus, detail: str) -> Response:
    kind = "urn:lorentzrec:not-ready" if status == HTTPStatus.SERVICE_UNAVAILABLE else "about:blank"
    content = {"type": kind, "title": status.phrase, "status": status.value, "detail": detail}
    return Response(status, "application/problem+json", json.dumps(content).encode())
