"""`lorentzrec tune`: good hyper-parameters for a dataset, for the hyperboloid and its Euclidean twin."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import require_dataset
from lorentzrec.cli.output import print_result, say, table
from lorentzrec.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.studies.search import Tuned

TRIALS_SHOWN = 5


def tune(
    data: str,
    *,
    out: Path | None = None,
    geometry: Literal["hyperboloid", "euclidean", "both"] = "both",
    trials: int = 30,
    time: float | None = None,
    metric: str = "ndcg@20",
    parallel: int = 1,
    users: int = 10_000,
    settings: list[str] | None = None,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Search for good hyper-parameters by validation.

    Trials are validated on the dataset's validation part. Without one, the last training event of every customer is
    held out, or a random tenth of the training events if they have no times. Trials that fall behind are pruned.

    Run the same command again to resume, with more --trials if you like. The best settings are written as files for
    train --config and compare --config.

    $ lorentzrec tune shop
    $ lorentzrec tune shop --trials 60 --metric recall@20 --set dimension=64 --parallel 2
    $ lorentzrec tune shop --geometry hyperboloid --time 3600

    data DATASET: A dataset; its test part is not used.
    out: Folder for trials and configs. Default: DATASET-tuning in the current folder.
    geometry: What is searched; both get the same number of trials.
    trials: Trials per geometry, including those of earlier runs.
    time SECONDS: Start no further trial after this time.
    metric: What is maximised: hr, recall, ndcg or mrr at any k.
    parallel: Trials at a time, each with its share of the cores.
    users: Validate on at most this many customers, chosen at random.
    settings NAME=VALUE: Fix a hyper-parameter. Repeatable.
    """
    from lorentzrec.studies.search import Search, read_results, write_results
    from lorentzrec.studies.search import tune as search_for
    from lorentzrec.studies.task import TuningTask

    search = Search(metric, _fixed_settings(settings or []), users, seed)
    dataset = require_dataset(data)
    folder = out or Path(f"{Path(data).name}-tuning")
    geometries = ["hyperboloid", "euclidean"] if geometry == "both" else [geometry]
    options: dict[str, Any] = {"geometries": geometries, "trials": trials, "seconds": time, "parallel": parallel}
    threads = search.base(geometries[0]).threads
    task, interrupted = TuningTask.from_parts(dataset.named_parts()), False
    try:
        search_for(task, search, folder, threads=threads, say=say, **options)
    except KeyboardInterrupt:
        interrupted = True
    results = read_results(folder, search, geometries)
    files = write_results(results, search, folder)
    print_result(
        {"metric": metric, "folder": str(folder), "results": [asdict(tuned) for tuned in results]},
        *(_trial_table(tuned, metric) for tuned in results),
        *(f"The best settings are in {path}" for path in files),
        json=json,
        notes=_notes(results),
    )
    if interrupted:
        say(f"the trials so far are in {folder}: run the same command to resume")
        raise KeyboardInterrupt


def _fixed_settings(settings: list[str]) -> dict[str, Any]:
    """The hyper-parameters that --set names, checked and converted by `TrainingConfig`."""
    from lorentzrec.model.config import TrainingConfig

    names = [setting.partition("=")[0].strip() for setting in settings]
    for name in ("geometry", "seed"):
        if name in names:
            raise ConfigError(f"--set {name}=... is fixed by --{name}: use that option")
    values = TrainingConfig().with_settings(settings).to_dict()
    return {name: values[name] for name in names}


def _trial_table(tuned: Tuned, metric: str) -> Table:
    """The best trials, and the importance of each hyper-parameter."""
    complete = sorted((row for row in tuned.trials if row.state == "complete"), key=lambda row: -(row.value or 0))
    states = [row.state for row in tuned.trials]
    pruned, failed = states.count("pruned"), states.count("failed")
    title = f"{tuned.geometry}: {Count(len(states)):trial|trials}, {pruned} pruned, {failed} failed"
    names = list(complete[0].settings) if complete else []
    rows: list[list[Any]] = [
        [row.number + 1, f"{row.value:.4f}", *(_format(row.settings.get(name)) for name in names)]
        for row in complete[:TRIALS_SHOWN]
    ]
    if tuned.importances:
        rows.append(["", "importance", *(f"{tuned.importances.get(name, 0):.0%}" for name in names)])
    return table({"trial": "right", metric: "right bold"} | dict.fromkeys(names, "right"), rows, title=title)


def _format(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _notes(results: list[Tuned]) -> list[str]:
    failed = [row for tuned in results for row in tuned.trials if row.state == "failed"]
    notes = [f"{Count(len(failed)):trial|trials} failed, the first because {failed[0].remark}"] if failed else []
    return notes + [f"no trial of the {tuned.geometry} is complete yet" for tuned in results if tuned.config is None]
