"""Epochs on Keras: what a callback does at their ends, and the runner that the other engines have, too."""

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
from lorentzrec.learning.epochs import EpochResult
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.schedule import learning_rate
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.record import EpochRecord

_BATCHES_BETWEEN_REPORTS = 32
"""Reading the loss waits for the back end."""


class EpochCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Chooses the blocks and the rate of each epoch, and records it.

    run: validates each epoch and gets its record.
    advance: called now and then with the positives done and their summed loss.
    """

    def __init__(
        self, blocks: Blocks, run: TrainingRun | None = None, advance: Callable[[int, float], None] | None = None
    ) -> None:
        super().__init__()
        self.blocks, self.run, self.advance = blocks, run, advance
        self.record: EpochRecord | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.blocks.epoch = epoch + 1
        config, optimizer = self.blocks.config, self.model.optimizer
        if self.model.follows_config:
            optimizer.learning_rate = learning_rate(config, min(epoch + 1, config.epochs))
        self.positives, self.reported = self.blocks.positives_of_blocks(), (0, 0.0)
        self.counts = _counts_of(optimizer)
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
            self.model.read_points()
            metrics = self.run.validate()
            logs |= {f"val_{name}": value for name, value in metrics.items()}
        clipped, capped = np.subtract(_counts_of(optimizer), self.counts).tolist()
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


class KerasRunner:
    """Runs the epochs of a `TrainingRun` on a `MidpointModel`. Between epochs its tables hold the points, as those of
    the other runners do."""

    def __init__(self, model: Any, data: Interactions, config: ResolvedConfig, histories: Table, items: Table) -> None:
        self.model, self.config = model, config
        self._tables = [items] if histories is items else [items, histories]
        self._data = data
        self._blocks: Blocks | None = None

    def write_points(self) -> None:
        """Set the model's points, and the sums of its optimiser, to those of the tables."""
        space = slice(1, self.config.dimension + 1)
        self.model.set_points(*(table.points[:, space] for table in self._tables))
        for table, sums in zip(self._tables, self.model.optimiser_sums(), strict=False):
            sums.assign(np.append(table.squared, np.float32(0)))

    def read_points(self) -> None:
        """The other way."""
        space = slice(1, self.config.dimension + 1)
        for table, points in zip(self._tables, self.model.points(), strict=True):
            table.points[:, space] = points
            table.points[:, 0] = np.sqrt(1 + np.einsum("ij,ij->i", points, points))
        for table, sums in zip(self._tables, self.model.optimiser_sums(), strict=False):
            table.squared[:] = ops.convert_to_numpy(sums)[:-1]

    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """One epoch, as `EpochRunner.run`."""
        blocks = self._blocks = self._blocks or Blocks(self._data, self.config, self.config.epochs)
        self.write_points()
        made = EpochCallback(blocks, advance=advance)
        self.model.fit_blocks(blocks, initial_epoch=epoch - 1, epochs=epoch, verbose=0, callbacks=[made])
        self.read_points()
        record = made.record
        if record is None or not math.isfinite(record.loss):
            raise TrainingError(f"the loss is no number in epoch {epoch}: lower scale, initial_width or the weights")
        return EpochResult(
            loss=record.loss * blocks.positives,
            positives=blocks.positives,
            clipped=record.clipped_gradients,
            capped=record.capped_steps,
            saturated=int(blocks.without_negative.sum()),
        )


def _counts_of(optimizer: Any) -> tuple[int, int]:
    if not isinstance(optimizer, RiemannianOptimiser):
        return 0, 0
    return int(optimizer.clipped_gradients), int(optimizer.capped_steps)
