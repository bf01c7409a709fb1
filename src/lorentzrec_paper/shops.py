"""Beyond the paper: the next order of the customers of two real shops, next to popularity, habits and peers.

A model is trained on everything before a date. The test is the first order of each known customer in the three weeks
after that date. There are two tests, one after the other; a quick run has the first. Settings of baselines are chosen
on the three weeks before the first test, and ours are chosen in training, so nothing is chosen on a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lorentzrec.data.arrays import Floats
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.evaluation.baselines import ItemKNN, Popularity
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.peers import ImplicitALS, has_implicit
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.shop_baselines import TIFUKNN, UPCF, OwnFrequency, RecentPopularity
from lorentzrec.evaluation.significance import compare_pairs
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import Part
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Table, Verdict, status_of

BASE = TrainingConfig()
SEEDS = 3
DAYS = 21
"""The length of a test."""
LEAST_EVENTS = 5
"""Items with fewer training events are not in the catalogue; in a test order they count as missed, for everyone."""
CANDIDATES: tuple[Candidates, ...] = ("all", "new", "repeats")
METRIC = "ndcg@10"
OURS, HABITS = "lorentzrec", "own frequency, decay"
OF_ALL_ITEMS = (HABITS, "TIFU-kNN", "UP-CF")
OF_NEW_ITEMS = ("popularity", "item-kNN", "ALS")
"""What is compared with ours on all items, and on items that are new to the customer."""

Grid = Sequence[Mapping[str, float]]
SYSTEMS: dict[str, tuple[Callable[..., Recommender], Grid]] = {
    "popularity": (Popularity, [{}]),
    "recent popularity": (RecentPopularity, [{"days": days} for days in (7, 14, 28, 56)]),
    "own frequency": (OwnFrequency, [{}]),
    HABITS: (OwnFrequency, [{"half_life": days} for days in (10, 20, 40, 80, 160, 320)]),
    "TIFU-kNN": (
        TIFUKNN,
        [
            {"own": own, "between": between, "group_size": size}
            for own in (0.5, 0.7, 0.9)
            for between in (0.7, 0.9)
            for size in (3, 7)
        ],
    ),
    "UP-CF": (UPCF, [{"window": window, "locality": power} for window in (5, 25, 100) for power in (1, 5, 20)]),
    "item-kNN": (
        ItemKNN,
        [{"neighbours": count, "shrinkage": shrinkage} for count in (50, 200, 1000) for shrinkage in (0, 10, 100)],
    ),
    "ALS": (
        ImplicitALS,
        [{"factors": count, "alpha": alpha} for count in (32, 64, 128) for alpha in (1.0, 10.0)],
    ),
}
"""Each baseline with the settings to choose from."""


@dataclass(frozen=True)
class ShopTask:
    """The events before a date, and the first order of each known customer in the weeks after it."""

    train: Interactions
    test: Interactions


@dataclass(frozen=True)
class Shop:
    """The events of a shop."""

    title: str
    events: pl.DataFrame
    """With the columns user, item, time, order and quantity; a cancellation has a negative quantity."""
    dates: tuple[datetime, ...]
    """Where validation, the first test and the second test begin, and where the second test ends."""

    @cached_property
    def tasks(self) -> list[ShopTask]:
        """Validation and the two tests."""
        return [self._make_task(start, end) for start, end in pairwise(self.dates)]

    def _make_task(self, start: datetime, end: datetime) -> ShopTask:
        time, bought = pl.col("time"), pl.col("quantity") > 0
        before = Interactions.from_frame(self.events.filter(time < start), minimum_item_events=LEAST_EVENTS)
        later = self.events.filter(bought & time.is_between(start, end))
        known = before.users.rows(later["user"]) != UNKNOWN
        later = later.filter(known).drop("quantity")
        first = later.sort("time", "order").unique("user", keep="first", maintain_order=True)
        return ShopTask(before, Interactions.from_frame(later.join(first, on=["user", "order"], how="semi")))


def read_complete_journey(path: Path) -> Shop:
    """A grocer, 40 weeks. The tests are weeks 35 to 37 and 38 to 40."""
    names = {"household_id": "user", "product_id": "item", "basket_id": "order", "transaction_timestamp": "time"}
    events = pl.read_parquet(path).rename(names)
    starts = [_bound(events.filter(week=week)["time"].min()) for week in (32, 35, 38)]
    return Shop("Complete Journey", events.select(*names.values(), "quantity"), (*starts, _bound(events["time"].max())))


def read_online_retail(path: Path) -> Shop:
    """A gift shop, a year. The tests are its last six weeks; lines without a customer are left out."""
    names = {"CustomerID": "user", "StockCode": "item", "InvoiceNo": "order", "InvoiceDate": "time"}
    events = pl.read_parquet(path).rename(names | {"Quantity": "quantity"}).drop_nulls("user")
    events = events.select(*names.values(), "quantity").with_columns(pl.col("user").cast(pl.Int64))
    end = _bound(events["time"].max())
    return Shop("Online Retail", events, (*(end - timedelta(days=DAYS * steps) for steps in (3, 2, 1)), end))


def _bound(time: Any) -> datetime:
    assert isinstance(time, datetime)
    return time


SHOPS = {"complete-journey": read_complete_journey, "online-retail": read_online_retail}


@dataclass(frozen=True)
class Measured:
    """The metrics of one system on one task: for each of the candidates, by customer."""

    users: dict[str, list[str]]
    ndcg: dict[str, list[float]]
    recall: dict[str, list[float]]

    @classmethod
    def of(cls, system: Recommender, task: ShopTask, candidates: Sequence[Candidates] = CANDIDATES) -> Measured:
        reports = {
            kind: evaluate(system, task.test, candidates=kind, histories=task.train, intervals=False)
            for kind in candidates
        }
        return cls(
            {kind: list(map(str, report.users.series)) for kind, report in reports.items()},
            {kind: report.per_user[METRIC].tolist() for kind, report in reports.items()},
            {kind: report.per_user["recall@10"].tolist() for kind, report in reports.items()},
        )


@dataclass(frozen=True)
class Result:
    """One system on the tests."""

    name: str
    settings: str
    tests: list[Measured]
    """The means over seeds."""

    def mean(self, kind: Candidates, metric: str = "ndcg", test: int | None = None) -> float:
        chosen = self.tests if test is None else self.tests[test : test + 1]
        return float(np.mean(np.concatenate([getattr(one, metric)[kind] for one in chosen])))

    def differences(self, other: Result, kind: Candidates) -> Floats:
        """For each customer, the sum over tests of this NDCG minus the other's."""
        sums: dict[str, float] = {}
        for mine, theirs in zip(self.tests, other.tests, strict=True):
            for user, first, second in zip(mine.users[kind], mine.ndcg[kind], theirs.ndcg[kind], strict=True):
                sums[user] = sums.get(user, 0.0) + first - second
        return np.array(list(sums.values()))


def _average(runs: Sequence[Measured]) -> Measured:
    """The mean over seeds, by customer."""

    def mean(name: str) -> dict[str, list[float]]:
        return {kind: np.mean([getattr(run, name)[kind] for run in runs], axis=0).tolist() for kind in CANDIDATES}

    return Measured(runs[0].users, mean("ndcg"), mean("recall"))


def measure_ours(shop: Shop, task: int, seed: int) -> Measured:
    part = shop.tasks[task]
    return Measured.of(train(part.train, BASE.replace(seed=seed), progress=False), part)


def measure_baseline(
    shop: Shop, task: int, name: str, settings: Mapping[str, float], candidates: Sequence[Candidates] = CANDIDATES
) -> Measured:
    part = shop.tasks[task]
    return Measured.of(SYSTEMS[name][0](part.train, **settings), part, candidates)


def measure(shop: Shop, context: Context) -> list[Result]:
    """Ours first, then each baseline with the settings that are best on validation."""
    key = {"data": [part.digest for task in shop.tasks for part in (task.train, task.test)]}
    seeds, tests = range(1 if context.quick else SEEDS), (1,) if context.quick else (1, 2)
    runs = context.run(
        Measured,
        [
            Part(
                f"{shop.title}, {OURS}, test {test}, seed {seed}",
                key | {"test": test, "seed": seed, "config": BASE.to_dict()},
                partial(measure_ours, shop, test, seed),
            )
            for test in tests
            for seed in seeds
        ],
    )
    by_test = [runs[first : first + len(seeds)] for first in range(0, len(runs), len(seeds))]
    results = [Result(OURS, f"defaults, seeds: {len(seeds)}", [_average(some) for some in by_test])]
    for name, (_, grid) in SYSTEMS.items():
        if name == "ALS" and not has_implicit():
            context.say("left out: ALS, since implicit is not installed")
            continue
        results.append(_measure_tuned(shop, key, name, grid[:1] if context.quick else grid, tests, context))
    return results


def _measure_tuned(
    shop: Shop, key: dict[str, Any], name: str, grid: Grid, tests: Sequence[int], context: Context
) -> Result:
    kind: Candidates = "new" if name in OF_NEW_ITEMS else "all"

    def make_part(task: int, settings: Mapping[str, float]) -> Part:
        candidates = CANDIDATES if task else (kind,)
        words = f"{shop.title}, {name} {_words(settings)}, {f'test {task}' if task else 'validation'}"
        run = partial(measure_baseline, shop, task, name, settings, candidates)
        identity = {"system": name, "settings": dict(settings), "task": task, "candidates": candidates}
        return Part(words, key | identity, run)

    best = grid[0]
    if len(grid) > 1:
        tried = context.run(Measured, [make_part(0, settings) for settings in grid])
        best = grid[int(np.argmax([np.mean(one.ndcg[kind]) for one in tried]))]
    return Result(name, _words(best), context.run(Measured, [make_part(task, best) for task in tests]))


def _words(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in settings.items()) or "no settings"


def run(context: Context) -> Outcome:
    outcome = Outcome(
        (),
        (),
        notes=(
            f"the test is the first order of each known customer in {DAYS} days; settings of baselines are chosen on "
            f"the {DAYS} days before the first test",
            f"items with fewer than {LEAST_EVENTS} training events are missed by everyone",
            "p: a randomisation test over customers, ours against the system, all tests together",
        ),
        settings={
            "base": BASE.to_dict(),
            "grids": {name: list(map(dict, grid)) for name, (_, grid) in SYSTEMS.items()},
        },
    )
    for found in (context.data.find(name) for name in SHOPS if name in context.data):
        shop = SHOPS[found.name](found.paths[0])
        results = measure(shop, context)
        outcome = replace(
            outcome,
            tables=(*outcome.tables, _table(shop, results)),
            verdicts=(*outcome.verdicts, *_verdicts(shop, results)),
        )
        context.write(outcome)
    if not outcome.tables:
        context.data.find(next(iter(SHOPS)))  # an error that says where to get it
    return outcome


def _table(shop: Shop, results: Sequence[Result]) -> Table:
    tests = len(results[0].tests)
    formats = {f"NDCG@10, test {test}": ".4f" for test in range(1, tests + 1)} | {"NDCG@10": ".4f", "p": ".2g"}
    more = {"Recall@10": ".4f", "NDCG@10, new items": ".4f", "p, new items": ".2g", "NDCG@10, repeats": ".4f"}
    columns = (*Column.keys("system", "settings"), *Column.ours(formats | more))
    ours, rows = results[0], []
    for one in results:
        p_values = [
            None if one is ours else compare_pairs(ours.differences(one, kind)).p_value for kind in ("all", "new")
        ]
        rows.append(
            (
                one.name,
                one.settings,
                *(one.mean("all", test=test) for test in (*range(tests), None)),
                p_values[0],
                one.mean("all", "recall"),
                one.mean("new"),
                p_values[1],
                one.mean("repeats"),
            )
        )
    return Table(f"{shop.title}: the next order", columns, tuple(rows))


def _verdicts(shop: Shop, results: Sequence[Result]) -> Iterable[Verdict]:
    by_name = {one.name: one for one in results}
    ours = by_name[OURS]

    def compare(names: Sequence[str], kind: Candidates, claim: str, least: float) -> Verdict:
        parts, good = [], []
        for other in (by_name[name] for name in names if name in by_name):
            ratio = ours.mean(kind) / max(other.mean(kind), 1e-9)
            test = compare_pairs(ours.differences(other, kind))
            needed = least if other is by_name[names[0]] else 1.0
            good.append(ratio >= needed or (needed == 1.0 and not test.significant))
            parts.append(f"{ratio:.3f} times {other.name} (p = {test.p_value:.2g})")
        return Verdict(f"{shop.title}: {claim}", "", "; ".join(parts), status_of(good))

    yield compare(OF_ALL_ITEMS, "all", "the next order is found better than by habits, and as well as by peers", 1.02)
    yield compare(OF_NEW_ITEMS, "new", "items new to the customer are found better than by popularity and peers", 1.3)


EXPERIMENT = Experiment("shops", "Beyond the paper: the next order in two real shops", run)
