"""Beyond the paper: the hyperboloid against its Euclidean twin, each as good as equally many trials can make it.

The twins run through the same code and search the same hyper-parameters. Settings are chosen on a validation part of
training, at one dimension, and reused at the others; then each model is trained on everything before the test, with
several seeds, and the test is ranked in full.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lorentzrec import __version__
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import TrainingError
from lorentzrec.model.config import TrainingConfig
from lorentzrec.tuning.comparison import GEOMETRIES, Comparer, geometry_table
from lorentzrec.tuning.parts import Part
from lorentzrec.tuning.search import Search, tune
from lorentzrec.tuning.search_spaces import SPACES
from lorentzrec.tuning.task import TuningTask
from lorentzrec_paper.data_sets import FoundData, five_core_name
from lorentzrec_paper.experiment import Context, Experiment, Outcome
from lorentzrec_paper.twins_report import outcome_of

DIMENSIONS: tuple[int, ...] = (10, 50, 128)
SEEDS: tuple[int, ...] = (0, 1, 2)
SETTINGS: dict[str, Any] = {"model": "asymmetric", "dimension": 50, "negative_count": 256, "epochs": 20}
"""What all trials have in common: fewer negatives and epochs than the defaults, as there are hundreds of trials."""
THREADS: int | None = None
"""None: all cores. One would give the same bits again."""


@dataclass(frozen=True)
class Asked:
    """A data set, and what is asked of it."""

    name: str
    trials: int = 30
    """For each geometry."""
    metric: str = "ndcg@10"
    minimum_rating: float = 2.0
    """Whole stars: the paper's "rating score > 1"."""
    given_split: bool = False

    def question(self, found: FoundData) -> TuningTask:
        """The test is a customer's last event and validation the one before, or the test is that of the files and
        validation a random tenth of training."""
        if self.given_split:
            train, test = found.given_split()
            return TuningTask.from_parts({"train": train, "test": test})
        train, validation, test = found.interactions(minimum_rating=self.minimum_rating).split("leave_last_two")
        return TuningTask.from_parts({"train": train, "validation": validation, "test": test})


DATA_SETS = (
    Asked(five_core_name("Tools_and_Home_Improvement")),
    Asked(five_core_name("Toys_and_Games")),
    Asked(five_core_name("Clothing_Shoes_and_Jewelry")),
    Asked(five_core_name("Sports_and_Outdoors")),
    Asked("movielens-1m", minimum_rating=4.0),
    Asked("gowalla", trials=10, metric="ndcg@20", given_split=True),
)
"""The smallest first, so that there is something to read soon."""
QUICK = (DATA_SETS[0].name, "movielens-1m")
QUICK_TRIALS = 2


def measure(
    asked: Asked, found: FoundData, dimensions: Sequence[int], seeds: Sequence[int], context: Context
) -> dict[str, Any]:
    """Choose, then test: all about one data set."""

    def say(line: str) -> None:
        context.say(f"{found.title}: {line}")

    question = asked.question(found)
    search = Search(asked.metric, SETTINGS)
    tuned = _chosen(question, search, asked.trials, found, context, say)
    configs = {geometry: TrainingConfig.from_mapping(one["config"]) for geometry, one in tuned.items()}
    comparer = Comparer(question, context.parts, asked.metric, seeds, THREADS, say)
    before, test = question.before_test, question.require_test()
    return {
        "title": found.title,
        "metric": asked.metric,
        "tuned": tuned,
        "rows": geometry_table(comparer, configs, dimensions),
        "learned": repr(before),
        "test_events": len(test),
        "unseen": int((before.item_counts[test.item_rows] == 0).sum()),
    }


def _chosen(
    question: TuningTask, search: Search, trials: int, found: FoundData, context: Context, say: Callable[[str], None]
) -> dict[str, Any]:
    """Geometry -> its best settings on validation. Every trial is kept as it ends, in a folder of this search alone.

    Neither the key nor what the search is handed has the test in it: another test changes nothing here.
    """
    learned, validation = question.train, question.validation
    key = {
        "data": [learned.digest, validation.digest],
        "search": asdict(search),
        "defaults": _defaults(learned),
        "spaces": [SPACES["asymmetric", geometry] for geometry in GEOMETRIES],
        "trials": trials,
    }
    digest = hashlib.sha256(json.dumps([__version__, key], sort_keys=True).encode()).hexdigest()
    folder = context.parts.folder / "tuning" / f"{found.name}-{digest[:16]}"
    without_test = TuningTask(learned, validation, before_test=learned, test=None, histories=learned)
    make = partial(_search, without_test, search, trials, folder, say)
    (chosen,) = context.run([Part(f"tune {found.title}", key, make)])
    return dict(chosen)


def _defaults(data: Interactions) -> dict[str, Any]:
    """What a trial leaves to the package: where that changes, trials of before are not comparable with those after."""
    return TrainingConfig().resolve_for(data).replace(threads=None).to_dict()


def _search(
    question: TuningTask, search: Search, trials: int, folder: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    chosen = {}
    for tuned in tune(question, search, folder, geometries=GEOMETRIES, trials=trials, threads=THREADS, say=say):
        if tuned.config is None:
            reason = tuned.trials[0].remark
            raise TrainingError(f"no trial of the {tuned.geometry} came to its end, as {reason}: remove {folder}")
        config, states = tuned.config.to_dict(), [trial.state for trial in tuned.trials]
        chosen[tuned.geometry] = {
            "config": config,
            "settings": {name: config[name] for name in search.space(tuned.geometry, ordered=question.train.ordered)},
            "value": tuned.value,
            "trials": len(states),
            "pruned": states.count("pruned"),
            "failed": states.count("failed"),
            "seconds": sum(trial.seconds for trial in tuned.trials),
        }
    return chosen


def run(context: Context) -> Outcome:
    asked, dimensions, seeds = list(DATA_SETS), DIMENSIONS, SEEDS
    if context.quick:
        asked = [replace(one, trials=QUICK_TRIALS) for one in DATA_SETS if one.name in QUICK]
        dimensions, seeds = DIMENSIONS[:2], SEEDS[:1]
    found = {one.name: one for one in context.available([one.name for one in asked])}
    results: list[dict[str, Any]] = []
    settings = {"common": SETTINGS, "data_sets": [asdict(one) for one in asked], "seeds": seeds}
    outcome = Outcome((), ())
    for one in asked:
        if one.name not in found:
            continue
        try:
            results.append(measure(one, found[one.name], dimensions, seeds, context))
        except TrainingError as error:
            # The settings of one data set may fail at another dimension; the other data sets go on.
            context.damaged.append(f"{found[one.name].title}: {error}")
            continue
        outcome = outcome_of(results, len(found), settings)
        context.publish(outcome)
    if not results:
        raise TrainingError("; ".join(context.damaged))
    return outcome


EXPERIMENT = Experiment("twins", "Beyond the paper: the hyperboloid against its Euclidean twin, both tuned", run)
