"""Each request has the same response, and the same effect on the metrics, on the short path and on the long one."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from litestar.testing import TestClient

from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.http.short_path import EVENTS, PROBE, ShortPath
from lorentzrec.serving.http.short_path import RECOMMEND as PATH
from lorentzrec.serving.stores.histories import Event
from tests.serving.running_service import KEY, service_here, shop_store
from tests.serving.test_service_arms import add_arm
from tests.serving.test_service_rules import described_shop

READING = "reading-key-0123456789"
OTHER_KEY = "no-such-key-0123456789"
JSON_HEADER = ("content-type", "application/json")
BODY_BYTES = 6_000
BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"user": "ann"}',
    b'{"user": 17}',
    b'{"user": "nobody"}',
    b'{"user": "erased"}',
    b'{"user": "ann", "user": "bob"}',
    b'{"user": "ann", "\\u0075ser": "bob"}',
    b'{"user": "\\ud83d"}',
    b'{"user": "\xff"}',
    b'{"user": ""}',
    b'{"history": ["i1", "i2"], "k": 3.0}',
    b'{"history": ["i1"], "k": 3.5}',
    b'{"history": ["i1"], "k": "3"}',
    b'{"history": ["i1"], "colour": "red"}',
    b'{"history": ["i1"], "where": {"brand": {"min": 1, "nax": 2}}}',
    b'{"history": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    b'{"history": ["i1"], "where": {"brand": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}}",
    b'{"history": ["i1"]}' + b" " * (BODY_BYTES - 19),
    b'{"history": ["i1"]}' + b" " * (BODY_BYTES - 18),
    b'{"history": ["i1"]}' + b" " * 20_000,
]
CHOICES: dict[str, list[Any]] = {
    "k": [1, 5, 40, 1_000, 0],
    "exclude": [[], ["i1", "i2"], ["unknown"]],
    "allow": [None, ["i3", "i4", "i5"], ["unknown"], []],
    "categories": [["hats"], ["no category"], ["hats", "shoes"]],
    "where": [{"brand": "brand 1"}, {"price": {"min": 15, "max": 30}}, {"colour": "red"}, {"brand": {"max": 3}}],
    "set": ["gifts", "no set"],
    "diversity": [0.5, 1, 2],
    "explore": [0, 0.5],
    "seed": [3],
    "fields": [["price"], ["image", "price"], ["colour"]],
    "arm": ["main", "flat", "broken", "none", "!"],
    "reasons": [True],
    "context": [["i7"], ["unknown"]],
    "exclude_seen": [True, False],
}
QUERIES: list[dict[str, Any]] = [
    {"user": "ann"},
    {"user": "bob"},
    {"user": "nobody"},
    {"history": ["i1", "i3"]},
    {"history": []},
]


class LongPath(ShortPath):
    def _is_usual(self, _: Any) -> bool:
        return False


class Shop(NamedTuple):
    """A service as it is, and one in which every request goes the long way."""

    short: TestClient[Any]
    long: TestClient[Any]


EVENT_BODIES: list[bytes] = [
    *BODIES,
    b'{"user": "eve", "item": "i1", "id": "a"}',
    b'{"user": "eve", "item": "i1", "id": "a"}',
    b'{"user": "eve", "item": "i1", "id": "b", "time": 1700000000}',
    b'{"user": "eve", "item": "i1", "id": "c", "time": "2023-11-14T22:13:20Z"}',
    b'{"user": "eve", "item": "i1", "time": 1.0}',
    b'{"user": "eve", "item": "i1", "time": 99999999999}',
    b'{"user": "eve", "item": "i1", "time": 1700000000000}',
    b'{"user": "eve", "item": "i1", "kind": "buy"}',
    b'{"user": "eve", "item": "i1", "kind": "sniff"}',
    b'{"user": "eve", "item": "i1", "kind": "buy", "weight": 2}',
    b'{"user": "eve", "item": "i1", "weight": 0}',
    b'{"user": "eve", "item": "i1", "colour": "red"}',
    b'{"user": "eve", "item": "i1", "item": "i2"}',
    b'{"user": "eve"}',
    b'{"user": 7, "item": 3}',
    b'{"user": "eve", "item": "no such item", "id": "d"}',
    b'{"user": "eve\\u0001", "item": "i1"}',
    b'{"user": "", "item": "i1"}',
    b'{"events": []}',
    b'{"events": [{"user": "fay", "item": "i1", "id": "1"}, {"user": "fay", "item": "i2", "id": "1"}]}',
    b'{"events": [{"user": "fay", "item": "i1", "id": "2"}, {"user": "fay", "item": "i2", "kind": "sniff"}]}',
    b'{"events": [{"user": "fay", "item": "i1"}], "user": "fay", "item": "i2"}',
    json.dumps({"events": [{"user": "gus", "item": f"i{one}", "id": str(one)} for one in range(60)]}).encode(),
]


def make_bodies(count: int) -> list[bytes]:
    """Requests with options that were drawn, one at least."""
    draw, found = random.Random(8), []
    for _ in range(count):
        names = draw.sample(sorted(CHOICES), draw.choice([1, 1, 2, 3]))
        options = {name: draw.choice(CHOICES[name]) for name in names} | {"seed": 3}
        found.append(json.dumps(draw.choice(QUERIES) | options).encode())
    return found


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    store = shop_store(tmp_path, items=described_shop())
    add_arm(store, tmp_path, "flat", 0.5)
    broken = add_arm(store, tmp_path, "broken", 0.1, recency=0.7)
    (tmp_path / "store" / "versions" / broken / "manifest.json").unlink()
    for user in ("ann", "bob", "erased"):
        store.add_events([Event(user, f"i{number}", 1e9 + number, str(number)) for number in range(6)])
    store.forget("erased")
    rules = {
        "rules": [
            {"name": "no hats", "select": {"where": {"category": "hats"}}, "exclude": True},
            {"name": "first", "select": {"ids": ["i8"]}, "pin": 1},
            {"name": "few", "quota": {"limit": 2, "per": "brand"}},
        ],
        "sets": {"gifts": ["i3", "i4", "i9"]},
    }
    store.set_rules(json.dumps(rules), reason="test", who=None, instead_of=None)
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEY}\n{READING} read\n")
    settings: dict[str, Any] = {
        "body_bytes": BODY_BYTES,
        "poll_seconds": 600,
        "allowed_hosts": ("shop.example", "127.0.0.1"),
    }
    # Each has a store of its own, since they are sent the same events.
    shutil.copytree(tmp_path / "store", tmp_path / "other")
    with service_here(store.url, api_key_file=keys, **settings) as short:
        monkeypatch.setattr("lorentzrec.serving.http.app.ShortPath", LongPath)
        with service_here(f"file:{tmp_path / 'other'}", api_key_file=keys, **settings) as long:
            yield Shop(short, long)
    store.close()


def describe(response: httpx.Response) -> dict[str, Any]:
    """What has to be the same: all but times and ids that are random."""
    body = response.json() if response.content else None
    if isinstance(body, dict):
        body.pop("milliseconds", None)
    headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-length"]
    return {"status": response.status_code, "headers": headers, "body": body}


def counters(service: TestClient[Any]) -> dict[str, str]:
    """The counters, without times."""
    lines = [line.rpartition(" ") for line in service.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in lines if "_seconds" not in name and "_created" not in name}


def ask_both(
    shop: Shop,
    body: bytes | Iterator[bytes],
    headers: list[tuple[str, str]],
    *,
    method: str = "POST",
    path: str = PATH,
    parts: int = 0,
) -> dict[str, Any]:
    """The response of both. parts: send the body in chunks of this size."""
    found = []
    sent = [*headers, ("x-request-id", "request-1"), ("traceparent", f"00-{'a' * 32}-{'b' * 16}-01")]
    for service in shop:
        content: Any = body
        if parts and isinstance(body, bytes):
            content = (body[start : start + parts] for start in range(0, len(body), parts))
        found.append(describe(service.request(method, path, content=content, headers=sent)))
    assert found[0] == found[1], (method, path, headers, body)
    return found[0]


def send_as_it_is(service: TestClient[Any], headers: list[tuple[bytes, bytes]], *parts: bytes, path: str = PATH) -> int:
    """The status of the response to a request with repeated headers, which `TestClient` would join."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if messages:
        messages[-1]["more_body"] = False
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), *headers],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    app: Any = service.app
    service.blocking_portal.call(app, scope, receive, send)
    return int(sent[0]["status"])


def test_bodies(shop: Shop) -> None:
    statuses = set()
    for body in (*BODIES, *make_bodies(300)):
        statuses.add(ask_both(shop, body, [JSON_HEADER, ("x-api-key", KEY)])["status"])
    assert statuses == {200, 400, 404, 413}
    assert counters(shop.short) == counters(shop.long)


def test_headers_methods_and_addresses(shop: Shop) -> None:
    body = b'{"user": "ann"}'
    credentials: list[list[tuple[str, str]]] = [
        [],
        [("x-api-key", KEY)],
        [("x-api-key", READING)],
        [("x-api-key", OTHER_KEY)],
        [("x-api-key", "")],
        [("authorization", f"Bearer {KEY}")],
        [("authorization", f"bearer  {READING} ")],
        [("authorization", f"Basic {KEY}")],
        [("authorization", KEY)],
        [("authorization", f"Bearer {KEY}"), ("x-api-key", OTHER_KEY)],
        [("authorization", f"Bearer {OTHER_KEY}"), ("x-api-key", KEY)],
        [("x-api-key", OTHER_KEY), ("x-api-key", KEY)],
        [("x-api-key", KEY), ("x-api-key", OTHER_KEY)],
        [("authorization", f"Bearer {OTHER_KEY}"), ("authorization", f"Bearer {KEY}")],
        [("x-api-key", "\u00e9" * 20)],
    ]
    others: list[list[tuple[str, str]]] = [
        [JSON_HEADER],
        [],
        [("content-type", "text/plain")],
        [("content-type", "application/vnd.shop+json; charset=latin-1")],
        [JSON_HEADER, ("content-encoding", "gzip")],
        [JSON_HEADER, ("accept", "text/html")],
        [JSON_HEADER, ("origin", "https://elsewhere.example")],
        [JSON_HEADER, ("host", "elsewhere.example")],
        [JSON_HEADER, ("host", "shop.example:8000")],
    ]
    statuses = set()
    for one, more in itertools.product(credentials, others):
        sent = [(name, value.encode("latin-1")) for name, value in (*one, *more)]
        statuses.add(ask_both(shop, body, sent)["status"])  # type: ignore[arg-type]
    assert statuses == {200, 401, 415, 421}
    sent = [JSON_HEADER, ("x-api-key", KEY)]  # type: ignore[list-item]
    for method, path in itertools.product(
        ("POST", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"),
        (PATH, f"{PATH}/", f"{PATH}?", f"{PATH}?k=3", f"/{PATH}", "/v1/%72ecommend", "/v1/RECOMMEND", f"{PATH}%2F"),
    ):
        ask_both(shop, body, sent, method=method, path=path)  # type: ignore[arg-type]
    for size in (1, 7, 5_000):
        for text in (body, BODIES[-1], BODIES[-2], BODIES[-3]):
            ask_both(shop, text, sent, parts=size if len(text) < 100 else 500 * size)  # type: ignore[arg-type]
    assert counters(shop.short) == counters(shop.long)


def test_of_repeated_headers_the_first_counts(shop: Shop) -> None:
    body = b'{"user": "ann"}'
    length = (b"content-length", str(len(body)).encode())
    statuses = []
    for name, before in ((b"x-api-key", b""), (b"authorization", b"Bearer ")):
        for keys in ((KEY, OTHER_KEY), (OTHER_KEY, KEY), (KEY, ""), ("", KEY)):
            headers = [length, *((name, before + key.encode()) for key in keys)]
            found = [send_as_it_is(service, headers, body) for service in shop]
            assert found[0] == found[1], headers
            statuses.append(found[0])
    assert statuses == [200, 401, 200, 401] * 2


def test_a_body_that_is_too_long_is_refused_unread(shop: Shop) -> None:
    headers = [(b"x-api-key", KEY.encode()), (b"content-length", b"6001")]
    for service in shop:
        assert send_as_it_is(service, headers) == 413


def test_events(shop: Shop) -> None:
    statuses = set()
    for body in EVENT_BODIES:
        statuses.add(ask_both(shop, body, [JSON_HEADER, ("x-api-key", KEY)], path=EVENTS)["status"])
    assert statuses == {200, 400, 413}
    for user in ("eve", "fay", "gus", "7"):
        path = f"/v1/users/{user}/history"
        sent = [service.get(path, headers={"x-api-key": KEY}).json()["history"] for service in shop]
        # An event without a time happened when it arrived.
        found = [[(one["item"], one["weight"]) for one in history] for history in sent]
        assert sorted(found[0]) == sorted(found[1])
        assert found[0]
    assert counters(shop.short) == counters(shop.long)


def test_keys_and_headers_of_events(shop: Shop) -> None:
    body = b'{"user": "eve", "item": "i1", "id": "a", "time": 5}'
    keys: list[list[tuple[str, str]]] = [[], [("x-api-key", KEY)], [("x-api-key", READING)], [("x-api-key", OTHER_KEY)]]
    others = [[JSON_HEADER], [("content-type", "text/plain")], [JSON_HEADER, ("origin", "https://a.example")]]
    pairs = itertools.product(keys, others)
    statuses = [ask_both(shop, body, [*sent, *more], path=EVENTS)["status"] for sent, more in pairs]
    assert statuses == [401, 415, 401, 200, 415, 200, 403, 415, 403, 401, 415, 401]
    for method, path in itertools.product(("POST", "GET", "HEAD", "OPTIONS", "PUT"), (EVENTS, f"{EVENTS}?a=1")):
        ask_both(shop, body, [JSON_HEADER, ("x-api-key", KEY)], method=method, path=path)
    for size in (1, 7):
        ask_both(shop, body, [JSON_HEADER, ("x-api-key", KEY)], path=EVENTS, parts=size)
    length = (b"content-length", str(len(body)).encode())
    for first, second in ((KEY, READING), (READING, KEY)):
        headers = [length, *((b"x-api-key", key.encode()) for key in (first, second))]
        found = [send_as_it_is(service, headers, body, path=EVENTS) for service in shop]
        assert found == [200 if first == KEY else 403] * 2
    assert counters(shop.short) == counters(shop.long)


def test_events_of_a_store_that_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr("lorentzrec.serving.stores.file_store.FileStore.add_batches", fail)
    body, sent = b'{"user": "eve", "item": "i1"}', [JSON_HEADER, ("x-api-key", KEY)]
    failure: Exception = ZeroDivisionError("a defect")
    assert ask_both(shop, body, sent, path=EVENTS)["status"] == 500
    failure = InputError("the store cannot keep this")
    assert ask_both(shop, body, sent, path=EVENTS)["status"] == 400
    failure = StoreUnavailable("the disk of host 10.0.0.1 is full")
    found = ask_both(shop, body, sent, path=EVENTS)
    assert (found["status"], found["body"]["type"]) == (503, "urn:lorentzrec:store-unavailable")
    assert ("retry-after", "1") in found["headers"]
    assert "10.0.0.1" not in str(found)
    assert counters(shop.short) == counters(shop.long)


def test_probes(shop: Shop) -> None:
    for method, path in itertools.product(("GET", "HEAD", "POST", "OPTIONS"), (PROBE, f"{PROBE}?a=1", f"{PROBE}/")):
        for headers in ([], [("host", "elsewhere.example")], [("origin", "https://a.example")]):
            ask_both(shop, b"", headers, method=method, path=path)
    ask_both(shop, b"{}", [JSON_HEADER], method="GET", path=PROBE)
    assert ask_both(shop, b"", [], method="GET", path=PROBE)["status"] == 200
    assert counters(shop.short) == counters(shop.long)


def test_a_probe_reports_a_worker_that_hangs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorentzrec.serving.worker.health.Health.find_hung", lambda _: [17])
    found = ask_both(shop, b"", [], method="GET", path=PROBE)
    assert found["status"] == 503
    assert "workers hang (17)" in found["body"]["detail"]
