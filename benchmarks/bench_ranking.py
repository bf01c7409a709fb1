"""Latency of one customer: the exact top 10 for a history, by catalogue size, and for many customers at once.

Points are random points on the hyperboloid, which is harder than trained ones; histories have 20 items.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.space import Space
from measuring import best_seconds, report

DIMENSION = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smaller catalogues only")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows = []
    for items in (20_700, 132_399) if options.quick else (20_700, 132_399, 1_000_000):
        points = lift(0.5 * random.standard_normal((items, DIMENSION), np.float32))
        ranker = Ranker(Points(points, points, np.zeros(items, np.int64), Space("hyperboloid", "distance")))
        histories = [random.integers(0, items, 20) for _ in range(200)]
        latencies = []
        for history in histories:
            start = time.perf_counter()
            ranker.top(ranker.query(history), 10, history)
            latencies.append(time.perf_counter() - start)
        queries = np.stack([ranker.query(history) for history in histories])
        many = best_seconds(lambda: ranker.top_many(queries, 10, histories), 3)  # noqa: B023
        rows.append(
            {
                "items": items,
                "median_ms": float(np.median(latencies) * 1e3),
                "p99_ms": float(np.quantile(latencies, 0.99) * 1e3),
                "batched_ms_per_customer": many / len(histories) * 1e3,
            }
        )
    report("ranking", f"exact top 10 of a history, d = {DIMENSION}", rows)


if __name__ == "__main__":
    main()
