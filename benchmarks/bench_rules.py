"""Processor time of one recommendation with 1,000 shelf rules and without any, and of compiling the rules."""

from __future__ import annotations

import argparse
import time

import numpy as np

from lorentzrec.points.points import Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.recommending import RowOptions, RowQuery, recommend_rows
from lorentzrec.points.rule_classes import RuleClasses, RuleKind, RuleOnRows
from lorentzrec.points.rules import RowRules
from lorentzrec.points.space import Space
from measuring import report

ITEMS, DIMENSION, QUERIES, RULES = 100_000, 50, 300, 1_000


def make_rules(kinds: tuple[RuleKind, ...], items: int, random: np.random.Generator) -> list[RuleOnRows]:
    """Rules of these kinds in turn: nine of ten select up to 100 items, and one of ten up to a hundredth of all."""
    found = []
    for number in range(RULES):
        kind = kinds[number % len(kinds)]
        size = random.integers(1, 100) if number % 10 else random.integers(1, items // 100)
        rows = np.unique(random.integers(0, items, 5 if kind is RuleKind.PIN else size))
        groups = np.full(items, -1, np.int32)
        if kind is RuleKind.QUOTA:
            groups[rows] = rows % 7
        factor = float(random.uniform(1, 5))
        found.append(RuleOnRows(kind, rows, factor, position=number % 5, limit=3, groups=groups))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the items")
    items = ITEMS // 10 if parser.parse_known_args()[0].quick else ITEMS
    random = np.random.default_rng(0)
    space = (0.15 * random.standard_normal((items, DIMENSION))).astype(np.float32)
    points = np.column_stack([np.sqrt(1 + (space * space).sum(axis=1)), space]).astype(np.float32)
    ranker = Ranker(Points(points, points, np.zeros(items, np.int64), Space("hyperboloid", "distance", 0.7)))
    sets: dict[str, tuple[RuleKind, ...]] = {
        "exclude": (RuleKind.EXCLUDE,),
        "boost and bury": (RuleKind.BOOST, RuleKind.BURY),
        "exclude, boost, bury": (RuleKind.EXCLUDE, RuleKind.BOOST, RuleKind.BURY),
        "two pins and a quota": (RuleKind.PIN, RuleKind.PIN, RuleKind.QUOTA),
        "all kinds": (RuleKind.EXCLUDE, RuleKind.BOOST, RuleKind.BURY),
    }
    compiled: dict[str, RowRules | None] = {"none": None}
    compiling = {"none": 0.0}
    for name, kinds in sets.items():
        rules = make_rules(kinds, items, random)[: 3 if name.startswith("two") else RULES]
        if name == "all kinds":
            rules[:3] = make_rules(sets["two pins and a quota"], items, random)[:3]
        started = time.process_time()
        compiled[name] = RuleClasses(items, rules).in_force(range(len(rules)))
        compiling[name] = time.process_time() - started
    seconds: dict[str, list[float]] = {name: [] for name in compiled}
    histories = [random.integers(0, items, 20) for _ in range(QUERIES)]
    for history in histories:
        for name, rules_in_force in compiled.items():
            options = RowOptions(rules=rules_in_force)
            started = time.thread_time()
            recommend_rows(ranker, [RowQuery(history)], options, threads=1)
            seconds[name].append(time.thread_time() - started)
    medians = {name: 1000 * float(np.median(times)) for name, times in seconds.items()}
    rows = [
        {
            "rules": name,
            "ms": value,
            "more than none (ms)": value - medians["none"],
            "compiling (s)": compiling[name],
        }
        for name, value in medians.items()
    ]
    report("rules", f"One recommendation of 10 among {items:,} items, processor time", rows)


if __name__ == "__main__":
    main()
