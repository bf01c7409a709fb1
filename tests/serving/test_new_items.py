"""New items in a recommender: where they are placed, how they are ranked and filtered, and exploration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec.geometry import euclidean, hyperboloid
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.points.memory import build_memory
from lorentzrec.points.placement import find_surroundings, midpoints, move_to_distance
from lorentzrec.points.points import Points
from lorentzrec.points.recommending import explore
from lorentzrec.serving.stores.histories import StoredEvent
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.new_items import NewItems, can_be_placed, place_in_version, show_item
from lorentzrec.serving.worker.query import OutfitOptions, RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.serving.small_shop import ITEMS, shop_model, shop_version

HISTORIES = {
    "ann": [StoredEvent("i3", 1, 2.0), StoredEvent("i7", 2), StoredEvent("boot", 3, 4.0), StoredEvent("i9", 4)],
    "bob": [StoredEvent("boot", 1), StoredEvent("i5", 2)],
    "cyd": [StoredEvent("boot", 1), StoredEvent("hat", 2)],
}


def own_points(version: Version, *items: NewItem) -> list[Points | None]:
    return place_in_version(version, find_surroundings(version.points), items, HISTORIES)


def placed(version: Version, *items: NewItem) -> NewItems:
    points = own_points(version, *items)
    order = sorted(range(len(items)), key=lambda index: points[index] is None)
    found = [one for one in points if one is not None]
    return NewItems([show_item(items[index]) for index in order], Points.concatenate(found) if found else None)


def recommender_with(
    version: Version, *items: NewItem, removed: Sequence[str] = (), live: Sequence[str] | None = None
) -> Recommender:
    return Recommender(version, live, removed).with_new_items(placed(version, *items))


def like(id: str, *others: str, category: str | None = None) -> NewItem:
    return NewItem(id, Origin.PUT, f"The {id}", category, like=others)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
def test_a_new_item_is_placed_by_the_queries_of_its_customers(tmp_path: Path, geometry: str) -> None:
    version = shop_version(tmp_path / "v", shop_model(geometry=geometry, targets="separate"))
    ranker = version.points
    # Ann's query before the boot, with recency 1/2; all that Bob did, for nothing came before; Cyd knows no other item.
    queries = np.stack([ranker.query(np.array([3, 7]), np.array([2.0, 1.0])), ranker.query(np.array([5]))])
    space, surroundings = version.points.space, find_surroundings(version.points)
    middle, _ = midpoints(queries, np.zeros(2, np.int64), 1, space, np.array([4.0, 1.0]))
    expected = move_to_distance(middle, surroundings.centre, surroundings.distance, space)
    (point,) = own_points(version, NewItem("boot", customers=("ann", "bob", "cyd")))
    assert point is not None
    assert point.item_points[0] == pytest.approx(expected[0], rel=1e-4)
    # What followed the boot: i9 for Ann and i5 for Bob.
    midpoint = einstein_midpoint if geometry == "hyperboloid" else euclidean.midpoint
    assert point.history_points[0] == pytest.approx(midpoint(ranker.precise_items(np.array([9, 5]))), rel=1e-5)
    assert own_points(version, NewItem("boot", customers=("cyd",))) == [None]
    # An event that is not in the history any more, and a customer whose history cannot be read.
    (older,) = own_points(version, NewItem("old", customers=("ann", "zoe")))
    assert older is not None
    query = ranker.query(np.array([3, 7, 9]), np.array([2.0, 1.0, 1.0])).astype(np.float32)
    expected = move_to_distance(query[None], surroundings.centre, surroundings.distance, space)
    assert older.item_points[0] == pytest.approx(expected[0], rel=1e-4)


def test_similar_items_and_categories_place_a_new_item(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v", shop_model(targets="separate"))
    ranker, (centre, usual, _) = version.points, find_surroundings(version.points)
    items = [
        like("copy", "i1"),
        like("boot", "i1", "i2", "unknown"),
        like("cap", category="hats"),
        NewItem("both", Origin.PUT, like=("i1",), customers=("bob",)),
        like("nothing", "unknown", category="sofas"),
    ]
    copy, boot, cap, both, nothing = own_points(version, *items)
    assert nothing is None
    assert copy is not None
    assert copy.item_points[0] == pytest.approx(ranker.item_points[1], rel=1e-4)
    assert copy.history_points[0] == pytest.approx(ranker.history_points[1], rel=1e-4)
    rows, hats = np.array([1, 2]), np.flatnonzero(version.category_codes == version.categories.index("hats"))
    (by_bob,) = own_points(version, NewItem("both", customers=("bob",)))
    assert by_bob is not None
    with_bob = np.stack([ranker.precise_items(np.array([1]))[0], ranker.space.precise(by_bob.item_points[0])])
    far = [float(hyperboloid.distance(centre, point)) for point in ranker.precise_items(rows)]
    for found, parts, distance in (
        (boot, ranker.precise_items(rows), np.mean(far)),
        (cap, ranker.precise_items(hats), usual),
        (both, with_bob, (far[0] + usual) / 2),
    ):
        assert found is not None
        # On the ray from the centre through the midpoint: the distances between the three add up, or are a difference.
        point, middle = ranker.space.precise(found.item_points[0]), einstein_midpoint(parts)
        assert float(hyperboloid.distance(centre, point)) == pytest.approx(distance, rel=1e-4)
        apart = abs(distance - float(hyperboloid.distance(centre, middle)))
        assert float(hyperboloid.distance(point, middle)) == pytest.approx(apart, abs=1e-3)
    assert boot is not None
    assert boot.history_points[0] == pytest.approx(einstein_midpoint(ranker.precise_histories(rows)), rel=1e-5)


def test_an_item_without_events_is_placed_exactly_if_it_can_be(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v")
    items = [
        like("similar", "i1", "unknown"),
        like("category", category="hats"),
        like("either", "unknown", category="hats"),
        like("neither", "unknown", category="sofas"),
        like("title"),
        NewItem("events", customers=("cyd",)),
    ]
    can = [can_be_placed(version, item) for item in items]
    assert can == [True, True, True, False, False, False]
    assert can == [point is not None for point in own_points(version, *items)]


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("score", ["distance", "inner"])
def test_new_items_are_ranked_as_if_the_model_contained_them(tmp_path: Path, geometry: str, score: str) -> None:
    """Copies of items of the model, as new items, rank right after these, and their histories are the same."""
    model = shop_model(geometry=geometry, score=score)
    recommender = recommender_with(shop_version(tmp_path / "v", model), like("a", "i4"), like("b", "i8"))
    ranked = recommender.recommend(["i3", "i7"], RankingOptions(k=ITEMS)).items
    expected = model.recommend(["i3", "i7"], k=ITEMS)
    assert len(ranked) == len(expected) + 2
    assert [item.id for item in ranked if not item.new] == expected.ids
    scores = {item.id: item.score for item in ranked}
    assert (scores["a"], scores["b"]) == pytest.approx((scores["i4"], scores["i8"]), rel=1e-5)
    assert [item.score for item in ranked] == sorted(scores.values(), reverse=True)
    (new, _) = [item for item in ranked if item.new]
    assert (new.row, new.title) == (-1, f"The {new.id}")
    by_copy = recommender.recommend(["i3", "a"], RankingOptions(k=5, exclude=["i4"]))
    assert [item.id for item in by_copy.items if not item.new] == model.recommend(["i3", "i4"], k=5).ids[
        : sum(not item.new for item in by_copy.items)
    ]
    assert by_copy.fallbacks == ()
    assert "a" not in [item.id for item in by_copy.items]
    similar = recommender.similar("a", RankingOptions(k=3)).items
    assert similar[0].id == "i4"
    assert "a" in [item.id for item in recommender.similar("i4", RankingOptions(k=1)).items]


def test_filters_hold_for_new_items(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v")
    items = [like("boot", "i3", category="shoes"), like("sofa", "i3", category="sofas"), like("plain", "i3")]

    def best(**options: object) -> set[str]:
        found = recommender_with(version, *items).recommend(["i3"], RankingOptions(k=100, **options))  # type: ignore[arg-type]
        assert not found.fallbacks
        return {item.id for item in found.items if item.new}

    assert best() == {"boot", "sofa", "plain"}
    assert best(exclude=["boot"]) == {"sofa", "plain"}
    assert best(allow=["boot", "i5"]) == {"boot"}
    assert best(categories=["shoes"]) == {"boot"}
    assert best(categories=["sofas", "hats"]) == {"sofa"}
    assert best(allow=["boot", "sofa", "i5"], categories=["sofas"]) == {"sofa"}
    outfit = recommender_with(version, *items).complete(["sofa", "i1"], OutfitOptions(k=100, per_category=100))
    assert {item.id for item in outfit.items if item.new} == {"boot"}, (
        "one has the category of the basket, one has none"
    )
    assert "hats" not in {item.category for item in outfit.items}


def test_live_items_hold_for_new_items(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v")
    items = [like("boot", "i3"), like("hat", "i4")]

    def new_ones(recommender: Recommender) -> set[str]:
        return {item.id for item in recommender.recommend(["i3"], RankingOptions(k=100)).items if item.new}

    assert new_ones(recommender_with(version, *items, removed=["boot", "i3"])) == {"hat"}
    assert new_ones(recommender_with(version, *items, live=["i3", "i4", "boot"])) == {"boot"}
    removed = recommender_with(version, *items, removed=["boot", "hat"])
    assert new_ones(removed) == set()
    # Histories may contain them, and the same recommender gets other new items.
    assert not removed.recommend(["boot"]).fallbacks
    assert new_ones(removed.with_new_items(placed(version, like("coat", "i5")))) == {"coat"}
    assert new_ones(removed.with_new_items(NewItems([]))) == set()


def test_options_of_a_query_with_new_items(tmp_path: Path) -> None:
    model = shop_model()
    assert model.histories is not None
    memory = build_memory(model.histories, 5, ordered=True).with_weight(0.5)
    model = shop_model(memory="none").with_points(memory=memory)
    version = shop_version(tmp_path / "v", model)
    recommender = recommender_with(version, like("boot", "i3", "i4"), like("hat", "i9"))
    options = RankingOptions(k=ITEMS + 2, reasons=True)
    ranked = recommender.recommend(["i3", "hat", "i7"], options).items
    by_id = {item.id: item for item in ranked}
    assert {reason.item for reason in by_id["boot"].because} <= {"i3", "hat", "i7"}
    assert any(reason.title == "The hat" for item in ranked for reason in item.because)
    # Without new items in the history or in the list, the memory counts as before.
    plain = Recommender(version).recommend(["i3", "i7"], options).items
    extended = [item for item in recommender.recommend(["i3", "i7"], options).items if not item.new]
    assert extended == [*plain]
    diverse = recommender.recommend(["i3"], RankingOptions(k=8, diversity=0.9)).items
    assert len({item.id for item in diverse}) == 8


def test_an_unplaced_item_has_details_only(tmp_path: Path) -> None:
    recommender = recommender_with(shop_version(tmp_path / "v"), like("odd"), like("boot", "i3"))
    assert recommender.recommend(["odd"]).fallbacks[0].kind == "popular"
    found = recommender.find_items(["odd", "i0", "none", "boot"])
    assert [item and item.title for item in found] == ["The odd", "Piece number 0", None, "The boot"]
    assert [item.id for item in recommender.new_items.search("the ODD", 5)] == ["odd"]
    assert [item.id for item in recommender.new_items.search("th", 1)] == ["boot"]
    assert recommender.new_items.search(" ", 5) == []


def test_a_search_finds_the_same_words_in_new_items_as_in_those_of_the_version(tmp_path: Path) -> None:
    titles = ["Winter-boot, red", "Café crème", "STRASSE straße", "Größe 42", "re(d_boots", "boot winter", "x"]
    table = pl.DataFrame({"id": [f"i{number}" for number in range(len(titles))], "title": titles})
    recommender = recommender_with(
        shop_version(tmp_path / "v", items=table),
        *(NewItem(f"n{number}", Origin.PUT, title) for number, title in enumerate(titles)),
    )
    for query in ("boot", "winter-bo", "win-boot", "CREME", "cafe\u0301", "strasse", "groß 4", "re d", "red", "-", '"'):
        found = recommender.search(query, 100)
        both = [[titles.index(str(item.title)) for item in found if item.new is new] for new in (False, True)]
        assert sorted(both[0]) == sorted(both[1]), query
    assert {item.id for item in recommender.search("boot", 100)} == {"i0", "i4", "i5", "n0", "n4", "n5"}


def test_a_search_begins_with_the_very_id(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v")
    recommender = recommender_with(version, like("a piece"), like("piece", "i3"), like("number", "i4"), like("***"))

    def best(words: str, limit: int) -> list[str]:
        return [item.id for item in recommender.search(words, limit)]

    assert best("piece", 2) == ["piece", "i0"]
    assert best(" number ", 1) == ["number"]
    assert best("i7", 1) == ["i7"]
    assert best("***", 5) == ["***"]
    assert best("piece", 100)[-1] == "a piece"
    assert best("", 3) == ["i0", "i1", "i2"]


def test_explored_places() -> None:
    ranked = np.arange(10), -np.arange(10, dtype=np.float32)
    new = 100 + np.arange(50), -np.arange(50, dtype=np.float32)
    random = np.random.default_rng(1)
    rows, scores = explore(ranked, new, 10, 0.2, random)
    assert len(rows) == len(set(rows.tolist())) == 10
    assert np.flatnonzero(rows >= 100).tolist() == [2, 7]
    assert rows[rows < 100].tolist() == [*range(8)]
    assert scores.tolist() == [-(row % 100) for row in rows]
    # Half a place is one place half of the time, and better new items are drawn more often.
    drawn = [explore(ranked, new, 10, 0.05, random)[0] for _ in range(2000)]
    chosen = np.array([row for rows in drawn for row in rows if row >= 100])
    assert 900 < len(chosen) < 1100
    assert (chosen < 105).mean() == pytest.approx(
        sum(1 / r for r in range(1, 6)) / sum(1 / r for r in range(1, 51)), abs=0.05
    )
    assert len(set(chosen.tolist())) > 40
    # New items that are in the list by their score count, and stay.
    mixed = np.array([100, 1, 2, 101]), np.zeros(4, np.float32)
    assert explore(mixed, new, 4, 0.5, random) is mixed
    rows, _ = explore(mixed, new, 4, 1, random)
    assert (rows >= 100).all()
    assert {100, 101} <= {*rows.tolist()}
    rows, _ = explore(mixed, (new[0][:3], new[1][:3]), 4, 1, random)
    assert sorted(rows.tolist()) == [1, 100, 101, 102]
    # A short list is filled up.
    rows, _ = explore((np.array([1]), np.zeros(1, np.float32)), new, 4, 0.5, random)
    assert (len(rows), (rows >= 100).sum()) == (3, 2)


def test_exploration_by_request_and_by_service(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "v")
    far = placed(version, *(like(f"n{number}", "i39") for number in range(20)))
    recommender = Recommender(version, explore=0.3).with_new_items(far)

    def shown(*history: str, **options: object) -> list[str]:
        found = recommender.recommend(history, RankingOptions(allow=allow, **options))  # type: ignore[arg-type]
        return [item.id for item in found.items if item.new]

    allow = [f"i{number}" for number in range(30)] + [f"n{number}" for number in range(20)]
    assert len(shown("i3")) >= 3
    assert len(shown("i3", explore=0)) <= 3
    assert len(shown()) == 3, "also among popular items"
    assert shown("i3", seed=5) == shown("i3", seed=5)
    assert len({tuple(shown()) for _ in range(20)}) > 1
    allow = [*allow[:30], "n4"]
    assert shown("i3") == ["n4"]
