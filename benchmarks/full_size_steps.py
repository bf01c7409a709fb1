"""Steps of `bench_full_size.py` that are no commands; each prints one line of JSON.

    python benchmarks/full_size_steps.py evaluate MODEL DATASET --customers 5000
    python benchmarks/full_size_steps.py histories MODEL STORE --customers 1000000
    python benchmarks/full_size_steps.py load MODEL STORE --customers 1000000 --rate 300 --seconds 60

The model next to popularity; histories of some customers added to a store; the service of this store under the load of
`bench_serve.py`, in which half of the requests name a customer whose history is in the store, and half contain the
history of another one.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench_serve import loads, recall, serving
from lorentzrec import evaluate
from lorentzrec.base.threads import available_cores
from lorentzrec.data.splitting import before_test
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import Recommender
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.model.artifact import load
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import add_histories
from served_catalogue import CUSTOMERS, LONGEST, SHORTEST, Catalogue


def compare_with_popularity(model: Path, dataset: str, customers: int) -> dict[str, float]:
    """NDCG@10 on the test part. Item-kNN, which `lorentzrec evaluate --baselines` adds, takes hours at this size."""
    trained, parts = load(model), open_dataset(dataset).named_parts()
    assert trained.histories is not None
    found, histories = {}, before_test(parts)
    systems: dict[str, Recommender] = {"model": trained, "popularity": Popularity(trained.histories)}
    for name, system in systems.items():
        report = evaluate(system, parts["test"], histories=histories, users=customers, intervals=False)
        found[name] = round(report["ndcg@10"], 4)
    return found


def stored_customers(users: int, customers: int) -> NDArray[np.bool_]:
    """Which customers are in the store: every n-th."""
    chosen = np.zeros(users, bool)
    chosen[:: max(1, users // customers)] = True
    return chosen


def add_customers(model: Path, store: str, customers: int) -> dict[str, float]:
    """Put the training events of some customers into the store."""
    histories = load(model).histories
    assert histories is not None
    stored = stored_customers(len(histories.users), customers)
    some = histories.select(stored[histories.user_rows])
    begun = time.perf_counter()
    with closing(open_store(store)) as opened:
        added = add_histories(opened, some)
    seconds = time.perf_counter() - begun
    rate = round(added.accepted / seconds)
    return {"customers": int(stored.sum()), "events": added.accepted, "events_per_second": rate}


def answer(model: Path, store: str, customers: int, rate: float, seconds: float) -> dict[str, float]:
    """Latencies at a rate, the highest rate, recall through HTTP and seconds until the service is ready."""
    histories = load(model).histories
    assert histories is not None
    fitting = np.flatnonzero((histories.lengths >= SHORTEST) & (histories.lengths <= LONGEST))
    random = np.random.default_rng(0)
    in_store = stored_customers(len(histories.users), customers)[fitting]
    stored, sent = (random.permutation(rows)[: CUSTOMERS // 2] for rows in (fitting[in_store], fitting[~in_store]))

    def items_of(row: int) -> list[str]:
        return [str(item) for item in histories.items.ids(histories.history(row))]

    users = {str(histories.users.id(row)): items_of(row) for row in stored.tolist()}
    shop = Catalogue(len(histories.items), store, users, [items_of(row) for row in sent.tolist()], model)
    with serving(store, available_cores()) as service:
        required, unlimited, *highest = loads("full size", shop, service, rate, seconds)
        result = {
            "seconds_to_ready": round(service.seconds_to_ready, 2),
            "recall": round(recall(shop, service, 300), 4),
            "errors": required["errors"],
            **{f"{name}_ms": round(required[name], 1) for name in ("p50", "p95", "p99")},
            "unlimited_per_second": round(unlimited["rate/s"]),
        }
        if highest:
            result["highest_per_second"] = round(highest[0]["rate/s"])
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["evaluate", "histories", "load"])
    parser.add_argument("model", type=Path)
    parser.add_argument("place", help="the dataset, or the store")
    parser.add_argument("--customers", type=int, required=True, help="evaluated, or in the store")
    parser.add_argument("--rate", type=float, default=300, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    if options.step == "evaluate":
        result = compare_with_popularity(options.model, options.place, options.customers)
    elif options.step == "histories":
        result = add_customers(options.model, options.place, options.customers)
    else:
        result = answer(options.model, options.place, options.customers, options.rate, options.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
