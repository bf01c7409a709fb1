"""The service under load, rates, latencies, start-up, events and publishing, each with its requirement.

    python benchmarks/bench_serve.py [--quick] [--points] [--workers N] [SCENARIO ...]

exact     132,399 items, ranked exactly: 200 recommendations per second for a minute, then the highest rate
index     1,000,000 items through the index: the same at 300 per second, recall@10 through HTTP, and start to ready
live      the same with 87,000 of them live, as in a shop: 8 connections without a pause, five windows of 600 per
          second, processor time per request, and how many of 1,000 lists are those of exact ranking
events    an event counts in the next response, whichever of two workers handles either, under load
publish   20 versions published under load: no request fails, and no response mixes two versions

The service is `lorentzrec serve` with a file store; load comes over loopback from `load_client.py`, a separate
process on the same cores. Half of the requests name a customer, whose 5 to 50 events are read from the store, half
contain such a history; each response is checked to be complete. Points are trained once on a synthetic shop; see
`served_catalogue.py`. Results are in results/serve_*.json; the exit code is 1 if a requirement is not met.

The processor limits the rate: the column `cpu_us` has the processor time of the service per request. It depends less
on other work on the machine than the rate does, and the table of stages is in docs/lab/performance.md.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from load_client import Connection, Tally, Task, post
from lorentzrec.base.threads import available_cores
from lorentzrec.points.points import History
from lorentzrec.points.ranking import LiveSet, Ranker
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import publish
from lorentzrec.serving.versions.version import Version, open_version
from measuring import report, worker_seconds
from served_catalogue import DIMENSION, Catalogue, catalogue, is_made, live_subset, model_of

SCENARIOS = ("exact", "index", "live", "events", "publish")
LARGE, LIVE = 1_000_000, 87_000
KEY = "a-key-of-the-benchmark"
PATIENCE = 60.0
P99, RECALL, START = 50.0, 0.99, 3.0
"""Requirements: milliseconds, a share, seconds."""


class Service:
    """`lorentzrec serve` in a separate process."""

    def __init__(self, store: str, workers: int, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [sys.executable, "-m", "lorentzrec.cli", "serve", store, "--port", str(self.port)]
        command += ["--workers", str(workers), *options]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, it is closed by stop()
        begun = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        while not self._ready():
            if self._process.poll() is not None or time.perf_counter() > begun + PATIENCE:
                raise SystemExit(f"the service did not start: {self.log()}")
            time.sleep(0.01)
        self.seconds_to_ready = time.perf_counter() - begun

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]

    @property
    def pid(self) -> int:
        """The parent of the workers."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Processor time used by the workers so far."""
        return worker_seconds(self.pid)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)
        self._log.close()


@contextmanager
def serving(store: str, workers: int, *options: str) -> Iterator[Service]:
    service = Service(store, workers, *options)
    try:
        yield service
    finally:
        service.stop()


class Load:
    """Requests from a separate process."""

    def __init__(self, service: Service, task: Task) -> None:
        self._service, self._cpu, self._begun = service, service.cpu_seconds(), time.perf_counter()
        command = [sys.executable, str(Path(__file__).with_name("load_client.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._in, self._out = self._process.stdin, self._process.stdout
        assert self._in is not None
        self._in.write(json.dumps(asdict(task)) + "\n")

    def result(self, *, stop: bool = False) -> tuple[Tally, float]:
        """The client's measurements until its time was over, or until now; and the service's share of one core."""
        assert self._in is not None
        assert self._out is not None
        if stop:
            self._in.close()
        tally = Tally(**json.loads(self._out.read()))
        share = (self._service.cpu_seconds() - self._cpu) / (time.perf_counter() - self._begun)
        self._in.close()
        self._out.close()
        self._process.wait()
        return tally, share


def measured(service: Service, what: str, task: Task) -> dict[str, Any]:
    """One row of the table of loads: latencies in ms; shares of one core used by the service and the client."""
    tally, share = Load(service, task).result()
    for error in tally.errors:
        print(f"  {what}: {error}")
    return {
        "what": what,
        "target/s": f"{task.rate:,.0f}" if task.rate else "unlimited",
        "rate/s": tally.rate,
        "responses": tally.sent,
        "errors": tally.failures,
        "p50": tally.p50,
        "p95": tally.p95,
        "p99": tally.p99,
        "max_ms": tally.max,
        "service": share,
        "cpu_us": 1e6 * share / tally.rate,
        "client": tally.client_cpu,
    }


def keeps_up(row: dict[str, Any]) -> bool:
    target = float(row["target/s"].replace(",", ""))
    return bool(row["errors"] == 0 and row["p99"] < P99 and row["rate/s"] > 0.98 * target)


def loads(name: str, shop: Catalogue, service: Service, rate: float, seconds: float) -> list[dict[str, Any]]:
    """The required rate; the rate of 8 connections without a pause; the highest rate whose p99 meets the requirement.

    The last is searched from that ceiling downwards: near it, latencies grow without bound.
    """
    bodies, short = shop.bodies(), max(3.0, seconds / 6)
    measured(service, name, Task(service.port, bodies, short / 2, rate))  # warms up
    rows = [measured(service, name, Task(service.port, bodies, seconds, rate))]
    rows.append(measured(service, f"{name}, no pause", Task(service.port, bodies, short, connections=8)))
    for share in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4):
        highest = share * rows[1]["rate/s"]
        row = measured(service, f"{name}, highest", Task(service.port, bodies, short, highest))
        if keeps_up(row):
            return [*rows, row]
    return rows


def recall(shop: Catalogue, service: Service, queries: int) -> float:
    """The share of the true top ten, by exact ranking, that the service recommends."""
    with closing(open_store(shop.store)) as store:
        version = open_version(store.fetch(str(store.state().version), Path()))
    connection, shares = Connection(service.port), []
    for history in shop.histories[:queries]:
        rows = version.items.rows(history)
        exact, _ = Ranker(version.points).top(version.points.query(rows), 10, rows, history=History(rows))
        _, body = connection.send(post("/v1/recommend", json.dumps({"history": history})))
        shares.append(len({item["row"] for item in json.loads(body)["items"]} & set(exact.tolist())) / 10)
    connection.close()
    version.items.close()
    return float(np.mean(shares))


def serve_live(shop: Catalogue, workers: int, seconds: float) -> tuple[list[dict[str, Any]], float]:
    """Loads on a service of a shop with few live items, with keys and a sampled log; and the share of lists that are
    those of exact ranking."""
    with closing(open_store(shop.store)) as store:
        version = open_version(store.fetch(str(store.state().version), Path()))
        rows = live_subset(len(version.points), LIVE)
        store.set_live_items([item.id for item in version.items.items(rows)])
    try:
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys.txt"
            keys.write_text(f"{KEY}\n")
            options = "--api-key-file", str(keys), "--log-format", "json", "--log-sample", "0.01"
            with serving(shop.store, workers, *options) as service:
                bodies, name = shop.bodies(), f"{LIVE:,} of {shop.items:,} live"
                measured(service, name, Task(service.port, bodies, seconds, connections=8, key=KEY))  # warms up, tunes
                tasks = [Task(service.port, bodies, seconds, connections=8, key=KEY)]
                tasks += [Task(service.port, bodies, seconds, 600, key=KEY)] * 5
                found = [measured(service, name, task) for task in tasks]
                same = count_equal(version, rows, service, shop.histories[:1_000])
    finally:
        version.items.close()
        with closing(open_store(shop.store)) as store:
            store.set_live_items(None)
    return found, same


def count_equal(version: Version, live: NDArray[np.int64], service: Service, histories: list[list[str]]) -> float:
    """The share of histories whose list is that of exact ranking."""
    ranker, equal = Ranker(version.points, live=LiveSet(version.points, live)), 0
    with closing(Connection(service.port)) as connection:
        for history in histories:
            rows = version.items.rows(history)
            exact, _ = ranker.top(None, 10, rows, history=History(rows))
            _, body = connection.send(post("/v1/recommend", json.dumps({"history": history}), KEY))
            equal += [item["row"] for item in json.loads(body)["items"]] == exact.tolist()
    return equal / len(histories)


def starts(shop: Catalogue, workers: int, times: int = 3) -> list[float]:
    """Seconds from the command to readiness."""
    seconds = []
    for _ in range(times):
        with serving(shop.store, workers) as service:
            seconds.append(service.seconds_to_ready)
    return seconds


def unseen_events(shop: Catalogue, service: Service, rounds: int, chains: int = 4, rate: float = 50) -> int:
    """Number of events missing from the next response, while `rate` other requests arrive per second.

    Each chain is a new customer. The first event must change the response from popular items to personal ones; each
    further event is of the item recommended first, which must then disappear. Every request has its own connection,
    so with two workers about half of the events are sent to one worker and queried from the other.
    """
    running = Load(service, Task(service.port, shop.bodies(), rate=rate))
    unseen: list[str] = []

    def alone(path: str, **body: Any) -> Any:
        with closing(Connection(service.port)) as connection:
            status, answer = connection.send(post(path, json.dumps(body)))
        if status != 200:
            raise SystemExit(f"{path} returned {status}: {answer.decode()}")
        return json.loads(answer)

    def chain(number: int) -> None:
        item, user = shop.histories[number][0], f"new-{number}-{time.time_ns()}"
        for _ in range(rounds // chains):
            alone("/v1/events", user=user, item=item)
            answer = alone("/v1/recommend", user=user)
            if answer["fallback"] or answer["degraded"] or item in {one["id"] for one in answer["items"]}:
                unseen.append(item)
            item = answer["items"][0]["id"]

    with ThreadPoolExecutor(chains) as pool:
        list(pool.map(chain, range(chains)))
    running.result(stop=True)
    return len(unseen)


def published_under_load(shop: Catalogue, service: Service, versions: int, rate: float) -> tuple[Tally, int, int]:
    """The client's measurements while versions were published; responses that mix two; number of versions seen.

    All titles of a version begin with its own label, so a response with two labels, or with the label of another
    version than it names, is mixed.
    """
    model, label_of = model_of(shop), {}
    ids = model.items.series.cast(pl.String)
    with closing(open_store(shop.store)) as store:

        def publish_one(label: str) -> None:
            titles = pl.DataFrame({"id": ids, "title": f"{label} " + ids})
            label_of[publish(model, store, items=titles).name] = label

        publish_one("first")
        time.sleep(3)  # until every worker has switched to it
        running = Load(service, Task(service.port, shop.bodies(), rate=rate))
        for number in range(versions):
            publish_one(f"label{number}")
            time.sleep(random.uniform(0, 1.5))  # some switches at once, some after the workers took the last one
        time.sleep(3)
    tally, _ = running.result(stop=True)
    seen = {response: response.split() for response in tally.labels}
    mixed = sum(tally.labels[one] for one, (name, *labels) in seen.items() if labels != [label_of.get(name)])
    return tally, mixed, len({name for name, *_ in seen.values()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"some of {', '.join(SCENARIOS)}")
    parser.add_argument("--quick", action="store_true", help="a minute: short loads, 20,000 items instead of 132,399")
    parser.add_argument("--points", action="store_true", help="models without a memory")
    parser.add_argument("--workers", type=int, default=available_cores(), help="of the service; default: one per core")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(SCENARIOS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(SCENARIOS)}")
    scenarios, quick = options.scenarios or SCENARIOS, options.quick
    memory = not options.points
    small, seconds = catalogue(20_000 if quick else 132_399, memory=memory), 6.0 if quick else 60.0
    rows: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []

    def fact(what: str, found: float, wanted: str, held: bool) -> None:
        facts.append({"what": what, "found": f"{found:,.4g}", "required": wanted, "held": "yes" if held else "NO"})

    def rate_facts(name: str, rate: float, measured: list[dict[str, Any]]) -> None:
        rows.extend(measured)
        fact(f"{name}: p99 in ms at {rate:.0f} per second", measured[0]["p99"], f"< {P99}", keeps_up(measured[0]))
        fact(f"{name}: errors", measured[0]["errors"], "0", measured[0]["errors"] == 0)

    if "exact" in scenarios:
        with serving(small.store, options.workers) as service:
            name = f"{small.items:,} items, exact"
            rate_facts(name, 200, loads(name, small, service, 200, seconds))
    if "index" in scenarios and (not quick or is_made(LARGE, memory=memory)):
        large, name = catalogue(LARGE, memory=memory), f"{LARGE:,} items, index"
        slowest = max(starts(large, options.workers))
        fact(f"{name}: slowest of 3 starts, s", slowest, f"< {START}", slowest < START)
        with serving(large.store, options.workers) as service:
            found = recall(large, service, 50 if quick else 300)
            fact(f"{name}: recall@10", found, f">= {RECALL}", found >= RECALL)
            rate_facts(name, 300, loads(name, large, service, 300, seconds))
    elif "index" in scenarios or "live" in scenarios:
        print(f"the index needs {LARGE:,} trained points, which take minutes: run once without --quick")
    if "live" in scenarios and (not quick or is_made(LARGE, memory=memory)):
        live_rows, same = serve_live(catalogue(LARGE, memory=memory), options.workers, seconds / 6)
        rows.extend(live_rows)
        closed, windows = live_rows[0], sorted(row["p99"] for row in live_rows[1:])
        name = f"{LIVE:,} of {LARGE:,} live"
        fact(f"{name}: requests per second without a pause", closed["rate/s"], ">= 1,000", closed["rate/s"] >= 1_000)
        fact(f"{name}: processor time per request, us", closed["cpu_us"], "<= 1,200", closed["cpu_us"] <= 1_200)
        fact(f"{name}: median p99 of five windows at 600 per second, ms", windows[2], "< 20", windows[2] < 20)
        fact(f"{name}: lists as by exact ranking", same, ">= 0.99", same >= 0.99)
    if "events" in scenarios:
        rounds = 200 if quick else 1_000
        with serving(small.store, 2) as service:
            unseen = unseen_events(small, service, rounds)
        fact(f"events missing from the next response, of {rounds}, two workers", unseen, "0", unseen == 0)
    if "publish" in scenarios:
        versions = 4 if quick else 20
        with serving(small.store, options.workers) as service:
            tally, mixed, seen = published_under_load(small, service, versions, rate=100)
        fact(f"publishing {versions} versions: failures of {tally.sent:,}", tally.failures, "0", not tally.failures)
        fact(f"publishing {versions} versions: mixed responses", mixed, "0", mixed == 0)
        fact(f"publishing {versions} versions: seen by clients", seen, "> 1", seen > 1)
        fact(f"publishing {versions} versions: p99 in ms at 100 per second", tally.p99, f"< {P99}", tally.p99 < P99)
    if rows:
        report("serve_load", f"the service under load, workers: {options.workers}, d = {DIMENSION}", rows)
    report("serve_facts", "requirements", facts)
    if any(one["held"] == "NO" for one in facts):
        sys.exit(1)


if __name__ == "__main__":
    main()
