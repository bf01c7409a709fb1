"""A day of 1 % new events with `lorentzrec daily`, next to a full run on the same events: processor time and memory.

    python benchmarks/bench_daily.py DIR --events 2000000

The synthetic shop of `bench_full_size.py`, and trainings with the default settings on one thread. One shop gets all
events but the newest 1 % as its first delivery, and these as its second; another gets all of them as its first. Each
run is a process of its own, and each stage of a run has its own peak of memory: the kernel's mark is reset between
stages. The work of a day does not depend on how many epochs the model before it was trained for, so `--epochs-before 1`
saves the time of one full training.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

from bench_full_size import CUSTOMERS, EVENTS, ITEMS
from lorentzrec.daily.config import read_config
from lorentzrec.daily.job import run_day
from measuring import report

CONFIG = """
dataset = "shop"
deliveries = "incoming/*.parquet"
store = "file:store"
work = "daily"
[training]
threads = 1
{training}
[publish]
map = false
require = []
"""
COMPARED = ("append", "evaluate", "train")
"""Stages that are compared. What is published grows with the model, not with the day, so the other stages are apart."""


def run(config: Path) -> dict[str, dict[str, float]]:
    """Do a run; stage -> processor seconds and peak memory."""
    stages: dict[str, dict[str, float]] = {}
    last: list[tuple[str, float]] = []

    def finish() -> None:
        if last:
            name, started = last.pop()
            status = Path("/proc/self/status").read_text().split()
            peak = int(status[status.index("VmHWM:") + 1]) / 2**20
            stages[name] = {"processor_seconds": round(time.process_time() - started, 2), "peak_gib": round(peak, 3)}
        Path("/proc/self/clear_refs").write_text("5\n")

    def watch(stage: str) -> None:
        finish()
        last.append((stage, time.process_time()))

    run_day(read_config(config), watch)
    finish()
    return stages


def measure(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a run in a process of its own."""
    print(f"{name}: {folder}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--run", str(folder / "daily.toml")]
    stages = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return [{"run": name, "stage": stage, **row} for stage, row in stages.items()]


def make_shop(folder: Path, epochs: int | None) -> Path:
    (folder / "incoming").mkdir(parents=True)
    (folder / "daily.toml").write_text(CONFIG.format(training="" if epochs is None else f"epochs = {epochs}"))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="an empty folder")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the events, on the new day")
    parser.add_argument("--epochs", type=int, help="of the full run; by default those of the library")
    parser.add_argument("--epochs-before", type=int, help="of the model before the day; by default the same")
    parser.add_argument("--run", type=Path, metavar="CONFIG", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run)))
        return
    share, folder = options.events / EVENTS, options.folder.resolve()
    sizes = {"--customers": CUSTOMERS * share, "--items": ITEMS * share**0.5, "--interactions": options.events}
    numbers = [f"{name}={max(1000, round(size))}" for name, size in sizes.items()]
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "lorentzrec.cli", "synthesize", "--out", str(folder / "raw"), *numbers]
    subprocess.run(command, check=True, stdout=sys.stderr)
    events = pl.read_parquet(folder / "raw" / "events").sort("time", maintain_order=True)
    new = round(len(events) * options.share)
    before = options.epochs if options.epochs_before is None else options.epochs_before
    grown, full = make_shop(folder / "grown", before), make_shop(folder / "full", options.epochs)
    events.head(-new).write_parquet(grown / "incoming" / "day-1.parquet")
    events.write_parquet(full / "incoming" / "all.parquet")
    rows = measure(full, "full")
    measure(grown, "before the day")
    events.tail(new).write_parquet(grown / "incoming" / "day-2.parquet")
    rows += measure(grown, "day")
    for name in ("full", "day"):
        compared = [row for row in rows if row["run"] == name and row["stage"] in COMPARED]
        total = {"processor_seconds": round(sum(row["processor_seconds"] for row in compared), 2)}
        peak = max(row["peak_gib"] for row in compared)
        rows.append({"run": name, "stage": " + ".join(COMPARED), **total, "peak_gib": peak})
    report(f"daily_{options.events}", f"A day of {options.share:.0%} new events, {options.events:,} in all", rows)


if __name__ == "__main__":
    main()
