"""Processor time of one recommendation with and without a memory, for random items and histories: the worst case."""

from __future__ import annotations

import argparse
import time

import numpy as np

from lorentzrec.points.memory import Memory
from lorentzrec.points.points import History, Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.space import Space
from measuring import report

ITEMS, DIMENSION, NEIGHBOURS, QUERIES = 132_399, 50, 100, 90


def milliseconds(
    rankers: dict[str, Ranker], histories: list[np.ndarray[tuple[int], np.dtype[np.int64]]]
) -> dict[str, float]:
    """Medians, in turns and by the clock of the thread, because other programs slow down all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in rankers}
    for history in histories:
        for name, ranker in rankers.items():
            started = time.thread_time()
            ranker.top(ranker.query(history), 10, history, None, History(history))
            seconds[name].append(time.thread_time() - started)
    return {name: 1000 * float(np.median(times)) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the items")
    items = ITEMS // 10 if parser.parse_known_args()[0].quick else ITEMS
    random = np.random.default_rng(0)
    space = (0.15 * random.standard_normal((items, DIMENSION))).astype(np.float32)
    points = np.column_stack([np.sqrt(1 + (space * space).sum(axis=1)), space]).astype(np.float32)
    columns = np.sort((items * random.random((items, NEIGHBOURS)) ** 3).astype(np.int32), axis=1)
    values = (random.random((items, NEIGHBOURS)) ** 4 + 1e-3).astype(np.float32)
    offsets = NEIGHBOURS * np.arange(items + 1, dtype=np.int64)
    memories = {"points": None} | {
        name: Memory(offsets, columns.ravel(), values.ravel(), ordered, weight=0.1)
        for name, ordered in (("with times", True), ("without times", False))
    }
    counts = np.zeros(len(points), np.int64)
    rankers = {
        name: Ranker(Points(points, points, counts, Space("hyperboloid", "distance", 0.7), memory))
        for name, memory in memories.items()
    }
    rows = []
    for length in (20, 500):
        histories = [(items * random.random(length) ** 3).astype(np.int64) for _ in range(QUERIES)]
        measured = milliseconds(rankers, histories)
        rows += [
            {"history": length, "memory": name, "ms": value, "ratio": value / measured["points"]}
            for name, value in measured.items()
        ]
    report("boosts", f"One recommendation of 10 among {items:,} items, milliseconds of processor time", rows)


if __name__ == "__main__":
    main()
