"""The paper's Table 2: hyperboloid and Euclidean recommenders on Amazon's reviews, the same grid for both.

Where the paper leaves a choice, `docs/paper.md` has the reasons. In short: a step is one triplet, so rates are those of
a sum over the batch; the regularisation is read as added once per batch of 128, and a second reading, once per triplet,
is measured at the paper's best settings. The paper chose its settings on the test; so do we for its table, and beside
it stand settings chosen on a validation item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import TrainingError
from lorentzrec.evaluation.metrics import hit_rate, ndcg
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.threads import SINGLE_THREADED_BLAS, available_cores
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.amazon_report import outcome_of
from lorentzrec_paper.data_sets import CATEGORIES, FoundData, complete_name, five_core_name
from lorentzrec_paper.experiment import Context, Experiment, Outcome
from lorentzrec_paper.sampled_questions import Questions

GEOMETRIES = ("hyperboloid", "euclidean")
RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
REGULARISATIONS = (1.0, 0.8, 0.5, 0.1)
BEYOND = (0.5, 1.0)
"""A rate and a regularisation outside the grid: on the 5-core files, whose customers have few events, the highest rate
of the grid is the best one."""
BATCH = 128
RUNS, VALIDATION_RUNS = 9, 3
MINIMUM_EVENTS = 21
"""Of customers in the complete files: "users with more than 20 interactions"."""
MINIMUM_RATING = 2.0
"""Whole stars: a "rating score > 1"."""
SHARED = TrainingConfig(
    model="symmetric",
    loss="bpr",
    score="inner",
    optimiser="rsgd",
    dimension=50,
    epochs=10,
    learning_rate_decay=0.0,
    negative_count=1,
    scale=1.0,
    initialisation="cube",
    initial_width=0.01,  # the paper's for the same model in its simulations; it gives none for Amazon
    threads=1,
)


@dataclass(frozen=True)
class Category:
    """One of the paper's categories, read when first needed."""

    name: str
    found: FoundData
    minimum_events: int
    """Of a customer."""

    @property
    def complete(self) -> bool:
        """Whether it is the complete ratings file, as the paper had it."""
        return self.found.name == complete_name(self.name)

    @property
    def title(self) -> str:
        """The paper's own choice of customers needs no words on the complete files, and does on others."""
        chosen = self.minimum_events > 1 and not self.complete
        return self.found.title + (f", over {self.minimum_events - 1} events" if chosen else "")

    @cached_property
    def data(self) -> Interactions:
        return self.found.interactions(minimum_rating=MINIMUM_RATING, minimum_user_events=self.minimum_events)

    @cached_property
    def testing(self) -> Round:
        train_part, test = self.data.split("leave_last_out", drop_unseen_items=True)
        return Round(train_part, test)

    @cached_property
    def validating(self) -> Round:
        """The event before the last, with the last one left out of everything."""
        train_part, validation, _ = self.data.split("leave_last_two", drop_unseen_items=True)
        return Round(train_part, validation)


@dataclass(frozen=True)
class Round:
    """What to learn from, and what to ask."""

    train: Interactions
    test: Interactions

    @cached_property
    def questions(self) -> Questions:
        return Questions.draw(self.test, self.train)

    def popularity(self) -> float:
        """HR@10 of the best sellers: every customer's point is 1, and every item's its count."""
        counts = self.train.item_counts.astype(np.float32)[:, None]
        ones = np.ones((len(self.train.users), 1), np.float32)
        return float(hit_rate(self.questions.ranks(ones, counts, hyperbolic=False), 10).mean())


def config_of(geometry: str, rate: float, regularisation: float) -> TrainingConfig:
    """`regularisation`: per triplet."""
    return SHARED.replace(geometry=geometry, learning_rate=rate, regularisation=regularisation)


def in_threads(work: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
    """All jobs, one core each: a training with a single thread gives the same bits again."""
    with SINGLE_THREADED_BLAS, ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, jobs))


def _learned(round_: Round, config: TrainingConfig) -> Model | None:
    """None where a point became infinite: such a setting is out of the race, and counted."""
    try:
        return train(round_.train, config, progress=False)
    except TrainingError:
        return None


def hit_rates(round_of: Callable[[], Round], configs: dict[str, TrainingConfig], runs: int) -> dict[str, Any]:
    """HR@10 of `runs` seeds for each config; None for a training that failed."""
    asked = round_of()
    questions = asked.questions

    def one(job: tuple[TrainingConfig, int]) -> float | None:
        config, seed = job
        model = _learned(asked, config.replace(seed=seed))
        if model is None or model.user_points is None:
            return None
        ranks = questions.ranks(model.user_points, model.item_points, hyperbolic=config.geometry == "hyperboloid")
        return float(hit_rate(ranks, 10).mean())

    found = in_threads(one, product(configs.values(), range(runs)))
    return {name: found[place * runs : (place + 1) * runs] for place, name in enumerate(configs)}


def in_full(category: Category, configs: dict[str, TrainingConfig], runs: int) -> dict[str, Any]:
    """Both protocols on the test for the settings chosen on validation; the data in numbers; the best sellers."""
    asked = category.testing
    found: dict[str, Any] = {
        "popularity": asked.popularity(),
        "users": len(asked.train.users),
        "items": len(asked.train.items),
        "events": len(asked.train) + len(asked.test),
        "test_events": len(asked.test),
        "notes": list(asked.test.notes),
    }
    for name, config in configs.items():
        models = in_threads(partial(_learned, asked), (config.replace(seed=seed) for seed in range(runs)))
        rows = []
        for model in models:
            if model is None or model.user_points is None:
                continue
            hyperbolic = config.geometry == "hyperboloid"
            ranks = asked.questions.ranks(model.user_points, model.item_points, hyperbolic=hyperbolic)
            full = evaluate(model, asked.test, "full", k=10, intervals=False)
            rows.append(
                {
                    "sampled hr@10": float(hit_rate(ranks, 10).mean()),
                    "sampled ndcg@10": float(ndcg(ranks, 10).mean()),
                    **{f"full {metric}": full[metric] for metric in ("hr@10", "ndcg@10", "popularity@10")},
                }
            )
        found[name] = {metric: [row[metric] for row in rows] for metric in rows[0]}
    return found


def best_of(grid: dict[str, dict[str, list[float | None]]], geometry: str) -> str:
    """The setting with the highest mean; one with a failed run is out."""
    sums = {setting: sum(run for run in by[geometry] if run is not None) for setting, by in grid.items()}
    return max((setting for setting, by in grid.items() if None not in by[geometry]), key=lambda name: sums[name])


def setting_name(rate: float, regularisation: float) -> str:
    return f"{rate:g}, {regularisation:g}"


def setting_of(name: str) -> tuple[float, float]:
    rate, regularisation = name.split(", ")
    return float(rate), float(regularisation)


def measure(category: Category, context: Context, grid: Sequence[tuple[float, float]], runs: int) -> dict[str, Any]:
    """Everything about one category: both grids, the other reading of the regularisation, the chosen settings."""

    def part(name: str, make: Callable[[], Any], **key: Any) -> Part:
        data = {"data": category.found.digest, "minimum_events": category.minimum_events}
        return Part(f"{category.title}, {name}", {**data, **key}, make)

    def twins(settings: dict[str, tuple[float, float]], batch: int = BATCH) -> dict[str, TrainingConfig]:
        return {geometry: config_of(geometry, rate, reg / batch) for geometry, (rate, reg) in settings.items()}

    def cell(name: str, round_of: Callable[[], Round], configs: dict[str, TrainingConfig], runs: int) -> Part:
        described = {geometry: config.to_dict() for geometry, config in configs.items()}
        return part(name, partial(hit_rates, round_of, configs, runs), configs=described, runs=runs)

    def cells(words: str, round_of: Callable[[], Round], runs: int) -> list[Part]:
        return [
            cell(f"{words} {setting_name(*point)}", round_of, twins(dict.fromkeys(GEOMETRIES, point)), runs)
            for point in grid
        ]

    validation_runs = min(runs, VALIDATION_RUNS)
    names = [setting_name(*point) for point in grid]
    found = context.run(
        [
            *cells("test,", lambda: category.testing, runs),
            *cells("validation,", lambda: category.validating, validation_runs),
            cell("appendix, per triplet", lambda: category.testing, twins(appendix(category.name), 1), runs),
            cell("beyond the grid", lambda: category.testing, twins(dict.fromkeys(GEOMETRIES, BEYOND)), runs),
        ]
    )
    on_test = dict(zip(names, found[: len(grid)], strict=True))
    on_validation = dict(zip(names, found[len(grid) : 2 * len(grid)], strict=True))
    chosen = {geometry: best_of(on_validation, geometry) for geometry in GEOMETRIES}
    configs = twins({geometry: setting_of(name) for geometry, name in chosen.items()})
    described = {geometry: config.to_dict() for geometry, config in configs.items()}
    make = partial(in_full, category, configs, runs)
    (in_numbers,) = context.run([part("chosen on validation", make, configs=described, runs=runs)])
    return {
        "category": category.name,
        "title": category.title,
        "few": category.minimum_events > 1,
        "complete": category.complete,
        "test": on_test,
        "best": {geometry: best_of(on_test, geometry) for geometry in GEOMETRIES},
        "chosen": chosen,
        "appendix": {geometry: setting_name(*point) for geometry, point in appendix(category.name).items()},
        "per_triplet": found[-2],
        "beyond": found[-1],
        **in_numbers,
    }


def appendix(category: str) -> dict[str, tuple[float, float]]:
    """The paper's best rate and regularisation for each geometry."""
    rate = 0.01 if category == "Sports_and_Outdoors" else 0.1
    regularisation = {
        "Automotive": 0.5,
        "Cell_Phones_and_Accessories": 0.5,
        "Tools_and_Home_Improvement": 0.8,
        "Toys_and_Games": 0.8,
    }.get(category, 1.0)
    return {"hyperboloid": (0.01, 1.0), "euclidean": (rate, regularisation)}


def run(context: Context) -> Outcome:
    # The complete file where it is there, else the 5-core, named as such: all of it, and the paper's kind of customers.
    names = {
        complete_name(category) if complete_name(category) in context.data else five_core_name(category): category
        for category in CATEGORIES
    }
    found = context.available(list(names))
    categories = [
        Category(names[one.name], one, minimum)
        for minimum in (1, MINIMUM_EVENTS)
        for one in found
        if minimum > 1 or one.name != complete_name(names[one.name])
    ]
    # For a quick look, those that hold the appendix's settings.
    rates, regularisations = (RATES[:2], REGULARISATIONS[:3]) if context.quick else (RATES, REGULARISATIONS)
    runs = 2 if context.quick else RUNS
    grid = tuple(product(rates, regularisations))
    results = [measure(category, context, grid, runs) for category in categories]
    settings = {
        "config": SHARED.to_dict(),
        "rates": rates,
        "regularisations": regularisations,
        "beyond": BEYOND,
        "batch": BATCH,
        "runs": runs,
        "validation_runs": min(runs, VALIDATION_RUNS),
        "minimum_rating": MINIMUM_RATING,
        "minimum_user_events": MINIMUM_EVENTS,
    }
    return outcome_of(results, settings)


EXPERIMENT = Experiment("amazon", "Table 2: hyperboloid and Euclidean recommenders on Amazon reviews", run)
