"""A shop with 87,000 live items of 1,000,000: the cost of filters, of a change of live items, and of a new version.

    python benchmarks/bench_live.py [--items N] [--live N] [filters] [changes] [swaps] [memory]

filters   processor time per request of filters in alternating blocks, as a ratio to that of a plain request; the same
          customers and histories for all
changes   one item becomes live or sold out, twenty times, under 100 requests per second: seconds until no worker
          recommends it, and p99 of the second before and after
swaps     another version of the same size is activated, six times, under 100 requests per second: p99 of the six
          seconds before and after
memory    seconds from the command to readiness, and the memory of a worker

The service and the load are those of `bench_serve.py`, and so is the catalogue. Results are in results/live_*.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bench_serve import LARGE, LIVE, Load, Service, serving
from load_client import Connection, Task, post
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import publish
from measuring import report
from served_catalogue import CATEGORIES, Catalogue, catalogue, item_table, live_subset, model_of

BLOCK, ROUNDS = 100, 12
RATE = 100.0
CHANGES, SWAPS = 20, 6
SWAP_SECONDS = 6.0
PATIENCE = 10.0


def measure_filters(shop: Catalogue, service: Service) -> list[dict[str, Any]]:
    """Milliseconds of processor time per request of each kind, and its ratio to a plain one with a standard error."""
    random = np.random.default_rng(1)
    ids = model_of(shop).items.series.to_list()

    def categories(count: int) -> dict[str, list[str]]:
        return {"categories": [str(one) for one in random.choice(CATEGORIES, count, replace=False)]}

    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": dict,
        "one category": lambda: categories(1),
        "30 categories": lambda: categories(30),
        "5,000 allowed ids": lambda: {"allow": [str(ids[row]) for row in random.integers(0, len(ids), 5_000)]},
    }
    bodies = [json.loads(body) for body in shop.bodies()]
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    with closing(Connection(service.port)) as connection:
        for number in range(-2, ROUNDS):
            names = list(kinds)[:: 1 if number % 2 else -1]
            for kind in names:
                chosen = [bodies[(number * BLOCK + one) % len(bodies)] for one in range(BLOCK)]
                requests = [post("/v1/recommend", json.dumps(body | kinds[kind]())) for body in chosen]
                before = service.cpu_seconds()
                for request in requests:
                    status, answer = connection.send(request)
                    if status != 200:
                        raise SystemExit(f"{kind}: status {status}: {answer[:300].decode(errors='replace')}")
                if number >= 0:
                    spent[kind].append(1e3 * (service.cpu_seconds() - before) / BLOCK)
    rows = []
    for kind, found in spent.items():
        ratios = [one / plain for one, plain in zip(found, spent["plain"], strict=True)]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        rows.append({"what": kind, "ms": statistics.median(found), "ratio": statistics.fmean(ratios), "error": error})
    return rows


def _percentile(each: list[tuple[float, float]], start: float, seconds: float) -> float:
    """p99 of the requests that were due in these seconds."""
    found = sorted(latency for due, latency in each if start <= due < start + seconds)
    return found[int(0.99 * (len(found) - 1))] if found else float("nan")


def _before_and_after(each: list[tuple[float, float]], times: list[float], seconds: float) -> dict[str, float]:
    before = [_percentile(each, time - seconds, seconds) for time in times]
    after = [_percentile(each, time, seconds) for time in times]
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    return {
        "p99 before": statistics.median(before),
        "p99 after": statistics.median(after),
        "median ratio": statistics.median(ratios),
        "largest ratio": max(ratios),
    }


def measure_changes(shop: Catalogue, service: Service) -> list[dict[str, Any]]:
    """Sell out what is recommended first, and bring it back: seconds until all workers agree, and latencies."""
    history = json.dumps({"history": shop.histories[0]})
    running = Load(service, Task(service.port, shop.bodies(), rate=RATE, each=True))
    time.sleep(5)
    times, visible = [], []

    def first_items() -> list[str]:
        with closing(Connection(service.port)) as connection:
            _, body = connection.send(post("/v1/recommend", history))
        return [item["id"] for item in json.loads(body)["items"]]

    def change(item: str, *, live: bool) -> None:
        with closing(Connection(service.port)) as connection:
            request = post("/v1/live", json.dumps({"add" if live else "remove": [item]})).replace(b"POST", b"PATCH", 1)
            status, answer = connection.send(request)
        if status != 200:
            raise SystemExit(f"PATCH /v1/live returned {status}: {answer.decode()}")

    item = first_items()[0]
    for number in range(CHANGES):
        live = number % 2 == 1
        begun = time.time()
        change(item, live=live)
        last_other = begun
        while time.time() < last_other + 1.0:  # every connection goes to either worker
            if time.time() > begun + PATIENCE:
                raise SystemExit(f"a change of a live item is not visible after {PATIENCE} seconds")
            if (item in first_items()) != live:
                last_other = time.time()
        times.append(begun)
        visible.append(last_other - begun)
        time.sleep(0.5)
    tally, _ = running.result(stop=True)
    row = {"what": f"{CHANGES} changes of one live item", "errors": tally.failures, "slowest, s": max(visible)}
    return [row | _before_and_after(tally.each, times, 1.0)]


def measure_swaps(shop: Catalogue, service: Service, names: tuple[str, str]) -> list[dict[str, Any]]:
    """Activate one version after the other: latencies around each activation, and how long the old one answered."""
    running = Load(service, Task(service.port, shop.bodies(), rate=RATE, each=True))
    time.sleep(SWAP_SECONDS + 2)
    times, seconds = [], []
    with closing(open_store(shop.store)) as store:
        for number in range(SWAPS):
            name = names[(number + 1) % 2]
            begun = time.time()
            store.activate(name, "a benchmark")
            last_old = begun
            while time.time() < last_old + 2.0 and time.time() < begun + 60:
                with closing(Connection(service.port)) as connection:
                    _, body = connection.send(post("/v1/recommend", json.dumps({"history": shop.histories[0]})))
                if json.loads(body)["model"] != name:
                    last_old = time.time()
                time.sleep(0.05)
            times.append(begun)
            seconds.append(last_old - begun)
            time.sleep(max(0.0, begun + 2 * SWAP_SECONDS + 1 - time.time()))
    tally, _ = running.result(stop=True)
    row = {"what": f"{SWAPS} activations", "errors": tally.failures, "last answer of the old, s": max(seconds)}
    return [row | _before_and_after(tally.each, times, SWAP_SECONDS)]


def measure_start(shop: Catalogue, workers: int) -> list[dict[str, Any]]:
    """Seconds to readiness, and the private and proportional memory of a worker after 500 requests."""
    found = []
    for _ in range(3):
        with serving(shop.store, workers) as service:
            with closing(Connection(service.port)) as connection:
                for body in shop.bodies()[:500]:
                    connection.send(post("/v1/recommend", body))
            pids = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
            memory = [_memory(int(pid)) for pid in pids]
            found.append((service.seconds_to_ready, *map(max, zip(*memory, strict=True))))
    seconds, private, proportional = map(statistics.median, zip(*found, strict=True))
    return [{"what": "start", "ready, s": seconds, "private, MB": private, "proportional, MB": proportional}]


def _memory(pid: int) -> tuple[float, float]:
    """Private and proportional megabytes of a process."""
    values = dict.fromkeys(("Private_Clean", "Private_Dirty", "Pss"), 0)
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name = line.partition(":")[0]
        if name in values:
            values[name] += int(line.split()[1])
    return (values["Private_Clean"] + values["Private_Dirty"]) / 1000, values["Pss"] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="WHAT", default=["filters", "changes", "swaps", "memory"])
    parser.add_argument("--items", type=int, default=LARGE)
    parser.add_argument("--live", type=int, default=LIVE, help="0: all")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    shop = catalogue(options.items)
    model = model_of(shop)
    with closing(open_store(shop.store)) as store:
        if options.live:
            ids = model.items.series.cast(pl.String)
            store.set_live_items(ids[live_subset(options.items, options.live)].to_list())
    title = f"{options.live or options.items:,} live of {options.items:,} items, workers: {options.workers}"
    try:
        if "memory" in options.what:
            report("live_start", title, measure_start(shop, options.workers))
        with serving(shop.store, options.workers, "--log-level", "warning") as service:
            warm = Task(service.port, shop.bodies(), 10.0, connections=8)
            Load(service, warm).result()  # and the index of the live items is ready
            if "filters" in options.what:
                report("live_filters", title, measure_filters(shop, service))
            if "changes" in options.what:
                report("live_changes", title, measure_changes(shop, service))
            if "swaps" in options.what:
                with closing(open_store(shop.store)) as store:
                    first = str(store.state().version)
                    second = publish(model, store, items=item_table(model)).name
                time.sleep(10)
                report("live_swaps", title, measure_swaps(shop, service, (second, first)))
    finally:
        with closing(open_store(shop.store)) as store:
            store.set_live_items(None)


if __name__ == "__main__":
    main()
