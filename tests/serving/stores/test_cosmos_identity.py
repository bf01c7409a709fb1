"""Cosmos DB without a key: a managed identity gives a token, and every request carries it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Added, Event
from tests.serving.cosmos_proxy import CosmosProxy
from tests.serving.servers import CosmosServer
from tests.serving.stores.raises_fault import raises_fault

pytestmark = [
    pytest.mark.cosmos,
    # The certificate of the emulator is its own, and the SDK does not check those of 127.0.0.1.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
pytest.importorskip("azure.identity", reason="azure-identity is not installed")

SECRET, TOKEN = "header-of-the-endpoint", "token-of-the-identity"


class TokenEndpoint:
    """What Azure puts next to an application that has a managed identity (App Service, Functions)."""

    def __init__(self) -> None:
        self.resources: list[str] = []
        self.status = 200
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.headers["X-IDENTITY-HEADER"] == SECRET
                endpoint.resources += parse_qs(urlsplit(self.path).query)["resource"]
                token = {"access_token": TOKEN, "expires_on": str(int(time.time()) + 3600), "token_type": "Bearer"}
                body = json.dumps(token if endpoint.status == 200 else {"message": "no identity"}).encode()
                self.send_response(endpoint.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/msi/token"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    started = TokenEndpoint()
    for name in ("COSMOS_KEY", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    monkeypatch.setenv("IDENTITY_ENDPOINT", started.url)
    monkeypatch.setenv("IDENTITY_HEADER", SECRET)
    yield started
    started.stop()


@pytest.fixture
def proxy(cosmos_server: CosmosServer) -> Iterator[CosmosProxy]:
    started = CosmosProxy(cosmos_server.port, encrypted=True)
    yield started
    started.stop()


def test_every_request_carries_the_token_of_the_identity(endpoint: TokenEndpoint, proxy: CosmosProxy) -> None:
    store = open_store(proxy.address("identity"), create=True)
    assert store.add_events([Event("ann", "tea", 1.0, "visit-1")]).accepted == 1
    assert [event.item for event in store.history("ann")] == ["tea"]
    store.forget("ann")
    store.close()
    sent = {unquote(one.headers["authorization"]) for one in proxy.seen}
    assert sent == {f"type=aad&ver=1.0&sig={TOKEN}"}
    assert endpoint.resources == ["https://127.0.0.1"]


def test_a_key_comes_before_an_identity(endpoint: TokenEndpoint, proxy: CosmosProxy, cosmos_url: str) -> None:
    store = open_store(proxy.address("key"), create=True)
    assert store.add_events([Event("ann", "tea", 1.0, "visit-1")]) == Added(1, 0)
    store.close()
    assert all(unquote(one.headers["authorization"]).startswith("type=master") for one in proxy.seen)
    assert endpoint.resources == []


def test_an_identity_that_gets_no_token(endpoint: TokenEndpoint, proxy: CosmosProxy) -> None:
    endpoint.status = 400
    with raises_fault(StoreFault.NO_CREDENTIAL):
        open_store(proxy.address("empty"), create=True)


def test_a_token_is_never_sent_without_encryption(endpoint: TokenEndpoint) -> None:
    with pytest.raises(InputError, match="is not encrypted, so no identity is sent to it: set COSMOS_KEY"):
        open_store("cosmos+http://127.0.0.1:1/shop")
    assert endpoint.resources == []
