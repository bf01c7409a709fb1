"""Training on Spark next to local training: seconds per epoch, and what sending and merging points costs.

    lorentzrec synthesize --out raw --customers 2600000 --items 132399 --interactions 28000000
    lorentzrec prepare raw/events --out shop --split leave_last_out
    python benchmarks/bench_spark.py shop

One worker is compared with one thread of local training, and two executors, separate processes of `local-cluster`,
with two threads. The first epoch is left out: processes start in it, and compiled kernels are loaded. "overhead" is the
share of an epoch in which a worker does not train: it waits for Spark, reads and writes points, or merges them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from lorentzrec import TrainingConfig
from lorentzrec import train as train_locally
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.model.record import EpochRecord
from lorentzrec.spark import train
from measuring import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyper-parameter")
    options = parser.parse_args()
    dataset = open_dataset(options.dataset)
    config = TrainingConfig(epochs=options.epochs, memory="none").with_settings(options.set)
    rows: list[dict[str, object]] = []
    data = dataset.interactions("train")
    for workers, master in ((1, "local[1]"), (2, "local-cluster[2,1,4096]")):
        local = train_locally(data, config.replace(threads=workers), progress=False).record[1:]
        peer = min(epoch.seconds for epoch in local)
        rows.append({"what": f"local, {workers} threads", "seconds_per_epoch": round(peer, 1)})
        print(rows[-1], flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            trained: list[float] = []

            def read_seconds(epoch: EpochRecord, scratch: str = scratch, trained: list[float] = trained) -> None:
                """The seconds that all workers have trained in an epoch: its last round has their sum."""
                newest = max(Path(scratch).glob(f"run-*/rounds/{epoch.epoch:04d}-*/merged.json"))
                trained.append(json.loads(newest.read_text())["measured"]["seconds"])

            model = train(
                dataset,
                config.replace(threads=1),
                master=master,
                workers=workers,
                scratch=scratch,
                progress=False,
                callbacks=[read_seconds],
            )
        seconds, busy = min((epoch.seconds, total) for epoch, total in zip(model.record[1:], trained[1:], strict=True))
        row = {"what": f"Spark, {workers} workers", "seconds_per_epoch": round(seconds, 1)}
        rows.append(
            row | {"against_local": round(seconds / peer, 3), "overhead": f"{1 - busy / workers / seconds:.1%}"}
        )
        print(rows[-1], flush=True)
    report("spark", f"Training on Spark, {dataset!r}", rows)


if __name__ == "__main__":
    main()
