"""What a person sees while training runs: one bar for the whole run, with loss, speed and the time left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lorentzrec.learning.record import EpochRecord


class TrainingProgress:
    """A bar on standard error, or nothing at all. `shown=None` shows it where somebody is watching (a terminal)."""

    def __init__(self, shown: bool | None, epochs: int, positives: int, *, done: int) -> None:
        self._bar = None
        self._epochs = epochs
        self._validation = ""
        self._loss, self._positives = 0.0, 0
        if not (sys.stderr.isatty() if shown is None else shown):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]} {task.fields[speed]}{task.fields[validation]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
        )
        total = max(epochs * positives, 1)
        self._task = self._bar.add_task(
            "epoch", total=total, completed=done * positives, loss="-", speed="", validation=""
        )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the bar."""
        if self._bar is not None:
            for line in lines:
                shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
                self.console.print(shown, highlight=False, markup=False)

    def begin(self, epoch: int) -> None:
        self._loss, self._positives = 0.0, 0
        if self._bar is not None:
            self._bar.update(self._task, description=f"epoch {epoch}/{self._epochs}")

    def advance(self, positives: int, loss: float) -> None:
        """Some positives of the epoch are done, with this summed loss."""
        self._loss += loss
        self._positives += positives
        if self._bar is not None:
            speed = self._bar.tasks[self._task].speed
            self._bar.update(
                self._task,
                advance=positives,
                loss=f"{self._loss / self._positives:.4f}",
                speed=f"{speed / 1e6:.2f} M/s" if speed else "",
                validation=self._validation,
            )

    def end(self, record: EpochRecord) -> None:
        if record.validation:
            self._validation = " ".join(["", *(f"{name} {value:.4f}" for name, value in record.validation.items())])
