"""Scratch storage and results in Azure Blob Storage, by its emulator; tasks run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.errors import InputError
from lorentzrec.spark import recommend_all
from lorentzrec.spark import train as train_on_spark
from lorentzrec.spark.scratch import Damaged, read_arrays, write_arrays
from lorentzrec.spark.tasks import Round
from lorentzrec_paper.servers import free_port
from tests.emulators import Azurite
from tests.saved_datasets import save_dataset
from tests.spark.executor import Damaging, Executor

pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
pytestmark = pytest.mark.azure

CONFIG = TrainingConfig(dimension=4, epochs=1, negative_count=8, validation=0, seed=3, threads=1)


def small_shop() -> Interactions:
    random = np.random.default_rng(0)
    return Interactions.from_pairs(random.integers(0, 60, 900), random.zipf(1.5, 900) % 40, np.arange(900))


def test_a_file_that_is_missing_is_damage_and_storage_that_cannot_be_used_is_not(
    container: Any, azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"az://{container.container_name}/not found/0000.safetensors"  # words of another error
    checksum = write_arrays(address, {"rows": np.arange(3)})
    assert read_arrays(address, checksum)["rows"].tolist() == [0, 1, 2]
    container.delete_blob("not found/0000.safetensors")
    with pytest.raises(Damaged, match="is missing: resume, with `scratch` in storage that all workers reach"):
        read_arrays(address, checksum)
    unused = azurite.connection_string.replace(f":{azurite.port}/", f":{free_port()}/")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", unused)
    with pytest.raises(InputError, match="the storage cannot be used") as raised:
        read_arrays(address, checksum)
    assert not isinstance(raised.value, Damaged)


def test_damaged_changes_are_computed_again(container: Any, tmp_path: Path) -> None:
    def overwrite(task: Round) -> None:
        (name,) = (name for name in container.list_blob_names() if name.endswith("/0001-0000.safetensors"))
        container.upload_blob(name, b"damaged", overwrite=True)

    save_dataset(small_shop(), tmp_path / "shop")
    options: dict[str, Any] = {"workers": 2, "rounds": 2}
    whole = train_on_spark(tmp_path / "shop", CONFIG, session=Executor(), scratch=tmp_path / "scratch", **options)
    execute = Damaging(overwrite)
    scratch = f"az://{container.container_name}/scratch"
    found = train_on_spark(tmp_path / "shop", CONFIG, session=execute, scratch=scratch, **options)
    assert found.item_points.tobytes() == whole.item_points.tobytes()
    assert (execute.ran.count(("train_part", 1)), execute.ran.count(("train_part", 0))) == (3, 2)
    assert list(container.list_blob_names()) == []


def test_parts_of_another_run_are_not_taken(container: Any, tmp_path: Path) -> None:
    """Its removal was interrupted, after that of its `_key`."""
    model = train(small_shop(), CONFIG, progress=False)
    model.save(tmp_path / "model")
    out = f"az://{container.container_name}/all"
    expected = recommend_all(tmp_path / "model", tmp_path / "all", session=Executor(), k=3)
    for number in (0, 1):
        container.upload_blob(f"all/_part-0000{number}.parquet.json", json.dumps({"key": "other", "rows": 9}))
        container.upload_blob(f"all/part-0000{number}.parquet", b"of another run")
    others = ["all/notes.txt", "all/part-00001-8f2.parquet", "all/sales/part-00002.parquet"]
    for name in others:
        container.upload_blob(name, b"of somebody")
    # a second slash is the same place for the storage
    assert recommend_all(tmp_path / "model", out.replace("/all", "//all"), session=Executor(), k=3) == expected
    names = [name for name in container.list_blob_names() if not name.startswith("all/_")]
    assert names == sorted([*others, "all/part-00000.parquet"])
    with pytest.raises(InputError, match="is a pattern: choose a name without"):
        recommend_all(tmp_path / "model", f"{out}[1]", session=Executor(), k=3)
    content = container.download_blob("all/part-00000.parquet").readall()
    assert pl.read_parquet(content).equals(pl.read_parquet(tmp_path / "all"))


def test_parts_of_a_run_that_was_stopped_are_kept(container: Any, tmp_path: Path) -> None:
    class Stopped(Executor):
        def collect(self) -> list[Any]:
            raise ConnectionError("the driver is gone")

    train(small_shop(), CONFIG, progress=False).save(tmp_path / "model")
    out = f"az://{container.container_name}/all"
    with pytest.raises(ConnectionError):
        recommend_all(tmp_path / "model", out, session=Stopped(), k=3)
    part = container.get_blob_client("all/part-00000.parquet")
    before = part.get_blob_properties().etag
    again = Executor()
    assert recommend_all(tmp_path / "model", out, session=again, k=3).users == 60
    assert again.ran == [("_write_part", 0)], "which checks the part"
    assert part.get_blob_properties().etag == before
    with pytest.raises(InputError, match="already exists"):
        recommend_all(tmp_path / "model", out, session=Executor(), k=3)
