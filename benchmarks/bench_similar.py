"""Lists of similar items on public data: python benchmarks/bench_similar.py NAME [--data DIR]

NAME: ml-1m (genres), complete-journey (product_category) or demo (the shop of `lorentzrec synthesize`). A fifth of
the customers are held out. Settings were chosen on one half of them (--half choose); the other half is reported.
With --before CHECKOUT, the similar items of an earlier commit are measured as well: those of a model that its package
trains on the same events.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from earlier_commit import find_similar_before
from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.data.arrays import Integers
from lorentzrec.evaluation.similar_lists import (
    CosineOfCustomers,
    FindsSimilar,
    NearestPoints,
    SimilarOfPoints,
    evaluate_similar,
)
from lorentzrec.synthetic.shop import synthetic_shop

HELD_OUT = 0.2
FEWEST_EVENTS = 5
"""Of an item of Complete Journey."""


def read_data(name: str, folder: Path) -> tuple[Interactions, dict[Any, list[str]]]:
    """Events, and the categories of each item."""
    if name == "ml-1m":
        events = Interactions.from_file(folder / "ml-1m" / "ratings.dat", "movielens-1m", ties="file")
        films = [line.split("::") for line in (folder / name / "movies.dat").read_text("latin-1").splitlines()]
        return events, {int(film[0]): film[2].split("|") for film in films}
    if name == "complete-journey":
        lines = pl.read_parquet(folder / name / "transactions.parquet").filter(pl.col("quantity") > 0)
        lines = lines.filter(pl.len().over("product_id") >= FEWEST_EVENTS).sort(
            "transaction_timestamp", maintain_order=True
        )
        products = pl.read_parquet(folder / name / "products.parquet").select("product_id", "product_category")
        categories = {item: [category] if category else [] for item, category in products.iter_rows()}
        users, items, times, orders = lines.select(
            "household_id", "product_id", "transaction_timestamp", "basket_id"
        ).get_columns()
        return Interactions.from_pairs(users, items, times, orders=orders), categories
    shop = synthetic_shop(customers=3_000, items=1_000, interactions=60_000)
    return shop.interactions(), {item: [category] for item, category in shop.items.select("item", "category").rows()}


class Lists:
    """Lists of similar items that somebody else made."""

    def __init__(self, lists: Integers) -> None:
        self._lists = lists

    def find(self, rows: Integers, k: int) -> Integers:
        return self._lists[rows, :k]


def hold_out(data: Interactions, half: str) -> tuple[Interactions, Interactions]:
    """Training events, and those of one half of the customers that are held out."""
    random = np.random.default_rng(0)
    held_out, first = random.random(len(data.users)) < HELD_OUT, random.random(len(data.users)) < 0.5
    wanted = held_out & (first if half == "choose" else ~first)
    return data.select(~held_out[data.user_rows]), data.select(wanted[data.user_rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["ml-1m", "complete-journey", "demo"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LORENTZREC_DATA", ".")))
    parser.add_argument("--half", choices=["choose", "report"], default="report")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="default: those of a training")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    given = parser.parse_args()
    data, categories = read_data(given.name, given.data)
    train_part, held_out = hold_out(data, given.half)
    config = TrainingConfig(seed=given.seed, epochs=given.epochs)
    model = train(train_part, config, progress=False)
    names = {name: column for column, name in enumerate(sorted({c for some in categories.values() for c in some}))}
    cells = [
        (row, names[name])
        for row, item in enumerate(data.items.ids(np.arange(len(data.items))))
        for name in categories.get(item, ())
    ]
    rows, columns = np.array(cells).T
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), (len(data.items), len(names)))
    systems: dict[str, FindsSimilar] = {
        "cosine of the interaction matrix": CosineOfCustomers(train_part),
        "nearest points": NearestPoints(model.points),
        "direction of points alone": SimilarOfPoints(model.with_points(similarity=None).points),
        "similar items": SimilarOfPoints(model.points),
    }
    if given.before is not None:
        ties = "given" if given.name == "ml-1m" else "id"
        systems["the earlier commit"] = Lists(find_similar_before(given.before, train_part, config, ties))
    begun = time.process_time()
    print("| | same category | lists of the most frequent item | Gini | pairs found | weighted |")
    print("|---|---|---|---|---|---|")
    for name, found in evaluate_similar(systems, held_out, train_part, matrix).items():
        print(
            f"| {name} | {found.same_category:.4f} | {found.most_lists} | {found.gini:.3f} | {found.found:.4f} "
            f"| {found.found_weighted:.4f} |"
        )
    print(f"{len(held_out):,} held-out events, {time.process_time() - begun:.0f} s of processor time to evaluate")


if __name__ == "__main__":
    main()
