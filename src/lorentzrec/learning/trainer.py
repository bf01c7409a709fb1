"""Training: from interactions and a config to a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.learning.config import TrainingConfig
from lorentzrec.learning.model import Model
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.record import EpochRecord
from lorentzrec.learning.run import VALIDATION_METRIC, TrainingRun

_SECONDS_BETWEEN_CHECKPOINTS = 10.0


def train(
    data: Interactions,
    config: TrainingConfig | None = None,
    *,
    validation: Interactions | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    metric: str = VALIDATION_METRIC,
    validate_every: int = 1,
    watch: Callable[[EpochRecord], None] | None = None,
) -> Model:
    """Learn the points. Hyper-parameters that `config` leaves open are decided from the data; the model's config has
    them all.

    validation: events to choose the best epoch by, in the vocabularies of `data`; without them, `config.validation`
    holds some out.
    checkpoint: a folder that is written as training goes on; with `resume`, training continues from it.
    progress: show a bar on standard error; None does where that is a terminal.
    metric: of full ranking, what the best epoch is chosen by: "ndcg@10", "recall@20", ...
    validate_every: validate after every so many epochs, and after the last.
    watch: told the record of each epoch as it ends; what it raises ends training and goes to the caller.

    Ctrl-C ends training early and returns the model so far (the best one, where there is validation); its notes say
    so.
    """
    refuse_other_data(data, "train")
    if config is not None and not isinstance(config, TrainingConfig):
        raise ConfigError(f"config is a {type(config).__name__}: give TrainingConfig(dimension=20, ...)")
    run = TrainingRun.begin(data, config, validation, metric, validate_every)
    if resume:
        if checkpoint is None:
            raise InputError("resume without a checkpoint: name the folder of the checkpoint")
        run.restore(Checkpoint.load(checkpoint))
    with TrainingProgress(progress, run.epochs, run.runner.positives, done=len(run.record)) as shown:
        shown.say([f"training {run.learned!r}", _summary(run.config), *run.notes])
        saved = time.monotonic()
        cancelled = threading.Event()
        try:
            while not run.finished:
                record = run.epoch(shown, cancelled)
                shown.end(record)
                if watch is not None:
                    watch(record)
                if checkpoint is not None and (run.finished or time.monotonic() - saved > _SECONDS_BETWEEN_CHECKPOINTS):
                    run.checkpoint().save(checkpoint)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            cancelled.set()
            run.notes.append(f"stopped by Ctrl-C in epoch {len(run.record) + 1} of {run.epochs}")
            shown.say(run.notes[-1:])
    return run.result()


def _summary(config: TrainingConfig) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.to_dict().items() if value is not None)
