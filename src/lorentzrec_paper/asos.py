"""The paper's commercial data set in shape: what a year of a shop costs, and whether geometry or optimiser decides.

The data are not public, so a shop of the same size is grown: in a hyperbolic plane, which ought to favour the
hyperboloid, and in a flat square as a control. The quality of a recommender on it says nothing about the paper's shop;
the order of two recommenders may. Times are those of real work.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import ProtocolName, Recommender, evaluate
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.sources import Source
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.reduction.disk_map import customer_coordinates, disk_map, sample_customers
from lorentzrec.synthetic.shop import Space, SyntheticConfig, synthesize
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.asos_report import outcome_of
from lorentzrec_paper.experiment import Context, Experiment, Outcome
from lorentzrec_paper.paper_settings import WMRB

CUSTOMERS, ITEMS, INTERACTIONS, VALIDATION = 1_000_000, 132_399, 28_000_000, 500_000
QUICK_SHARE = 100
"""A quick run's shop is so many times smaller."""
TEST_DAYS = 7
ASKED = 5_000
"""Customers of the test who are asked; intervals say what that leaves open."""
MAP_CUSTOMERS, MAP_ITEMS, MAP_STARS = 20_000, 2_000, 60
BATCH = 512
PROTOCOLS: tuple[ProtocolName, ...] = ("sampled", "full")

PAPERS = WMRB.replace(epochs=1, learning_rate=0.05 / BATCH)
ADAPTIVE = TrainingConfig(loss="wmrb", dimension=50, epochs=1, negative_count=100, learning_rate_decay=0.0)
MAP = TrainingConfig(loss="wmrb", dimension=2, epochs=15, targets="shared", recency=1.0, scale=2.0)
"""Two dimensions have little room: a low scale lets points spread over the disk."""


class Trial(NamedTuple):
    """One training of one epoch."""

    settings: str
    config: TrainingConfig

    @property
    def name(self) -> str:
        return f"{self.settings}, {self.config.model}, {self.config.geometry}"


TRIALS = (
    *(
        Trial(settings, config.replace(geometry=geometry))
        for settings, config in (
            ("rate 0.05 of a mean", PAPERS),
            ("rate 0.05 of a sum", PAPERS.replace(learning_rate=0.05)),
            ("adaptive", ADAPTIVE),
        )
        for geometry in ("hyperboloid", "euclidean")
    ),
    Trial("rate 0.05 of a mean", PAPERS.replace(model="symmetric")),
)


class Shop:
    """A shop that is grown, prepared and read when first needed, and let go when the next one comes."""

    def __init__(self, config: SyntheticConfig, validation: int) -> None:
        self.config, self.validation_events = config, validation
        self.seconds: dict[str, float] = {}

    @cached_property
    def _parts(self) -> tuple[Interactions, Interactions, Interactions]:
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as folder:
            started = time.perf_counter()
            shop = synthesize(self.config, Path(folder, "shop"))
            self.departments = _departments(shop.items)
            self.seconds["grow"] = time.perf_counter() - started
            dataset = str(Path(folder, "dataset"))
            prepare(
                PrepareConfig(
                    events=(str(shop.events),),
                    out=dataset,
                    source=Source(format="parquet", time_column="time"),
                    split="last_days",
                    split_options={"days": TEST_DAYS},
                )
            )
            self.seconds["prepare"] = time.perf_counter() - started - self.seconds["grow"]
            train_part, test = open_dataset(dataset).parts()
            self.seconds["read"] = time.perf_counter() - started - sum(self.seconds.values())
        # Uniformly in time, as the paper: any event of the 51 weeks may be taken.
        taken = np.zeros(len(train_part), bool)
        taken[np.random.default_rng(0).choice(len(taken), self.validation_events, replace=False)] = True
        return train_part.select(~taken), train_part.select(taken), test

    def numbers(self) -> dict[str, Any]:
        train_part, validation, test = self._parts
        return {
            "seconds": self.seconds,
            "customers": len(train_part.users),
            "items": len(train_part.items),
            "train": len(train_part),
            "validation": len(validation),
            "test": len(test),
        }

    def learn(self, config: TrainingConfig) -> dict[str, Any]:
        """One epoch, then the test week."""
        train_part = self._parts[0]  # before the clock starts: a resumed run grows its shop here
        started = time.process_time()
        model = train(train_part, config, progress=False)
        processor_seconds = time.process_time() - started
        tables = [model.item_points, model.user_points if model.user_points is not None else model.history_points]
        points = sum(len(table) for table in {id(table): table for table in tables}.values())
        return {
            "seconds": sum(record.seconds for record in model.record),
            "processor_seconds": processor_seconds,
            "parameters": points * config.dimension,
            "clipped": sum(record.clipped_gradients for record in model.record),
            **self.ask(model),
        }

    def ask(self, model: Recommender) -> dict[str, Any]:
        """Both protocols on the test week; intervals are over customers."""
        test = self._parts[2]
        started = time.perf_counter()
        reports = {name: evaluate(model, test, name, users=ASKED) for name in PROTOCOLS}
        return {
            **{name: report.to_dict()["metrics"] for name, report in reports.items()},
            "evaluation_seconds": time.perf_counter() - started,
            "asked": reports["full"].counts["users"],
            "held_out": reports["full"].counts["events"],
        }

    def best_sellers(self) -> dict[str, Any]:
        """What there is to beat."""
        return self.ask(Popularity(self._parts[0]))

    def drawn(self) -> dict[str, Any]:
        """The paper's map: a sample of customers, a model of two dimensions, some of its items and customers."""
        train_part = self._parts[0]
        chosen = sample_customers(train_part, min(MAP_CUSTOMERS, int((train_part.lengths > 0).sum())))
        sample = train_part.select(np.isin(train_part.user_rows, chosen))
        # Known items are those with a place worth showing; the others have hardly moved from their start.
        known = np.argsort(-sample.item_counts, kind="stable")[:MAP_ITEMS]
        sample = sample.select(np.isin(sample.item_rows, known[sample.item_counts[known] > 0]))
        sample = Interactions.from_pairs(
            sample.users.series.gather(sample.user_rows), sample.items.series.gather(sample.item_rows), sample.times
        )
        model = train(sample, MAP, progress=False)
        drawn = disk_map(model.item_points, geometry="hyperboloid", counts=model.item_counts)
        stars = sample_customers(sample, min(MAP_STARS, len(sample.users)))
        return {
            "coordinates": np.round(drawn.coordinates.astype(np.float64), 4).tolist(),
            "departments": [self.departments[item] for item in model.items.series.to_list()],
            "counts": model.item_counts.tolist(),
            "customers": np.round(customer_coordinates(drawn.coordinates, sample, stars), 4).tolist(),
            "description": drawn.description(),
            "sample": repr(sample),
        }


def _departments(path: Path) -> dict[str, str]:
    import polars as pl

    table = pl.read_parquet(path, columns=["item", "department"])
    return dict(zip(table["item"].to_list(), table["department"].to_list(), strict=True))


def run(context: Context) -> Outcome:
    share = QUICK_SHARE if context.quick else 1
    found: dict[str, Mapping[str, Any]] = {}
    spaces: tuple[Space, ...] = ("hyperbolic", "flat")
    for space in spaces:
        config = SyntheticConfig(
            customers=CUSTOMERS // share, items=ITEMS // share, interactions=INTERACTIONS // share, space=space
        )
        shop = Shop(config, VALIDATION // share)
        key = {"shop": repr(config), "validation": VALIDATION // share, "test_days": TEST_DAYS}
        numbers, popular, *results = context.run(
            [
                Part(f"{space} shop", key, shop.numbers),
                Part(f"{space}, best sellers", key | {"asked": ASKED}, shop.best_sellers),
                *(
                    Part(
                        f"{space}, {trial.name}",
                        key | {"config": trial.config.to_dict(), "asked": ASKED},
                        partial(shop.learn, trial.config),
                    )
                    for trial in TRIALS
                ),
            ]
        )
        trials = {trial.name: result for trial, result in zip(TRIALS, results, strict=True)}
        found[space] = {"numbers": numbers, "best_sellers": popular, "trials": trials}
        if space == "hyperbolic":
            sizes = {"customers": MAP_CUSTOMERS, "items": MAP_ITEMS, "stars": MAP_STARS, "config": MAP.to_dict()}
            (drawn,) = context.run([Part("map", key | sizes, shop.drawn)])
    settings = {
        "trials": {trial.name: trial.config.to_dict() for trial in TRIALS},
        "shops": {"customers": CUSTOMERS // share, "items": ITEMS // share, "interactions": INTERACTIONS // share},
        "validation": VALIDATION // share,
        "test_days": TEST_DAYS,
        "map": MAP.to_dict(),
    }
    return outcome_of(found, drawn, settings, [(trial.settings, trial.config) for trial in TRIALS])


EXPERIMENT = Experiment("asos", "The commercial data set in shape: a year of a synthetic shop", run)
