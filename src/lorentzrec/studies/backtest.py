"""Day by day: a full retrain, an update and no update, measured on the events of the next day."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.splitting import SECONDS_PER_DAY
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.next_events import next_events
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.epochs import compile_kernels
from lorentzrec.learning.trainer import train
from lorentzrec.learning.updating import REHEARSED_SHARE, update
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model

METRIC = "ndcg@10"
MOST_EVENTS = 5000


@dataclass(frozen=True)
class Measurement:
    """One way to have a model for a day."""

    ndcg: float
    """NDCG@10 over the events of the day, each from all earlier events of its customer."""
    seconds: float
    """To make the model of that day; 0 without an update."""
    processor_seconds: float
    """The same, of all cores together: other programs on the machine do not change it much."""
    memory: int | None
    """Bytes that the process held at most while it made the model; None where the system does not report it."""


@dataclass(frozen=True)
class BacktestDay:
    day: date
    events: int
    """Of the day, in UTC."""
    evaluated: int
    new_items: int
    """Items of the day's events that the model without updates does not know."""
    systems: dict[str, Measurement] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"day": self.day.isoformat()}


def backtest(
    data: Interactions,
    days: int,
    config: TrainingConfig | None = None,
    *,
    until: date | None = None,
    rehearse: float = REHEARSED_SHARE,
    prune_after: float | None = None,
    most_events: int = MOST_EVENTS,
    candidates: Candidates = "unseen",
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[BacktestDay]:
    """Measure the last `days` days with events before `until`, one after another.

    A model is trained on all events but those of these days and of the day before. Then, for each day, it is updated
    with the events of the day before ("update"), a new one is trained on all earlier events ("retrain"), and the first
    one stays as it is ("none"). Each is evaluated on the events of the day, at most `most_events`, by full ranking; all
    of them get the same histories.
    """
    check_is_interactions(data, "backtest")
    if days < 1 or most_events < 1:
        raise ConfigError(f"days={days}, most_events={most_events}: give 1 or more of each")
    numbers, tested = _days(data, days, until)
    compile_kernels(config)
    first = data.select(numbers < tested[0])
    say(f"training on {first!r}")
    start = updated = train(first, config, progress=False)
    for day in tested[1:].tolist():
        past = data.select(numbers < day)
        made: dict[str, Callable[[], Model]] = {
            "retrain": partial(train, past, config, progress=False),
            "update": partial(update, updated, past, rehearse=rehearse, prune_after=prune_after, progress=False),
            "none": lambda: start,
        }
        today, known = data.select(numbers <= day), numbers[numbers <= day] == day
        task = next_events(today, known, limit=most_events)
        measured = {}
        for name, make in made.items():
            model, seconds, processor_seconds, memory = _measure(make)
            if name == "update":
                updated = model
            report = evaluate(
                model, task.test, histories=task.histories, intervals=False, candidates=candidates, metrics=["ndcg"]
            )
            measured[name] = Measurement(report[METRIC], seconds, processor_seconds, memory)
        items = np.unique(today.item_rows[known])
        new_items = int((first.item_counts[items] == 0).sum())
        found = BacktestDay(_date(day), int(known.sum()), len(task.test), new_items, measured)
        say(
            f"{found.day}: "
            + ", ".join(f"{name} {one.ndcg:.4f} ({one.seconds:.1f} s)" for name, one in measured.items())
        )
        yield found


def summarise(days: Sequence[BacktestDay]) -> dict[str, dict[str, float]]:
    """Means over days by system, and as shares of those of the full retrain."""
    means: dict[str, dict[str, float]] = {}
    for name in days[0].systems:
        means[name] = {
            "ndcg": float(np.mean([day.systems[name].ndcg for day in days])),
            "seconds": float(np.mean([day.systems[name].seconds for day in days])),
            "processor_seconds": float(np.mean([day.systems[name].processor_seconds for day in days])),
        }
    full = means["retrain"]
    for values in means.values():
        values |= {
            "ndcg_share": values["ndcg"] / full["ndcg"],
            "time_share": values["seconds"] / full["seconds"],
            "processor_time_share": values["processor_seconds"] / full["processor_seconds"],
        }
    return means


def _days(data: Interactions, days: int, until: date | None) -> tuple[Integers, Integers]:
    """The day of each event as a number, and the days to measure, after the one before them."""
    if data.times is None:
        raise InputError("a backtest needs times, and these events have none: give times")
    numbers: Integers = np.floor(data.times / SECONDS_PER_DAY).astype(np.int64)
    present = np.unique(numbers)
    if until is not None:
        present = present[present < (until - date(1970, 1, 1)).days]
    if len(present) < days + 2:
        raise InputError(
            f"there are {len(present)} days with events, too few to measure {days}: give fewer days, or more events"
        )
    return numbers, present[-days - 1 :]


def _date(day: int) -> date:
    return datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC).date()


def _measure(make: Callable[[], Model]) -> tuple[Model, float, float, int | None]:
    """A model, the time and processor time to make it, and the most memory that the process held meanwhile."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    started, before = time.perf_counter(), time.process_time()
    model = make()
    seconds = time.perf_counter() - started, time.process_time() - before
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return model, *seconds, None
    return model, *seconds, None if found is None else int(found[1]) * 1024
