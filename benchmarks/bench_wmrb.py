"""Asymmetric WMRB compared with a plain PyTorch + geoopt trainer of the same model, and with a matrix product.

- geoopt: 100 negatives, positives per second, the same number of threads.
- sgemm: 512 negatives, 6 N (d + 1) operations per positive, as a share of a 1024 x 1024 x 1024 product's rate.
- asymmetric and symmetric: seconds per epoch with the same loss, and the number of points each learns.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from lorentzrec import Interactions, TrainingConfig
from lorentzrec.learning.run import TrainingRun
from measuring import best_rate, like_movielens, report, sgemm_rate

DIMENSION = 50


def rate(data: Interactions, threads: int, **settings: Any) -> float:
    """Positives per second of the faster of two epochs."""
    run = TrainingRun(data, TrainingConfig(loss="wmrb", dimension=DIMENSION, threads=threads, **settings))
    return best_rate(run, 0.05, epochs=2)


def geoopt_rate(data: Interactions, threads: int, negatives: int, seconds: float) -> float:
    """The model as a PyTorch user would write it: batches of (history, next item), midpoint, WMRB, RiemannianSGD on a
    Lorentz table.

    Histories are the last 50 items, padded; each positive has negatives of its own, as in the paper.
    """
    import geoopt
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    batch, longest = 1024, 50
    manifold = geoopt.Lorentz()
    space = 0.01 * torch.randn(len(data.items), DIMENSION)
    start = torch.cat([torch.sqrt(1 + space.square().sum(1, keepdim=True)), space], 1)
    points = geoopt.ManifoldParameter(start, manifold=manifold)
    optimiser = geoopt.optim.RiemannianSGD([points], lr=0.05)
    metric = torch.ones(DIMENSION + 1)
    metric[0] = -1
    random = np.random.default_rng(0)
    targets = np.flatnonzero(np.diff(data.user_rows, prepend=-1) == 0)

    def examples() -> tuple[Any, Any, Any]:
        places = random.choice(targets, batch)
        back = places[:, None] - 1 - np.arange(longest)
        valid = back >= data.offsets[data.user_rows[places]][:, None]
        return (
            torch.from_numpy(data.item_rows[np.maximum(back, 0)].astype(np.int64)),
            torch.from_numpy(valid.astype(np.float32)),
            torch.from_numpy(data.item_rows[places].astype(np.int64)),
        )

    def step() -> None:
        histories, valid, positives = examples()
        sums = (points[histories] * valid[:, :, None]).sum(1)
        customers = sums / torch.sqrt(-(sums * sums * metric).sum(1, keepdim=True)) * metric
        negative = torch.randint(len(data.items), (batch, negatives))
        positive_scores = (customers * points[positives]).sum(1, keepdim=True)
        negative_scores = torch.einsum("bd,bnd->bn", customers, points[negative])
        loss = torch.log1p(torch.relu(1 + negative_scores - positive_scores).sum(1)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    step()
    begin = time.perf_counter()
    steps = 0
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    return steps * batch / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    options = parser.parse_args()
    data = (
        like_movielens(events=400_000, users=6_900) if options.quick else like_movielens(events=2_000_000, users=34_500)
    )
    rate(like_movielens(events=10_000, users=500, items=500), 1)  # compile
    threads = 2
    paper: dict[str, Any] = {"optimiser": "rsgd", "score": "inner", "targets": "shared", "recency": 1.0, "scale": 1.0}
    ours = rate(data, threads, negative_count=100, **paper)
    theirs = geoopt_rate(data, threads, 100, 5 if options.quick else 20)
    report(
        "wmrb_geoopt",
        f"asymmetric WMRB, 100 negatives, d = {DIMENSION}, {threads} threads: positives per second",
        [{"lorentzrec": ours, "pytorch_geoopt": theirs, "ratio": ours / theirs}],
    )
    peak = sgemm_rate(threads)
    rows = []
    for score in ("inner", "distance"):
        for count in (100, 512):
            positives = rate(data, threads, negative_count=count, **(paper | {"score": score, "optimiser": "adagrad"}))
            flops = 6 * count * (DIMENSION + 1) * positives
            rows.append(
                {
                    "score": score,
                    "negatives": count,
                    "million_positives_per_second": positives / 1e6,
                    "gflops": flops / 1e9,
                    "sgemm_gflops": peak / 1e9,
                    "share": flops / peak,
                }
            )
    report("wmrb_sgemm", f"asymmetric WMRB as a share of sgemm, {threads} threads", rows)
    rows = []
    for kind in ("asymmetric", "symmetric"):
        settings = paper | ({"targets": None, "recency": None} if kind == "symmetric" else {})
        positives = rate(data, threads, model=kind, negative_count=100, **settings)
        learned = len(data.items) + (len(data.users) if kind == "symmetric" else 0)
        rows.append({"model": kind, "seconds_per_epoch": len(data) / positives, "points_learned": learned})
    report("wmrb_models", f"WMRB, 100 negatives, {len(data):,} events, {threads} threads", rows)


if __name__ == "__main__":
    main()
