"""Folders with checksums that are right and content that is not: of strangers, or of a faulty disk before sealing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from lorentzrec import Interactions, TrainingConfig, load, train, update
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.points.memory import Memory, build_memory
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.damaged_folders import check_resealed_manifests, reseal
from tests.saved_datasets import save_dataset

CONFIG = TrainingConfig(dimension=3, epochs=1, negative_count=4, validation=0, seed=3, threads=1)


def events(count: int = 300) -> Interactions:
    random = np.random.default_rng(2)
    users, items = random.integers(0, 20, count), random.integers(0, 25, count)
    return Interactions.from_pairs([f"u{one}" for one in users], [f"i{one}" for one in items], np.arange(count))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with everything that a manifest can describe, but attributes."""
    data = events()
    trained = train(data, CONFIG, progress=False)
    memory = build_memory(data, 10, ordered=True).with_weight(0.5)
    path = tmp_path_factory.mktemp("model") / "model"
    replace(trained.with_points(memory=memory), metrics={"ndcg@10": 0.5}).save(path)
    return path


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_manifests_of_models(copied: Path) -> None:
    check_resealed_manifests(copied, lambda: load(copied).recommend(["i3"], reasons=True))


def test_manifests_of_models_that_are_updated(copied: Path) -> None:
    """Only entries that loading does not use, since an update takes long."""
    later = events(320)
    values: list[Any] = [{}, "", [], True, "1", 2**70, 1e308, float("nan")]
    for value in values:
        reseal(copied, newest_time=value)
        with suppress(InputError):
            update(load(copied), later, progress=False)
    with pytest.raises(ArtifactError, match="its entry 'newest_time' is not of the right form"):
        load(copied)


def test_manifests_of_versions(model: Path, tmp_path: Path) -> None:
    folder, loaded = tmp_path / "version", load(model)
    table = pl.DataFrame({"id": ["i1"], "title": ["One"], "category": ["x"]})
    write_version(folder, loaded, items=table, event_weights={"view": 0.5})

    def use() -> None:
        Recommender(open_version(folder)).recommend(["i1", "i2"], RankingOptions(reasons=True))

    check_resealed_manifests(folder, use)


def test_manifests_of_datasets(tmp_path: Path) -> None:
    save_dataset(events(), tmp_path / "data")

    def use() -> None:
        dataset = open_dataset(tmp_path / "data")
        dataset.verify()
        dataset.interactions()
        dataset.attributes()
        repr(dataset)

    check_resealed_manifests(tmp_path / "data", use)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("points.safetensors", {"extra": np.zeros(5, np.float32)}),
        ("points.safetensors", {"extra": np.zeros((), np.float32)}),
        ("points.safetensors", {"extra": np.zeros((5, 4), np.int64)}),
        ("points.safetensors", {"item_points": np.zeros((2, 2, 2), np.float32)}),
        ("memory.safetensors", {"offsets": np.zeros((3, 3), np.int64)}),
        ("memory.safetensors", {"offsets": np.zeros(0, np.int64)}),
        ("memory.safetensors", {"offsets": np.zeros((), np.int64)}),
        ("memory.safetensors", {"columns": np.zeros((2, 2), np.int32), "values": np.ones((2, 2), np.float32)}),
        ("memory.safetensors", {"extra": np.zeros(1)}),
        ("histories.safetensors", {"offsets": np.zeros((2, 2), np.int64)}),
        ("histories.safetensors", {"item_rows": np.zeros((), np.int32)}),
        ("optimiser.safetensors", {"items_sums": np.zeros((2, 2), np.float32)}),
        ("optimiser.safetensors", {"": np.zeros(0, np.float32)}),
    ],
)
def test_arrays_of_other_shapes(copied: Path, file: str, change: dict[str, NDArray[Any]]) -> None:
    save_file(load_file(copied / file) | change, copied / file)
    reseal(copied)
    with pytest.raises(ArtifactError) as caught:
        load(copied)
    assert "\n" not in str(caught.value)


def memory(**changes: Any) -> Memory:
    arrays: dict[str, Any] = {
        "offsets": np.array([0, 1, 2]),
        "columns": np.array([1, 0], np.int32),
        "values": np.ones(2, np.float32),
    }
    return Memory(**arrays | {"ordered": True} | changes)


@pytest.mark.parametrize("weight", [1e308, 1e31, float("inf"), float("nan"), -1.0])
def test_a_memory_with_an_impossible_weight(weight: float) -> None:
    with pytest.raises(InputError, match="build it again"):
        memory(weight=weight)
    assert memory(weight=1e30).weight == 1e30


def rewrite(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = folder / "interactions.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    reseal(folder)


@pytest.mark.parametrize(
    ("column", "line"),
    [
        (
            pl.lit(2_000_000_000, pl.Int32).alias("next_item_row"),
            "a next_item_row is 2000000000, it must be at least 0",
        ),
        (
            pl.lit(-77, pl.Int32).alias("next_item_row"),
            "a next_item_row is -77, it must be at least 0 and less than 25",
        ),
        (pl.lit(25, pl.Int32).alias("next_item_row"), "a next_item_row is 25, it must be at least 0 and less than 25"),
        (pl.lit("x").alias("next_item_row"), "column next_item_row is String, not Int32"),
        (
            pl.lit(200, pl.UInt8).alias("part"),
            "has the columns user_row, item_row, time, next_item_row, part instead of",
        ),
        (pl.lit(2**62).alias("time"), "time is 4611686018427387904, it must be within 9,007,199,254,740,992 seconds"),
        (pl.lit(-(2**62)).alias("time"), "time is -4611686018427387904, it must be within"),
        (pl.lit(1e300).alias("time"), "it must be within 9,007,199,254,740,992 seconds of 1970"),
    ],
)
def test_columns_of_a_dataset_out_of_range(tmp_path: Path, column: pl.Expr, line: str) -> None:
    save_dataset(events(), tmp_path / "data")
    rewrite(tmp_path / "data", lambda frame: frame)
    assert len(open_dataset(tmp_path / "data").interactions()) == 300
    rewrite(tmp_path / "data", lambda frame: frame.with_columns(column))
    with pytest.raises(ArtifactError) as caught:
        open_dataset(tmp_path / "data").interactions()
    assert line in str(caught.value)


def test_a_part_that_does_not_exist(tmp_path: Path) -> None:
    save_dataset(dict(zip(("train", "test"), events().split("leave_last_out"), strict=True)), tmp_path / "data")
    rewrite(tmp_path / "data", lambda frame: frame.with_columns(pl.lit(200, pl.UInt8).alias("part")))
    with pytest.raises(ArtifactError, match="part is 200, it must be at least 0 and less than 2"):
        open_dataset(tmp_path / "data").named_parts()
