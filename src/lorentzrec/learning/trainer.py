"""Training: from interactions and a config to a model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from lorentzrec.base.atomic import refuse_unwritable
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.joining import reindex
from lorentzrec.errors import ConfigError, InputError, LorentzrecError, StopTraining, TrainingInterrupted
from lorentzrec.learning.checkpoint import Checkpoint, is_checkpoint
from lorentzrec.learning.progress import TrainingProgress, print_end
from lorentzrec.learning.run import VALIDATION_METRIC, TrainingRun
from lorentzrec.learning.warm_start import with_items_of
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.record import EpochRecord

_LOG = logging.getLogger(__name__)


class RunOptions(TypedDict, total=False):
    """Arguments of `train` that every engine has and passes to `run_training`."""

    checkpoint: str | Path | None
    resume: bool
    progress: bool | None
    callbacks: Sequence[Callable[[EpochRecord], None]]


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
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
    attributes: Any = None,
    complements: bool | None = None,
    start: Model | None = None,
) -> Model:
    """Learn the points. Hyper-parameters that `config` leaves open are chosen from the data; the model's config has
    them all.

    validation: events to choose the best epoch by, in the vocabularies of `data`; without them, `config.validation`
    holds some out.
    checkpoint: a folder that is written after every epoch. If the disk is full or fails, training continues without it,
    with a warning in the log and a note.
    resume: continue from the checkpoint, after the last epoch that was finished. If there is no checkpoint, because
    the run was stopped before the end of its first epoch, training starts with the first one, with a note.
    progress: True shows a bar on standard error, and False nothing. None shows a bar on a terminal and a line per epoch
    in a notebook; anywhere else a line before the kernels are compiled, once per machine, and a line at the end.
    metric: of full ranking, what the best epoch is chosen by: "ndcg@10", "recall@20", ...
    validate_every: validate after every 1, 2, ... epochs, and after the last.
    callbacks: each is called with the record of an epoch as it ends; docs/training.md has examples for loggers. If
    one raises `StopTraining`, training ends and the model so far is returned. Any other exception goes to the caller,
    with the model so far as its attribute `model`.
    attributes: what items' points are composed of: `ItemAttributes`, or a data frame with a column `item`, whose other
    columns but title and image are attributes.
    complements: learn from orders what is bought together, which `Model.complete` makes outfits by. None: if at least
    half of the events have an order with several events.
    start: a model to continue from. Its items keep their points and come first, new ones are placed as by
    `Model.add_items`, and `config`, or what it leaves open, is that of the model, with 2 epochs at its last learning
    rate. It keeps its attributes, for items of which `attributes` has none. `lorentzrec.update` trains only on what is
    new, and a sample of the rest.

    Ctrl-C raises `TrainingInterrupted`, a `KeyboardInterrupt` whose `model` is the model so far (the best one, where
    there is validation), or None before the end of the first epoch.
    """
    run = prepare_run(
        data,
        config,
        validation=validation,
        metric=metric,
        validate_every=validate_every,
        attributes=attributes,
        complements=complements,
        start=start,
    )
    model = run_training(run, checkpoint, resume, progress, callbacks)
    if progress is None:
        print_end(model)
    return model


def prepare_run(
    data: Interactions,
    config: TrainingConfig | None = None,
    *,
    validation: Interactions | None = None,
    metric: str = VALIDATION_METRIC,
    validate_every: int = 1,
    attributes: Any = None,
    complements: bool | None = None,
    start: Model | None = None,
) -> TrainingRun:
    """The run of `train`, before its first epoch. The arguments are those of `train`."""
    check_is_interactions(data, "train")
    check_is_config(config)
    if start is not None:
        data = with_items_of(start, data)
        validation = None if validation is None else reindex(validation, validation.users, data.items)
    return TrainingRun(
        data,
        config,
        validation,
        metric,
        validate_every,
        start=start,
        attributes=attributes,
        complements=complements,
    )


def run_training(
    run: TrainingRun,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
) -> Model:
    """Run the remaining epochs of a run and build its model. The other arguments are those of `train`."""
    if resume:
        if checkpoint is None:
            raise InputError("resume without a checkpoint: name the folder of the checkpoint")
        if is_checkpoint(checkpoint):
            run.restore(Checkpoint.load(checkpoint))
        else:
            run.note(NoteKind.NOTHING_TO_RESUME, folder=str(checkpoint))
    if checkpoint is not None:
        refuse_unwritable(checkpoint)
    with TrainingProgress(progress, run.config.epochs, run.positives, done=len(run.record)) as shown:
        shown.print([f"training {run.training_data!r}", run.config.summary(run.given), *run.notes])
        cancelled = threading.Event()
        try:
            if not run.finished:
                run.runner.prepare(shown.announce)
            _run_epochs(run, shown, cancelled, checkpoint, callbacks)
            model = run.build_model()
        except KeyboardInterrupt:
            # A second KeyboardInterrupt can arrive here: Polars raises first, then Python's handler.
            try:
                cancelled.set()
            except KeyboardInterrupt:
                cancelled.set()
            after = "after" if run.finished else "in"
            epoch = len(run.record) + (not run.finished)
            where = run.note(NoteKind.INTERRUPTED, when=after, epoch=epoch, epochs=run.config.epochs)
            shown.print([where])
            if not run.record:
                raise TrainingInterrupted(f"training was {where}: there is no model yet") from None
            model = run.build_model(interrupted=True)
            shown.print(model.notes)
            raise TrainingInterrupted(f"training was {where}: `model` is the model so far", model) from None
        shown.print(model.notes)  # `print` leaves out notes that it has printed before
    return model


def _run_epochs(
    run: TrainingRun,
    shown: TrainingProgress,
    cancelled: threading.Event,
    checkpoint: str | Path | None,
    callbacks: Sequence[Callable[[EpochRecord], None]],
) -> None:
    while not run.finished:
        record = run.epoch(shown, cancelled, partial(_save, run, checkpoint, shown))
        shown.end(record)
        try:
            for callback in callbacks:
                callback(record)
        except StopTraining as stop:
            reason = " ".join(str(stop).split())
            reason = f": {reason}" if reason else ""
            shown.print([run.note(NoteKind.STOPPED_BY_CALLBACK, epoch=record.epoch, reason=reason)])
            return
        except Exception as error:
            _attach(error, run.build_model(interrupted=True))
            raise


def _attach(error: Any, model: Model) -> None:
    """Attach the model so far to the error of a callback."""
    error.model = model
    error.add_note(
        "raised by a callback of lorentzrec.train: the attribute `model` of this exception is the model so far"
    )


def _save(run: TrainingRun, checkpoint: str | Path | None, shown: TrainingProgress) -> None:
    """Write the checkpoint, if one is wanted. An error of the disk costs the checkpoint, not the training."""
    if checkpoint is None:
        return
    try:
        run.checkpoint().save(checkpoint)
    except (OSError, LorentzrecError) as error:
        if not any(note.kind is NoteKind.NO_CHECKPOINT for note in run.notes):  # a full disk stays full for a while
            failed = run.note(NoteKind.NO_CHECKPOINT, epoch=len(run.record), reason=str(error))
            shown.print([failed])
            _LOG.warning("%s: training continues", failed)


def check_is_config(config: object) -> None:
    if config is not None and not isinstance(config, TrainingConfig):
        raise ConfigError(f"config is a {type(config).__name__}: give TrainingConfig(dimension=20, ...)")
