"""The pipeline on small data, with real Azurite, Spark, TensorFlow, cosmosdb-server and service."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.studies.parts import PartStore
from lorentzrec.synthetic.shop import SyntheticConfig
from lorentzrec_paper import pipeline, servers
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context
from tests.cli.command_line import error_of, run
from tests.emulators import Azurite, CosmosEmulator, MissingServer
from tests.serving.running_service import shop_store

SHARED = ["events to the container", "start Spark", "prepare on Spark", "histories to the store"]
OF_AN_ENGINE = ["start, read, compile, save", "train", "publish to the store", "start the service", "recommend"]


@pytest.fixture
def all_installed() -> None:
    for package in ("obstore", "azure.storage.blob", "azure.cosmos", "pyspark", "keras", "tensorflow"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    try:
        for server in (Azurite(), CosmosEmulator()):
            server.remove()
    except MissingServer as missing:
        pytest.skip(str(missing))


@pytest.mark.azure
@pytest.mark.cosmos
@pytest.mark.keras
@pytest.mark.spark
@pytest.mark.usefixtures("all_installed")
@pytest.mark.filterwarnings("ignore::FutureWarning:pyspark", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_from_events_to_recommendations_with_both_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_CONNECTION_STRING", "COSMOS_KEY", "KERAS_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    (found,) = json.loads(run("reproduce", "pipeline", "--quick", "--out", tmp_path, "--json").stdout)
    changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
    assert changed <= {"PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}
    times, quality = found["tables"]
    stages = [(name, engine) for name, engine, *_ in times["rows"]]
    assert stages == [
        *((name, "both") for name in SHARED),
        *((name, engine) for engine in ("Keras on tensorflow", "local") for name in OF_AN_ENGINE),
    ]
    assert all(seconds > 0 for *_, seconds in times["rows"])
    assert times["rows"][0][2] == times["rows"][2][2] == "4,000 events"
    for _, ndcg, _, requests, same in quality["rows"]:
        assert same == requests == 20
        assert ndcg > 0.1  # a random order of 120 items has 0.04
    assert [verdict["status"] for verdict in found["verdicts"]] == ["holds", "holds"]
    assert "| train | Keras on tensorflow | 2 epochs |" in (tmp_path / "pipeline" / "table.md").read_text()


def test_a_store_with_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "refuse_missing", lambda *_: None)
    store = shop_store(tmp_path)
    versions = store.versions()
    options = ("--blobs", tmp_path / "blobs", "--store", f"file:{tmp_path / 'store'}", "--out", tmp_path / "out")
    assert "has versions, which this would replace: give an empty store" in error_of("reproduce", "pipeline", *options)
    assert store.versions() == versions
    assert not (tmp_path / "blobs").exists()
    store.close()


def test_events_that_are_there_are_used(tmp_path: Path) -> None:
    said: list[str] = []
    watch = pipeline.Stopwatch(Context(DataFolder(), PartStore(tmp_path / "parts"), say=said.append))
    shop = SyntheticConfig(customers=20, items=30, interactions=60)
    assert not pipeline.upload_events(str(tmp_path / "blobs"), shop, tmp_path, watch)
    files = sorted((tmp_path / "blobs" / "events").iterdir())
    assert [file.read_bytes() for file in files] == [
        file.read_bytes() for file in sorted((tmp_path / "shop" / "events").iterdir())
    ]
    assert pipeline.upload_events(str(tmp_path / "blobs"), shop, tmp_path, watch)
    assert len(said) == len(watch.stages) == 1


def test_what_is_missing_is_named_with_the_next_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> Any:
        return None

    monkeypatch.setattr(pipeline, "find_spec", find_nothing)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    line = error_of("reproduce", "pipeline", "--out", tmp_path)
    assert f"obstore ({how_to_install('azure')})" in line
    assert "tensorflow (pip install tensorflow, or set KERAS_BACKEND" in line
    assert not (tmp_path / "pipeline").exists()


def test_a_missing_emulator_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "refuse_missing", lambda *_: None)
    copied = shutil.copy(pipeline.EMULATORS, tmp_path)  # there are no programs next to it
    monkeypatch.setattr(pipeline, "EMULATORS", Path(copied))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    line = error_of("reproduce", "pipeline", "--out", tmp_path)
    assert line.endswith("azurite-blob is not installed: install Node.js, then run npm install --global azurite")


def test_an_installation_has_no_emulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "refuse_missing", lambda *_: None)
    monkeypatch.setattr(pipeline, "EMULATORS", tmp_path / "emulators.py")
    line = error_of("reproduce", "pipeline", "--out", tmp_path)
    assert line.endswith("give --blobs and --store, or run it from a checkout")


def test_a_server_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    command = ["python", "-c", "raise SystemExit('no luck')"]
    with pytest.raises(Exception, match=r"python -c .* does not start \(no luck\): run it to see why"):
        servers.Server(command, servers.free_port(), tmp_path).start()
