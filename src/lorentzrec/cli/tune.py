"""`lorentzrec tune`: good hyper-parameters for a dataset, for the hyperboloid and for its Euclidean twin."""

from __future__ import annotations

import csv
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.atomic import atomic_file
from lorentzrec.cli.events import dataset_at, parts_of
from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    from lorentzrec.tuning.search import Search, Tuned

TRIALS_SHOWN = 5


class Geometries(StrEnum):
    """What is searched."""

    hyperboloid = "hyperboloid"
    euclidean = "euclidean"
    both = "both"


def tune(
    data: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset; its test part is never looked at.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for trials and configs.", show_default="DATASET-tuning, here")
    ] = None,
    geometry: Annotated[Geometries, typer.Option(help="What is searched; both get the same trials.")] = Geometries.both,
    trials: Annotated[int, typer.Option(help="Trials for each geometry, those of earlier runs included.")] = 30,
    time: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Begin no further trial after this time.", show_default="none"),
    ] = None,
    metric: Annotated[str, typer.Option(help="What a trial is worth: hr, recall, ndcg or mrr at any k.")] = "ndcg@20",
    parallel: Annotated[int, typer.Option(help="Trials at a time, each with its share of the cores.")] = 1,
    users: Annotated[int, typer.Option(help="Validate on at most so many customers, drawn at random.")] = 10_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Fix a hyper-parameter; may be given again."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes what is drawn.")] = 0,
    json: Json = False,
) -> None:
    """Search for good hyper-parameters, by validation.

    Trials are validated on the dataset's validation part; without one, on the last training event of everybody, or on a
    random tenth of the training events if they have no times. Trials that fall behind are ended early.

    Run the same command again to go on from where it stopped, with more --trials if you like. The best settings are
    written as files for train --config and compare --config.
    """
    from lorentzrec.tuning.search import Search, found
    from lorentzrec.tuning.search import tune as search_for
    from lorentzrec.tuning.task import Question

    search = Search(metric, _fixed(settings or []), users, seed)
    dataset = dataset_at(data)
    if dataset is None:
        raise InputError(f"{data} is not a dataset: make one with lorentzrec prepare")
    folder = out or Path(f"{Path(data).name}-tuning")
    geometries = ["hyperboloid", "euclidean"] if geometry is Geometries.both else [geometry.value]
    options: dict[str, Any] = {"geometries": geometries, "trials": trials, "seconds": time, "parallel": parallel}
    threads = search.base(geometries[0]).threads
    question, interrupted = Question.of_parts(parts_of(dataset)), False
    try:
        search_for(question, search, folder, threads=threads, say=say, **options)
    except KeyboardInterrupt:
        interrupted = True
    results = found(folder, search, geometries)
    files = _write(results, search, folder)
    if json:
        print_json({"metric": metric, "folder": str(folder), "results": [_result(tuned) for tuned in results]})
    else:
        for tuned in results:
            show(_trial_table(tuned, metric))
        for path in files:
            show(f"The best settings are in {path}")
    note(_remarks(results))
    if interrupted:
        say(f"{folder} remains: the same command goes on from there")
        raise KeyboardInterrupt


def _fixed(settings: list[str]) -> dict[str, Any]:
    """The hyper-parameters that --set names, checked and typed by their owner."""
    from lorentzrec.model.config import TrainingConfig

    names = [setting.partition("=")[0].strip() for setting in settings]
    for name in ("geometry", "seed"):
        if name in names:
            raise ConfigError(f"--set {name}=... is fixed by --{name}: use that option")
    values = TrainingConfig().with_settings(settings).to_dict()
    return {name: values[name] for name in names}


def _write(results: list[Tuned], search: Search, folder: Path) -> list[Path]:
    """The best config of each geometry, and one table of all trials."""
    from lorentzrec.tuning.search import write_toml

    files = []
    for tuned in results:
        if tuned.config is not None:
            files.append(folder / f"{tuned.geometry}.toml")
            worth = f"{search.metric} {tuned.value:.4f} on validation, the best of {len(tuned.trials)} trials"
            write_toml(tuned.config, files[-1], [worth])
    rows = [row for tuned in results for row in tuned.trials]
    names = sorted({name for row in rows for name in row.settings})
    with atomic_file(folder / "trials.csv") as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["geometry", "trial", "state", search.metric, "epochs", "seconds", *names, "remark"])
        for row in rows:
            cells = [row.geometry, row.number + 1, row.state, row.value, row.epochs, round(row.seconds, 1)]
            writer.writerow([*cells, *(row.settings.get(name) for name in names), row.remark])
    return files


def _result(tuned: Tuned) -> dict[str, Any]:
    return {
        "geometry": tuned.geometry,
        "value": tuned.value,
        "config": None if tuned.config is None else tuned.config.to_dict(),
        "trials": [vars(row) for row in tuned.trials],
        "importances": tuned.importances,
    }


def _trial_table(tuned: Tuned, metric: str) -> Any:
    """The best trials, and what mattered."""
    complete = sorted((row for row in tuned.trials if row.state == "complete"), key=lambda row: -(row.value or 0))
    states = [row.state for row in tuned.trials]
    title = (
        f"{tuned.geometry}: {len(states)} trials, {states.count('pruned')} ended early, {states.count('failed')} failed"
    )
    names = list(complete[0].settings) if complete else []
    rows: list[list[Any]] = [
        [row.number + 1, f"{row.value:.4f}", *(_short(row.settings.get(name)) for name in names)]
        for row in complete[:TRIALS_SHOWN]
    ]
    if tuned.importances:
        rows.append(["", "matters", *(f"{tuned.importances.get(name, 0):.0%}" for name in names)])
    return table({"trial": "right", metric: "right bold"} | dict.fromkeys(names, "right"), rows, title=title)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _remarks(results: list[Tuned]) -> list[str]:
    failed = [row for tuned in results for row in tuned.trials if row.state == "failed"]
    remarks = [f"{len(failed)} trials failed, the first because {failed[0].remark}"] if failed else []
    return remarks + [f"no trial of the {tuned.geometry} is complete yet" for tuned in results if tuned.config is None]
