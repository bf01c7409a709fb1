"""Cosmos DB as in production: throttled, failing over, losing responses. A proxy in front of the emulator does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Added, Event
from lorentzrec.serving.stores.ids import make_key
from lorentzrec.serving.stores.store import Store
from tests.serving.cosmos_proxy import CosmosProxy, Fault, Region
from tests.serving.running_service import published, service_here, wait_until
from tests.serving.servers import COSMOS_KEY, CosmosServer
from tests.serving.stores.raises_fault import raises_fault

pytestmark = pytest.mark.cosmos
pytest.importorskip("lorentzrec.serving.stores.cosmos_store", reason="azure-cosmos is not installed")

EVENT = Event("ann", "tea", 1.0, "visit-1")
NEAR, FAR = "West Europe", "North Europe"


@pytest.fixture
def proxy(cosmos_server: CosmosServer, cosmos_url: str) -> Iterator[CosmosProxy]:
    started = CosmosProxy(cosmos_server.port)
    yield started
    started.stop()


@pytest.fixture
def database(cosmos_url: str) -> str:
    return cosmos_url.rpartition("/")[2]


@pytest.fixture
def store(proxy: CosmosProxy, database: str) -> Iterator[Store]:
    opened = open_store(proxy.address(database), create=True)
    proxy.seen.clear()
    yield opened
    opened.close()


def stored_ids(store: Store) -> list[str]:
    """The ids of all events that are in the database, each as often as it is there."""
    return [event[2] for segment in store._histories.all(make_key("ann")) for event in segment["events"]]  # type: ignore[attr-defined]


def test_a_throttled_request_is_repeated_after_the_delay_that_the_server_names(
    proxy: CosmosProxy, store: Store
) -> None:
    proxy.faults.extend([Fault(429, retry_after=20, kind=kind) for kind in ("read", "write", "write")])
    assert store.add_events([EVENT]) == Added(1, 0)
    assert [one.status for one in proxy.seen] == [429, 200, 429, 429, 201]
    assert stored_ids(store) == ["visit-1"]


def test_a_store_that_stays_throttled_is_unavailable(
    proxy: CosmosProxy, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(store._histories._limits, "timeout", 0.5)  # type: ignore[attr-defined]
    proxy.faults.extend([Fault(429, sub_status=3200, retry_after=100)] * 50)
    with raises_fault(StoreFault.THROTTLED):
        store.add_events([EVENT])
    assert 0 < proxy.counted("write") < 50
    proxy.faults.clear()
    assert store.history("ann") == []


def test_a_part_of_a_version_waits_longer_than_an_event(
    proxy: CosmosProxy, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(store._catalogue._limits, "timeout", 0.1)  # type: ignore[attr-defined]
    version = {"token": "token"}
    proxy.faults.extend([Fault(429, retry_after=100)] * 12)
    store._write_chunk(version, "points", 0, "digest", b"data")  # type: ignore[attr-defined]
    assert proxy.counted("write") == 13
    assert store._read_chunk(version, "points", 0) == b"data"  # type: ignore[attr-defined]


FAULTS = {
    "region unavailable": Fault(503),
    "write forbidden": Fault(403, sub_status=3),
    "account moved": Fault(403, sub_status=1008),
    "gone": Fault(410),
    "partition split": Fault(410, sub_status=1002),
    "replica behind": Fault(404, sub_status=1002),
    "time-out": Fault(408),
    "retry with": Fault(449),
    "internal error": Fault(500),
    "reset": Fault(None),
    "cut short": Fault(200, cut=100),
    "page of a gateway": Fault(502, body=b"<html>"),
    "not JSON": Fault(200, body=b"<html>"),
}


@pytest.mark.parametrize("present", [False, True], ids=["create", "replace"])
@pytest.mark.parametrize("forwarded", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_write_is_unavailable_or_done_and_never_doubled(
    proxy: CosmosProxy, store: Store, name: str, forwarded: bool, present: bool
) -> None:
    """`forwarded`: the write has happened, and only its response is lost."""
    before = [Event("ann", "milk", 0.0, "visit-0")] if present else []
    store.add_events(before)
    proxy.faults.append(replace(FAULTS[name], forwarded=forwarded))
    acknowledged = False
    try:
        store.add_events([EVENT])
        acknowledged = True
    except StoreUnavailable:
        pass
    assert not proxy.faults
    assert stored_ids(store).count("visit-1") in ({1} if acknowledged or forwarded else {0, 1})
    again = store.add_events([EVENT])
    assert again.accepted + again.duplicates == 1
    assert stored_ids(store) == [*(event.id for event in before), "visit-1"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_failed_read_is_unavailable_or_right(proxy: CosmosProxy, store: Store, name: str) -> None:
    store.add_events([EVENT])
    for call in (lambda: store.history("ann"), store.state):
        proxy.faults.append(replace(FAULTS[name], kind="read"))
        try:
            found = call()
        except StoreUnavailable:
            continue
        finally:
            assert not proxy.faults
        assert found == call()


@pytest.mark.parametrize("forwarded", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("fault", [Fault(503), Fault(None), Fault(449)], ids=["unavailable", "reset", "retry with"])
@pytest.mark.parametrize("place", range(3), ids=["salt", "note", "removal"])
def test_an_erasure_that_failed_is_completed_by_the_next(
    proxy: CosmosProxy, store: Store, fault: Fault, place: int, forwarded: bool
) -> None:
    store.add_events([EVENT])
    proxy.faults.extend([*[Fault(passes=True)] * place, replace(fault, forwarded=forwarded)])
    try:
        store.forget("ann")
    except StoreUnavailable:
        store.forget("ann")
    assert not proxy.faults
    assert stored_ids(store) == []
    assert store.add_events([EVENT], respect_erasures=True) == Added(0, 0, frozenset({"ann"}))


def test_the_service_acknowledges_what_is_stored_and_nothing_else(
    proxy: CosmosProxy, store: Store, tmp_path: Path
) -> None:
    """Every fault becomes a 503, or has no effect; sent again, each event is there once."""
    published(store, tmp_path)
    with service_here(proxy.address(store.url.rpartition("/")[2]), cache=tmp_path, poll_seconds=0.05) as service:
        statuses: set[int] = set()

        def accepted(event: object) -> bool:
            status = service.post("/v1/events", json=event).status_code
            statuses.add(status)
            return status == 200

        for place, (name, fault) in enumerate(FAULTS.items()):
            for forwarded in (False, True):
                event = {"user": "ann", "item": "i1", "time": 2 * place + forwarded, "id": f"{name} {forwarded}"}
                proxy.faults.append(replace(fault, forwarded=forwarded))
                wait_until(partial(accepted, event))
                proxy.faults.clear()
    assert statuses == {200, 503}
    assert sorted(stored_ids(store)) == sorted(f"{name} {forwarded}" for name in FAULTS for forwarded in (False, True))


def test_a_key_that_is_refused_is_not_a_failing_region(proxy: CosmosProxy, store: Store) -> None:
    for status in (401, 403):
        proxy.faults.append(Fault(status))
        with raises_fault(StoreFault.REFUSED, "check COSMOS_KEY, or the role of the identity"):
            store.add_events([EVENT])


@pytest.fixture
def regions(cosmos_server: CosmosServer, proxy: CosmosProxy) -> Iterator[tuple[CosmosProxy, CosmosProxy]]:
    """Two regions of one account; the first has the writes."""
    far = CosmosProxy(cosmos_server.port)
    proxy.regions = far.regions = [Region(NEAR, proxy.port, writable=True), Region(FAR, far.port, writable=False)]
    yield proxy, far
    far.stop()


def refuse_connections(near: CosmosProxy) -> None:
    near.stop()


def respond_503(near: CosmosProxy) -> None:
    near.faults.extend([Fault(503, kind="read")] * 50)


def reset_connections(near: CosmosProxy) -> None:
    near.faults.extend([Fault(None, kind="read")] * 50)


def hang(near: CosmosProxy) -> None:
    near.faults.extend([Fault(503, hang=30, kind="read")] * 50)


@pytest.mark.parametrize("fail", [refuse_connections, respond_503, reset_connections, hang])
def test_reads_continue_in_the_next_region(
    regions: tuple[CosmosProxy, CosmosProxy], database: str, fail: Callable[[CosmosProxy], None]
) -> None:
    near, far = regions
    store = open_store(near.address(database, f"{NEAR},{FAR}"), create=True)
    store.add_events([EVENT])
    assert (near.counted("write") > 0, far.counted("write")) == (True, 0)
    far.seen.clear()
    fail(near)
    assert [event.item for event in store.history("ann")] == ["tea"]
    assert far.counted("read") > 0
    store.close()
    if fail is refuse_connections:
        near.start()


def test_preferred_regions_come_first(regions: tuple[CosmosProxy, CosmosProxy], database: str) -> None:
    near, _ = regions
    open_store(near.address(database), create=True).close()
    store = open_store(near.address(database, f"{FAR},{NEAR}"))
    store.add_events([EVENT])
    near.seen.clear()
    assert [event.item for event in store.history("ann")] == ["tea"]
    assert near.counted("read") == 0
    store.close()


def test_writes_follow_a_fail_over(regions: tuple[CosmosProxy, CosmosProxy], database: str) -> None:
    near, far = regions
    store = open_store(near.address(database, f"{NEAR},{FAR}"), create=True)
    near.regions = far.regions = [Region(FAR, far.port, writable=True), Region(NEAR, near.port, writable=False)]
    near.faults.extend([Fault(403, sub_status=3)] * 50)
    assert store.add_events([EVENT]) == Added(1, 0)
    assert far.counted("write") == 1
    assert stored_ids(store) == ["visit-1"]
    store.close()


def test_an_account_that_writes_in_several_regions_is_refused(proxy: CosmosProxy, database: str) -> None:
    """Two regions would accept different versions of one document, and keep only one of them."""
    proxy.several_write_regions = True
    with raises_fault(StoreFault.SEVERAL_REGIONS):
        open_store(proxy.address(database), create=True)


@pytest.mark.parametrize("several", [False, True], ids=["not responding", "several regions"])
def test_a_store_that_cannot_be_opened_closes_its_client(
    proxy: CosmosProxy, database: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorentzrec.serving.stores.cosmos_documents import Account

    closed, close = [], Account.close

    def closing(account: Account) -> None:
        closed.append(account)
        close(account)

    monkeypatch.setattr(Account, "close", closing)
    proxy.several_write_regions = several
    if not several:  # the client itself reads the account once, and what it needs to be closed is there then
        proxy.faults.extend([Fault(kind="account", passes=True), *[Fault(503, kind="account")] * 50])
    with raises_fault(StoreFault.SEVERAL_REGIONS if several else StoreFault.NOT_RESPONDING):
        open_store(proxy.address(database), create=True)
    assert len(closed) == 1


@pytest.mark.parametrize("query", ["regions=", "regions=A,,B", "region=A", "regions=A&x=1"])
def test_unknown_options_of_an_address(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS_KEY", COSMOS_KEY)
    with pytest.raises(InputError, match=r"has an unknown option: give \?regions=REGION,REGION or nothing"):
        open_store(f"cosmos://127.0.0.1/shop?{query}")
