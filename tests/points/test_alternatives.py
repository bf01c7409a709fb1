"""Alternatives compared with a sort of all items, also under rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.item_columns import ItemColumns, TextColumn
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.points import alternatives as module
from lorentzrec.points.alternatives import Alternatives, find_alternatives
from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import LiveSet, Ranker
from lorentzrec.points.recommending import RowOptions
from lorentzrec.points.similar import SimilarItems
from tests.points.test_rules import compile_rules, plain_rules
from tests.points.test_similar import ITEMS, expected_scores, make_points
from tests.reference.alternatives import find_parents, list_alternatives
from tests.reference.rules import rule_list

PATHS = ["a", "a > b", "a > b > c", "a > d", "e", "ab"]


def text_column(values: Sequence[str | None]) -> TextColumn:
    names = sorted({value for value in values if value is not None})
    return TextColumn(np.array([UNKNOWN if one is None else names.index(one) for one in values], np.int32), names)


def tree_of(categories: Sequence[str | None], parents: Sequence[str | None] | None = None) -> CategoryTree:
    texts = {"category": text_column(categories)}
    if parents is not None:
        texts["department"] = text_column(parents)
    return CategoryTree(ItemColumns(len(categories), texts))


def test_parents_by_hand() -> None:
    tree = tree_of(["Women > Shoes > Boots", "Women > Shoes > Sandals", "Women > Shoes", "Women", "Men > Shoes", None])
    boots, women = tree.names.index("Women > Shoes > Boots"), tree.names.index("Women")
    assert tree.rows_of_category(boots).tolist() == [0]
    assert tree.rows_of_parent(boots).tolist() == [0, 1, 2]
    assert (tree.parents[women], tree.rows_of_parent(women).tolist()) == (None, [3])
    tree = tree_of(["tea", "tea", "tea", "pots", "jam"], ["drinks", "drinks", "food", "drinks", "food"])
    assert tree.parents == ["food", "drinks", "drinks"], "jam, pots and tea, which most often is a drink"
    assert tree.rows_of_parent(2).tolist() == [0, 1, 2, 3]


def cosines_of(points: Points, item: int) -> list[float]:
    """The score of similar items without counts is the cosine alone."""
    cosines: list[float] = expected_scores(replace(points, similarity=None), None, item).tolist()
    return cosines


cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 30),
        "item": st.integers(0, ITEMS - 1),
        "k": st.integers(1, 25),
        "with_parents": st.booleans(),
        "counted": st.booleans(),
        "first": st.sampled_from([1, 4, 500]),
    }
)


@settings(deadline=None, max_examples=60)
@given(case=cases, data=st.data())
def test_alternatives_are_a_sort_of_all_items(case: dict[str, int], data: st.DataObject) -> None:
    points = make_points(case["seed"], separate=False, counted=bool(case["counted"]))
    random = np.random.default_rng(case["seed"])
    categories = [None if number == len(PATHS) else PATHS[number] for number in random.integers(0, 7, ITEMS)]
    parents = [[None, "x", "y"][number] for number in random.integers(0, 3, ITEMS)] if case["with_parents"] else None
    live = random.random(ITEMS) < 0.8
    excluded = data.draw(st.sets(st.integers(0, ITEMS - 1), max_size=4))
    allowed = data.draw(st.none() | st.sets(st.integers(0, ITEMS - 1)))
    eligible = [bool(live[row]) and row not in excluded and (allowed is None or row in allowed) for row in range(ITEMS)]
    ranker = Ranker(points, live=LiveSet(points, np.flatnonzero(live)))
    found_by = Alternatives(SimilarItems(ranker), tree_of(categories, parents))
    options = RowOptions(
        k=case["k"],
        excluded=np.array(sorted(excluded), np.int64),
        allowed=None if allowed is None else np.array(sorted(allowed), np.int64),
        reasons=True,
    )
    with patch.object(module, "FIRST_SCORED", case["first"]):
        (found,) = find_alternatives(found_by, [case["item"]], options)
    similarity = expected_scores(points, None, case["item"]).tolist()
    expected, widened = list_alternatives(
        case["item"],
        similarity,
        cosines_of(points, case["item"]),
        points.item_counts.tolist(),
        categories,
        parents,
        eligible,
        case["k"],
    )
    assert [score for _, score in expected] == pytest.approx(found.scores.tolist(), abs=1e-5)
    score_of = dict(expected)
    assert set(found.rows.tolist()) == set(score_of) or len(set(np.round(found.scores, 4))) < len(found.scores)
    kinds = [fallback.kind for fallback in found.fallbacks]
    assert (FallbackKind.WIDENED in kinds) == widened
    assert (FallbackKind.NO_CATEGORY in kinds) == (categories[case["item"]] is None)
    assert found.reasons is not None
    assert len(found.reasons) == len(found.rows)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 30), item=st.integers(0, ITEMS - 1), k=st.sampled_from([1, 3, 8]), data=st.data())
def test_rules_act_on_the_category_and_then_on_its_parent(seed: int, item: int, k: int, data: st.DataObject) -> None:
    points = make_points(seed, separate=False)
    random = np.random.default_rng(seed)
    categories = [PATHS[number] for number in random.integers(0, len(PATHS), ITEMS)]
    ranking = Alternatives(SimilarItems(Ranker(points)), tree_of(categories))
    rules = data.draw(st.lists(plain_rules(ITEMS), min_size=1, max_size=4))
    options = RowOptions(k=k, rules=compile_rules(rules, ITEMS))
    (found,) = find_alternatives(ranking, [item], options)
    # The slow way ranks all items of the category, and if the rules leave too few, all of the parent.
    similarity = expected_scores(points, None, item).tolist()
    counts, everything = points.item_counts.tolist(), [True] * ITEMS
    cosines = cosines_of(points, item)
    inside = [category == categories[item] for category in categories]
    narrow, _ = list_alternatives(item, similarity, cosines, counts, categories, None, inside, ITEMS)
    expected, acted = rule_list(narrow, rules, k)
    if len(expected) < k and find_parents(categories, None)[categories[item]] is not None:
        wide, _ = list_alternatives(item, similarity, cosines, counts, categories, None, everything, ITEMS)
        wider = rule_list(wide, rules, k)
        expected, acted = wider if len(wider[0]) > len(expected) else (expected, acted)
    assert found.rows.tolist() == [row for row, _ in expected]
    assert found.scores == pytest.approx([score for _, score in expected], rel=1e-4, abs=1e-5)
    assert set(found.rules) == acted
