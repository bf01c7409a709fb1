"""Attributes of items: what they cost in training, and how well they place items without events.

    python benchmarks/bench_attributes.py --data DIR        DIR holds the 5-core files of Amazon; or set LORENTZREC_DATA

Quality: all events of a random fifth of the items of Toys and Sports are held out, for three choices of these items.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lorentzrec import Interactions, ItemAttributes, TrainingConfig
from lorentzrec.learning.run import TrainingRun
from lorentzrec.studies.cold_start import evaluate_cold
from lorentzrec_paper.data_sets import DataFolder, MissingData, five_core_name
from measuring import report

CATEGORIES = ("Toys_and_Games", "Sports_and_Outdoors")
SEEDS = (1, 2, 3)


def seconds_per_epoch(data: Interactions, attributes: ItemAttributes | None, targets: str) -> float:
    """Processor time of an epoch on one thread, after one that compiles."""
    config = TrainingConfig.from_mapping({"threads": 1, "targets": targets, "epochs": 20})
    runner = TrainingRun(data, config, attributes=attributes).runner
    times = []
    for epoch in (1, 2, 3):
        started = time.process_time()
        runner.run(epoch, 0.1, lambda positives, loss: None, threading.Event())
        times.append(time.process_time() - started)
    return min(times[1:])


def speed(users: int, items: int, per_item: int) -> list[dict[str, Any]]:
    """With five attributes per item, of 1,000 in all."""
    random = np.random.default_rng(0)
    events = 10 * users
    data = Interactions.from_pairs(np.arange(events) % users, random.integers(0, items, events), np.arange(events))
    columns = {f"c{number}": random.integers(0, 200, items).astype(str) for number in range(per_item)}
    names = [f"{name}:values" for name in columns]
    attributes = ItemAttributes.from_frame(pl.DataFrame({"item": np.arange(items), **columns}), names)
    rows = []
    for targets in ("separate", "shared"):
        without, with_them = (seconds_per_epoch(data, one, targets) for one in (None, attributes))
        rows.append({"targets": targets, "without": without, "with": with_them, "ratio": with_them / without})
    return rows


def make_attributes(file: Path) -> ItemAttributes:
    """The brand is the first of an item's numbers, and the category path without its root the rest."""
    numbers: dict[str, list[int]] = json.loads(file.read_text())
    columns = {
        "item": [int(item) for item in numbers],
        "brand": [str(own[0]) for own in numbers.values()],
        "category": [" > ".join(map(str, dict.fromkeys(own[1:]))) for own in numbers.values()],
    }
    return ItemAttributes.from_frame(pl.DataFrame(columns), ["brand:values", "category:path"])


def quality(data: Interactions, attributes: ItemAttributes, geometry: str, seed: int) -> list[dict[str, Any]]:
    train, test = data.split("leave_last_out")
    config = TrainingConfig.from_mapping({"geometry": geometry})
    rows = []
    for one in evaluate_cold(train, test, attributes, config, seed=seed):
        reports = {"cold": one.cold, "all": one.all, "warm": one.warm}
        values = {name: None if found is None else found["ndcg@10"] for name, found in reports.items()}
        rows.append({"geometry": geometry, "seed": seed, "system": one.system, **values})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the 5-core files and their item2attributes.json")
    parser.add_argument("--quick", action="store_true", help="less data, and one choice of items")
    options = parser.parse_args()
    small = options.quick
    sizes = (2_000, 5_000) if small else (20_000, 20_000)
    report("attributes", "Training with five attributes per item", speed(*sizes, per_item=5))
    for category in CATEGORIES:
        try:
            found = DataFolder(options.data).find(five_core_name(category))
        except MissingData as missing:
            print(missing)
            continue
        file = found.paths[0]
        attributes = make_attributes(file.with_name(f"{category}_item2attributes.json"))
        data, rows = found.interactions(), []
        for seed in SEEDS[:1] if small else SEEDS:
            for geometry in ("hyperboloid", "euclidean"):
                rows += quality(data, attributes, geometry, seed)
        report(f"attributes_{category}", f"Items without events in {found.title}", rows)


if __name__ == "__main__":
    main()
