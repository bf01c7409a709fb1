"""Processor time of a refresh of the trend, and of a recommendation with and without one.

A refresh reads what has arrived from a folder store, counts, and gives a recommender of a version its new trend, with
an index whose lists are random: only their sizes matter. Recommendations are measured in turns, with the trend and
without it, on the same random points.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.points.index import Index, build_index, encode, find_kind
from lorentzrec.points.native import Lists
from lorentzrec.points.points import History, Points
from lorentzrec.points.space import Space
from lorentzrec.points.trend import Trend
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import Version, open_version, write_version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.live_trend import LiveTrend
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.new_items import NewItems
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.trend_watcher import TrendWatcher
from measuring import report

DIMENSION = 50
LISTS = 4_000
NEW_EVENTS = 2_000
"""That arrive between two refreshes."""
REFRESHES, ROUNDS, QUERIES = 10, 12, 100
A_BATCH = 20_000


def random_points(items: int, random: np.random.Generator) -> Points:
    space = (0.15 * random.standard_normal((items, DIMENSION))).astype(np.float32)
    points = np.column_stack([np.sqrt(1 + (space * space).sum(axis=1)), space]).astype(np.float32)
    counts = np.minimum(random.zipf(1.5, items), 10**6)
    return Points(points, points, counts, Space("hyperboloid", "distance", 0.7), trend=random_trend(counts, random))


def random_trend(counts: NDArray[np.int64], random: np.random.Generator) -> Trend:
    expected = np.minimum(counts, 5_000).astype(np.float32)
    return Trend(random.poisson(expected).astype(np.float32), expected, 0.2, 28.0, time.time())


def random_index(points: Points, random: np.random.Generator) -> Index:
    """An index whose lists have random items."""
    owners = np.sort(random.integers(0, LISTS, len(points)))
    offsets = np.searchsorted(owners, np.arange(LISTS + 1))
    order = random.permutation(len(points))
    width = points.item_points.shape[1]
    bases = points.item_points[:LISTS]
    units, scales, codes = encode(points.item_points, bases, owners, order, offsets)
    centres = np.zeros((LISTS, -(-width // 8) * 8), np.float32)
    centres[:, :width] = bases
    lists = Lists(centres, np.zeros(LISTS, np.float32), units, scales, offsets, order.astype(np.int32), codes)
    return Index(lists, 100, find_kind(points.space), np.zeros((2, width)), recall=1.0)


def random_version(folder: Path, points: Points) -> Version:
    items = len(points)
    data = Interactions.from_pairs(np.arange(items) % 1_000, np.arange(items), times=np.arange(items))
    config = TrainingConfig(dimension=DIMENSION, score="distance", recency=0.7).resolve_for(data)
    write_version(
        folder, Model(config=config, items=data.items, points=points, users=data.users, histories=data), index=False
    )
    return open_version(folder)


def random_events(count: int, items: NDArray[np.int64], random: np.random.Generator, name: str) -> list[Event]:
    """Events of the last days, with ten items for each customer."""
    now = time.time()
    drawn, ages = random.choice(items, count), random.random(count) * 27 * 86_400
    return [
        Event(f"{name}{number // 10}", str(item), now - age, f"{number}")
        for number, (item, age) in enumerate(zip(drawn.tolist(), ages.tolist(), strict=True))
    ]


def add(store: Store, events: list[Event]) -> None:
    for start in range(0, len(events), A_BATCH):
        store.add_events(events[start : start + A_BATCH])


def age(folder: Path, seconds: float) -> None:
    """As if everything had arrived earlier."""
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET arrived = arrived - ?", (seconds,))


def processor_seconds(job: Callable[[], object]) -> float:
    """Of all threads."""
    start = time.process_time()
    job()
    return time.process_time() - start


def measure_refreshes(items: int, pairs: int, folder: Path) -> dict[str, float]:
    random = np.random.default_rng(0)
    points = random_points(items, random)
    version = replace(random_version(folder / "version", points), index=random_index(points, random))
    often = np.repeat(np.arange(items), np.minimum(points.item_counts, 1_000))
    found = {}
    with closing(open_store(f"file:{folder / 'store'}", create=True)) as store:
        add(store, random_events(pairs, often, random, "c"))
        guarded = GuardedStore(lambda: open_store(f"file:{folder / 'store'}"), seconds=60, threads=2)
        watcher = TrendWatcher(guarded, Metrics(), 1.0)
        recommender = watcher.apply(Recommender(version), "main")
        found["first reading"] = processor_seconds(watcher.refresh)

        def apply() -> None:
            nonlocal recommender
            recommender = watcher.apply(recommender, "main")

        found["first trend"] = processor_seconds(apply)
        reading, applying = [], []
        age(folder / "store", 3_600)
        for number in range(REFRESHES):
            age(folder / "store", 45)
            add(store, random_events(NEW_EVENTS, often, random, f"n{number}-"))
            reading.append(processor_seconds(watcher.refresh))
            applying.append(processor_seconds(apply))
            assert recommender.trend is not None
            assert recommender.trend.source == "events"
        guarded.close()
    together = [sum(both) for both in zip(reading, applying, strict=True)]
    found |= {"reading and counting": float(np.median(reading)), "new trend": float(np.median(applying))}
    return found | {"refresh": float(np.median(together)), "slowest refresh": max(together)}


def measure_recommendations(items: int, folder: Path, *, indexed: bool) -> dict[str, float]:
    """A recommendation of the service without HTTP, and its ranking alone, in turns of many queries each.

    A ratio is the median of those of pairs of turns, with its standard error.
    """
    random = np.random.default_rng(1)
    points = random_points(items, random)
    histories = [History(random.integers(0, items, 20)) for _ in range(QUERIES)]
    queries = np.array([points.query(history.items) for history in histories])
    version = random_version(folder, points)
    if indexed:
        version = replace(version, index=build_index(points, queries).tune(points.scorer))
    recommender, nothing = Recommender(version), NewItems([])
    live = LiveTrend(None, "off", 28.0, np.zeros(0, np.float32), nothing, None, is_counted=False)
    other = replace(version, index=None if version.index is None else replace(version.index))
    recommenders = {"with": recommender, "without": Recommender(other).with_trend(live)}
    ids = [[str(row) for row in history.items.tolist()] for history in histories]

    def recommend(chosen: Recommender) -> None:
        for history in ids:
            chosen.recommend(history)

    def rank(chosen: Recommender) -> None:
        for history in histories:
            chosen._ranker.top(None, 10, history=history)

    found: dict[str, float] = {}
    for what, ask in (("recommendation", recommend), ("ranking", rank)):
        seconds: dict[str, list[float]] = {name: [] for name in recommenders}
        for number in range(ROUNDS + 1):
            for name in sorted(recommenders, reverse=bool(number % 2)):
                seconds[name].append(processor_seconds(partial(ask, recommenders[name])) / QUERIES)
        ratios = np.array(seconds["with"][1:]) / seconds["without"][1:]
        found |= {f"{what} {name} a trend": float(np.median(values[1:])) for name, values in seconds.items()}
        found[f"{what}, ratio"] = float(np.median(ratios))
        found[f"{what}, error"] = float(ratios.std() / np.sqrt(len(ratios)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="events of the last days")
    arguments = parser.parse_known_args()[0]
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, value in measure_refreshes(arguments.items, arguments.pairs, Path(folder)).items():
            results.append({"what": name, "milliseconds": round(1_000 * value, 2)})
        for indexed, items in ((False, min(20_000, arguments.items)), (True, arguments.items // 20)):
            found = measure_recommendations(items, Path(folder) / f"{items}", indexed=indexed)
            where = f"{items:,} items, {'index' if indexed else 'exact'}"
            for what in ("recommendation", "ranking"):
                for name in ("with", "without"):
                    value = round(1_000 * found[f"{what} {name} a trend"], 3)
                    results.append({"what": f"{where}, {what} {name} a trend", "milliseconds": value})
                ratio = f"{found[f'{what}, ratio']:.3f} ± {found[f'{what}, error']:.3f}"
                results.append({"what": f"{where}, {what}, ratio", "ratio": ratio})
    report("trend", "Trends of a service", results)


if __name__ == "__main__":
    main()
