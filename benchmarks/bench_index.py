"""Exact ranking and the index on trained points: latency, recall with filters, times to write and to open a version.

    python benchmarks/bench_index.py MODEL     a saved model with histories; without one a small shop is trained first

Latency is processor time of one thread for the history of a random customer of the model, so that other work on the
machine does not change it; building is timed by the clock and by the processor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec import TrainingConfig, load, train
from lorentzrec.model.model import Model
from lorentzrec.points import index
from lorentzrec.points.native import Question
from lorentzrec.points.ranking import LiveSet, Ranker
from lorentzrec.points.scoring import NO_ROWS
from lorentzrec.serving.stores.version_files import read_manifest
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.synthetic.shop import synthetic_shop
from measuring import best_seconds, report

QUERIES = 200


def milliseconds(job: Callable[[int], object]) -> float:
    start = time.process_time()
    for number in range(QUERIES):
        job(number)
    return (time.process_time() - start) / QUERIES * 1e3


def small_model(quick: bool) -> Model:
    items = 20_000 if quick else 135_000
    data = synthetic_shop(customers=items, items=items, interactions=10 * items).interactions()
    return train(data, TrainingConfig(dimension=50, epochs=1 if quick else 3, seed=1))


def measure(model: Model, scratch: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the table, and notes about what was timed once."""
    assert model.histories is not None
    start = time.perf_counter()
    write_version(scratch / "version", model, index=False)
    writing = time.perf_counter() - start
    opening = best_seconds(lambda: open_version(scratch / "version").items.close())
    checking = best_seconds(lambda: read_manifest(scratch / "version")[0].find_damage(scratch / "version"))
    version = open_version(scratch / "version")
    ranker = Ranker(version.points)
    queries = index.sample_queries(model.points, model.histories, seed=1)[:QUERIES]
    exact = milliseconds(lambda number: ranker.top(queries[number], index.K))
    rows: list[dict[str, Any]] = [{"way": "exact, top 10", "items": len(model.items), "ms": exact, "recall": 1.0}]
    start, cpu = time.perf_counter(), time.process_time()
    lists = index.build_index(model.points, index.sample_queries(model.points, model.histories))
    building, cpu = time.perf_counter() - start, time.process_time() - cpu
    lists = lists.tune(model.points.scorer)
    nearest = [ranker.top(query, index.K)[0] for query in queries]
    for probes in (8, 16, 32, 64, 128, 256):
        asked = Question(index.K, lists=lists.lists, probes=probes, wanted=index.CANDIDATES_PER_ITEM * index.K)
        answers = [model.points.scorer.rank(asked._replace(query=query)) for query in queries]
        recall = index.mean_recall([NO_ROWS if one is None else one.rows for one in answers], nearest)
        latency = milliseconds(lambda number: model.points.scorer.rank(asked._replace(query=queries[number])))  # noqa: B023
        rows.append(
            {"way": f"{probes} lists, points alone", "items": len(model.items), "ms": latency, "recall": recall}
        )
    random = np.random.default_rng(0)
    for k, share in ((10, 1.0), (100, 1.0), (500, 1.0), (10, 0.5), (10, 0.1), (100, 0.1)):
        live = None if share == 1 else np.flatnonzero(random.random(len(model.items)) < share)
        live_set = LiveSet(model.points, live)
        some = (
            lists
            if live_set.mask is None or share > 0.3
            else lists.narrow(live_set.mask).tune(model.points.scorer, live_set.bitmap)
        )
        indexed = Ranker(model.points, index=some, live=live_set)
        truth = [ranker.top(query, k, allowed=live)[0] for query in queries]
        found = [indexed.top(query, k)[0] for query in queries]
        recall = float(np.mean([len(np.intersect1d(*pair)) / k for pair in zip(truth, found, strict=True)]))
        latency = milliseconds(lambda number: indexed.top(queries[number], k))  # noqa: B023
        way = f"index, top {k}, {share:.0%} live"
        rows.append({"way": way, "items": len(model.items), "ms": latency, "recall": recall})
    notes = [
        f"a version without index: written in {writing:.1f} s, checked in {checking:.2f} s, opened in {opening:.3f} s",
        f"the index: built in {building:.0f} s (processors: {cpu:.0f} s)",
        f"a search for ten reads {lists.probes} of {len(lists.lists)} lists, recall {lists.recall}",
    ]
    return rows, notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="the folder of a saved model")
    parser.add_argument("--quick", action="store_true", help="train a smaller shop")
    options = parser.parse_args()
    model = load(options.model) if options.model else small_model(options.quick)
    with tempfile.TemporaryDirectory() as scratch:
        report("index", "exact ranking and the index on trained points, d = 50", *measure(model, Path(scratch)))


if __name__ == "__main__":
    main()
