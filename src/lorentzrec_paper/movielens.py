"""The paper's figure of MovieLens: does the asymmetric recommender learn as much as the symmetric one, and sooner?

The asymmetric model computes a customer's point from the films of the history, the symmetric one learns a point for
each customer. The paper's rate can be read in two ways (docs/lab/paper.md): 0.1 as the step of a mean over the batch of
1024, or of a sum. Both are run, and also the same loss with an adaptive optimiser.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import ProtocolName, Recommender, evaluate
from lorentzrec.evaluation.report import Metric
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.run import TrainingRun
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import Part
from lorentzrec_paper.data_sets import FoundData
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table, Verdict
from lorentzrec_paper.figures import Curve, Panel, plot_curves

CurveName = Literal["hr", "ndcg", "seconds", "processor_seconds"]
MODELS = ("asymmetric", "symmetric")
PROTOCOLS: tuple[ProtocolName, ...] = ("sampled", "full")
CLOCKS: tuple[CurveName, ...] = ("seconds", "processor_seconds")
METRICS: dict[CurveName, str] = {"hr": "HR@10", "ndcg": "NDCG@10"}
BATCH = 1024
MINIMUM_RATING = 4.0
EVALUATED = 10_000
"""Customers who are evaluated after each epoch, at most."""
LARGE = 5_000_000
"""Number of events above which one seed has to be enough."""

WMRB = TrainingConfig(
    loss="wmrb",
    score="inner",
    optimiser="rsgd",
    dimension=50,
    learning_rate_decay=0.0,
    negative_count=100,
    scale=1.0,
    clip_norm=1.0,
    initialisation="cube",
    initial_width=0.001,
    targets="shared",
    recency=1.0,
)
"""What the paper's recommenders of films and of its shop have in common; docs/lab/paper.md explains how it was read."""
PAPERS = WMRB.replace(epochs=20, learning_rate=0.1 / BATCH, regularisation=0.01)
READINGS = {
    "paper, rate 0.1 of a mean": PAPERS,
    "paper, rate 0.1 of a sum": PAPERS.replace(learning_rate=0.1),
    "adaptive": TrainingConfig(loss="wmrb", dimension=50, epochs=20, memory="none"),
}
MAIN = next(iter(READINGS))


@dataclass(frozen=True)
class Quality:
    """HR@10 and NDCG@10 of the test with intervals over customers, among 100 negatives and among all items."""

    sampled_hr: Metric
    sampled_ndcg: Metric
    full_hr: Metric
    full_ndcg: Metric
    evaluated: int
    """Customers."""
    held_out: int

    @classmethod
    def of(cls, model: Recommender, test: Interactions, users: int) -> Quality:
        sampled, full = (evaluate(model, test, name, users=users) for name in PROTOCOLS)
        hr, ndcg, counts = "hr@10", "ndcg@10", full.counts
        metrics = (sampled.metrics[hr], sampled.metrics[ndcg], full.metrics[hr], full.metrics[ndcg])
        return cls(*metrics, counts["users"], counts["events"])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.sampled_hr, self.sampled_ndcg, self.full_hr, self.full_ndcg

    @property
    def values(self) -> list[float]:
        return [metric.value for metric in self.metrics]


@dataclass(frozen=True)
class Trained:
    """One model: validation metrics and time after each epoch, and the test after the last."""

    hr: list[float]
    ndcg: list[float]
    seconds: list[float]
    """Of training alone, from the start."""
    processor_seconds: list[float]
    test: Quality
    parameters: int


@dataclass(frozen=True)
class Pair:
    """Both models, trained with the same seed."""

    data: str
    asymmetric: Trained
    symmetric: Trained


@dataclass(frozen=True)
class BestSellers:
    """The baseline, evaluated in the same way."""

    validation_hr: float
    test: Quality


Runs = Mapping[str, Sequence[Trained]]
"""Model -> one run per seed."""
Found = Mapping[str, Runs]
"""By reading."""


class WatchedRun:
    """A training run that is evaluated on validation after each epoch."""

    def __init__(self, train_part: Interactions, config: TrainingConfig) -> None:
        self.run = TrainingRun(train_part, config)
        self.curves: dict[CurveName, list[float]] = {name: [] for name in (*METRICS, *CLOCKS)}

    def epoch(self, validation: Interactions) -> None:
        started = time.process_time()
        with TrainingProgress(False, self.run.config.epochs, self.run.positives, done=0) as silent:
            seconds = self.run.epoch(silent, threading.Event()).seconds
        for clock, spent in zip(CLOCKS, (seconds, time.process_time() - started), strict=True):
            self.curves[clock].append(spent + sum(self.curves[clock][-1:]))
        report = evaluate(self.run.build_model(), validation, "sampled", users=EVALUATED, intervals=False)
        for name in METRICS:
            self.curves[name].append(report[f"{name}@10"])

    def result(self, test: Interactions) -> Trained:
        items, histories = self.run.item_table, self.run.history_table
        points = len(items.points) + (0 if histories is items else len(histories.points))
        return Trained(
            **self.curves,
            test=Quality.of(self.run.build_model(), test, EVALUATED),
            parameters=points * self.run.config.dimension,
        )


def learn(found: FoundData, configs: Mapping[str, TrainingConfig]) -> Pair:
    """Train the models in turns, one epoch each, so that other load on the machine slows both equally."""
    data = found.interactions(minimum_rating=MINIMUM_RATING)
    train_part, validation, test = data.split("leave_last_two")
    watched = [WatchedRun(train_part, configs[model]) for model in MODELS]
    while not all(one.run.finished for one in watched):
        for one in watched:
            one.epoch(validation)
    return Pair(repr(data), *(one.result(test) for one in watched))


def measure_best_sellers(found: FoundData) -> BestSellers:
    train_part, validation, test = found.interactions(minimum_rating=MINIMUM_RATING).split("leave_last_two")
    popularity = Popularity(train_part)
    report = evaluate(popularity, validation, "sampled", users=EVALUATED, intervals=False)
    return BestSellers(report["hr@10"], Quality.of(popularity, test, EVALUATED))


def run(context: Context) -> Outcome:
    names = ("movielens-20m", "movielens-1m", "movielens-100k")[1 if context.quick else 0 :]
    found = context.data.find(next((name for name in names if name in context.data), "movielens-1m"))
    large = (found.about.events or 0) > LARGE
    seeds = range(1 if context.quick or large else 3)
    readings = {MAIN: PAPERS.replace(epochs=8)} if context.quick else READINGS
    key = {"data": found.digest, "minimum_rating": MINIMUM_RATING, "evaluated": EVALUATED, "intervals": True}
    jobs, parts = [(reading, seed) for reading in readings for seed in seeds], []
    for reading, seed in jobs:
        configs = {model: readings[reading].replace(model=model, seed=seed) for model in MODELS}
        described = {model: config.to_dict() for model, config in configs.items()}
        parts.append(Part(f"{reading}, seed {seed}", key | {"configs": described}, partial(learn, found, configs)))
    pairs = context.run(Pair, parts)
    (popular,) = context.run(BestSellers, [Part("best sellers", key, partial(measure_best_sellers, found))])
    grouped: dict[str, dict[str, list[Trained]]] = {reading: {model: [] for model in MODELS} for reading in readings}
    for (reading, _), pair in zip(jobs, pairs, strict=True):
        grouped[reading]["asymmetric"].append(pair.asymmetric)
        grouped[reading]["symmetric"].append(pair.symmetric)
    absent = "left out of a quick run" if "movielens-20m" in context.data else "not in the data folder"

    def draw(path: Path) -> None:
        plot_curves(_panels(grouped, popular.validation_hr), path, columns=4)

    return Outcome(
        tables=(_table(grouped, popular), _time_table(grouped)),
        verdicts=_verdicts(grouped, popular.validation_hr, found.title),
        figures={
            "curves": Figure(
                f"{found.title}: validation HR@10 and NDCG@10 among 100 negatives of the asymmetric (orange) and "
                "symmetric (blue) hyperboloid recommender, by epochs and by seconds of training, without evaluation. "
                "Mean over seeds; bands are their standard deviation. One row per reading of the settings; dotted: the "
                "best sellers.",
                draw,
            )
        },
        notes=(
            f"{found.title}, ratings of 4 and more: {pairs[0].data}",
            *([] if found.name == "movielens-20m" else [f"the paper used MovieLens 20M, which is {absent}"]),
            f"a customer's last event is the test, the one before it validation; at most {EVALUATED:,} customers are "
            "evaluated",
            "the two models are trained in turns, one epoch each; seconds are those of training without evaluation",
            "the text's rate of 0.01, as that of a mean, moves points a tenth as far: more epochs would be needed",
        ),
        settings={"readings": {reading: config.to_dict() for reading, config in readings.items()}, "seeds": len(seeds)},
    )


def mean_curve(runs: Sequence[Trained], name: CurveName) -> NDArray[np.float64]:
    curve: NDArray[np.float64] = np.mean([getattr(run, name) for run in runs], axis=0)
    return curve


def seconds_to(runs: Sequence[Trained], metric: CurveName, level: float, clock: CurveName) -> float | None:
    """When the mean curve first reaches the level, interpolated linearly between epochs."""
    values, times = mean_curve(runs, metric), mean_curve(runs, clock)
    reached = np.flatnonzero(values >= level)
    if len(reached) == 0:
        return None
    index = int(reached[0])
    if index == 0:
        return float(times[0])
    share = (level - values[index - 1]) / (values[index] - values[index - 1])
    return float(times[index - 1] + share * (times[index] - times[index - 1]))


def common_level(by_model: Runs, metric: CurveName) -> float:
    """The lower of the two models' best values: what both reach."""
    return float(min(mean_curve(runs, metric).max() for runs in by_model.values()))


def _table(grouped: Found, popular: BestSellers) -> Table:
    columns = (
        *Column.keys("settings", "model"),
        *Column.ours({"parameters": ",", "validation HR@10, best": ".3f", "at epoch": ""}),
        *Column.ours({f"test {name} of {among}": ".3f" for among in ("101", "all") for name in METRICS.values()}),
        *Column.ours({"seconds per epoch": ".2f", "processor seconds per epoch": ".2f"}),
    )
    rows = []
    for reading, by_model in grouped.items():
        for model, runs in by_model.items():
            curve = mean_curve(runs, "hr")
            best = int(curve.argmax())
            tests = np.mean([run.test.values for run in runs], axis=0).tolist()
            clocks = [float(mean_curve(runs, clock)[-1]) / len(curve) for clock in CLOCKS]
            rows.append((reading, model, runs[0].parameters, float(curve[best]), best + 1, *tests, *clocks))
    rows.append(("best sellers", "", None, popular.validation_hr, None, *popular.test.values, None, None))
    title = "Symmetric and asymmetric hyperboloid recommenders, the test after the last epoch"
    return Table(title, columns, tuple(rows))


def _time_table(grouped: Found) -> Table:
    columns = (
        *Column.keys("settings", "to validation"),
        *Column.ours({f"{clock.replace('_', ' ')}, {model}": ".1f" for clock in CLOCKS for model in MODELS}),
    )
    rows = []
    for reading, by_model in grouped.items():
        for metric, name in METRICS.items():
            level = common_level(by_model, metric)
            times = [seconds_to(by_model[model], metric, level, clock) for clock in CLOCKS for model in MODELS]
            rows.append((reading, f"{name} of {level:.3f}", *times))
    return Table("Time to equal quality: the best that both models reach", columns, tuple(rows))


def _verdicts(grouped: Found, popular: float, title: str) -> tuple[Verdict, ...]:
    by_model = grouped[MAIN]
    best = {
        reading: [float(mean_curve(one[model], "hr").max()) for model in MODELS] for reading, one in grouped.items()
    }
    asymmetric, symmetric = best.pop(MAIN)
    learned = max(asymmetric, symmetric) > popular
    remarks = [] if learned else [f"neither beats the best sellers ({popular:.3f})"]
    remarks += [f"{reading}: {one:.3f} and {other:.3f}" for reading, (one, other) in best.items()]
    level = common_level(by_model, "hr")
    seconds, processor = (
        [seconds_to(by_model[model], "hr", level, clock) or 0.0 for model in MODELS] for clock in CLOCKS
    )
    ratio = processor[0] / processor[1]
    fewer, more = (by_model[model][0].parameters for model in MODELS)
    full = [float(np.mean([run.test.full_ndcg.value for run in by_model[model]])) for model in MODELS]
    return (
        Verdict(
            "the asymmetric system is roughly equal to the symmetric one",
            "section 6.3, figure of MovieLens",
            f"best validation HR@10 {asymmetric:.3f} and {symmetric:.3f} on {title}; full-ranking NDCG@10 of the test "
            f"{full[0]:.4f} and {full[1]:.4f}",
            "fails" if asymmetric < 0.95 * symmetric else "holds" if learned else "partly",
            "; ".join(remarks),
        ),
        Verdict(
            "it learns in half the time",
            "section 6.3",
            f"to HR@10 {level:.3f}: {seconds[0]:.1f} s and {seconds[1]:.1f} s; of processor time {ratio:.0%}",
            "holds" if ratio <= 0.6 else "partly" if ratio < 1 else "fails",
            "here because it needs fewer epochs; an epoch costs about the same",
        ),
        Verdict(
            "with five times fewer parameters",
            "section 6.3",
            f"{more / fewer:.1f} times fewer: {fewer:,} instead of {more:,}",
            "holds" if more / fewer >= 5 else "partly",
            "the factor is (customers + films) / films, a property of the data alone; with the paper's counts of "
            "MovieLens 20M it is 7.6",
        ),
    )


def _panels(grouped: Found, popular: float) -> list[Panel]:
    panels = []
    for reading, by_model in grouped.items():
        for metric, name in METRICS.items():
            for clock in ("epochs", "seconds"):
                curves = []
                for model, runs in by_model.items():
                    values = mean_curve(runs, metric)
                    times = np.arange(1, len(values) + 1) if clock == "epochs" else mean_curve(runs, "seconds")
                    spread = np.std([getattr(run, metric) for run in runs], axis=0)
                    curves.append(Curve(model, times.tolist(), values.tolist(), spread.tolist()))
                title = reading if (metric, clock) == ("hr", "epochs") else ""
                panels.append(Panel(title, clock, name, curves, level=popular if metric == "hr" else None))
    return panels


EXPERIMENT = Experiment("movielens", "Symmetric and asymmetric recommenders on MovieLens", run)
