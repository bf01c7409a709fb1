"""Probes of the real server: every worker counts, and no number of connections keeps a probe out."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.http.probes import CONNECTIONS, ProbeListener
from lorentzrec.serving.http.server import _bind
from lorentzrec_paper.servers import free_port
from tests.serving.running_service import PATIENCE, Service, service_process, shop_store, wait_until

ONE_IS_LATE = """
import os, pathlib, sys, time

store, port, probe_port, folder = sys.argv[1:]
from lorentzrec.serving.worker import version_watcher
from lorentzrec.serving.http.server import run
from lorentzrec.serving.settings import ServiceSettings

version_watcher.START_SECONDS = 0.1
load = version_watcher.VersionWatcher._load

def load_late(self, *arguments):
    # In the first worker that comes here, after the file `go` appears.
    try:
        os.mkdir(pathlib.Path(folder, "late"))
    except FileExistsError:
        pass
    else:
        while not pathlib.Path(folder, "go").exists():
            time.sleep(0.01)
    return load(self, *arguments)

version_watcher.VersionWatcher._load = load_late
run(ServiceSettings(store, port=int(port), probe_port=int(probe_port), workers=2))
"""
"""A service of two workers, one of which takes long to load its version."""


@contextmanager
def probed_service(folder: Path, *options: str) -> Iterator[tuple[Service, httpx.Client]]:
    """A service, and a client of its port for probes that uses a connection for each request."""
    store, port = shop_store(folder), free_port()
    with (
        service_process(store.url, folder, "--probe-port", str(port), *options) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as probes,
    ):
        wait_until(lambda: probes.get("/readyz").status_code == 200)
        yield service, probes
    store.close()


def workers_of(service: Service) -> list[int]:
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_service_is_ready_when_every_worker_has_a_version(tmp_path: Path) -> None:
    store, port, probe_port = shop_store(tmp_path), free_port(), free_port()
    command = [sys.executable, "-c", ONE_IS_LATE, store.url, str(port), str(probe_port), str(tmp_path)]
    url, probes = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{probe_port}"

    def status(address: str) -> int:
        """Each time by a connection of its own, so that any worker may respond; 0 if there is none yet."""
        try:
            return httpx.get(address, timeout=PATIENCE).status_code
        except httpx.TransportError:
            return 0

    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        seen: set[int] = set()

        def both_are_met() -> bool:
            seen.add(status(f"{url}/v1/model"))
            return {200, 503} <= seen

        wait_until(both_are_met)
        assert {status(f"{url}/readyz") for _ in range(20)} == {503}, "of the worker that has a version, too"
        assert (status(f"{probes}/readyz"), status(f"{probes}/healthz")) == (503, 200)
        assert "the version is being loaded" in httpx.get(f"{probes}/readyz").json()["detail"]
        (tmp_path / "go").touch()
        wait_until(lambda: status(f"{probes}/readyz") == 200)
        assert {status(f"{url}/readyz") for _ in range(20)} == {200}
        assert {status(f"{url}/v1/model") for _ in range(20)} == {200}
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait(PATIENCE)
        store.close()


def test_a_service_with_a_worker_that_hangs_is_not_ready(tmp_path: Path) -> None:
    with probed_service(tmp_path, "--workers", "2") as (service, probes):
        assert probes.get("/healthz").json() == {"alive": True}
        stopped = workers_of(service)[0]
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: probes.get("/readyz").status_code == 503)
        response = probes.get("/readyz")
        assert response.headers["Content-Type"] == "application/problem+json"
        assert f"the worker {stopped} has not responded for" in response.json()["detail"]
        os.kill(stopped, signal.SIGCONT)
        wait_until(lambda: probes.get("/readyz").status_code == 200)
        os.kill(stopped, signal.SIGKILL)
        wait_until(lambda: stopped not in workers_of(service) and len(workers_of(service)) == 2)
        wait_until(lambda: probes.get("/readyz").status_code == 200)
        assert probes.get("/readyz").json()["warnings"] == []


def test_connections_of_clients_do_not_keep_probes_out(tmp_path: Path) -> None:
    limits = ("--connections", "8", "--idle-seconds", "3600", "--workers", "1")
    with probed_service(tmp_path, *limits) as (service, probes), ExitStack() as opened:
        service.http.close()

        def connect() -> socket.socket:
            return opened.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE))

        idle = [connect() for _ in range(8)]
        for one in idle[::2]:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        late = connect()
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(3):
            assert probes.get("/healthz").status_code == 200
            assert probes.get("/readyz").json()["ready"]
            assert "lorentzrec_worker_deaths_total" in probes.get("/metrics").text
        assert not select.select([late], [], [], 0)[0], "the worker has no connection left, so the test shows something"
        for one in idle:
            one.close()
        assert late.recv(1000).startswith(b"HTTP/1.1 200")


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    """Before a request, within its header, and after it."""
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--idle-seconds", "1") as service:
        for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost: loc", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
                connection.sendall(sent)
                while connection.recv(1000):
                    pass
    store.close()


def test_connections_to_the_port_for_probes_do_not_keep_probes_out(tmp_path: Path) -> None:
    with probed_service(tmp_path, "--workers", "1") as (_, probes), ExitStack() as opened:
        address = ("127.0.0.1", int(probes.base_url.port or 0))
        idle = [opened.enter_context(socket.create_connection(address, timeout=PATIENCE)) for _ in range(300)]
        assert httpx.get(f"{probes.base_url}/readyz", timeout=PATIENCE).status_code == 200
        assert idle[0].recv(1) == b"", "the oldest is closed"


def test_a_burst_of_connections_leaves_no_more_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many connections are accepted before the first of them is served."""
    monkeypatch.setattr("lorentzrec.serving.http.probes.SECONDS", PATIENCE)  # none is closed because of its age
    count, waiting = CONNECTIONS + 200, select.poll()

    async def burst(opened: ExitStack) -> None:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=count))
        for _ in range(count):
            waiting.register(opened.enter_context(socket.create_connection(listener.getsockname())), select.POLLIN)
        serving = asyncio.create_task(ProbeListener(listener, tmp_path, 1, lambda: False)._run())
        await asyncio.to_thread(wait_until, lambda: len(waiting.poll(0)) >= count - CONNECTIONS)
        assert len(waiting.poll(0)) == count - CONNECTIONS, "the others are still open"
        serving.cancel()

    with ExitStack() as opened:
        asyncio.run(burst(opened))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET /v1/model", 404), ("POST /readyz", 405), ("HEAD /readyz", 200), ("GET /readyz?verbose", 200), ("what", 405)],
)
def test_the_port_for_probes_has_nothing_else(tmp_path: Path, request_line: str, status: int) -> None:
    with probed_service(tmp_path, "--workers", "1") as (_, probes):
        address = ("127.0.0.1", int(probes.base_url.port or 0))
        with socket.create_connection(address, timeout=PATIENCE) as connection:
            connection.sendall(f"{request_line} HTTP/1.1\r\n\r\n".encode())
            response = b"".join(iter(lambda: connection.recv(1000), b""))
        assert response.startswith(f"HTTP/1.1 {status} ".encode())
        assert response.endswith(b"\r\n\r\n") == request_line.startswith("HEAD")


def test_a_service_that_stops_is_not_ready(tmp_path: Path) -> None:
    with probed_service(tmp_path, "--workers", "1") as (service, probes):
        body = b'{"history": ["i1"]}'
        head = "POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body[:5])
            wait_until(lambda: "lorentzrec_requests_in_flight 1.0" in probes.get("/metrics").text)
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: probes.get("/readyz").status_code == 503)
            assert probes.get("/readyz").json()["detail"] == "the service is stopping"
            connection.sendall(body[5:])
            assert connection.recv(100_000).startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(PATIENCE) == 0


def test_two_services_that_start_at_once_cannot_take_the_same_port_for_probes() -> None:
    """The first has not begun to accept connections when the second starts."""
    with _bind("127.0.0.1", 0, "--probe-port") as first:
        port = first.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen at 127.0.0.1:{port} .* --probe-port"):
            _bind("127.0.0.1", port, "--probe-port")


def test_a_port_for_probes_that_is_taken_is_one_line(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = str(busy.getsockname()[1])
        for port, probe_port, wanted in (
            (str(free_port()), taken, "choose another --host or --probe-port"),
            (taken, taken, f"the port {taken} is for requests"),
        ):
            command = [sys.executable, "-m", "lorentzrec.cli", "serve", store.url, "--port", port]
            ended = subprocess.run(
                [*command, "--probe-port", probe_port], capture_output=True, text=True, check=False, timeout=PATIENCE
            )
            assert (ended.returncode, wanted in ended.stderr) == (2, True), ended.stderr
    store.close()
