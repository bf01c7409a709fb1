"""What every store guarantees for its catalogue: new items and live items."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.histories import USUAL_HISTORY, Event
from lorentzrec.serving.stores.ids import LONGEST_ID
from lorentzrec.serving.stores.new_items import (
    CUSTOMER_BYTES,
    DETAIL_BYTES,
    MOST_CUSTOMERS,
    NewItem,
    Origin,
)
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State
from tests.serving.stores.test_history_contract import together

BOOT_TITLE = "Winter boot é😀 '\"\\ \ud800"
"""With a lone surrogate, which JSON may contain."""
BOOT = NewItem("boot", Origin.PUT, BOOT_TITLE, "shoes", 79.5, "https://shop.example/boot.png", ("tea", "cup"))


def note(store: Store, customers: dict[str, list[str]], limit: int = 10) -> tuple[int, int]:
    """As the service does: first the events, then the customers."""
    pairs = [(user, item) for item, users in customers.items() for user in users]
    store.add_events([Event(user, item, 1, f"1-{item}"[:LONGEST_ID]) for user, item in pairs])
    return store.note_customers(customers, limit=limit)


def test_a_new_store_has_no_new_items(store: Store) -> None:
    assert store.new_items() == []
    assert store.remove_new_items(["none"]) == 0
    assert store.state().items_revision == 0


def test_an_item_is_described_and_described_again(store: Store, url: str) -> None:
    assert store.describe_item(BOOT, limit=10)
    assert store.new_items() == [BOOT]
    with closing(open_store(url)) as other:
        assert (other.state().items_revision, other.state().live_revision) == (1, 0)
        assert other.describe_item(NewItem("boot", title="Boot"), limit=10)
        assert other.new_items() == [NewItem("boot", Origin.PUT, title="Boot")]
        assert other.state().items_revision == 2


def test_the_first_customers_are_kept(store: Store) -> None:
    assert note(store, {"boot": ["ann", "bob", "ann"], "hat": ["cyd"]}) == (2, 0)
    assert note(store, {"boot": ["bob"]}) == (0, 0)
    assert store.state().items_revision == 1
    store.describe_item(BOOT, limit=10)
    many = [f"u{number}" for number in range(MOST_CUSTOMERS)]
    assert note(store, {"boot": many}) == (1, 0)
    kept = ("ann", "bob", *many[: MOST_CUSTOMERS - 2])
    assert store.new_items() == [replace(BOOT, customers=kept), NewItem("hat", customers=("cyd",))]
    assert note(store, {"boot": ["late"]}) == (0, 0)
    assert store.state().items_revision == 3


def test_only_what_changed_is_read_unless_an_item_was_removed(store: Store) -> None:
    for number in range(3):
        note(store, {f"i{number}": ["ann"]})
    state = store.state()
    assert (state.items_revision, state.find_since(3), state.find_since(2)) == (3, 3, 2)
    assert state.find_since(99) == 0, "the store may have been replaced by an older one"
    assert store.new_items(since=3) == []
    assert store.new_items(since=2) == [NewItem("i2", customers=("ann",))]
    assert store.remove_new_items(["i0", "none", "i0"]) == 1
    state = store.state()
    assert (state.items_revision, state.find_since(3), state.find_since(4)) == (4, 0, 4)
    assert [item.id for item in store.new_items()] == ["i1", "i2"]
    assert store.new_items(since=4) == []


def test_an_erasure_removes_a_customer_from_new_items(store: Store) -> None:
    note(store, {"boot": ["ann", "bob"], "hat": ["ann"], "cap": ["bob"]})
    store.describe_item(replace(BOOT, id="coat"), limit=10)
    note(store, {"coat": ["ann"]})
    before = store.state().items_revision
    assert store.forget("ann") == 3
    after = store.state()
    assert after.find_since(before) == 0, "the hat had no other customer, so nothing is left of it"
    of_bob = [NewItem("boot", customers=("bob",)), NewItem("cap", customers=("bob",))]
    assert store.new_items() == [*of_bob, replace(BOOT, id="coat")]
    assert store.forget("ann") == 0
    assert store.state() == after


def test_a_customer_without_the_event_is_not_noted(store: Store) -> None:
    """One who was erased between the event and its record."""
    store.add_events([Event("ann", "tea", 1, "1"), Event("bob", "boot", 1, "1")])
    store.note_customers({"boot": ["ann", "bob"], "hat": ["ann"]}, limit=10)
    assert store.new_items() == [NewItem("boot", customers=("bob",))]


def test_a_customer_is_noted_once_also_if_the_event_is_older_than_a_long_history(store: Store) -> None:
    store.add_events([Event("ann", "tea", time, f"t{time}") for time in range(2, USUAL_HISTORY + 2)])
    assert note(store, {"boot": ["ann"]}) == (1, 0)
    assert store.new_items() == [NewItem("boot", customers=("ann",))]
    assert store.state().items_revision == 1


def test_each_origin_has_a_limit_of_its_own(store: Store) -> None:
    assert note(store, {"a": ["ann"], "b": ["ann"], "c": ["ann"]}, limit=2) == (2, 1)
    assert store.describe_item(replace(BOOT, id="d"), limit=2), "items by events take no room of those by PUT"
    assert store.describe_item(replace(BOOT, id="b"), limit=2), "it is there by events, and now by PUT"
    assert not store.describe_item(replace(BOOT, id="a"), limit=2)
    assert store.describe_item(NewItem("d", title="Boot"), limit=2), "it is there already"
    assert note(store, {"a": ["bob"], "e": ["bob"], "f": ["bob"]}, limit=2) == (2, 1)
    assert {item.id: item.origin for item in store.new_items()} == {
        "a": Origin.EVENTS,
        "b": Origin.PUT,
        "d": Origin.PUT,
        "e": Origin.EVENTS,
    }
    store.remove_new_items(["d"])
    assert store.describe_item(replace(BOOT, id="a"), limit=2)


def test_a_reader_may_read_the_first_items_of_each_origin(store: Store) -> None:
    note(store, {item: ["ann"] for item in ("c", "a", "b")})
    for item in ("z", "x", "y"):
        store.describe_item(replace(BOOT, id=item), limit=10)
    assert [item.id for item in store.new_items(limit=2)] == ["a", "b", "x", "y"]
    assert [item.id for item in store.new_items(since=1, limit=2)] == ["x", "y"]


def test_the_items_of_an_origin_are_removed_at_once(store: Store) -> None:
    note(store, {"a": ["ann"], "b": ["ann", "bob"], "c": ["bob"], "boot": ["ann"]})
    store.describe_item(BOOT, limit=10)
    assert store.remove_new_items_of(Origin.EVENTS, fewer_than=2) == 2
    assert [item.id for item in store.new_items()] == ["b", "boot"]
    state = store.state()
    assert state.find_since(state.items_revision - 1) == 0, "readers must find out that items were removed"
    assert store.remove_new_items_of(Origin.EVENTS) == 1
    assert store.remove_new_items_of(Origin.EVENTS) == 0
    assert [item.id for item in store.new_items()] == ["boot"]
    note(store, {"a": ["cyd"]})
    assert store.new_items()[0] == NewItem("a", customers=("cyd",)), "its earlier customers are forgotten"
    assert store.remove_new_items_of(Origin.PUT) == 1


def test_large_details_are_refused(store: Store) -> None:
    fitting = NewItem("boot", Origin.PUT, "é" * ((DETAIL_BYTES - 100) // 2))
    assert store.describe_item(fitting, limit=10)
    with pytest.raises(
        InputError, match=r"the details of the item are 10,\d+ bytes as JSON, and at most 8,192 are kept"
    ):
        store.describe_item(NewItem("boot", like=tuple(f"{number:0100d}" for number in range(100))), limit=10)
    assert store.new_items() == [fitting]


@pytest.mark.parametrize("unfit", ["", "a\nb", "x" * (LONGEST_ID + 1)])
def test_unfit_ids_are_refused(store: Store, unfit: str) -> None:
    for item in (NewItem("boot", like=(unfit,)), replace(BOOT, id=unfit)):
        with pytest.raises(InputError, match="item id"):
            store.describe_item(item, limit=10)
    with pytest.raises(InputError, match="user id"):
        store.note_customers({"boot": [unfit]}, limit=10)
    assert store.new_items() == []


def test_the_ids_of_customers_are_bounded(store: Store) -> None:
    """The longest ids fit as often as their bytes do; usual ones as often as an item has customers."""
    wide = "😀" * (LONGEST_ID - 2)
    users = [f"{number:02d}{wide}" for number in range(MOST_CUSTOMERS)]
    assert note(store, {wide: users}) == (1, 0)
    kept = CUSTOMER_BYTES // (4 * (LONGEST_ID - 2) + 2)
    assert kept >= 3
    assert store.new_items() == [NewItem(wide, customers=tuple(users[:kept]))]
    assert note(store, {wide: users}) == (0, 0)


def test_two_processes_lose_no_new_item_and_no_reader_misses_one(store: Store, url: str) -> None:
    """A reader who follows the revisions ends with what a reader of everything finds."""
    with closing(open_store(url)) as other:

        def send(some: Store, user: str) -> None:
            for number in range(8):
                note(some, {f"i{number}": [user]})

        def follow() -> dict[str, NewItem]:
            found: dict[str, NewItem] = {}
            revision = 0
            while sum(len(item.customers) for item in found.values()) < 16:
                if (state := store.state()).items_revision != revision:
                    since = state.find_since(revision)
                    found = (found if since else {}) | {item.id: item for item in other.new_items(since)}
                    revision = state.items_revision
            return found

        *_, followed = together([lambda: send(store, "ann"), lambda: send(other, "bob"), follow])
    assert followed == {item.id: item for item in store.new_items()}


def test_changes_of_live_items_and_their_revision(store: Store) -> None:
    assert (store.set_live_items(["tea", "cup", "tea"]), store.state().live_revision) == ((2, 0), 1)
    assert store.live_items() == LiveItems(["cup", "tea"])
    changed = store.change_live_items(add=["jar", "é"], remove=["tea", "none"])
    assert (changed, store.state().live_revision) == ((3, 0), 2)
    assert store.live_items() == LiveItems(["cup", "jar", "é"])
    assert (store.change_live_items(["jar"], ["none", "jar"]), store.state().live_revision) == ((3, 0), 2)
    assert (store.set_live_items([]), store.state().live_revision) == ((0, 0), 3)
    assert store.live_items() == LiveItems([])
    assert (store.change_live_items(add=["tea"]), store.state().live_revision) == ((1, 0), 4)
    assert store.set_live_items(None) == (None, 0)
    assert store.live_items() == LiveItems()
    assert store.state() == State({}, 5)


def test_items_are_removed_while_every_item_is_live(store: Store, url: str) -> None:
    assert (store.change_live_items(add=["tea"]), store.state().live_revision) == ((None, 0), 0)
    assert (store.change_live_items(remove=["tea", "cup", "tea"]), store.state().live_revision) == ((None, 2), 1)
    with closing(open_store(url)) as other:
        assert other.live_items() == LiveItems(None, ["cup", "tea"])
        assert (other.change_live_items(["cup", "none"], ["jar"]), other.state().live_revision) == ((None, 2), 2)
    assert store.live_items() == LiveItems(None, ["jar", "tea"])
    assert (store.change_live_items(["jar", "tea"], ["jar"]), store.state().live_revision) == ((None, 0), 3)
    assert store.live_items() == LiveItems()
    # A list of live items replaces the removed ones, and null makes all of them live.
    store.change_live_items(remove=["tea"])
    store.set_live_items(["cup"])
    assert store.live_items() == LiveItems(["cup"])
    store.set_live_items(None)
    assert store.live_items() == LiveItems()
    store.change_live_items(remove=["tea"])
    assert store.set_live_items(None) == (None, 0)
    assert store.live_items() == LiveItems()


def test_a_list_of_live_items_does_not_grow_beyond_its_limit(store: Store) -> None:
    assert store.change_live_items(remove=["a", "b"], limit=2) == (None, 2)
    with pytest.raises(InputError, match="the list of removed items would have 3 ids, and 2 is its limit here"):
        store.change_live_items(remove=["c"], limit=2)
    assert (store.live_items(), store.state().live_revision) == (LiveItems(None, ["a", "b"]), 1)
    assert store.change_live_items(add=["a"], remove=["c"], limit=1) == (None, 2), "it is not longer than before"
    store.set_live_items(["a", "b", "c"])
    assert store.change_live_items(remove=["a"], limit=1) == (2, 0)
    with pytest.raises(InputError, match="the list of live items would have 4 ids, and 3 is its limit here"):
        store.change_live_items(add=["d", "e"], limit=3)
    assert store.change_live_items(add=["d"], limit=3) == (3, 0)
    assert store.live_items() == LiveItems(["b", "c", "d"])


def test_many_live_items(store: Store) -> None:
    items = [f"{n:06d}" + "é" * 40 for n in range(20_000)]
    store.set_live_items(items)
    assert store.live_items() == LiveItems(items)
    store.change_live_items(remove=items[10:])
    assert store.live_items() == LiveItems(items[:10])
    store.set_live_items(None)
    assert store.change_live_items(remove=items) == (None, 20_000)
    assert store.live_items() == LiveItems(None, items)


def test_threads_that_change_live_items(store: Store) -> None:
    store.set_live_items([])
    tasks: list[Callable[[], object]] = [lambda n=n: store.change_live_items([f"i{n}"]) for n in range(6)]  # type: ignore[misc]
    assert {*together(tasks)} == {(count, 0) for count in range(1, 7)}
    assert store.state().live_revision == 7
    assert store.live_items() == LiveItems([f"i{n}" for n in range(6)])
    store.set_live_items(None)
    tasks = [lambda n=n: store.change_live_items(remove=[f"i{n}"]) for n in range(6)]  # type: ignore[misc]
    assert {*together(tasks)} == {(None, count) for count in range(1, 7)}
    assert store.live_items() == LiveItems(None, [f"i{n}" for n in range(6)])
