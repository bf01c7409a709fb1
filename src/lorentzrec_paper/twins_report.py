"""The twins in words: who ranks better at which dimension, is it real, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.tuning.comparison import GEOMETRIES
from lorentzrec_paper.experiment import Answer, Column, Outcome, Table, Verdict

LEVEL = 0.05
Result = Mapping[str, Any]
"""All about one data set, as `twins.measure` gives it."""


def outcome_of(results: Sequence[Result], wanted: int, settings: Mapping[str, Any]) -> Outcome:
    """`wanted`: data sets that there will be in the end; those of `results` are there."""

    def draw(path: Path) -> None:
        from lorentzrec_paper.figures.differences import plot_differences

        by_dimension = {
            f"{dimension} dimensions": [
                relative(row) for one in results for row in one["rows"] if row["dimension"] == dimension
            ]
            for dimension in _dimensions(results)
        }
        titles = [one["title"] for one in results]
        plot_differences(titles, by_dimension, "hyperboloid against Euclidean twin (%)", path)

    notes = [
        "the twins run through the same code and search the same hyper-parameters, with equally many trials; settings "
        "are chosen on a validation part of training, at 50 dimensions, and reused at the others; then training and "
        "validation are learned from together, and the test is ranked in full, once for each seed",
        "± is the standard deviation over seeds; p over customers is that of a randomisation test of each customer's "
        "mean over the seeds (do these models differ?), p over seeds that of Welch's t-test (do the methods?)",
        *(
            f"{one['title']}: learned from {one['learned']}; {one['test_events']:,} test events, {one['unseen']:,} of "
            "them of items that have no training event"
            for one in results
        ),
    ]
    failed = sum(tuned["failed"] for one in results for tuned in one["tuned"].values())
    if failed:
        notes.append(f"{failed} trials ended in infinite points: they count as trials, and cannot be chosen")
    if len(results) < wanted:
        notes.insert(0, f"{len(results)} of {wanted} data sets so far: the same command goes on from here")
    return Outcome(
        tables=(_main_table(results), _recall_table(results), _settings_table(results)),
        verdicts=_verdicts(results),
        figures={"differences": draw},
        captions={
            "differences": "NDCG of the hyperboloid less that of its Euclidean twin, in per cent of the latter, mean "
            "over seeds; bars are 95 % intervals over customers. Above the line the hyperboloid is ahead."
        },
        notes=tuple(notes),
        settings={**settings, "chosen": {one["title"]: one["tuned"] for one in results}},
    )


def relative(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """The difference and the ends of its interval over customers, in per cent of the Euclidean value."""
    over, unit = row["over_users"], row["euclidean"] / 100
    return over["difference"] / unit, over["low"] / unit, over["high"] / unit


def _dimensions(results: Sequence[Result]) -> list[int]:
    return [row["dimension"] for row in results[0]["rows"]]


def _main_table(results: Sequence[Result]) -> Table:
    columns = (
        Column("data set, metric", "key"),
        Column("d", "key"),
        *(Column(geometry) for geometry in GEOMETRIES),
        Column("difference", format="+.4f"),
        Column("in per cent", format="+.1f"),
        Column("p over customers", format=".2g"),
        Column("p over seeds", format=".2g"),
        Column("seconds"),
    )
    rows = tuple(
        (
            f"{one['title']}, {one['metric'].upper()}",
            row["dimension"],
            *(_spread(row[f"{geometry}_runs"]) for geometry in GEOMETRIES),
            row["over_users"]["difference"],
            relative(row)[0],
            row["over_users"]["p_value"],
            None if row["over_seeds"] is None else row["over_seeds"]["p_value"],
            " / ".join(f"{row[f'{geometry}_seconds']:.1f}" for geometry in GEOMETRIES),
        )
        for one in results
        for row in one["rows"]
    )
    return Table(
        "Full-ranking NDCG of the test in d dimensions, and seconds to train the one / the other", columns, rows
    )


def _recall_table(results: Sequence[Result]) -> Table:
    columns = (
        Column("data set, metric", "key"),
        Column("d", "key"),
        *(Column(geometry, format=".4f") for geometry in GEOMETRIES),
    )
    rows = []
    for one in results:
        metric = one["metric"].replace("ndcg", "recall")
        for row in one["rows"]:
            values = (row[f"{geometry}_metrics"][metric] for geometry in GEOMETRIES)
            rows.append((f"{one['title']}, {metric.capitalize()}", row["dimension"], *values))
    return Table("Recall of the same lists", columns, tuple(rows))


def _settings_table(results: Sequence[Result]) -> Table:
    columns = (
        Column("data set", "key"),
        Column("geometry", "key"),
        Column("NDCG on validation", format=".4f"),
        Column("trials"),
        Column("seconds", format=",.0f"),
        Column("settings", "key"),  # a text, which may be broken over lines as numbers may not
    )
    rows = tuple(
        (
            one["title"],
            geometry,
            tuned["value"],
            tuned["trials"],
            tuned["seconds"],
            " ".join(f"{name}={_short(value)}" for name, value in tuned["settings"].items()),
        )
        for one in results
        for geometry, tuned in one["tuned"].items()
    )
    return Table("Settings that were chosen on validation", columns, rows)


def _verdicts(results: Sequence[Result]) -> tuple[Verdict, ...]:
    """Over everything, and for each dimension."""
    rows = [row for one in results for row in one["rows"]]
    apart = [
        (f"at {dimension} dimensions", [row for row in rows if row["dimension"] == dimension])
        for dimension in _dimensions(results)
    ]
    return tuple(_verdict(where, some) for where, some in [("at all dimensions", rows), *apart])


def _verdict(where: str, rows: Sequence[Mapping[str, Any]]) -> Verdict:
    compared = [row["over_users"] for row in rows]
    count, ahead = len(compared), sum(one["difference"] > 0 for one in compared)

    def significant(sign: int, level: float) -> int:
        return sum(sign * one["difference"] > 0 and one["p_value"] < level for one in compared)

    better, worse = significant(1, LEVEL), significant(-1, LEVEL)
    answer: Answer = "holds" if better == count else "partly" if better else "fails"
    mean = float(np.mean([relative(row)[0] for row in rows]))
    return Verdict(
        f"the hyperboloid ranks better than its Euclidean twin, {where}",
        "",
        f"ahead in {ahead} of {count}, significantly (5 %, over customers) in {better}; significantly behind in "
        f"{worse}; by {mean:+.1f} % in the mean",
        answer,
        f"at p < {LEVEL / count:.2g}, as is due to {count} comparisons, ahead in {significant(1, LEVEL / count)} and "
        f"behind in {significant(-1, LEVEL / count)}"
        if count > 1
        else "",
    )


def _spread(runs: Sequence[float]) -> str:
    return f"{np.mean(runs):.4f}" + (f" ± {np.std(runs, ddof=1):.4f}" if len(runs) > 1 else "")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
