"""What workers and rounds cost in quality: NDCG on the test part against the number of workers, merges per epoch, seed.

    python benchmarks/bench_rounds.py DATASET --workers 1 2 4 8 --rounds 1 4 --seeds 0 1 2

The workers run one after another in this process, with the code that runs on Spark, or on the cluster that `--master`
names; their number and the rounds decide the result, not where they run. "points" are the points alone, "model" has the
memory, too, if the default adds one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from lorentzrec import TrainingConfig, evaluate
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.spark import train
from measuring import report


class ThisProcess:
    """A Spark session for `train` that runs tasks one after another in this process."""

    def range(self, *_: int) -> ThisProcess:
        return self

    def mapInArrow(self, task: Any, schema: str) -> ThisProcess:  # noqa: N802 - as in Spark
        given = task.keywords["work"].keywords
        self._results = [(number, given["work"](number, **given["options"])) for number in given["numbers"]]
        return self

    def collect(self) -> list[Any]:
        return [SimpleNamespace(result=json.dumps(result)) for result in self._results]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--master", help="run the workers on Spark there, such as local-cluster[2,1,4096]")
    parser.add_argument("--part", default="test", help="what is evaluated")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyper-parameter")
    options = parser.parse_args()
    config = TrainingConfig(dimension=50).with_settings(options.set)
    dataset = open_dataset(options.dataset)
    held_out = dataset.interactions(options.part)
    metric, rows = f"ndcg@{options.k}", []
    alone: dict[str, float] = {}
    for workers in options.workers:
        for rounds in options.rounds if workers > 1 else [1]:
            found: dict[str, list[float]] = {"points": [], "model": []}
            losses = []
            for seed in options.seeds:
                with tempfile.TemporaryDirectory() as scratch:
                    model = train(
                        dataset,
                        config.replace(seed=seed),
                        session=None if options.master else ThisProcess(),
                        master=options.master,
                        workers=workers,
                        rounds=rounds,
                        scratch=scratch,
                        progress=False,
                    )
                for name, evaluated in {"points": model.with_points(memory=None), "model": model}.items():
                    found[name].append(evaluate(evaluated, held_out, k=options.k, intervals=False)[metric])
                losses.append(model.record[-1].loss)
            row: dict[str, Any] = {"workers": workers, "rounds": rounds, "loss": round(fmean(losses), 4)}
            for name, values in found.items():
                mean = fmean(values)
                row |= {
                    f"{metric}_{name}": round(mean, 4),
                    f"{name}_against_one": f"{mean / alone.setdefault(name, mean) - 1:+.1%}",
                    f"{name}_seeds": " ".join(f"{value:.4f}" for value in values),
                }
            print(row, flush=True)
            rows.append(row)
    report("rounds", f"Workers and rounds, {dataset!r}", rows)


if __name__ == "__main__":
    main()
