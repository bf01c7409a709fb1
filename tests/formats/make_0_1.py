# mypy: ignore-errors
"""Writes the files of 0.1/ with lorentzrec 0.1 (commit 73ce2f1), and no other release; README.md has the command."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from lorentzrec.data.dataset import open_dataset
from lorentzrec.data.prepare import PrepareConfig, prepare
from lorentzrec.serving.publish import publish

from lorentzrec import Interactions, TrainingConfig, __version__, train
from lorentzrec.learning import trainer
from lorentzrec.reduction.disk_map import disk_map
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Event

USERS, ITEMS, EVENTS = 30, 24, 8
HISTORY = ["i3", "i5", "i7"]
COMMON = {"dimension": 4, "epochs": 4, "seed": 1, "threads": 1}
CONFIGS = {
    "asymmetric": TrainingConfig(**COMMON),
    "wmrb-separate": TrainingConfig(loss="wmrb", targets="separate", recency=0.8, optimiser="adam", **COMMON),
    "euclidean": TrainingConfig(geometry="euclidean", **COMMON),
    "symmetric": TrainingConfig(model="symmetric", loss="bpr", optimiser="rsgd", **COMMON),
}


class StopError(Exception):
    """Ends a training run early."""


def write_inputs(folder: Path) -> None:
    """Events in two groups of customers, and a table of items."""
    generator = np.random.default_rng(0)
    lines = ["user,item,time"]
    for user in range(USERS):
        items = generator.permutation(ITEMS // 2)[:EVENTS] + user % 2 * (ITEMS // 2)
        lines += [f"u{user},i{item},{1_700_000_000 + 1_000 * user + place}" for place, item in enumerate(items)]
    (folder / "events.csv").write_text("\n".join(lines) + "\n")
    titles = [f"i{item},Piece {item},{'hats' if item < ITEMS // 2 else 'shoes'},{item + 0.5}" for item in range(ITEMS)]
    (folder / "items.csv").write_text("\n".join(["item,title,category,price", *titles]) + "\n")


def interrupted(folder: Path, data: Interactions) -> None:
    """A checkpoint after the second of four epochs."""
    trainer._SECONDS_BETWEEN_CHECKPOINTS = -1.0

    def stop(record) -> None:
        if record.epoch == 3:
            raise StopError

    with suppress(StopError):
        train(data, CONFIGS["asymmetric"], checkpoint=folder / "checkpoint", watch=stop, progress=False)


def main() -> None:
    assert __version__ == "0.1.0", "run this with lorentzrec 0.1: see README.md"
    folder = Path(__file__).parent / "0.1"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    os.chdir(folder)  # manifests record the addresses they are given: relative ones
    write_inputs(folder)
    prepare(PrepareConfig(events=("events.csv",), out="dataset", split="leave_last_out", items="items.csv"))
    opened = open_dataset("dataset")
    data, test = opened.parts()
    expected = {
        "dataset": {
            "digest": opened.digest,
            "train": len(data),
            "test": len(test),
        },
        "models": {},
    }
    models = {name: train(data, config, progress=False) for name, config in CONFIGS.items()}
    numbered = Interactions.from_pairs(np.repeat(np.arange(USERS), 4), np.arange(4 * USERS) % ITEMS)
    models["numbers"] = train(numbered, CONFIGS["asymmetric"], progress=False)
    for name, model in models.items():
        model.save(folder / "models" / name)
        query = {"user": 3} if name == "numbers" else {"user": "u3"}
        found = model.recommend(**query, k=5)
        expected["models"][name] = {"query": query, "items": found.ids, "scores": found.scores.tolist()}
    models["asymmetric"].save(folder / "models" / "without-histories", histories=False)
    found = models["asymmetric"].recommend(history=HISTORY, k=5)
    expected["models"]["without-histories"] = {
        "query": {"history": HISTORY},
        "items": found.ids,
        "scores": found.scores.tolist(),
    }
    interrupted(folder, data)
    expected["checkpoint"] = {"item_points": models["asymmetric"].item_points.tolist()}

    store = open_store(f"file:{folder / 'store'}", create=True)
    model, table = models["asymmetric"], opened.items.rename({"item": "id"}, strict=False)
    first = publish(models["wmrb-separate"], store, items=table, histories=data).name
    drawn = disk_map(model.item_points, geometry="hyperboloid", counts=model.item_counts)
    second = publish(model, store, items=table, disk_map=drawn, twin=models["euclidean"]).name
    store.add_events([Event("visitor", item, 1_800_000_000 + place, str(place)) for place, item in enumerate(HISTORY)])
    store.forget("u0")
    store.set_live_items([f"i{item}" for item in range(ITEMS - 1)])
    found = model.recommend(history=HISTORY, k=6)
    live = [(item, score) for item, score in zip(found.ids, found.scores.tolist(), strict=True) if item != "i23"]
    expected["store"] = {
        "versions": [second, first],
        "current": second,
        "visitor": [[touch.item, touch.time] for touch in store.history("visitor")],
        "u3": [[touch.item, touch.time] for touch in store.history("u3")],
        "live_items": sorted(store.live_items()),
        "recommended": live[:5],
    }
    store.close()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(f"written to {folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
