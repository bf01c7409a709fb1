"""Day by day, or week by week: a full retrain, an update, no update and baselines, measured on the next events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.base.counting import Count
from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.next_events import NextEvents, next_events
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.reality_check import HALF_LIFE
from lorentzrec.evaluation.shop_baselines import OwnFrequency, RecentPopularity
from lorentzrec.learning.epochs import compile_kernels
from lorentzrec.learning.trainer import train
from lorentzrec.learning.updating import REHEARSED_SHARE, update
from lorentzrec.model.config import TrainingConfig

METRIC = "ndcg@10"
MOST_EVENTS = 5000
WEEK = 7
WITHOUT_TREND = "without trend"
OURS = ("retrain", WITHOUT_TREND, "update", "none")
BASELINES = ("popularity", "recent-popularity", "own-frequency")
"""The systems of a backtest. `own-frequency` is only among them if the history is not left out."""


@dataclass(frozen=True)
class Measurement:
    """One way to have a model for a day, or a week."""

    ndcg: float
    """NDCG@10 over the events of the day, each from all earlier events of its customer."""
    seconds: float
    """To make the model of that day; 0 without an update, and without the trend, which changes a model that exists."""
    processor_seconds: float
    """The same, of all cores together: other programs on the machine do not change it much."""
    memory: int | None
    """Bytes that the process held at most while it made the model; None where the system does not report it."""


@dataclass(frozen=True)
class BacktestDay:
    """A day, or a week."""

    day: date
    """The first day of a week."""
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
    candidates: Candidates | None = None,
    length: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[BacktestDay]:
    """Measure the last `days` days with events before `until`, one after another.

    A model is trained on all events but those of these days and of the day before. Then, for each day, it is updated
    with the events of the day before ("update"), a new one is trained on all earlier events ("retrain"), and the first
    one stays as it is ("none"). The new one is measured without its trend as well ("without trend"), and so are
    popularity, recent popularity and, unless the history is left out, how often customers bought an item. Each is
    evaluated on the events of the day, at most `most_events`, by full ranking; all of them get the same histories.

    candidates: None ranks all items if training finds that customers buy again, and else those outside the history.
    length: days that are measured together, such as `WEEK`; `days` counts these, and the last one ends with the newest
    event.
    """
    check_is_interactions(data, "backtest")
    if days < 1 or most_events < 1 or length < 1:
        raise ConfigError(f"days={days}, most_events={most_events}, length={length}: give 1 or more of each")
    if data.times is not None and (ahead := data.times > time.time()).any():
        say(f"{Count(int(ahead.sum())):event is|events are} later than the clock of this computer: left out")
        data = data.select(~ahead)
    numbers, tested = _days(data, days, until, length)
    compile_kernels(config)
    first = data.select(numbers < tested[0])
    say(f"training on {first!r}")
    start = updated = train(first, config, progress=False)
    if candidates is None:
        candidates = "unseen" if start.repeats is None else "all"
    for day in tested[1:].tolist():
        past = data.select(numbers < day)
        made: dict[str, Callable[[], Any]] = {
            "retrain": partial(train, past, config, progress=False),
            "update": partial(update, updated, past, rehearse=rehearse, prune_after=prune_after, progress=False),
            "none": lambda: start,
            "popularity": partial(Popularity, past),
            "recent-popularity": partial(RecentPopularity, past),
        }
        if candidates in ("all", "repeats"):
            made["own-frequency"] = partial(OwnFrequency, past, HALF_LIFE)
        today, known = data.select(numbers <= day), numbers[numbers <= day] == day
        task = next_events(today, known, limit=most_events)
        find_ndcg = partial(_find_ndcg, task, candidates)
        measured: dict[str, Measurement] = {}
        for name, make in made.items():
            system, seconds, processor_seconds, memory = _measure(make)
            measured[name] = Measurement(find_ndcg(system), seconds, processor_seconds, memory)
            if name == "update":
                updated = system
            elif name == "retrain":
                trend, value = system.trend, measured[name].ndcg
                if trend is not None and trend.weight > 0:
                    value = find_ndcg(system.with_points(trend=replace(trend, weight=0.0)))
                measured[WITHOUT_TREND] = Measurement(value, 0.0, 0.0, None)
        items = np.unique(today.item_rows[known])
        new_items = int((first.item_counts[items] == 0).sum())
        measured = {name: measured[name] for name in (*OURS, *BASELINES) if name in measured}
        one_day = BacktestDay(_date(day - length + 1), int(known.sum()), len(task.test), new_items, measured)
        quality = ", ".join(f"{name} {one.ndcg:.4f}" for name, one in measured.items())
        costs = ", ".join(f"{name} {measured[name].seconds:.1f} s" for name in ("retrain", "update"))
        say(f"{one_day.day}: {quality} ({costs})")
        yield one_day


def _find_ndcg(task: NextEvents, candidates: Candidates, system: Recommender) -> float:
    options: Any = {"intervals": False, "candidates": candidates, "metrics": ["ndcg"]}
    return evaluate(system, task.test, histories=task.histories, **options)[METRIC]


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


def _days(data: Interactions, days: int, until: date | None, length: int) -> tuple[Integers, Integers]:
    """The day of each event as a number, and the days to measure, after the one before them. Where several days are
    measured together, the number is that of the last of them."""
    if data.times is None:
        raise InputError("a backtest needs times, and these events have none: give times")
    numbers: Integers = np.floor(data.times / SECONDS_PER_DAY).astype(np.int64)
    end = numbers.max(initial=0) + 1 if until is None else (until - date(1970, 1, 1)).days
    newest = numbers.max(initial=0, where=numbers < end)
    numbers = newest - (newest - numbers) // length * length
    present = np.unique(numbers[numbers <= newest])
    if len(present) < days + 2:
        of = "days" if length == 1 else "weeks" if length == WEEK else f"spans of {length} days"
        raise InputError(
            f"there are {len(present)} {of} with events, too few to measure {days}: give fewer {of}, or more events"
        )
    return numbers, present[-days - 1 :]


def _date(day: int) -> date:
    return datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC).date()


def _measure(make: Callable[[], Any]) -> tuple[Any, float, float, int | None]:
    """A system, the time and processor time to make it, and the most memory that the process held meanwhile."""
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
