"""Questions and answers against the model itself and against filters written out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.errors import InputError
from lorentzrec.serving.recommending.recommender import Answer, Answerer, Question, UnknownItem
from lorentzrec.serving.versions.version import Version
from serving.small_shop import CATEGORIES, ITEMS, shop_model, shop_version

IDS = [f"i{number}" for number in range(ITEMS)]
HISTORY = ("i3", "i17", "i8")
MODELS: dict[str, dict[str, Any]] = {
    "distance": {},
    "inner": {"score": "inner"},
    "separate": {"targets": "separate", "score": "inner"},
    "flat": {"geometry": "euclidean"},
    "flat inner": {"geometry": "euclidean", "score": "inner"},
    "symmetric": {"model": "symmetric"},
}


@pytest.fixture(scope="module", params=MODELS)
def named(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return shop_version(tmp_path_factory.mktemp("version") / "version", twin=shop_model(geometry="euclidean"))


@pytest.fixture(scope="module")
def answerer(version: Version) -> Answerer:
    return Answerer(version)


def ids(answer: Answer) -> list[str]:
    return [item.id for item in answer.items]


def category(item: str) -> str | None:
    number = int(item[1:])
    return None if number % 4 == 3 else CATEGORIES[number % 4]


def test_the_same_as_the_model(tmp_path: Path, named: str) -> None:
    model = shop_model(**MODELS[named])
    answerer = Answerer(shop_version(tmp_path / "version", model))
    for history in (HISTORY, ("i3",), ("i3", "gone", "i3"), ("gone",), ()):
        for exclude_seen in (True, False):
            expected = model.recommend(history, k=7, exclude=["i5", "what"], exclude_history=exclude_seen)
            answer = answerer.recommend(Question(history, 7, exclude=("i5", "what"), exclude_seen=exclude_seen))
            assert ids(answer) == expected.ids
            assert [item.score for item in answer.items] == expected.scores.tolist()
            hint = " (ids here are strings)"
            assert answer.fallback == (expected.fallback.replace(hint, "") if expected.fallback else None)
    nearest = model.similar_items("i9", 5)
    assert ids(answerer.similar("i9", 5)) == nearest.ids
    assert [item.score for item in answerer.similar("i9", 5).items] == nearest.scores.tolist()


@given(
    history=st.lists(st.sampled_from([*IDS, "gone"]), max_size=6),
    live=st.none() | st.lists(st.sampled_from([*IDS, "gone"])),
    allow=st.none() | st.lists(st.sampled_from([*IDS, "gone"])),
    exclude=st.lists(st.sampled_from(IDS), max_size=5),
    categories=st.lists(st.sampled_from([*CATEGORIES, "ghosts"]), max_size=2),
    k=st.integers(1, 50),
    twin=st.booleans(),
)
def test_filters_are_those_of_a_list(
    version: Version,
    history: list[str],
    live: list[str] | None,
    allow: list[str] | None,
    exclude: list[str],
    categories: list[str],
    k: int,
    twin: bool,
) -> None:
    """Everything ranked without a filter, then filtered one item at a time."""
    everything = Answerer(version).recommend(Question(tuple(history), ITEMS, exclude_seen=False, twin=twin))
    expected = [
        item
        for item in everything.items
        if (live is None or item.id in live)
        and (allow is None or item.id in allow)
        and item.id not in exclude
        and item.id not in history
        and (not categories or category(item.id) in categories)
    ][:k]
    answer = Answerer(version, live).recommend(
        Question(
            tuple(history),
            k,
            exclude=tuple(exclude),
            allow=None if allow is None else tuple(allow),
            categories=tuple(categories),
            twin=twin,
        )
    )
    assert answer.items == tuple(expected)


def test_what_is_said_of_the_unknown(answerer: Answerer) -> None:
    question = Question(("i1", "x", "y"), allow=("i2", "z"), categories=("hats", "ghosts"))
    assert answerer.recommend(question).fallback == (
        "partial: 2 of 3 history items are unknown; allowed: 1 of 2 allowed items is unknown; "
        "categories: 1 of 2 categories is unknown"
    )


def test_items_carry_what_is_known_of_them(answerer: Answerer) -> None:
    (first,) = answerer.recommend(Question(allow=("i1",))).items
    assert (first.id, first.row, first.title, first.category, first.because) == ("i1", 1, "Piece number 1", "hats", ())
    assert first.score == 2 * ITEMS - 1


@pytest.mark.parametrize("history", [(), ("gone",)])
def test_the_popular_items_are_the_most_popular_whatever_the_diversity(
    answerer: Answerer, history: tuple[str, ...]
) -> None:
    assert ids(answerer.recommend(Question(history, 6, diversity=1.0))) == [f"i{number}" for number in range(6)]


def test_live_items_that_are_unknown_are_counted(version: Version) -> None:
    answerer = Answerer(version, ["i1", "x", "i2", "i1"])
    assert (answerer.live_count, answerer.unknown_live_items) == (2, 1)
    assert Answerer(version).live_count == ITEMS
    assert Answerer(version, []).recommend(Question(HISTORY)).items == ()


def test_similar_to_an_item_that_is_not_live(version: Version) -> None:
    answerer = Answerer(version, ["i1", "i2", "i4"])
    everything = ids(Answerer(version).similar("i9", ITEMS))
    assert ids(answerer.similar("i9")) == [item for item in everything if item in ("i1", "i2", "i4")]
    assert ids(answerer.similar("i9", categories=["hats"], exclude=["i4"])) == ["i1"]
    assert "i9" not in everything
    with pytest.raises(UnknownItem, match=r"the item 'x' is not in version .*: check the id"):
        answerer.similar("x")


def test_a_basket_is_completed_from_other_categories(answerer: Answerer) -> None:
    answer = answerer.basket(Question(("i0", "i5"), 40))  # a coat and a hat
    assert ids(answer) == [
        item for item in ids(answerer.recommend(Question(("i0", "i5"), 40))) if category(item) not in ("coats", "hats")
    ]
    assert {category(item) for item in ids(answer)} == {"shoes", None}
    assert answer.fallback is None


def test_baskets_without_a_category_to_leave_out(answerer: Answerer) -> None:
    unknown = answerer.basket(Question(("i3",), 5))
    assert ids(unknown) == ids(answerer.recommend(Question(("i3",), 5)))
    assert unknown.fallback == "basket: no category of its items is known, so none is left out"
    full = answerer.basket(Question(("i0", "i1", "i2"), 5, categories=CATEGORIES))
    assert ids(full) == ids(answerer.recommend(Question(("i0", "i1", "i2"), 5, categories=CATEGORIES)))
    assert full.fallback == "basket: nothing is left outside its categories, so none is left out"
    assert answerer.basket(Question(())).fallback == "popular: the history is empty"


def test_reasons_are_of_the_history_and_add_up(answerer: Answerer) -> None:
    history = ("i3", "i17", "gone", "i8", "i30", "i3")
    answer = answerer.recommend(Question(history, 20, reasons=True))
    assert any(len(item.because) > 1 for item in answer.items)
    for item in answer.items:
        shares = [reason.share for reason in item.because]
        assert shares == sorted(shares, reverse=True)
        assert 0 <= sum(shares) <= 1 + 1e-9
        assert {reason.item for reason in item.because} <= {"i3", "i17", "i8", "i30"}
        assert all(reason.title == f"Piece number {reason.item[1:]}" for reason in item.because)
    assert all(item.because == () for item in answerer.recommend(Question((), reasons=True)).items)


def test_reasons_found_in_parts_are_the_same(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(HISTORY, 20, reasons=True)
    at_once = answerer.recommend(question)
    monkeypatch.setattr("lorentzrec.serving.recommending.recommender.SHARES_AT_ONCE", 7 * len(HISTORY))
    in_parts = answerer.recommend(question)
    for one, other in zip(at_once.items, in_parts.items, strict=True):
        assert [reason.item for reason in one.because] == [reason.item for reason in other.because]
        # A product of matrices may round its last digit by its size.
        assert [reason.share for reason in one.because] == pytest.approx([reason.share for reason in other.because])


def test_one_item_is_the_whole_reason(answerer: Answerer) -> None:
    (nearest, *_) = answerer.recommend(Question(("i20",), 1, reasons=True)).items
    assert [(reason.item, reason.share) for reason in nearest.because] == [("i20", 1.0)]


def test_diversity_reaches_beyond_the_best(answerer: Answerer) -> None:
    best = ids(answerer.recommend(Question(HISTORY, 5)))
    varied = ids(answerer.recommend(Question(HISTORY, 5, diversity=0.8)))
    assert varied[0] == best[0]
    assert set(varied) != set(best)
    assert set(varied) <= set(ids(answerer.recommend(Question(HISTORY, 25))))


def test_questions_that_cannot_be_answered(version: Version, tmp_path: Path) -> None:
    answerer = Answerer(version)
    with pytest.raises(InputError, match="k is 0: ask for 1 item or more"):
        answerer.recommend(Question(k=0))
    for diversity in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match=r"diversity is .*: give a number from 0"):
            answerer.similar("i1", diversity=diversity)
    alone = Answerer(shop_version(tmp_path / "version"))
    with pytest.raises(InputError, match="has no twin: ask without it, or publish with --twin"):
        alone.recommend(Question(twin=True))


def test_many_threads_ask_at_once(version: Version) -> None:
    answerer = Answerer(version, IDS[::2])
    question = Question(HISTORY, 10, categories=("coats",), reasons=True, diversity=0.3)
    expected = answerer.recommend(question)
    with ThreadPoolExecutor(8) as pool:
        assert all(answer == expected for answer in pool.map(answerer.recommend, [question] * 100))


def test_rows_are_those_of_the_version(version: Version) -> None:
    answer = Answerer(version, IDS[5::3]).recommend(Question(HISTORY, 10))
    assert version.items.rows(ids(answer)).tolist() == [item.row for item in answer.items]
    assert np.all(np.array([item.row for item in answer.items]) % 3 == 2)
