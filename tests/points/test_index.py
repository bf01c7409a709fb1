"""The index finds the items of exact ranking, with and without filters, or is not published."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, LorentzrecError
from lorentzrec.points import index
from lorentzrec.points.ranking import Ranker
from lorentzrec.serving.versions import version
from lorentzrec.serving.versions.version import Version, open_version, write_version
from lorentzrec.serving.worker import recommender
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.points.hand_made_points import make_ranker
from tests.serving.small_shop import shop_model, shop_points, shop_table

pytest.importorskip("faiss")

ITEMS = 900
IDS = [f"i{number}" for number in range(ITEMS)]
MODELS: dict[str, dict[str, Any]] = {
    "hyperboloid": {"score": "inner"},
    "flat inner": {"geometry": "euclidean", "score": "inner"},
    "flat distance": {"geometry": "euclidean"},
}


@pytest.fixture(autouse=True)
def indexed_from_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (recommender, version):
        monkeypatch.setattr(module, "INDEXED_ITEMS", 300)


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("indexed") / "version"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version, "INDEXED_ITEMS", 300)
        patch.setattr(index, "SHARES", (0.5,))
        write_version(place, shop_model(items=ITEMS, **MODELS[request.param]), items=shop_table(ITEMS))
    return place


def exact(folder: Path, target: Path) -> Version:
    """The same version without an index."""
    opened = open_version(Path(shutil.copytree(folder, target)))
    object.__setattr__(opened, "index", None)
    return opened


def test_the_manifest_records_the_measured_recall(folder: Path) -> None:
    description = open_version(folder).manifest["index"]
    assert description["recall"] == 1
    assert (description["k"], description["questions"]) == (10, 50)
    assert (description["lists"], description["probes"]) == (60, 30)


@pytest.mark.parametrize(
    "live",
    [None, IDS[:200], IDS[::2], IDS[60:], IDS[5:]],
    ids=["all", "few, packed", "half, by the index", "most, by the index", "all but a few, by the index"],
)
def test_recommendations_are_those_of_exact_ranking(folder: Path, tmp_path: Path, live: list[str] | None) -> None:
    opened = open_version(folder)
    assert opened.index is not None
    quick, slow = Recommender(opened, live), Recommender(exact(folder, tmp_path / "exact"), live)
    random = np.random.default_rng(3)
    for _ in range(10):
        history = tuple(IDS[row] for row in random.integers(0, ITEMS, 4))
        for options in ({}, {"categories": ("hats",)}, {"allow": (*IDS[50:90], *IDS[500:800])}, {"diversity": 0.4}):
            query = RankingOptions(10, exclude=IDS[:3], **options)
            assert quick.recommend(history, query) == slow.recommend(history, query)
        assert quick.similar(history[0], RankingOptions(5)) == slow.similar(history[0], RankingOptions(5))


def test_the_index_is_searched_where_it_pays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_version(folder)
    searched = []
    candidates = index.Index.candidates

    def counted(self: index.Index, query: Any, count: int, *more: Any) -> Any:
        searched.append(count)
        return candidates(self, query, count, *more)

    monkeypatch.setattr(index.Index, "candidates", counted)
    everything = Recommender(opened)
    everything.recommend(["i1", "i2"])
    assert searched == [10]
    everything.recommend(["i1"], RankingOptions(allow=IDS[:20]))  # few are left
    everything.recommend(["i1"], RankingOptions(exclude=IDS[:880]))  # few are left, too
    everything.recommend(["i1"], RankingOptions(501))  # very many are requested
    Recommender(opened, IDS[:299]).recommend(["i1"])  # few are live
    assert searched == [10]


def test_a_few_removed_items_need_no_bitmap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_version(folder)
    bitmaps = []
    candidates = index.Index.candidates

    def watched(self: index.Index, query: Any, count: int, permitted: Any, spare: int) -> Any:
        bitmaps.append(permitted is not None)
        return candidates(self, query, count, permitted, spare)

    monkeypatch.setattr(index.Index, "candidates", watched)
    best = [item.id for item in Recommender(opened).recommend(["i1", "i2"], RankingOptions(60)).items]
    found = Recommender(opened, None, best[:50]).recommend(["i1", "i2"])
    assert [item.id for item in found.items] == best[50:]
    Recommender(opened, None, IDS[:51]).recommend(["i100"])
    assert bitmaps == [False, False, True]


def test_an_index_that_finds_too_little_is_not_the_last_word(folder: Path) -> None:
    class Nothing:
        kind = index.IndexKind.AUGMENTED

        def candidates(self, *_: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array([4], np.int64)

    points = shop_model(items=ITEMS).item_points
    plain = make_ranker(points, geometry="hyperboloid", score="distance")
    ranker = Ranker(plain.points, index=Nothing())  # type: ignore[arg-type]
    query = plain.query(np.array([7]))
    assert ranker.top(query, 5)[0].tolist() == plain.top(query, 5)[0].tolist()


def test_too_little_recall_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def poor(searched: index.Index, *_: object) -> float:
        tried.append(searched.probes)
        return 0.985

    monkeypatch.setattr(index, "measure_recall", poor)
    with pytest.raises(
        LorentzrecError, match=r"finds 0.985 of the true first 10, below the minimum of 0.99: .* --no-index"
    ):
        write_version(tmp_path / "version", shop_model(items=ITEMS))
    assert tried == [1, 1, 1, 1, 1, 1, 3, 6, 12]  # of 60 lists: more are scanned before it is refused
    assert list(tmp_path.iterdir()) == []
    write_version(tmp_path / "version", shop_model(items=ITEMS), index=False)
    assert open_version(tmp_path / "version").index is None


def test_the_widest_search_may_be_just_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "measure_recall", lambda *_: 0.991)
    description = write_version(tmp_path / "version", shop_model(items=ITEMS))["index"]
    assert (description["recall"], description["probes"]) == (0.991, 12)


def test_without_faiss_ranking_is_exact_with_a_note(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Recommender(open_version(folder)).recommend(["i5"])
    monkeypatch.setitem(sys.modules, "faiss", None)
    opened = open_version(folder)
    extra = "pip install 'lorentzrec[ann]'"
    assert opened.notes == (f"version {opened.name} has an index, but items are ranked exactly without faiss: {extra}",)
    assert Recommender(opened).recommend(["i5"]) == expected
    manifest = write_version(tmp_path / "version", shop_model(items=ITEMS))
    assert manifest["index"] is None
    assert list(manifest["publish_notes"]) == [f"900 items are ranked exactly, not by an index: {extra}, publish again"]


def test_damaged_indexes(folder: Path, tmp_path: Path) -> None:
    description = open_version(folder).manifest["index"]
    (tmp_path / "index.faiss").write_bytes(b"no index")
    with pytest.raises(ArtifactError, match=r"index.faiss cannot be read by faiss .*: publish the model again"):
        index.open_index(tmp_path / "index.faiss", description, open_version(folder).points)
    with pytest.raises(ArtifactError, match="holds 900 items instead of 901"):
        index.open_index(folder / "index.faiss", description, shop_model(items=901).points)


def test_sampled_queries_without_histories_are_neighbourhoods() -> None:
    ranker = make_ranker(shop_model().item_points, geometry="hyperboloid", score="distance")
    queries = index.sample_queries(ranker.points, None)
    assert queries.shape == (40, 4)
    assert np.array_equal(queries, index.sample_queries(ranker.points, None))


def test_sampled_queries_are_those_of_customers_with_the_weights_of_their_events() -> None:
    ranker = make_ranker(shop_model().item_points, geometry="hyperboloid", score="distance")
    items = Vocabulary([f"i{row}" for row in range(40)], name="item")
    weights = np.array([1, 9, 2], np.float32)
    histories = Interactions(
        Vocabulary(["ann", "bob"], name="user"),
        items,
        np.array([0, 2, 3]),
        np.array([3, 8, 5], np.int32),
        weights=weights,
    )
    queries = {tuple(query) for query in index.sample_queries(ranker.points, histories)}
    assert queries == {tuple(ranker.query(np.array([3, 8]), np.array([1, 9]))), tuple(ranker.query(np.array([5])))}


@pytest.mark.parametrize("hyperbolic", [True, False])
def test_the_extra_coordinate_turns_inner_products_into_distances(hyperbolic: bool) -> None:
    """|q - v|^2 = |q|^2 + M^2 - 2 q . v, so the order by distance is the order by inner product."""
    points = shop_points(50, "hyperboloid" if hyperbolic else "euclidean", 1)
    query = np.array([-1.5, 0.5, 1, -0.5] if hyperbolic else [0.5, 1, -0.5])
    longest = float(np.square(points.astype(np.float64)).sum(axis=1).max())
    squared = np.square(np.append(query, 0) - index.augment(points)).sum(axis=1)
    assert squared == pytest.approx(query @ query + longest - 2 * points @ query, rel=1e-5)


def test_an_index_with_numbers_of_other_items(folder: Path) -> None:
    """Whoever can write to the store can give it any content with the right checksums."""
    import faiss

    opened = open_version(folder)
    assert opened.index is not None
    lists = faiss.clone_index(opened.index.lists)
    lists.reset()
    width = lists.d - (opened.index.kind is index.IndexKind.AUGMENTED)
    points = opened.points.item_points[:, :width]
    vectors = index.augment(points) if opened.index.kind is index.IndexKind.AUGMENTED else points
    lists.add_with_ids(vectors, np.arange(ITEMS) + ITEMS - 5)
    shifted = replace(opened.index, lists=lists)
    query = opened.points.query(np.array([3]))
    assert shifted.candidates(query, ITEMS).tolist() == list(range(ITEMS - 5, ITEMS))
