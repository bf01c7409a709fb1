"""`lorentzrec evaluate`: the quality of a model, by full ranking and by the paper's sampled protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.base.counting import with_counts
from lorentzrec.cli.inputs import dataset_at, events_at, require_dataset, require_test, split_ids
from lorentzrec.cli.options import event_file_options, refuse_options
from lorentzrec.cli.output import print_result, progress, say, table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.evaluation.protocol import Recommender
    from lorentzrec.evaluation.report import Report
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.model.model import Model


@event_file_options
def evaluate(
    context: typer.Context,
    model: Path,
    data: str,
    *,
    k: list[int] | None = None,
    metrics: str | None = None,
    candidates: str = "unseen",
    baselines: bool = False,
    cold: bool = False,
    share: Annotated[float, typer.Option(min=0, max=1)] = 0.2,
    users: int | None = None,
    negatives: int = 100,
    seed: int = 0,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Rank the held-out items among all items and among sampled ones, with 95 % intervals.

    To hold events out, prepare a dataset with --split, train on it, and evaluate on the same dataset. Held-out events
    can also be files: then the histories are those that the model was trained on.

    $ lorentzrec evaluate model shop
    $ lorentzrec evaluate model shop -k 10 -k 20 --baselines
    $ lorentzrec evaluate model shop --cold
    $ lorentzrec evaluate model shop --candidates all --baselines
    $ lorentzrec evaluate model later-events.csv --users 10000 --json
    $ lorentzrec evaluate model shop --metrics ndcg,map,novelty,diversity,gini

    data: A dataset with a test part, or files of held-out events.
    k: Length of the lists. Repeatable. Default: 10.
    metrics: Names separated by commas: hr, recall, ndcg, mrr, precision, map; for full ranking also popularity,
        coverage, novelty, diversity, gini. Default: hr, recall, ndcg, mrr, popularity and coverage; sampled: hr, ndcg.
    cold: Evaluate items without events: train again with the settings of the model, with and without attributes, but
        without the events of some items, and rank those items by their attributes, next to baselines.
    share: Share of the items that --cold leaves without events.
    candidates: What full ranking ranks, and what is to be found. unseen: items that are not in the history, and all
        held-out ones. all: every item, for shops whose customers buy again. new or repeats: items that are not, or that
        are, in the history. Only unseen has sampled ranking as well.
    baselines: Also evaluate popularity and item-kNN; with the candidates all or repeats also what each customer bought
        most often.
    users: Evaluate this many customers, chosen at random. Default: all.
    negatives: Items that each held-out item is ranked among in the sampled protocol.
    seed: Random seed, for customers, negatives and intervals.
    """
    if cold:
        refuse_options(context, ("metrics", "candidates", "baselines", "users", "negatives"), "--cold")
        if k is not None and len(k) > 1:
            raise InputError(f"--cold evaluates lists of one length: give one -k, not {len(k)}")
        return _evaluate_cold(model, data, (k or [10])[0], share, seed, json, file_options)
    refuse_options(context, ("share",), "evaluate without --cold")
    from lorentzrec.evaluation.baselines import ItemKNN, Popularity
    from lorentzrec.evaluation.held_out import check_candidates
    from lorentzrec.evaluation.protocol import evaluate_systems
    from lorentzrec.evaluation.shop_baselines import OwnFrequency
    from lorentzrec.model.artifact import load

    trained = load(model)
    test, histories, notes = _read_test(data, trained, file_options)
    systems: dict[str, Recommender] = {"model": trained}
    if baselines:
        if trained.histories is None:
            raise InputError(f"{model} was saved without the histories that baselines need: leave --baselines out")
        systems |= {"popularity": Popularity(trained.histories), "item-kNN": ItemKNN(trained.histories)}
        if candidates in ("all", "repeats"):
            systems["own frequency"] = OwnFrequency(trained.histories)
    with progress("Ranking", 1.0) as done:
        reports = evaluate_systems(
            systems,
            test,
            k or [10],
            histories=histories,
            candidates=check_candidates(candidates),
            users=users,
            negatives=negatives,
            metrics=None if metrics is None else split_ids([metrics]),
            seed=seed,
            watch=done,
        )
    both = reports["model"]
    degrees = _measure_angles(trained)
    shown: list[Any] = [report_table(reports)]
    if degrees is not None:
        angles = f"the angles of a triangle of items are {degrees:.1f} degrees together"
        shown.append(f"Curvature used: {angles}, in flat space 180")
    return print_result(
        {"model": str(model), "data": data, "systems": to_dict(reports), "triangle_degrees": degrees, "notes": notes},
        *shown,
        json=json,
        notes=dict.fromkeys([*notes, *(note for report in both.values() for note in report.notes)]),
    )


def _measure_angles(model: Model) -> float | None:
    """The mean sum of the angles of triangles of items in degrees; None in flat space, or without triangles."""
    if not model.config.hyperbolic:
        return None
    from lorentzrec.geometry.triangles import mean_angle_sum

    degrees = mean_angle_sum(model.item_points)
    return None if math.isnan(degrees) else degrees


def _evaluate_cold(
    model: Path, data: str, k: int, share: float, seed: int, json: bool, file_options: dict[str, str | None]
) -> None:
    from lorentzrec.data.splitting import events_to_train_on
    from lorentzrec.model.artifact import load
    from lorentzrec.studies.cold_start import evaluate_cold

    dataset = require_dataset(data, "--cold", **file_options)
    attributes = dataset.attributes()
    if attributes is None:
        raise InputError(f"{data} has no attributes: make a dataset with lorentzrec prepare --items --attributes")
    parts = require_test(dataset)
    config = _find_settings(load(model), next(iter(parts.values())))
    options: dict[str, Any] = {"share": share, "seed": seed, "k": k, "say": say, "histories": parts.get("history")}
    found = list(evaluate_cold(events_to_train_on(parts), parts["test"], attributes, config, **options))
    metric = f"ndcg@{k}"
    rows = [
        (
            one.system,
            *("" if report is None else str(report.metrics[metric]) for report in (one.cold, one.all, one.warm)),
        )
        for one in found
    ]
    columns = {"system": "left bold", "cold among cold": "left", "cold among all": "left", "warm": "left"}
    print_result(
        {
            "model": str(model),
            "data": data,
            "metric": metric,
            "share": share,
            "systems": [one.to_dict() for one in found],
        },
        table(columns, rows, title=f"{metric.upper()} without the events of {share:.0%} of the items"),
        json=json,
    )


def _find_settings(model: Model, events: Interactions) -> TrainingConfig:
    """The config of a model, with its learning rate left open if it is what training on these events would choose."""
    from lorentzrec.model.config import TrainingConfig

    config = TrainingConfig(**model.config.to_dict())
    open_rate = config.replace(learning_rate=None)
    chosen = open_rate.resolve_for(events, attributes=model.attributes is not None)
    return open_rate if chosen.learning_rate == config.learning_rate else config


def to_dict(reports: Mapping[str, Mapping[str, Report]]) -> dict[str, Any]:
    return {system: {how: report.to_dict() for how, report in both.items()} for system, both in reports.items()}


def report_table(reports: Mapping[str, Mapping[str, Report]], metrics: Sequence[str] | None = None) -> Table:
    """One row per metric and system, with one column for full and one for sampled ranking, if it is there."""
    first = next(iter(reports.values()))
    counts = first["full"].counts
    systems = {} if len(reports) == 1 else {"system": "left"}
    columns = {"metric": "left bold"} | systems
    columns |= {"full ranking": "left"}
    if "sampled" in first:
        columns |= {f"sampled, {first['sampled'].counts['negatives']} negatives": "left"}
    rows = []
    for name in metrics or list(first["full"].metrics):
        for row, (system, both) in enumerate(reports.items()):
            cells = [str(report.metrics[name]) if name in report.metrics else "" for report in both.values()]
            rows.append([name if row == 0 else "", *([system] if systems else []), *cells])
    title = with_counts(
        "{events:held-out item|held-out items} of {users:customer|customers}, with 95 % intervals", counts
    )
    return table(columns, rows, title=title)


def _read_test(
    data: str, model: Model, file_options: dict[str, str | None]
) -> tuple[Interactions, Interactions | None, list[str]]:
    """The test events, the histories before them (None: the model's own), and notes."""
    from lorentzrec.data.splitting import before_test

    dataset = dataset_at(data, **file_options)
    if dataset is None:
        from lorentzrec.learning.new_events import with_types_of

        return with_types_of(model, events_at(data, **file_options)), None, []
    parts = require_test(dataset)
    notes = []
    if next(iter(parts.values())).digest != model.data_digest:
        notes.append(
            "the model was not trained on this dataset's training part, so held-out events may be in its training data"
        )
    return parts["test"], before_test(parts), notes
