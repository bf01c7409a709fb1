"""Training on Spark: the runs of `lorentzrec.train`, with epochs that many workers share."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from lorentzrec.base.threads import available_cores
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest.dataset import Dataset, open_dataset
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.ingest.storage import join
from lorentzrec.learning.engine import (
    VALIDATION_METRIC,
    RunOptions,
    Table,
    TrainingRun,
    check_is_config,
    check_supported,
    run_training,
)
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.spark.runner import RoundRunner
from lorentzrec.spark.scratch import absolute, write_arrays
from lorentzrec.spark.tables import range_bounds
from lorentzrec.spark.tasks import Plan, held_out_file, left_out, release

ROUNDS = 8
"""Merges per epoch with several workers, unless given."""


def train(
    dataset: str | Path | Dataset,
    config: TrainingConfig | None = None,
    *,
    master: str | None = None,
    session: Any = None,
    workers: int | None = None,
    rounds: int | None = None,
    scratch: str | Path | None = None,
    metric: str = VALIDATION_METRIC,
    validate_every: int = 1,
    **options: Unpack[RunOptions],
) -> Model:
    """Learn the points on Spark, from the training part of a prepared dataset. A validation part chooses the best
    epoch, as `config.validation` does otherwise. One worker gives the points of `lorentzrec.train`, bit by bit.

    master: a master URL, or `sc://HOST` for Spark Connect; by default this machine.
    session: an existing session instead.
    workers: how many tasks share the customers; by default 1 on this machine. A cluster has no default.
    rounds: how often per epoch the points of the workers are merged.
    scratch: a folder that all workers reach, local or remote, for customers and points during training; by default a
    temporary one. Rounds that are complete there are not run again when the same training is started again, so that
    a run that was killed continues; after training they are removed.

    The other arguments, also `checkpoint`, `resume`, `progress` and `callbacks`, and Ctrl-C, are as in
    `lorentzrec.train`.
    """
    check_is_config(config)
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    config = config or TrainingConfig()
    check_supported("spark", config, {"model": "symmetric"})
    on_this_machine = session is None and (master is None or master.startswith("local"))
    if workers is None and not on_this_machine:
        raise InputError("a cluster has no default number of workers: set `workers`, such as one per executor")
    workers = 1 if workers is None else workers
    rounds = (ROUNDS if workers > 1 else 1) if rounds is None else rounds
    for name, value in (("workers", workers), ("rounds", rounds)):
        if value < 1:
            raise InputError(f"`{name}` is {value}: give 1 or more")
    threads = config.threads or (max(1, available_cores() // workers) if on_this_machine else None)
    parts = dataset.named_parts()
    data, validation = next(iter(parts.values())), parts.get("validation")
    with (
        _scratch(scratch, on_this_machine) as storage,
        spark_session(master=master, session=session, name="lorentzrec train") as started,
    ):

        def make_runner(learned: Interactions, resolved: ResolvedConfig, histories: Table, items: Table) -> RoundRunner:
            held_out = left_out(data, learned, orders=resolved.history == "orders")
            plan = _plan(dataset, resolved, storage, held_out, workers, rounds, threads)
            return RoundRunner(started, plan, rounds, resolved, histories, items)

        run = TrainingRun(data, config, validation, metric, validate_every, make_runner=make_runner)
        runner = run.runner
        assert isinstance(runner, RoundRunner)
        if workers > 1:
            run.note(NoteKind.WORKERS, workers=workers, rounds=rounds)
        model = run_training(run, **options)
        runner.remove_files()
    return model


@contextmanager
def _scratch(given: str | Path | None, on_this_machine: bool) -> Iterator[str]:
    if given is not None:
        yield absolute(given)
    elif on_this_machine:
        with tempfile.TemporaryDirectory(prefix="lorentzrec-rounds-") as folder:
            yield folder
    else:
        raise InputError("workers on other machines need a folder that all of them reach: set `scratch`")


def _plan(
    dataset: Dataset,
    config: ResolvedConfig,
    scratch: str,
    held_out: Any,
    workers: int,
    rounds: int,
    threads: int | None,
) -> Plan:
    """The plan of a run. Its folder is named after everything that its points depend on."""
    values = {name: value for name, value in config.to_dict().items() if name != "threads"}
    identity = [values, dataset.digest, held_out.tolist(), workers, rounds, release()]
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    folder = join(scratch, f"run-{key}")
    item_count = dataset.manifest["counts"]["items"]
    return Plan(
        folder=folder,
        dataset=absolute(dataset.address),
        digest=dataset.digest,
        held_out=write_arrays(held_out_file(folder), {"positions": held_out}),
        config=config.to_dict(),
        item_count=item_count,
        workers=workers,
        threads=threads,
        bounds=tuple(range_bounds(item_count, config.dimension)),
    )
