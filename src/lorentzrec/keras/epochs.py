"""Epochs on Keras: the callback that records them, and the runner of a training run."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import ops

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import TrainingError
from lorentzrec.keras.blocks import Blocks
from lorentzrec.keras.optimisers import RiemannianOptimiser
from lorentzrec.learning.engine import EpochResult, Runner, Table, TrainingRun
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.record import EpochRecord

_BATCHES_BETWEEN_REPORTS = 32
"""Reading the loss waits for the back end."""


class EpochCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Chooses the blocks and the rate of each epoch, and records it.

    run: validates each epoch and gets its record.
    advance: called now and then with the positives done and their summed loss.
    rate: the learning rate of all epochs. None takes that of each epoch from the config.
    """

    def __init__(
        self,
        blocks: Blocks,
        run: TrainingRun | None = None,
        advance: Callable[[int, float], None] | None = None,
        rate: float | None = None,
    ) -> None:
        super().__init__()
        self.blocks, self.run, self.advance, self.rate = blocks, run, advance, rate
        self.record: EpochRecord | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.blocks.epoch = epoch + 1
        config, optimizer = self.blocks.config, self.model.optimizer
        if self.model.follows_config:
            of_epoch = config.rate_in(min(epoch + 1, config.epochs))
            optimizer.learning_rate = of_epoch if self.rate is None else self.rate
        self.positives, self.reported = self.blocks.positives_of_blocks(), (0, 0.0)
        self.counts = _count_short_steps(optimizer)
        self.started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        due = (batch + 1) % _BATCHES_BETWEEN_REPORTS == 0 or batch + 1 == len(self.blocks)
        if self.advance is None or logs is None or not due:
            return
        done = int(self.positives[: batch + 1].sum())
        total = float(logs["loss"]) * done
        self.advance(done - self.reported[0], total - self.reported[1])
        self.reported = done, total

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        seconds = time.perf_counter() - self.started
        optimizer, metrics = self.model.optimizer, None
        if self.run is not None and self.run.held_out is not None:
            self.model.write_tables()
            metrics = self.run.validate()
            logs |= {f"val_{name}": value for name, value in metrics.items()}
        clipped, capped = np.subtract(_count_short_steps(optimizer), self.counts).tolist()
        self.record = EpochRecord(
            epoch=epoch + 1,
            loss=float(logs["loss"]),
            learning_rate=float(optimizer.learning_rate),
            clipped_gradients=clipped,
            capped_steps=capped,
            seconds=seconds,
            events_per_second=self.blocks.positives / max(seconds, 1e-9),
            validation=metrics,
        )
        if self.run is not None:
            if not self.run.record and (times := int(self.blocks.without_negative.sum())):
                self.run.note(NoteKind.NO_VALID_NEGATIVE, times=times)
            self.run.record.append(replace(self.record, epoch=len(self.run.record) + 1))


class KerasRunner(Runner):
    """Runs the epochs of a `TrainingRun` on a `MidpointModel`. There is nothing to prepare: the back end compiles its
    graphs in the first epoch."""

    def __init__(self, model: Any, data: Interactions, config: ResolvedConfig, histories: Table, items: Table) -> None:
        self.model, self.config = model, config
        self._tables = [items] if histories is items else [items, histories]
        self._data = data
        self._blocks: Blocks | None = None
        self._epochs = 0
        if model.build_for(config, len(data.items)):
            self.read_tables()

    def for_events(self, data: Interactions) -> KerasRunner:
        return KerasRunner(self.model, data, self.config, self._tables[-1], self._tables[0])

    def read_tables(self) -> None:
        """Set the points of the model, and the sums of its optimiser, to those of the tables."""
        space = slice(1, self.config.dimension + 1)
        self.model.set_points(*(table.points[:, space] for table in self._tables))
        for table, sums in zip(self._tables, self.model.optimiser_sums(), strict=False):
            sums.assign(np.append(table.squared, np.float32(0)))

    def write_tables(self) -> None:
        """Set the tables to the points of the model and the sums of its optimiser."""
        space = slice(1, self.config.dimension + 1)
        for table, points in zip(self._tables, self.model.points(), strict=True):
            table.points[:, space] = points
            table.points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", points, points))
        for table, sums in zip(self._tables, self.model.optimiser_sums(), strict=False):
            table.squared[:] = ops.convert_to_numpy(sums)[:-1]

    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """Run one epoch, as `EpochRunner.run` does."""
        if self._blocks is None or epoch > self._epochs:
            self._epochs = max(epoch, self.config.epochs)
            self._blocks = Blocks(self._data, self.config, self._epochs)
        blocks = self._blocks
        self.read_tables()
        recorder = EpochCallback(blocks, advance=advance, rate=learning_rate)
        self.model.fit_blocks(blocks, initial_epoch=epoch - 1, epochs=epoch, verbose=0, callbacks=[recorder])
        self.write_tables()
        record = recorder.record
        if record is None or not math.isfinite(record.loss):
            raise TrainingError(f"the loss is no number in epoch {epoch}: lower scale, initial_width or the weights")
        return EpochResult(
            loss=record.loss * blocks.positives,
            positives=blocks.positives,
            clipped=record.clipped_gradients,
            capped=record.capped_steps,
            saturated=int(blocks.without_negative.sum()),
        )


def _count_short_steps(optimizer: Any) -> tuple[int, int]:
    """The gradients and the steps that the optimiser has shortened so far."""
    if not isinstance(optimizer, RiemannianOptimiser):
        return 0, 0
    return int(optimizer.clipped_gradients), int(optimizer.capped_steps)
