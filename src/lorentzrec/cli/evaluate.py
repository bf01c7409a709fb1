"""`lorentzrec evaluate`: how good a model is, by full ranking and by the paper's sampled protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.events import dataset_at, events_at, parts_of
from lorentzrec.cli.options import ItemColumn, Json, ModelFolder, Reader, TimeColumn, UserColumn, WeightColumn
from lorentzrec.cli.output import note, print_json, progress, show, table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.data.vocabulary import Vocabulary
    from lorentzrec.evaluation.protocol import Recommender
    from lorentzrec.evaluation.report import Report
    from lorentzrec.model.model import Model


def evaluate(
    model: ModelFolder,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A dataset with a test part, or files of held-out events."),
    ],
    k: Annotated[
        list[int] | None, typer.Option("-k", help="Lengths of lists; may be given again.", show_default="10")
    ] = None,
    baselines: Annotated[bool, typer.Option("--baselines", help="Popularity and item neighbours beside it.")] = False,
    users: Annotated[
        int | None, typer.Option(help="Evaluate so many customers, drawn at random.", show_default="all")
    ] = None,
    negatives: Annotated[int, typer.Option(help="Items that each held-out item is ranked among when sampled.")] = 100,
    seed: Annotated[int, typer.Option(help="Fixes what is drawn: customers, negatives, intervals.")] = 0,
    reader: Reader = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    time_column: TimeColumn = None,
    weight_column: WeightColumn = None,
    json: Json = False,
) -> None:
    """Rank the held-out items, among all items and among sampled ones, with 95 % intervals.

    To hold events out, prepare a dataset with --split, train on it, and evaluate on the same dataset. Held-out events
    may also come as files: then the histories are those that the model was trained on.
    """
    from lorentzrec.evaluation.baselines import ItemKNN, Popularity
    from lorentzrec.model.artifact import load

    trained = load(model)
    test, histories, remarks = _question(
        data,
        trained,
        reader=reader,
        user_column=user_column,
        item_column=item_column,
        time_column=time_column,
        weight_column=weight_column,
    )
    systems: dict[str, Recommender] = {"model": trained}
    if baselines:
        if trained.histories is None:
            raise InputError(f"{model} carries no training histories to make baselines from: leave --baselines out")
        systems |= {"popularity": Popularity(trained.histories), "item-kNN": ItemKNN(trained.histories)}
    with progress("Ranking for every customer", 1.0) as done:
        reports = evaluated(
            systems, test, histories, k or [10], users=users, negatives=negatives, seed=seed, watch=done
        )
    if json:
        print_json({"model": str(model), "data": data, "systems": to_dict(reports), "notes": remarks})
        return
    show(comparison(reports))
    shown = reports["model"]
    note(dict.fromkeys([*remarks, *shown["full"].notes, *shown["sampled"].notes]))


def evaluated(
    systems: Mapping[str, Recommender],
    test: Interactions,
    histories: Interactions | None,
    k: Sequence[int],
    *,
    watch: Callable[[float], None] = lambda share: None,
    negatives: int = 100,
    **options: Any,
) -> dict[str, dict[str, Report]]:
    """System -> protocol -> report, for the same held-out events. `watch` is called with the share that is done."""
    from lorentzrec.evaluation.protocol import evaluate as measure

    reports: dict[str, dict[str, Report]] = {}
    for place, (name, system) in enumerate(systems.items()):

        def done(share: float, before: float) -> None:
            watch((before + share) / (2 * len(systems)))

        full, sampled = (partial(done, before=2 * place + second) for second in (0, 1))
        reports[name] = {
            "full": measure(system, test, "full", k, histories=histories, watch=full, **options),
            "sampled": measure(
                system, test, "sampled", k, histories=histories, negatives=negatives, watch=sampled, **options
            ),
        }
    return reports


def to_dict(reports: Mapping[str, Mapping[str, Report]]) -> dict[str, Any]:
    return {system: {how: report.to_dict() for how, report in both.items()} for system, both in reports.items()}


def comparison(reports: Mapping[str, Mapping[str, Report]], metrics: Sequence[str] | None = None) -> Table:
    """One line for each metric and system, full and sampled ranking side by side."""
    first = next(iter(reports.values()))
    counts = first["full"].counts
    names = metrics or list(first["full"].metrics)
    systems = {} if len(reports) == 1 else {"system": "left"}
    columns = {"metric": "left bold"} | systems
    columns |= {"full ranking": "left", f"sampled, {first['sampled'].counts['negatives']} negatives": "left"}
    rows = []
    for name in names:
        for place, (system, both) in enumerate(reports.items()):
            cells = [str(report.metrics[name]) if name in report.metrics else "" for report in both.values()]
            rows.append([name if place == 0 else "", *([system] if systems else []), *cells])
    title = f"{counts['events']:,} held-out items of {counts['users']:,} customers, with 95 % intervals"
    return table(columns, rows, title=title)


def _question(
    data: str, model: Model, **file_options: str | None
) -> tuple[Interactions, Interactions | None, list[str]]:
    """The test events, the histories before them (None: the model's own), and what a reader should know."""
    from lorentzrec.data.splitting import before_test

    dataset = dataset_at(data, **file_options)
    if dataset is None:
        test = events_at(data, **file_options)
        users = test.users if model.users is None else _typed_as(test.users, model.users)
        return replace(test, users=users, items=_typed_as(test.items, model.items)), None, []
    parts = parts_of(dataset)
    if "test" not in parts:
        raise InputError(f"{data} has no test part, only {', '.join(parts)}: prepare it with --split leave_last_out")
    remarks = []
    if next(iter(parts.values())).digest != model.data_digest:
        remarks.append("the model was not trained on this dataset's training part: it may have seen what is held out")
    return parts["test"], before_test(parts), remarks


def _typed_as(ids: Vocabulary, known: Vocabulary) -> Vocabulary:
    """A CSV file cannot say whether 7 is a number or text: where the model's ids are text, these are."""
    import polars as pl

    from lorentzrec.data.vocabulary import Vocabulary

    return Vocabulary(ids.series.cast(pl.String), name=ids.name) if known.holds_strings else ids
