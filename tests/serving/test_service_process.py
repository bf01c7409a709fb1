"""The real server: signals, several workers, power cuts, logs and numbers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from lorentzrec.cli.serve import page_address
from lorentzrec.serving.stores.address import open_store
from tests.serving.running_service import PATIENCE, service_process, shop_store, wait_until

KEY = "full-key-0123456789"
CANNOT_START = """
import sys
from lorentzrec.serving.http import app
del app.create_app  # only workers call it
from lorentzrec.serving.http.server import run
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec_paper.servers import free_port
run(ServiceSettings(sys.argv[1], port=free_port()))
"""
UNNAMED_SIGNAL = signal.SIGRTMIN + 6
"""Of the real-time signals, only the first and the last have a name."""
HEADERS = "Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_under_way_is_finished_before_the_end(tmp_path: Path, number: signal.Signals) -> None:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path) as service:
        body = b'{"history": ["i1"]}'
        head = f"POST /v1/recommend HTTP/1.1\r\n{HEADERS}Content-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
            connection.sendall(head + body[:5])
            wait_until(lambda: "lorentzrec_requests_in_flight 2.0" in service.http.get("/metrics").text)
            service.process.send_signal(number)
            wait_until(lambda: "Stopping worker" in service.log.read_text())
            connection.sendall(body[5:])
            response = connection.recv(100_000)
        assert response.startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(PATIENCE) == 0
    store.close()


def test_what_workers_need_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every process writes what it imports to its log
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        imported = [line.rpartition("|")[2].strip() for line in service.log.read_text().splitlines()]
    for name in ("lorentzrec.serving.http.app", "litestar.app", "litestar._kwargs.kwargs_model", "numpy"):
        assert imported.count(name) == 1
    store.close()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("shop.local", "http://shop.local:80"),
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
    ],
)
def test_the_address_that_is_printed_is_one_to_open(host: str, address: str) -> None:
    assert page_address(host, 80) == address


def test_an_item_removed_by_one_worker_is_not_recommended_by_any_even_after_a_power_cut(tmp_path: Path) -> None:
    store = shop_store(tmp_path)

    def best() -> set[str]:
        """The best item of each worker: every request has its own connection, so both are met."""
        responses = (httpx.post(f"{service.url}/v1/recommend", json={"history": ["i1"], "k": 1}) for _ in range(20))
        return {response.json()["items"][0]["id"] for response in responses}

    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        (first,) = best()
        assert service.http.patch("/v1/live", json={"remove": [first]}).json()["removed"] == 1
        service.kill()
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        assert first not in best()
        assert service.http.get("/v1/live").json()["removed"] == [first]
        assert service.http.patch("/v1/live", json={"add": [first]}).json()["removed"] == 0
        wait_until(lambda: best() == {first})
    store.close()


def test_workers_share_the_work_and_their_numbers(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        for _ in range(20):
            with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:  # a connection each, so both are met
                assert http.post("/v1/recommend", json={"history": ["i1"]}).status_code == 200
        assert _number(service.url, 'lorentzrec_requests_total{method="POST"') == 20
        (one, *_) = _children(service.process.pid)
        os.kill(one, signal.SIGKILL)
        wait_until(lambda: len(_children(service.process.pid) - {one}) == 2)
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        assert _number(service.url, 'lorentzrec_requests_total{method="POST"') == 20
        workers = _children(service.process.pid)
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(PATIENCE)
        wait_until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers))
    store.close()


def test_workers_that_die_are_logged_counted_and_replaced(tmp_path: Path) -> None:
    """However often: both at once, and again as soon as they are there."""
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--workers", "2", "--log-level", "warning") as service:
        wait_until(lambda: _number(service.url, "lorentzrec_version_workers") == 2)
        assert _number(service.url, "lorentzrec_worker_deaths_total") == 0
        for number, name in enumerate((signal.SIGKILL, signal.SIGBUS, UNNAMED_SIGNAL), start=1):
            old = _children(service.process.pid)
            for worker in old:
                os.kill(worker, name)
            wait_until(lambda old=old: len(_children(service.process.pid) - old) == 2)  # type: ignore[misc]
            service.wait_until_alive()
            wait_until(lambda number=number: _number(service.url, "lorentzrec_worker_deaths_total") == 2 * number)  # type: ignore[misc]
        log = service.log.read_text()
        found = re.findall(r"WARNING worker \d \(pid \d+\) died \(signal (\w+)\); it is replaced", log)
        assert sorted(found) == sorted(["SIGKILL", "SIGBUS", str(UNNAMED_SIGNAL)] * 2)
        assert service.stop() == 0
    store.close()


def test_a_service_whose_workers_cannot_start_ends(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    command = [sys.executable, "-c", CANNOT_START, store.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 1
    assert "died (exit code 1)" in ended.stderr
    assert "workers die as soon as they start: the service ends" in ended.stderr
    store.close()


def test_every_acknowledged_event_survives_a_power_cut(tmp_path: Path) -> None:
    """The server and all its workers are killed while events are written; the store forgets none."""
    store = shop_store(tmp_path)
    acknowledged: set[str] = set()

    def keep_sending(url: str, sender: str, enough: Event) -> None:
        with httpx.Client(base_url=url, timeout=PATIENCE) as http:
            for number in range(100_000):
                id = f"{sender}-{number}"
                event = {"user": sender, "item": "i1", "time": number, "id": id}
                try:
                    response = http.post("/v1/events", json=event)
                except httpx.TransportError:
                    return
                assert response.json()["accepted"] == 1
                acknowledged.add(id)
                if number == 20:
                    enough.set()

    with service_process(store.url, tmp_path, "--workers", "2") as service, ThreadPoolExecutor(4) as pool:
        enough = Event()
        sending = [pool.submit(keep_sending, service.url, f"u{one}", enough) for one in range(4)]
        assert enough.wait(PATIENCE)
        service.kill()
        for future in sending:
            future.result(PATIENCE)
    with service_process(store.url, tmp_path) as service:
        stored = {
            f"u{one}-{event['time']:.0f}"
            for one in range(4)
            for event in service.http.get(f"/v1/users/u{one}/history?limit=10000").json()["history"]
        }
    assert len(acknowledged) > 20
    assert acknowledged <= stored
    store.close()


def test_the_log_is_json_and_keeps_secrets(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEY}\n")
    with service_process(store.url, tmp_path, "--api-key-file", str(keys), "--log-format", "json") as service:
        headers = {"Authorization": f"Bearer {KEY}", "X-Request-ID": "cart-17"}
        service.http.get("/v1/users/secret-customer/recommendations?k=3", headers=headers)
        service.http.get("/v1/users/secret-customer/history")
        assert service.stop() == 0
    text = service.log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line.get("request_id") == "cart-17"]
    assert (line["method"], line["route"], line["status"]) == ("GET", "/v1/users/{user}/recommendations", 200)
    assert line["milliseconds"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])
    assert [line["status"] for line in lines if line.get("route") == "/v1/users/{user}/history"] == [401]
    assert KEY not in text
    assert "secret-customer" not in text
    store.close()


def test_the_log_may_have_only_what_is_wrong(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--log-level", "warning") as service:
        assert service.http.post("/v1/recommend", json={"history": ["i1"]}).status_code == 200
        assert service.log.read_text() == f"{service.url}\n"
    store.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["file:nowhere"], "holds no store"),
        (["ftp://nowhere"], "is not the address of a store"),
        (["file:{store}", "--port", "{busy}"], "cannot listen at"),
        (["file:{store}", "--host", "256.1.1.1", "--no-keys"], "cannot listen at"),
        (["file:{store}", "--api-key-file", "nowhere"], "cannot be read as a list of keys"),
        (["file:{store}", "--allow-origin", "shop"], "is not a web site"),
        (["file:{store}", "--log-format", "xml"], "--log-format"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    open_store(f"file:{tmp_path / 'store'}", create=True).close()
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        values = {"store": tmp_path / "store", "busy": busy.getsockname()[1]}
        command = [sys.executable, "-m", "lorentzrec.cli", "serve", *(one.format(**values) for one in arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=PATIENCE)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not re.search("^http://", ended.stderr, re.MULTILINE), "the address is printed only once the port is bound"


def _number(url: str, beginning: str) -> float:
    """The sum of all numbers whose line begins so. A new connection, so that any worker may respond."""
    lines = httpx.get(f"{url}/metrics", timeout=PATIENCE).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))


def _children(pid: int) -> set[int]:
    """The worker processes of a server."""
    return {int(one) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for one in tasks.read_text().split()}
