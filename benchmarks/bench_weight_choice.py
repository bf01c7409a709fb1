"""How much the choice of the memory's weight depends on which events were held out, for data without order.

The points and the memory are always the same. A set of customers draws the held-out events of a training several times,
each draw chooses a weight by the rule of training, and each weight is measured on test events, a random fifth of all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.data.arrays import Floats
from lorentzrec.learning.held_out import count_customers, hold_out
from lorentzrec.learning.memory_weight import WEIGHTS, build_memory_for, find_best_weight, measure_weights
from measuring import report

TENS = 50
METRIC = "ndcg@10"


def read_pairs(path: Path) -> Interactions:
    """Customers and items without their order: of ratings with tabs, or of lines `user item item ...`."""
    lines = [line.split() for line in path.read_text().splitlines()]
    if path.suffix == ".data":
        return Interactions.from_pairs([line[0] for line in lines], [line[1] for line in lines])
    return Interactions.from_pairs(
        [line[0] for line in lines for _ in line[1:]], [item for line in lines for item in line[1:]]
    )


def draw_weights(values: Floats, customers: int, random: np.random.Generator) -> list[int]:
    """Ten indices of weights, each chosen by some of the customers."""
    draws = [random.choice(values.shape[1], min(customers, values.shape[1]), replace=False) for _ in range(10)]
    return [find_best_weight(values[:, draw], "folds") for draw in draws]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="u.data of MovieLens 100K, or a file of histories")
    parser.add_argument("--dimension", type=int, default=64)
    arguments = parser.parse_args()
    learned, test = read_pairs(arguments.data).split("random", ratio=0.2, seed=3)
    config = TrainingConfig(dimension=arguments.dimension, validation=0.0, memory="none", threads=1)
    resolved = config.resolve_for(learned)
    customers = (count_customers(learned, resolved) + 1) // 2
    eligible = int((learned.lengths >= 3).sum())
    rest, held_out = hold_out(learned, resolved, min(4 * customers, eligible // 2))
    assert held_out is not None
    model = train(rest, config, progress=False)
    earlier, memory = (build_memory_for(data, resolved) for data in (rest, learned))
    values = measure_weights(model, earlier, WEIGHTS, held_out, METRIC, rest)
    tested = measure_weights(model, memory, WEIGHTS, test, METRIC, learned).mean(axis=1)
    random = np.random.default_rng(0)
    tens = np.array([draw_weights(values, customers, random) for _ in range(TENS)])
    spreads = 100 * np.ptp(tested[tens], axis=1) / tested[tens].mean(axis=1)
    counts = np.bincount(tens.ravel(), minlength=len(WEIGHTS)).tolist()
    held = values.mean(axis=1).tolist()
    rows = zip(WEIGHTS, held, tested.tolist(), counts, strict=True)
    report(
        "weight_choice",
        f"{TENS * 10} draws of {customers:,} of {values.shape[1]:,} customers with held-out events, {METRIC}",
        [
            {"weight": weight, "held out": f"{mean:.4f}", "test": f"{value:.4f}", "chosen": count}
            for weight, mean, value, count in rows
        ],
        [f"spread of the test among ten draws, per cent: median {np.median(spreads):.2f}, highest {spreads.max():.2f}"],
    )


if __name__ == "__main__":
    main()
