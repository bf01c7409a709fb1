"""Beyond the paper: what moves quality. The defaults with one thing changed at a time, judged on validation.

The test is never looked at, so whoever changes a default can run this as often as it takes.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import TrainingError
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Table
from lorentzrec_paper.twins import DATA_SETS, Asked

BASE = TrainingConfig(dimension=50, negative_count=256, epochs=20)
"""The defaults, with fewer negatives and epochs where those are many: there are dozens of runs."""
NAMES = ("movielens-1m", "gowalla")
USERS = 10_000
"""Customers of validation who are asked."""
THREADS: int | None = None
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"geometry": "euclidean"},
    {"geometry": "euclidean", "score": "inner", "scale": 4.0},
    {"loss": "wmrb", "scale": 12.0},
    {"score": "inner", "scale": 4.0},
    *({"negative_count": count} for count in (64, 128, 512, 1024)),
    {"sampler": "popularity"},
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
"""What is changed. Skipped is what is the default anyway, or has no meaning with order or without."""
QUICK_CHANGES = 5


def measure(asked: Asked, context: Context) -> Table:
    """Every change on one data set."""
    found = context.data.find(asked.name)
    question = asked.question(found)
    learned, validation = question.train, question.sample_validation(USERS)
    changes = [change for change in CHANGES if _matters(change, learned)]
    if context.quick:
        changes = changes[:QUICK_CHANGES]
    key = {"data": [learned.digest, validation.digest], "k": cutoff_of(asked.metric)}
    parts = [
        Part(
            f"{found.title}, {_words(change)}",
            {**key, "config": _decided(change, learned).to_dict()},
            partial(_validated, _decided(change, learned), learned, validation, cutoff_of(asked.metric)),
        )
        for change in changes
    ]
    results = context.run(parts)
    base = results[0]["ndcg"]
    rows = []
    for change, one in zip(changes, results, strict=True):
        failed = one["ndcg"] is None
        rows.append(
            (
                _words(change),
                "points became infinite" if failed else one["ndcg"],
                one["recall"],
                None if failed else one["ndcg"] / base - 1,
                one["seconds"],
            )
        )
    k = cutoff_of(asked.metric)
    formats = {f"NDCG@{k}": ".4f", f"Recall@{k}": ".4f", "against the defaults": "+.1%", "training, s": ".0f"}
    return Table(f"{found.title}, validation", (Column("changed", "key"), *Column.ours(formats)), tuple(rows))


def _decided(change: dict[str, Any], data: Interactions) -> TrainingConfig:
    """Without the number of threads, which is no part of what is measured."""
    return BASE.replace(**change).resolve_for(data).replace(threads=None)


def _matters(change: dict[str, Any], data: Interactions) -> bool:
    meaningless = "folds" if data.ordered else "recency"
    if meaningless in change:
        return False
    return not change or _decided(change, data) != _decided({}, data)


def _words(change: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items()) or "nothing: the defaults"


def _validated(config: TrainingConfig, learned: Interactions, validation: Interactions, k: int) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        model = train(learned, config.replace(threads=THREADS), progress=False)
    except TrainingError:
        return {"ndcg": None, "recall": None, "seconds": time.perf_counter() - started}
    seconds = time.perf_counter() - started
    report = evaluate(model, validation, k=k, intervals=False, threads=THREADS)
    return {"ndcg": report[f"ndcg@{k}"], "recall": report[f"recall@{k}"], "seconds": seconds}


def run(context: Context) -> Outcome:
    at_hand = {one.name for one in context.available(NAMES)}
    asked = [one for one in DATA_SETS if one.name in at_hand]
    tables: list[Table] = []
    notes = (
        "one seed: differences of one per cent may be chance",
        "the defaults are those of the data set, with 50 dimensions, 256 negatives and 20 epochs; "
        "what is changed may not be at its own best",
    )
    outcome = Outcome((), ())
    for one in asked:
        tables.append(measure(one, context))
        outcome = Outcome(tuple(tables), (), notes=notes, settings={"base": BASE.to_dict(), "changes": CHANGES})
        context.publish(outcome)
    return outcome


EXPERIMENT = Experiment("ablations", "Beyond the paper: what moves quality, one change at a time", run)
