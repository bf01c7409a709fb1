"""Progress of training: one bar for the whole run, with loss, speed and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from lorentzrec.base.counting import Count
from lorentzrec.model.record import EpochRecord

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

_SECONDS_BETWEEN_LINES = 1.0


class TrainingProgress:
    """A bar on standard error, a line per epoch in a notebook, or nothing.

    `shown=None` shows progress in a terminal or a notebook.
    """

    def __init__(self, shown: bool | None, epochs: int, positives: int, *, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._quiet = shown is False
        self._lines = shown is not False and in_notebook()
        self._barred = not self._lines and (sys.stderr.isatty() if shown is None else shown)
        self._line_at = 0.0
        self._printed: set[str] = set()
        self._epochs = epochs
        self._validation = ""
        self._loss, self._positives = 0.0, 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]} {task.fields[speed]}{task.fields[validation]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self._barred,
        )
        total, completed = max(epochs * positives, 1), done * positives
        self._task = self._bar.add_task("epoch", total=total, completed=completed, loss="-", speed="", validation="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def print(self, lines: Iterable[object]) -> None:
        """Print lines above the bar, or in a notebook, each of them once. Ids in them cannot steer the terminal."""
        for line in ("".join(one if one.isprintable() else repr(one)[1:-1] for one in str(line)) for line in lines):
            if line in self._printed:
                continue
            self._printed.add(line)
            if self._barred:
                self._bar.console.print(line, highlight=False, markup=False)
            elif self._lines:
                print(line, flush=True)

    def announce(self, line: str) -> None:
        """Print a line about something that takes long and shows no progress: also where no bar is shown, unless
        progress was switched off."""
        self._bar.update(self._task, description="compiling")
        if self._barred or self._lines:
            self.print([line])
        elif not self._quiet:
            print(line, file=sys.stderr, flush=True)

    def begin(self, epoch: int) -> None:
        self._loss, self._positives = 0.0, 0
        self._bar.update(self._task, description=f"epoch {epoch}/{self._epochs}")

    def advance(self, positives: int, loss: float) -> None:
        """Some positives of the epoch are done, with this summed loss."""
        self._loss += loss
        self._positives += positives
        if self._barred:
            speed = self._bar.tasks[self._task].speed
            self._bar.update(
                self._task,
                advance=positives,
                loss=f"{self._loss / self._positives:.4f}" if self._positives else "-",
                speed=f"{speed / 1e6:.2f} M/s" if speed else "",
                validation=self._validation,
            )

    def end(self, record: EpochRecord) -> None:
        if record.validation:
            self._validation = " ".join(["", *(f"{name} {value:.4f}" for name, value in record.validation.items())])
            self._bar.update(self._task, validation=self._validation)
        if self._lines and (record.epoch == self._epochs or time.monotonic() - self._line_at >= _SECONDS_BETWEEN_LINES):
            self._line_at = time.monotonic()
            speed = f"{record.events_per_second / 1e6:.2f} M/s"
            print(f"epoch {record.epoch}/{self._epochs} loss {record.loss:.4f} {speed}{self._validation}", flush=True)


def print_end(model: Model) -> None:
    """Print what was trained, where neither a bar nor lines have shown it."""
    if sys.stderr.isatty() or in_notebook():
        return
    seconds = sum(epoch.seconds for epoch in model.record)
    notes = f"; {Count(len(model.notes)):note|notes}: model.notes" if model.notes else ""
    duration = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    print(f"trained {Count(len(model.record)):epoch|epochs} in {duration}{notes}", file=sys.stderr, flush=True)


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, whose front end shows lines but no terminal's bar."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
