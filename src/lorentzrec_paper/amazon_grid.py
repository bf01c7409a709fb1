"""Measurements of the Amazon experiment: a grid of settings, trained with several seeds, on the test and on validation.

`evaluate` scores every item and draws the same negatives again for each model, which does not matter for one model.
For a few thousand models of the same data, `SampledQueries` are drawn once and only the candidates are scored, which is
many times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError, TrainingError
from lorentzrec.evaluation.held_out import hold_out
from lorentzrec.evaluation.metrics import Ranks, hit_rate
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.sampled_ranking import draw_negatives
from lorentzrec.evaluation.significance import Comparison, compare_seeds
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.studies.parts import Part
from lorentzrec_paper.data_sets import FoundData, complete_name
from lorentzrec_paper.experiment import Context


class Setting(NamedTuple):
    """A point of the grid; the regularisation is that of a batch."""

    rate: float
    regularisation: float

    def __str__(self) -> str:
        return f"{self.rate:g}, {self.regularisation:g}"


GEOMETRIES = ("hyperboloid", "euclidean")
RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
REGULARISATIONS = (1.0, 0.8, 0.5, 0.1)
BEYOND = Setting(0.5, 1.0)
"""Outside the grid: on the 5-core files, whose customers have few events, the highest rate of the grid is the best."""
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
QUERIES_PER_BLOCK = 256
"""Queries whose candidates' points are gathered at once: a few MB, which stay in the cache."""


HitRates = dict[str, list[float | None]]
"""By geometry: HR@10 of each run; None for a training that failed."""
Grid = Mapping[Setting, HitRates]


@dataclass(frozen=True)
class Metrics:
    """Of each finished run of one geometry, with the settings chosen on validation."""

    sampled_hr: list[float]
    full_hr: list[float]
    full_ndcg: list[float]


@dataclass(frozen=True)
class Final:
    """The settings chosen on validation, on the test with both protocols; the data in numbers; the best sellers."""

    popularity: float
    """HR@10 of the best sellers."""
    users: int
    test_events: int
    removed: int
    """Test events of items without a training event."""
    failed: int
    """Trainings with the chosen settings that ended in infinite points."""
    metrics: dict[str, Metrics]
    """By geometry."""


@dataclass(frozen=True)
class Measured:
    """Everything about one category."""

    category: Category
    grid: Grid
    """On the test."""
    best: Mapping[str, Setting]
    """By geometry: the best of the grid on the test."""
    chosen: Mapping[str, Setting]
    """By geometry: on validation."""
    per_triplet: HitRates
    """The appendix's settings with the regularisation added once per triplet."""
    beyond: HitRates
    final: Final

    def best_runs(self, geometry: str) -> list[float]:
        return [run for run in self.grid[self.best[geometry]][geometry] if run is not None]

    def compare_best(self) -> Comparison:
        return _compare(*map(self.best_runs, GEOMETRIES))

    def compare_final(self, metric: str) -> Comparison:
        return _compare(*(getattr(self.final.metrics[geometry], metric) for geometry in GEOMETRIES))


@dataclass(frozen=True, eq=False)
class SampledQueries:
    """Each held-out item, and sampled items that its customer never interacted with: the same that `evaluate` draws."""

    user_rows: NDArray[np.int64]
    """The customer of each query, as a row of the training part."""
    candidates: NDArray[np.int32]
    """(queries, 1 + negatives): item rows, the held-out one first."""

    @classmethod
    def draw(
        cls, test: Interactions, histories: Interactions, *, negatives: int = 100, seed: int = 0
    ) -> SampledQueries:
        """`test` and `histories` are parts of one split, and every customer has a history."""
        held_out = hold_out(test, histories, histories.items, histories.item_counts, None, seed)
        owners, item_rows = held_out.positives_of(np.arange(len(held_out.users)))
        candidates = np.empty((len(owners), 1 + negatives), np.int32)
        candidates[:, 0] = item_rows
        for user_row, user in enumerate(held_out.users.ids(np.arange(len(held_out.users)))):
            drawn = draw_negatives(held_out, user_row, user, len(histories.items), negatives, seed)
            if len(drawn) < negatives:
                raise InputError(f"user {user!r} has only {len(drawn)} items without an event: use that many negatives")
            candidates[held_out.offsets[user_row] : held_out.offsets[user_row + 1], 1:] = drawn
        return cls(held_out.history_rows[owners], candidates)

    def ranks(self, user_points: NDArray[np.float32], item_points: NDArray[np.float32], *, hyperbolic: bool) -> Ranks:
        """The rank of each held-out item by the inner product with its customer's point; each query is its own owner.

        A distance on the hyperboloid gives the same ranks.
        """
        if hyperbolic:
            # <u, v> + u0 = u . v - u0 (v0 - 1): the same order, without the 1 in which near points lose their digits
            squares = np.einsum("ij,ij->i", item_points[:, 1:], item_points[:, 1:])
            item_points = item_points.copy()
            item_points[:, 0] = squares / (1 + np.sqrt(1 + squares))
        count = len(self.user_rows)
        above, tied = np.empty(count, np.int64), np.empty(count, np.int64)
        for start in range(0, count, QUERIES_PER_BLOCK):
            block = slice(start, start + QUERIES_PER_BLOCK)
            queries = user_points[self.user_rows[block]]
            if hyperbolic:
                queries[:, 0] *= -1
            scores = np.matmul(item_points[self.candidates[block]], queries[:, :, None])[:, :, 0]
            if not np.isfinite(scores).all():
                raise InputError("the points give scores that are not finite: train again with smaller steps")
            above[block] = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
            tied[block] = 1 + (scores[:, 1:] == scores[:, :1]).sum(axis=1)
        return Ranks(np.arange(count), above, tied, np.ones(count, np.int64))


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
    def few(self) -> bool:
        """Whether only customers with more than 20 events are in it."""
        return self.minimum_events > 1

    @property
    def title(self) -> str:
        """With the choice of customers, unless it is the paper's own."""
        chosen = self.few and not self.complete
        return self.found.title + (f", over {self.minimum_events - 1} events" if chosen else "")

    @property
    def kind(self) -> str:
        if self.complete:
            return "on complete files"
        return f"on 5-core files{', customers with more than 20 events' if self.few else ''}"

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
    """What to learn from, and what to evaluate on."""

    train: Interactions
    test: Interactions

    @cached_property
    def queries(self) -> SampledQueries:
        return SampledQueries.draw(self.test, self.train)

    def popularity(self) -> float:
        """HR@10 of the best sellers: every customer's point is 1, and every item's its count."""
        counts = self.train.item_counts.astype(np.float32)[:, None]
        ones = np.ones((len(self.train.users), 1), np.float32)
        return float(hit_rate(self.queries.ranks(ones, counts, hyperbolic=False), 10).mean())

    def learn(self, config: TrainingConfig) -> Model | None:
        """None where a point became infinite: such a setting cannot be chosen, and is counted."""
        try:
            return train(self.train, config, progress=False)
        except TrainingError:
            return None

    def hit_rate(self, model: Model) -> float:
        """HR@10."""
        assert model.user_points is not None
        hyperbolic = model.config.geometry == "hyperboloid"
        return float(
            hit_rate(self.queries.ranks(model.user_points, model.item_points, hyperbolic=hyperbolic), 10).mean()
        )


def _compare(hyperboloid: Sequence[float], euclidean: Sequence[float]) -> Comparison:
    if min(len(hyperboloid), len(euclidean)) < 2:
        return Comparison(0.0, 0.0, 0.0, 1.0, "none: fewer than two trainings finished")
    if np.ptp(hyperboloid) == np.ptp(euclidean) == 0:
        # A handful of customers can get the same lists from every seed: there is nothing to test with.
        difference = hyperboloid[0] - euclidean[0]
        return Comparison(difference, difference, difference, 1.0, "none: no run differs from another")
    return compare_seeds(hyperboloid, euclidean)


def config_of(geometry: str, setting: Setting, batch: int = BATCH) -> TrainingConfig:
    """The regularisation is divided among the triplets of a batch."""
    rate, regularisation = setting
    return SHARED.replace(geometry=geometry, learning_rate=rate, regularisation=regularisation / batch)


def in_threads(work: Callable[[Any], Any], jobs: Iterable[Any]) -> list[Any]:
    """All jobs, one core each: a training with a single thread is reproducible to the last bit."""
    with thread_pool(available_cores()) as run:
        return list(run(work, jobs))


def hit_rates(round_of: Callable[[], Round], configs: Sequence[TrainingConfig], runs: int) -> HitRates:
    """HR@10 of `runs` seeds with the config of each geometry."""
    one_round = round_of()
    one_round.queries  # noqa: B018 - drawn once, before the threads need them

    def measure_one(job: tuple[TrainingConfig, int]) -> float | None:
        config, seed = job
        model = one_round.learn(config.replace(seed=seed))
        return None if model is None else one_round.hit_rate(model)

    found = iter(in_threads(measure_one, product(configs, range(runs))))
    return {config.geometry: [next(found) for _ in range(runs)] for config in configs}


def measure_in_full(category: Category, configs: Sequence[TrainingConfig], runs: int) -> Final:
    """The config of each geometry on the test."""
    one_round, metrics = category.testing, dict[str, Metrics]()
    for config in configs:
        rows = []
        for model in in_threads(one_round.learn, (config.replace(seed=seed) for seed in range(runs))):
            if model is not None:
                full = evaluate(model, one_round.test, "full", k=10, intervals=False)
                rows.append((one_round.hit_rate(model), full["hr@10"], full["ndcg@10"]))
        metrics[config.geometry] = Metrics(*np.reshape(rows, (-1, 3)).T.tolist())
    return Final(
        popularity=one_round.popularity(),
        users=len(one_round.train.users),
        test_events=len(one_round.test),
        removed=len(category.data) - len(one_round.train) - len(one_round.test),
        failed=sum(runs - len(one.sampled_hr) for one in metrics.values()),
        metrics=metrics,
    )


def best_of(grid: Grid, geometry: str) -> Setting:
    """The setting with the highest mean; one with a failed run cannot be chosen."""
    sums = {
        setting: sum(run for run in by[geometry] if run is not None)
        for setting, by in grid.items()
        if None not in by[geometry]
    }
    if not sums:
        raise TrainingError(f"every setting of the {geometry} has a training that diverged: check the data")
    return max(sums, key=lambda setting: sums[setting])


def measure(category: Category, context: Context, settings: Sequence[Setting], runs: int) -> Measured:
    """Both grids, the other reading of the regularisation, the chosen settings."""

    def part(name: str, make: Callable[..., Any], configs: Sequence[TrainingConfig], runs: int) -> Part:
        described = {config.geometry: config.to_dict() for config in configs}
        key = {"data": category.found.digest, "minimum_events": category.minimum_events}
        key |= {"configs": described, "runs": runs}
        return Part(f"{category.title}, {name}", key, partial(make, configs, runs))

    def twins(setting: Setting) -> list[TrainingConfig]:
        return [config_of(geometry, setting) for geometry in GEOMETRIES]

    def grid(name: str, make: Callable[..., Any], runs: int) -> Grid:
        parts = [part(f"{name}, {setting}", make, twins(setting), runs) for setting in settings]
        return dict(zip(settings, context.run(HitRates, parts), strict=True))

    test, validation = (partial(hit_rates, of) for of in (lambda: category.testing, lambda: category.validating))
    on_test, on_validation = grid("test", test, runs), grid("validation", validation, min(runs, VALIDATION_RUNS))
    appendix_configs = [config_of(geometry, appendix(category.name)[geometry], batch=1) for geometry in GEOMETRIES]
    per_triplet, beyond = context.run(
        HitRates,
        [
            part("appendix, per triplet", test, appendix_configs, runs),
            part("beyond the grid", test, twins(BEYOND), runs),
        ],
    )
    best, chosen = ({geometry: best_of(grid, geometry) for geometry in GEOMETRIES} for grid in (on_test, on_validation))
    configs = [config_of(geometry, setting) for geometry, setting in chosen.items()]
    make = partial(measure_in_full, category)
    (final,) = context.run(Final, [part("settings chosen on validation", make, configs, runs)])
    return Measured(
        category=category,
        grid=on_test,
        best=best,
        chosen=chosen,
        per_triplet=per_triplet,
        beyond=beyond,
        final=final,
    )


def appendix(category: str) -> dict[str, Setting]:
    """The paper's best rate and regularisation for each geometry."""
    rate = 0.01 if category == "Sports_and_Outdoors" else 0.1
    regularisation = {
        "Automotive": 0.5,
        "Cell_Phones_and_Accessories": 0.5,
        "Tools_and_Home_Improvement": 0.8,
        "Toys_and_Games": 0.8,
    }.get(category, 1.0)
    return {"hyperboloid": Setting(0.01, 1.0), "euclidean": Setting(rate, regularisation)}
