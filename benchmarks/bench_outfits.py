"""Outfits on Complete Journey: python benchmarks/bench_outfits.py [--weeks choose|report] [--data DIR]

The model is trained on the weeks before the first one. Of each order of the weeks with three or more categories, one
item is hidden whose category occurs once in the order; the rest is the basket, and no customer is given. A system finds
the item (a) if it is among its first ten of the category, and (b) if it is among its first ten of all categories that
are not in the basket. The category is `product_category`. Settings, also those of the baselines, were chosen on the
weeks 29 to 34 (--weeks choose prints all); the weeks 35 to 40 are reported.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

import lorentzrec
from bench_alternatives import WEEKS, read_lines, train_before
from lorentzrec.data.arrays import Booleans, Floats, Integers
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.evaluation.significance import compare_pairs
from lorentzrec.model.model import Model
from lorentzrec.points.complements import build_complements
from lorentzrec.points.outfits import OutfitOptions, Outfits, complete_rows
from lorentzrec.points.recommending import RowOptions, RowQuery, recommend_rows
from lorentzrec.points.similarity import list_orders

K, FEWEST_CATEGORIES, QUERIES = 10, 3, 1_000
ORDERS = {"choose": 3_000, "report": 4_000}
OURS = "outfits"
POINT_SHARES = (0.0, 0.0625, 0.125, 0.25)

Score = Callable[[Integers, Booleans], NDArray[Any]]
"""The scores of all items for a basket, right for those that are candidates."""


class Task(NamedTuple):
    basket: Integers
    hidden: int


def find_tasks(model: Model, lines: pl.DataFrame, codes: Integers, weeks: tuple[int, int], limit: int) -> list[Task]:
    """A hidden item of each order of the weeks, known items only; a sample of `limit` orders."""
    random = np.random.default_rng(0)
    known = lines.filter(pl.col("week").is_between(*weeks) & pl.col("product_id").is_in(model.items.series.implode()))
    orders = known.group_by("basket_id", maintain_order=True).agg(pl.col("product_id").unique(maintain_order=True))
    found = []
    for ids in orders["product_id"].to_list():
        rows = model.items.rows(ids)
        categories, counts = np.unique(codes[rows[codes[rows] >= 0]], return_counts=True)
        single = rows[np.isin(codes[rows], categories[counts == 1])]
        if len(categories) >= FEWEST_CATEGORIES and len(single):
            hidden = int(random.choice(single))
            found.append(Task(np.unique(rows[rows != hidden]), hidden))
    chosen = np.sort(random.permutation(len(found))[:limit])
    return [found[index] for index in chosen.tolist()]


def measure(score: Score, tasks: list[Task], codes: Integers) -> tuple[Floats, Floats]:
    """Whether each hidden item is found, (a) in its category and (b) among all categories that are not in the basket;
    an item that shares its score with others has the middle rank among them."""
    found = np.zeros((2, len(tasks)))
    for number, (basket, hidden) in enumerate(tasks):
        outside = (codes >= 0) & ~np.isin(codes, codes[basket])
        for part, candidates in enumerate((codes == codes[hidden], outside)):
            scores = score(basket, candidates)
            others, own = scores[candidates], scores[hidden]
            found[part, number] = (others > own).sum() + ((others == own).sum() - 1) / 2 < K
    return found[0], found[1]


def once(score: Callable[[Integers], NDArray[Any]]) -> Score:
    """Scores that do not depend on the candidates, computed once for both lists of a basket."""
    last: list[Any] = [None, None]

    def scores(basket: Integers, candidates: Booleans) -> NDArray[Any]:
        if last[0] is not basket:
            last[:] = basket, score(basket)
        return np.asarray(last[1])

    return scores


class Counts:
    """Counts of orders, for the baselines."""

    def __init__(self, model: Model) -> None:
        assert model.histories is not None
        orders, _ = list_orders(model.histories)
        together = sparse.csr_array(orders.T @ orders)
        self.own = together.diagonal()
        together.setdiag(0)
        together.eliminate_zeros()
        self.together = together
        self.histories = model.histories

    def popularity(self, half_life: float | None) -> Score:
        """half_life: in days, of an event."""
        data, weights = self.histories, None
        if half_life is not None:
            assert data.times is not None
            weights = 0.5 ** ((data.times.max() - data.times) / 86_400 / half_life)
        counts = np.bincount(data.item_rows, weights, len(data.items))
        return once(lambda basket: counts)

    def lift(self, exponent: float, shrinkage: float) -> Score:
        """Sum over the basket of n_ij / (n_i + s) / (n_j + s)^exponent."""
        corrections = (self.own + shrinkage) ** -exponent

        def score(basket: Integers) -> Floats:
            return np.asarray((1 / (self.own[basket] + shrinkage)) @ self.together[basket]) * corrections

        return once(score)

    def neighbours(self, size: int, shrinkage: float) -> Score:
        """Item-kNN: the cosine between the orders of two items, of the best neighbours of each item of the basket."""
        lengths = np.sqrt(self.own + shrinkage)
        cosines = sparse.csr_array(sparse.diags_array(1 / lengths) @ self.together @ sparse.diags_array(1 / lengths))
        kept = cosines.data > 0
        for start, end in zip(cosines.indptr[:-1], cosines.indptr[1:], strict=True):
            if end - start > size:
                bound = np.partition(cosines.data[start:end], end - start - size)[end - start - size]
                kept[start:end] = cosines.data[start:end] >= bound
        cosines.data = np.where(kept, cosines.data, 0)
        cosines.eliminate_zeros()
        return once(lambda basket: np.asarray(cosines[basket].sum(axis=0)).ravel())


def today(model: Model) -> Score:
    """What a customer of the basket would buy next, by points and memory: the category filter that outfits replace."""

    def score(basket: Integers) -> NDArray[np.float32]:
        query = model.points.query(basket, None, np.zeros(len(basket), np.int64))[None]
        return np.asarray(model.ranker.score_all(query, basket, np.array([0, len(basket)]))[0])

    return once(score)


def ours(model: Model, columns: ItemColumns, **complements: Any) -> Score:
    changed = model if not complements else model.with_points(complements=replace(model.complements, **complements))  # type: ignore[type-var]
    return Outfits(changed.ranker, columns).score


def choose(model: Model, columns: ItemColumns, counts: Counts, tasks: list[Task], codes: Integers) -> None:
    """Print what each setting finds."""
    settings: dict[str, Callable[[], Score]] = {}
    for share in POINT_SHARES:
        settings[f"{OURS}, points {share:g}"] = partial(ours, model, columns, point_weight=share * model.config.scale)
    settings["basket of today"] = partial(today, model)
    for half_life in (None, 180.0, 90.0, 42.0, 21.0):
        settings[f"popularity, half-life {half_life}"] = partial(counts.popularity, half_life)
    for exponent, shrinkage in product((0.0, 0.25, 0.5, 1.0), (0.0, 5.0, 20.0, 80.0, 320.0)):
        settings[f"lift, exponent {exponent:g}, shrinkage {shrinkage:g}"] = partial(counts.lift, exponent, shrinkage)
    for size, shrinkage in product((100, 1_000, 100_000), (0.0, 20.0, 80.0)):
        settings[f"item-kNN, {size} neighbours, shrinkage {shrinkage:g}"] = partial(counts.neighbours, size, shrinkage)
    for name, make in settings.items():
        inside, over_all = measure(make(), tasks, codes)
        print(f"| {name} | {inside.mean():.4f} | {over_all.mean():.4f} |", flush=True)


def report(systems: dict[str, tuple[Score, Score]], tasks: list[Task], codes: Integers) -> None:
    """A table, and the differences to each baseline. A system may have other settings for (a) and for (b)."""
    print("| | (a) in its category | (b) over all other categories |")
    print("|---|---|---|")
    hits = {}
    for name, scores in systems.items():
        both = measure(scores[0], tasks, codes)
        hits[name] = both if scores[0] is scores[1] else (both[0], measure(scores[1], tasks, codes)[1])
        print(f"| {name} | {hits[name][0].mean():.4f} | {hits[name][1].mean():.4f} |", flush=True)
    for name in hits.keys() - {OURS}:
        for part, letter in enumerate("ab"):
            print(f"({letter}) {OURS} - {name}: {compare_pairs(hits[OURS][part] - hits[name][part])}")


def time_outfits(model: Model, columns: ItemColumns, tasks: list[Task]) -> None:
    """The processor time of an outfit of six slots, and of training, in turns with what they are compared with."""
    begun = time.process_time()
    assert model.histories is not None
    build_complements(model.histories)
    print(f"complements are built in {time.process_time() - begun:.1f} s of processor time")
    found, random = Outfits(model.ranker, columns), np.random.default_rng(0)
    options, usual = RowOptions(), random.permutation(len(found.tree.names))
    seconds: dict[str, list[float]] = {"recommendation": [], "outfit of six slots": [], "outfit of any slots": []}
    for basket, _ in tasks[:QUERIES]:
        wanted = OutfitOptions(slots=tuple(random.choice(usual, 6, replace=False).tolist()))
        calls: dict[str, Callable[[], object]] = {
            "recommendation": partial(recommend_rows, model.ranker, [RowQuery(basket)], options, 1),
            "outfit of six slots": partial(complete_rows, found, basket, options, wanted),
            "outfit of any slots": partial(complete_rows, found, basket, RowOptions(k=6)),
        }
        for name, call in calls.items():
            begun = time.thread_time()
            call()
            seconds[name].append(time.thread_time() - begun)
    plain = np.median(seconds["recommendation"])
    for name, times in seconds.items():
        print(f"{name}: {1000 * np.median(times):.3f} ms of processor time, {np.median(times) / plain:.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LORENTZREC_DATA", ".")))
    parser.add_argument("--weeks", choices=[*WEEKS], default="report")
    parser.add_argument("--model", type=Path, help="folder of the model of these weeks: trained and saved if missing")
    parser.add_argument("--only", choices=["time"], help="measure nothing but processor time")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    lines = read_lines(given.data)
    if given.model is not None and given.model.exists():
        model = lorentzrec.load(given.model)
    else:
        model = train_before(lines, WEEKS[given.weeks][0], given.seed)
        if given.model is not None:
            model.save(given.model)
    assert model.complements is not None
    table = lines.select("product_id", "category").unique("product_id").rename({"product_id": "item"})
    columns = model.item_columns(table)
    codes = columns.texts["category"].codes.astype(np.int64)
    tasks = find_tasks(model, lines, codes, WEEKS[given.weeks], ORDERS[given.weeks])
    print(f"{len(tasks):,} orders, {np.mean([len(task.basket) for task in tasks]):.1f} items in a basket")
    if given.only is None:
        counts = Counts(model)
        if given.weeks == "choose":
            choose(model, columns, counts, tasks, codes)
        else:
            report(chosen_systems(model, columns, counts), tasks, codes)
    time_outfits(model, columns, tasks)


def chosen_systems(model: Model, columns: ItemColumns, counts: Counts) -> dict[str, tuple[Score, Score]]:
    """What was best on the weeks 29 to 34, of each baseline for (a) and for (b)."""
    our_score, of_today, neighbours = ours(model, columns), today(model), counts.neighbours(100_000, 20.0)
    return {
        OURS: (our_score, our_score),
        "co-purchase lift": (counts.lift(1.0, 320.0), counts.lift(0.5, 80.0)),
        "category popularity": (counts.popularity(90.0), counts.popularity(21.0)),
        "item-kNN": (neighbours, neighbours),
        "the basket of today": (of_today, of_today),
    }


if __name__ == "__main__":
    main()
