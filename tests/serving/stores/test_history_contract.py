"""What every store guarantees for the histories of customers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import time
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorentzrec.errors import InputError
from lorentzrec.serving.stores import sql_store
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Added, Event, EventMark, RecentEvents, StoredEvent
from lorentzrec.serving.stores.ids import LONGEST_ID
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State
from tests.serving.stores.raises_fault import raises_fault

IDS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=LONGEST_ID)
SHORT_IDS = st.text("ab/\\?#é😀 '\"%_", min_size=1, max_size=2)
TIMES = st.one_of(st.integers(-(2**40), 2**40).map(float), st.floats(-1e12, 1e12), st.sampled_from([0.0, 1.0, 1.5]))
on_one_store = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.state() == State(arms={}, live_revision=0)
    assert store.versions() == []
    assert store.history("unknown") == []
    assert store.forget("unknown") == 0
    assert store.live_items() == LiveItems()
    assert store.add_events([]) == Added(0, 0)
    assert store.clean() == 0


def test_batches_are_added_one_after_the_other(store: Store) -> None:
    batches = [
        [Event("ann", "tea", 3, "a"), Event("bob", "cup", 9, "a"), Event("ann", "cup", 4, "a")],
        [],
        [Event("ann", "jar", 5, "a"), Event("ann", "tea", 3, "b")],
        [Event("ann", "pot", 1, "c")],
    ]
    assert store.add_batches(batches) == [Added(2, 1), Added(0, 0), Added(0, 2), Added(1, 0)]
    assert store.history("ann") == [StoredEvent("pot", 1.0), StoredEvent("tea", 3.0)]
    assert store.history("bob") == [StoredEvent("cup", 9.0)]
    with pytest.raises(InputError):
        store.add_batches([[Event("", "tea", 1, "d")]])


def test_a_history_is_in_order_however_it_arrived(store: Store) -> None:
    first = [Event("ann", "tea", 3, "c"), Event("bob", "cup", 9, "a"), Event("ann", "cup", 3, "b")]
    assert store.add_events(first) == Added(accepted=3, duplicates=0)
    assert store.add_events([Event("ann", "jar", 1.25, "a")]) == Added(accepted=1, duplicates=0)
    assert store.history("ann") == [StoredEvent("jar", 1.25), StoredEvent("cup", 3.0), StoredEvent("tea", 3.0)]
    assert store.history("ann", limit=2) == [StoredEvent("cup", 3.0), StoredEvent("tea", 3.0)]
    assert store.history("bob") == [StoredEvent("cup", 9.0)]


def test_the_same_event_counts_once(store: Store) -> None:
    event = Event("ann", "tea", 1, "same")
    assert store.add_events([event, event]) == Added(accepted=1, duplicates=1)
    # Another item under the same id is still the same event; under another user it is another.
    again = [Event("ann", "cup", 2, "same"), Event("bob", "tea", 1, "same"), Event("ann", "cup", 2, "new")]
    assert store.add_events(again) == Added(accepted=2, duplicates=1)
    assert store.history("ann") == [StoredEvent("tea", 1.0), StoredEvent("cup", 2.0)]
    # The same item at the same time is the same event, too, under any id, in a later batch or in the same one.
    twice = [Event("ann", "tea", 1.0, "other"), Event("ann", "pot", 3, "x"), Event("ann", "pot", 3, "y")]
    assert store.add_events(twice) == Added(accepted=1, duplicates=2)
    assert store.history("ann") == [StoredEvent("tea", 1.0), StoredEvent("cup", 2.0), StoredEvent("pot", 3.0)]
    # A user and an id do not run together.
    assert store.add_events([Event("u", "x", 1, "12"), Event("u1", "x", 1, "2")]) == Added(2, 0)


def test_events_keep_their_weights(store: Store) -> None:
    events = [Event("ann", "tea", 1, "a", weight=0.25), Event("ann", "cup", 2, "b"), Event("ann", "jar", 3, "c", -3.0)]
    assert store.add_events(events) == Added(3, 0)
    assert store.history("ann") == [
        StoredEvent("tea", 1.0, 0.25),
        StoredEvent("cup", 2.0, 1.0),
        StoredEvent("jar", 3.0, -3.0),
    ]
    for weight in (0.0, math.nan, math.inf):
        with pytest.raises(InputError, match="or a negative one for a dislike"):
            store.add_events([Event("ann", "pot", 4, "d", weight)])


def test_all_events_are_read_many_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(store.all_events()) == []
    monkeypatch.setattr(sql_store, "PAGE_EVENTS", 7)
    added = {
        (user, item, time, weight)
        for user in ("ann", "bob", "Åsa 😀", "a'b\"")
        for item, time, weight in [("tea", 1.0, 1.0), ("cup", 1.0, 0.5), ("tea", 2.5, 3.0), ("é😀", -7.25, 1.0)]
    }
    added |= {("many", f"i{number}", float(number % 3), 1.0) for number in range(20)}
    store.add_events([Event(user, item, time, f"{item}{time}", weight) for user, item, time, weight in sorted(added)])
    store.add_events([Event("gone", "tea", 1.0, "a")])
    store.forget("gone")
    found = [event for page in store.all_events() for event in zip(*page, strict=True)]
    assert len(found) == len(added), "none comes twice"
    assert set(found) == {(user, item, time, weight, f"{item}{time}") for user, item, time, weight in added}
    store.forget("many")
    assert len([user for page in store.all_events() for user in page.users]) == len(added) - 20


def read_recent(
    store: Store, since: float, after: EventMark | None = None
) -> tuple[set[tuple[str, str, float]], EventMark]:
    pages: list[RecentEvents] = []
    mark = store.recent_events(since, pages.append, after)
    return {event for page in pages for event in zip(*page, strict=True)}, mark


def test_recent_events_are_those_after_a_time_whenever_they_arrive(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_store, "PAGE_EVENTS", 3)
    assert read_recent(store, 0)[0] == set()
    now = time()
    store.add_events([Event("ann", f"i{number}", now - number, f"{number}") for number in range(20)])
    store.add_events([Event("bob", "i1", now + 60, "ahead"), Event("bob", "old", now - 9_000, "old")])
    store.add_events([Event("bob", "never", now - 1, "dislike", -1.0)])
    found, mark = read_recent(store, now - 9.5)
    assert found == {("ann", f"i{number}", now - number) for number in range(10)} | {("bob", "i1", now + 60)}
    # What happened long before it arrives is found as well.
    store.add_events([Event("eve", "late", now - 9, "late"), Event("eve", "later", now - 9_000, "later")])
    found, _ = read_recent(store, now - 9.5, mark)
    assert ("eve", "late", now - 9) in found
    assert not any(item == "later" for _, item, _ in found)


def test_recent_events_are_only_those_that_arrived_after_a_mark(store: Store) -> None:
    now = time()
    store.add_events([Event("ann", "tea", now - 5, "1")])
    mark = read_recent(store, now - 10)[1]
    earlier, later = (mark._replace(arrived=now + seconds) for seconds in (-3600, 3600))
    found, again = read_recent(store, now - 10, earlier)
    assert found == {("ann", "tea", now - 5)}
    assert now - 3600 < again.arrived < now + 3600
    assert read_recent(store, now - 10, later)[0] == set()


def test_the_mark_of_recent_events_knows_each_erasure(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time()
    store.add_events([Event(user, "tea", now - 5, "1") for user in ("ann", "bob", "eve")])
    first = read_recent(store, now - 10)[1]
    assert read_recent(store, now - 10, first)[1].erased == first.erased
    store.forget("bob")
    found, second = read_recent(store, now - 10, first)
    assert found == {("ann", "tea", now - 5), ("eve", "tea", now - 5)}
    assert second.erased != first.erased
    third = read_recent(store, now - 10, second)[1]
    assert (third.erased, third.store) == (second.erased, second.store)
    with monkeypatch.context() as of_another_machine:
        of_another_machine.setattr("time.time", lambda: now - 60)
        store.forget("eve")
    assert read_recent(store, now - 10, third)[1].erased != third.erased


def test_erasures_of_many_customers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = ["ann", "bob", "Åsa 😀", "never"]
    assert store.erasures(everybody) == {}
    monkeypatch.setattr(sql_store, "PAGE_EVENTS", 2)
    store.add_events([Event("ann", "tea", 1, "a")])
    before = time()
    store.forget("ann")
    store.forget("Åsa 😀")
    found = store.erasures(everybody)
    assert set(found) == {"ann", "Åsa 😀"}
    assert all(before <= moment <= time() for moment in found.values())
    store.add_events([Event("ann", "cup", time(), "b")])
    assert store.erasures(["ann"]) == {"ann": found["ann"]}, "also of a customer who has returned"
    store.forget("ann")
    assert store.erasures(["ann"])["ann"] > found["ann"]
    assert store.erasures([]) == {}


def test_a_history_survives_reopening(store: Store, url: str) -> None:
    store.add_events([Event("ann", "tea", 1, "a")])
    with closing(open_store(url)) as other:
        assert other.history("ann") == [StoredEvent("tea", 1.0)]


def test_of_two_events_with_one_id_the_first_counts(store: Store) -> None:
    assert store.add_events([Event("ann", "tea", 2, "1"), Event("ann", "cup", 1, "1")]) == Added(1, 1)
    assert store.history("ann") == [StoredEvent("tea", 2.0)]


def test_forgetting_removes_one_customer(store: Store) -> None:
    store.add_events([Event(user, f"i{n}", n, str(n)) for user in ("ann", "ann%", "an_") for n in range(3)])
    assert store.forget("ann") == 3
    assert store.history("ann") == []
    assert len(store.history("ann%")) == len(store.history("an_")) == 3
    assert store.add_events([Event("ann", "tea", 1, "0")]) == Added(1, 0)


def test_what_was_erased_is_not_read_again_from_elsewhere(store: Store, url: str) -> None:
    """A customer who is erased starts again: only what they do from then on comes back with a dataset."""
    past = [Event(user, item, number, item) for user in ("ann", "bob") for number, item in enumerate(("tea", "cup"))]
    assert store.add_events(past, respect_erasures=True) == Added(4, 0)
    before = time()
    assert store.forget("ann") == 2
    later = Event("ann", "jar", time() + 1, "jar")
    with closing(open_store(url)) as other:
        assert other.add_events([*past, later], respect_erasures=True) == Added(1, 2, frozenset({"ann"}))
        assert other.add_events([Event("ann", "tea", before, "x")], respect_erasures=True) == Added(
            0, 0, frozenset({"ann"})
        )
    assert store.history("ann") == [StoredEvent("jar", later.time)]
    assert len(store.history("bob")) == 2
    # An erasure of a customer whom the store does not know counts as well, and each begins a new time.
    assert store.forget("cyd") == 0
    assert store.add_events([Event("cyd", "tea", before, "1")], respect_erasures=True).erased == {"cyd"}
    assert store.forget("ann") == 1
    assert store.add_events(past, respect_erasures=True) == Added(0, 2, frozenset({"ann"}))
    # What is sent now is meant.
    assert store.add_events(past[:1]) == Added(1, 0)
    assert store.history("ann") == [StoredEvent("tea", 0.0)]


def test_an_erasure_while_a_dataset_is_read_holds(store: Store, url: str) -> None:
    past = [Event(f"u{n % 5}", f"i{n}", n, str(n)) for n in range(1500)]
    with closing(open_store(url)) as other:

        def read() -> None:
            for start in range(0, len(past), 100):
                store.add_events(past[start : start + 100], respect_erasures=True)

        together([read, *(lambda n=n: other.forget(f"u{n}") for n in range(5))])
        assert [other.history(f"u{n}") for n in range(5)] == [[]] * 5


def test_long_histories(store: Store) -> None:
    events = [Event("ann", f"i{n % 7}", 5000 - n, f"e{n}") for n in range(2500)]
    assert store.add_events(events[:1200]) == Added(1200, 0)
    assert store.add_events(events) == Added(accepted=1300, duplicates=1200)
    assert store.history("ann") == [StoredEvent(event.item, float(event.time)) for event in reversed(events[:1000])]
    assert len(store.history("ann", limit=10_000)) == 2500
    assert store.forget("ann") == 2500
    assert store.history("ann") == []
    assert store.add_events(events, respect_erasures=True) == Added(0, 0, frozenset({"ann"}))


@on_one_store
@given(rows=st.lists(st.tuples(SHORT_IDS, SHORT_IDS, TIMES, SHORT_IDS), max_size=30), split=st.integers(0, 30))
def test_any_events_in_any_order(store: Store, rows: list[tuple[str, str, float, str]], split: int) -> None:
    mark = uuid4().hex
    expected: list[Event] = []
    for part in (rows[:split], rows[split:]):
        events = [Event(mark + user, item, time, id) for user, item, time, id in part]
        before = len(expected)
        for place, event in enumerate(events):
            met = any((event.user, event.id) == (other.user, other.id) for other in events[:place])
            if not met and not any(_same(event, other) for other in expected):
                expected.append(event)
        accepted = len(expected) - before
        assert store.add_events(events) == Added(accepted, len(events) - accepted)
    for user in {event.user for event in expected}:
        of_user = sorted((event.time, event.item) for event in expected if event.user == user)
        assert store.history(user) == [StoredEvent(item, time) for time, item in of_user]


def _same(one: Event, other: Event) -> bool:
    """By the customer's id of the event, or by item and time."""
    return one.user == other.user and (one.id == other.id or (one.item, one.time) == (other.item, other.time))


@on_one_store
@given(user=IDS, item=IDS, other=IDS, id=IDS)
def test_any_text_is_an_id(store: Store, user: str, item: str, other: str, id: str) -> None:
    store.forget(user)
    assert store.add_events(
        [Event(user, item, 1, id), Event(user, other, 1, id + "x" if len(id) < 9 else "x")]
    ).accepted
    assert StoredEvent(item, 1.0) in store.history(user)
    store.set_live_items([item, other])
    assert store.live_items() == LiveItems(sorted({item, other}))
    store.set_live_items(None)
    store.change_live_items(remove=[item, other])
    assert store.live_items() == LiveItems(None, sorted({item, other}))


def test_the_longest_ids_fit(store: Store) -> None:
    wide = "😀" * (LONGEST_ID - 8)
    events = [Event(wide, f"{n:08d}{wide}", n, f"{n:08d}{wide}") for n in range(300)]
    assert store.add_events(events) == Added(300, 0)
    assert store.add_events(events) == Added(0, 300)
    assert store.history(wide, limit=1) == [StoredEvent(events[-1].item, 299.0)]


@pytest.mark.parametrize("unfit", ["", "a\x00b", "a\nb", "\x7f", "\x85", "\ud800", "x" * (LONGEST_ID + 1)])
def test_unfit_ids_are_refused_and_nothing_is_kept(store: Store, unfit: str) -> None:
    good = Event("ann", "tea", 1, "1")
    for bad in (Event(unfit, "tea", 1, "2"), Event("ann", unfit, 1, "2"), Event("ann", "tea", 1, unfit)):
        with pytest.raises(InputError, match="cannot be kept: give 1 to 512 characters"):
            store.add_events([good, bad])
    for call in (store.history, store.forget):
        with pytest.raises(InputError, match="user id"):
            call(unfit)
    with pytest.raises(InputError, match="item id"):
        store.set_live_items([unfit])
    with pytest.raises(InputError, match="item id"):
        store.change_live_items([], [unfit])
    assert store.history("ann") == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_times_are_numbers(store: Store, number: float) -> None:
    with pytest.raises(InputError, match="event '2' of user 'ann' has time"):
        store.add_events([Event("ann", "tea", 1, "1"), Event("ann", "tea", number, "2")])
    assert store.history("ann") == []
    with pytest.raises(InputError, match="give 1 or more"):
        store.history("ann", limit=0)


def together(tasks: list[Callable[[], object]]) -> list[object]:
    """Results of tasks that all begin at once, each in a thread of its own."""
    barrier = threading.Barrier(len(tasks))

    def begin(task: Callable[[], object]) -> object:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as threads:
        return list(threads.map(begin, tasks))


def test_threads_lose_and_double_nothing(store: Store, url: str) -> None:
    """Every event is sent twice, by threads of two store objects, for the same few customers, in other batches."""
    events = [Event(f"u{n % 3}", f"i{n}", n % 50, f"e{n}") for n in range(600)]
    with closing(open_store(url)) as other:

        def send(some: Store, mine: list[Event], size: int) -> Added:
            parts = [some.add_events(mine[start : start + size]) for start in range(0, len(mine), size)]
            return Added(sum(part.accepted for part in parts), sum(part.duplicates for part in parts))

        halves = [(store, events[:300], 50), (other, events[300:], 50), (other, events[::-1], 100)]
        results = together([lambda half=half: send(*half) for half in halves])  # type: ignore[misc]
    added = [result for result in results if isinstance(result, Added)]
    assert sum(result.accepted for result in added) == sum(result.duplicates for result in added) == 600
    for user in range(3):
        expected = sorted((event.time, event.item) for event in events if event.user == f"u{user}")
        assert store.history(f"u{user}") == [StoredEvent(item, float(time)) for time, item in expected]


def test_stores_made_at_once_are_one(url: str) -> None:
    opened = together([lambda: open_store(url, create=True)] * 4)
    stores: list[Store] = opened  # type: ignore[assignment]
    assert stores[0].add_events([Event("ann", "tea", 1, "1")]) == Added(1, 0)
    assert [one.history("ann") for one in stores] == [[StoredEvent("tea", 1.0)]] * 4
    for one in stores:
        one.close()


def test_a_store_that_is_not_there(url: str) -> None:
    with raises_fault(StoreFault.NO_STORE):
        open_store(url)


def test_a_closed_store_cannot_be_used(url: str) -> None:
    closed = open_store(url, create=True)
    closed.close()
    closed.close()
    for call in (closed.state, closed.live_items, lambda: closed.add_events([Event("a", "b", 1, "c")])):
        with raises_fault(StoreFault.CLOSED):
            call()
