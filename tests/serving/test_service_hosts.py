"""Without API keys a service is open to this machine, and still closed to the web pages that its browsers show."""

from __future__ import annotations

import http.server
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from litestar.testing import TestClient

from lorentzrec.errors import ConfigError
from lorentzrec.serving.settings import ServiceSettings
from tests.cli.command_line import error_of
from tests.serving.running_service import PATIENCE, Service, service_here, service_process, shop_store

EVENT = b'{"user": "ann", "item": "i1"}'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = shop_store(tmp_path_factory.mktemp("shop"))
    yield store.url
    store.close()


@pytest.fixture(scope="module")
def service(store: str) -> Iterator[TestClient[Any]]:
    with service_here(store) as client:
        yield client


@pytest.fixture(scope="module")
def process(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service_process(store, tmp_path_factory.mktemp("log"), "--workers", "1") as running:
        yield running


def statuses(service: TestClient[Any], headers: list[dict[str, str]]) -> list[int]:
    return [service.get("/v1/model", headers=one).status_code for one in headers]


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "text/json", "json"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/events"), ("PUT", "/v1/live"), ("DELETE", "/v1/users/ann"), ("POST", "/v1/recommend")],
)
def test_a_body_must_be_sent_as_json(service: TestClient[Any], method: str, path: str, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    refused = service.request(method, path, content=EVENT, headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (415, "urn:lorentzrec:not-json")
    assert "Content-Type: application/json" in refused.json()["detail"]
    assert service.get("/v1/users/ann/history").json()["history"] == []


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.shop+json"])
def test_types_that_are_json(service: TestClient[Any], kind: str) -> None:
    body = b'{"history": ["i1"]}'
    assert service.post("/v1/recommend", content=body, headers={"Content-Type": kind}).status_code == 200
    assert service.request("DELETE", "/v1/users/nobody").status_code == 200


def test_only_names_of_this_machine_are_accepted(service: TestClient[Any]) -> None:
    good = ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:8000"]
    bad = ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.2", "[::2]:8000", "localhost:1:2"]
    assert statuses(service, [{"Host": name} for name in good]) == [200] * len(good)
    assert statuses(service, [{"Host": name} for name in bad]) == [421] * len(bad)
    refused = service.get("/v1/model", headers={"Host": "evil.example"})
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:lorentzrec:unknown-host"
    assert "--allow-host" in refused.json()["detail"]
    for path in ("/healthz", "/readyz", "/metrics"):  # a probe uses the address of the container
        assert service.get(path, headers={"Host": "10.1.2.3:8000"}).status_code == 200


@pytest.mark.parametrize(
    ("settings", "accepted", "refused"),
    [
        ({"allowed_hosts": ("shop.example", "::2")}, ["shop.example:80", "[::2]", "localhost"], ["other.example"]),
        ({"allowed_hosts": ("*",)}, ["shop.example", "x"], []),
        ({"host": "10.1.2.3", "no_keys": True}, ["10.1.2.3:8000", "localhost"], ["10.1.2.4"]),
        ({"host": "0.0.0.0", "no_keys": True}, ["localhost"], ["10.1.2.3", "0.0.0.0"]),
        ({"host": "fe80::1", "no_keys": True}, ["[fe80::1]:8000"], ["[fe80::2]:8000"]),
    ],
)
def test_names_that_are_allowed(store: str, settings: Any, accepted: list[str], refused: list[str]) -> None:
    with service_here(store, **settings) as service:
        assert statuses(service, [{"Host": name} for name in accepted]) == [200] * len(accepted)
        assert statuses(service, [{"Host": name} for name in refused]) == [421] * len(refused)


def test_with_keys_any_name_will_do_unless_some_are_given(store: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("full-key-0123456789")
    key = {"X-API-Key": "full-key-0123456789"}
    with service_here(store, api_key_file=keys) as service:
        assert statuses(service, [{"Host": "any.example", "Origin": "https://any.example", **key}]) == [200]
    with service_here(store, api_key_file=keys, allowed_hosts=("shop.example",)) as service:
        assert statuses(service, [{"Host": "any.example", **key}, {"Host": "shop.example", **key}]) == [421, 200]


def test_pages_of_other_sites_may_not_call(store: str) -> None:
    own = [{"Host": "localhost:8000", "Origin": f"{scheme}://localhost:8000"} for scheme in ("http", "https")]
    bad = ["http://localhost:18499", "https://evil.example", "null", "", "http://localhost:8000.evil.example"]
    foreign = [{"Host": "localhost:8000", "Origin": origin} for origin in bad]
    named = {"Host": "localhost:8000", "Origin": "https://shop.example"}
    with service_here(store, allowed_origins=("https://shop.example",)) as service:
        assert statuses(service, [*own, named]) == [200, 200, 200]
        assert statuses(service, foreign) == [403] * len(bad)
        headers = JSON | foreign[0]
        refused = service.post("/v1/events", content=b'{"user": "eve", "item": "i1"}', headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:lorentzrec:unknown-origin")
        assert service.get("/v1/users/eve/history").json()["history"] == []
    with service_here(store, allowed_origins=("*",)) as service:
        assert statuses(service, [*own, *foreign]) == [200] * (len(bad) + 2)


@pytest.mark.parametrize("host", ["http://shop.example", "shop.example:80", "shop.example/", "", "a b"])
def test_hosts_that_are_no_names(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name: give"):
        ServiceSettings("file:store", allowed_hosts=(host,))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "fe80::1", "shop.example", "127.evil.example"])
def test_an_address_that_others_can_reach_needs_keys(host: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"others can reach {host}, and there are no API keys: give `api_key_file`"):
        ServiceSettings("file:store", host=host)
    assert not ServiceSettings("file:store", host=host, no_keys=True).is_private
    ServiceSettings("file:store", host=host, api_key_file=tmp_path / "keys.txt")
    with pytest.raises(ConfigError, match="give one of them"):
        ServiceSettings("file:store", host=host, api_key_file=tmp_path / "keys.txt", no_keys=True)


def test_the_command_refuses_such_an_address_in_one_line(store: str) -> None:
    line = error_of("serve", store, "--host", "0.0.0.0")
    assert line.startswith("others can reach 0.0.0.0, and there are no API keys: give --api-key-file, or --no-keys if")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert ServiceSettings("file:store", host=host).is_private


def test_the_settings_do_not_print_the_password_of_the_store() -> None:
    assert "secretpw" not in repr(ServiceSettings("postgresql://shop:secretpw@db/shop"))


def raw(port: int, request: str) -> bytes:
    """The response to a request that no HTTP library would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode())
        response = b""
        while part := connection.recv(65_536):
            response += part
        return response


@pytest.mark.parametrize(
    ("request_line", "hosts", "status"),
    [
        ("GET /v1/model HTTP/1.1", "Host: localhost\n", 200),
        ("GET /v1/model HTTP/1.1", "", 400),
        ("GET /v1/model HTTP/1.1", "Host:\n", 400),
        ("GET /v1/model HTTP/1.1", "Host: localhost\nHost: localhost\n", 400),
        ("GET /v1/model HTTP/1.0", "", 200),  # no browser is that old, and probes of load balancers are
    ],
)
def test_a_request_has_one_host(process: Service, request_line: str, hosts: str, status: int) -> None:
    response = raw(process.port, f"{request_line}\n{hosts}Connection: close\n\n")
    assert int(response.split()[1]) == status


def test_http_2_is_not_spoken_without_tls(process: Service) -> None:
    with socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        assert connection.recv(100)[:9] in (b"", b"HTTP/1.1 ")


def test_head_is_get_without_a_body(process: Service) -> None:
    for path in ("/", "/healthz", "/v1/model", "/v1/items/i1", "/v1/users/ann/recommendations", "/schema"):
        got, head = process.http.get(path), process.http.head(path)
        assert (head.status_code, head.content, head.headers["Content-Type"]) == (200, b"", got.headers["Content-Type"])
        assert int(head.headers["Content-Length"]) > 0
    refused = process.http.head("/v1/items/unknown")
    assert (refused.status_code, refused.content) == (404, b"")
    assert process.http.head("/v1/recommend").status_code == 405
    assert process.http.get("/healthz").status_code == 200, "the connection is still in step"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/live", "GET, HEAD, OPTIONS, PATCH, PUT"),
        ("/v1/events", "OPTIONS, POST"),
        ("/v1/users/ann", "DELETE, OPTIONS"),
        ("/v1/items/i1/similar", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ],
)
def test_the_methods_of_a_path(service: TestClient[Any], path: str, methods: str) -> None:
    options = service.options(path)
    assert (options.status_code, options.headers["Allow"]) == (204, methods)
    wrong = service.request("TRACE", path)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, methods)


def test_notes_at_the_start(store: str, tmp_path: Path) -> None:
    with service_process(store, tmp_path, "--host", "0.0.0.0", "--no-keys", "--allow-origin", "*") as service:
        assert service.http.get("/v1/model").status_code == 200
        assert service.http.get("/v1/model", headers={"Host": "recommender:8000"}).status_code == 421
        log = " ".join(service.log.read_text().split())
    assert "note: anyone who can reach 0.0.0.0 may read and write, because of --no-keys" in log
    assert "note: only requests to localhost are accepted: name the hosts that clients use with --allow-host" in log
    assert "note: every web site may read, write and erase" in log


@pytest.mark.browser
def test_a_real_browser_on_a_hostile_page(process: Service, tmp_path: Path) -> None:
    """A page of another site writes blindly, and one whose name has been pointed to this machine reads."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("chromium is not installed")
    (tmp_path / "index.html").write_text("<!doctype html><title>hostile</title>")
    files = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    write = """async (url) => {
        for (const type of ["text/plain", "application/x-www-form-urlencoded"])
            await fetch(url, {method: "POST", mode: "no-cors", headers: {"Content-Type": type},
                              body: '{"user": "victim", "item": "i1"}'});
        return await fetch(url, {method: "POST", headers: {"Content-Type": "application/json"},
                                 body: '{"user": "victim", "item": "i1"}'}).then(() => "sent", () => "blocked");
    }"""
    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP rebound.example 127.0.0.1"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as site, playwright.sync_playwright() as run:
        Thread(target=site.serve_forever, daemon=True).start()
        browser = run.chromium.launch(executable_path=str(chromium), args=arguments)
        page = browser.new_page()
        page.goto(f"http://localhost:{site.server_port}/")
        assert page.evaluate(write, f"{process.url}/v1/events") == "blocked"
        rebound = page.goto(f"http://rebound.example:{process.port}/")
        assert rebound.status == 421
        read = "async () => (await fetch('/v1/model')).status"
        assert page.evaluate(read) == 421
        browser.close()
        site.shutdown()
    assert process.http.get("/v1/users/victim/history").json()["history"] == []
