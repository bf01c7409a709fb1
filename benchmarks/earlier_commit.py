"""The similar items of an earlier commit, such as 246695f, for bench_similar.py.

It starts this file with the package of a checkout of that commit, which trains there with default settings on the same
events and writes the ten items nearest to each item.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lorentzrec import Interactions, TrainingConfig, train

K = 10
EVENTS, ANSWER = "events.parquet", "answer.npy"


def find_similar_before(checkout: Path, data: Interactions, config: TrainingConfig, ties: str = "id") -> Any:
    """(items, 10): the rows of the items that the package in `checkout` finds similar to each item of `data`.

    config: its seed and epochs are used, and of everything else the defaults of that commit. ties: how it orders equal
    times.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = {"user": data.user_rows, "item": data.item_rows, "time": data.times}
        pl.DataFrame(columns).write_parquet(folder / EVENTS)
        numbers = map(str, (len(data.items), config.seed, config.epochs or 0))
        path = f"{checkout.resolve() / 'src'}"
        subprocess.run(
            [sys.executable, __file__, name, ties, *numbers], check=True, env=os.environ | {"PYTHONPATH": path}
        )
        return np.load(folder / ANSWER)


def answer(folder: Path, ties: Any, count: int, seed: int, epochs: int | None) -> None:
    events = pl.read_parquet(folder / EVENTS)
    data = Interactions.from_pairs(events["user"], events["item"], events["time"], ties=ties)
    model = train(data, TrainingConfig(seed=seed, epochs=epochs), progress=False)
    lists = np.full((count, K), -1)
    ids: Any = model.item_ids
    for item, found in zip(ids, model.similar_items_many(ids, K), strict=True):
        lists[item, : len(found.ids)] = found.ids
    np.save(folder / ANSWER, lists)


if __name__ == "__main__":
    given_folder, given_ties, *given_numbers = sys.argv[1:]
    items, given_seed, given_epochs = map(int, given_numbers)
    answer(Path(given_folder), given_ties, items, given_seed, given_epochs or None)
