"""How tasks run on the workers, and the tasks of training: cut out the customers of a worker, train on them, merge
ranges of rows.

Tasks depend on nothing but their arguments and the files they name, and write the same files when they run again.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec._version import __version__
from lorentzrec.data.arrays import gather_groups, make_mask, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.spark_session import in_tasks, report_in_one_line
from lorentzrec.ingest.storage import join, read_record, write_record
from lorentzrec.learning.engine import EpochRunner, identify_kernels, make_table
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.spark.scratch import Damaged, is_whole, read_arrays, write_arrays
from lorentzrec.spark.tables import (
    cut_ranges,
    find_changes,
    load_states,
    merge,
    read_range,
    view_states,
    write_range,
)

if TYPE_CHECKING:
    import pyarrow as pa


Work: TypeAlias = Callable[..., dict[str, Any]]
"""What a task does: called with its number and with options that all tasks share."""


@dataclass(frozen=True)
class Plan:
    """What all tasks of a training run share."""

    folder: str
    """Of the run, in the scratch storage."""
    dataset: str
    digest: str
    held_out: str
    """Checksum of the file with the events that no worker learns from."""
    config: dict[str, Any]
    item_count: int
    workers: int
    threads: int | None
    """Per worker; see `choose_threads`."""
    bounds: tuple[int, ...]
    """Where ranges of rows begin, and the end."""


@dataclass(frozen=True)
class Round:
    """One round: a part of an epoch, from the points in one folder to those in another."""

    epoch: int
    learning_rate: float
    part: int
    parts: int
    start: str
    start_checksums: tuple[str, ...]
    folder: str

    @property
    def changes(self) -> str:
        """The folder of the rows that workers changed, until they are merged."""
        return join(self.folder, "changes")


@cache
def release() -> tuple[str, str]:
    """The version of this package, and what its kernels are compiled from."""
    return __version__, identify_kernels()


def run_each(session: Any, work: Work, numbers: Iterable[int], **options: Any) -> dict[int, dict[str, Any]]:
    """`work(number, **options)` for each number, in a task of its own; the results by number."""
    numbers = list(numbers)
    if not numbers:
        return {}
    task = in_tasks(_run_tasks, work=work, numbers=numbers, options=options, expected=release())
    with report_in_one_line():
        found = session.range(0, len(numbers), 1, len(numbers)).mapInArrow(task, "result string").collect()
    return dict(json.loads(row.result) for row in found)


def _run_tasks(
    batches: Iterator[pa.RecordBatch],
    *,
    work: Work,
    numbers: list[int],
    options: dict[str, Any],
    expected: tuple[str, str],
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: work for the numbers at the indices that come in, with number and result as JSON."""
    import pyarrow as pa

    if release() != expected:
        other = f" with other kernels ({release()[1]})" if release()[0] == expected[0] else ""
        raise InputError(
            f"worker {socket.gethostname()} has lorentzrec {release()[0]}{other} and the driver {expected[0]}: "
            "install the same version on all"
        )
    for batch in batches:
        for index in batch.column(0).to_pylist():
            result = json.dumps([numbers[index], work(numbers[index], **options)])
            yield pa.RecordBatch.from_arrays([pa.array([result])], names=["result"])


def choose_threads(given: int | None) -> int:
    """The threads of a task: those given, or as many as Spark gives it (`spark.task.cpus`)."""
    return given or int(os.environ.get("OMP_NUM_THREADS") or 1)


def left_out(data: Interactions, learned: Interactions, *, orders: bool = False) -> NDArray[np.int64]:
    """Positions of the events of `data` that are not in `learned`, which lacks at most one event of a customer, or with
    `orders` at most the newest order."""
    shorter = np.flatnonzero(data.lengths != learned.lengths)
    if orders:
        newest = np.zeros(len(data.users), np.int64)
        np.maximum.at(newest, data.user_rows, data.order_positions)
        lacking = make_mask(shorter, len(data.users))[data.user_rows]
        return np.flatnonzero(lacking & (data.order_positions == newest[data.user_rows]))
    positions, events = gather_groups(data.offsets, shorter)
    within = events - data.offsets[shorter][positions]
    # the same position in the other history; the last event has no counterpart
    others = np.minimum(within, learned.lengths[shorter][positions] - 1) + learned.offsets[shorter][positions]
    differs = within == data.lengths[shorter][positions] - 1
    for name, values in data.event_columns().items():
        differs |= values[events] != learned.event_columns()[name][others]
    first = np.flatnonzero(differs)
    return events[first[np.unique(positions[first], return_index=True)[1]]]


def shard_file(plan: Plan, worker: int) -> str:
    return join(plan.folder, "shards", f"{worker:04d}.safetensors")


def held_out_file(folder: str) -> str:
    return join(folder, "held-out.safetensors")


def part_record(task: Round, worker: int) -> str:
    return join(task.changes, f"{worker:04d}.json")


def write_shard(number: int, *, plan: Plan) -> dict[str, Any]:
    """Write the customers of a worker to the scratch storage, unless they are there."""
    found = read_record(f"{shard_file(plan, number)}.json")
    if found is not None and is_whole(shard_file(plan, number), found.get("checksum")):
        return found
    held_out = read_arrays(held_out_file(plan.folder), plan.held_out)["positions"]
    orders = plan.config["history"] == "orders"
    arrays = read_shard(plan.dataset, plan.digest, held_out, number, plan.workers, orders=orders)
    record = {"checksum": write_arrays(shard_file(plan, number), arrays)}
    write_record(f"{shard_file(plan, number)}.json", record)
    return record


def read_shard(
    address: str, digest: str, held_out: NDArray[np.int64], worker: int, workers: int, *, orders: bool = False
) -> dict[str, NDArray[Any]]:
    """The events of the customers `worker`, `worker + workers`, ... of a dataset's training part, without those that
    are held out: `lengths` of their histories, `item_rows`, `weights` and `labels` if there are any, and with `orders`
    the number of each event's order, whose events follow one another.

    Rows are numbered by frequency, so that every n-th customer gives all workers the same mix of long and short
    histories. held_out: positions of events in the training part.
    """
    import polars as pl

    dataset = open_dataset(address)
    if dataset.digest != digest:
        raise InputError(f"{address} was changed during training: train again")
    wanted = ("weight", "label", "time", "order") if orders else ("weight", "label")
    names = [name for name in wanted if name in dataset.manifest["columns"]]
    events = (
        dataset.scan_training()
        .select("user_row", "item_row", *names)
        .with_row_index("position")
        .filter(pl.col("user_row") % workers == worker)
        .collect(engine="streaming")
    )
    if len(held_out):
        events = events.filter(~pl.col("position").is_in(held_out))
    count = -(-(dataset.manifest["counts"]["users"] - worker) // workers)
    lengths = np.bincount(events["user_row"].to_numpy() // workers, minlength=count).astype(np.int32)
    arrays: dict[str, Any] = {f"{name}s": events[name].to_numpy() for name in ("item_row", *names)}
    if orders:
        given = dataset.manifest.get("ties") == "given"
        data = make_interactions(
            {"lengths": lengths, "ties_given": given} | arrays, dataset.manifest["counts"]["items"]
        )
        data = data.with_orders_together()
        arrays = {name: values for name, values in data.event_columns().items() if name != "times"}
        arrays["orders"] = data.order_positions
    return {"lengths": lengths} | arrays


def make_interactions(arrays: dict[str, Any], item_count: int) -> Interactions:
    """A shard as interactions with numbers as ids."""
    lengths = arrays.pop("lengths")
    users, items = Vocabulary.numbered(len(lengths), name="user"), Vocabulary.numbered(item_count, name="item")
    return Interactions(users, items, make_offsets(lengths.astype(np.int64)), **arrays)


class _Worker:
    """The customers and tables of a worker. Python processes are reused, and so is the last worker of each."""

    latest: _Worker | None = None

    def __init__(self, plan: Plan, number: int) -> None:
        self.plan, self.number = plan, number
        record = read_record(f"{shard_file(plan, number)}.json")
        if record is None:
            raise Damaged(f"{shard_file(plan, number)} is not complete: resume")
        data = make_interactions(read_arrays(shard_file(plan, number), record["checksum"]), plan.item_count)
        config = ResolvedConfig.from_mapping(
            # what is sampled follows from the seed and the customer's row, which other workers have as well
            plan.config | {"threads": choose_threads(plan.threads), "seed": plan.config["seed"] ^ (number << 40)}
        )
        space = np.zeros((plan.item_count, config.dimension), np.float32)
        items = make_table(space, config)
        histories = make_table(space, config) if config.targets == "separate" else items
        self.states = view_states(histories, items, config)
        try:
            self.runner: EpochRunner | None = EpochRunner(data, config, histories, items)
        except InputError:  # with as many workers as customers, some have nobody to learn from
            self.runner = None

    @classmethod
    def open(cls, plan: Plan, number: int) -> _Worker:
        if cls.latest is None or (cls.latest.plan, cls.latest.number) != (plan, number):
            cls.latest = None  # free the memory first
            cls.latest = cls(plan, number)
        return cls.latest


def train_part(number: int, *, plan: Plan, task: Round) -> dict[str, Any]:
    """Train on a part of a worker's customers, and write the rows that it changed."""
    worker = _Worker.open(plan, number)
    load_states(task.start, task.start_checksums, plan.bounds, worker.states)
    before = {side: {name: array.copy() for name, array in state.items()} for side, state in worker.states.items()}
    measured: dict[str, Any] = {}
    if worker.runner is not None:
        started = time.perf_counter()
        result = worker.runner.run(
            task.epoch,
            task.learning_rate,
            lambda positives, loss: None,
            threading.Event(),
            part=task.part,
            parts=task.parts,
        )
        measured = asdict(result) | {"seconds": time.perf_counter() - started}
    pairs = zip(*(cut_ranges(states, plan.bounds) for states in (before, worker.states)), strict=True)
    checksums = []
    for index, (old, new) in enumerate(pairs):
        changes = {side: find_changes(old[side], state) for side, state in new.items()}
        checksums.append(write_range(task.changes, index, changes, name=f"{number:04d}"))
    record = {"checksums": checksums, "measured": measured}
    write_record(part_record(task, number), record)
    return record


def merge_range(number: int, *, plan: Plan, task: Round, checksums: list[list[str]]) -> dict[str, Any]:
    """Merge what the workers changed in a range of rows; `checksums` has those of each worker's files. Returns the
    checksum of the result, or the workers whose files are damaged."""
    before = read_range(task.start, number, task.start_checksums[number])
    copies, damaged = [], []
    for worker, own in enumerate(checksums):
        try:
            copies.append(read_range(task.changes, number, own[number], name=f"{worker:04d}"))
        except Damaged:
            damaged.append(worker)
    if damaged:
        return {"damaged": damaged}
    hyperbolic = plan.config["geometry"] == "hyperboloid"
    merged = {
        side: merge(state, [copy[side] for copy in copies], hyperbolic=hyperbolic) for side, state in before.items()
    }
    return {"checksum": write_range(task.folder, number, merged)}
