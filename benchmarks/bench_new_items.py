"""New items: time of `add_items` in a catalogue of a million, and quality on MovieLens 1M with few events per item.

    python benchmarks/bench_new_items.py --data DIR        DIR holds ml-1m/ratings.dat; or set LORENTZREC_DATA

Quality: a tenth of the items are new, with their first 1, 2, 5 or 10 events. Models are evaluated on the events of the
following weeks, each to be found among all items from all earlier events of its customer.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from lorentzrec import Interactions, Model, TrainingConfig, evaluate, train
from lorentzrec.data.joining import take_items
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.evaluation.next_events import next_events
from lorentzrec.points.memory import Memory
from lorentzrec.points.points import Points
from lorentzrec_paper.data_sets import DataFolder, MissingData
from measuring import report

DIMENSION, CUSTOMERS = 50, 200_000
KNOWN_SHARE, NEW_SHARE, EVENTS = 0.6, 0.1, (1, 2, 5, 10)
"""Of all events, those before the test; of all items with 20 events or more there, the new ones."""


def like_trained(items: int, random: np.random.Generator) -> Model:
    """A model with random points and a random memory, of as many items, and of customers with ten events each."""
    users, names = (Vocabulary.numbered(count, name=name) for count, name in ((CUSTOMERS, "user"), (items, "item")))
    rows = random.integers(0, items, 10 * CUSTOMERS).astype(np.int32)
    data = Interactions(users, names, np.arange(0, len(rows) + 1, 10), rows, times=np.arange(len(rows)))
    config = TrainingConfig(dimension=DIMENSION).resolve_for(data)
    space = (0.15 * random.standard_normal((2, items, DIMENSION))).astype(np.float32)
    points = np.concatenate([np.sqrt(1 + np.square(space).sum(axis=2, keepdims=True)), space], axis=2)
    neighbours = np.sort(random.integers(0, items, (items, config.memory_neighbours), np.int32), axis=1).ravel()
    offsets = np.arange(0, len(neighbours) + 1, config.memory_neighbours)
    memory = Memory(offsets, neighbours, np.ones(len(neighbours), np.float32), ordered=True)
    return Model(
        config=config,
        items=names,
        points=Points(points[0], points[1], data.item_counts, config.space, memory),
        users=users,
        histories=data,
    )


def speed(items: int, new: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    model = like_trained(items, random)
    users, times = random.integers(0, CUSTOMERS, 5 * new), np.arange(5 * new) + 10**8
    events = Interactions.from_pairs(users, items + random.integers(0, new, 5 * new), times)
    started = time.perf_counter()
    added = model.add_items(events=events)
    seconds = time.perf_counter() - started
    return {"items": items, "new_items": len(added.items) - items, "events": len(events), "seconds": seconds}


def quality(data: Interactions) -> list[dict[str, Any]]:
    assert data.times is not None
    random = np.random.default_rng(0)
    bound = np.quantile(data.times, KNOWN_SHARE)
    before = data.times < bound
    past = data.select(before)
    able = np.flatnonzero(past.item_counts >= 20)
    new = np.zeros(len(data.items), bool)
    new[random.choice(able, int(NEW_SHARE * len(able)), replace=False)] = True
    order = np.lexsort((np.asarray(past.times), past.item_rows))
    ages = np.empty(len(past), np.int64)  # events of the same item before each event
    ages[order] = np.arange(len(past)) - np.searchsorted(past.item_rows[order], past.item_rows[order])
    known = take_items(past.select(~new[past.item_rows]), np.flatnonzero(~new & (past.item_counts > 0)))
    start = train(known, progress=False)
    tests = {
        name: next_events(data, ~before & chosen[data.item_rows], limit=3000)
        for name, chosen in (("new", new), ("known", ~new))
    }

    def row(name: str, count: int, model: Model, seconds: float) -> dict[str, Any]:
        found = {
            f"ndcg@10_of_{which}": evaluate(model, test.test, histories=test.histories, intervals=False)["ndcg@10"]
            for which, test in tests.items()
        }
        return {"method": name, "events_per_item": count, **found, "seconds": seconds}

    rows = []
    for count in EVENTS:
        given = past.select(~new[past.item_rows] | (ages < count))
        started = time.perf_counter()
        added = start.add_items(events=given.select(new[given.item_rows]))
        rows.append(row("add_items", count, added, time.perf_counter() - started))
        started = time.perf_counter()
        retrained = train(given, progress=False)
        rows.append(row("full retrain", count, retrained, time.perf_counter() - started))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the items, and no quality")
    parser.add_argument("--data", help="folder of real data")
    options = parser.parse_args()
    items, new = (100_000, 1_000) if options.quick else (1_000_000, 10_000)
    report("new_items", f"add_items in a catalogue of {items:,}", [speed(items, new)])
    if options.quick:
        return
    try:
        data = DataFolder(options.data).find("movielens-1m").interactions()
    except MissingData as error:
        print(error)
        return
    report("new_items_quality", "New items on MovieLens 1M", quality(data))


if __name__ == "__main__":
    main()
