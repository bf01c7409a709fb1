"""Context, categories, diversity and reasons of `Model.recommend`, and similar items of many items at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from lorentzrec.errors import InputError
from lorentzrec.model.model import Model
from lorentzrec.model.recommendations import Recommendations
from lorentzrec.points.diversity import diversify
from lorentzrec.points.fallbacks import Cause, Fallback, FallbackKind
from lorentzrec.points.reasons import Reason, ReasonKind
from tests.model.hand_made_models import hand_made, interactions

MODEL = hand_made(interactions(weighted=True))
TABLE = pl.DataFrame(
    {
        "item": [f"i{number}" for number in range(30)] + ["never trained"],
        "category": ["coats", "hats|wool", None] * 10 + ["rings"],
    }
)


def same(left: Recommendations, right: Recommendations) -> bool:
    return (left.ids, left.scores.tolist(), left.fallback) == (right.ids, right.scores.tolist(), right.fallback)


def test_context_is_the_newest_part_of_the_history() -> None:
    assert same(MODEL.recommend(["i3"], context=["i7", "zz"]), MODEL.recommend(["i3", "i7", "zz"]))
    assert not same(MODEL.recommend(["i3"], context=["i7"]), MODEL.recommend(["i7"], context=["i3"]))
    weighted = MODEL.recommend(["i3", "i9"], weights=[2, 0.5], context=["i7"])
    assert same(weighted, MODEL.recommend(["i3", "i9", "i7"], weights=[2, 0.5, 1]))
    assert same(MODEL.recommend([], context=["i7"]), MODEL.recommend(["i7"]))


def test_context_of_a_user_follows_the_training_history() -> None:
    assert MODEL.histories is not None
    assert MODEL.users is not None
    row = MODEL.users.row("u4")
    first, last = MODEL.histories.offsets[row : row + 2]
    history = MODEL.items.ids(MODEL.histories.item_rows[first:last])
    assert MODEL.histories.weights is not None
    weights = MODEL.histories.weights[first:last].tolist()
    expected = MODEL.recommend([*history, "i7"], weights=[*weights, 1])
    assert same(MODEL.recommend(user="u4", context=["i7"]), expected)
    users: list[Any] = ["u4", "u5"]
    many = MODEL.recommend_many(users=users, context=[["i7"], []])
    assert same(many[0], expected)
    assert same(many[1], MODEL.recommend(user="u5"))


def test_a_user_with_a_point_becomes_a_midpoint_with_a_context() -> None:
    model = hand_made(model="symmetric")
    found = model.recommend(user="u4", context=["i7"], reasons=True)
    assert found.fallback_kinds == (FallbackKind.MIDPOINT,)
    assert found.reasons is not None
    assert any(found.reasons)
    own = model.recommend(user="u4", reasons=True)
    assert own.fallbacks == ()
    assert own.reasons == ((),) * 10
    with pytest.raises(InputError, match="no context, or save the model with histories"):
        replace(model, histories=None).recommend(user="u4", context=["i7"], exclude_seen=False)


def test_categories_are_an_allow_list() -> None:
    coats = [f"i{number}" for number in range(0, 30, 3)]
    found = MODEL.recommend(["i1"], k=30, categories=["coats"], item_table=TABLE)
    assert same(found, MODEL.recommend(["i1"], k=30, allow=coats))
    assert len(found) == 10
    both = MODEL.recommend(["i1"], k=30, categories=["coats"], item_table=TABLE, allow=["i3", "i4", "i0"])
    assert set(both.ids) == {"i0", "i3"}
    hats = MODEL.recommend(["i0"], k=30, categories=["hats", "wool"], item_table=TABLE.to_arrow())
    assert set(hats.ids) == {f"i{number}" for number in range(1, 30, 3)}
    assert hats.fallbacks == (Fallback(Cause.UNKNOWN_CATEGORIES, 1, 2),), "only the first category counts"
    none = MODEL.recommend(["i0"], categories=["rings"], item_table=TABLE)
    assert none.ids == [], "the model has no item of it"
    assert none.fallback_kinds == (FallbackKind.CATEGORIES, FallbackKind.NOTHING_ALLOWED)


def test_categories_of_ids_that_are_numbers() -> None:
    model = hand_made(interactions(strings=False))
    table = pl.DataFrame({"id": [str(id) for id in model.item_ids[:3]], "category": ["a", "b", "a"]})
    found = model.recommend([model.item_ids[5]], categories=["a"], item_table=table)
    assert set(found.ids) == {model.item_ids[0], model.item_ids[2]}


@pytest.mark.parametrize("diversity", [0.0, 0.4, 1.0])
def test_diversity_chooses_among_the_best(diversity: float) -> None:
    pool = MODEL.recommend(["i3", "i8"], k=20)
    rows = MODEL.items.rows(pool.ids)
    chosen = diversify(MODEL.ranker, rows, pool.scores, 4, diversity)
    found = MODEL.recommend(["i3", "i8"], k=4, diversity=diversity)
    assert found.ids == [pool.ids[place] for place in chosen]
    assert found.scores.tolist() == pool.scores[chosen].tolist()
    assert same(MODEL.recommend([], k=4, diversity=diversity), MODEL.recommend([], k=4)), "popular items stay"


def test_reasons_are_items_of_the_history() -> None:
    found = MODEL.recommend(["i3", "i8", "zz"], context=["i20"], reasons=True)
    assert found.reasons is not None
    assert len(found.reasons) == len(found) == 10
    given = {reason.item for because in found.reasons for reason in because}
    assert given
    assert given <= {"i3", "i8", "i20"}
    assert MODEL.recommend(["i3"], k=1, reasons=True).reasons == ((Reason("i3", 1.0, ReasonKind.NEAR),),)
    assert MODEL.recommend(["i3"], k=1).reasons is None
    assert MODEL.recommend([], k=2, reasons=True).reasons == ((), ())


def test_reasons_in_frames() -> None:
    batch = MODEL.recommend_many([["i3"], []], k=1, reasons=True)
    because = [{"item": "i3", "share": 1.0, "kind": "near", "bought": None}]
    assert batch.to_frame()["because"].to_list() == [because, []]
    assert batch[0].to_frame()["because"].to_list() == [because]
    assert "because" not in MODEL.recommend_many([["i3"]], k=1).to_frame().columns


def test_a_table_has_its_columns_where_no_item_is_left() -> None:
    found = MODEL.recommend(["i3"], allow=["i3"], reasons=True)
    assert len(found) == 0
    assert found.to_frame().columns == ["rank", "item", "score", "because"]
    batch = MODEL.recommend_many([["i3"], ["i4"]], allow=["i3"], reasons=True)
    assert batch[:1] == [found]
    assert MODEL.recommend_many([["i3"]], allow=["i3"], reasons=True).to_frame().columns[-1] == "because"
    assert batch.to_frame()["item"].to_list() == ["i3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"diversity": 1.5}, "diversity is 1.5: give a number from 0 to 1"),
        ({"diversity": float("nan")}, "diversity is nan: give a number from 0 to 1"),
        ({"categories": ["coats"]}, "a model without attributes knows nothing about its items: give item_table="),
        ({"categories": ["coats"], "item_table": {"i1": "coats"}}, "item_table is a dict: give a pandas"),
        ({"categories": ["coats"], "item_table": TABLE.drop("category")}, "the items have no column 'category'"),
        ({"categories": "coats", "item_table": TABLE}, "categories is 'coats', not a list"),
        ({"context": "i7"}, "context is 'i7', not a list"),
    ],
)
def test_options_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MODEL.recommend(["i1"], **arguments)


def test_a_context_for_each_query() -> None:
    with pytest.raises(InputError, match="there are 2 queries and the context of 1: give one for each"):
        MODEL.recommend_many([["i1"], ["i2"]], context=[["i3"]])


@pytest.mark.parametrize("model", [MODEL, hand_made(geometry="euclidean", score="inner")])
def test_similar_items_of_many(model: Model) -> None:
    many = model.similar_items_many(["i4", "i9", "i4"], k=3)
    for item, found in zip(["i4", "i9", "i4"], many, strict=True):
        assert len(found) == 3
        assert same(found, model.similar_items(item, 3))
    frame = many.to_frame()
    assert frame.columns == ["query", "rank", "item", "score"]
    assert frame["query"].to_list() == ["i4"] * 3 + ["i9"] * 3 + ["i4"] * 3
    assert model.similar_items_many([]) == []
    with pytest.raises(InputError, match="the item 'zz' is not known"):
        model.similar_items_many(["i4", "zz"])
    with pytest.raises(InputError, match="items is 'i4', not a list"):
        model.similar_items_many("i4")
