"""The index finds the items of exact ranking, with and without filters, or is not published."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.base.array_files import open_arrays, write_arrays
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, LorentzrecError
from lorentzrec.geometry import FloatArray
from lorentzrec.points import index
from lorentzrec.points.native import Question
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.scoring import NO_ROWS, Scorer
from lorentzrec.serving.versions import version
from lorentzrec.serving.versions.version import VERSION, Version, open_version, write_version
from lorentzrec.serving.worker import recommender
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.points.hand_made_points import make_ranker
from tests.serving.small_shop import shop_model, shop_points, shop_table

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
        write_version(place, shop_model(items=ITEMS, **MODELS[request.param]), items=shop_table(ITEMS))
    return place


def exact(folder: Path, target: Path) -> Version:
    """The same version without an index."""
    opened = open_version(Path(shutil.copytree(folder, target)))
    object.__setattr__(opened, "index", None)
    return opened


def test_the_manifest_records_the_measured_recall(folder: Path) -> None:
    description = open_version(folder).manifest["index"]
    assert description["recall"] >= 0.99
    assert (description["k"], description["questions"], description["lists"]) == (10, 25, 60)
    assert 1 <= description["probes"] <= 60


@pytest.mark.parametrize(
    "live",
    [None, IDS[:200], IDS[::2], IDS[60:], IDS[5:]],
    ids=["all", "few, packed", "half, by the index", "most, by the index", "all but a few, by the index"],
)
def test_recommendations_are_those_of_exact_ranking(folder: Path, tmp_path: Path, live: list[str] | None) -> None:
    opened = open_version(folder)
    assert opened.index is not None
    thorough = replace(opened.index, probes=len(opened.index.lists))  # what it misses is not the subject
    object.__setattr__(opened, "index", thorough)
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
    rank = Scorer.rank

    def counted(self: Scorer, asked: Question) -> Any:
        if asked.lists is not None:
            searched.append((asked.k, asked.probes))
        return rank(self, asked)

    monkeypatch.setattr(Scorer, "rank", counted)
    assert opened.index is not None
    probes = opened.index.probes
    everything = Recommender(opened)
    everything.recommend(["i1", "i2"])
    assert searched == [(10, probes)]
    everything.recommend(["i1"], RankingOptions(allow=IDS[:20]))  # few are left
    everything.recommend(["i1"], RankingOptions(501))  # very many are requested
    Recommender(opened, IDS[:299]).recommend(["i1"])  # few are live
    assert searched == [(10, probes)]
    Recommender(opened, IDS[:440]).recommend(["i1"])  # the lists are those of the live items
    Recommender(opened, IDS[:460]).recommend(["i1"])  # those of all items
    Recommender(opened, IDS[:460]).recommend(["i1"], RankingOptions(20))
    more = [round(np.ceil(probes * (900 / live * k / 10) ** 0.5)) for live, k in ((440, 10), (460, 10), (460, 20))]
    assert searched[1:] == [(k, min(60, one)) for k, one in zip((10, 10, 20), more, strict=True)]


def test_an_index_that_finds_too_little_is_not_the_last_word(folder: Path) -> None:
    """The only list that is scanned has fewer items than are requested."""
    opened = open_version(folder)
    assert opened.index is not None
    ranker = Ranker(opened.points, index=replace(opened.index, probes=1))
    smallest = int(np.diff(opened.index.lists.offsets).min())
    query = opened.points.query(np.array([7]))
    k = 5 * smallest + 200
    assert ranker.top(query, k)[0].tolist() == Ranker(opened.points).top(query, k)[0].tolist()


def test_too_little_recall_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "mean_recall", lambda *_: 0.985)
    with pytest.raises(
        LorentzrecError, match=r"finds 0.985 of the true first 10, below the minimum of 0.99: .* --no-index"
    ):
        write_version(tmp_path / "version", shop_model(items=ITEMS))
    assert list(tmp_path.iterdir()) == []
    write_version(tmp_path / "version", shop_model(items=ITEMS), index=False)
    assert open_version(tmp_path / "version").index is None


def test_as_few_lists_are_scanned_as_reach_the_wanted_recall() -> None:
    """In steps of an eighth; and the recall is that of other queries."""
    model = shop_model(items=ITEMS)
    points = model.points
    untuned = index.build_index(points, index.sample_queries(points, model.histories))
    tuned = untuned.tune(points.scorer)
    chosen, others = tuned.queries[:25], tuned.queries[25:]

    def recall(queries: FloatArray, probes: int) -> float:
        found, truth = [], []
        for query in queries:
            asked = Question(10, query, lists=untuned.lists, probes=probes, wanted=30)
            truth.append(Ranker(points).top(query, 10)[0])
            answer = points.scorer.rank(asked)
            found.append(NO_ROWS if answer is None else answer.rows)
        return index.mean_recall(found, truth)

    assert recall(chosen, tuned.probes) >= index.WANTED_RECALL > recall(chosen, max(1, tuned.probes - 8))
    assert tuned.recall == recall(others, tuned.probes)


def test_the_number_of_lists_is_kept_when_a_few_items_change(folder: Path) -> None:
    opened = open_version(folder)
    first = Recommender(opened, IDS[:440])
    assert first.index is not None
    assert first.index.recall is None
    estimated = first.index.probes
    first.tune()
    assert first.index.recall is not None
    assert first.index.recall >= 0.97
    kept = Recommender(opened, IDS[:400], before=first).index
    assert kept is not None
    assert (kept.count, kept.probes, kept.recall) == (400, first.index.probes, first.index.recall)
    others = Recommender(opened, IDS[:380], before=first).index
    assert others is not None
    assert (others.count, others.recall) == (380, None)
    assert others.probes >= estimated


def test_lists_of_some_items_are_those_items_in_order(folder: Path) -> None:
    whole = open_version(folder).index
    assert whole is not None
    live = np.random.default_rng(1).random(ITEMS) < 0.3
    some = whole.narrow(live)
    assert some.recall is None
    for number in range(len(whole.lists)):
        everything, kept = (slice(one.lists.offsets[number], one.lists.offsets[number + 1]) for one in (whole, some))
        rows = whole.lists.rows[everything]
        assert some.lists.rows[kept].tolist() == rows[live[rows]].tolist()
        assert np.array_equal(some.lists.codes[kept], whole.lists.codes[everything][live[rows]])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rows", lambda rows: np.where(rows == 7, 900, rows), "it has rows of other items"),
        ("rows", lambda rows: np.where(rows == 7, 8, rows), "its lists do not hold all items"),
        ("offsets", lambda offsets: offsets[::-1].copy(), "its lists do not hold all items"),
        ("codes", lambda codes: codes[:, :-1], "codes is int8"),
        ("scales", lambda scales: scales.astype(np.float64), "scales is float64"),
        ("queries", lambda queries: queries[:, 1:], "its queries are not points"),
        ("units", lambda units: None, "it has no units"),
        ("units", lambda units: units * np.float32(np.nan), "units has values that are not finite"),
        ("centres", lambda centres: centres + np.float32(np.inf), "centres has values that are not finite"),
        ("queries", lambda queries: queries * np.nan, "queries has values that are not finite"),
    ],
)
def test_damaged_indexes(folder: Path, tmp_path: Path, name: str, change: Any, message: str) -> None:
    """Whoever can write to the store can give the file any content with the right checksums."""
    opened = open_version(folder)
    arrays = dict(open_arrays(folder / index.INDEX, VERSION))
    changed = change(arrays.pop(name))
    if changed is not None:
        arrays[name] = changed
    path = tmp_path / index.INDEX
    write_arrays(path, arrays)
    with pytest.raises(ArtifactError, match=rf"index.safetensors is damaged \({message}"):
        index.read_index(path, open_arrays(path, VERSION), opened.manifest["index"], opened.points, VERSION)


@pytest.mark.parametrize("probes", [0, -1, 61, 2**70])
def test_numbers_of_lists_to_scan_that_cannot_be(folder: Path, probes: int) -> None:
    opened = open_version(folder)
    described = opened.manifest["index"] | {"probes": probes}
    arrays = open_arrays(folder / index.INDEX, VERSION)
    with pytest.raises(ArtifactError, match=rf"is damaged \({probes} of its 60 lists are to be scanned"):
        index.read_index(folder / index.INDEX, arrays, described, opened.points, VERSION)


def test_an_index_of_other_points(folder: Path) -> None:
    opened = open_version(folder)
    other = make_ranker(shop_points(ITEMS, "euclidean", 1), geometry="euclidean", score="distance").points
    if opened.points.space.hyperbolic:
        with pytest.raises(ArtifactError, match="it is not an index of such points"):
            index.read_index(
                folder / index.INDEX,
                open_arrays(folder / index.INDEX, VERSION),
                opened.manifest["index"],
                other,
                VERSION,
            )


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
    disliking = replace(histories, weights=np.array([1, 9, -2], np.float32))
    assert len(index.sample_queries(ranker.points, disliking)) == 1, "bob likes nothing, and so has no point"
