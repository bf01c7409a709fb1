"""Training in rounds, with tasks that run one after another in this process: what workers write, what is run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import Interactions, Model, TrainingConfig, train
from lorentzrec.errors import ConfigError, InputError, LorentzrecError, StopTraining
from lorentzrec.learning import recency_choice
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.model.notes import NoteKind
from lorentzrec.spark import recommend_all, tables, tasks
from lorentzrec.spark.tasks import Work
from lorentzrec.spark.training import train as train_on_spark
from tests.saved_datasets import save_dataset
from tests.spark.executor import Damaging, Executor

CONFIG = TrainingConfig(dimension=4, epochs=3, negative_count=16, validation=0.2, seed=3, blocks_per_step=2, threads=1)


def small_shop(**columns: Any) -> Interactions:
    random = np.random.default_rng(0)
    return Interactions.from_pairs(
        random.integers(0, 200, 3000), random.zipf(1.5, 3000) % 90, np.arange(3000), **columns
    )


def learn(folder: Path, execute: Executor | None = None, config: TrainingConfig = CONFIG, **options: Any) -> Model:
    if not (folder / "shop").exists():
        save_dataset(small_shop(), folder / "shop")
    chosen: dict[str, Any] = {"workers": 1, "rounds": 1, "scratch": folder / "scratch"} | options
    return train_on_spark(folder / "shop", config, session=execute or Executor(), **chosen)


def assert_same(ours: Model, theirs: Model) -> None:
    assert ours.item_points.tobytes() == theirs.item_points.tobytes()
    assert (ours.masses is None) == (theirs.masses is None) == (ours.config.masses == "off")
    if ours.masses is not None and theirs.masses is not None:
        assert ours.masses.tobytes() == theirs.masses.tobytes()
    assert ours.history_points.tobytes() == theirs.history_points.tobytes()
    assert ours.metrics == theirs.metrics
    assert [epoch.validation for epoch in ours.record] == [epoch.validation for epoch in theirs.record]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"geometry": "euclidean"},
        {"optimiser": "adam"},
        {"optimiser": "rsgd"},
        {"history": "folds", "validation": 9},
    ],
    ids=str,
)
def test_one_worker_gives_the_bits_of_local_training(tmp_path: Path, rounds: int, changes: dict[str, Any]) -> None:
    config = CONFIG.replace(**changes)
    theirs = train(small_shop(), config)
    ours = learn(tmp_path, config=config, rounds=rounds)
    assert_same(ours, theirs)
    assert ours.data_digest == theirs.data_digest
    assert ours.notes == theirs.notes
    assert list((tmp_path / "scratch").iterdir()) == []


def test_weights_labels_and_a_validation_part_reach_the_workers(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    events = small_shop(weights=random.random(3000) + 0.5, labels=random.random(3000) < 0.6)
    parts = events.split("leave_last_two")
    save_dataset(dict(zip(("train", "validation", "test"), parts, strict=True)), tmp_path / "shop")
    assert_same(learn(tmp_path, rounds=2), train(parts[0], CONFIG, validation=parts[1]))


def shop_of_orders(**columns: Any) -> Interactions:
    """Orders of up to some items, by number or by time, with weights and labels."""
    random = np.random.default_rng(2)
    users, times = random.integers(0, 150, 3000), random.integers(0, 12, 3000)
    weights, labels = random.random(3000) + 0.5, random.random(3000) < 0.8
    columns = {"weights": weights, "labels": labels} | columns
    if columns.pop("numbered", False):  # orders whose times overlap
        columns["orders"] = users * 100 + times // 2
    return Interactions.from_pairs(users, random.zipf(1.5, 3000) % 90, times, **columns)


@pytest.mark.parametrize("numbered", [False, True])
def test_orders_reach_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbered: bool) -> None:
    """Recency is chosen, newest orders are held out and learned last: the points are those of local training."""
    monkeypatch.setattr(recency_choice, "FEWEST_CUSTOMERS", 5)
    data, config = shop_of_orders(numbered=numbered), CONFIG.replace(epochs=4, validation=0, memory="auto")
    theirs = train(data, config, progress=False)
    assert theirs.config.history == "orders"
    save_dataset(data, tmp_path / "shop")
    ours = learn(tmp_path, config=config, rounds=2)
    assert_same(ours, theirs)
    assert ours.config == theirs.config
    assert ours.notes == theirs.notes
    assert NoteKind.NEWEST_LEARNED in {note.kind for note in ours.note_records}


def test_a_validation_part_of_orders(tmp_path: Path) -> None:
    data = shop_of_orders()
    validated = CONFIG.replace(validation=0.3, memory="none", recency=0.9)
    save_dataset(data, tmp_path / "shop")
    assert_same(learn(tmp_path, config=validated), train(data, validated, progress=False))


def test_several_workers_learn_and_several_ranges_are_merged_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.replace(epochs=6)
    ours = learn(tmp_path, config=config, workers=3, rounds=2)
    (note,) = [one for one in ours.note_records if one.kind is NoteKind.WORKERS]
    assert note.values == {"workers": 3, "rounds": 2}
    monkeypatch.setattr(tables, "BYTES_PER_RANGE", 500)
    execute = Executor()
    assert_same(learn(tmp_path, execute, config=config, workers=3, rounds=2), ours)
    assert ("merge_range", 4) in execute.ran
    losses = [epoch.loss for epoch in ours.record]
    assert losses[-1] < 0.8 * losses[0]


def test_more_workers_than_customers(tmp_path: Path) -> None:
    save_dataset(Interactions.from_pairs([0, 0, 1, 1, 2], [0, 1, 1, 2, 0], range(5)), tmp_path / "shop")
    assert len(learn(tmp_path, config=CONFIG.replace(validation=0), workers=5).record) == 3


def test_a_task_that_runs_twice_writes_the_same(tmp_path: Path) -> None:
    class Twice(Executor):
        def __call__(self, work: Work, numbers: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
            first = super().__call__(work, numbers, options)
            second = super().__call__(work, list(reversed(numbers)), options)
            for result in (*first.values(), *second.values()):
                result.get("measured", {}).pop("seconds", None)  # all else is the same
            assert first == second
            return first

    assert_same(learn(tmp_path, Twice(), workers=2, rounds=2), learn(tmp_path, workers=2, rounds=2))


class Killed(Executor):
    """Fails before the n-th time that parts are trained, or ranges merged."""

    def __init__(self, work: str, count: int) -> None:
        super().__init__()
        self.work, self.count = work, count

    def __call__(self, work: Work, numbers: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
        if work.__name__ == self.work:
            self.count -= 1
            if self.count < 0:
                raise ConnectionError("the driver is gone")
        return super().__call__(work, numbers, options)


@pytest.mark.parametrize(
    ("work", "count"), [("train_part", 1), ("merge_range", 1), ("train_part", 4), ("merge_range", 4)]
)
def test_a_killed_run_continues_with_the_last_complete_round(
    tmp_path: Path, work: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rounds per epoch: 1 is in the first epoch, before there is a checkpoint, and 4 in the third."""
    whole = learn(tmp_path, workers=2, rounds=2)
    options: dict[str, Any] = {"workers": 2, "rounds": 2, "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(ConnectionError):
        learn(tmp_path, Killed(work, count), **options)
    execute = Executor()
    monkeypatch.setattr(tasks, "read_shard", None)  # shards are not written again
    resumed = learn(tmp_path, execute, resume=count > 2, **options)
    assert_same(resumed, whole)
    trained = [name for name, _ in execute.ran].count("train_part")
    complete = count if work == "train_part" else count + 1  # parts that were trained are not trained again
    assert trained == 2 * (6 - complete)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.unlink(),
        lambda path: path.with_name(f"{path.name}.json").write_bytes(b"\xff"),
        lambda path: path.with_name(f"{path.name}.json").write_text("{}"),
    ],
    ids=["truncated", "missing", "record-not-utf-8", "empty-record"],
)
def test_a_damaged_shard_is_written_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    whole = learn(tmp_path, workers=2, rounds=2)
    options: dict[str, Any] = {"workers": 2, "rounds": 2, "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(ConnectionError):
        learn(tmp_path, Killed("train_part", 4), **options)
    (shard,) = (tmp_path / "scratch").glob("run-*/shards/0001.safetensors")
    damage(shard)
    assert_same(learn(tmp_path, resume=True, **options), whole)


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_damaged_changes_are_computed_again(tmp_path: Path, damage: str) -> None:
    def flip_or_remove(task: tasks.Round) -> None:
        file = Path(task.changes, "0001-0000.safetensors")
        content = bytearray(file.read_bytes())
        content[-3] ^= 1
        file.write_bytes(content)
        if damage == "missing":
            file.unlink()

    whole = learn(tmp_path, workers=2)
    execute = Damaging(flip_or_remove)
    assert_same(learn(tmp_path, execute, workers=2), whole)
    assert execute.ran.count(("train_part", 1)) == 4
    assert execute.ran.count(("train_part", 0)) == 3
    with pytest.raises(LorentzrecError, match=r"files of workers \[1\] .* were damaged 3 times: check the storage"):
        learn(tmp_path, Damaging(flip_or_remove, times=10), workers=2)


def test_a_dataset_that_changes_before_its_customers_are_read(tmp_path: Path) -> None:
    class Changing(Executor):
        def __call__(self, work: Work, numbers: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
            if work is tasks.write_shard:
                save_dataset(Interactions.from_pairs([0, 0, 1], [0, 1, 1], range(3)), tmp_path / "shop")
            return super().__call__(work, numbers, options)

    with pytest.raises(InputError, match=r"shop was changed during training: train again"):
        learn(tmp_path, Changing())


def test_a_checkpoint_of_other_workers_or_data_is_refused(tmp_path: Path) -> None:
    def stop(record: object) -> None:
        raise StopTraining

    options: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint"}
    learn(tmp_path, workers=2, rounds=2, callbacks=[stop], **options)
    with pytest.raises(ConfigError, match=r"made with workers=2 and rounds=2: set it back"):
        learn(tmp_path, workers=2, rounds=3, resume=True, **options)
    with pytest.raises(ConfigError, match=r"made with workers=2 and rounds=2: set it back"):
        learn(tmp_path, resume=True, **options)
    save_dataset(Interactions.from_pairs([0, 0, 1, 1], [0, 1, 1, 2], range(4)), tmp_path / "shop")
    with pytest.raises(ConfigError, match="the checkpoint belongs to other data"):
        learn(tmp_path, workers=2, rounds=2, resume=True, config=CONFIG.replace(validation=0), **options)


def test_a_checkpoint_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(record: object) -> None:
        raise StopTraining

    options: dict[str, Any] = {"workers": 2, "rounds": 2, "checkpoint": tmp_path / "checkpoint"}
    learn(tmp_path, callbacks=[stop], **options)
    loaded: list[Path] = []
    load = Checkpoint.load

    def noted(folder: Path) -> Checkpoint:
        loaded.append(folder)
        return load(folder)

    monkeypatch.setattr(Checkpoint, "load", noted)
    learn(tmp_path, resume=True, **options)
    assert loaded == [tmp_path / "checkpoint"]


@pytest.mark.parametrize("name", ["all.json", "all.v1"])
def test_recommendations_in_an_unknown_format_are_refused_before_the_work(tmp_path: Path, name: str) -> None:
    learn(tmp_path).save(tmp_path / "model")
    execute = Executor()
    with pytest.raises(InputError, match=r"unknown format \.(json|v1): end the name in \.parquet, \.csv, \.jsonl"):
        recommend_all(tmp_path / "model", tmp_path / name, session=execute)
    assert execute.ran == []
    assert not [path for path in tmp_path.iterdir() if "all" in path.name]


def test_what_spark_cannot_train_is_refused_before_it_starts(tmp_path: Path) -> None:
    save_dataset(small_shop(), tmp_path / "shop")
    with pytest.raises(ConfigError, match="the spark engine does not support model=symmetric: leave it out"):
        train_on_spark(tmp_path / "shop", TrainingConfig(model="symmetric"))
    with pytest.raises(InputError, match="set `workers`"):
        train_on_spark(tmp_path / "shop", master="spark://nowhere:7077")
    with pytest.raises(InputError, match="set `scratch`"):
        train_on_spark(tmp_path / "shop", master="spark://nowhere:7077", workers=2)
    with pytest.raises(InputError, match="`rounds` is 0"):
        train_on_spark(tmp_path / "shop", workers=2, rounds=0)
    with pytest.raises(InputError, match=r"no server at 127\.0\.0\.1:9 .* start Spark's master there"):
        train_on_spark(tmp_path / "shop", master="spark://127.0.0.1:9", workers=2, scratch=tmp_path)
    with pytest.raises(InputError, match=r"no server at 127\.0\.0\.1:9"):
        train_on_spark(tmp_path / "shop", master="sc://127.0.0.1:9", workers=2, scratch=tmp_path)
