"""`lorentzrec compare`: hyperboloid, Euclidean twin, baselines and peers, through one protocol."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.atomic import atomic_file
from lorentzrec.cli.events import dataset_at, parts_of
from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.errors import ConfigError, InputError, how_to_get

if TYPE_CHECKING:
    from lorentzrec.evaluation.significance import Comparison
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.tuning.comparison import Difference, Runs


def compare(
    data: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset with a test part.")],
    systems: Annotated[
        list[str] | None,
        typer.Option(
            help="hyperboloid, euclidean, popularity, item-knn, implicit-als or implicit-bpr; may be given again.",
            show_default="all that are installed",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each system that has chance in it.")] = 3,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="GEOMETRY=FILE", help="TOML file of hyper-parameters, such as those that tune writes."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyper-parameter of both geometries; may be given again."),
    ] = None,
    tune_baselines: Annotated[
        bool, typer.Option("--tune-baselines", help="Choose the settings of item-knn and of peers by validation.")
    ] = False,
    metric: Annotated[str, typer.Option(help="What is compared: hr, recall, ndcg or mrr at any k.")] = "ndcg@20",
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs, table and plot.", show_default="DATASET-comparison, here")
    ] = None,
    json: Json = False,
) -> None:
    """Train several systems with several seeds, rank the test, and say which differences are real.

    All learn from everything before the test and are measured by full ranking. The first system is tested against each
    of the others: over customers (do these models differ?) and over seeds (do the methods?). Runs are kept, so the same
    command goes on after Ctrl-C, and with another system or more seeds runs only what is new.
    """
    from lorentzrec.evaluation.peers import has_implicit
    from lorentzrec.tuning.comparison import PEERS, SYSTEMS, Comparer, systems_of
    from lorentzrec.tuning.parts import PartStore
    from lorentzrec.tuning.task import Question

    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: ask for at least one")
    names = systems or [name for name in SYSTEMS if name not in PEERS or has_implicit()]
    configs = _configs(config or [], settings or [])
    chosen = systems_of(names, configs)
    dataset = dataset_at(data)
    if dataset is None:
        raise InputError(f"{data} is not a dataset: make one with lorentzrec prepare")
    question = Question.of_parts(parts_of(dataset))
    question.asked_test()
    folder = out or Path(f"{Path(data).name}-comparison")
    threads = configs["hyperboloid"].threads
    comparer = Comparer(question, PartStore(folder / "runs"), metric, range(seeds), threads, say)
    if tune_baselines:
        chosen = comparer.tuned(chosen)
    runs = comparer.runs(chosen)
    differences = [comparer.difference(runs[0], other) for other in runs[1:]]
    result = _result(data, metric, seeds, runs, differences)
    with atomic_file(folder / "comparison.json") as partial:
        partial.write_text(json_format.dumps(result, indent=2), encoding="utf-8")
    plots = _plot(runs, metric, folder, Path(data).name)
    if json:
        print_json(result)
        return
    show(_table(runs, differences, metric))
    show(f"Runs, table and plot are in {folder}")
    note(_remarks(differences, seeds, plotted=bool(plots)))


def _configs(files: Sequence[str], settings: list[str]) -> dict[str, TrainingConfig]:
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.tuning.comparison import GEOMETRIES

    configs = dict.fromkeys(GEOMETRIES, TrainingConfig())
    for text in files:
        geometry, _, path = text.partition("=")
        if geometry not in GEOMETRIES or not path:
            raise ConfigError(f"--config {text!r} names no geometry: write hyperboloid=FILE or euclidean=FILE")
        configs[geometry] = TrainingConfig.from_toml(path)
    return {geometry: config.with_settings(settings) for geometry, config in configs.items()}


def _result(
    data: str, metric: str, seeds: int, runs: Sequence[Runs], differences: Sequence[Difference]
) -> dict[str, Any]:
    return {
        "data": data,
        "metric": metric,
        "seeds": seeds,
        "systems": [
            {
                "name": run.system.name,
                "value": run.value,
                "low": run.interval[0],
                "high": run.interval[1],
                "runs": list(run.values),
                "metrics": run.all_metrics,
                "training_seconds": run.seconds,
                "settings": dict(run.system.settings),
            }
            for run in runs
        ],
        "differences": [difference.to_dict() for difference in differences],
    }


def _table(runs: Sequence[Runs], differences: Sequence[Difference], metric: str) -> Any:
    from lorentzrec.evaluation.protocol import cutoff_of

    k = cutoff_of(metric)
    others = [name for name in (f"ndcg@{k}", f"recall@{k}") if name != metric]
    columns = {"system": "left bold", metric: "left", "difference": "right"}
    columns |= {"over customers": "right", "over seeds": "right", **dict.fromkeys(others, "right"), "training": "right"}
    title = "Full ranking of the test, with 95 % intervals over customers"
    if differences:
        title += f"; differences are {runs[0].system.name} less the row"
    rows = []
    for run, difference in zip(runs, [None, *differences], strict=True):
        low, high = run.interval
        tests = (
            ["", "", ""]
            if difference is None
            else [f"{difference.over_users.difference:+.4f}", _p(difference.over_users), _p(difference.over_seeds)]
        )
        values = [f"{run.all_metrics[name]:.4f}" for name in others]
        row = [run.system.name, f"{run.value:.4f} [{low:.4f}, {high:.4f}]", *tests, *values, f"{run.seconds:.1f} s"]
        rows.append(row)
    return table(columns, rows, title=title)


def _p(comparison: Comparison | None) -> str:
    return "-" if comparison is None else f"p = {comparison.p_value:.2g}"


def _plot(runs: Sequence[Runs], metric: str, folder: Path, title: str) -> list[Path]:
    """The plot as PNG and SVG; none without matplotlib, which `_remarks` then says."""
    from importlib.util import find_spec

    from lorentzrec.figures.comparison import ShownSystem, plot_comparison

    if find_spec("matplotlib") is None:
        return []
    shown = [ShownSystem(run.system.name, run.value, *run.interval, run.values) for run in runs]
    paths = [folder / "comparison.png", folder / "comparison.svg"]
    for path in paths:
        plot_comparison(shown, metric, path, title=title)
    return paths


def _remarks(differences: Sequence[Difference], seeds: int, *, plotted: bool) -> list[str]:
    remarks = []
    if len(differences) > 1:
        remarks.append(f"with {len(differences)} comparisons, ask for p below {0.05 / len(differences):.2g}")
    if seeds < 2:
        remarks.append("one seed says nothing about methods, only about these models: add --seeds 3")
    if not plotted:
        remarks.append(f"there is no plot, as matplotlib is missing: {how_to_get('plots')}")
    return remarks
