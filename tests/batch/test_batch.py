"""Recommendations for all customers with the index: the same as with exact ranking, up to what the index misses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, Model, TrainingConfig
from lorentzrec.batch import recommending
from lorentzrec.batch.recommending import BatchOptions, BatchRecommender, recommend_to_all
from lorentzrec.geometry import hyperboloid
from lorentzrec.memory import build_memory

pytest.importorskip("faiss", reason="faiss is not installed")

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
    return Model(
        config=config.resolve_for(pairs),
        items=pairs.items,
        item_points=points,
        history_points=points,
        item_counts=pairs.item_counts,
        users=pairs.users,
        histories=pairs,
        memory=build_memory(pairs, 50, ordered=False) if memory else None,
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


def test_a_filter_is_ranked_exactly_and_a_large_catalogue_by_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "INDEXED_SCORES", 1)
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 200)
    model = random_model("hyperboloid", "distance")
    model.save(tmp_path / "model")
    report = recommend_to_all(tmp_path / "model", model, tmp_path / "all", BatchOptions())
    assert report.recall is not None
    assert report.recall > 0.98
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        f"part-{number:05d}.parquet" for number in range(-(-report.users // 200))
    ]
    assert pl.read_parquet(tmp_path / "all").height == report.rows
    few = BatchOptions(items=tuple(model.items.ids(np.arange(40))))
    assert BatchRecommender(model, few).make_index(tmp_path) == {}
    assert recommend_to_all(tmp_path / "model", model, tmp_path / "few.parquet", few).recall is None
