"""What every store guarantees for new items."""

from __future__ import annotations

from contextlib import closing

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.new_items import (
    CUSTOMER_BYTES,
    DETAIL_BYTES,
    MOST_CUSTOMERS,
    ItemDetails,
    NewItem,
    NewItemsChanged,
    NewItemsRead,
    Origin,
)
from lorentzrec.serving.stores.store import LONGEST_ID, USUAL_HISTORY, Event, Store
from serving.stores.test_event_contract import together

BOOT = ItemDetails("Winter boot é😀 '\"\\ \ud800", "shoes", 79.5, "https://shop.example/boot.png", ("tea", "cup"))
"""With a lone surrogate, which JSON may contain."""


def note(store: Store, customers: dict[str, list[str]], limit: int = 10) -> NewItemsChanged:
    """As the service does: first the events, then the customers."""
    pairs = [(user, item) for item, users in customers.items() for user in users]
    store.add_events([Event(user, item, 1, f"1-{item}"[:LONGEST_ID]) for user, item in pairs])
    return store.note_customers(customers, limit=limit)


def test_a_new_store_has_no_new_items(store: Store) -> None:
    assert store.new_items() == NewItemsRead([], 0, complete=True)
    assert store.remove_new_items(["none"]) == 0
    assert store.state().items_revision == 0


def test_an_item_is_described_and_described_again(store: Store, url: str) -> None:
    assert store.describe_item("boot", BOOT, limit=10)
    assert store.new_items() == NewItemsRead([NewItem("boot", BOOT)], 1, complete=True)
    with closing(open_store(url)) as other:
        assert (other.state().items_revision, other.state().live_revision) == (1, 0)
        assert other.describe_item("boot", ItemDetails("Boot"), limit=10)
        assert other.new_items() == NewItemsRead([NewItem("boot", ItemDetails("Boot"))], 2, complete=True)


def test_the_first_customers_are_kept(store: Store) -> None:
    assert note(store, {"boot": ["ann", "bob", "ann"], "hat": ["cyd"]}) == (2, 0)
    assert note(store, {"boot": ["bob"]}) == (0, 0)
    assert store.state().items_revision == 1
    store.describe_item("boot", BOOT, limit=10)
    many = [f"u{number}" for number in range(MOST_CUSTOMERS)]
    assert note(store, {"boot": many}) == (1, 0)
    kept = ("ann", "bob", *many[: MOST_CUSTOMERS - 2])
    assert store.new_items().items == [NewItem("boot", BOOT, kept), NewItem("hat", None, ("cyd",))]
    assert note(store, {"boot": ["late"]}) == (0, 0)
    assert store.state().items_revision == 3


def test_only_what_changed_is_read_unless_an_item_was_removed(store: Store) -> None:
    for number in range(3):
        note(store, {f"i{number}": ["ann"]})
    assert store.new_items(since=3) == NewItemsRead([], 3, complete=False)
    assert store.new_items(since=2) == NewItemsRead([NewItem("i2", None, ("ann",))], 3, complete=False)
    assert store.new_items(since=99).complete, "the store may have been replaced by an older one"
    assert store.remove_new_items(["i0", "none", "i0"]) == 1
    changed = store.new_items(since=3)
    assert ([item.id for item in changed.items], changed.revision, changed.complete) == (["i1", "i2"], 4, True)
    assert store.new_items(since=4) == NewItemsRead([], 4, complete=False)


def test_an_erasure_removes_a_customer_from_new_items(store: Store) -> None:
    note(store, {"boot": ["ann", "bob"], "hat": ["ann"], "cap": ["bob"]})
    store.describe_item("coat", BOOT, limit=10)
    note(store, {"coat": ["ann"]})
    before = store.state().items_revision
    assert store.forget("ann") == 3
    after = store.new_items(since=before)
    assert after.items == [NewItem("boot", None, ("bob",)), NewItem("cap", None, ("bob",)), NewItem("coat", BOOT)]
    assert after.complete, "the hat had no other customer, so nothing is left of it"
    assert store.forget("ann") == 0
    assert store.state().items_revision == after.revision


def test_a_customer_without_the_event_is_not_noted(store: Store) -> None:
    """One who was erased between the event and its record."""
    store.add_events([Event("ann", "tea", 1, "1"), Event("bob", "boot", 1, "1")])
    store.note_customers({"boot": ["ann", "bob"], "hat": ["ann"]}, limit=10)
    assert store.new_items().items == [NewItem("boot", None, ("bob",))]


def test_a_customer_is_noted_once_also_if_the_event_is_older_than_a_long_history(store: Store) -> None:
    store.add_events([Event("ann", "tea", time, f"t{time}") for time in range(2, USUAL_HISTORY + 2)])
    assert note(store, {"boot": ["ann"]}) == (1, 0)
    assert store.new_items() == NewItemsRead([NewItem("boot", None, ("ann",))], 1, complete=True)


def test_each_origin_has_a_limit_of_its_own(store: Store) -> None:
    assert note(store, {"a": ["ann"], "b": ["ann"], "c": ["ann"]}, limit=2) == NewItemsChanged(2, left_out=1)
    assert store.describe_item("d", BOOT, limit=2), "items by events take no room of those by PUT"
    assert store.describe_item("b", BOOT, limit=2), "it is there by events, and now by PUT"
    assert not store.describe_item("a", BOOT, limit=2)
    assert store.describe_item("d", ItemDetails("Boot"), limit=2), "it is there already"
    assert note(store, {"a": ["bob"], "e": ["bob"], "f": ["bob"]}, limit=2) == NewItemsChanged(2, left_out=1)
    assert {item.id: item.origin for item in store.new_items().items} == {
        "a": Origin.EVENTS,
        "b": Origin.PUT,
        "d": Origin.PUT,
        "e": Origin.EVENTS,
    }
    store.remove_new_items(["d"])
    assert store.describe_item("a", BOOT, limit=2)


def test_a_reader_may_read_the_first_items_of_each_origin(store: Store) -> None:
    note(store, {item: ["ann"] for item in ("c", "a", "b")})
    for item in ("z", "x", "y"):
        store.describe_item(item, BOOT, limit=10)
    assert [item.id for item in store.new_items(limit=2).items] == ["a", "b", "x", "y"]
    assert [item.id for item in store.new_items(since=1, limit=2).items] == ["x", "y"]


def test_the_items_of_an_origin_are_removed_at_once(store: Store) -> None:
    note(store, {"a": ["ann"], "b": ["ann", "bob"], "c": ["bob"], "boot": ["ann"]})
    store.describe_item("boot", BOOT, limit=10)
    assert store.remove_new_items_of(Origin.EVENTS, fewer_than=2) == 2
    assert [item.id for item in store.new_items().items] == ["b", "boot"]
    read = store.new_items(since=store.state().items_revision - 1)
    assert read.complete, "readers must find out that items were removed"
    assert store.remove_new_items_of(Origin.EVENTS) == 1
    assert store.remove_new_items_of(Origin.EVENTS) == 0
    assert [item.id for item in store.new_items().items] == ["boot"]
    note(store, {"a": ["cyd"]})
    assert store.new_items().items[0] == NewItem("a", None, ("cyd",)), "its earlier customers are forgotten"
    assert store.remove_new_items_of(Origin.PUT) == 1


def test_large_details_are_refused(store: Store) -> None:
    fitting = ItemDetails("é" * ((DETAIL_BYTES - 100) // 2))
    assert store.describe_item("boot", fitting, limit=10)
    with pytest.raises(
        InputError, match=r"the details of the item are 10,\d+ bytes as JSON, and at most 8,192 are kept"
    ):
        store.describe_item("boot", ItemDetails(like=tuple(f"{number:0100d}" for number in range(100))), limit=10)
    assert store.new_items().items == [NewItem("boot", fitting)]


@pytest.mark.parametrize("unfit", ["", "a\nb", "x" * (LONGEST_ID + 1)])
def test_unfit_ids_are_refused(store: Store, unfit: str) -> None:
    for details in (("boot", ItemDetails(like=(unfit,))), (unfit, BOOT)):
        with pytest.raises(InputError, match="item id"):
            store.describe_item(*details, limit=10)
    with pytest.raises(InputError, match="user id"):
        store.note_customers({"boot": [unfit]}, limit=10)
    assert store.new_items().items == []


def test_the_ids_of_customers_are_bounded(store: Store) -> None:
    """The longest ids fit as often as their bytes do; usual ones as often as an item has customers."""
    wide = "😀" * (LONGEST_ID - 2)
    users = [f"{number:02d}{wide}" for number in range(MOST_CUSTOMERS)]
    assert note(store, {wide: users}) == (1, 0)
    kept = CUSTOMER_BYTES // (4 * (LONGEST_ID - 2) + 2)
    assert kept >= 3
    assert store.new_items().items == [NewItem(wide, None, tuple(users[:kept]))]
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
                if store.state().items_revision != revision:
                    changed = other.new_items(revision)
                    found = {} if changed.complete else found
                    found |= {item.id: item for item in changed.items}
                    revision = changed.revision
            return found

        *_, followed = together([lambda: send(store, "ann"), lambda: send(other, "bob"), follow])
    assert followed == {item.id: item for item in store.new_items().items}
