"""Training on Keras next to the local engine and to a PyTorch + geoopt program: d = 50, 512 negatives, WMRB, plain
Riemannian steps.

All engines learn from the same blocks of the same data, with the same negatives, and take one step per block; only the
local engine computes the gradients of several blocks before it applies them, on two threads, and `geoopt-own` draws
negatives for each positive, as programs without blocks do. Data: the size of
MovieLens 1M, and blocks of equal size from catalogues of 10,000 and of 1,000,000 items, where the time of a step should
be the same.

Positives per second of the clock, and per second of processor time, which another process on the machine does not
change. Each measurement has a process of its own and begins after the steps that compile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from lorentzrec import Interactions, TrainingConfig
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.learning.run import TrainingRun
from lorentzrec.model.config import ResolvedConfig
from measuring import like_movielens, report

DIMENSION, NEGATIVES = 50, 512
USERS, LENGTH = 900, 100
"""Of the shops with blocks of equal size."""
ENGINES = {
    "local": "jax",
    "keras-jax": "jax",
    "keras-tensorflow": "tensorflow",
    "keras-torch": "torch",
    "geoopt": "torch",
    "geoopt-own": "torch",
}
"""What is measured -> KERAS_BACKEND of its process; all take their blocks from lorentzrec.keras."""
Spent = tuple[float, float]


def shop(items: int) -> Interactions:
    """Customers with 100 events each, three of whom make a block."""
    return Interactions(
        users=Vocabulary.numbered(USERS, name="user"),
        items=Vocabulary.numbered(items, name="item"),
        offsets=np.arange(0, USERS * LENGTH + 1, LENGTH),
        item_rows=np.random.default_rng(0).integers(0, items, USERS * LENGTH).astype(np.int32),
        times=np.arange(USERS * LENGTH),
    )


DATA: dict[str, Callable[[], Interactions]] = {
    "MovieLens 1M": lambda: like_movielens(events=1_000_000, users=6_040, items=3_700),
    "10,000 items": lambda: shop(10_000),
    "1,000,000 items": lambda: shop(1_000_000),
}


def settings(**options: Any) -> TrainingConfig:
    paper = {"loss": "wmrb", "score": "inner", "optimiser": "rsgd", "targets": "shared", "recency": 1.0, "scale": 1.0}
    return TrainingConfig.from_mapping(
        {**paper, "dimension": DIMENSION, "negative_count": NEGATIVES, "learning_rate": 0.05, "epochs": 1, **options}
    )


def now() -> Spent:
    return time.perf_counter(), time.process_time()


def rates(positives: float, began: Spent, ended: Spent) -> dict[str, float]:
    return {
        "positives_per_second": positives / (ended[0] - began[0]),
        "per_processor_second": positives / (ended[1] - began[1]),
    }


def local_rates(data: Interactions, last: int) -> dict[str, float]:
    """The second epoch of as many customers as the other engines learn from."""
    part = data.select(data.user_rows < len(data.users) * min(1.0, last / (len(data) / 256)))
    run = TrainingRun(part, settings(threads=2))
    run.runner.run(1, 0.05, lambda *_: None, threading.Event())
    began = now()
    positives = run.runner.run(2, 0.05, lambda *_: None, threading.Event()).positives
    return rates(positives, began, now())


def keras_rates(data: Interactions, first: int, last: int) -> dict[str, float]:
    """The steps between `first` and `last` on the back end that KERAS_BACKEND names."""
    import keras

    from lorentzrec.keras import MidpointModel
    from lorentzrec.keras.blocks import Blocks

    seen: list[Spent] = []

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch + 1 in (first, last):
                float(logs["loss"])  # waits for the back end
                seen.append(now())
            self.model.stop_training = batch + 1 >= last

    model = MidpointModel(settings())
    model.fit(data, verbose=0, callbacks=[Clock()])
    counts = Blocks(data, model.resolved).positives_of_blocks()
    return rates(counts[first:last].sum(), *seen)


def geoopt_rates(data: Interactions, first: int, last: int, *, own: bool) -> dict[str, float]:
    """The same blocks in a program of PyTorch + geoopt, with sparse gradients and `SparseRiemannianSGD`; `own`: with
    negatives of its own for each positive, as programs without blocks have them."""
    import geoopt
    import torch

    from lorentzrec.keras.blocks import Blocks

    blocks = Blocks(data, resolved(data))
    manifold = geoopt.Lorentz()
    space = 0.01 * torch.randn(len(data.items) + 1, DIMENSION)
    start = torch.cat([torch.sqrt(1 + space.square().sum(1, keepdim=True)), space], 1)
    table = geoopt.ManifoldParameter(start, manifold=manifold)
    optimiser = geoopt.optim.SparseRiemannianSGD([table], lr=0.05)
    metric = torch.ones(DIMENSION + 1)
    metric[0] = -1

    def step(batch: dict[str, Any]) -> None:
        points = torch.nn.functional.embedding(batch["item_rows"], table, sparse=True)
        age = batch["event_steps"][:, None] - batch["event_steps"][None, :]
        before = (batch["event_owners"][:, None] == batch["event_owners"][None, :]) & (age > 0)
        sums = (before * batch["event_weights"]) @ points[batch["events"]]
        present = before.any(1, keepdim=True)
        norms = torch.where(present, -(sums * sums * metric).sum(1, keepdim=True), 1.0)
        queries = sums / torch.sqrt(norms) * metric
        positives = (queries * points[batch["targets"]]).sum(1, keepdim=True)
        if own:
            rows = torch.randint(len(data.items), (len(queries), NEGATIVES))
            scores = torch.einsum("qd,qnd->qn", queries, torch.nn.functional.embedding(rows, table, sparse=True))
        else:
            scores = queries @ points[batch["negatives"]].T
        hinges = torch.relu(1 + scores - positives)
        hinges = hinges.masked_fill(batch["seen"][batch["event_owners"].clamp(min=0)], 0.0)
        loss = (batch["target_weights"] * torch.log1p(hinges.sum(1) * len(data.items) / NEGATIVES)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    began = now()
    for number in range(last):
        if number == first:
            began = now()
        step({name: torch.from_numpy(array) for name, array in blocks[number].items()})
    return rates(blocks.positives_of_blocks()[first:last].sum(), began, now())


def resolved(data: Interactions) -> ResolvedConfig:
    return settings(blocks_per_step=1).resolve_for(data)


def step_cost(data: Interactions, steps: int) -> dict[str, float]:
    """Operations and bytes of a step, counted from the shapes of a block, and the time the host takes to build one.

    Scores: products of (queries, d + 1) with (d + 1, negatives), one forward and two for the gradient, in float32; the
    matrix is written and read four times. Sums of histories, of d + 2 columns: log2 n passes, each a product and a sum
    and two reads and a write of all events, forward in float64 and back in float32. Rows are read and written.
    """
    from lorentzrec.keras.blocks import Blocks

    blocks = Blocks(data, resolved(data))
    block = blocks[0]
    events, negatives, rows = (len(block[name]) for name in ("events", "negatives", "item_rows"))
    scores, terms = events * negatives, events * (DIMENSION + 2) * int(np.ceil(np.log2(block["event_steps"].max() + 1)))
    began = now()
    for number in range(1, steps):
        blocks[number]
    host = (now()[1] - began[1]) / (steps - 1)
    return {
        "positives": int(blocks.positives_of_blocks()[0]),
        "million_float64_operations": 2 * terms / 1e6,
        "million_float32_operations": (3 * 2 * (DIMENSION + 1) * scores + 2 * terms) / 1e6,
        "megabytes_on_the_device": (4 * 2 * 4 * scores + 3 * (8 + 4) * terms + 2 * 4 * rows * DIMENSION) / 1e6,
        "megabytes_from_the_host": sum(array.nbytes for array in block.values()) / 1e6,
        "milliseconds_of_the_host": 1e3 * host,
    }


def measure(engine: str, name: str, first: int, last: int) -> dict[str, float]:
    data = DATA[name]()
    if engine == "cost":
        return step_cost(data, last)
    if engine == "local":
        return local_rates(data, last)
    if engine.startswith("geoopt"):
        own = engine == "geoopt-own"
        return (
            geoopt_rates(data, first // 10, last // 10, own=True) if own else geoopt_rates(data, first, last, own=False)
        )
    return keras_rates(data, first, last)


def in_a_process(engine: str, name: str, first: int, last: int) -> dict[str, float]:
    environment = os.environ | {"KERAS_BACKEND": ENGINES.get(engine, "jax"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, "--measure", engine, name, str(first), str(last)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def with_ratios(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row with its rate per processor second as a multiple of geoopt's on the same data, if that was measured."""
    rows = list(rows)
    geoopt = {row["data"]: row["per_processor_second"] for row in rows if row["engine"] == "geoopt"}
    if not geoopt:
        return rows
    return [row | {"times_geoopt": row["per_processor_second"] / geoopt[row["data"]]} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 items only, and fewer steps")
    parser.add_argument("--data", action="append", choices=list(DATA), help="only these; repeatable")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="only this one; repeatable")
    parser.add_argument("--measure", nargs=4, metavar=("ENGINE", "DATA", "FIRST", "LAST"), help="in this process")
    options = parser.parse_args()
    if options.measure:
        engine, name, first, last = options.measure
        print(json.dumps(measure(engine, name, int(first), int(last))))
        return
    names = options.data or (["10,000 items"] if options.quick else list(DATA))
    first, last = (10, 40) if options.quick else (60, 260)
    packages = {engine: engine.removeprefix("keras-").removesuffix("-own") for engine in ENGINES} | {"local": "numba"}
    chosen = [name for name in options.engine or ENGINES if find_spec(packages[name])]
    rows = [
        {"data": name, "engine": engine, **in_a_process(engine, name, first, last)}
        for name in names
        for engine in chosen
    ]
    report("keras", f"WMRB, {NEGATIVES} negatives, d = {DIMENSION}: positives per second", with_ratios(rows))
    report("keras_step", "One step of Keras, from shapes", [in_a_process("cost", "10,000 items", first, last)])


if __name__ == "__main__":
    main()
