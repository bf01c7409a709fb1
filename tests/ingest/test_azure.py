"""Azure Blob Storage by its emulator: events in a container -> prepare -> dataset in a container -> train.

Azurite comes by `npm ci` in tests/azurite; the tests are skipped where it is not installed.
"""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.storage import fetch, fetch_outline, list_files, remove
from lorentzrec_paper.servers import free_port
from tests.emulators import Azurite

pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
pytestmark = pytest.mark.azure


def names(container: Any) -> list[str]:
    return sorted(container.list_blob_names())


TEXT = "user,item,time\n" + "".join(f"u{n % 30},i{n * 7 % 19},{n}\n" for n in range(600))


def test_round_trip_to_a_trained_model(container: Any, tmp_path: Path) -> None:
    from lorentzrec import TrainingConfig, train

    container.upload_blob("raw/a.csv.gz", gzip.compress(TEXT.encode()))
    pl.DataFrame({"user": ["new"] * 3, "item": ["i1", "i2", "é"], "time": [1, 2, 3]}).write_parquet(
        tmp_path / "b.parquet"
    )
    container.upload_blob("raw/more/b.parquet", (tmp_path / "b.parquet").read_bytes())
    root = f"az://{container.container_name}"
    config = PrepareConfig(events=(f"{root}/raw",), split="leave_last_out")
    out = f"{root}/sets/one"
    report = prepare(config, out)
    assert report.counts == {"events": 603, "users": 31, "items": 20}
    assert [name for name in names(container) if not name.startswith("raw/")] == [
        "sets/one/interactions.parquet",
        "sets/one/items.parquet",
        "sets/one/manifest.json",
        "sets/one/users.parquet",
    ]
    dataset = open_dataset(f"{root}/sets/one")
    dataset.verify()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text(TEXT)
    shutil.move(tmp_path / "b.parquet", tmp_path / "raw" / "b.parquet")
    local = prepare(replace(config, events=(str(tmp_path / "raw"),)), tmp_path / "one")
    assert local.digest == report.digest
    model = train(
        Interactions.from_dataset(f"{root}/sets/one", "train"), TrainingConfig(dimension=4, epochs=1, threads=1)
    )
    assert len(model.recommend(history=["i1", "i2"], k=3).ids) == 3
    assert prepare(config, out).unchanged
    assert not prepare(replace(config, duplicates="first"), out).unchanged


def test_patterns_folders_and_single_files_are_listed(container: Any) -> None:
    root = f"az://{container.container_name}"
    for name in ("d/a.csv", "d/b.csv", "d/c.txt", "d/_SUCCESS", "e.csv"):
        container.upload_blob(name, TEXT)
    assert [file.address for file in list_files(f"{root}/d")] == [
        f"{root}/d/{name}" for name in ("a.csv", "b.csv", "c.txt")
    ]
    assert [file.address for file in list_files(f"{root}/*/*.csv")] == [f"{root}/d/a.csv", f"{root}/d/b.csv"]
    assert [file.address for file in list_files(f"{root}/e.csv")] == [f"{root}/e.csv"]
    assert len(Interactions.from_file(f"{root}/e.csv")) == 600


def test_a_file_that_could_not_be_fetched_is_fetched_again(container: Any, tmp_path: Path) -> None:
    address = f"az://{container.container_name}/a.csv"
    with pytest.raises(InputError, match="not found"):
        fetch(address, tmp_path)
    container.upload_blob("a.csv", TEXT)
    assert fetch(address, tmp_path).read_text() == TEXT


def test_a_file_a_folder_or_nothing_is_removed(container: Any) -> None:
    root = f"az://{container.container_name}"
    for name in ("d/a.json", "d/a.json2", "d/e/b.json", "f/c.json"):
        container.upload_blob(name, "{}")
    remove(f"{root}/d/a.json")
    assert names(container) == ["d/a.json2", "d/e/b.json", "f/c.json"]
    remove(f"{root}/d/a.json")
    remove(f"{root}/d")
    assert names(container) == ["f/c.json"]


def test_an_outline_shows_the_layout_of_a_large_file_of_any_name(container: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": np.random.default_rng(1).integers(0, 2**62, 1_500_000)}).with_columns(item=pl.lit(7))
    frame.write_parquet(tmp_path / "large")
    for name in ("large.parquet", "part-0001"):
        container.upload_blob(name, (tmp_path / "large").read_bytes())
        outline = fetch_outline(f"az://{container.container_name}/{name}", tmp_path)
        assert pl.read_parquet_schema(outline) == frame.schema
        assert pl.scan_parquet(outline).select(pl.len()).collect().item() == 1_500_000
        assert outline.stat().st_blocks * 512 < outline.stat().st_size == (tmp_path / "large").stat().st_size


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
@pytest.mark.filterwarnings("ignore::FutureWarning:pyspark", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tasks_of_spark_read_and_write_blobs(container: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from lorentzrec import TrainingConfig
    from lorentzrec.ingest.spark_engine import spark_engine
    from lorentzrec.spark import recommend_all, train

    text = "user,item,time\n" + "".join(f"u{n % 30},i{n * 7 % 53},{n}\n" for n in range(600))
    container.upload_blob("raw/a.csv", text)
    root = f"az://{container.container_name}"
    config = PrepareConfig(events=(f"{root}/raw",))
    training = TrainingConfig(dimension=4, epochs=2, negative_count=8, validation=9, threads=1)
    rounds: dict[str, Any] = {"workers": 2, "rounds": 2}
    with spark_engine(master="local[2]", memory="1g") as engine:
        there = prepare(config, f"{root}/out", engine)
        scratch = f"{root}/scratch"
        model = train(f"{root}/out", training, session=engine._session, scratch=scratch, **rounds)
        assert not [name for name in names(container) if name.startswith("scratch")]
        model.save(tmp_path / "model")
        recommend_all(tmp_path / "model", f"{root}/all", session=engine._session, k=2)
        here = prepare(config, tmp_path / "out")
        expected = train(tmp_path / "out", training, session=engine._session, scratch=tmp_path / "scratch", **rounds)
    assert there.digest == here.digest
    open_dataset(f"{root}/out").verify()
    assert model.item_points.tobytes() == expected.item_points.tobytes()
    assert {"all/_SUCCESS", "all/part-00000.parquet"} <= set(names(container))
    content = container.download_blob("all/part-00000.parquet").readall()
    assert pl.read_parquet(content).height == 60


def test_faults_leave_nothing_in_the_container(container: Any) -> None:
    root = f"az://{container.container_name}"
    container.upload_blob("a.csv", TEXT + "u1,i1\n")
    with pytest.raises(InputError, match=r"a\.csv line 602: 2 fields instead of 3"):
        prepare(PrepareConfig(events=(f"{root}/a.csv",)), f"{root}/out")
    assert names(container) == ["a.csv"]
    prepare(PrepareConfig(events=(f"{root}/a.csv",), on_error="skip"), f"{root}/out")
    assert "out/rejected.parquet" in names(container)


def test_a_failure_while_uploading_is_cleaned_up(container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lorentzrec.ingest import engine as engines

    root = f"az://{container.container_name}"
    container.upload_blob("a.csv", TEXT)

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engines, "write_events", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(PrepareConfig(events=(f"{root}/a.csv",)), f"{root}/out")
    assert names(container) == ["a.csv"]


def test_unusable_addresses_are_reported(container: Any, monkeypatch: pytest.MonkeyPatch, azurite: Azurite) -> None:
    root = f"az://{container.container_name}"
    with pytest.raises(InputError, match=r"not found|holds no files"):
        list_files(f"{root}/nothing.csv")
    with pytest.raises(InputError, match=r"az://no-such-container/a\.csv: not found"):
        list_files("az://no-such-container/a.csv")
    container.upload_blob("home/thesis.txt", b"years of work")
    container.upload_blob("a.csv", TEXT)
    with pytest.raises(InputError, match=r"holds files but no manifest\.json"):
        prepare(PrepareConfig(events=(f"{root}/a.csv",)), f"{root}/home")
    wrong = azurite.connection_string.replace(azurite.KEY, "d3Jvbmc=")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    with pytest.raises(InputError, match="access denied"):
        list_files(f"{root}/a.csv")
    unused = azurite.connection_string.replace(f":{azurite.port}/", f":{free_port()}/")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", unused)
    with pytest.raises(InputError, match="the storage cannot be used"):
        list_files(f"{root}/a.csv")
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    with pytest.raises(InputError, match="no Azure credentials"):
        list_files(f"{root}/a.csv")
