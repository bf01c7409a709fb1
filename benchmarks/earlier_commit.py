"""Similar items and baskets of an earlier commit, such as 246695f, for bench_similar.py and bench_outfits.py.

They start this file with the package of a checkout of that commit: it trains there with default settings on the same
events, and writes arrays. `similar`: the ten items nearest to each item. `baskets`: the scores of all items for each
basket, which is a history there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from lorentzrec import Interactions, TrainingConfig, train

K = 10
EVENTS, BASKETS, ANSWER = "events.parquet", "baskets.parquet", "answer.npy"


def ask_earlier_commit(
    checkout: Path,
    what: str,
    data: Interactions,
    config: TrainingConfig,
    baskets: list[list[int]] | None = None,
    ties: str = "id",
) -> Any:
    """What the package in `checkout` answers, for the item rows of `data`. ties: how it orders equal times.

    config: its seed and epochs are used, and of everything else the defaults of that commit.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = {"user": data.user_rows, "item": data.item_rows, "time": data.times}
        pl.DataFrame(columns).write_parquet(folder / EVENTS)
        if baskets is not None:
            pl.DataFrame({"basket": baskets}).write_parquet(folder / BASKETS)
        path = f"{checkout.resolve() / 'src'}"
        command = [
            sys.executable,
            __file__,
            what,
            name,
            ties,
            *map(str, (len(data.items), config.seed, config.epochs or 0)),
        ]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": path})
        return np.load(folder / ANSWER)


def answer(what: str, folder: Path, ties: Any, count: int, seed: int, epochs: int | None) -> None:
    events = pl.read_parquet(folder / EVENTS)
    data = Interactions.from_pairs(events["user"], events["item"], events["time"], ties=ties)
    # Its types are those of the earlier commit.
    model = cast(Any, train(data, TrainingConfig(seed=seed, epochs=epochs), progress=False))
    ids = model.items.ids(np.arange(len(model.items)))
    if what == "similar":
        lists = np.full((count, K), -1)
        for item, found in zip(ids, model.similar_items_many(ids, K), strict=True):
            lists[item, : len(found.ids)] = found.ids
        np.save(folder / ANSWER, lists)
        return
    baskets = pl.read_parquet(folder / BASKETS).with_row_index("user").explode("basket")
    histories = Interactions.from_pairs(baskets["user"], baskets["basket"], np.arange(len(baskets)), ties="given")
    rows = model.items.rows(histories.items.ids(np.arange(len(histories.items))))
    scores = np.full((len(histories.users), count), -np.inf, np.float32)
    for user, number in enumerate(histories.users.ids(np.arange(len(histories.users)))):
        history = rows[histories.item_rows[histories.offsets[user] : histories.offsets[user + 1]]]
        query = model.ranker.query(history)[None]
        found = model.ranker.linear_scores(query)
        if model.ranker.memory is not None:
            boosts = model.ranker.memory.boosts(history, np.array([0, len(history)]), None)
            model.ranker.add_boosts(found, query, boosts)
        scores[int(number), ids] = found[0]
    np.save(folder / ANSWER, scores)


if __name__ == "__main__":
    given_what, given_folder, given_ties, *numbers = sys.argv[1:]
    items, seed, epochs = map(int, numbers)
    answer(given_what, Path(given_folder), given_ties, items, seed, epochs or None)
