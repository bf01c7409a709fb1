"""Training on Spark next to local training: seconds per epoch, and what sending and merging points costs.

    lorentzrec synthesize --out raw --customers 2600000 --items 132399 --interactions 28000000
    lorentzrec prepare raw/events --out shop --split leave_last_out
    python benchmarks/bench_spark.py shop

One worker is compared with one thread of local training, and two executors, separate processes of `local-cluster`,
with two threads. The first epoch is left out: processes start in it, and compiled kernels are loaded. "overhead" is the
share of an epoch in which a worker does not train: it waits for Spark, reads and writes points, or merges them.
"points_mb" is what a worker reads per round, writes at most, and a merge writes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lorentzrec import TrainingConfig
from lorentzrec import train as train_locally
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.model.record import EpochRecord
from lorentzrec.spark import train
from measuring import report


@dataclass
class LastRounds:
    """Reads what the last round of each epoch has written: a callback of training."""

    scratch: Path
    seconds: list[float] = field(default_factory=list)
    """How long all workers together have trained in each epoch."""
    points: int = 0
    """Bytes of the merged points, with the state of the optimiser."""

    def __call__(self, epoch: EpochRecord) -> None:
        newest = max(self.scratch.glob(f"run-*/rounds/{epoch.epoch:04d}-*/merged.json"))
        self.seconds.append(json.loads(newest.read_text())["measured"]["seconds"])
        self.points = sum(file.stat().st_size for file in newest.parent.glob("merged-*.safetensors"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyper-parameter")
    options = parser.parse_args()
    dataset = open_dataset(options.dataset)
    config = TrainingConfig(epochs=options.epochs, memory="none").with_settings(options.set)
    rows: list[dict[str, object]] = []
    data = dataset.interactions("train")
    for workers in options.workers:
        local = train_locally(data, config.replace(threads=workers), progress=False).record[1:]
        peer = min(epoch.seconds for epoch in local)
        rows.append({"what": f"local, {workers} threads", "seconds_per_epoch": round(peer, 1)})
        print(rows[-1], flush=True)
        master = "local[1]" if workers == 1 else f"local-cluster[{workers},1,4096]"
        with tempfile.TemporaryDirectory() as scratch:
            rounds = LastRounds(Path(scratch))
            model = train(
                dataset,
                config.replace(threads=1),
                master=master,
                workers=workers,
                scratch=scratch,
                progress=False,
                callbacks=[rounds],
            )
        epochs = zip(model.record[1:], rounds.seconds[1:], strict=True)
        seconds, busy = min((epoch.seconds, total) for epoch, total in epochs)
        row = {
            "what": f"Spark, {workers} workers",
            "seconds_per_epoch": round(seconds, 1),
            "against_local": round(seconds / peer, 3),
            "overhead": f"{1 - busy / workers / seconds:.1%}",
            "points_mb": round(rounds.points / 1e6, 1),
        }
        rows.append(row)
        print(rows[-1], flush=True)
    report("spark", f"Training on Spark, {dataset!r}", rows)


if __name__ == "__main__":
    main()
