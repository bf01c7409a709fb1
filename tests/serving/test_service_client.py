"""The Python client against the real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.client import AsyncClient, Client, ServiceError, _parse_pause
from tests.serving.running_service import KEY, Service, wait_until
from tests.serving.small_shop import ITEMS, shop_model


@pytest.fixture
def url(keyed_service: Service) -> str:
    return keyed_service.url


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, api_key=KEY) as opened:
        yield opened


def test_requests_and_responses(client: Client) -> None:
    result = client.recommend(["i3", "i7"], k=4, reasons=True)
    assert [item.id for item in result.items] == shop_model().recommend(["i3", "i7"], k=4).ids
    assert {reason.item for item in result.items for reason in item.because} <= {"i3", "i7"}
    assert (result.fallback_kinds, client.recommend(["none"]).fallback_kinds) == ([], ["popular"])
    assert [item.id for item in client.similar("i3", 2).items] == shop_model().similar_items("i3", 2).ids
    assert {item.category for item in client.similar("i3", 5, categories=["hats"]).items} == {"hats"}
    assert [item.id for item in client.similar("i3", allow=["i9"], exclude=[], explore=None).items] == ["i9"]
    for nothing in (list[str](), tuple[str, ...](), set[str]()):
        assert list(client.similar("i3", allow=nothing).items) == []
    assert [item.id for item in client.similar("i3", allow={"i9"}).items] == ["i9"]
    assert [item.price for item in client.similar("i3", allow=["i0"], fields=["price"]).items] == [9.5]
    assert [item.category for item in client.outfits(["i0", "i1"], 40).items] == ["shoes"]
    assert [item.id for item in client.search("number 12")] == ["i12"]
    assert client.item("i0").price == 9.5
    assert (client.model().items, client.model().model) == (ITEMS, result.model)


def test_events_history_and_erasure(client: Client) -> None:
    user = "a/b c?d"
    added = client.add_events([{"user": user, "item": "i3", "time": 5}, {"user": user, "item": "i7", "time": 9}])
    assert (added.accepted, added.duplicates, added.unknown_items) == (2, 0, 0)
    assert [(event.item, event.time) for event in client.history(user)] == [("i3", 5), ("i7", 9)]
    expected = shop_model().recommend(["i3", "i7"], k=3).ids
    assert [item.id for item in client.recommend(user=user, k=3).items] == expected
    assert client.forget(user) == 2
    assert client.history(user) == []


@pytest.mark.parametrize("id", [{}, {"id": None}])
def test_an_event_without_an_id_is_given_one_so_that_a_retry_counts_once(id: dict[str, None]) -> None:
    received: list[str] = []
    with answering(received, ["0", "Fri, 01 Jan 2016 00:00:00 GMT", None]) as url, Client(url) as client:
        assert client.add_events([{"user": "ann", "item": "i3", **id}]).accepted == 1
    (sent,) = set(received)
    assert len(received) == 3
    assert len(json.loads(sent)["events"][0]["id"]) == 24


def test_a_pause_beyond_the_deadline_is_not_waited_for() -> None:
    """There is one deadline for all attempts: a service that asks for an hour is an error at once."""
    received: list[str] = []
    with answering(received, ["3600", "3600"]) as url:
        with Client(url, timeout=60) as client, pytest.raises(ServiceError, match="responded 503"):
            client.lookup(["i1"])

        async def ask() -> None:
            async with AsyncClient(url, timeout=60) as client:
                await client.lookup(["i1"])

        with pytest.raises(ServiceError, match="responded 503"):
            asyncio.run(ask())
    assert len(received) == 2


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"])
def test_a_service_that_never_finishes_is_given_up_at_the_deadline(sent: bytes) -> None:
    """Also one that continues to send a little, which no limit between two parts notices."""
    with dripping(sent) as url:
        with Client(url, timeout=0.3) as client, pytest.raises(ServiceError, match="cannot be reached"):
            client.model()

        async def ask() -> None:
            async with AsyncClient(url, timeout=0.3) as client:
                await client.model()

        with pytest.raises(ServiceError, match="cannot be reached"):
            asyncio.run(ask())


@contextmanager
def dripping(sent: bytes) -> Iterator[str]:
    """The address of a server whose responses begin like this and never end: a space follows every 50 ms."""
    done = Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(sent)
                while sent and not done.wait(0.05):
                    self.request.sendall(b" ")
                done.wait()

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        done.set()
        server.shutdown()


@pytest.mark.parametrize("id", [".", ".."])
def test_an_id_that_would_change_the_path_is_not_sent(id: str) -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        for method in (client.item, client.similar, client.remove_item, client.add_item, client.history, client.forget):
            with pytest.raises(InputError, match="cannot be part of an address"):
                method(id)


def test_unknown_keywords_are_type_errors() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(TypeError, match=r"similar\(\) got an unexpected keyword argument 'max_price': there are k"):
            client.similar("i3", max_price=30)
        with pytest.raises(TypeError, match="unexpected keyword argument 'context'"):
            client.similar("i3", context=["i4"])
        with pytest.raises(TypeError, match="unexpected keyword argument 'exlude'"):
            client.recommend(["i3"], exlude=["i4"])
        with pytest.raises(TypeError, match="unexpected keyword argument 'context'"):
            client.outfits(["i3"], context=["i4"])
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            client.add_item("boot", colour="red")


def test_the_asynchronous_client_has_every_method_and_shares_its_retries(url: str) -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(AsyncClient) == methods(Client)

    async def visit() -> None:
        async with AsyncClient(url, api_key=KEY) as client:
            found, similar = await asyncio.gather(client.recommend(["i3", "i7"], k=4), client.similar("i3", 2))
            assert [item.id for item in found.items] == shop_model().recommend(["i3", "i7"], k=4).ids
            assert [item.id for item in similar.items] == shop_model().similar_items("i3", 2).ids
            assert (await client.add_events([{"user": "amy", "item": "i3", "time": 5}])).accepted == 1
            assert [event.item for event in await client.history("amy")] == ["i3"]
            assert await client.forget("amy") == 1
            with pytest.raises(ServiceError, match="'none' is not in version"):
                await client.similar("none")
        async with AsyncClient("http://127.0.0.1:9", retries=0) as client:
            with pytest.raises(ServiceError, match="is it running"):
                await client.model()

    asyncio.run(visit())
    received: list[str] = []
    with answering(received, ["0", None]) as url:

        async def send() -> int:
            async with AsyncClient(url) as client:
                return (await client.add_events([{"user": "ann", "item": "i3"}])).accepted

        assert asyncio.run(send()) == 1
    assert len(received) == 2
    assert len(set(received)) == 1


def test_looking_up_items(client: Client) -> None:
    found = client.lookup(["i12", "none", "i0", "i12", 7])
    assert [(item.id, item.title, item.price) for item in found.items] == [
        ("i12", "Piece number 12", None),
        ("i0", "Piece number 0", 9.5),
    ]
    assert (found.unknown, found.model) == (["none", "7"], client.model().model)


def test_the_pause_of_retry_after() -> None:
    assert [_parse_pause(text) for text in ("7", "0", "", "soon", "nan")] == [7.0, 0.0, 1.0, 1.0, 1.0]
    assert _parse_pause("Fri, 01 Jan 2016 00:00:00 GMT") == 0.0
    assert _parse_pause("Fri, 01 Jan 2100 00:00:00 GMT") > 3600


@contextmanager
def answering(received: list[str], pauses: list[str | None]) -> Iterator[str]:
    """The address of a server that is unavailable once per pause, and then works."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            pause = pauses.pop(0)
            self.send_response(200 if pause is None else 503)
            if pause is not None:
                self.send_header("Retry-After", pause)
            self.end_headers()
            self.wfile.write(b'{"accepted": 1, "duplicates": 0, "unknown_items": 0, "model": null}')

        def log_message(self, *_: object) -> None:
            """No log."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_live_items(client: Client) -> None:
    assert client.set_live_items(["i1", "i2"]).live == 2
    assert client.change_live_items(add=["i5"], remove=["i1"]).live == 2
    assert client.live_items() == ["i2", "i5"]
    assert client.removed_items() == []
    assert client.set_live_items(None).live is None
    assert client.live_items() is None
    assert client.change_live_items(remove=["i3", "i4"]).removed == 2
    assert (client.live_items(), client.removed_items()) == (None, ["i3", "i4"])
    # Other tests have this service, too: nothing of this one may come into use later.
    wait_until(lambda: client.model().live == ITEMS - 2)
    client.set_live_items(None)
    wait_until(lambda: client.model().live == ITEMS)


def test_rules_sets_and_conditions(client: Client) -> None:
    first = client.recommend(["i3"], k=2).items[0].id
    rule = {"name": "out", "select": {"ids": [first]}, "exclude": True}
    tried = client.preview_rules([rule], recommend={"history": ["i3"], "k": 2})
    assert (tried.rules, tried.without_rules[0].id) == (["out"], first)
    changed = client.set_rules([rule], {"DE": ["i1", "i2"]}, reason="test", instead_of=0)
    assert (changed.revision, changed.rules) == (1, 1)
    wait_until(lambda: client.recommend(["i3"], k=2).rules == ["out"])
    found = client.rules()
    assert (found.rules[0].name, found.sets) == ("out", {"DE": ["i1", "i2"]})
    assert [(change.revision, change.reason) for change in client.rules_log()] == [(1, "test")]
    assert {item.id for item in client.recommend(["i3"], set="DE").items} == {"i1", "i2"}
    client.set_rules([])
    wait_until(lambda: client.recommend(["i3"], k=2).items[0].id == first)
    cheap = {"price": {"max": 10}}
    assert [item.id for item in client.similar("i3", where=cheap).items] == ["i0"]
    assert [item.id for item in client.recommend(["i3"], where=cheap).items] == ["i0"]


def test_new_items(client: Client) -> None:
    created = client.add_item("boot", title="Boot", category="hats", like=["i3", "none"])
    assert (created.placed, created.unknown_items) == (True, 1)
    wait_until(lambda: "boot" in [item.id for item in client.recommend(["i3"], k=50).items])
    (boot,) = [item for item in client.recommend(["i3"], k=50).items if item.new]
    assert (boot.id, boot.row, boot.title) == ("boot", -1, "Boot")
    assert (client.item("boot").new, client.model().new_items) == (True, 1)
    assert client.recommend([], k=1, explore=1, seed=1).items[0].id == "boot"
    client.remove_item("boot")
    with pytest.raises(ServiceError, match="'boot' is not a new item"):
        client.remove_item("boot")
    client.add_item("hat", like=["i3"])
    client.add_events([{"user": "eve", "item": "mistake"}])
    assert client.remove_items("events", fewer_than=1) == 0
    assert client.remove_items("events", fewer_than=2) == 1
    assert (client.remove_items("events"), client.remove_items("put")) == (0, 1)


def test_errors_carry_the_problem(client: Client, url: str, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="'none' is not in version") as unknown:
        client.similar("none")
    assert unknown.value.problem is not None
    assert (unknown.value.problem.status, unknown.value.problem.type) == (404, "urn:lorentzrec:unknown-item")
    with pytest.raises(ServiceError, match="either `history` or `user`: give one of them"):
        client.recommend(["i3"], user="ann")
    with Client(url) as stranger, pytest.raises(ServiceError) as refused:
        stranger.model()
    assert refused.value.problem is not None
    assert refused.value.problem.status == 401
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(ServiceError, match="is it running") as away:
        client.model()
    assert away.value.problem is None
