"""Recommendations of a model, its fallbacks, and its errors."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.model import model as model_module
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.recommendations import Recommendations
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.points.space import Space
from tests.model.hand_made_models import DIMENSION, RECORD, hand_made, interactions, points

VARIANTS: list[dict[str, Any]] = [
    {},
    {"targets": "separate"},
    {"score": "inner", "recency": 1.0},
    {"geometry": "euclidean"},
    {"geometry": "euclidean", "score": "inner", "targets": "separate"},
    {"model": "symmetric"},
    {"model": "symmetric", "geometry": "euclidean", "score": "inner"},
]
MODELS = [hand_made(**variant) for variant in VARIANTS]


def same(left: Recommendations, right: Recommendations) -> bool:
    return (left.ids, left.scores.tolist(), left.fallback) == (right.ids, right.scores.tolist(), right.fallback)


def slow_order(model: Model, history: list[Id], weights: list[float]) -> list[Id]:
    """Items by the definition of an asymmetric model on the hyperboloid: the nearest to the midpoint of the history."""
    total = np.zeros(DIMENSION + 1)
    for steps_back, (identifier, weight) in enumerate(zip(reversed(history), reversed(weights), strict=True)):
        point = model.history_points[model.items.row(identifier)].astype(np.float64)
        total += weight * (model.config.recency or 1.0) ** steps_back * point
    midpoint = total / np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum())
    distances = {
        identifier: float(np.arccosh(midpoint[0] * point[0] - midpoint[1:] @ point[1:]))
        for identifier, point in zip(model.item_ids, model.item_points.astype(np.float64), strict=True)
    }
    return sorted(distances, key=lambda identifier: distances[identifier])


@pytest.mark.parametrize("targets", ["shared", "separate"])
def test_history_is_answered_by_its_midpoint(targets: str) -> None:
    model = hand_made(targets=targets)
    history: list[Id] = ["i3", "i7", "i3", "i9"]
    result = model.recommend(history=history, k=5)
    expected = [identifier for identifier in slow_order(model, history, [1, 1, 1, 1]) if identifier not in history]
    assert result.ids == expected[:5]
    assert result.fallback is None
    assert result.scores.dtype == np.float32
    assert (np.diff(result.scores) <= 0).all()
    weighted = model.recommend(history, k=30, weights=[1, 9, 2, 0.5], exclude_seen=False)
    assert weighted.ids == slow_order(model, history, [1, 9, 2, 0.5])
    assert weighted.ids != slow_order(model, history, [1, 1, 1, 1])


def test_order_of_a_history_counts() -> None:
    model = hand_made(recency=0.1)
    assert model.recommend(["i1", "i2"]).ids != model.recommend(["i2", "i1"]).ids
    timeless = hand_made(recency=1.0)
    assert timeless.recommend(["i1", "i2"]).ids == timeless.recommend(["i2", "i1"]).ids


@pytest.mark.parametrize("weighted", [False, True])
def test_known_user_is_their_training_history(weighted: bool) -> None:
    data = interactions(weighted=weighted)
    model = hand_made(data)
    row = data.users.row("u4")
    history = data.history_ids("u4")
    events = slice(data.offsets[row], data.offsets[row + 1])
    weights = None if data.weights is None else data.weights[events].tolist()
    result = model.recommend(user="u4", k=7)
    assert same(result, model.recommend(history=history, weights=weights, k=7))
    assert not set(result.ids) & set(history)
    assert set(history) < set(model.recommend(user="u4", k=30, exclude_seen=False).ids)


def test_known_user_of_a_symmetric_model_is_their_point() -> None:
    model = hand_made(model="symmetric")
    assert model.user_points is not None
    assert model.histories is not None
    point = model.user_points[model.histories.users.row("u4")].astype(np.float64)
    products = model.item_points[:, 1:].astype(np.float64) @ point[1:] - model.item_points[:, 0] * point[0]
    seen = model.histories.history_ids("u4")
    expected = [identifier for identifier in model.items.ids(np.argsort(-products)) if identifier not in seen]
    result = model.recommend(user="u4", k=6)
    assert result.ids == expected[:6]
    assert result.fallback is None


def test_symmetric_model_answers_a_history_by_its_midpoint_and_says_so() -> None:
    result = hand_made(model="symmetric").recommend(["i3", "i7"])
    assert result.fallback == "midpoint"
    assert same(replace(result, fallbacks=()), hand_made().recommend(["i3", "i7"]))
    partly = hand_made(model="symmetric").recommend(["i3", "new", "i7"])
    assert partly.fallback == "midpoint; partial: 1 of 3 history items is unknown"
    assert partly.fallback_kinds == (FallbackKind.MIDPOINT, FallbackKind.PARTIAL)
    assert [(one.unknown, one.total) for one in partly.fallbacks] == [(0, 0), (1, 3)]


def test_unknown_items_of_a_history_are_left_out_and_counted() -> None:
    model = hand_made()
    result = model.recommend(["i3", "new", "i7", "newer"], weights=[1, 100, 3, 100])
    assert result.fallback == "partial: 2 of 4 history items are unknown"
    assert same(replace(result, fallbacks=()), model.recommend(["i3", "i7"], weights=[1, 3]))


def test_nothing_known_is_answered_by_popularity() -> None:
    model = hand_made()
    # Vocabularies of pairs are numbered by falling frequency, ties by id.
    counts = model.item_counts
    empty = model.recommend([], k=4)
    assert empty.ids == model.item_ids[:4]
    assert empty.scores.tolist() == counts[:4].tolist()
    assert empty.fallback == "popular: the history is empty"
    unknown = model.recommend([3, 4], k=4, exclude=[model.item_ids[0]])
    assert unknown.ids == model.item_ids[1:5]
    assert unknown.fallback == "popular: none of the 2 history items is known (ids here are strings)"


def test_user_without_training_events_gets_the_popular_items() -> None:
    data = interactions()
    part = data.select(data.user_rows != data.users.row("u4"))
    for kind in ("asymmetric", "symmetric"):
        result = hand_made(part, model=kind).recommend(user="u4", k=3)
        assert result.ids == hand_made(part).recommend([], k=3).ids
        assert result.fallback == "popular: the user has no events in training"


def test_filters() -> None:
    model = hand_made()
    full = model.recommend(["i3"], k=30)
    assert len(full) == 29
    assert "i3" not in full.ids
    assert model.recommend(["i3"], k=1000).ids == full.ids
    assert model.recommend(["i3"], k=5, exclude=[full.ids[0], full.ids[2], "new"]).ids == [
        full.ids[place] for place in (1, 3, 4, 5, 6)
    ]
    allowed = [full.ids[9], full.ids[4], "i3", full.ids[20]]
    result = model.recommend(["i3"], allow=allowed)
    assert result.ids == [full.ids[4], full.ids[9], full.ids[20]]
    assert result.fallback is None
    assert model.recommend(["i3"], allow=allowed, exclude_seen=False).ids[0] == "i3"
    assert model.recommend(["i3"], allow=allowed, exclude=[full.ids[4]]).ids == [full.ids[9], full.ids[20]]
    assert model.recommend(["i3"], allow=[]).ids == []


def test_unknown_items_of_an_allow_list_are_counted() -> None:
    model = hand_made()
    result = model.recommend(["i3"], allow=["i4", "new"])
    assert result.ids == ["i4"]
    assert result.fallback == "allowed: 1 of 2 allowed items is unknown"
    both = model.recommend(["i3", "old"], allow=["new", "newer"])
    assert both.ids == []
    assert both.fallback == (
        "partial: 1 of 2 history items is unknown; allowed: 2 of 2 allowed items are unknown; "
        "nothing_allowed: the allow-list and the categories leave no item to recommend"
    )


def test_recommendations_are_compared_and_indexed_by_value() -> None:
    model = hand_made()
    found = model.recommend(["i1", "i3"], k=3, reasons=True)
    assert found == model.recommend(["i1", "i3"], k=3, reasons=True)
    assert found != model.recommend(["i1", "i3"], k=3)  # without reasons
    assert found != model.recommend(["i1", "i4"], k=3, reasons=True)
    assert found != found.ids
    assert [found[place] for place in (0, 1, -1)] == list(found)


def test_ids_may_come_in_any_container() -> None:
    model = hand_made(interactions(strings=False))
    plain = model.recommend([-50, -40])
    assert all(type(identifier) is int for identifier in plain.ids)
    for history in ((-50, -40), np.array([-50, -40]), pl.Series([-50, -40]), iter([-50, -40])):
        assert same(model.recommend(history), plain)
    assert model.recommend(["-50"]).fallback == "popular: none of the 1 history items is known (ids here are integers)"
    assert model.recommend(user=10**12).ids == model.recommend(user=np.int64(10**12)).ids  # type: ignore[arg-type]


@pytest.mark.parametrize("model", MODELS)
@given(
    histories=st.lists(st.lists(st.integers(-3, 32).map(lambda number: f"i{number}"), max_size=8), max_size=12),
    k=st.integers(1, 40),
    exclude_seen=st.booleans(),
    items=st.none() | st.lists(st.integers(0, 32).map(lambda number: f"i{number}")),
    weighted=st.booleans(),
)
def test_many_are_answered_as_one(
    model: Model,
    histories: list[list[Id]],
    k: int,
    exclude_seen: bool,
    items: list[Id] | None,
    weighted: bool,
) -> None:
    weights = [[1.0 + place for place in range(len(history))] for history in histories] if weighted else None
    many = model.recommend_many(
        histories, k=k, exclude=["i5"], exclude_seen=exclude_seen, allow=items, weights=weights, threads=2
    )
    assert len(many) == len(histories)
    for place, history in enumerate(histories):
        one = model.recommend(
            history,
            k=k,
            exclude=["i5"],
            exclude_seen=exclude_seen,
            allow=items,
            weights=None if weights is None else weights[place],
        )
        assert same(one, many[place])
        forbidden = {"i5"} | (set(history) if exclude_seen else set())
        assert not set(one.ids) & forbidden
        assert items is None or set(one.ids) <= set(items)


@pytest.mark.parametrize("model", MODELS)
def test_many_users_are_answered_as_one(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "QUERIES_PER_BLOCK", 5)
    assert model.users is not None
    users = model.users.series.to_list()
    many = model.recommend_many(users=users, k=4)
    assert len(many) == len(users) == 12
    for user, result in zip(users, many, strict=True):
        assert same(result, model.recommend(user=user, k=4))


def test_points_alone_find_items_in_the_same_direction() -> None:
    for model in (hand_made(score="inner"), hand_made(score="inner", geometry="euclidean")):
        vectors = model.item_points[:, int(model.config.hyperbolic) :].astype(np.float64)
        row = model.items.row("i3")
        cosines = vectors @ vectors[row] / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vectors[row])
        cosines[row] = -2
        best = np.argsort(-cosines)[:5]
        result = model.similar_items("i3", k=5)
        assert result.ids == model.items.ids(best)
        assert result.scores == pytest.approx(cosines[best], rel=1e-5)
        assert len(model.similar_items("i3", k=100)) == 29


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
def test_similar_items_among_some_are_those_of_all_without_the_others(geometry: str) -> None:
    model = hand_made(geometry=geometry)
    for among in (["i1"], [f"i{row}" for row in range(0, 30, 2)]):
        found = model.similar_items_many(["i3", "i4"], k=5, allow=[*among, "new"])
        for item, result in zip(["i3", "i4"], found, strict=True):
            every = model.similar_items(item, k=30)
            assert list(result) == [pair for pair in every if pair[0] in among][:5]
            assert result.fallback == f"allowed: 1 of {len(among) + 1} allowed items is unknown"
    assert [len(one) for one in model.similar_items_many(["i3"], allow=[])] == [0]


def test_similar_items_of_a_double_leave_out_only_the_item_itself() -> None:
    data = interactions()
    item_points = points(len(data.items), "hyperboloid", 2)
    item_points[4] = item_points[20]
    model = hand_made(data).with_points(item_points=item_points, history_points=item_points)
    for row, double in ((4, 20), (20, 4)):
        result = model.similar_items(data.items.id(row), k=3)
        assert result.ids[0] == data.items.id(double)
        assert result.scores[0] == pytest.approx(1)
        assert data.items.id(row) not in result.ids


@pytest.mark.parametrize("model", MODELS)
def test_score_histories_has_the_order_of_recommend(model: Model) -> None:
    assert model.histories is not None
    assert model.users is not None
    user_rows = np.array([3, 0, 11])
    scores = model.score_histories(model.histories, user_rows)
    assert scores.shape == (3, 30)
    assert scores.dtype == np.float32
    for user_row, row in zip(user_rows, scores, strict=True):
        expected = model.recommend(user=model.users.id(int(user_row)), k=30, exclude_seen=False).ids
        assert model.items.ids(np.argsort(-row)) == expected


def test_score_histories_of_strangers() -> None:
    data = interactions()
    empty = data.select(data.user_rows != 1)
    strangers = replace(empty, users=Vocabulary([f"stranger {row}" for row in range(12)], name="user"))
    for model in (hand_made(model="symmetric"), hand_made()):
        scores = model.score_histories(strangers, np.array([0, 1]))
        first = model.recommend(data.history_ids(data.users.id(0)), k=30, exclude_seen=False)
        assert model.items.ids(np.argsort(-scores[0])) == first.ids
        # An empty history is scored by popularity, and equal counts are ties.
        order = np.lexsort([np.arange(30), -scores[1]])
        assert model.items.ids(order) == model.recommend([], k=30).ids
        assert len(set(scores[1].tolist())) == len(set(model.item_counts.tolist()))


def test_large_counts_do_not_become_ties() -> None:
    data = interactions()
    counts = 2**24 + np.arange(30)
    model = hand_made(data).with_points(item_counts=counts)
    nobody = data.select(np.zeros(len(data), bool))
    assert np.argsort(-model.score_histories(nobody, np.array([0]))[0]).tolist() == list(range(29, -1, -1))
    assert model.recommend([], k=30).ids == model.item_ids[::-1]


def test_score_histories_wants_the_items_of_the_model() -> None:
    other = Interactions.from_pairs(["u1"], ["elsewhere"])
    with pytest.raises(InputError, match="other items than the model"):
        hand_made().score_histories(other, np.array([0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either a history"),
        ({"history": ["i1"], "user": "u1"}, "give either a history"),
        ({"user": "u1", "weights": [1.0]}, "give either a history"),
        ({"user": "nobody"}, r"the user 'nobody' is not known to this model \(ids here are strings\): check the id"),
        ({"user": 4}, "the user 4 is not known"),
        ({"user": ["u1"]}, "list of strings or integers"),
        ({"history": "i1"}, "history is 'i1', not a list"),
        ({"history": 5}, "history is 5, not a list: put it in brackets, or give user=5 for a customer"),
        ({"history": [["i1"]]}, "list of strings or integers"),
        ({"history": ["i1"], "exclude": "i1"}, "exclude is 'i1', not a list"),
        ({"history": ["i1"], "allow": "i1"}, "allow is 'i1', not a list"),
        ({"history": ["i1"], "k": 0}, "k is 0: give a whole number"),
        ({"history": ["i1"], "k": 2.0}, r"k is 2\.0: give a whole number"),
        ({"history": ["i1"], "k": True}, "k is True: give a whole number"),
        ({"history": ["i1"], "weights": [1, 2]}, "weights are not 1 numbers other than 0"),
        ({"history": ["i1"], "weights": ["heavy"]}, "weights are not 1 numbers other than 0"),
        ({"history": ["i1"], "weights": [0]}, "weights are not 1 numbers other than 0"),
        ({"history": ["i1"], "weights": [np.nan]}, "weights are not 1 numbers other than 0"),
        ({"history": ["i1"], "weights": [1e300]}, "that float32 can hold"),
        ({"history": ["i1"], "weights": [-1e-300]}, "that float32 can hold"),
    ],
)
def test_questions_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hand_made().recommend(**arguments)


def test_other_questions_that_make_no_sense() -> None:
    model = hand_made()
    with pytest.raises(InputError, match="2 histories and weights of 1"):
        model.recommend_many([["i1"], ["i2"]], weights=[[1.0]])
    with pytest.raises(InputError, match="histories is Interactions"):
        model.recommend_many(interactions())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the item 'new' is not known to this model"):
        model.similar_items("new")
    with pytest.raises(InputError, match="k is -1"):
        model.similar_items("i1", k=-1)


def test_model_without_histories_says_what_it_can_do() -> None:
    with pytest.raises(InputError, match="supports histories only: give a history"):
        replace(hand_made(), histories=None).recommend(user="u4")
    symmetric = replace(hand_made(model="symmetric"), histories=None)
    with pytest.raises(InputError, match="does not know what a user has seen: pass exclude_seen=False"):
        symmetric.recommend(user="u4")
    expected = hand_made(model="symmetric").recommend(user="u4", exclude_seen=False)
    assert same(symmetric.recommend(user="u4", exclude_seen=False), expected)


def test_model_is_immutable_and_leaves_the_callers_arrays_alone() -> None:
    data = interactions()
    mine = points(len(data.items), "hyperboloid", 2)
    model = hand_made(data).with_points(item_points=mine, history_points=mine)
    assert model.history_points is model.item_points
    for array in (model.item_points, model.item_counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(FrozenInstanceError):
        model.note_records = ()  # type: ignore[misc]
    mine[0] = mine[1]
    assert np.shares_memory(mine, model.item_points)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item_points": np.zeros((30, DIMENSION), np.float32)}, r"float32 \(30, 5\): give float32 \(30, 4\)"),
        ({"item_points": np.zeros((30, DIMENSION + 1))}, "the item_points of a model are float64"),
        ({"item_counts": np.zeros(29, np.int64)}, r"the item_counts of a model are int64 \(29,\)"),
    ],
)
def test_points_that_do_not_fit_one_another(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hand_made().with_points(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": replace(hand_made().points, space=Space("euclidean", "distance"))}, "give one of dimension 4"),
        ({"points": replace(hand_made().points, space=Space("hyperboloid", "inner"))}, "give points in Space"),
        ({"user_points": np.zeros((12, DIMENSION + 1), np.float32)}, "a symmetric model needs user points"),
        ({"histories": interactions(strings=False)}, "other users or items than the model"),
    ],
)
def test_parts_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(hand_made(), **changes)


def test_config_must_be_resolved() -> None:
    open_config: Any = TrainingConfig(score="distance", recency=0.5)
    with pytest.raises(ConfigError, match=r"is not resolved: give config\.resolve_for\(data\)"):
        replace(hand_made(), config=open_config)


def test_export_reads_back_with_another_library(tmp_path: Path) -> None:
    model = hand_made(interactions(strings=False), targets="separate")
    model.to_parquet(tmp_path / "points.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "points.parquet")
    assert table.column_names == ["id", "count", "point", "history_point", "vector"]
    assert table["id"].to_pylist() == model.item_ids
    assert table["count"].to_pylist() == model.item_counts.tolist()
    assert table["point"].to_pylist() == model.item_points.tolist()
    assert table["history_point"].to_pylist() == model.history_points.tolist()
    masses = np.linspace(-1, 1, len(model.items)).astype(np.float32)
    heavy = hand_made().with_points(masses=masses)
    heavy.to_parquet(tmp_path / "points.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "points.parquet")
    assert table.column_names == ["id", "count", "point", "mass", "vector"]
    assert table["mass"].to_pylist() == masses.tolist()
    assert table["vector"].to_pylist() == heavy.item_vectors.tolist()


def test_record_reads_back() -> None:
    for record in RECORD:
        assert EpochRecord.from_dict(record.to_dict()) == record
    with pytest.raises(TypeError, match="speed"):
        EpochRecord.from_dict(RECORD[0].to_dict() | {"speed": 1})


def test_model_introduces_itself() -> None:
    assert repr(hand_made()) == f"Model(hyperboloid asymmetric d={DIMENSION}, 30 items, 12 users)"
    assert repr(replace(hand_made(), users=None, histories=None)).endswith("30 items)")
