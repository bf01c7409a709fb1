"""Beyond the paper: the hyperboloid and its Euclidean twin, each tuned with the same number of trials.

The twins run through the same code and search the same hyper-parameters. Settings are chosen on a validation part of
training, at one dimension, and reused at the others; then each model is trained on everything before the test, with
several seeds, and the test is ranked in full.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lorentzrec import __version__
from lorentzrec.errors import TrainingError
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.comparison import GEOMETRIES, Comparer, TwinRow, geometry_table
from lorentzrec.studies.parts import Part
from lorentzrec.studies.search import Search, tune
from lorentzrec.studies.search_spaces import SPACES, Between
from lorentzrec.studies.task import TuningTask
from lorentzrec_paper.data_sets import FoundData, five_core_name
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table, Verdict, status_of

DIMENSIONS: tuple[int, ...] = (10, 50, 128)
SEEDS: tuple[int, ...] = (0, 1, 2)
SETTINGS: dict[str, Any] = {
    "memory": "none",
    "model": "asymmetric",
    "dimension": 50,
    "masses": "off",
    "negative_count": 256,
    "epochs": 20,
}
"""What all trials have in common: fewer negatives and epochs than the defaults, as there are hundreds of trials."""
THREADS: int | None = None
"""None: all cores. With one thread, results are the same to the last bit."""
LEVEL = 0.05
One = TypeVar("One")


@dataclass(frozen=True)
class DataSetTask:
    """A data set, and how it is split and evaluated."""

    name: str
    trials: int = 30
    """For each geometry."""
    metric: str = "ndcg@10"
    minimum_rating: float = 2.0
    """Whole stars: the paper's "rating score > 1"."""
    given_split: bool = False

    def split(self, found: FoundData) -> TuningTask:
        """The test is a customer's last event and validation the one before, or the test is that of the files and
        validation a random tenth of training."""
        if self.given_split:
            train, test = found.given_split()
            return TuningTask.from_parts({"train": train, "test": test})
        train, validation, test = found.interactions(minimum_rating=self.minimum_rating).split("leave_last_two")
        return TuningTask.from_parts({"train": train, "validation": validation, "test": test})


DATA_SETS = (
    DataSetTask(five_core_name("Tools_and_Home_Improvement")),
    DataSetTask(five_core_name("Toys_and_Games")),
    DataSetTask(five_core_name("Clothing_Shoes_and_Jewelry")),
    DataSetTask(five_core_name("Sports_and_Outdoors")),
    DataSetTask("movielens-1m", minimum_rating=4.0),
    DataSetTask("gowalla", trials=10, metric="ndcg@20", given_split=True),
)
"""The smallest first, so that there are results soon."""
QUICK = (DATA_SETS[0].name, "movielens-1m")
QUICK_TRIALS = 2


@dataclass(frozen=True)
class Tuned:
    """The best settings of one geometry on validation, and the trials that found them."""

    config: dict[str, Any]
    settings: dict[str, Any]
    """Those that were searched."""
    edges: tuple[str, ...]
    """Those of them whose value is the lowest or highest that was tried with this score: better ones may be beyond."""
    value: float
    trials: int
    pruned: int
    failed: int
    seconds: float

    @property
    def description(self) -> str:
        return " ".join(f"{name}={_short(value)}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Measured:
    """Everything about one data set."""

    title: str
    metric: str
    tuned: dict[str, Tuned]
    """By geometry."""
    rows: tuple[TwinRow, ...]
    learned: str
    test_events: int
    unseen: int
    """Test events whose item has no training event."""


def measure(
    task: DataSetTask,
    found: FoundData,
    search: Search,
    dimensions: Sequence[int],
    seeds: Sequence[int],
    context: Context,
) -> Measured:
    """Tune, then test in these dimensions."""

    def say(line: str) -> None:
        context.say(f"{found.title}: {line}")

    split = task.split(found)
    tuned = _tune(split, search, task.trials, found, context, say)
    configs = {geometry: TrainingConfig.from_mapping(one.config) for geometry, one in tuned.items()}
    comparer = Comparer(split, context.parts, task.metric, seeds, THREADS, say)
    before, test = split.before_test, split.require_test()
    return Measured(
        title=found.title,
        metric=task.metric,
        tuned=tuned,
        rows=tuple(geometry_table(comparer, configs, dimensions)),
        learned=repr(before),
        test_events=len(test),
        unseen=int((before.item_counts[test.item_rows] == 0).sum()),
    )


def _tune(
    split: TuningTask, search: Search, trials: int, found: FoundData, context: Context, say: Callable[[str], None]
) -> dict[str, Tuned]:
    """By geometry. Every trial is written when it ends, to a folder of this search alone.

    Neither the key nor what the search receives contains the test: another test changes nothing here.
    """
    learned, validation = split.train, split.validation
    key = {
        "data": [learned.digest, validation.digest],
        "search": asdict(search),
        # What a trial leaves to the package: if that changes, earlier trials are not comparable.
        "defaults": [search.base(one).resolve_for(learned).replace(threads=None).to_dict() for one in GEOMETRIES],
        "spaces": [SPACES["asymmetric", geometry] for geometry in GEOMETRIES],
        "trials": trials,
    }
    digest = hashlib.sha256(json.dumps([__version__, key], sort_keys=True).encode()).hexdigest()
    folder = context.parts.folder / "tuning" / f"{found.name}-{digest[:16]}"
    without_test = TuningTask(learned, validation, before_test=learned, test=None, histories=learned)
    make = partial(_search, without_test, search, trials, folder, say)
    part = Part(f"tune {found.title} in {search.settings['dimension']} dimensions", key, make)
    (tuned,) = context.run(dict[str, Tuned], [part])
    return tuned


def _search(
    split: TuningTask, search: Search, trials: int, folder: Path, say: Callable[[str], None]
) -> dict[str, Tuned]:
    best = {}
    for tuned in tune(split, search, folder, geometries=GEOMETRIES, trials=trials, threads=THREADS, say=say):
        if tuned.config is None or tuned.value is None:
            reason = tuned.trials[0].remark
            raise TrainingError(f"no trial of the {tuned.geometry} finished ({reason}): remove {folder} and run again")
        config, states = tuned.config.to_dict(), [trial.state for trial in tuned.trials]
        space = search.space(tuned.geometry, ordered=split.train.ordered)
        alike = [one.settings for one in tuned.trials if one.settings.get("score") in (None, config["score"])]
        best[tuned.geometry] = Tuned(
            config=config,
            settings={name: config[name] for name in space},
            edges=tuple(
                name
                for name, where in space.items()
                if isinstance(where, Between) and config[name] in _ends([one[name] for one in alike])
            ),
            value=tuned.value,
            trials=len(states),
            pruned=states.count("pruned"),
            failed=states.count("failed"),
            seconds=sum(trial.seconds for trial in tuned.trials),
        )
    return best


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def run(context: Context) -> Outcome:
    tasks, dimensions, seeds = list(DATA_SETS), DIMENSIONS, SEEDS
    if context.quick:
        tasks = [replace(one, trials=QUICK_TRIALS) for one in DATA_SETS if one.name in QUICK]
        dimensions, seeds = DIMENSIONS[:2], SEEDS[:1]
    settings = {"common": SETTINGS, "data_sets": [asdict(one) for one in tasks], "seeds": seeds}
    return measure_each(
        tasks,
        lambda task, found: measure(task, found, Search(task.metric, SETTINGS), dimensions, seeds, context),
        lambda results, wanted: outcome_of(results, wanted, settings),
        context,
    )


def measure_each(
    tasks: Sequence[DataSetTask],
    measure_one: Callable[[DataSetTask, FoundData], One],
    make_outcome: Callable[[Sequence[One], int], Outcome],
    context: Context,
) -> Outcome:
    """Measure the available data sets in turn; the results so far are written after each. `make_outcome` also receives
    the number of data sets there will be in the end."""
    found = {one.name: one for one in context.find_data([one.name for one in tasks])}
    results: list[One] = []
    outcome = Outcome((), ())
    for task in tasks:
        if task.name not in found:
            continue
        try:
            results.append(measure_one(task, found[task.name]))
        except TrainingError as error:
            # The settings of one data set may fail at another dimension; continue with the other data sets.
            context.failed[f"{found[task.name].title}: {error}"] = error.exit_code
            continue
        outcome = make_outcome(results, len(found))
        context.write(outcome)
    if not results:
        raise TrainingError("; ".join(context.failed))
    return outcome


def outcome_of(results: Sequence[Measured], wanted: int, settings: Mapping[str, Any]) -> Outcome:
    """`wanted`: the number of data sets there will be in the end."""

    def draw(path: Path) -> None:
        from lorentzrec_paper.figures import plot_differences

        by_dimension = {
            f"{row.dimension} dimensions": [one.rows[number].relative for one in results]
            for number, row in enumerate(results[0].rows)
        }
        titles = [one.title for one in results]
        plot_differences(titles, by_dimension, "hyperboloid, relative to its Euclidean twin (%)", path)

    notes = (
        "the twins run through the same code and search the same hyper-parameters, with the same number of trials; "
        "settings are chosen on a validation part of training, at 50 dimensions, and reused at the others; then the "
        "models learn from training and validation together, and the test is ranked in full, once for each seed",
        *notes_of(results),
    )
    return Outcome(
        tables=(main_table(results), _recall_table(results), settings_table(results)),
        verdicts=verdicts_of([one.rows for one in results]),
        figures={
            "differences": Figure(
                "NDCG of the hyperboloid minus that of its Euclidean twin, in per cent of the latter, mean over seeds; "
                "bars are 95 % intervals over customers. Above the line the hyperboloid is ahead.",
                draw,
            )
        },
        notes=(*so_far(len(results), wanted), *notes),
        settings={
            **settings,
            "chosen": {one.title: {name: asdict(tuned) for name, tuned in one.tuned.items()} for one in results},
        },
    )


def so_far(finished: int, wanted: int) -> list[str]:
    """A note about data sets that are still missing."""
    return [f"{finished} of {wanted} data sets so far: run the same command to continue"] if finished < wanted else []


def notes_of(results: Sequence[Measured]) -> list[str]:
    """What the numbers are, and the size of each data set."""
    notes = [
        "± is the standard deviation over seeds; p over customers is that of a randomisation test of each customer's "
        "mean over the seeds (do these models differ?), p over seeds that of Welch's t-test (do the methods?)"
    ]
    notes += [
        f"{one.title}: learned from {one.learned}; {one.test_events:,} test events, {one.unseen:,} of them of "
        "items without a training event"
        for one in results
    ]
    failed = sum(tuned.failed for one in results for tuned in one.tuned.values())
    if failed:
        notes.append(f"{failed} trials ended in infinite points: they count as trials and cannot be chosen")
    return list(dict.fromkeys(notes))


def main_table(results: Sequence[Measured]) -> Table:
    columns = (
        *Column.keys("data set, metric", "d"),
        *(Column(geometry) for geometry in GEOMETRIES),
        *Column.ours({"difference": "+.4f", "in per cent": "+.1f", "p over customers": ".2g", "p over seeds": ".2g"}),
        Column("seconds"),
    )
    rows = tuple(
        (
            f"{one.title}, {one.metric.upper()}",
            row.dimension,
            Column.format_spread(row.hyperboloid.values, 4),
            Column.format_spread(row.euclidean.values, 4),
            row.difference.over_users.difference,
            row.relative[0],
            row.difference.over_users.p_value,
            None if row.difference.over_seeds is None else row.difference.over_seeds.p_value,
            f"{row.hyperboloid.seconds:.1f} / {row.euclidean.seconds:.1f}",
        )
        for one in results
        for row in one.rows
    )
    return Table("Full-ranking NDCG of the test in d dimensions, and seconds to train each", columns, rows)


def _recall_table(results: Sequence[Measured]) -> Table:
    columns = (*Column.keys("data set, metric", "d"), *Column.ours(dict.fromkeys(GEOMETRIES, ".4f")))
    rows = []
    for one in results:
        metric = one.metric.replace("ndcg", "recall")
        for row in one.rows:
            values = (runs.all_metrics[metric] for runs in (row.hyperboloid, row.euclidean))
            rows.append((f"{one.title}, {metric.capitalize()}", row.dimension, *values))
    return Table("Recall of the same lists", columns, tuple(rows))


def settings_table(results: Sequence[Measured]) -> Table:
    columns = (
        *Column.keys("data set", "d", "geometry"),
        *Column.ours({"NDCG on validation": ".4f", "trials": "", "seconds": ",.0f"}),
        *Column.keys("settings", "at an edge of what was tried"),  # texts, which may be broken over lines
    )
    rows = tuple(
        (
            one.title,
            tuned.config["dimension"],
            geometry,
            tuned.value,
            tuned.trials,
            tuned.seconds,
            tuned.description,
            ", ".join(tuned.edges) or "none",
        )
        for one in results
        for geometry, tuned in one.tuned.items()
    )
    return Table("Settings that were chosen on validation", columns, rows)


def verdicts_of(by_data_set: Sequence[Sequence[TwinRow]]) -> tuple[Verdict, ...]:
    """Over everything, and for each dimension."""
    groups = {"at all dimensions": [row for rows in by_data_set for row in rows]}
    for row in by_data_set[0]:
        same = [other for other in groups["at all dimensions"] if other.dimension == row.dimension]
        groups[f"at {row.dimension} dimensions"] = same
    return tuple(_verdict(where, rows) for where, rows in groups.items())


def _verdict(where: str, rows: Sequence[TwinRow]) -> Verdict:
    compared = [row.difference.over_users for row in rows]
    count, ahead = len(compared), sum(one.difference > 0 for one in compared)

    def significant(sign: int, level: float) -> list[bool]:
        return [sign * one.difference > 0 and one.p_value < level for one in compared]

    better, worse = significant(1, LEVEL), significant(-1, LEVEL)
    mean = float(np.mean([row.relative[0] for row in rows]))
    return Verdict(
        f"the hyperboloid ranks better than its Euclidean twin, {where}",
        "",
        f"ahead in {ahead} of {count}, significantly (5 %, over customers) in {sum(better)}; significantly behind in "
        f"{sum(worse)}; by {mean:+.1f} % on average",
        status_of(better),
        f"at p < {LEVEL / count:.2g}, corrected for {count} comparisons, ahead in "
        f"{sum(significant(1, LEVEL / count))} and behind in {sum(significant(-1, LEVEL / count))}"
        if count > 1
        else "",
    )


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


EXPERIMENT = Experiment("twins", "Beyond the paper: the hyperboloid and its Euclidean twin, both tuned", run)
