"""The live counts against their slow reference, however events arrive; and the trend that they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.points.trend import Trend, usual_trend
from lorentzrec.serving.stores.histories import RecentEvents
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.worker import recent_customers
from lorentzrec.serving.worker.live_trend import LiveTrend, find_live_trend
from lorentzrec.serving.worker.new_items import NewItems
from lorentzrec.serving.worker.recent_customers import CollectedEvents, Counted, RecentCustomers
from tests.reference import trend as reference

DAY = 86_400.0
NOW = 1_000 * DAY
LIMIT = 4


def collected(events: Sequence[tuple[str, str, float]], page: int = 7) -> CollectedEvents:
    found = CollectedEvents()
    for start in range(0, len(events), page):
        found.take(RecentEvents(*zip(*events[start : start + page], strict=True)))
    return found


def counts_of(customers: RecentCustomers, days: float, now: float) -> tuple[dict[str, int], int, int]:
    found = customers.count(days, now)
    pairs = zip(customers.items, found.recent.tolist(), strict=True)
    return {item: count for item, count in pairs if count}, found.capped, found.customers


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), days=st.sampled_from([1.0, 2.5]), part=st.integers(5, 90))
def test_counts_are_those_of_the_reference_however_events_arrive(seed: int, days: float, part: int) -> None:
    """In any order, some twice, some of the future, while the window moves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_customers, "MOST_ITEMS", LIMIT)
        random = np.random.default_rng(seed)
        times = NOW - 4 * DAY + random.permutation(5 * int(DAY))[:150]
        events = [(f"c{random.integers(8)}", f"i{random.integers(9)}", float(time)) for time in times]
        events += events[:20]
        customers = RecentCustomers()
        for start in range(0, len(events), part):
            now = NOW - DAY / 2 + start * DAY / 200
            customers.add(collected(events[start : start + part]), now)
            customers.forget_before(now - 2.5 * DAY)
            expected, capped = reference.live_customers(events[: start + part], days, now, LIMIT)
            found = counts_of(customers, days, now)
            assert found[:2] == (expected, capped)
            active = {user for user, _, time in events[: start + part] if now - days * DAY < time <= now}
            assert found[2] == len(active)
            assert customers.ahead == len({event for event in events[: start + part] if event[2] > now})


def test_one_customer_counts_once_for_an_item_and_for_few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [("bot", f"i{number}", NOW - number - 1) for number in range(1_000)]
    customers = RecentCustomers()
    customers.add(collected(events * 3 + [("bot", "i0", NOW - 2 * number) for number in range(500)]), NOW)
    counts, capped, people = counts_of(customers, 7, NOW)
    assert (counts, capped, people) == ({f"i{number}": 1 for number in range(200)}, 800, 1)
    monkeypatch.setattr(recent_customers, "ITEM_BITS", 2)
    few = RecentCustomers()
    few.add(collected(events[:9]), NOW)
    assert (len(few.items), few.left_out) == (4, 5)


def counted(counts: dict[str, int], days: float = 7.0, moment: float = NOW) -> Counted:
    """As many customers of each item."""
    customers = RecentCustomers()
    events = [(f"{item}-{one}", item, moment - 1) for item, count in counts.items() for one in range(count)]
    customers.add(collected(events), moment)
    by_days = {days: customers.count(days, moment)}
    return Counted(customers.items, customers.numbers, by_days, 0, 0, moment, moment)


OWN = Trend(np.array([30, 30, 60], np.float32), np.array([60, 40, 20], np.float32), 0.5, 7.0, NOW - DAY)
NOTHING_NEW = NewItems([])


def find(
    counts: Counted | None,
    own: Trend | None = OWN,
    now: float = NOW,
    new: NewItems = NOTHING_NEW,
    before: LiveTrend | None = None,
) -> LiveTrend:
    usual = usual_trend(np.array([6, 4, 2])) if own is None else own
    rows = np.array([int(item[1]) if item[1] in "012" else -1 for item in ([] if counts is None else counts.items)])
    return find_live_trend(own, usual, rows.astype(np.int64), new, counts, before, now)


def test_a_live_trend_has_the_usual_shares_of_the_customers_of_today() -> None:
    live = find(counted({"i2": 60, "i0": 180, "x9": 7}))
    assert (live.source, live.total, live.unknown, live.days) == ("events", 240, 7, 7.0)
    assert live.trend is not None
    assert live.trend.recent.tolist() == [180, 0, 60]
    # Twice as many customers as were expected then, of whom half, a third and a sixth buy the items.
    assert live.trend.expected.tolist() == [120, 80, 40]
    assert (live.trend.weight, live.trend.until) == (0.5, NOW)
    again = find(counted({"i0": 180, "i2": 60}, moment=NOW + 9), before=live)
    assert again.trend is live.trend, "no number has changed"


def test_too_few_customers_leave_the_trend_of_the_version_until_it_is_over() -> None:
    few = counted({"i0": 99})
    live = find(few)
    assert (live.trend, live.source, live.total) == (OWN, "version", 99)
    assert live.reason == (
        "the store has 99 customers of items in the last 7 days, and 100 are needed: the customers before the newest "
        "event of the training are used"
    )
    assert find(None).reason.startswith("the events of the store are not counted yet: the customers before")
    assert find(counted({"i0": 500}, days=9.0)).source == "version", "other days were counted"
    off = find(few, now=NOW + 6.1 * DAY)
    assert (off.trend, off.source) == (None, "off")
    assert off.reason.endswith("there is no trend, and popular items are those with the most events in training")
    assert find(None, own=None).source == "off"


def test_without_a_clock_in_training_usual_rates_are_those_of_all_its_events() -> None:
    live = find(counted({"i2": 60, "i0": 60}, days=28.0), own=None)
    assert live.trend is not None
    assert (live.trend.expected.tolist(), live.trend.weight, live.trend.offsets) == ([60, 40, 20], 0.0, None)


def test_new_items_have_customers_and_no_trend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewItems, "placed_count", 2)
    new = NewItems([Item(-1, id, None, None) for id in ("new7", "new8", "new9")])
    live = find(counted({"i0": 100, "new9": 3, "new8": 20}), new=new)
    assert (live.new_recent.tolist(), live.unknown, live.total) == ([0, 20], 3, 100)
    assert live.trend is not None
    assert live.trend.item_count == 3
