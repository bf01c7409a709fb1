"""Training on Spark itself: executors in processes of their own, a killed one, a killed driver, Spark Connect, Azurite.

Needs pyspark and Java. One cluster of two executors serves most tests of this file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, Model, TrainingConfig, load, train, update
from lorentzrec.batch.recommending import BatchOptions, recommend_to_all, source_of_model
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.spark import recommend_all, runner, tasks
from lorentzrec.spark import train as train_on_spark
from tests.saved_datasets import save_dataset
from tests.spark_marks import SPARK_MARKS

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = SPARK_MARKS

CONFIG = TrainingConfig(dimension=4, epochs=2, negative_count=16, validation=0.2, seed=3, threads=1)


def small_shop() -> Interactions:
    random = np.random.default_rng(0)
    return Interactions.from_pairs(random.integers(0, 200, 3000), random.zipf(1.5, 3000) % 90, np.arange(3000))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark") / "shop"
    save_dataset(small_shop(), folder)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with spark_session(master="local-cluster[2,1,4096]", memory="1g") as session:
        yield session


@pytest.fixture(scope="module")
def trained_by_two(cluster: Any, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    scratch = tmp_path_factory.mktemp("scratch")
    return train_on_spark(shop, CONFIG, session=cluster, workers=2, rounds=2, scratch=scratch)


def assert_same(ours: Model, theirs: Model) -> None:
    assert ours.item_points.tobytes() == theirs.item_points.tobytes()
    assert ours.masses is not None
    assert theirs.masses is not None
    assert ours.masses.tobytes() == theirs.masses.tobytes()
    assert ours.history_points.tobytes() == theirs.history_points.tobytes()
    assert ours.metrics == theirs.metrics


def executors() -> dict[int, str]:
    """Process id and command of the executors on this machine that this process has started."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in command and _descends(int(folder.name), os.getpid()):
            found[int(folder.name)] = command
    return found


def _descends(process: int, ancestor: int) -> bool:
    while process > 1 and process != ancestor:
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return process == ancestor


def test_one_worker_gives_the_bits_of_local_training(cluster: Any, shop: Path, tmp_path: Path) -> None:
    ours = train_on_spark(shop, CONFIG, session=cluster, workers=1, scratch=tmp_path)
    assert_same(ours, train(small_shop(), CONFIG))
    assert list(tmp_path.iterdir()) == []


def test_a_killed_executor_changes_nothing(cluster: Any, shop: Path, tmp_path: Path, trained_by_two: Model) -> None:
    killed: list[int] = []

    def kill() -> None:
        while not list(tmp_path.glob("run-*/rounds/0001-01")) and time.monotonic() < deadline:
            time.sleep(0.005)
        for process in list(executors())[:1]:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    deadline = time.monotonic() + 120
    before = set(executors())
    assert len(before) == 2
    thread = threading.Thread(target=kill)
    thread.start()
    ours = train_on_spark(shop, CONFIG, session=cluster, workers=2, rounds=2, scratch=tmp_path)
    thread.join()
    assert set(killed) & before
    assert_same(ours, trained_by_two)


def test_workers_of_another_version_are_refused(
    cluster: Any, tmp_path: Path, trained_by_two: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "release", lambda: ("0.0.1", "kernels-x"))  # here, not in the executors
    line = r"has lorentzrec \S+ and the driver 0\.0\.1: install the same version on all"
    with pytest.raises(InputError, match=line):
        tasks.run_each(cluster, tasks.write_shard, [0])
    trained_by_two.save(tmp_path / "model")
    with pytest.raises(InputError, match=line):
        recommend_all(tmp_path / "model", tmp_path / "all", session=cluster)


def test_scratch_that_cannot_be_written_is_one_line_and_keeps_the_last_round(
    cluster: Any, shop: Path, tmp_path: Path, trained_by_two: Model
) -> None:
    rounds: list[Path] = []

    def block() -> None:
        """Put a file where the folder of the last round would be."""
        while not rounds and time.monotonic() < deadline:
            rounds.extend(tmp_path.glob("run-*/rounds"))
            time.sleep(0.005)
        (rounds[0] / "0002-02").write_text("")

    deadline = time.monotonic() + 120
    thread = threading.Thread(target=block)
    thread.start()
    options: dict[str, Any] = {"session": cluster, "workers": 2, "rounds": 2, "scratch": tmp_path}
    options["checkpoint"] = tmp_path / "checkpoint"
    with pytest.raises(LorentzrecError, match=r"cannot write .*0002-02") as raised:
        train_on_spark(shop, CONFIG, **options)
    thread.join()
    assert "\n" not in str(raised.value)
    assert (rounds[0] / "0002-01" / "merged.json").is_file()
    (rounds[0] / "0002-02").unlink()
    assert_same(train_on_spark(shop, CONFIG, resume=True, **options), trained_by_two)


FAULTY = """
def train_part(number, **options):
    \"\"\"Worker 1 lacks something in the last round of the second epoch.\"\"\"
    import os, resource
    import numpy as np
    from lorentzrec.spark import tasks

    unlimited = resource.RLIM_INFINITY
    task = options["task"]
    if (number, task.epoch, task.part) == (1, 2, 1):
        if fault == "memory":
            np.ones(2**60, np.int8)
        if fault == "killed":
            os._exit(1)
        if fault == "temporary folder":
            raise OSError(28, os.strerror(28), "/tmp/lorentzrec-x/0000.safetensors")
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, unlimited))
    try:
        return tasks.train_part(number, **options)
    finally:  # the next task may run in the same process
        resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
"""


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            "memory",
            r"a worker has too little memory \(.*MemoryError: Unable to allocate .*\): set spark\.executor\.memory",
        ),
        (
            "killed",
            r"a worker has too little memory \(Python worker exited unexpectedly\): set spark\.executor\.memory",
        ),
        ("temporary folder", r"a worker has a full disk \(No space left on device\): make room there, or set TMPDIR"),
        ("scratch", r"cannot write .*0001-0000\.safetensors: File too large; make room or choose another disk"),
    ],
)
def test_what_a_worker_lacks_is_one_line_and_complete_rounds_are_kept(
    fault: str,
    line: str,
    cluster: Any,
    shop: Path,
    tmp_path: Path,
    trained_by_two: Model,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"__name__": "__main__", "fault": fault}  # of a function that is sent to the executors as it is
    exec(FAULTY, names)
    options: dict[str, Any] = {"session": cluster, "workers": 2, "rounds": 2, "scratch": tmp_path / "scratch"}
    options["checkpoint"] = tmp_path / "checkpoint"
    with monkeypatch.context() as patched:
        patched.setattr(runner, "train_part", names["train_part"])
        with pytest.raises(InputError, match=line) as raised:
            train_on_spark(shop, CONFIG, **options)
    assert "\n" not in str(raised.value)
    (rounds,) = tmp_path.glob("scratch/run-*/rounds")
    assert (rounds / "0002-01" / "merged.json").is_file()
    resumed = train_on_spark(shop, CONFIG, resume=True, **options)
    assert_same(resumed, trained_by_two)


def test_too_little_memory_per_executor_is_one_line(shop: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lorentzrec.cli", "train", str(shop), "--out", str(tmp_path / "model")]
    command += ["--engine", "spark", "--master", "local-cluster[2,1,1024]", "--workers", "2"]
    settings = "--conf spark.executor.memory=1g --conf spark.executor.pyspark.memory=400m pyspark-shell"
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": settings}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"error: a worker has too little memory \(.+\): set spark\.executor\.memory, .* run it again", line
    )


def test_recommendations_for_all_are_those_of_this_machine(cluster: Any, tmp_path: Path, trained_by_two: Model) -> None:
    trained_by_two.save(tmp_path / "model")
    here = recommend_to_all(source_of_model(tmp_path / "model"), tmp_path / "here.parquet", BatchOptions(k=3))
    there = recommend_all(tmp_path / "model", tmp_path / "there", session=cluster, k=3)
    assert there == here
    assert pl.read_parquet(tmp_path / "there").equals(pl.read_parquet(tmp_path / "here.parquet"))
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["part-00000.parquet"]
    with pytest.raises(InputError, match="already exists"):
        recommend_all(tmp_path / "model", tmp_path / "there", session=cluster)


def test_a_model_of_two_workers_is_updated_here(trained_by_two: Model) -> None:
    shop = small_shop()
    users, items = [*shop.users.ids(shop.user_rows), 1, 2], [*shop.items.ids(shop.item_rows), 999, 999]
    data = Interactions.from_pairs(users, items, [*np.asarray(shop.times).tolist(), 3000, 3001])
    updated = update(trained_by_two, data, progress=False)
    assert updated.item_ids == [*trained_by_two.item_ids, 999]
    assert not np.array_equal(updated.item_points[:-1], trained_by_two.item_points)


def test_a_killed_driver_is_resumed_by_the_command(shop: Path, tmp_path: Path, trained_by_two: Model) -> None:
    settings = [f"--set={name}={value}" for name, value in CONFIG.to_dict().items() if value is not None]
    command = [sys.executable, "-m", "lorentzrec.cli", "train", str(shop), "--out", str(tmp_path / "model"), *settings]
    command += ["--engine", "spark", "--master", "local[2]", "--workers", "2", "--rounds", "2"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("model.rounds/run-*/rounds/0001-01/merged.json")) and time.monotonic() < deadline:
        assert first.poll() is None
        time.sleep(0.005)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not (tmp_path / "model").exists()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "add --resume to continue it" in again.stderr
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_same(load(tmp_path / "model"), trained_by_two)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


CONNECT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from lorentzrec import TrainingConfig
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.spark import train

shop, out, scratch = sys.argv[1:]
config = TrainingConfig(dimension=4, epochs=2, negative_count=16, validation=0.2, seed=3, threads=1)
SparkSession.builder.remote("local[2]").getOrCreate()  # starts a server in this process
with spark_session(master="sc://localhost") as session:
    assert "connect" in type(session).__module__
    train(shop, config, session=session, workers=2, rounds=2, scratch=scratch).save(out)
"""


def test_spark_connect_gives_the_same_model(shop: Path, tmp_path: Path, trained_by_two: Model) -> None:
    """In a process of its own, which cannot have both kinds of session."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    arguments = [str(shop), str(tmp_path / "model"), str(tmp_path / "scratch")]
    done = subprocess.run([sys.executable, "-c", CONNECT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_same(load(tmp_path / "model"), trained_by_two)
