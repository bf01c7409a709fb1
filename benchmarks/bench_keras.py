"""Training on Keras next to the local engine and to a plain PyTorch + geoopt trainer: d = 50, 512 negatives, WMRB.

Positives per second of the clock, and per second of processor time, which another process on the machine does not
change. Each back end is measured in a process of its own, after the steps that compile it, and with two sizes of the
item table at equal blocks: the time of a step should not depend on it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench_wmrb import DIMENSION, geoopt_rate
from lorentzrec import Interactions, TrainingConfig
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.learning.run import TrainingRun
from measuring import report

NEGATIVES, EVENTS, USERS, LENGTH = 512, 40_000, 400, 100
FIRST, LAST = 30, 130
"""Steps between which the clock runs."""
BACK_ENDS = ("jax", "tensorflow", "torch")


def shop(items: int) -> Interactions:
    """Customers with 100 events each, as many as fit in blocks of equal size."""
    return Interactions(
        users=Vocabulary.numbered(USERS, name="user"),
        items=Vocabulary.numbered(items, name="item"),
        offsets=np.arange(0, EVENTS + 1, LENGTH),
        item_rows=np.random.default_rng(0).integers(0, items, EVENTS).astype(np.int32),
        times=np.arange(EVENTS),
    )


def settings(**options: Any) -> TrainingConfig:
    return TrainingConfig(dimension=DIMENSION, negative_count=NEGATIVES, loss="wmrb", score="inner", **options)


def timed(work: Callable[[], float]) -> dict[str, float]:
    """`work` returns the positives it has learned from."""
    clock, processor = time.perf_counter(), time.process_time()
    positives = work()
    return {
        "positives_per_second": positives / (time.perf_counter() - clock),
        "per_processor_second": positives / (time.process_time() - processor),
    }


def keras_rates(items: int) -> dict[str, float]:
    """The second half of an epoch on the back end that KERAS_BACKEND names: the first half compiles."""
    import keras

    from lorentzrec.keras import MidpointModel

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch in (FIRST, LAST):
                float(logs["loss"])  # waits for the back end
                self.seen = [*getattr(self, "seen", []), (time.perf_counter(), time.process_time())]

    clock = Clock()
    MidpointModel(settings(epochs=1)).fit(shop(items), verbose=0, callbacks=[clock])
    (began, used), (ended, used_up) = clock.seen
    positives = (LAST - FIRST) * 3 * (LENGTH - 1)  # a block has three customers
    return {
        "positives_per_second": positives / (ended - began),
        "per_processor_second": positives / (used_up - used),
    }


def local_rates(items: int) -> dict[str, float]:
    run = TrainingRun(shop(items), settings(threads=2))
    run.runner.run(1, 0.05, lambda *_: None, threading.Event())
    return timed(lambda: run.runner.run(2, 0.05, lambda *_: None, threading.Event()).positives)


def geoopt_rates(items: int, seconds: float) -> dict[str, float]:
    data = shop(items)
    processor, clock = time.process_time(), time.perf_counter()
    rate = geoopt_rate(data, 2, NEGATIVES, seconds)
    share = (time.process_time() - processor) / (time.perf_counter() - clock)
    return {"positives_per_second": rate, "per_processor_second": rate / share}


def in_a_process(back_end: str, items: int) -> dict[str, float]:
    environment = os.environ | {"KERAS_BACKEND": back_end, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, "--measure", str(items)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 items only")
    parser.add_argument("--measure", type=int, metavar="ITEMS", help="one size, on the back end of KERAS_BACKEND")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(keras_rates(options.measure)))
        return
    rows: list[dict[str, Any]] = []
    for items in (10_000,) if options.quick else (10_000, 1_000_000):
        rows.append({"engine": "local", "items": items, **local_rates(items)})
        if find_spec("geoopt"):
            rows.append({"engine": "PyTorch + geoopt", "items": items, **geoopt_rates(items, 20)})
        rows += [
            {"engine": f"Keras on {back_end}", "items": items, **in_a_process(back_end, items)}
            for back_end in BACK_ENDS
            if find_spec(back_end)
        ]
    report("keras", f"WMRB, {NEGATIVES} negatives, d = {DIMENSION}: positives per second", rows)


if __name__ == "__main__":
    main()
