"""Training on Spark next to local training: seconds per epoch, and so what sending and merging points costs.

    lorentzrec synthesize --out raw --customers 2600000 --items 132399 --interactions 28000000
    lorentzrec prepare raw/events --out shop --split leave_last_out
    python benchmarks/bench_spark.py shop

One worker is compared with one thread of local training, and two executors, separate processes of `local-cluster`,
with two threads. The first epoch is left out: processes start in it, and compiled kernels are loaded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lorentzrec import Model, TrainingConfig
from lorentzrec import train as train_locally
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.spark import train
from measuring import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyper-parameter")
    options = parser.parse_args()
    dataset = open_dataset(options.dataset)
    data = dataset.interactions("train")
    config = TrainingConfig(epochs=options.epochs, memory="none").with_settings(options.set)

    def locally(threads: int) -> Model:
        return train_locally(data, config.replace(threads=threads), progress=False)

    def on_spark(master: str, workers: int) -> Model:
        with spark_session(master=master, memory="1g") as session:
            one_thread = config.replace(threads=1)
            return train(dataset, one_thread, session=session, workers=workers, progress=False)

    systems: dict[str, Callable[[], Model]] = {
        "local, 1 thread": lambda: locally(1),
        "Spark, 1 worker": lambda: on_spark("local[1]", 1),
        "local, 2 threads": lambda: locally(2),
        "Spark, 2 executors": lambda: on_spark("local-cluster[2,1,4096]", 2),
    }
    rows, peer = [], 0.0
    for place, (name, run) in enumerate(systems.items()):
        epochs = run().record[1:]
        seconds = min(epoch.seconds for epoch in epochs)
        peer = seconds if place % 2 == 0 else peer
        rows.append({"what": name, "seconds_per_epoch": round(seconds, 1), "against_local": round(seconds / peer, 3)})
        print(rows[-1], flush=True)
    report("spark", f"Training on Spark, {dataset!r}", rows)


if __name__ == "__main__":
    main()
