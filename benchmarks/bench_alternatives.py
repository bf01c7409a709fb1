"""Alternatives on Complete Journey: python benchmarks/bench_alternatives.py [--weeks choose|report] [--data DIR]

The model is trained on the weeks before the first one. A pair is an item of the last order in which a customer bought
something of a category, and another item of the first such order in the weeks; a system finds it if the second item is
among its first ten alternatives to the first. The category is `product_category`, the parent the department. Settings
were chosen on the weeks 29 to 34 (--weeks choose); the weeks 35 to 40 are reported.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.data.arrays import Floats
from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.evaluation.significance import compare_pairs
from lorentzrec.model.model import Model
from lorentzrec.points.alternatives import Alternatives, find_alternatives
from lorentzrec.points.recommending import RowOptions, RowQuery, recommend_rows
from lorentzrec.points.similar import SimilarItems, find_similar

WEEKS = {"choose": (29, 34), "report": (35, 40)}
FEWEST_EVENTS = 5
PAIRS, QUERIES, K = 20_000, 1_000, 10


def read_lines(folder: Path) -> pl.DataFrame:
    lines = pl.read_parquet(folder / "complete-journey" / "transactions.parquet").filter(pl.col("quantity") > 0)
    products = pl.read_parquet(folder / "complete-journey" / "products.parquet")
    described = products.select("product_id", category="product_category", department="department")
    return lines.join(described, on="product_id", how="left").sort("transaction_timestamp", maintain_order=True)


def train_before(lines: pl.DataFrame, week: int, seed: int) -> Model:
    earlier = lines.filter(pl.col("week") < week).filter(pl.len().over("product_id") >= FEWEST_EVENTS)
    users, items, times, orders = earlier.select(
        "household_id", "product_id", "transaction_timestamp", "basket_id"
    ).get_columns()
    data = Interactions.from_pairs(users, items, times, orders=orders)
    return train(data, TrainingConfig(seed=seed), progress=False)


def find_pairs(lines: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """household_id, category, old and new item, of the known items in `lines`."""
    keys = ["household_id", "category"]
    orders = (
        lines.drop_nulls("category")
        .filter(pl.col("week") <= last)
        .group_by(*keys, "basket_id", maintain_order=True)
        .agg(pl.col("week").first(), pl.col("product_id").unique())
    )
    before = orders.filter(pl.col("week") < first).group_by(keys).agg(pl.col("product_id").last().alias("old"))
    after = orders.filter(pl.col("week") >= first).group_by(keys).agg(pl.col("product_id").first().alias("new"))
    pairs = before.join(after, on=keys).explode("old").explode("new").filter(pl.col("old") != pl.col("new"))
    pairs = pairs.sort(*keys, "old", "new")
    return pairs.sample(min(PAIRS, len(pairs)), seed=0)


def report_lists(model: Model, columns: ItemColumns, seed: int) -> None:
    """The lists of random items if half of the items are in stock, and the processor time of one list."""
    random = np.random.default_rng(seed)
    ids = np.array(model.item_ids)
    stock = random.choice(ids, len(ids) // 2, replace=False).tolist()
    queries = random.choice(ids, QUERIES, replace=False).tolist()
    found = model.alternatives_many(queries, K, allow=stock, item_table=columns)
    tree, live = CategoryTree(columns), set(stock)
    wrong = short = large = 0
    for item, one in zip(queries, found, strict=True):
        if (code := int(tree.codes[model.items.row(item)])) == UNKNOWN:
            wrong += len(one)
            continue
        family = {model.items.id(int(row)) for row in tree.rows_of_parent(code)} & live - {item}
        wrong += len(set(one.ids) - family)
        large += len(family) >= 10
        short += len(family) >= 10 and len(one) < 5
    widened = sum(bool(one.fallbacks) for one in found)
    print(f"{wrong} of {sum(map(len, found)):,} alternatives to {QUERIES:,} random items are sold out or of elsewhere")
    print(f"{large - short:,} of {large:,} items whose parent has ten others in stock have five alternatives or more")
    print(f"{widened:,} of {QUERIES:,} lists say that they are wider than the category, or that there is none")

    similar = SimilarItems(model.ranker)
    alternatives, options = Alternatives(similar, tree), RowOptions()
    rows = model.items.rows(queries)
    histories = [random.integers(0, len(ids), 20) for _ in rows]
    seconds: dict[str, list[float]] = {"recommendation": [], "similar": [], "alternatives": []}
    for row, history in [*zip(rows.tolist(), histories, strict=True)] * 2:
        calls: dict[str, Callable[[], object]] = {
            "recommendation": partial(recommend_rows, model.ranker, [RowQuery(history)], options, 1),
            "similar": partial(find_similar, similar, [row], options),
            "alternatives": partial(find_alternatives, alternatives, [row], options),
        }
        for name, call in calls.items():
            begun = time.thread_time()
            call()
            seconds[name].append(time.thread_time() - begun)
    plain = np.median(seconds["recommendation"][len(rows) :])
    for name, times in seconds.items():
        median = np.median(times[len(rows) :])
        print(f"{name}: {1000 * median:.3f} ms of processor time, {median / plain:.2f} times a recommendation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LORENTZREC_DATA", ".")))
    parser.add_argument("--weeks", choices=[*WEEKS], default="report")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    first, last = WEEKS[given.weeks]
    lines = read_lines(given.data)
    model = train_before(lines, first, given.seed)
    lines = lines.filter(pl.col("product_id").is_in(model.items.series.implode()))
    table = lines.select("product_id", "category", "department").unique("product_id").rename({"product_id": "item"})
    columns = model.item_columns(table)
    category_of = dict(table.select("item", "category").iter_rows())
    counts = dict(zip(model.item_ids, model.item_counts.tolist(), strict=True))
    by_category: dict[str, list[Any]] = {}
    for item in sorted(counts, key=lambda item: -counts[item]):
        by_category.setdefault(category_of[item], []).append(item)

    def popular(item: Any) -> list[Any]:
        return [other for other in by_category[category_of[item]][: K + 1] if other != item][:K]

    pairs = find_pairs(lines, first, last)
    queries = pairs["old"].unique(maintain_order=True).to_list()
    lists: dict[str, dict[Any, list[Any]]] = {
        "category popularity": {item: popular(item) for item in queries},
        "similar items of the category": {
            item: model.similar_items(item, K, where={"category": category_of[item]}, item_table=columns).ids
            for item in queries
        },
        "alternatives": dict(
            zip(
                queries,
                [found.ids for found in model.alternatives_many(queries, K, item_table=columns)],
                strict=True,
            )
        ),
    }
    print(f"{len(pairs):,} pairs of {pairs['household_id'].n_unique():,} customers")
    print("| | next purchase among the first ten |")
    print("|---|---|")
    hits: dict[str, Floats] = {}
    for name, found in lists.items():
        hits[name] = np.array([float(new in found[old]) for old, new in pairs.select("old", "new").iter_rows()])
        print(f"| {name} | {hits[name].mean():.4f} |")
    difference = hits["alternatives"] - hits["category popularity"]
    _, customers = np.unique(pairs["household_id"].to_numpy(), return_inverse=True)
    print(compare_pairs(np.bincount(customers, difference) / np.bincount(customers)))
    report_lists(model, columns, given.seed)


if __name__ == "__main__":
    main()
