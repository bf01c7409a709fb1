"""What the trend is worth, week by week: python benchmarks/bench_clock.py NAME [--data DIR] [--weeks N] [--seeds N]

NAME: online-retail, complete-journey (a third of the households) or ml-1m (its first 90 % by time). Before each week, a
model is trained on everything earlier, which chooses the weight and the days of its trend. The test is the first order
of each known customer in the week, or the next event where there are no orders; the model is measured with its trend
and without it. The first orders of customers without a history are ranked by popularity and by that of the last 28
days. p is that of a randomisation test over customers, each with the mean over weeks and seeds.

--plot FILE: no measurement, but a plot of what earlier runs wrote to benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.base.canvas import BLUE, GREEN, ORANGE, PAGE_WIDTH, PURPLE, SKY, canvas
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.reality_check import HALF_LIFE
from lorentzrec.evaluation.shop_baselines import OwnFrequency, RecentPopularity
from lorentzrec.evaluation.significance import compare_pairs
from lorentzrec_paper.shops import LEAST_EVENTS, read_complete_journey, read_online_retail
from measuring import RESULTS

K, METRIC = 10, "ndcg@10"
WITH, WITHOUT, HABITS = "with the trend", "without it", "own frequency"
POPULAR, RECENT = "popularity", "recent popularity"
STYLES = {WITH: (BLUE, "-"), WITHOUT: (SKY, "--"), HABITS: (PURPLE, ":"), POPULAR: (GREEN, ":"), RECENT: (ORANGE, ":")}
TITLES = {"online-retail": "Online Retail", "complete-journey": "Complete Journey", "ml-1m": "MovieLens 1M"}

Values = dict[str, list[tuple[str, float]]]
"""By system: customers and their metric."""


def read_events(name: str, folder: Path) -> pl.DataFrame:
    """With the columns user, item, time and, in a shop, order and quantity."""
    if name == "online-retail":
        return read_online_retail(folder / name / "transactions.parquet").events
    if name == "complete-journey":
        events = read_complete_journey(folder / name / "transactions.parquet").events
        return events.filter(pl.col("user").cast(pl.Int64) % 3 == 0)
    lines = (line.split("::") for line in (folder / name / "ratings.dat").read_text("latin-1").splitlines())
    ratings = [(int(user), int(item), int(time)) for user, item, _, time in lines]
    events = pl.DataFrame(ratings, schema=["user", "item", "time"], orient="row")
    events = events.with_columns(pl.from_epoch("time")).sort("time", maintain_order=True)
    return events.head(int(0.9 * len(events)))


def make_interactions(events: pl.DataFrame, least: int = 1) -> Interactions:
    ties: Any = {} if "order" in events.columns else {"ties": "given"}
    return Interactions.from_frame(events, minimum_item_events=least, **ties)


def first_orders(events: pl.DataFrame) -> Interactions | None:
    if not len(events):
        return None
    keys = ["user", "order"] if "order" in events.columns else ["user"]
    first = events.sort("time", *keys[1:], maintain_order=True).unique("user", keep="first", maintain_order=True)
    if len(keys) == 1:
        return make_interactions(first)
    return make_interactions(events.join(first, on=keys, how="semi").drop("quantity"))


def measure(system: Recommender, test: Interactions, past: Interactions, candidates: Any) -> list[tuple[str, float]]:
    report = evaluate(system, test, candidates=candidates, histories=past, metrics=["ndcg"], intervals=False, threads=1)
    return list(zip(map(str, report.users.series), report.per_user[METRIC].tolist(), strict=True))


def measure_one_list(system: Recommender, test: Interactions, past: Interactions) -> list[tuple[str, float]]:
    """NDCG@10 of the same list for everyone; ties by row."""
    scores = system.score_histories(past, np.zeros(1, np.int64))[0]
    best = past.items.ids(np.argsort(-scores, kind="stable")[:K])
    discounts = 1 / np.log2(np.arange(2, K + 2))
    found = []
    for row, user in enumerate(test.users.series):
        wanted = set(test.items.ids(test.item_rows[test.offsets[row] : test.offsets[row + 1]]))
        hits = np.array([item in wanted for item in best])
        found.append((str(user), float(hits @ discounts / discounts[: len(wanted)].sum())))
    return found


def measure_week(
    events: pl.DataFrame, start: datetime, end: datetime, config: TrainingConfig, say: Callable[[str], None]
) -> tuple[Values, Values]:
    """For known customers, and for those without a history."""
    time = pl.col("time")
    past = make_interactions(events.filter(time < start), LEAST_EVENTS)
    later = events.filter(time.is_between(start, end, closed="left"))
    if "quantity" in events.columns:
        later = later.filter(pl.col("quantity") > 0)
    known = past.users.rows(later["user"]) != UNKNOWN
    model = train(past, config, progress=False)
    trend = model.trend
    systems: dict[str, Recommender] = {WITH: model, POPULAR: Popularity(past), RECENT: RecentPopularity(past)}
    systems[WITHOUT] = model if trend is None else model.with_points(trend=replace(trend, weight=0.0))
    candidates = "unseen" if model.repeats is None else "all"
    if model.repeats is not None:
        systems[HABITS] = OwnFrequency(past, HALF_LIFE)
    weight = 0.0 if trend is None else trend.weight
    found, new = Values(), Values()
    if (test := first_orders(later.filter(known))) is not None:
        found = {name: measure(system, test, past, candidates) for name, system in systems.items()}
    if (test := first_orders(later.filter(~known))) is not None:
        new = {name: measure_one_list(systems[name], test, past) for name in (POPULAR, RECENT)}
    means = ", ".join(f"{name} {np.mean([value for _, value in one]):.4f}" for name, one in found.items())
    say(f"{start:%d %b %Y}, seed {config.seed}: {len(found.get(WITH, ())):,} customers, weight {weight:.2f}: {means}")
    return found, new


def compare(weeks: list[Values], first: str, second: str) -> str:
    """`first` minus `second` over customers."""
    sums: dict[str, list[float]] = {}
    for week in weeks:
        for (user, mine), (_, theirs) in zip(week.get(first, ()), week.get(second, ()), strict=True):
            sums.setdefault(user, []).append(mine - theirs)
    if not sums:
        return "no customers"
    return f"{len(sums):,} customers: {compare_pairs(np.array([np.mean(values) for values in sums.values()]))}"


def average(weeks: list[Values], name: str) -> float:
    return float(np.mean([value for week in weeks for _, value in week.get(name, ())]))


def run(name: str, given: argparse.Namespace) -> None:
    events = read_events(name, given.data)
    newest: Any = events["time"].max()
    starts = [newest + timedelta(seconds=1) - timedelta(weeks=left) for left in range(given.weeks, -1, -1)]
    config = TrainingConfig(threads=1) if given.epochs is None else TrainingConfig(threads=1, epochs=given.epochs)
    say: Callable[[str], None] = partial(print, flush=True)
    all_known, all_new, rows = list[Values](), list[Values](), list[dict[str, Any]]()
    for start, end in pairwise(starts):
        runs = [measure_week(events, start, end, config.replace(seed=seed), say) for seed in range(given.seeds)]
        known = [found for found, _ in runs]
        all_known += known
        all_new.append(runs[0][1])  # baselines have no seed
        row = {system: average(known, system) for system in STYLES if system in known[0]}
        rows.append({"week": f"{start:%Y-%m-%d}", "customers": len(known[0].get(WITH, ()))} | row)
        print(f"{start:%d %b %Y}: with - without: {compare(known, WITH, WITHOUT)}", flush=True)
    print(f"all weeks: with - without: {compare(all_known, WITH, WITHOUT)}")
    print(", ".join(f"{system} {average(all_known, system):.4f}" for system in rows[0] if system in STYLES))
    if any(all_new):
        print(f"without a history: {', '.join(f'{one} {average(all_new, one):.4f}' for one in (POPULAR, RECENT))}")
        print(f"without a history: recent - all-time: {compare(all_new, RECENT, POPULAR)}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"clock-{name}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def plot(path: Path) -> None:
    found = {name: RESULTS / f"clock-{name}.json" for name in TITLES if (RESULTS / f"clock-{name}.json").exists()}
    with canvas(path, PAGE_WIDTH, 2.6) as figure:
        panels = figure.subplots(1, len(found), squeeze=False)[0]
        for axes, (name, file) in zip(panels, found.items(), strict=True):
            rows = json.loads(file.read_text(encoding="utf-8"))
            for system, (colour, style) in STYLES.items():
                if system in rows[0]:
                    values = [row[system] for row in rows]
                    axes.plot(range(len(rows)), values, color=colour, linestyle=style, marker="o", markersize=3)
            days = [f"{datetime.fromisoformat(row['week']):%d %b}" for row in rows]
            axes.set_xticks(range(len(rows)), days)
            axes.set_ylim(bottom=0)
            axes.set_title(TITLES[name], loc="left")
        panels[0].set_ylabel("NDCG@10 of the next order")
        lines = [panels[0].plot([], [], color=colour, linestyle=style)[0] for colour, style in STYLES.values()]
        figure.legend(lines, list(STYLES), loc="outside lower center", ncols=len(STYLES), frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=[*TITLES])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LORENTZREC_DATA", ".")))
    parser.add_argument("--weeks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.plot is not None:
        plot(given.plot)
    elif given.name is not None:
        run(given.name, given)
    else:
        parser.error("give the name of a data set, or --plot")


if __name__ == "__main__":
    main()
