"""Outfits compared with a slow reference: counts of orders, scores, and what a list may take."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lorentzrec import InputError, Interactions
from lorentzrec.data.arrays import make_mask, make_offsets
from lorentzrec.data.item_columns import ItemColumns, TextColumn
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.points import complements as complements_module
from lorentzrec.points import outfits as module
from lorentzrec.points.complements import Complements, build_complements, choose_neighbours
from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.points.outfits import Filling, OutfitOptions, Outfits, complete_rows
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.points.recommending import RowOptions
from lorentzrec.points.rules import Pin, RowRules
from lorentzrec.points.space import Space
from tests.points.test_alternatives import text_column
from tests.reference.outfits import count_together, fill, scores

ITEMS = 12
DAY = 86_400
Orders = list[tuple[int, frozenset[int]]]

order_lists = st.lists(
    st.tuples(st.integers(0, 300), st.frozensets(st.integers(0, ITEMS - 1), min_size=2, max_size=5)),
    min_size=1,
    max_size=12,
)
categories_of_items = st.lists(st.sampled_from(["coat", "shoe", "hat", "bag", None]), min_size=ITEMS, max_size=ITEMS)


def make_interactions(orders: Orders) -> Interactions:
    """Each order is of another customer; the first one is from the last day."""
    ages = [0, *(age for age, _ in orders[1:])]
    sizes = [len(items) for _, items in orders]
    return Interactions(
        Vocabulary.numbered(len(orders), name="user"),
        Vocabulary.numbered(ITEMS, name="item"),
        make_offsets(np.array(sizes)),
        np.array([item for _, items in orders for item in sorted(items)], np.int32),
        np.repeat(1000.0 * DAY - DAY * np.array(ages), sizes),
    )


def expected_counts(orders: Orders) -> dict[tuple[int, int], float]:
    return count_together([(age if number else 0, items) for number, (age, items) in enumerate(orders)])


def make_outfits(
    complements: Complements | None,
    categories: list[str | None],
    prices: list[float] | None = None,
    live: list[int] | None = None,
) -> Outfits:
    item_points = lift(np.random.default_rng(0).normal(size=(ITEMS, 3))).astype(np.float32)
    counts = np.arange(ITEMS, 0, -1)
    points = Points(item_points, item_points, counts, Space("hyperboloid", "distance"), complements=complements)
    texts = {"category": text_column(categories)}
    columns = ItemColumns(ITEMS, texts, {} if prices is None else {"price": np.array(prices)})
    return Outfits(Ranker(points, live=None if live is None else LiveSet(points, np.array(live))), columns)


def counts_of(found: Complements) -> dict[tuple[int, int], float]:
    stored = {(item, item): count for item, count in enumerate(found.counts.tolist()) if count}
    for item in range(found.item_count):
        columns, values = found.partners(item)
        stored |= {(item, other): value for other, value in zip(columns.tolist(), values.tolist(), strict=True)}
    return stored


@given(order_lists)
def test_counts_are_those_of_the_reference(orders: Orders) -> None:
    found = build_complements(make_interactions(orders))
    assert counts_of(found) == pytest.approx(expected_counts(orders), rel=1e-5)


def test_counts_of_some_items_at_a_time_are_those_of_all() -> None:
    random = np.random.default_rng(4)
    orders = [(int(random.integers(300)), frozenset(random.integers(0, ITEMS, 4).tolist())) for _ in range(60)]
    data = make_interactions([order for order in orders if len(order[1]) > 1])
    at_once = build_complements(data, neighbours=3)
    for pairs in (1, 300):
        with patch.object(complements_module, "PAIRS_AT_ONCE", pairs):
            in_parts = build_complements(data, neighbours=3)
        for name in ("offsets", "columns", "values", "counts"):
            assert np.array_equal(getattr(in_parts, name), getattr(at_once, name))


def test_what_everybody_buys_is_left_out_first() -> None:
    """0 is once with 1 and twice with 2, which is in few other orders, or in forty."""
    orders = [(0, frozenset(pair)) for pair in ((0, 1), (0, 2), (0, 2), (2, 3), (2, 4))]
    columns, values = build_complements(make_interactions(orders), neighbours=1).partners(0)
    assert columns.tolist() == [2]
    assert values.tolist() == [1.0]
    more = [*orders, *[(0, frozenset((2, item))) for item in range(3, 11) for _ in range(5)]]
    assert build_complements(make_interactions(more), neighbours=1).partners(0)[0].tolist() == [1]


def test_a_wrong_clock_does_not_take_the_weight_of_all_orders() -> None:
    """Relative to an order of 2099, those of today weigh less than float32 can hold; and so do those of 1970 today."""
    orders: Orders = [(0, frozenset({0, 1})), (0, frozenset({0, 2})), (0, frozenset(range(3, 10)))]
    data = make_interactions(orders)
    today = 24_000.0 * DAY
    times = np.array([today] * 2 + [today + 27_000 * DAY] * 2 + [0.0] * 7)
    found = counts_of(build_complements(replace(data, times=times), now=today))
    assert (found[0, 1], found[0, 2]) == (0.5, 0.5)
    assert all(value > 0 for value in found.values())
    assert (3, 4) not in found


def test_thousands_of_categories_need_little_memory() -> None:
    count = 20_000
    complements = build_complements(make_interactions([(0, frozenset({0, 1}))])).extend(count)
    item_points = np.repeat(lift(np.zeros((1, 2))).astype(np.float32), count, axis=0)
    points = Points(
        item_points, item_points, np.ones(count, np.int64), Space("hyperboloid", "distance"), complements=complements
    )
    columns = ItemColumns(
        count, {"category": TextColumn(np.arange(count, dtype=np.int32), [f"{i}" for i in range(count)])}
    )
    found = complete_rows(Outfits(Ranker(points), columns), np.array([0]), RowOptions(k=1, reasons=True))
    assert found.rows.tolist() == [1]
    assert Outfits(Ranker(points), columns).pairs.nnz == 2


def test_large_catalogues_store_fewer_pairs_of_each_item() -> None:
    assert [choose_neighbours(items) for items in (1, 20_000, 250_000, 10**7)] == [400, 400, 200, 50]


@settings(deadline=None)
@given(order_lists, categories_of_items, st.sets(st.integers(0, ITEMS - 1), min_size=1, max_size=4), st.data())
def test_scores_are_those_of_the_reference(
    orders: Orders, categories: list[str | None], basket: set[int], data: st.DataObject
) -> None:
    eligible = sorted(data.draw(st.sets(st.integers(0, ITEMS - 1), min_size=1)))
    weight, scored = data.draw(st.sampled_from([0.0, 0.5, 3.0])), data.draw(st.sampled_from([1, 3, ITEMS]))
    outfits = make_outfits(build_complements(make_interactions(orders), point_weight=weight), categories)
    points, rows = outfits.ranker.points, np.array(sorted(basket))
    precise = lift(points.item_points[:, 1:].astype(np.float64))
    sums = precise[rows].sum(axis=0)
    midpoint = sums / np.sqrt(sums[0] ** 2 - (sums[1:] ** 2).sum())
    products = precise[:, 0] * midpoint[0] - precise[:, 1:] @ midpoint[1:]
    by_points = (-weight * np.arccosh(np.maximum(products, 1))).tolist()
    alone = sorted(scores(expected_counts(orders), categories, sorted(basket))[item] for item in eligible)
    # Where rounding decides who is among the first, either is right.
    assume(scored >= len(eligible) or alone[-scored] - alone[-scored - 1] > 1e-3)
    expected = np.array(scores(expected_counts(orders), categories, sorted(basket), eligible, by_points, scored))
    with patch.object(module, "SCORED_BY_POINTS", scored):
        found = outfits.score(rows, make_mask(np.array(eligible), ITEMS))
    assert found[eligible] == pytest.approx(expected[eligible], rel=1e-3, abs=1e-3)


@settings(deadline=None, max_examples=100)
@given(order_lists, categories_of_items, st.data())
def test_outfits_are_a_walk_down_all_items(orders: Orders, categories: list[str | None], data: st.DataObject) -> None:
    basket = sorted(data.draw(st.sets(st.integers(0, ITEMS - 1), min_size=1, max_size=3)))
    prices = data.draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.5]), min_size=ITEMS, max_size=ITEMS))
    budget = data.draw(st.none() | st.sampled_from([0.3, 0.6, 1.2, 5.0]))
    slots = data.draw(st.none() | st.lists(st.sampled_from(["coat", "shoe", "hat"]), min_size=1, unique=True))
    live = data.draw(st.sets(st.integers(0, ITEMS - 1), min_size=2))
    k, per_category = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    outfits = make_outfits(build_complements(make_interactions(orders)), categories, prices, sorted(live))
    names = outfits.tree.names
    slots = None if slots is None else [slot for slot in slots if slot in names] or None
    wanted = OutfitOptions(per_category, None if slots is None else outfits.find_slots(slots), budget)
    found = complete_rows(outfits, np.array(basket), RowOptions(k=k, reasons=True), wanted)

    score = outfits.score(np.array(basket), np.ones(ITEMS, bool))
    of_basket = {categories[item] for item in basket} - {None}
    eligible = [item for item in live if item not in basket and (categories[item] is not None or not names)]
    if slots is not None:
        eligible = [item for item in eligible if categories[item] in slots]
    elif of_basket and any(categories[item] not in of_basket for item in eligible):
        eligible = [item for item in eligible if categories[item] not in of_basket]
    if not names:
        categories = [str(item) for item in range(ITEMS)]  # no category is known, so none is full
    ranked = sorted(eligible, key=lambda item: (-np.float32(score[item]), item))
    expected = fill(ranked, categories, k, per_category, slots, prices, budget)
    assert found.rows.tolist() == expected
    # What holds for every outfit, whatever the reference says.
    taken = [categories[item] for item in found.rows.tolist()]
    assert all(taken.count(category) <= per_category for category in taken)
    if budget is not None:
        assert sum(Decimal(str(prices[item])) for item in found.rows.tolist()) <= Decimal(str(budget))
    assert found.reasons is not None
    for row, reasons in zip(found.rows.tolist(), found.reasons, strict=True):
        assert {reason.row for reason in reasons} <= set(basket)
        together = {item for item in basket if (item, row) in expected_counts(orders)}
        assert {reason.row for reason in reasons if reason.kind is ReasonKind.OFTEN_WITH} <= together


CLOTHES: list[str | None] = ["coat", "coat", "shoe", "shoe", "hat", "hat", "bag", "bag", None, None, None, None]


def clothes(prices: list[float] | None = None, live: list[int] | None = None) -> Outfits:
    """The coat 0 with shoe 2 and hat 4, the coat 1 with shoe 3 and hat 5; bags with hats."""
    sets = ((0, 2), (0, 2, 4), (1, 3, 5), (1, 3), (4, 6), (5, 7), (5, 7))
    orders = [(0, frozenset(one)) for one in sets * 20]
    return make_outfits(build_complements(make_interactions(orders)), CLOTHES, prices, live)


def test_each_coat_has_its_own_shoe_and_hat() -> None:
    for coat, shoe, hat in ((0, 2, 4), (1, 3, 5)):
        found = complete_rows(clothes(), np.array([coat]), RowOptions(k=2, reasons=True))
        assert found.rows.tolist() == [shoe, hat]
        assert found.reasons is not None
        assert [(reason.row, reason.kind) for (reason, *_) in found.reasons] == [(coat, ReasonKind.OFTEN_WITH)] * 2
        assert found.fallbacks == ()


def test_wanted_slots_are_filled_first_and_stay_affordable() -> None:
    prices = [9.0, 9.0, 5.0, 2.0, 4.0, 1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    outfits = clothes(prices)
    slots = outfits.find_slots(["shoe", "hat"])
    assert complete_rows(outfits, np.array([0]), RowOptions(), OutfitOptions(2, slots)).rows.tolist() == [2, 4, 3, 5]
    two = RowOptions(k=2)
    assert complete_rows(outfits, np.array([0]), two, OutfitOptions(2, slots)).rows.tolist() == [2, 4]
    # 2 and 4 cost 9.0, and 2 and 5 cost 6.0; with 5.9, the cheapest hat leaves 4.9 for a shoe.
    for budget, rows in ((9.0, [2, 4]), (8.9, [2, 5]), (5.9, [3, 5]), (3.0, [3, 5]), (2.9, [5])):
        found = complete_rows(outfits, np.array([0]), two, OutfitOptions(1, slots, budget))
        assert sorted(found.rows.tolist()) == sorted(rows), budget
    assert [str(one) for one in found.fallbacks] == ["slots: 1 of 2 slots is too expensive for the budget"]
    bags = complete_rows(clothes(live=[0, 2]), np.array([0]), two, OutfitOptions(1, (*slots,)))
    assert bags.rows.tolist() == [2]
    assert [one.kind for one in bags.fallbacks] == [FallbackKind.SLOTS]


def test_only_items_that_leave_enough_for_the_other_slots_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at, fits = list[int](), Filling.fits

    def watched(filling: Filling, row: int) -> bool:
        looked_at.append(row)
        return fits(filling, row)

    monkeypatch.setattr(Filling, "fits", watched)
    outfits = clothes([9.0, 9.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 0.5, 0.5, 0.5, 0.5])
    slots = outfits.find_slots(["shoe", "hat", "bag"])
    found = complete_rows(outfits, np.array([0]), RowOptions(k=3), OutfitOptions(2, slots, 3.5))
    assert sorted(found.rows.tolist()) == sorted(looked_at) == [3, 5, 7]
    looked_at.clear()
    found = complete_rows(outfits, np.array([0]), RowOptions(k=3), OutfitOptions(2, slots))
    assert sorted(found.rows.tolist()) == [2, 4, 6]


def test_a_budget_is_exact_in_decimals() -> None:
    prices = [1.0, 1.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 1.0, 1.0, 1.0, np.nan]
    found = complete_rows(clothes(prices), np.array([0]), RowOptions(k=3), OutfitOptions(budget=0.6))
    assert sorted(found.rows.tolist()) == [2, 4, 6 if 6 in found.rows else 7], "0.1 + 0.2 + 0.3 is more in floats"
    nothing = complete_rows(clothes(prices), np.array([0]), RowOptions(), OutfitOptions(budget=0.05))
    assert [str(one) for one in nothing.fallbacks] == ["budget: nothing fits the budget"]


def test_what_is_not_known_is_a_fallback() -> None:
    outfits = clothes()

    def kinds(basket: list[int], outfits: Outfits = outfits, **options: object) -> list[FallbackKind]:
        found = complete_rows(outfits, np.array(basket, np.int64), RowOptions(**options))  # type: ignore[arg-type]
        return [fallback.kind for fallback in found.fallbacks]

    assert kinds([0, UNKNOWN]) == [FallbackKind.PARTIAL]
    assert kinds([]) == [FallbackKind.POPULAR]
    assert kinds([UNKNOWN])[0] is FallbackKind.POPULAR
    assert kinds([8]) == [FallbackKind.BASKET], "its category is not known"
    assert kinds([0, 2, 4, 6]) == [FallbackKind.BASKET], "every category is in the basket"
    assert kinds([0], make_outfits(None, CLOTHES)) == [FallbackKind.NOT_LEARNED]
    assert kinds([0], allowed=np.array([1])) == [FallbackKind.BASKET], "only another coat is allowed"
    assert kinds([0], excluded=np.arange(ITEMS)) == [FallbackKind.ALL_EXCLUDED]
    assert kinds([0], allowed=np.array([], np.int64)) == [FallbackKind.NOTHING_ALLOWED]
    without = complete_rows(clothes([np.nan] * ITEMS), np.array([0]), RowOptions(), OutfitOptions(budget=1.0))
    assert [one.kind for one in without.fallbacks] == [FallbackKind.BUDGET, FallbackKind.BUDGET], "nothing has a price"
    popular = complete_rows(outfits, np.empty(0, np.int64), RowOptions())
    assert popular.rows.tolist() == [0, 2, 4, 6], "the most popular item of each category"


def test_without_complements_points_rank_the_other_categories() -> None:
    outfits = make_outfits(None, CLOTHES)
    found = complete_rows(outfits, np.array([0]), RowOptions(reasons=True))
    assert sorted(CLOTHES[row] or "" for row in found.rows) == ["bag", "hat", "shoe"]
    assert found.reasons is not None


def test_a_new_item_counts_like_its_category() -> None:
    base = clothes()
    new_points = lift(np.ones((2, 3))).astype(np.float32)
    space = Space("hyperboloid", "distance")
    new = NewPoints(Points(new_points, new_points, np.zeros(2, np.int64), space), np.array([True, True]), 1)
    known = [*base.tree.names, "sock"]
    codes = np.array([UNKNOWN if name is None else known.index(name) for name in (*CLOTHES, "hat", "sock")], np.int32)
    columns = ItemColumns(ITEMS + 2, {"category": TextColumn(codes, known)})
    extended = base.with_new(base.ranker.with_new(new), columns)
    fresh = Outfits(base.ranker.with_new(new), columns)
    assert extended.pairs.toarray() == pytest.approx(fresh.pairs.toarray())
    hat, sock = ITEMS, ITEMS + 1
    score = extended.score(np.array([0]), np.ones(ITEMS + 2, bool))
    assert score[5] < score[4]
    assert score[5] == pytest.approx(score[hat], abs=0.2), "as the hat that is never with this coat"
    assert score[sock] < score[hat]
    found = complete_rows(extended, np.array([hat]), RowOptions(k=1, excluded=np.array([0, 1])))
    assert CLOTHES[found.rows[0]] == "bag", "hats are most often with bags, coats apart"
    listed = complete_rows(extended, np.array([0]), RowOptions(k=9, event_limit=0))
    assert sock not in listed.rows


def test_rules_act_on_outfits_and_the_budget_holds_for_pins() -> None:
    prices = [9.0, 9.0, 5.0, 2.0, 4.0, 1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    outfits = clothes(prices)
    classes = np.zeros(ITEMS, np.int32)
    classes[2] = 1
    rules = RowRules(classes, excluded_by=((), (0,)), lifted_by=((), ()), pins=(Pin(1, 0, (6,)),))
    found = complete_rows(outfits, np.array([0]), RowOptions(k=3, rules=rules))
    assert found.rows.tolist() == [6, 4, 3]
    assert set(found.rules) == {0, 1}
    cheap = complete_rows(outfits, np.array([0]), RowOptions(k=3, rules=rules), OutfitOptions(budget=2.0))
    assert 6 not in cheap.rows
    assert sum(prices[row] for row in cheap.rows) <= 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (OutfitOptions(per_category=0), "per_category=0"),
        (OutfitOptions(per_category=1.5), "per_category=1.5: give a whole number"),  # type: ignore[arg-type]
        (OutfitOptions(per_category="2"), "per_category='2': give a whole number"),  # type: ignore[arg-type]
        (OutfitOptions(budget="5"), "budget='5': give a number above 0"),  # type: ignore[arg-type]
        (OutfitOptions(budget=10**400), "give a number above 0"),
        (OutfitOptions(budget=0.0), "budget=0.0: give a number above 0"),
        (OutfitOptions(budget=float("nan")), "budget=nan"),
        (OutfitOptions(budget=3.0), "no column 'price'"),
    ],
)
def test_bad_options_are_refused(wanted: OutfitOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        complete_rows(clothes(), np.array([0]), RowOptions(), wanted)


def test_bad_slots_are_refused() -> None:
    with pytest.raises(InputError, match="'tie' is no category"):
        clothes().find_slots(["coat", "tie"])
    with pytest.raises(InputError, match="slots is empty"):
        clothes().find_slots([])


def test_arrays_that_are_no_complements_are_refused() -> None:
    good = build_complements(make_interactions([(0, frozenset({0, 1}))]))
    with pytest.raises(InputError, match="train the model again"):
        Complements(good.offsets, good.columns, good.values, -good.counts - 1)
    assert good.extend(ITEMS + 2).partners(ITEMS + 1)[0].tolist() == []
