"""Quality on MovieLens 1M (ratings of 4 and more, the last event held out, full ranking), if the data are available.

    python benchmarks/bench_quality.py --data DIR        DIR holds ml-1m/ratings.dat; or set LORENTZREC_DATA

- BPR: ours with the defaults and implicit's at several rates, with the same dimension and number of epochs.
- The defaults (asymmetric, softmax), their Euclidean twin, item-kNN and popularity.
- Asymmetric and symmetric WMRB: seconds until the validation NDCG@10 of the weaker one is reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec import Interactions, TrainingConfig, evaluate, train
from lorentzrec.evaluation.baselines import ItemKNN, Popularity
from lorentzrec.evaluation.peers import ImplicitBPR
from lorentzrec.evaluation.protocol import Recommender
from lorentzrec_paper.data_sets import DataFolder, MissingData
from measuring import report

DIMENSION = 50


def measure(systems: Mapping[str, Callable[[], Recommender]], test: Interactions) -> list[dict[str, Any]]:
    """A row for each system: seconds to train it, and its quality."""
    rows = []
    for name, make in systems.items():
        start = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - start
        full, sampled = evaluate(model, test), evaluate(model, test, protocol="sampled")
        quality = {"ndcg@10": full["ndcg@10"], "hr@10": full["hr@10"], "sampled_hr@10": sampled["hr@10"]}
        rows.append({"system": name, "seconds": seconds, **quality})
    return rows


def bpr(training: Interactions, epochs: int) -> dict[str, Callable[[], Recommender]]:
    config = TrainingConfig(model="symmetric", loss="bpr", dimension=DIMENSION, epochs=epochs, seed=1)
    peers = {
        f"implicit BPR, rate {rate}": partial(
            ImplicitBPR, training, seed=1, factors=DIMENSION, learning_rate=rate, iterations=epochs
        )
        for rate in (0.005, 0.01, 0.02, 0.05)
    }
    return {
        **peers,
        "hyperboloid BPR, defaults": partial(train, training, config, progress=False),
        "hyperboloid BPR, RSGD": partial(train, training, config.replace(optimiser="rsgd"), progress=False),
        "euclidean BPR, defaults": partial(train, training, config.replace(geometry="euclidean"), progress=False),
    }


def defaults(training: Interactions) -> dict[str, Callable[[], Recommender]]:
    return {
        "asymmetric, hyperboloid": partial(train, training, TrainingConfig(seed=1), progress=False),
        "asymmetric, euclidean": partial(train, training, TrainingConfig(geometry="euclidean", seed=1), progress=False),
        "item-kNN": partial(ItemKNN, training),
        "popularity": partial(Popularity, training),
    }


def time_to_quality(data: Interactions) -> None:
    """Both models with the same loss and negatives, neither with recency, so that only the customer's point differs."""
    training, validation, _ = data.split("leave_last_two")
    curves: dict[str, list[tuple[float, float]]] = {}
    asymmetric = TrainingConfig(
        loss="wmrb", negative_count=100, epochs=20, patience=20, seed=1, recency=1.0, targets="shared"
    )
    symmetric = asymmetric.replace(model="symmetric", recency=None, targets=None)
    for kind, config in (("asymmetric", asymmetric), ("symmetric", symmetric)):
        record = train(training, config, validation=validation, progress=False).record
        seconds = np.cumsum([epoch.seconds for epoch in record])
        curves[kind] = [
            (float(s), epoch.validation["ndcg@10"])
            for s, epoch in zip(seconds, record, strict=True)
            if epoch.validation
        ]
    goal = min(max(value for _, value in curve) for curve in curves.values())
    rows = [
        {
            "model": kind,
            "best_ndcg@10": max(value for _, value in curve),
            "seconds_for_20_epochs": curve[-1][0],
            "seconds_to_equal_quality": next(seconds for seconds, value in curve if value >= goal),
        }
        for kind, curve in curves.items()
    ]
    report("quality_time", f"time to validation NDCG@10 of {goal:.4f}, WMRB, 100 negatives", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds ml-1m/ratings.dat; default: LORENTZREC_DATA")
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    options = parser.parse_args()
    try:
        data = DataFolder(options.data).find("movielens-1m").interactions(minimum_rating=4.0)
    except MissingData as error:
        print(f"skipped: {error}")
        return
    training, test = data.split("leave_last_out")
    epochs = 5 if options.quick else 30
    rows = measure(bpr(training, epochs), test)
    report("quality_bpr", f"BPR on MovieLens 1M, {epochs} epochs, d = {DIMENSION}", rows)
    report("quality_defaults", "MovieLens 1M with the defaults", measure(defaults(training), test))
    if not options.quick:
        time_to_quality(data)


if __name__ == "__main__":
    main()
