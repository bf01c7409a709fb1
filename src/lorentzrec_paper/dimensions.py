"""Beyond the paper: the hyperboloid and its Euclidean twin in few dimensions, where curvature should pay.

Both are tuned at each dimension, with the same number of trials, and tested as in `twins`. Curvature should help where
points have little room, rare items most of all, and radii should show popularity and depth in the category tree.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.data.arrays import Floats, Integers, rank_correlation
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id
from lorentzrec.evaluation.significance import Comparison, compare_pairs
from lorentzrec.geometry import euclidean, hyperboloid
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.comparison import GEOMETRIES, TwinRow
from lorentzrec.studies.parts import Part
from lorentzrec.studies.search import Search
from lorentzrec.studies.task import TuningTask
from lorentzrec_paper import twins
from lorentzrec_paper.data_sets import DamagedData, FoundData, five_core_name
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table
from lorentzrec_paper.twins import DataSetTask, Measured

DIMENSIONS: tuple[int, ...] = (2, 4, 8, 16)
SEEDS: tuple[int, ...] = (0, 1, 2)
SETTINGS: dict[str, Any] = {
    "memory": "none",
    "masses": "off",
    "model": "asymmetric",
    "negative_count": 128,
    "epochs": 12,
    "targets": "separate",
    "recency": 0.7,
    "regularisation": 0.0,
}
"""What all trials have in common; rate, score and scale are searched. There are hundreds of trials, so there are fewer
negatives and epochs than by default."""
FIRST: tuple[dict[str, Any], ...] = tuple(
    {"score": score, "learning_rate": rate, "scale": scale}
    for score, pairs in {
        "distance": ((0.4, 6.0), (0.8, 3.0), (1.5, 1.6)),
        "inner": ((0.6, 4.0), (0.4, 2.0), (0.8, 1.0)),
    }.items()
    for rate, scale in pairs
)
"""After the defaults with either score: points that are farther and farther out, with a scale that is lower."""
TRIALS = 8
"""For each geometry at each dimension."""
DATA_SETS = (
    DataSetTask("movielens-100k", TRIALS, minimum_rating=4.0),
    DataSetTask(five_core_name("Musical_Instruments"), TRIALS),
    DataSetTask(five_core_name("Tools_and_Home_Improvement"), TRIALS),
    DataSetTask(five_core_name("Toys_and_Games"), TRIALS),
    DataSetTask(five_core_name("Sports_and_Outdoors"), TRIALS),
)
QUICK = 2
"""Data sets, dimensions and trials of a quick run."""
BINS = ("tail", "middle", "head")
"""A third of the test events each, by the training events of the test item."""
LONGEST_PATH = 7
"""Categories; longer lists are several paths of an item, one after another."""
Depths = Mapping[Id, int]
"""Item -> the length of its category path."""


@dataclass(frozen=True)
class Bin:
    """Both twins on the customers whose test item is of similar popularity."""

    name: str
    fewest: int
    """Training events of a test item, as the next."""
    most: int
    events: int
    hyperboloid: float
    euclidean: float
    difference: Comparison


@dataclass(frozen=True)
class Radii:
    """Distances of the recommended points from the origin, and their rank correlations."""

    median: float
    largest: float
    """Of 95 % of the items."""
    popularity: float | None
    """None if all values are equal, as the next."""
    depth: float | None
    """None without categories, too."""


@dataclass(frozen=True)
class LowDimension:
    """One data set at one dimension."""

    measured: Measured
    bytes_per_item: int
    bins: tuple[Bin, ...]
    radii: dict[str, Radii]
    """By geometry; of the first seed."""

    @property
    def row(self) -> TwinRow:
        return self.measured.rows[0]


def measure(
    task: DataSetTask, found: FoundData, dimensions: Sequence[int], seeds: Sequence[int], context: Context
) -> list[LowDimension]:
    """Tune and test at each dimension."""
    split, depths = task.split(found), read_depths(found)
    results = []
    for dimension in dimensions:
        search = Search(task.metric, SETTINGS | {"dimension": dimension}, first=FIRST)
        one = twins.measure(task, found, search, (dimension,), seeds, context)
        configs = {name: TrainingConfig.from_mapping(tuned.config) for name, tuned in one.tuned.items()}
        parts = [_radii_part(config.replace(seed=seeds[0]), split, depths, found) for config in configs.values()]
        (row,) = one.rows
        results.append(
            LowDimension(
                measured=one,
                bytes_per_item=bytes_per_item(configs["hyperboloid"]),
                bins=bins_of(row.hyperboloid.per_user, row.euclidean.per_user, split),
                radii=dict(zip(configs, context.run(Radii, parts), strict=True)),
            )
        )
    return results


def bytes_per_item(config: TrainingConfig) -> int:
    """Four bytes per space coordinate in each table; on the hyperboloid the time coordinate follows from the others."""
    return 4 * config.dimension * (2 if config.targets == "separate" else 1)


def bins_of(curved: Floats, flat: Floats, split: TuningTask) -> tuple[Bin, ...]:
    """Customers have one test event each, and are in the order of the test."""
    counts = split.before_test.item_counts[split.require_test().item_rows]
    thirds = np.searchsorted(np.quantile(counts, (1 / 3, 2 / 3)), counts)
    bins = []
    for third, name in enumerate(BINS):
        inside = thirds == third
        own = counts[inside]
        if len(own) == 0:  # few distinct counts
            continue
        values = (float(curved[inside].mean()), float(flat[inside].mean()))
        difference = compare_pairs(curved[inside] - flat[inside])
        bins.append(Bin(name, int(own.min()), int(own.max()), len(own), *values, difference))
    return tuple(bins)


def read_depths(found: FoundData) -> Depths:
    """From the file of attributes next to that of the events; empty without one."""
    path = found.paths[0].with_name(f"{found.paths[0].stem}_item2attributes.json")
    if not path.is_file():
        return {}
    try:
        # The brand comes first.
        depths = {int(item): len(own) - 1 for item, own in json.loads(path.read_text(encoding="utf-8")).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise DamagedData(f"{path} is not an object of lists ({error}): get it again, or remove it") from None
    return {item: depth for item, depth in depths.items() if 0 < depth <= LONGEST_PATH}


def _radii_part(config: TrainingConfig, split: TuningTask, depths: Depths, found: FoundData) -> Part:
    data = split.before_test
    key = {
        "config": config.resolve_for(data).replace(threads=None).to_dict(),
        "data": data.digest,
        "depths": hashlib.sha256(json.dumps(depths, sort_keys=True).encode()).hexdigest(),
    }
    name = f"radii {found.title} {config.geometry} in {config.dimension} dimensions"
    return Part(name, key, partial(_measure_radii, config, data, depths))


def _measure_radii(config: TrainingConfig, data: Interactions, depths: Depths) -> Radii:
    model = train(data, config.replace(threads=twins.THREADS), progress=False)
    geometry = hyperboloid if config.hyperbolic else euclidean
    radii = geometry.distance_to_origin(model.item_points.astype(np.float64))
    known = model.item_counts > 0
    deep: Integers = np.array([depths.get(item, 0) for item in model.item_ids], np.int64)
    placed = known & (deep > 0)
    return Radii(
        median=float(np.median(radii[known])),
        largest=float(np.quantile(radii[known], 0.95)),
        popularity=rank_correlation(radii[known], model.item_counts[known]),
        depth=rank_correlation(radii[placed], deep[placed]),
    )


def run(context: Context) -> Outcome:
    tasks, dimensions, seeds = list(DATA_SETS), DIMENSIONS, SEEDS
    if context.quick:
        tasks = [replace(one, trials=QUICK) for one in DATA_SETS[:QUICK]]
        dimensions, seeds = DIMENSIONS[:QUICK], SEEDS[:1]
    settings = {"common": SETTINGS, "first": FIRST, "data_sets": [asdict(one) for one in tasks], "seeds": seeds}
    return twins.measure_each(
        tasks,
        lambda task, found: measure(task, found, dimensions, seeds, context),
        lambda results, wanted: outcome_of(results, wanted, settings),
        context,
    )


def outcome_of(results: Sequence[Sequence[LowDimension]], wanted: int, settings: Mapping[str, Any]) -> Outcome:
    """`wanted`: the number of data sets there will be in the end."""
    every = [one for by_dimension in results for one in by_dimension]
    measured = [one.measured for one in every]
    chosen = {
        f"{one.title}, d = {one.rows[0].dimension}": {name: asdict(tuned) for name, tuned in one.tuned.items()}
        for one in measured
    }
    notes = (
        "the twins run through the same code and search the same hyper-parameters in the same ranges, with the same "
        "number of trials, at each dimension, on a validation part of training; the models of the test learn from "
        "training and validation together, and rank all items, once for each seed",
        "bytes per item: four per space coordinate of both points of an item, that of histories and that of "
        "recommendations; on the hyperboloid the time coordinate follows from the others",
        "radii are those of the points of recommendations of the first seed, over items with a training event; the "
        f"depth of an item is the length of its category path, left out beyond {LONGEST_PATH} categories",
        *twins.notes_of(measured),
    )
    return Outcome(
        tables=(
            twins.main_table(measured),
            _bins_table(every),
            _radii_table(every),
            twins.settings_table(measured),
        ),
        verdicts=twins.verdicts_of([[one.row for one in by_dimension] for by_dimension in results]),
        figures={
            "bytes": Figure(
                "NDCG of the test by the bytes that the points of an item take, mean over seeds; bands are one "
                "standard deviation.",
                partial(_draw, results),
            )
        },
        notes=(*twins.so_far(len(results), wanted), *notes),
        settings={**settings, "chosen": chosen},
    )


def _draw(results: Sequence[Sequence[LowDimension]], path: Path) -> None:
    from lorentzrec_paper.figures import Curve, Panel, plot_curves

    panels = []
    for by_dimension in results:
        curves = []
        for geometry in GEOMETRIES:
            values = [getattr(one.row, geometry).values for one in by_dimension]
            sizes = [one.bytes_per_item for one in by_dimension]
            deviations = [float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0 for runs in values]
            curves.append(Curve(geometry, sizes, [float(np.mean(runs)) for runs in values], deviations))
        about = by_dimension[0].measured
        panels.append(Panel(about.title, "bytes per item", about.metric.upper(), curves, logarithmic=True))
    plot_curves(panels, path, columns=2)


def _bins_table(every: Sequence[LowDimension]) -> Table:
    columns = (
        *Column.keys("data set", "training events of the test item", "d"),
        *Column.ours({"test events": ",", **dict.fromkeys(GEOMETRIES, ".4f"), "in per cent": "+.1f", "p": ".2g"}),
    )
    rows = tuple(
        (
            one.measured.title,
            f"{own.name}: {own.fewest} to {own.most}",
            one.row.dimension,
            own.events,
            own.hyperboloid,
            own.euclidean,
            100 * own.difference.difference / own.euclidean if own.euclidean else None,
            own.difference.p_value,
        )
        for one in every
        for own in one.bins
    )
    title = f"{every[0].measured.metric.upper()} by the popularity of the test item, and p over customers"
    return Table(title, columns, rows)


def _radii_table(every: Sequence[LowDimension]) -> Table:
    columns = (
        *Column.keys("data set", "d", "geometry"),
        *Column.ours({"median radius": ".2f", "radius of 95 %": ".2f", "popularity": "+.2f", "depth": "+.2f"}),
    )
    rows = tuple(
        (
            one.measured.title,
            one.row.dimension,
            geometry,
            radii.median,
            radii.largest,
            radii.popularity,
            radii.depth,
        )
        for one in every
        for geometry, radii in one.radii.items()
    )
    return Table("Rank correlation of the radius with popularity, and with depth in the category tree", columns, rows)


EXPERIMENT = Experiment("dimensions", "Beyond the paper: the hyperboloid and its Euclidean twin in few dimensions", run)
