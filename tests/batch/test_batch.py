"""Recommendations for all customers with the index: the same as with exact ranking, up to what the index misses."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, Model, TrainingConfig
from lorentzrec.batch import recommending
from lorentzrec.batch.recommending import BatchOptions, BatchRecommender, recommend_to_all, source_of_model
from lorentzrec.errors import InputError
from lorentzrec.geometry import hyperboloid
from lorentzrec.learning.kernels.compiling import COMPILING
from lorentzrec.points.index import INDEX
from lorentzrec.points.memory import build_memory
from lorentzrec.points.points import Points
from tests.model.hand_made_models import hand_made

ITEMS, CUSTOMERS = 3000, 500


def random_model(geometry: str, score: str, *, memory: bool = False) -> Model:
    random = np.random.default_rng(1)
    lengths = random.choice([0, 1, 5, 40, 300], CUSTOMERS, p=[0.1, 0.3, 0.3, 0.25, 0.05])
    users = np.repeat(np.arange(CUSTOMERS), lengths)
    centres = random.normal(0, 1, (20, 6))
    space = centres[random.integers(0, 20, ITEMS)] + random.normal(0, 0.3, (ITEMS, 6))
    rows = random.integers(0, ITEMS, len(users)).astype(np.int32)
    pairs = Interactions.from_pairs(np.append(users, np.zeros(ITEMS, int)), np.append(rows, np.arange(ITEMS)))
    config = TrainingConfig(geometry=geometry, score=score, dimension=6)  # type: ignore[arg-type]
    points = (hyperboloid.lift(space) if geometry == "hyperboloid" else space).astype(np.float32)
    resolved, remembered = config.resolve_for(pairs), build_memory(pairs, 50, ordered=False) if memory else None
    return Model(
        config=resolved,
        items=pairs.items,
        points=Points(points, points, pairs.item_counts, resolved.space, remembered),
        users=pairs.users,
        histories=pairs,
    )


@pytest.mark.parametrize(
    ("geometry", "score", "memory"),
    [
        ("hyperboloid", "distance", False),
        ("hyperboloid", "distance", True),
        ("hyperboloid", "inner", False),
        ("euclidean", "distance", True),
    ],
)
def test_the_index_finds_what_exact_ranking_finds(
    geometry: str, score: str, memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    model = random_model(geometry, score, memory=memory)
    options = BatchOptions(k=7, exclude=(model.items.id(3), model.items.id(9)), threads=2)
    exact = BatchRecommender(model, options)
    indexed = BatchRecommender(model, options)
    assert indexed.make_index(tmp_path)["recall"] > 0.98
    ours, theirs = (one.frame(one.customers) for one in (indexed, exact))
    assert ours.schema == theirs.schema
    assert ours["user"].to_list() == theirs["user"].to_list()
    assert ours["rank"].to_list() == theirs["rank"].to_list()
    common = ours.join(theirs, on=["user", "item"], suffix="_exact")
    assert len(common) >= 0.98 * len(theirs)
    np.testing.assert_allclose(common["score"], common["score_exact"], rtol=1e-6)
    assert set(ours["item"]).isdisjoint(options.exclude)
    for user in ours["user"].unique().head(20):
        found = ours.filter(pl.col("user") == user)
        assert set(found["item"]).isdisjoint(exact.histories.history_ids(user))
        assert found["score"].is_sorted(descending=True)
        assert found["item"].n_unique() == 7


def test_unknown_ids_among_the_excluded_exclude_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    model = random_model("hyperboloid", "distance")
    frames = []
    for exclude in ((), (10**9,)):
        batch = BatchRecommender(model, BatchOptions(k=40, exclude=exclude))
        assert batch.make_index(tmp_path)
        frames.append(batch.frame(batch.customers))
    assert model.items.id(ITEMS - 1) in frames[0]["item"], "the last item is that of row -1, too"
    assert frames[1].equals(frames[0])


def test_items_of_the_history_are_candidates_if_they_are_not_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    model = random_model("hyperboloid", "distance")
    batch = BatchRecommender(model, BatchOptions(k=5, exclude_seen=False))
    assert batch.make_index(tmp_path)
    once = batch.customers[batch.histories.lengths[batch.customers] == 1]
    first = batch.frame(once).filter(pl.col("rank") == 1)
    assert len(first) == len(once) > 100
    assert all(batch.histories.history_ids(user) == [item] for user, item in first.select("user", "item").rows())


def test_exact_recommendations_are_those_of_the_model() -> None:
    """Also for customers with points of their own, and with a filter that is smaller than k."""
    model = random_model("hyperboloid", "distance", memory=True)
    assert model.users is not None
    points = hyperboloid.lift(np.random.default_rng(4).normal(0, 1, (len(model.users), 6))).astype(np.float32)
    symmetric = replace(model, config=replace(model.config, model="symmetric"), user_points=points)
    for one in (model, symmetric):
        for items in (None, tuple(model.items.ids(np.arange(5)))):
            options = BatchOptions(k=7, exclude=(model.items.id(3), 10**9), exclude_seen=items is None, allow=items)
            batch = BatchRecommender(one, options)
            found = batch.frame(batch.customers)
            users = model.users.ids(batch.customers)
            expected = one.recommend_many(
                users=users, k=7, exclude=options.exclude, exclude_seen=options.exclude_seen, allow=items
            ).to_frame()
            assert found.equals(expected.cast(found.schema))
            assert found["rank"].dtype == pl.Int32
            assert batch._ranked(batch.customers)[0].shape[1] == (5 if items else 7), "no more columns than candidates"


def test_progress_ends_at_one_also_if_some_customers_have_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 200)
    model = random_model("hyperboloid", "distance")
    assert model.histories is not None
    model = replace(model, histories=model.histories.select(model.histories.user_rows % 9 > 0))
    model.save(tmp_path / "model")
    shares: list[float] = []
    report = recommend_to_all(source_of_model(tmp_path / "model"), tmp_path / "all", BatchOptions(), shares.append)
    assert report.users_without_events > 0
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (3, 1)


@pytest.mark.parametrize("name", ["all.json", "all.v1"])
def test_a_table_in_an_unknown_format_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    model = random_model("hyperboloid", "distance")
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"unknown format \.(json|v1): end the name in \.parquet, \.csv, \.jsonl"):
        recommend_to_all(source_of_model(tmp_path / "model"), tmp_path / name, BatchOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


WITH_AN_INDEX = """
import sys, threading
from pathlib import Path
from numba.core import event
from lorentzrec.batch import recommending
from tests.batch.test_batch import random_model

class Where(event.Listener):
    def on_start(self, event):
        threads.add(threading.current_thread().name)

    def on_end(self, event):
        pass

threads = set()
recommending.INDEXED_SCORES = 1
model, folder = random_model("hyperboloid", "distance", memory=True), Path(sys.argv[1])
model.save(folder / "model")
with event.install_listener("numba:compiler_lock", Where()):
    source = recommending.source_of_model(folder / "model")
    report = recommending.recommend_to_all(source, folder / "all", recommending.BatchOptions(threads=2), announce=print)
print(threads, report.recall is not None)
"""


def test_kernels_are_compiled_in_the_calling_thread_with_a_line(tmp_path: Path) -> None:
    """In a new process, whose cache is empty."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_AN_INDEX, str(tmp_path)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [COMPILING, "{'MainThread'} True"]


def test_a_filter_is_ranked_exactly_and_a_large_catalogue_by_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 200)
    model = random_model("hyperboloid", "distance")
    model.save(tmp_path / "model")
    report = recommend_to_all(source_of_model(tmp_path / "model"), tmp_path / "all", BatchOptions())
    assert report.recall is not None
    assert report.recall > 0.98
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        f"part-{number:05d}.parquet" for number in range(-(-report.users // 200))
    ]
    assert pl.read_parquet(tmp_path / "all").height == report.rows
    few = BatchOptions(allow=tuple(model.items.ids(np.arange(40))))
    assert BatchRecommender(model, few).make_index(tmp_path) == {}
    assert recommend_to_all(source_of_model(tmp_path / "model"), tmp_path / "few.parquet", few).recall is None


@pytest.mark.parametrize("share", [0.9, 0.3])
def test_the_index_of_some_items_finds_what_exact_ranking_finds(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for live items: most of a catalogue, or a good part of it."""
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    model = random_model("hyperboloid", "distance", memory=True)
    live = np.flatnonzero(np.random.default_rng(8).random(ITEMS) < share)
    options = BatchOptions(k=7, allow=tuple(model.items.ids(live)), exclude=tuple(model.items.ids(live[:200])))
    exact, indexed = BatchRecommender(model, options), BatchRecommender(model, options)
    assert indexed.make_index(tmp_path)["recall"] > 0.98
    ours, theirs = (one.frame(one.customers) for one in (indexed, exact))
    assert ours["user"].to_list() == theirs["user"].to_list()
    assert len(ours.join(theirs, on=["user", "item"])) >= 0.98 * len(theirs)
    assert set(ours["item"]) <= set(model.items.ids(live[200:]))


def test_a_damaged_index_of_an_earlier_run_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    model = random_model("hyperboloid", "distance")
    for damage in (lambda: None, lambda: (tmp_path / INDEX).write_bytes(b"damaged")):
        damage()
        batch = BatchRecommender(model, BatchOptions())
        assert batch.make_index(tmp_path)["recall"] > 0.98
        assert len(batch.frame(batch.customers[1:6])) == 50
    record = tmp_path / f"{INDEX}.json"
    record.write_bytes(b"\xff")
    assert BatchRecommender(model, BatchOptions()).make_index(tmp_path)["recall"] > 0.98


@pytest.mark.parametrize("model_kind", ["asymmetric", "symmetric"])
def test_diversity_reasons_and_titles_are_those_of_the_model(model_kind: str) -> None:
    model = random_model("hyperboloid", "distance", memory=True)
    assert model.users is not None
    if model_kind == "symmetric":
        points = hyperboloid.lift(np.random.default_rng(4).normal(0, 1, (len(model.users), 6))).astype(np.float32)
        model = replace(model, config=replace(model.config, model="symmetric"), user_points=points)
    titles = pl.Series([f"Title {number}" for number in range(ITEMS)])
    items = tuple(model.items.ids(np.arange(3)))
    for options in (BatchOptions(k=5, diversity=0.4, reasons=True), BatchOptions(k=5, allow=items, reasons=True)):
        batch = BatchRecommender(model, options, titles)
        found = batch.frame(batch.customers[:60])
        assert model.users is not None
        users = model.users.ids(batch.customers[:60])
        expected = model.recommend_many(
            users=users, k=5, allow=options.allow, diversity=options.diversity, reasons=True
        ).to_frame()
        assert found.drop("title").equals(expected.cast({"rank": pl.Int32}))
        rows = model.items.rows(found["item"])
        assert found["title"].to_list() == [f"Title {row}" for row in rows]


def test_recency_counts_orders_as_in_recommend() -> None:
    items = [f"i{number}" for number in (*np.random.default_rng(1).integers(0, 30, 90), *range(30))]
    data = Interactions.from_pairs([f"u{row % 12}" for row in range(120)], items, times=np.arange(120) // 36)
    model = hand_made(data, history="orders", recency=0.5)
    assert model.points.space.by_orders
    found = BatchRecommender(model, BatchOptions(k=8)).frame(np.arange(12))
    for user in data.users.series.to_list():
        listed = found.filter(pl.col("user") == user)["item"].to_list()
        assert listed == model.recommend(user=user, k=8).ids, user
