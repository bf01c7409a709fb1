"""The service with the model of the full size: histories of many customers added to its store, then a load.

    python benchmarks/full_size_service.py histories MODEL STORE --customers 1000000
    python benchmarks/full_size_service.py load MODEL STORE --rate 300 --seconds 60

Steps of `bench_full_size.py`; each prints one line of JSON. The load is that of `bench_serve.py`: half of the requests
name a customer whose history is in the store, half contain the history of another one.
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
from lorentzrec.model.artifact import load
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import add_histories
from lorentzrec.threads import available_cores
from served_catalogue import CUSTOMERS, LONGEST, SHORTEST, Catalogue


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
    parser.add_argument("step", choices=["histories", "load"])
    parser.add_argument("model", type=Path)
    parser.add_argument("store")
    parser.add_argument("--customers", type=int, default=1_000_000, help="whose histories the store holds")
    parser.add_argument("--rate", type=float, default=300, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    if options.step == "histories":
        result = add_customers(options.model, options.store, options.customers)
    else:
        result = answer(options.model, options.store, options.customers, options.rate, options.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
