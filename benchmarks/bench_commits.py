"""Two commits side by side: processor time per request of the service of each, in alternating blocks of requests.

    git worktree add --detach .build/before COMMIT
    python benchmarks/bench_commits.py .build/before . [--rounds N] [--start] [--items N]

Each argument is a checkout, and the first is what the second is compared with. Both have the same items, trained
and published by their own code, and a file store on the same disk. After two blocks that warm up, each round sends a
block of 100 requests of each kind to one service and then to the other, in turn first. A ratio is that of the means
over the rounds, with its standard error: other work on the machine affects both services alike. `--start` measures the
time from the command to readiness, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

from load_client import Connection, post
from measuring import report, worker_seconds

ITEMS = 5_000
EVENTS_PER_ITEM, EVENTS_PER_CUSTOMER = 16, 20
DIMENSION = 50
BLOCK = 100
CONNECTIONS = 8
"""Of the kinds of requests that are sent at the same time."""
PATIENCE = 120.0
SETTINGS = (f"dimension={DIMENSION}", "epochs=1", "seed=1")
"""Hyper-parameters; all others have the defaults of the commit."""


class Commit:
    """A checkout, its store, and its service."""

    def __init__(self, source: Path, folder: Path, raw: Path, workers: int) -> None:
        self.name = str(source)
        self._environment = os.environ | {"PYTHONPATH": str(source.resolve() / "src")}
        self._store, self._workers, self._folder = f"file:{folder / 'store'}", workers, folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "store").exists():
            shop, model = str(folder / "shop"), str(folder / "model")
            self._run("prepare", str(raw / "events"), "--items", str(raw / "items.parquet"), "--out", shop)
            settings = [part for setting in SETTINGS for part in ("--set", setting)]
            self._run("train", shop, "--out", model, *settings)
            self._run("publish", model, "--to", self._store, "--items", shop, "--histories")
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "lorentzrec.cli", *arguments]

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            self._command(*arguments), check=True, env=self._environment, stdout=subprocess.DEVNULL, stderr=sys.stderr
        )

    def start(self) -> float:
        """Seconds from the command to readiness."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        options = ("--port", str(self.port), "--workers", str(self._workers), "--log-level", "warning")
        begun = time.perf_counter()
        with (self._folder / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("serve", self._store, *options), env=self._environment, stdout=log, stderr=log
            )
        while not self._is_ready():
            if self._process.poll() is not None or time.perf_counter() > begun + PATIENCE:
                raise SystemExit(f"{self.name} did not start: see {self._folder / 'service.log'}")
            time.sleep(0.005)
        return time.perf_counter() - begun

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)
            self._process = None

    def cpu_seconds(self) -> float:
        """Processor time that the workers have used."""
        assert self._process is not None
        return worker_seconds(self._process.pid)


def make_kinds(raw: Path) -> dict[str, tuple[int, Callable[[int], bytes]]]:
    """The kinds of requests: how many connections send at once, and the request of a number."""
    import polars as pl

    events = pl.read_parquet(raw / "events")
    items = events["item"].value_counts(sort=True)["item"].cast(pl.String).to_list()
    customers = events["user"].cast(pl.String).unique(maintain_order=True).to_list()
    histories = [items[start : start + 200 : 10] for start in range(500)]

    def event(number: int) -> bytes:
        return post("/v1/events", json.dumps({"user": f"new-{number // 5}", "item": items[number % len(items)]}))

    def events_of_five(number: int) -> bytes:
        sent = [{"user": f"five-{number}", "item": items[(5 * number + one) % len(items)]} for one in range(5)]
        return post("/v1/events", json.dumps({"events": sent}))

    def by_history(number: int) -> bytes:
        return post("/v1/recommend", json.dumps({"history": histories[number % len(histories)]}))

    def by_customer(number: int) -> bytes:
        return post("/v1/recommend", json.dumps({"user": customers[number % len(customers)]}))

    healthz = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return {
        "one event": (1, event),
        f"one event, {CONNECTIONS} at once": (CONNECTIONS, event),
        "five events": (1, events_of_five),
        "/healthz": (1, lambda _: healthz),
        "recommend, by history": (1, by_history),
        "recommend, by customer": (1, by_customer),
    }


def send_block(port: int, requests: list[bytes], connections: int) -> None:
    def send(part: list[bytes]) -> None:
        with closing(Connection(port)) as connection:
            for request in part:
                status, body = connection.send(request)
                if status != 200:
                    raise SystemExit(f"status {status}: {body.decode(errors='replace')}")

    parts = [requests[start::connections] for start in range(connections)]
    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(send, parts))


def compare(pair: tuple[Commit, Commit], raw: Path, rounds: int, only: str) -> list[dict[str, Any]]:
    kinds = {name: kind for name, kind in make_kinds(raw).items() if only in name}
    numbers = count()
    spent: dict[str, list[list[float]]] = {name: [[], []] for name in kinds}
    took: dict[str, list[list[float]]] = {name: [[], []] for name in kinds}
    for number in range(-2, rounds):
        for name, (connections, make) in kinds.items():
            first = next(numbers) * BLOCK
            requests = [make(first + one) for one in range(BLOCK)]
            for which in (0, 1) if number % 2 else (1, 0):
                commit = pair[which]
                before, begun = commit.cpu_seconds(), time.perf_counter()
                send_block(commit.port, requests, connections)
                if number >= 0:
                    took[name][which].append((time.perf_counter() - begun) / BLOCK)
                    spent[name][which].append((commit.cpu_seconds() - before) / BLOCK)
    rows = []
    for name, (old, new) in spent.items():
        # The error of a ratio of means, from the rounds: a block can be so short that its own ratio is far off.
        ratio = statistics.fmean(new) / statistics.fmean(old)
        off = [b - ratio * a for a, b in zip(old, new, strict=True)]
        error = statistics.stdev(off) / len(off) ** 0.5 / statistics.fmean(old)
        cpu = [1e6 * statistics.fmean(one) for one in (old, new)]
        wall = [1e3 * statistics.median(one) for one in took[name]]
        rows.append(
            {
                "what": name,
                "before, us of processor": round(cpu[0]),
                "after": round(cpu[1]),
                "ratio": ratio,
                "error": error,
                "before, ms": wall[0],
                "after, ms": wall[1],
            }
        )
    return rows


def compare_starts(pair: tuple[Commit, Commit], times: int) -> dict[str, Any]:
    seconds: list[list[float]] = [[], []]
    for number in range(times):
        for which in (0, 1) if number % 2 else (1, 0):
            seconds[which].append(pair[which].start())
            pair[which].stop()
    old, new = (1e3 * statistics.median(one) for one in seconds)
    return {"what": "start until ready", "ratio": new / old, "before, ms": old, "after, ms": new}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--only", default="", help="only kinds of requests whose name contains this")
    parser.add_argument("--start", action="store_true", help="measure the time until ready as well")
    parser.add_argument("--folder", type=Path, help="keep the data here, and use what is there already")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        raw = folder / "raw"
        if not raw.exists():
            environment = os.environ | {"PYTHONPATH": str(options.after.resolve() / "src")}
            events = options.items * EVENTS_PER_ITEM
            counts = {"customers": events // EVENTS_PER_CUSTOMER, "items": options.items, "interactions": events}
            sizes = [part for name, count in counts.items() for part in (f"--{name}", str(count))]
            command = [sys.executable, "-m", "lorentzrec.cli", "synthesize", "--out", str(raw), *sizes]
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        before, after = (
            Commit(source, folder / name, raw, options.workers)
            for name, source in (("before", options.before), ("after", options.after))
        )
        pair = (before, after)
        rows = [compare_starts(pair, 5)] if options.start else []
        for commit in pair:
            stack.callback(commit.stop)
            commit.start()
        rows = compare(pair, raw, options.rounds, options.only) + rows
    report("commits", f"processor time per request: {options.after} compared with {options.before}", rows)


if __name__ == "__main__":
    main()
