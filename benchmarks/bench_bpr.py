"""Symmetric hyperboloid BPR and implicit's Euclidean BPR: triplets per second on data shaped like MovieLens 20M.

Both run in this process, alternately, with the same threads, dimension, learning rate and regularisation. Ours
is timed twice: the paper's step (RSGD on inner products) and the default (Adagrad on distances). An epoch of either has
one triplet per event. Implicit's time is that of four epochs minus that of one, so that its set-up does not count.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

# implicit's OpenMP threads would otherwise spin after each epoch and take our threads' cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from scipy.sparse import csr_matrix

from lorentzrec import Interactions, TrainingConfig
from lorentzrec.learning.run import TrainingRun
from measuring import best_rate, like_movielens, report

DIMENSION, RATE, REGULARISATION = 50, 0.05, 0.01


def implicit_rate(matrix: Any, threads: int) -> float:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    def seconds(epochs: int) -> float:
        model = BayesianPersonalizedRanking(
            factors=DIMENSION, learning_rate=RATE, regularization=REGULARISATION, iterations=epochs, num_threads=threads
        )
        start = time.perf_counter()
        model.fit(matrix, show_progress=False)
        return time.perf_counter() - start

    return float(3 * matrix.nnz / (seconds(4) - seconds(1)))


def lorentzrec_rate(data: Interactions, threads: int, **settings: Any) -> float:
    config = TrainingConfig(
        model="symmetric",
        loss="bpr",
        dimension=DIMENSION,
        learning_rate=RATE,
        regularisation=REGULARISATION,
        threads=threads,
        **settings,
    )
    return best_rate(TrainingRun(data, config), RATE, epochs=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    data = like_movielens(events=800_000, users=13_800) if options.quick else like_movielens()
    matrix = csr_matrix(data.to_csr())
    lorentzrec_rate(like_movielens(events=10_000, users=500, items=500), 1)  # compile
    rows = []
    for threads in (1, 2):
        for turn in range(options.rounds):
            theirs = implicit_rate(matrix, threads)
            paper = lorentzrec_rate(data, threads, optimiser="rsgd", score="inner")
            default = lorentzrec_rate(data, threads)
            rows.append(
                {
                    "threads": threads,
                    "round": turn + 1,
                    "implicit_M/s": theirs / 1e6,
                    "rsgd_M/s": paper / 1e6,
                    "ratio_rsgd": paper / theirs,
                    "default_M/s": default / 1e6,
                    "ratio_default": default / theirs,
                }
            )
    report(
        "bpr",
        f"BPR triplets: hyperboloid RSGD and default compared with implicit, d = {DIMENSION}, {len(data):,} events",
        rows,
    )


if __name__ == "__main__":
    main()
