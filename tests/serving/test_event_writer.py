"""Events that arrive while others are being stored are stored together, and are durable when that is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event as Signal
from typing import Any

import pytest

from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Added, Event
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.worker.event_writer import EventWriter
from lorentzrec.serving.worker.guarded_store import GuardedStore


class Recorded:
    """A store whose first transaction waits until it may go on; `groups` has the sizes of all."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups: list[int] = []
        self.begun, self.may_end = Signal(), Signal()
        add = store.add_batches

        def add_batches(batches: Sequence[Sequence[Event]]) -> list[Added]:
            self.groups.append(len(batches))
            self.begun.set()
            assert self.may_end.wait(60)
            return add(batches)

        monkeypatch.setattr(store, "add_batches", add_batches)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file:{tmp_path / 'store'}", create=True)


def run(store: Store, work: Callable[[EventWriter], Coroutine[Any, Any, None]], seconds: float = 60) -> None:
    async def visit() -> None:
        guarded = GuardedStore(lambda: store, seconds=seconds, threads=2)
        guarded.call(lambda opened: opened.state(), seconds=60)
        await work(EventWriter(guarded))
        guarded.close()

    asyncio.run(visit())


def event(number: int, user: str = "ann") -> Event:
    return Event(user, f"i{number}", 1e9 + number, str(number))


def read_items(store: Store) -> list[str]:
    """The history of ann, after the store was closed."""
    with closing(open_store(store.url)) as opened:
        return [one.item for one in opened.history("ann")]


async def until(signal: Signal) -> None:
    assert await asyncio.to_thread(signal.wait, 60)


def test_what_arrives_during_a_transaction_is_in_the_next_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)

    async def visit(writer: EventWriter) -> None:
        first = asyncio.create_task(writer.add([event(0)]))
        await until(recorded.begun)
        others = [asyncio.create_task(writer.add([event(number), event(number)])) for number in range(5)]
        await asyncio.sleep(0)  # each of them runs up to its first wait
        assert not any(task.done() for task in (first, *others))
        recorded.may_end.set()
        assert await first == Added(1, 0)
        # Event 0 was there, and an event twice in one batch counts once.
        assert await asyncio.gather(*others) == [Added(0, 2), *[Added(1, 1)] * 4]

    run(store, visit)
    assert recorded.groups == [1, 5]
    assert read_items(store) == [f"i{number}" for number in range(5)]


def test_of_equal_events_the_first_to_arrive_is_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)

    async def visit(writer: EventWriter) -> None:
        blocking = asyncio.create_task(writer.add([event(0, "bob")]))
        await until(recorded.begun)
        batches = [[Event("ann", item, 5.0, "same")] for item in ("b", "a", "c")]
        tasks = [asyncio.create_task(writer.add(batch)) for batch in batches]
        await asyncio.sleep(0)
        recorded.may_end.set()
        assert await asyncio.gather(*tasks) == [Added(1, 0), Added(0, 1), Added(0, 1)]
        await blocking

    run(store, visit)
    assert read_items(store) == ["b"]


def test_an_event_that_cannot_be_kept_refuses_no_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)

    async def visit(writer: EventWriter) -> None:
        blocking = asyncio.create_task(writer.add([event(0)]))
        await until(recorded.begun)
        tasks = [asyncio.create_task(writer.add([event(1)]))]
        tasks.append(asyncio.create_task(writer.add([event(2), Event("ann", "i3", float("nan"), "3")])))
        tasks.append(asyncio.create_task(writer.add([event(4)])))
        await asyncio.sleep(0)
        recorded.may_end.set()
        found = await asyncio.gather(blocking, *tasks, return_exceptions=True)
        assert isinstance(found.pop(2), InputError)
        assert found == [Added(1, 0)] * 3

    run(store, visit)
    assert read_items(store) == ["i0", "i1", "i4"]


def test_a_transaction_that_fails_stores_nothing_of_its_group(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)
    insert, inserted = type(store)._insert, []  # type: ignore[attr-defined]

    def fail_late(self: Any, cursor: Any, events: Sequence[Event]) -> int:
        inserted.append(events)
        if len(inserted) == 3:
            raise StoreUnavailable("the disk is full")
        return int(insert(self, cursor, events))

    monkeypatch.setattr(type(store), "_insert", fail_late)

    async def visit(writer: EventWriter) -> None:
        first = asyncio.create_task(writer.add([event(0)]))
        await until(recorded.begun)
        others = [asyncio.create_task(writer.add([event(number)])) for number in (1, 2)]
        await asyncio.sleep(0)
        recorded.may_end.set()
        assert await first == Added(1, 0)
        found = await asyncio.gather(*others, return_exceptions=True)
        assert [str(error) for error in found] == ["the disk is full"] * 2
        assert found[0] is not found[1]
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await writer.add([event(3)])  # after a failure, writes pause

    run(store, visit)
    assert read_items(store) == ["i0"]


def test_a_store_that_hangs_is_not_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)

    async def visit(writer: EventWriter) -> None:
        tasks = [asyncio.create_task(writer.add([event(number)])) for number in (0, 1)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all("has not responded" in str(error) for error in found)
        recorded.may_end.set()

    run(store, visit, seconds=0.2)


def test_who_stops_waiting_takes_nothing_from_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(store, monkeypatch)

    async def visit(writer: EventWriter) -> None:
        tasks = [asyncio.create_task(writer.add([event(number)])) for number in range(3)]
        await until(recorded.begun)
        tasks[1].cancel()
        recorded.may_end.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[::2] == [Added(1, 0)] * 2
        assert isinstance(found[1], asyncio.CancelledError)

    run(store, visit)
    assert recorded.groups == [3]
    assert read_items(store) == ["i0", "i1", "i2"]
