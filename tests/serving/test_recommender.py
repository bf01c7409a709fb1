"""The recommender against the model itself, and against filters written as a list."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.points.fallbacks import Cause, Fallback
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.query import OutfitOptions, RankedItems, RankingOptions
from lorentzrec.serving.worker.recommender import Recommender, UnknownItem
from tests.serving.small_shop import CATEGORIES, ITEMS, shop_model, shop_version

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
    return shop_version(tmp_path_factory.mktemp("version") / "version")


@pytest.fixture(scope="module")
def recommender(version: Version) -> Recommender:
    return Recommender(version)


def ids(ranked: RankedItems) -> list[str]:
    return [item.id for item in ranked.items]


def category(item: str) -> str | None:
    number = int(item[1:])
    return None if number % 4 == 3 else CATEGORIES[number % 4]


def test_recommendations_are_those_of_the_model(tmp_path: Path, named: str) -> None:
    model = shop_model(**MODELS[named])
    recommender = Recommender(shop_version(tmp_path / "version", model))
    options = RankingOptions(7, exclude=["i5", "what"])
    for history in (HISTORY, ("i3",), ("i3", "gone", "i3"), ("gone",), ()):
        for exclude_seen in (True, False):
            expected = model.recommend(history, k=7, exclude=["i5", "what"], exclude_seen=exclude_seen)
            ranked = recommender.recommend(history, options, exclude_seen=exclude_seen)
            assert ids(ranked) == expected.ids
            assert [item.score for item in ranked.items] == expected.scores.tolist()
            assert ranked.fallbacks == tuple(replace(fallback, id_type=None) for fallback in expected.fallbacks)
    nearest, similar = model.similar_items("i9", 5), recommender.similar("i9", RankingOptions(5))
    assert ids(similar) == nearest.ids
    assert [item.score for item in similar.items] == nearest.scores.tolist()


@given(
    history=st.lists(st.sampled_from([*IDS, "gone"]), max_size=6),
    live=st.none() | st.lists(st.sampled_from([*IDS, "gone"])),
    removed=st.lists(st.sampled_from([*IDS, "gone"]), max_size=4) | st.lists(st.sampled_from(IDS)),
    allow=st.none() | st.lists(st.sampled_from([*IDS, "gone"])),
    exclude=st.lists(st.sampled_from(IDS), max_size=5),
    categories=st.lists(st.sampled_from([*CATEGORIES, "ghosts"]), max_size=2),
    k=st.integers(1, 50),
)
def test_filters_are_those_of_a_list(
    version: Version,
    history: list[str],
    live: list[str] | None,
    removed: list[str],
    allow: list[str] | None,
    exclude: list[str],
    categories: list[str],
    k: int,
) -> None:
    """Everything ranked without a filter, then filtered one item at a time."""
    everything = Recommender(version).recommend(history, RankingOptions(ITEMS), exclude_seen=False)
    expected = [
        item
        for item in everything.items
        if (item.id not in removed if live is None else item.id in live)
        and (allow is None or item.id in allow)
        and item.id not in exclude
        and item.id not in history
        and (not categories or category(item.id) in categories)
    ][:k]
    options = RankingOptions(k, exclude, allow, categories)
    assert Recommender(version, live, removed).recommend(history, options).items == tuple(expected)


def test_unknown_ids_and_categories_are_counted(recommender: Recommender) -> None:
    options = RankingOptions(allow=["i2", "z"], categories=["hats", "ghosts"])
    assert recommender.recommend(["i1", "x", "y"], options).fallbacks == (
        Fallback(Cause.UNKNOWN_HISTORY_ITEMS, 2, 3),
        Fallback(Cause.UNKNOWN_ALLOWED_ITEMS, 1, 2),
        Fallback(Cause.UNKNOWN_CATEGORIES, 1, 2),
        Fallback(Cause.NOTHING_ALLOWED),  # i2 is no hat
    )


@pytest.mark.parametrize("history", [[], ["i1"]])
def test_an_empty_result_has_its_reason(version: Version, history: list[str]) -> None:
    def reason(options: RankingOptions, live: list[str] | None = None) -> Cause:
        recommender = Recommender(version, live)
        found, similar = recommender.recommend(history, options), recommender.similar("i1", options)
        assert (found.items, similar.items) == ((), ())
        assert found.fallbacks[-1] == similar.fallbacks[-1]
        return found.fallbacks[-1].cause

    everything = [f"i{number}" for number in range(ITEMS)]
    assert reason(RankingOptions(), []) is Cause.NOTHING_LIVE
    assert reason(RankingOptions(categories=["hats"]), ["nosuch"]) is Cause.NOTHING_LIVE
    assert reason(RankingOptions(allow=["i2"]), ["i3"]) is Cause.NOTHING_ALLOWED
    assert reason(RankingOptions(categories=["ghosts"])) is Cause.NOTHING_ALLOWED
    assert reason(RankingOptions(exclude=everything)) is Cause.ALL_EXCLUDED
    assert reason(RankingOptions(exclude=["i2"], allow=["i2"])) is Cause.ALL_EXCLUDED


def test_items_have_their_details(recommender: Recommender) -> None:
    (first,) = recommender.recommend((), RankingOptions(allow=["i1"])).items
    assert (first.id, first.row, first.title, first.category, first.because) == ("i1", 1, "Piece number 1", "hats", ())
    assert first.score == 2 * ITEMS - 1


@pytest.mark.parametrize("history", [(), ("gone",)])
def test_popular_items_are_ordered_by_popularity_for_any_diversity(
    recommender: Recommender, history: tuple[str, ...]
) -> None:
    ranked = recommender.recommend(history, RankingOptions(6, diversity=1.0))
    assert ids(ranked) == [f"i{number}" for number in range(6)]


def test_unknown_live_items_are_ignored(version: Version) -> None:
    assert Recommender(version, ["i1", "x", "i2", "i1"]).live_count == 2
    assert Recommender(version, None, ["i1", "x", "i2", "i1"]).live_count == ITEMS - 2
    assert Recommender(version).live_count == Recommender(version, None, ["x"]).live_count == ITEMS
    assert Recommender(version, []).recommend(HISTORY).items == ()


def test_items_similar_to_one_that_is_not_live(version: Version) -> None:
    recommender = Recommender(version, ["i1", "i2", "i4"])
    everything = ids(Recommender(version).similar("i9", RankingOptions(ITEMS)))
    assert ids(recommender.similar("i9")) == [item for item in everything if item in ("i1", "i2", "i4")]
    assert ids(recommender.similar("i9", RankingOptions(categories=["hats"], exclude=["i4"]))) == ["i1"]
    assert "i9" not in everything
    with pytest.raises(UnknownItem, match=r"the item 'x' is not in version .*: check the id"):
        recommender.similar("x")


def test_an_outfit_has_other_categories_also_if_it_was_not_learned(recommender: Recommender) -> None:
    basket = ("i0", "i5")  # a coat and a hat
    outfit = recommender.complete(basket, OutfitOptions(40, per_category=40))
    everything = ids(recommender.recommend(basket, RankingOptions(40)))
    assert ids(outfit) == [item for item in everything if category(item) == "shoes"]
    assert outfit.fallbacks == (Fallback(Cause.NO_COMPLEMENTS),)
    assert [(slot.category, len(slot.items)) for slot in outfit.slots] == [("shoes", len(outfit.items))]
    unknown = recommender.complete(["i3"])
    assert unknown.fallbacks == (Fallback(Cause.NO_COMPLEMENTS), Fallback(Cause.BASKET_WITHOUT_CATEGORIES))
    full = recommender.complete(["i0", "i1", "i2"])
    assert len({category(item) for item in ids(full)}) == len(full.items) == 3
    assert full.fallbacks == (Fallback(Cause.NO_COMPLEMENTS), Fallback(Cause.BASKET_OF_ALL_CATEGORIES))
    assert recommender.complete(()).fallbacks == (Fallback(Cause.EMPTY_BASKET),)


def test_reasons_are_items_of_the_history_and_add_up(recommender: Recommender) -> None:
    history = ("i3", "i17", "gone", "i8", "i30", "i3")
    ranked = recommender.recommend(history, RankingOptions(20, reasons=True))
    assert any(len(item.because) > 1 for item in ranked.items)
    for item in ranked.items:
        shares = [reason.share for reason in item.because]
        assert shares == sorted(shares, reverse=True)
        assert 0 <= sum(shares) <= 1 + 1e-9
        assert {reason.item for reason in item.because} <= {"i3", "i17", "i8", "i30"}
        assert all(reason.title == f"Piece number {reason.item[1:]}" for reason in item.because)
    assert all(item.because == () for item in recommender.recommend((), RankingOptions(reasons=True)).items)


def test_reasons_computed_in_parts_are_the_same(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    options = RankingOptions(20, reasons=True)
    at_once = recommender.recommend(HISTORY, options)
    monkeypatch.setattr("lorentzrec.points.reasons.SHARES_AT_ONCE", 7 * len(HISTORY))
    in_parts = recommender.recommend(HISTORY, options)
    for one, other in zip(at_once.items, in_parts.items, strict=True):
        assert [reason.item for reason in one.because] == [reason.item for reason in other.because]
        # A product of matrices may round its last digit by its size.
        assert [reason.share for reason in one.because] == pytest.approx([reason.share for reason in other.because])


def test_one_item_is_the_whole_reason(recommender: Recommender) -> None:
    (nearest, *_) = recommender.recommend(["i20"], RankingOptions(1, reasons=True)).items
    assert [(reason.item, reason.share) for reason in nearest.because] == [("i20", 1.0)]


def test_diversity_reaches_beyond_the_best(recommender: Recommender) -> None:
    best = ids(recommender.recommend(HISTORY, RankingOptions(5)))
    varied = ids(recommender.recommend(HISTORY, RankingOptions(5, diversity=0.8)))
    assert varied[0] == best[0]
    assert set(varied) != set(best)
    assert set(varied) <= set(ids(recommender.recommend(HISTORY, RankingOptions(25))))


@pytest.mark.parametrize("options", [{"k": 0}, {"diversity": -0.1}, {"diversity": 1.1}, {"diversity": float("nan")}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `(int|float)` [<>]= .* - at `\$\.(k|diversity)`"):
        msgspec.convert(options, RankingOptions)


def test_many_threads_use_one_recommender(version: Version) -> None:
    recommender = Recommender(version, IDS[::2])
    options = RankingOptions(10, categories=["coats"], reasons=True, diversity=0.3)
    expected = recommender.recommend(HISTORY, options)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: recommender.recommend(HISTORY, options) == expected, range(100)))


def test_rows_are_those_of_the_version(version: Version) -> None:
    ranked = Recommender(version, IDS[5::3]).recommend(HISTORY)
    assert version.items.rows(ids(ranked)).tolist() == [item.row for item in ranked.items]
    assert np.all(np.array([item.row for item in ranked.items]) % 3 == 2)
