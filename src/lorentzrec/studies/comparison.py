"""Comparison of several systems: one protocol, several seeds, and significance tests of the differences.

Every run of a system with a seed is saved, so that a comparison that was stopped, or to which a system or a seed is
added, runs only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.tabular import TableText, TabularReport
from lorentzrec.data.arrays import Floats
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError
from lorentzrec.evaluation.baselines import EASE, GFCF, ItemItem, ItemKNN, Popularity, TransitionCounts
from lorentzrec.evaluation.held_out import Candidates
from lorentzrec.evaluation.peers import ImplicitALS, ImplicitBPR
from lorentzrec.evaluation.protocol import Recommender, evaluate, parse_cutoff
from lorentzrec.evaluation.shop_baselines import TIFUKNN, UPCF, OwnFrequency, RecentPopularity
from lorentzrec.evaluation.significance import Comparison, bootstrap_intervals, compare_pairs, compare_seeds
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.studies.parts import Part, PartStore
from lorentzrec.studies.search_spaces import GRIDS
from lorentzrec.studies.task import TuningTask

if TYPE_CHECKING:
    import polars as pl

SEEDLESS: dict[str, Callable[..., Recommender]] = {
    "popularity": Popularity,
    "item-knn": ItemKNN,
    "item-item": ItemItem,
    "transitions": TransitionCounts,
    "ease": EASE,
    "gf-cf": GFCF,
    "recent-popularity": RecentPopularity,
    "own-frequency": OwnFrequency,
    "tifu-knn": TIFUKNN,
    "up-cf": UPCF,
}
"""Deterministic systems, which need one run only."""
COSTLY = {"ease", "gf-cf"}
"""Systems that are compared only where they are named: they invert or factorise a matrix of all items."""
OF_SHOPS = {"recent-popularity", "own-frequency", "tifu-knn", "up-cf"}
"""Systems for shops whose customers buy again."""
PEERS: dict[str, Callable[..., Recommender]] = {"implicit-als": ImplicitALS, "implicit-bpr": ImplicitBPR}
GEOMETRIES = ("hyperboloid", "euclidean")
SYSTEMS = (*GEOMETRIES, *SEEDLESS, *PEERS)
Maker = Callable[[Interactions, int], Recommender]
_REGISTERED: dict[str, Maker] = {}
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""From a p-value, over customers and multiplied by the number of comparisons, to its mark in tables."""


def register_system(name: str) -> Callable[[Maker], Maker]:
    """Register a recommender of your own for this process, for `make_systems([NAME, ...])`::

        @register_system("newest")
        def newest(train, seed):
            return Newest(train)

    The function trains on `Interactions` with a seed, and returns a `Recommender`. Finished runs are identified by the
    name: give another name, or another folder, after a change of the code.
    """

    def register(make: Maker) -> Maker:
        if name in SYSTEMS:
            raise ConfigError(f"{name} is a system of lorentzrec: give another name")
        _REGISTERED[name] = make
        return make

    return register


@dataclass(frozen=True)
class System:
    """A recommender with its settings."""

    name: str
    """One of `SYSTEMS`, or a registered one."""
    settings: Mapping[str, Any]
    """For a geometry the fields of its config, else the arguments of its class."""

    def train(
        self, data: Interactions, seed: int, threads: int | None, attributes: ItemAttributes | None = None
    ) -> Recommender:
        """Train it on `data`; the geometries use the attributes of items as well."""
        if self.name in GEOMETRIES:
            from lorentzrec.learning.trainer import train

            config = self.config.replace(seed=seed, threads=threads)
            return train(data, config, attributes=attributes, progress=False)
        if self.name in _REGISTERED:
            return _REGISTERED[self.name](data, seed)
        if self.name in SEEDLESS:
            return SEEDLESS[self.name](data, **self.settings)
        return PEERS[self.name](data, **self.settings, seed=seed, threads=threads)

    def resolve_settings(self, data: Interactions, *, attributes: bool = False) -> dict[str, Any]:
        """All settings, including those that are chosen from the data: what a run depends on."""
        if self.name not in GEOMETRIES:
            return dict(self.settings)
        return self.config.resolve_for(data, attributes=attributes).replace(threads=None).to_dict()

    @property
    def config(self) -> TrainingConfig:
        # validation would take events from training that the other systems are trained on
        return TrainingConfig.from_mapping({**self.settings, "geometry": self.name, "validation": 0.0})


@dataclass(frozen=True)
class Runs:
    """The runs of one system, one per seed."""

    system: System
    values: tuple[float, ...]
    """The metric of each run."""
    per_user: Floats
    """The metric of each customer, the mean over the runs."""
    all_metrics: dict[str, float]
    """Means over the runs."""
    seconds: float
    """Training time, the mean over the runs."""
    points_alone: float | None = None
    """The metric without the memory, the mean over the runs; None for systems without one."""

    @property
    def value(self) -> float:
        return float(np.mean(self.values))

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 %, by bootstrap over customers."""
        low, high = bootstrap_intervals(self.per_user[:, None])
        return float(low[0]), float(high[0])

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.system.name,
            "value": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "runs": list(self.values),
            "points_alone": self.points_alone,
            "metrics": self.all_metrics,
            "training_seconds": self.seconds,
            "settings": dict(self.system.settings),
        }


@dataclass(frozen=True)
class Difference:
    """The first system minus the second."""

    first: str
    second: str
    over_users: Comparison
    """Paired: each customer's mean over the seeds."""
    over_seeds: Comparison | None
    """None with fewer than two seeds, or if neither system depends on them."""


@dataclass(frozen=True)
class ComparisonReport(TabularReport):
    """Systems on one task, and the differences between the first and each of the others."""

    metric: str
    runs: Sequence[Runs]
    differences: Sequence[Difference]

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame with a row per system: its metric with interval and deviation over seeds, the difference of
        the first system to it with both p-values, its other metrics, and the time of a training."""
        import polars as pl

        pairs = zip(self.runs, [None, *self.differences], strict=True)
        return pl.DataFrame([self._row(*pair) for pair in pairs], infer_schema_length=None)

    def _row(self, run: Runs, difference: Difference | None) -> dict[str, Any]:
        over_users = None if difference is None else difference.over_users
        over_seeds = None if difference is None else difference.over_seeds
        low, high = run.interval
        return {
            "system": run.system.name,
            "metric": self.metric,
            "value": run.value,
            "low": low,
            "high": high,
            "deviation": float(np.std(run.values, ddof=1)) if len(run.values) > 1 else None,
            "runs": len(run.values),
            "difference": None if over_users is None else float(over_users.difference),
            "p_over_customers": None if over_users is None else float(over_users.p_value),
            "p_over_seeds": None if over_seeds is None else float(over_seeds.p_value),
            "points_alone": run.points_alone,
            "training_seconds": run.seconds,
            **{name: value for name, value in run.all_metrics.items() if name != self.metric},
        }

    def to_text(self) -> TableText:
        """The table that `to_markdown` and `to_latex` write: mean and deviation over seeds, interval, tests. Stars mark
        differences over customers with p < 0.05, 0.01 and 0.001, after Bonferroni's correction."""
        rows = [
            (
                str(row["system"]),
                f"{row['value']:.4f}" + ("" if row["deviation"] is None else f" ± {row['deviation']:.4f}"),
                f"{row['low']:.4f} to {row['high']:.4f}",
                "" if row["difference"] is None else f"{row['difference']:+.4f}{self._stars(row['p_over_customers'])}",
                *("" if row[name] is None else f"{row[name]:.2g}" for name in ("p_over_customers", "p_over_seeds")),
            )
            for row in self.to_frame().iter_rows(named=True)
        ]
        tests = ("difference", "p over customers", "p over seeds")
        return TableText(("system", self.metric, "95 % interval", *tests), rows)

    def _stars(self, p_value: float) -> str:
        return next((marks for bound, marks in STARS if p_value * len(self.differences) < bound), "")


@dataclass(frozen=True)
class TwinRow:
    """Hyperboloid and Euclidean twin at one dimension."""

    dimension: int
    hyperboloid: Runs
    euclidean: Runs
    difference: Difference

    @property
    def relative(self) -> tuple[float, float, float]:
        """The difference and the ends of its interval over customers, in per cent of the Euclidean value."""
        over, unit = self.difference.over_users, self.euclidean.value / 100
        return over.difference / unit, over.low / unit, over.high / unit


def make_systems(
    names: Sequence[str], configs: Mapping[str, TrainingConfig] | None = None, dimension: int | None = None
) -> list[System]:
    """Systems by name. `configs`: geometry -> its config, by default `TrainingConfig()`. `dimension`: that of all
    systems; by default, other libraries use that of the hyperboloid."""
    configs = {geometry: TrainingConfig() for geometry in GEOMETRIES} | dict(configs or {})
    if dimension is not None:
        configs = {geometry: config.replace(dimension=dimension) for geometry, config in configs.items()}
    found = []
    for name in dict.fromkeys(names):
        if name not in (*SYSTEMS, *_REGISTERED):
            raise ConfigError(f"there is no system {name!r}: choose from {', '.join([*SYSTEMS, *_REGISTERED])}")
        settings: dict[str, Any] = {}
        if name in GEOMETRIES:
            left_out = ("geometry", "seed", "threads")
            settings = {key: value for key, value in configs[name].to_dict().items() if key not in left_out}
        elif name in PEERS:
            settings = {"factors": configs["hyperboloid"].dimension}
        found.append(System(name, settings))
    return found


@dataclass(frozen=True, eq=False)
class Comparer:
    """Evaluates systems on one task, and saves every run."""

    task: TuningTask
    store: PartStore
    metric: str = "ndcg@20"
    seeds: Sequence[int] = (0, 1, 2)
    threads: int | None = None
    say: Callable[[str], None] = lambda _: None
    candidates: Candidates = "unseen"
    leave_validation_out: bool = False
    """Train on the training part alone; the validation part belongs to the histories only."""
    attributes: ItemAttributes | None = None
    """Of the items, for the geometries."""

    def tune(self, systems: Sequence[System]) -> list[System]:
        """The systems with the best settings of their grid on validation; those without a grid are unchanged."""
        chosen = []
        for system in systems:
            if (grid := GRIDS.get(system.name)) is None:
                chosen.append(system)
                continue
            combined = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
            choices = [replace(system, settings={**system.settings, **settings}) for settings in combined]
            parts = [self._part(choice, self.seeds[0], validating=True) for choice in choices]
            measured = [result["metrics"][self.metric] for result in self.store.run(parts, self.say)]
            chosen.append(choices[int(np.argmax(measured))])
        return chosen

    def run(self, systems: Sequence[System]) -> list[Runs]:
        """Train each system with every seed, and evaluate it on the test."""
        seeds = {system.name: self.seeds[:1] if system.name in SEEDLESS else self.seeds for system in systems}
        parts = [self._part(system, seed) for system in systems for seed in seeds[system.name]]
        results = iter(self.store.run(parts, self.say))
        return [self._runs(system, [next(results) for _ in seeds[system.name]]) for system in systems]

    def compare(self, first: Runs, second: Runs) -> Difference:
        """Test the difference over customers, and over seeds where that is possible."""
        over_users = compare_pairs(first.per_user - second.per_user)
        values = [runs.values * (len(self.seeds) if len(runs.values) == 1 else 1) for runs in (first, second)]
        varied = len(self.seeds) > 1 and any(np.ptp(column) > 0 for column in values)
        over_seeds = compare_seeds(*values) if varied else None
        return Difference(first.system.name, second.system.name, over_users, over_seeds)

    def report(self, systems: Sequence[System]) -> ComparisonReport:
        """Run the systems, and compare the first with each of the others."""
        runs = self.run(systems)
        return ComparisonReport(self.metric, runs, [self.compare(runs[0], other) for other in runs[1:]])

    def _runs(self, system: System, results: Sequence[Any]) -> Runs:
        return Runs(
            system=system,
            values=tuple(result["metrics"][self.metric] for result in results),
            per_user=np.mean([result["per_user"][self.metric] for result in results], axis=0),
            all_metrics={name: float(np.mean([r["metrics"][name] for r in results])) for name in results[0]["metrics"]},
            seconds=float(np.mean([result["seconds"] for result in results])),
            points_alone=float(np.mean([result["points_alone"][self.metric] for result in results]))
            if all("points_alone" in result for result in results)
            else None,
        )

    def _part(self, system: System, seed: int, *, validating: bool = False) -> Part:
        task, k = self.task, parse_cutoff(self.metric)
        if validating:
            train, histories, test = task.train, task.train, task.validation
        else:
            train = task.train if self.leave_validation_out else task.before_test
            histories, test = task.histories, task.require_test()
        attributes = self.attributes if system.name in GEOMETRIES else None
        key = {
            "kind": system.name,
            "settings": system.resolve_settings(train, attributes=attributes is not None),
            "seed": None if system.name in SEEDLESS else seed,
            "k": k,
            "candidates": self.candidates,
            "data": [train.digest, histories.digest, test.digest],
        }
        if attributes is not None:
            key["attributes"] = attributes.digest
        settings = ", ".join(f"{name}={value}" for name, value in system.settings.items())
        name = f"validate {system.name} {settings}" if validating else f"{system.name} seed {seed}"

        def measure() -> dict[str, Any]:
            """Train and evaluate; returns plain values, including those per customer for paired tests."""
            started = time.perf_counter()
            model = system.train(train, seed, self.threads, attributes)
            seconds = time.perf_counter() - started
            options: dict[str, Any] = {"histories": histories, "candidates": self.candidates, "threads": self.threads}
            report = evaluate(model, test, k=k, intervals=False, **options)
            paired = {name: values for name, values in report.per_user.items() if "popularity" not in name}
            points: dict[str, Any] = {}
            if isinstance(model, Model):
                alone = report
                if model.memory is not None:
                    without = model.with_points(memory=None)
                    alone = evaluate(without, test, k=k, intervals=False, **options)
                points["points_alone"] = {name: metric.value for name, metric in alone.metrics.items()}
            return {
                **points,
                "metrics": {name: metric.value for name, metric in report.metrics.items()},
                "per_user": {name: np.round(values, 7).tolist() for name, values in paired.items()},
                "seconds": seconds,
            }

        return Part(name, key, measure)


def geometry_table(
    comparer: Comparer, configs: Mapping[str, TrainingConfig], dimensions: Sequence[int]
) -> list[TwinRow]:
    """Hyperboloid and Euclidean twin in several dimensions, a row for each."""
    rows = []
    for dimension in dimensions:
        curved, flat = comparer.run(make_systems(GEOMETRIES, configs, dimension))
        rows.append(TwinRow(dimension, curved, flat, comparer.compare(curved, flat)))
    return rows
