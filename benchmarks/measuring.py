"""What every benchmark uses: data shaped like MovieLens 20M, a stopwatch, a table in the terminal and a JSON file."""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec import Interactions
from lorentzrec.data.interactions import make_offsets
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.learning.run import TrainingRun

RESULTS = Path(__file__).parent / "results"


def like_movielens(events: int = 8_000_000, users: int = 138_000, items: int = 20_700, seed: int = 0) -> Interactions:
    """Zipf-like items, log-normal histories, no pair twice: the shape of MovieLens 20M's ratings of 4 and more."""
    random = np.random.default_rng(seed)
    popularity = 1 / np.arange(10, items + 10) ** 0.9
    lengths = random.lognormal(3.4, 1.1, users)
    lengths = np.clip(lengths * events / lengths.sum(), 3, items // 4).astype(np.int64)
    owners = np.repeat(np.arange(users), lengths)
    drawn = random.choice(items, len(owners), p=popularity / popularity.sum())
    pairs = np.unique(owners * np.int64(items) + drawn)
    owners, item_rows = pairs // items, (pairs % items).astype(np.int32)
    times = random.permuted(np.arange(len(pairs)))
    order = np.lexsort((times, owners))
    return Interactions(
        users=Vocabulary.numbered(users, name="user"),
        items=Vocabulary.numbered(items, name="item"),
        offsets=make_offsets(np.bincount(owners, minlength=users)),
        item_rows=item_rows[order],
        times=times[order],
    )


def best_seconds(job: Callable[[], object], times: int = 3) -> float:
    """The shortest of several runs: the cost without other load on the machine."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def best_rate(run: TrainingRun, learning_rate: float, epochs: int) -> float:
    """Positives per second of the fastest of some epochs; the first may compile."""
    rates = []
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        result = run.runner.run(epoch, learning_rate, lambda *_: None, threading.Event())
        rates.append(result.positives / (time.perf_counter() - start))
    return max(rates)


def worker_seconds(parent: int) -> float:
    """Processor time that the child processes of a service have used.

    It is that of their threads in /proc/PID/task/*/schedstat, which is exact: the ticks in /proc/PID/stat are samples,
    and miss threads that run for less than a tick.
    """
    nanoseconds = 0
    for worker in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        for thread in Path(f"/proc/{worker}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def sgemm_rate(threads: int, size: int = 1024) -> float:
    """Floating-point operations per second of a single-precision matrix product with this many BLAS threads."""
    from threadpoolctl import threadpool_limits

    matrix: NDArray[np.float32] = np.random.default_rng(0).standard_normal((size, size), np.float32)
    with threadpool_limits(threads, user_api="blas"):
        matrix @ matrix
        return 2 * size**3 / best_seconds(lambda: matrix @ matrix, 20)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:,.3g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def report(name: str, title: str, rows: list[dict[str, Any]], notes: list[str] | None = None) -> None:
    """Print rows as a table and write them, with the machine, to results/NAME.json."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    columns = {name: value for row in rows for name, value in row.items()}
    for column, value in columns.items():
        table.add_column(column.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    # A terminal has a width; in a file or a pipe the table is as wide as it needs, which is less than this.
    console = Console(width=None if sys.stdout.isatty() else 1000)
    console.print(table)
    for note in notes or []:
        console.print(note, markup=False, highlight=False)
    machine = {"processor": _processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    document = {
        "title": title,
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine,
        "rows": rows,
        "notes": notes or [],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
