"""Beyond the paper: what changes quality. The defaults with one change at a time, evaluated on validation.

The test part is never used, so this can be run as often as needed when a default changes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import TrainingError
from lorentzrec.evaluation.protocol import evaluate, parse_cutoff
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import Part
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Table
from lorentzrec_paper.twins import DATA_SETS, DataSetTask

BASE = TrainingConfig(dimension=50, negative_count=256, epochs=20, memory="none", masses="off")
"""The defaults with fewer negatives and epochs, because there are dozens of runs."""
NAMES = ("movielens-1m", "gowalla")
USERS = 10_000
"""Customers of validation who are evaluated, at most."""
THREADS: int | None = None
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"geometry": "euclidean"},
    {"geometry": "euclidean", "score": "inner", "scale": 4.0},
    {"loss": "wmrb", "scale": 12.0},
    {"score": "inner", "scale": 4.0},
    *({"negative_count": count} for count in (64, 128, 512, 1024)),
    *({"scale": scale} for scale in (8.0, 24.0)),
    *({"learning_rate": rate} for rate in (0.15, 0.3, 1.2)),
    {"warmup_epochs": 3},
    {"learning_rate_decay": 0.0},
    *({"optimiser": "adam", "learning_rate": rate} for rate in (0.01, 0.03)),
    *({"dimension": dimension} for dimension in (16, 128, 256)),
    {"targets": "shared"},
    {"targets": "separate"},
    *({"recency": recency} for recency in (0.5, 0.9, 1.0)),
    *({"folds": folds} for folds in (2, 3, 10, 1000)),
    {"initialisation": "frequency"},
    *({"initial_width": width} for width in (0.01, 0.5)),
    *({"regularisation": weight} for weight in (0.01, 0.1)),
    *({"epochs": epochs} for epochs in (10, 40)),
)
"""Skipped are changes to what is the default anyway, or has no effect with times or without them."""
QUICK_CHANGES = 5


@dataclass(frozen=True)
class Measured:
    """One run; None where its points became infinite."""

    ndcg: float | None
    recall: float | None
    seconds: float


def measure(task: DataSetTask, context: Context) -> Table:
    """Every change on one data set."""
    found, k = context.data.find(task.name), parse_cutoff(task.metric)
    split = task.split(found)
    learned, validation = split.train, split.sample_validation(USERS)
    changes = [change for change in CHANGES if _matters(change, learned)]
    if context.quick:
        changes = changes[:QUICK_CHANGES]
    key = {"data": [learned.digest, validation.digest], "k": k}
    parts = [
        Part(
            f"{found.title}, {_words(change)}",
            {**key, "config": _resolved(change, learned).to_dict()},
            partial(_evaluate, _resolved(change, learned), learned, validation, k),
        )
        for change in changes
    ]
    results = context.run(Measured, parts)
    base = results[0].ndcg
    rows = tuple(
        (_words(change), "points became infinite", None, None, one.seconds)
        if one.ndcg is None or not base
        else (_words(change), one.ndcg, one.recall, one.ndcg / base - 1, one.seconds)
        for change, one in zip(changes, results, strict=True)
    )
    formats = {f"NDCG@{k}": ".4f", f"Recall@{k}": ".4f", "relative to the defaults": "+.1%", "training, s": ".0f"}
    return Table(f"{found.title}, validation", (Column("change", "key"), *Column.ours(formats)), rows)


def _resolved(change: dict[str, Any], data: Interactions) -> TrainingConfig:
    """Without the number of threads, on which the result does not depend."""
    return BASE.replace(**change).resolve_for(data).replace(threads=None)


def _matters(change: dict[str, Any], data: Interactions) -> bool:
    meaningless = "folds" if data.ordered else "recency"
    if meaningless in change:
        return False
    return not change or _resolved(change, data) != _resolved({}, data)


def _words(change: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items()) or "none: the defaults"


def _evaluate(config: TrainingConfig, learned: Interactions, validation: Interactions, k: int) -> Measured:
    started = time.perf_counter()
    try:
        model = train(learned, config.replace(threads=THREADS), progress=False)
    except TrainingError:
        return Measured(None, None, time.perf_counter() - started)
    seconds = time.perf_counter() - started
    report = evaluate(model, validation, k=k, intervals=False, threads=THREADS)
    return Measured(report[f"ndcg@{k}"], report[f"recall@{k}"], seconds)


def run(context: Context) -> Outcome:
    available = {one.name for one in context.find_data(NAMES)}
    notes = (
        "one seed: differences of one per cent may be due to chance",
        "the defaults are those of the data set, with 50 dimensions, 256 negatives and 20 epochs; "
        "a changed value may need other values for the rest to be at its best",
    )
    outcome = Outcome((), (), notes=notes, settings={"base": BASE.to_dict(), "changes": CHANGES})
    for task in DATA_SETS:
        if task.name in available:
            outcome = replace(outcome, tables=(*outcome.tables, measure(task, context)))
            context.write(outcome)
    return outcome


EXPERIMENT = Experiment("ablations", "Beyond the paper: what changes quality, one change at a time", run)
