"""Quality on MovieLens 1M (ratings of 4 and more, last event out, full ranking), where the data are at hand.

    python benchmarks/bench_quality.py --data DIR        DIR holds ml-1m/ratings.dat; or set LORENTZREC_DATA

- BPR: ours with the defaults and implicit's at several rates, the same dimension and number of epochs.
- The defaults (asymmetric, softmax), their Euclidean twin, item-kNN and popularity.
- Asymmetric and symmetric WMRB: seconds until the validation NDCG@10 of the weaker is reached.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
from numpy.typing import NDArray

from lorentzrec import Interactions, TrainingConfig, evaluate, train
from lorentzrec.evaluation.baselines import ItemKNN, Popularity
from measuring import report

DIMENSION = 50


class ImplicitScores:
    """Implicit's factors behind the interface that `evaluate` asks."""

    def __init__(self, model: Any, data: Interactions) -> None:
        self.items, self.histories, self.item_counts = data.items, data, data.item_counts
        self._users, self._items = model.user_factors, model.item_factors

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = self._users[user_rows] @ self._items.T
        return scores


def movielens(folder: Path) -> Interactions:
    lines = (folder / "ml-1m" / "ratings.dat").read_text(encoding="latin-1").splitlines()
    user, item, rating, when = np.array([line.split("::") for line in lines], dtype=np.int64).T
    good = rating >= 4
    return Interactions.from_pairs(user[good], item[good], times=when[good])


def quality(model: Any, test: Interactions) -> dict[str, float]:
    full, sampled = evaluate(model, test), evaluate(model, test, protocol="sampled")
    return {"ndcg@10": full["ndcg@10"], "hr@10": full["hr@10"], "sampled_hr@10": sampled["hr@10"]}


def bpr(training: Interactions, test: Interactions, epochs: int) -> None:
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    rows = []
    for rate in (0.005, 0.01, 0.02, 0.05):
        theirs = BayesianPersonalizedRanking(
            factors=DIMENSION, learning_rate=rate, regularization=0.01, iterations=epochs, random_state=1
        )
        start = time.perf_counter()
        theirs.fit(csr_matrix(training.to_csr()), show_progress=False)
        seconds = time.perf_counter() - start
        found = quality(ImplicitScores(theirs, training), test)
        rows.append({"system": f"implicit BPR, rate {rate}", "seconds": seconds, **found})
    config = TrainingConfig(model="symmetric", loss="bpr", dimension=DIMENSION, epochs=epochs, seed=1)
    for system, settings in (
        ("hyperboloid BPR, defaults", {}),
        ("hyperboloid BPR, RSGD", {"optimiser": "rsgd"}),
        ("euclidean BPR, defaults", {"geometry": "euclidean"}),
    ):
        start = time.perf_counter()
        ours = train(training, config.replace(**settings), progress=False)
        rows.append({"system": system, "seconds": time.perf_counter() - start, **quality(ours, test)})
    report("quality_bpr", f"BPR on MovieLens 1M, {epochs} epochs, d = {DIMENSION}", rows)


def defaults(training: Interactions, test: Interactions) -> None:
    rows = []
    for geometry in ("hyperboloid", "euclidean"):
        start = time.perf_counter()
        model = train(training, TrainingConfig(geometry=geometry, seed=1), progress=False)
        rows.append(
            {"system": f"asymmetric, {geometry}", "seconds": time.perf_counter() - start, **quality(model, test)}
        )
    for name, baseline in (("item-kNN", ItemKNN), ("popularity", Popularity)):
        start = time.perf_counter()
        fitted = baseline(training)
        rows.append({"system": name, "seconds": time.perf_counter() - start, **quality(fitted, test)})
    report("quality_defaults", f"MovieLens 1M with the defaults, d = {DIMENSION}", rows)


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
    parser.add_argument("--data", type=Path, default=os.environ.get("LORENTZREC_DATA"))
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    options = parser.parse_args()
    if options.data is None or not (Path(options.data) / "ml-1m" / "ratings.dat").exists():
        print("skipped: give --data DIR, or set LORENTZREC_DATA, to a folder that holds ml-1m/ratings.dat")
        return
    data = movielens(Path(options.data))
    training, test = data.split("leave_last_out")
    bpr(training, test, 5 if options.quick else 30)
    defaults(training, test)
    if not options.quick:
        time_to_quality(data)


if __name__ == "__main__":
    main()
