"""A proxy in front of an emulator of Cosmos DB that fails as the real service does: by a script, request by request."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Literal

from tests.emulators import find_program

Kind = Literal["read", "write", "account"]
HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "date", "server", "keep-alive"}


@dataclass(frozen=True)
class Fault:
    """What happens to the next request of a kind instead of a proper response."""

    status: int | None = None
    """The status of the response; None resets the connection without one."""
    sub_status: int | None = None
    retry_after: int | None = None
    """Milliseconds, as in x-ms-retry-after-ms."""
    forwarded: bool = False
    """The emulator gets the request all the same: the work is done, only its response is lost."""
    body: bytes = b'{"code": "Fault", "message": "a fault of the test"}'
    cut: int = 0
    """Bytes of the body that are announced and never sent."""
    hang: float = 0.0
    """Seconds of silence before anything else happens."""
    passes: bool = False
    """Nothing happens to this request: the fault is for a later one."""
    kind: Kind = "write"


@dataclass(frozen=True)
class Seen:
    """A request that reached the proxy, and what became of it."""

    kind: Kind
    method: str
    path: str
    headers: Mapping[str, str]
    status: int | None


@dataclass
class Region:
    name: str
    port: int
    writable: bool


@dataclass
class CosmosProxy:
    """Listens on a port of this machine, over TLS if `encrypted` with the certificate of the emulator."""

    upstream: int
    encrypted: bool = False
    faults: deque[Fault] = field(default_factory=deque)
    """Each is used up by one request of its kind, in this order."""
    seen: list[Seen] = field(default_factory=list)
    regions: list[Region] | None = None
    """What the account names as its regions; None leaves what the emulator names."""
    several_write_regions: bool = False

    def __post_init__(self) -> None:
        self._lock = Lock()
        self.port = 0
        self.start()

    def start(self) -> None:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        if self.encrypted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            folder = find_program("cosmosdb-server", "cosmos", "@vercel/cosmosdb-server").resolve().parents[1]
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """From now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()

    def address(self, database: str, regions: str = "") -> str:
        scheme = "cosmos" if self.encrypted else "cosmos+http"
        return f"{scheme}://127.0.0.1:{self.port}/{database}" + (f"?regions={regions}" if regions else "")

    def counted(self, kind: Kind) -> int:
        return sum(one.kind == kind for one in self.seen)

    def next_fault(self, kind: Kind) -> Fault | None:
        with self._lock:
            found = next((fault for fault in self.faults if fault.kind == kind), None)
            if found is not None:
                self.faults.remove(found)
            return None if found is not None and found.passes else found

    def account(self, body: bytes) -> bytes:
        account: dict[str, Any] = json.loads(body)
        scheme = "https" if self.encrypted else "http"
        regions = self.regions or [Region("South Central US", self.port, writable=True)]
        places = [
            (region, {"name": region.name, "databaseAccountEndpoint": f"{scheme}://127.0.0.1:{region.port}/"})
            for region in regions
        ]
        account["writableLocations"] = [place for region, place in places if region.writable]
        account["readableLocations"] = [place for _, place in places]
        account["enableMultipleWriteLocations"] = self.several_write_regions
        return json.dumps(account).encode()


class _Handler(BaseHTTPRequestHandler):
    owner: CosmosProxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        kind = self._kind()
        fault = self.owner.next_fault(kind)
        if fault is not None and fault.hang:
            time.sleep(fault.hang)
        response = self._forward(body) if fault is None or fault.forwarded else None
        status = fault.status if fault is not None else response and response[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.seen.append(Seen(kind, self.command, self.path, headers, status))
        if fault is None:
            assert response is not None
            content = self.owner.account(response[2]) if kind == "account" else response[2]
            self._reply(response[0], response[1], content)
        elif fault.status is None:
            # A reset, not an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        else:
            headers = {"content-type": "application/json"}
            if fault.sub_status is not None:
                headers["x-ms-substatus"] = str(fault.sub_status)
            if fault.retry_after is not None:
                headers["x-ms-retry-after-ms"] = str(fault.retry_after)
            self._reply(fault.status, headers, fault.body, fault.cut)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _pass  # noqa: N815 - the names that http.server looks for

    def _kind(self) -> Kind:
        if self.path in ("", "/"):
            return "account"
        query = self.headers.get("x-ms-documentdb-isquery", "").lower() == "true"
        return "read" if self.command == "GET" or query else "write"

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.owner.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
        connection.request(self.command, self.path, body or None, headers)
        response = connection.getresponse()
        content = response.read()
        passed_on = {name: value for name, value in response.getheaders() if name.lower() not in HOP_HEADERS}
        connection.close()
        return response.status, passed_on, content

    def _reply(self, status: int, headers: dict[str, str], body: bytes, cut: int = 0) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body) + cut))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client has given up meanwhile

    def log_message(self, *_: object) -> None:
        pass
