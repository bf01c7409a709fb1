"""`lorentzrec compare`: hyperboloid, Euclidean twin, baselines and other libraries, under one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.cli.inputs import TrainingData, require_dataset, split_ids
from lorentzrec.cli.output import print_result, say, table
from lorentzrec.cli.results import write_results
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.data.attributes import ItemAttributes
    from lorentzrec.ingest.dataset import Dataset
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.studies.comparison import Difference, Runs, System


def compare(
    data: str,
    *,
    systems: list[str] | None = None,
    seeds: int = 3,
    config: list[str] | None = None,
    settings: list[str] | None = None,
    tune_baselines: bool = False,
    metric: str = "ndcg@20",
    candidates: str = "unseen",
    leave_validation_out: bool = False,
    attributes: str | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Train several systems with several seeds, evaluate them on the test part, and test the differences.

    All systems are trained on everything before the test part and evaluated by full ranking. With
    --leave-validation-out they are trained on the training part alone, as in papers that choose the epoch by the
    validation part. The first system is tested against each of the others: over customers (do these models differ?)
    and over seeds (do the methods?). Finished runs are kept: the same command resumes after Ctrl-C, and another system
    or more seeds run only what is new.

    $ lorentzrec compare shop
    $ lorentzrec compare shop --seeds 5 --config hyperboloid=shop-tuning/hyperboloid.toml \
        --config euclidean=shop-tuning/euclidean.toml --tune-baselines
    $ lorentzrec compare shop --candidates all --metric ndcg@10 --tune-baselines
    $ lorentzrec compare shop --systems hyperboloid,item-knn --metric recall@20
    $ lorentzrec compare shop --attributes none --out without-attributes

    data DATASET: A dataset with a test part.
    systems: hyperboloid, euclidean, popularity, item-knn, item-item, transitions, ease, gf-cf, recent-popularity,
        own-frequency, tifu-knn, up-cf, implicit-als or implicit-bpr, separated by commas. Repeatable. Default: all
        that are installed and fit the data, except ease and gf-cf, and the four before implicit-als unless the
        candidates are all or repeats.
    seeds: Runs per non-deterministic system.
    config GEOMETRY=FILE: TOML file of hyper-parameters, such as those that tune writes. Repeatable.
    settings NAME=VALUE: A hyper-parameter of both geometries. Repeatable.
    tune_baselines: Choose the settings of item-knn and of other libraries by validation.
    metric: What is compared: hr, recall, ndcg or mrr at any k.
    candidates: What is ranked and to be found, as in evaluate: unseen, all, new or repeats.
    leave_validation_out: Do not train on the validation part. It still belongs to the histories of the customers.
    attributes COLUMNS: Attributes of the dataset that both geometries use, or none. Default: all that it was prepared
        with.
    out: Folder for runs, plot, and tables as CSV, Markdown, LaTeX and JSON. Default: DATASET-comparison in the current
        folder.
    """
    from lorentzrec.evaluation.held_out import check_candidates
    from lorentzrec.evaluation.peers import has_implicit
    from lorentzrec.studies.comparison import COSTLY, OF_SHOPS, PEERS, SYSTEMS, Comparer, make_systems
    from lorentzrec.studies.parts import PartStore
    from lorentzrec.studies.plots import plot_comparison
    from lorentzrec.studies.task import TuningTask

    if seeds < 1:
        raise ConfigError(f"--seeds is {seeds}: give 1 or more")
    configs = _read_configs(config or [], settings or [])
    dataset = require_dataset(data)
    parts = dataset.named_parts()
    without = attributes is None and any(one.model == "symmetric" for one in configs.values())
    described = None if without else TrainingData(data, dataset, {}).attributes(attributes)
    task = TuningTask.from_parts(parts)
    task.require_test()
    if leave_validation_out and "validation" not in parts:
        raise InputError(f"{data} has no validation part to leave out: prepare it with --split leave_last_two")
    left_out = (
        COSTLY | {"item-item" if task.train.ordered else "transitions"} | (set() if has_implicit() else set(PEERS))
    )
    if candidates not in ("all", "repeats") or task.train.times is None:
        left_out |= OF_SHOPS
    chosen = make_systems(split_ids(systems) or [name for name in SYSTEMS if name not in left_out], configs)
    folder = out or Path(f"{Path(data).name}-comparison")
    threads = configs["hyperboloid"].threads
    comparer = Comparer(
        task,
        PartStore(folder / "runs"),
        metric,
        range(seeds),
        threads,
        say,
        check_candidates(candidates),
        leave_validation_out,
        described,
    )
    if tune_baselines:
        chosen = comparer.tune(chosen)
    report = comparer.report(chosen)
    runs, differences = report.runs, report.differences
    result: dict[str, Any] = {
        "data": data,
        "metric": metric,
        "seeds": seeds,
        "attributes": [] if described is None else [column.name for column in described.columns],
        "trained_on": "training part" if leave_validation_out else "everything before the test part",
        "systems": [run.to_dict() for run in runs],
        "differences": [asdict(difference) for difference in differences],
    }
    plot = partial(plot_comparison, result["systems"], metric, title=Path(data).name)
    notes = _attribute_notes(dataset, described, chosen) + _notes(differences, seeds)
    notes += write_results(folder, "comparison", result, plot)
    report.to_csv(folder / "comparison.csv")
    report.to_markdown(folder / "comparison.md")
    report.to_latex(folder / "comparison.tex")
    shown = _table(runs, differences, metric), f"Runs, tables (CSV, Markdown, LaTeX, JSON) and plot are in {folder}"
    print_result(result, *shown, json=json, notes=notes)


def _read_configs(files: Sequence[str], settings: list[str]) -> dict[str, TrainingConfig]:
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.studies.comparison import GEOMETRIES

    configs = dict.fromkeys(GEOMETRIES, TrainingConfig())
    for text in files:
        geometry, _, path = text.partition("=")
        if geometry not in GEOMETRIES or not path:
            raise ConfigError(f"--config {text!r} names no geometry: write hyperboloid=FILE or euclidean=FILE")
        configs[geometry] = TrainingConfig.from_toml(path)
    return {geometry: config.with_settings(settings) for geometry, config in configs.items()}


def _table(runs: Sequence[Runs], differences: Sequence[Difference], metric: str) -> Table:
    from lorentzrec.evaluation.protocol import parse_cutoff

    k = parse_cutoff(metric)
    others = [name for name in (f"ndcg@{k}", f"recall@{k}") if name != metric]
    columns = {"system": "left bold", metric: "left", "difference": "right"}
    columns |= {"over customers": "right", "over seeds": "right", **dict.fromkeys(others, "right")}
    columns |= {"points alone": "right", "training": "right"}
    title = "Full ranking of the test part, with 95 % intervals over customers"
    if differences:
        title += f"; difference: {runs[0].system.name} minus the row"
    rows = []
    for run, difference in zip(runs, [None, *differences], strict=True):
        low, high = run.interval
        tests = ["", "", ""]
        if difference is not None:
            tests = [f"{difference.over_users.difference:+.4f}", f"p = {difference.over_users.p_value:.2g}", "-"]
            if difference.over_seeds is not None:
                tests[2] = f"p = {difference.over_seeds.p_value:.2g}"
        values = [f"{run.all_metrics[name]:.4f}" for name in others]
        values.append("" if run.points_alone is None else f"{run.points_alone:.4f}")
        rows.append(
            [run.system.name, f"{run.value:.4f} [{low:.4f}, {high:.4f}]", *tests, *values, f"{run.seconds:.1f} s"]
        )
    return table(columns, rows, title=title)


def _attribute_notes(dataset: Dataset, used: ItemAttributes | None, systems: Sequence[System]) -> list[str]:
    geometries = [system.name for system in systems if system.name in ("hyperboloid", "euclidean")]
    if not geometries or not dataset.prepared_attributes:
        return []
    if used is None:
        return ["the attributes of the dataset are not used"]
    columns = ", ".join(column.name for column in used.columns)
    return [f"attributes of items are used by {' and '.join(geometries)}: {columns}"]


def _notes(differences: Sequence[Difference], seeds: int) -> list[str]:
    notes = []
    if len(differences) > 1:
        bound = 0.05 / len(differences)
        notes.append(f"with {len(differences)} comparisons, a difference is significant at 5 % if p < {bound:.2g}")
    if seeds < 2:
        notes.append("with one seed, only these models are compared, not the methods: use --seeds 3")
    return notes
