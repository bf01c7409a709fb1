"""The paper's figure of MovieLens: does the asymmetric recommender learn as much as the symmetric one, and sooner?

The asymmetric model makes a customer from the films of the history, the symmetric one learns a point for each. Of the
paper's settings the rate has two readings (`docs/paper.md`): 0.1 as the step of a mean over the batch of 1024, or of a
sum. Both are run, and beside them the same loss with an adaptive optimiser.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.run import TrainingRun
from lorentzrec.model.config import TrainingConfig
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.data_sets import FoundData, MissingData
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Table, Verdict
from lorentzrec_paper.paper_settings import WMRB

MODELS = ("asymmetric", "symmetric")
CLOCKS = ("seconds", "processor_seconds")
BATCH = 1024
MINIMUM_RATING = 4.0
ASKED = 10_000
"""At most so many customers are asked after each epoch."""
LARGE = 5_000_000
"""Events from which one seed has to be enough."""

PAPERS = WMRB.replace(epochs=20, learning_rate=0.1 / BATCH, regularisation=0.01)
READINGS = {
    "paper, rate 0.1 of a mean": PAPERS,
    "paper, rate 0.1 of a sum": PAPERS.replace(learning_rate=0.1),
    "adaptive": TrainingConfig(loss="wmrb", dimension=50, epochs=20),
}
MAIN = next(iter(READINGS))


class Watched:
    """A training run whose validation is asked after each epoch."""

    def __init__(self, train_part: Interactions, config: TrainingConfig) -> None:
        self.run = TrainingRun(train_part, config)
        self.curve: dict[str, list[float]] = {name: [] for name in ("hr@10", "ndcg@10", *CLOCKS)}

    def epoch(self, validation: Interactions) -> None:
        """Times are of training alone, and add up."""
        started = time.process_time()
        with TrainingProgress(False, self.run.config.epochs, self.run.runner.positives, done=0) as silent:
            spent = {"seconds": self.run.epoch(silent, threading.Event()).seconds}
        spent["processor_seconds"] = time.process_time() - started
        for clock, seconds in spent.items():
            self.curve[clock].append(seconds + (self.curve[clock][-1] if self.curve[clock] else 0.0))
        report = evaluate(self.run.result(), validation, "sampled", users=ASKED, intervals=False)
        for name in ("hr@10", "ndcg@10"):
            self.curve[name].append(report[name])

    def result(self, test: Interactions) -> dict[str, Any]:
        model = self.run.result()
        reports = {name: evaluate(model, test, name, users=ASKED, intervals=False) for name in ("sampled", "full")}
        items, histories = self.run.items, self.run.histories
        points = len(items.points) + (0 if histories is items else len(histories.points))
        return {
            "curve": self.curve,
            **{name: {metric: report[metric] for metric in ("hr@10", "ndcg@10")} for name, report in reports.items()},
            "parameters": points * self.run.config.dimension,
            "clipped": sum(record.clipped_gradients for record in self.run.record),
        }


def learn(found: FoundData, configs: Mapping[str, TrainingConfig]) -> dict[str, Any]:
    """Train the models by turns, an epoch each, so that whatever else the machine does slows both alike."""
    data = found.interactions(minimum_rating=MINIMUM_RATING)
    train_part, validation, test = data.split("leave_last_two")
    watched = {model: Watched(train_part, config) for model, config in configs.items()}
    while not all(one.run.finished for one in watched.values()):
        for one in watched.values():
            one.epoch(validation)
    return {"data": repr(data), **{model: one.result(test) for model, one in watched.items()}}


def best_sellers(found: FoundData) -> dict[str, Any]:
    """What there is to beat, asked the same."""
    train_part, validation, test = found.interactions(minimum_rating=MINIMUM_RATING).split("leave_last_two")
    popularity = Popularity(train_part)
    reports = {name: evaluate(popularity, test, name, users=ASKED, intervals=False) for name in ("sampled", "full")}
    return {
        "validation": evaluate(popularity, validation, "sampled", users=ASKED, intervals=False)["hr@10"],
        **{name: {metric: report[metric] for metric in ("hr@10", "ndcg@10")} for name, report in reports.items()},
    }


def run(context: Context) -> Outcome:
    names = ("movielens-20m", "movielens-1m", "movielens-100k")[1 if context.quick else 0 :]
    name = next((name for name in names if name in context.data), None)
    if name is None:
        context.data.find(names[-2])  # raises, with the file that is wanted
        raise MissingData(names[-2])
    found = context.data.find(name)
    large = (found.about.events or 0) > LARGE
    seeds = range(1 if context.quick or large else 3)
    readings = {MAIN: PAPERS.replace(epochs=8)} if context.quick else READINGS
    jobs = [(reading, seed) for reading in readings for seed in seeds]
    parts = []
    for reading, seed in jobs:
        configs = {model: readings[reading].replace(model=model, seed=seed) for model in MODELS}
        described = {model: config.to_dict() for model, config in configs.items()}
        key = {"data": found.digest, "configs": described, "minimum_rating": MINIMUM_RATING, "asked": ASKED}
        parts.append(Part(f"{reading}, seed {seed}", key, partial(learn, found, configs)))
    asked = {"data": found.digest, "minimum_rating": MINIMUM_RATING, "asked": ASKED}
    *results, popular = context.run([*parts, Part("best sellers", asked, partial(best_sellers, found))])
    grouped: dict[str, dict[str, list[Any]]] = {reading: {model: [] for model in MODELS} for reading in readings}
    for (reading, _), result in zip(jobs, results, strict=True):
        for model in MODELS:
            grouped[reading][model].append(result[model])

    def draw(path: Path) -> None:
        from lorentzrec_paper.figures.curves import plot_curves

        plot_curves(_panels(grouped, popular["validation"]), path, columns=4)

    return Outcome(
        tables=(_table(grouped, popular), _time_table(grouped)),
        verdicts=_verdicts(grouped, popular["validation"], found.title),
        figures={"curves": draw},
        captions={
            "curves": f"{found.title}: validation HR@10 and NDCG@10 among 100 negatives of the asymmetric (orange) and "
            "symmetric (blue) hyperboloid recommender, against epochs and against seconds of training, without "
            "evaluation. Mean over seeds; bands are their standard deviation. A row for each reading of the settings; "
            "dotted: the best sellers."
        },
        notes=(
            f"{found.title}, ratings of 4 and more: {results[0]['data']}",
            *([] if name == "movielens-20m" else ["the paper used MovieLens 20M, which is not in the data folder"]),
            f"a customer's last event is the test, the one before it validation, asked of {ASKED:,} customers at most",
            "the two models are trained by turns, an epoch each; seconds are those of training without evaluation",
            "the text's rate of 0.01, as that of a mean, moves points a tenth as far: more epochs would be needed",
        ),
        settings={"readings": {reading: config.to_dict() for reading, config in readings.items()}, "seeds": len(seeds)},
    )


def mean_curve(results: Sequence[Mapping[str, Any]], name: str) -> Any:
    return np.mean([result["curve"][name] for result in results], axis=0)


def seconds_to(results: Sequence[Mapping[str, Any]], metric: str, level: float, clock: str) -> float | None:
    """When the mean curve first reaches the level, between epochs on a straight line; the start is at 0."""
    values, times = mean_curve(results, metric), mean_curve(results, clock)
    reached = np.flatnonzero(values >= level)
    if len(reached) == 0:
        return None
    place = int(reached[0])
    if place == 0:
        return float(times[0])
    share = (level - values[place - 1]) / (values[place] - values[place - 1])
    return float(times[place - 1] + share * (times[place] - times[place - 1]))


def common_level(by_model: Mapping[str, Sequence[Mapping[str, Any]]], metric: str) -> float:
    """The lower of the two models' best values: what both reach."""
    return float(min(mean_curve(results, metric).max() for results in by_model.values()))


def _tests(result: Mapping[str, Any]) -> list[float]:
    return [result[protocol][metric] for protocol in ("sampled", "full") for metric in ("hr@10", "ndcg@10")]


def _table(grouped: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], popular: Mapping[str, Any]) -> Table:
    columns = (
        Column("settings", "key"),
        Column("model", "key"),
        Column("parameters", "ours", ","),
        Column("validation HR@10, best", "ours", ".3f"),
        Column("at epoch", "ours"),
        *(
            Column(f"test {name} of {among}", "ours", ".3f")
            for among in ("101", "all")
            for name in ("HR@10", "NDCG@10")
        ),
        Column("seconds an epoch", "ours", ".2f"),
        Column("processor seconds an epoch", "ours", ".2f"),
    )
    rows = []
    for reading, by_model in grouped.items():
        for model, results in by_model.items():
            curve = mean_curve(results, "hr@10")
            tests = np.mean([_tests(result) for result in results], axis=0).tolist()
            clocks = [mean_curve(results, clock)[-1] / len(curve) for clock in CLOCKS]
            best = int(curve.argmax())
            rows.append(
                (reading, model, results[0]["parameters"], float(curve[best]), best + 1, *tests, *map(float, clocks))
            )
    rows.append(("best sellers", "", None, popular["validation"], None, *_tests(popular), None, None))
    return Table(
        "Symmetric and asymmetric hyperboloid recommenders, the test after the last epoch", columns, tuple(rows)
    )


def _time_table(grouped: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Table:
    columns = (
        Column("settings", "key"),
        Column("to validation", "key"),
        *(Column(f"{clock}, {model}", "ours", ".1f") for clock in ("seconds", "processor seconds") for model in MODELS),
    )
    rows = []
    for reading, by_model in grouped.items():
        for metric in ("hr@10", "ndcg@10"):
            level = common_level(by_model, metric)
            times = [seconds_to(by_model[model], metric, level, clock) for clock in CLOCKS for model in MODELS]
            rows.append((reading, f"{metric.upper()} of {level:.3f}", *times))
    return Table("Time to equal quality: the best that both models reach", columns, tuple(rows))


def _verdicts(
    grouped: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], popular: float, title: str
) -> tuple[Verdict, ...]:
    by_model = grouped[MAIN]
    elsewhere = [
        f"{reading}: " + " against ".join(f"{mean_curve(one[model], 'hr@10').max():.3f}" for model in MODELS)
        for reading, one in grouped.items()
        if reading != MAIN
    ]
    asymmetric, symmetric = (by_model[model] for model in MODELS)
    best = {model: float(mean_curve(by_model[model], "hr@10").max()) for model in MODELS}
    learned = max(best.values()) > popular
    level = common_level(by_model, "hr@10")
    times = {
        (model, clock): seconds_to(by_model[model], "hr@10", level, clock) or 0.0
        for model in MODELS
        for clock in CLOCKS
    }
    ratio = times["asymmetric", "processor_seconds"] / times["symmetric", "processor_seconds"]
    parameters = symmetric[0]["parameters"] / asymmetric[0]["parameters"]
    full = [float(np.mean([result["full"]["ndcg@10"] for result in results])) for results in (asymmetric, symmetric)]
    return (
        Verdict(
            "the asymmetric system is roughly equal to the symmetric one",
            "section 6.3, figure of MovieLens",
            f"best validation HR@10 {best['asymmetric']:.3f} against {best['symmetric']:.3f} on {title}; full-ranking "
            f"NDCG@10 of the test {full[0]:.4f} against {full[1]:.4f}",
            "fails" if best["asymmetric"] < 0.95 * best["symmetric"] else "holds" if learned else "partly",
            "; ".join(([] if learned else [f"neither beats the best sellers ({popular:.3f})"]) + elsewhere),
        ),
        Verdict(
            "it learns in half the time",
            "section 6.3",
            f"to HR@10 {level:.3f}: {times['asymmetric', 'seconds']:.1f} s against "
            f"{times['symmetric', 'seconds']:.1f} s; of processor time {ratio:.0%}",
            "holds" if ratio <= 0.6 else "partly" if ratio < 1 else "fails",
            "here it is because it needs fewer epochs; an epoch costs about the same",
        ),
        Verdict(
            "with five times less parameters",
            "section 6.3",
            f"{parameters:.1f} times less: {asymmetric[0]['parameters']:,} against {symmetric[0]['parameters']:,}",
            "holds" if parameters >= 5 else "partly",
            "the factor is (customers + films) / films, a property of the data alone; with the paper's counts of "
            "MovieLens 20M it is 7.6",
        ),
    )


def _panels(grouped: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], popular: float) -> list[Any]:
    from lorentzrec_paper.figures.curves import Curve, Panel

    panels = []
    for reading, by_model in grouped.items():
        for metric in ("hr@10", "ndcg@10"):
            for clock in ("epochs", "seconds"):
                curves = []
                for model, results in by_model.items():
                    values = mean_curve(results, metric)
                    times = np.arange(1, len(values) + 1) if clock == "epochs" else mean_curve(results, "seconds")
                    spread = np.std([result["curve"][metric] for result in results], axis=0)
                    curves.append(Curve(model, times.tolist(), values.tolist(), spread.tolist()))
                title = reading if (metric, clock) == ("hr@10", "epochs") else ""
                panels.append(Panel(title, clock, metric.upper(), curves, level=popular if metric == "hr@10" else None))
    return panels


EXPERIMENT = Experiment("movielens", "Symmetric against asymmetric recommenders on MovieLens", run)
