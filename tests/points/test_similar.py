"""Similar items: counts compared with a slow reference, ranking with a sort of all scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lorentzrec import InputError, Interactions, TrainingConfig, train
from lorentzrec.data.arrays import Floats, make_mask
from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.points import similarity as similarity_module
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.points.recommending import RowOptions
from lorentzrec.points.similar import ANGLE, SimilarItems, find_similar
from lorentzrec.points.similarity import Similarity, build_similarity
from lorentzrec.points.space import Space
from tests.reference.similarity import similarity

Orders = list[list[list[str]]]
ITEMS = 40


def make_interactions(customers: Orders, *, times: bool = True) -> Interactions:
    """Orders, an hour apart, as events; without `times`, nothing is known of their order."""
    rows = [
        (f"c{customer}", item, 3600 * order)
        for customer, orders in enumerate(customers)
        for order, items in enumerate(orders)
        for item in items
    ]
    users, items, moments = zip(*rows, strict=True)
    return Interactions.from_pairs(users, items, moments if times else None)


def stored_value(found: Similarity, data: Interactions, first: str, second: str) -> float:
    columns, values = found.neighbours(data.items.row(first))
    return float(dict(zip(columns.tolist(), values.tolist(), strict=True)).get(data.items.row(second), 0.0))


def test_three_customers_by_hand() -> None:
    """Orders (a b), (c); (a b); (a c). Customers have 3, 2 and 2 items."""
    data = make_interactions([[["a", "b"], ["c"]], [["a", "b"]], [["a", "c"]]])
    assert data.in_orders
    found = build_similarity(data, ordered=True)
    three, two = 3**-0.25, 2**-0.25
    customers = (three + two) / np.sqrt((three + 2 * two) * (three + two))
    together = 2 / np.sqrt(3 * 2)
    assert stored_value(found, data, "a", "b") == pytest.approx((customers + 2 * together) / 3, rel=1e-6)
    together = 1 / np.sqrt(3 * 2)
    assert stored_value(found, data, "a", "c") == pytest.approx((customers + 2 * together) / 3, rel=1e-6)
    only_customers = build_similarity(data, ordered=False)
    assert stored_value(only_customers, data, "b", "c") == pytest.approx(three / (three + two), rel=1e-6)


@given(
    st.lists(
        st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["orders", "steps", "neither"]),
)
def test_counts_are_those_of_the_reference(customers: Orders, kind: str) -> None:
    if kind != "orders":
        customers = [[[item] for order in orders for item in order] for orders in customers]
    data = make_interactions(customers, times=kind != "neither")
    assume(data.in_orders == (kind == "orders"))  # few orders with several items are a sequence with shuffled ties
    found = build_similarity(data, ordered=True)
    items = data.items.series.to_list()
    for first in items:
        columns, _ = found.neighbours(data.items.row(first))
        assert (np.diff(columns) > 0).all()
        assert data.items.row(first) not in columns
        for second in set(items) - {first}:
            expected = similarity(customers, first, second, by_orders=data.in_orders, ordered=kind != "neither")
            assert stored_value(found, data, first, second) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["orders", "steps", "neither"])
@pytest.mark.parametrize("pairs", [1, 300])
def test_counts_of_some_items_at_a_time_are_those_of_all(
    kind: str, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    users, items = random.integers(0, 30, 400), random.integers(0, 25, 400)
    times = None if kind == "neither" else random.integers(0, 5 if kind == "orders" else 10**6, 400)
    data = Interactions.from_pairs(users, items, times)
    assert data.in_orders == (kind == "orders")
    at_once = build_similarity(data, ordered=True, neighbours=5)
    monkeypatch.setattr(similarity_module, "PAIRS_AT_ONCE", pairs)
    in_parts = build_similarity(data, ordered=True, neighbours=5)
    for name in ("offsets", "columns", "values"):
        assert np.array_equal(getattr(in_parts, name), getattr(at_once, name))


def test_only_the_strongest_neighbours_are_stored() -> None:
    data = make_interactions([[list("abc")], [list("ab")], [list("ad")]], times=False)
    whole, one = build_similarity(data, ordered=True), build_similarity(data, ordered=True, neighbours=1)
    for item in "abcd":
        columns, values = whole.neighbours(data.items.row(item))
        best, value = one.neighbours(data.items.row(item))
        assert best.tolist() == [columns[values.argmax()]]
        assert value.tolist() == [values.max()]


def make_points(seed: int, count: int = ITEMS, *, separate: bool = True, counted: bool = True) -> Points:
    random = np.random.default_rng(seed)
    item_points, history_points = (lift(random.normal(size=(count, 3))).astype(np.float32) for _ in range(2))
    found = None
    if counted:
        dense = np.triu(random.random((count, count)) * (random.random((count, count)) < 0.15), 1)
        dense[:, -5:] = 0  # items without neighbours
        dense = dense + dense.T
        rows, columns = np.nonzero(dense)
        offsets = np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
        found = Similarity(offsets, columns.astype(np.int32), dense[rows, columns].astype(np.float32))
    counts = random.integers(1, 9, count)
    return Points(
        item_points,
        history_points if separate else item_points,
        counts,
        Space("hyperboloid", "distance"),
        similarity=found,
    )


def expected_scores(points: Points, new: Points | None, item: int) -> Floats:
    """All scores, by the formula of `similar.py`."""

    def unit(vectors: Floats) -> Floats:
        scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return scaled

    parts = [points] if new is None else [points, new]
    directions = np.concatenate([unit(part.item_points[:, 1:].astype(np.float64)) for part in parts])
    if points.separate:
        others = np.concatenate([unit(part.history_points[:, 1:].astype(np.float64)) for part in parts])
        directions = unit(directions + others)
    angles: Floats = directions @ directions[item]
    if points.similarity is None:
        return angles
    values, counted = np.zeros(len(angles)), np.zeros(len(angles), bool)
    columns, stored = points.similarity.neighbours(item)
    values[columns] = stored
    counted[: len(points)] = np.diff(points.similarity.offsets) > 0
    if len(columns):
        slope = max(0.0, float(stored @ angles[columns])) / float(angles[columns] @ angles[columns])
        values[~counted] = np.clip(slope * angles[~counted], 0, 1)
    scores: Floats = (1 - ANGLE) * values + ANGLE * angles
    return scores


@given(
    seed=st.integers(0, 50),
    item=st.integers(0, ITEMS + 2),
    k=st.integers(1, ITEMS + 4),
    live=st.none() | st.sets(st.integers(0, ITEMS - 1)),
    allowed=st.none() | st.sets(st.integers(0, ITEMS + 2)),
    excluded=st.sets(st.integers(0, ITEMS + 2), max_size=5),
    separate=st.booleans(),
    counted=st.booleans(),
)
def test_ranking_is_a_sort_of_all_scores(
    seed: int,
    item: int,
    k: int,
    live: set[int] | None,
    allowed: set[int] | None,
    excluded: set[int],
    separate: bool,
    counted: bool,
) -> None:
    points, new = make_points(seed, separate=separate, counted=counted), make_points(seed + 100, 3, separate=separate)
    new = replace(new, similarity=None)
    rows = None if live is None else np.array(sorted(live), np.int64)
    ranker = Ranker(points, live=LiveSet(points, rows), new=NewPoints(new, np.array([True, False, True])))
    eligible = np.ones(ITEMS, bool) if rows is None else make_mask(rows, ITEMS)
    eligible = np.append(eligible, [True, False, True])
    if allowed is not None:
        eligible &= make_mask(np.array(sorted(allowed), np.int64), ITEMS + 3)
    eligible[[*excluded, item]] = False
    scores = np.where(eligible, expected_scores(points, new, item), -np.inf)
    best = np.argsort(-scores, kind="stable")[: min(k, eligible.sum())]
    never = np.array(sorted(excluded), np.int64)
    among = None if allowed is None else np.array(sorted(allowed), np.int64)
    found, found_scores = SimilarItems(ranker).rank(item, k, never, among)
    assert found_scores == pytest.approx(scores[best], abs=1e-5)
    assert scores[found] == pytest.approx(found_scores, abs=1e-5)
    assert len(set(found.tolist())) == len(best)


def test_few_of_the_new_items_by_events_are_listed() -> None:
    points, new = make_points(1, separate=False), make_points(2, 6, separate=False, counted=False)
    similar = SimilarItems(Ranker(points, new=NewPoints(new, np.ones(6, bool), by_events=4)))
    for limit in (0, 1, 4):
        rows, _ = similar.rank(3, ITEMS + 6, event_limit=limit)
        assert (rows >= ITEMS + 2).sum() == limit
        assert len(rows) == ITEMS + 2 + limit - 1


def test_the_reason_is_the_item_itself() -> None:
    points = make_points(4)
    similar = SimilarItems(Ranker(points))
    (found,) = find_similar(similar, [0], RowOptions(k=ITEMS, reasons=True))
    assert points.similarity is not None
    neighbours = set(points.similarity.neighbours(0)[0].tolist())
    assert found.reasons is not None
    for row, (reason,) in zip(found.rows.tolist(), found.reasons, strict=True):
        assert (reason.row, reason.share) == (0, 1.0)
        assert reason.kind is (ReasonKind.OFTEN_WITH if row in neighbours else ReasonKind.NEAR)


def test_damaged_arrays_are_refused() -> None:
    offsets, columns, values = np.array([0, 1, 1]), np.array([1], np.int32), np.array([0.5], np.float32)
    Similarity(offsets, columns, values)
    for broken in (
        (np.array([0, 2, 1]), columns, values),
        (offsets, np.array([2], np.int32), values),
        (offsets, columns, np.array([-0.5], np.float32)),
        (offsets, columns, np.array([np.nan], np.float32)),
        (offsets.astype(np.int32), columns, values),
    ):
        with pytest.raises(InputError, match="train the model again"):
            Similarity(*broken)
    points = make_points(1, counted=False)
    with pytest.raises(InputError, match="the similarity of a model has other items"):
        replace(points, similarity=Similarity(offsets, columns, values))


def test_trained_models_keep_their_similarity(tmp_path: Path) -> None:
    from lorentzrec import load
    from lorentzrec.synthetic.shop import synthetic_shop

    data = synthetic_shop(customers=60, items=30, interactions=300, seed=3).interactions()
    config = TrainingConfig(dimension=3, epochs=1, memory="auto")
    model = train(data, config, progress=False)
    assert model.similarity is not None
    expected = build_similarity(data, ordered=True)
    np.testing.assert_array_equal(model.similarity.columns, expected.columns)
    model.save(tmp_path / "model")
    item = model.items.id(0)
    back = load(tmp_path / "model")
    assert back.similar_items(item, 30, reasons=True) == model.similar_items(item, 30, reasons=True)
    assert train(data, config.replace(memory="none"), progress=False).similarity is None
    events = Interactions.from_pairs(["new", "new"], [item, "late"], [2e9, 2e9 + 1])
    grown = model.add_items(events=events)
    assert grown.similarity is not None
    assert grown.similarity.item_count == 31
    assert "late" in grown.similar_items(item, 30).ids
