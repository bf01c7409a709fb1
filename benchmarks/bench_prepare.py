"""Preparation of raw events: time and memory with Polars and with Spark `local[2]`.

    python benchmarks/bench_prepare.py --events 28000000 [--engines polars,spark] [--folder DIR]

Writes Parquet files of random events (text ids, popularity by Zipf's law, one file per four million), prepares them in
a new process per engine, and compares the digests. Prints a table and writes results/bench_prepare_EVENTS.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil

USERS, ITEMS, EVENTS_PER_FILE = 1_000_000, 132_399, 4_000_000
RESULTS = Path(__file__).parent / "results"


def make_events(folder: Path, count: int, seed: int = 7) -> None:
    """Random events with the sizes of the paper's commercial data set."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    popularity = np.arange(1, ITEMS + 1) ** -0.9
    cumulative = np.cumsum(popularity / popularity.sum())
    users = max(1, USERS * count // 28_000_000)
    for start in range(0, count, EVENTS_PER_FILE):
        size = min(EVENTS_PER_FILE, count - start)
        item = np.searchsorted(cumulative, generator.random(size))
        frame = pl.DataFrame(
            {
                "user": (generator.random(size) ** 2 * users).astype(np.int64),
                "item": item,
                "time": generator.integers(1_700_000_000, 1_720_000_000, size),
            }
        )
        frame.with_columns(user=pl.format("customer-{}", "user"), item=pl.format("sku-{}", "item")).write_parquet(
            folder / f"events-{start // EVENTS_PER_FILE:04d}.parquet"
        )


def prepare_here(events: Path, out: Path, engine_name: str) -> None:
    """The measured job, in its own process; prints its report as JSON."""
    from lorentzrec.ingest.prepare import PrepareConfig, prepare

    config = PrepareConfig(events=(str(events),))
    if engine_name == "polars":
        report = prepare(config, out, scratch=out.parent)
    else:
        from lorentzrec.ingest.spark_engine import spark_engine

        with spark_engine(master="local[2]") as engine:
            report = prepare(config, out, engine, scratch=out.parent)
    print(json.dumps(report.to_dict()))


def run_watched(command: list[str]) -> tuple[dict[str, Any], float, float, float]:
    """Run a command; its output, its seconds, its processor seconds, and the peak memory in GiB with its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started, largest, done = time.perf_counter(), 0, threading.Event()
    process = psutil.Popen(command, stdout=subprocess.PIPE, text=True)

    def watch() -> None:
        nonlocal largest
        while not done.wait(0.25):
            total = 0
            for one in [process, *process.children(recursive=True)]:
                try:
                    # Without pages of mapped files, which the system takes back when it needs them.
                    memory = one.memory_info()
                    total += memory.rss - getattr(memory, "shared", 0)
                except psutil.Error:
                    continue
            largest = max(largest, total)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, _ = process.communicate()
    finally:
        done.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(output.splitlines()[-1]), time.perf_counter() - started, processor, largest / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=28_000_000)
    parser.add_argument("--engines", default="polars,spark")
    parser.add_argument("--folder", type=Path, help="where events and datasets go; a temporary folder by default")
    parser.add_argument("--only", nargs=3, metavar=("EVENTS", "OUT", "ENGINE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        prepare_here(Path(arguments.only[0]), Path(arguments.only[1]), arguments.only[2])
        return
    with tempfile.TemporaryDirectory(prefix="bench-prepare-", dir=arguments.folder) as temporary:
        folder = Path(temporary)
        events = (arguments.folder or folder) / f"events-{arguments.events}"
        if not events.is_dir():
            make_events(events, arguments.events)
        rows = []
        for engine in arguments.engines.split(","):
            command = [sys.executable, __file__, "--only", str(events), str(folder / engine), engine]
            report, seconds, processor, memory = run_watched(command)
            rows.append(
                {
                    "engine": engine,
                    "events": report["counts"]["events"],
                    "seconds_whole_process": round(seconds, 1),
                    "seconds_prepare": round(report["seconds"], 1),
                    "seconds_processors": round(processor, 1),
                    "memory_gib": round(memory, 2),
                    "digest": report["digest"],
                }
            )
    fastest = rows[0]["seconds_prepare"]
    print(f"{'engine':<8}{'events':>13}{'prepare s':>11}{'process s':>11}{'CPU s':>9}{'GiB':>7}{'times':>7}  digest")
    for row in rows:
        times = row["seconds_prepare"] / fastest
        print(
            f"{row['engine']:<8}{row['events']:>13,}{row['seconds_prepare']:>11}{row['seconds_whole_process']:>11}"
            f"{row['seconds_processors']:>9}{row['memory_gib']:>7}{times:>7.1f}  {row['digest'][:12]}"
        )
    if len({row["digest"] for row in rows}) > 1:
        raise SystemExit("the engines' digests differ")
    RESULTS.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "processor": platform.processor(), "polars": pl.__version__}
    (RESULTS / f"bench_prepare_{arguments.events}.json").write_text(
        json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
