"""Hyper-parameter search, with the same number of trials for the hyperboloid and for its Euclidean twin.

The value of a trial is its last epoch's metric on the validation part, so that the best config can be trained again
without validation. Trials that fall behind are pruned. All trials are in a journal on disk, from which a stopped search
resumes.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_file, write_text
from lorentzrec.base.library_faults import require_extra
from lorentzrec.base.threads import available_cores
from lorentzrec.errors import InputError, TrainingError
from lorentzrec.evaluation.protocol import parse_cutoff
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.search_spaces import NEEDS_ORDER, OTHER_SCORE, SPACES, Between, Space
from lorentzrec.studies.task import TuningTask

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.model.record import EpochRecord

JOURNAL = "trials.journal"
STOPPED = "stopped"
"""The study's list of trials that were interrupted: they do not count, and their settings are tried again."""
VALIDATE_EVERY = 4
"""Epochs between two validations: on sparse data, validating takes as long as training."""
STARTUP_TRIALS = 8
"""Random trials before the sampler uses their results, and before any is pruned."""


@dataclass(frozen=True)
class Search:
    """What is searched. A search can resume another one whose fields are equal."""

    metric: str
    settings: dict[str, Any]
    """Fixed hyper-parameters, by name."""
    validation_users: int = 10_000
    """Validate on at most this many customers, chosen at random."""
    seed: int = 0
    first: tuple[dict[str, Any], ...] = ()
    """Settings that are tried after the defaults, before any that the sampler chooses."""

    def base(self, geometry: str) -> TrainingConfig:
        """The config that all trials of a geometry share."""
        return TrainingConfig.from_mapping({"seed": self.seed} | self.settings | {"geometry": geometry})

    def space(self, geometry: str, *, ordered: bool) -> Space:
        """The search space of a geometry, without what is fixed or has no effect on such data."""
        base = self.base(geometry)
        space = SPACES[base.model, geometry]
        unused = NEEDS_ORDER if not ordered or base.history == "folds" else frozenset()
        return {name: where for name, where in space.items() if name not in self.settings and name not in unused}


@dataclass(frozen=True)
class TrialRow:
    """One finished trial."""

    geometry: str
    number: int
    state: str
    """complete, pruned (fell behind) or failed."""
    value: float | None
    """The metric after the last epoch it ran."""
    epochs: int
    seconds: float
    settings: dict[str, Any]
    remark: str = ""


@dataclass(frozen=True)
class Tuned:
    """The result for one geometry."""

    geometry: str
    config: TrainingConfig | None
    """To be trained on everything before the test; None while no trial is complete."""
    value: float | None
    trials: tuple[TrialRow, ...]
    importances: dict[str, float]
    """The share of each hyper-parameter in the differences between trials; empty with few trials."""


def tune(
    task: TuningTask,
    search: Search,
    folder: str | Path,
    *,
    geometries: Sequence[str] = ("hyperboloid", "euclidean"),
    trials: int = 30,
    seconds: float | None = None,
    parallel: int = 1,
    threads: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Tuned]:
    """Run trials until each geometry has `trials` of them, those of earlier runs in `folder` included.

    Geometries take turns, so that both have the same number of trials whenever the search ends. `seconds`: start no new
    turn after that. `parallel`: trials at a time, each in its own process with an equal share of the `threads`.
    A search that ends early, by Ctrl-C or otherwise, can be resumed from the folder.
    """
    parse_cutoff(search.metric)
    cores = threads or available_cores()
    if not 1 <= parallel <= cores:
        raise InputError(f"parallel={parallel} with {cores} threads: each trial needs one, give 1 to {cores}")
    if trials < 1:
        raise InputError(f"trials={trials}: give at least 1")
    folder = Path(folder)
    for geometry in geometries:
        _begin(_study(folder, geometry, search), task, search)
    worker = _Worker(
        train=task.train,
        validation=task.sample_validation(search.validation_users),
        search=search,
        folder=folder,
        geometries=tuple(geometries),
        trials=trials,
        threads=cores // parallel,
        ends=None if seconds is None else time.time() + seconds,
    )
    if parallel == 1:
        worker.run(nullcontext(), say)
    else:
        _in_processes(worker, parallel, say)
    return read_results(folder, search, geometries)


def read_results(folder: str | Path, search: Search, geometries: Sequence[str]) -> list[Tuned]:
    """The results of all trials so far."""
    results = []
    for geometry in geometries:
        study = _study(Path(folder), geometry, search)
        rows = tuple(_row(geometry, trial) for trial in _counted(study) if trial.state.is_finished())
        complete = [row for row in rows if row.state == "complete"]
        best = max(complete, key=lambda row: row.value or 0.0, default=None)
        config = search.base(geometry).replace(**best.settings) if best else None
        results.append(Tuned(geometry, config, best.value if best else None, rows, _importances(study)))
    return results


def write_results(results: Sequence[Tuned], search: Search, folder: Path) -> list[Path]:
    """Write the best config of each geometry, and one table of all trials; returns the files of the configs."""
    files = []
    for tuned in results:
        if tuned.config is not None:
            files.append(folder / f"{tuned.geometry}.toml")
            remark = f"{search.metric} {tuned.value:.4f} on validation, the best of {len(tuned.trials)} trials"
            write_toml(tuned.config, files[-1], [remark])
    rows = [row for tuned in results for row in tuned.trials]
    names = sorted({name for row in rows for name in row.settings})
    with atomic_file(folder / "trials.csv") as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["geometry", "trial", "state", search.metric, "epochs", "seconds", *names, "remark"])
        for row in rows:
            cells = [row.geometry, row.number + 1, row.state, row.value, row.epochs, round(row.seconds, 1)]
            writer.writerow([*cells, *(row.settings.get(name) for name in names), row.remark])
    return files


def write_toml(config: TrainingConfig, path: str | Path, remarks: Sequence[str] = ()) -> None:
    """Write a config as a file for `lorentzrec train --config`, without `threads` and what is chosen from the data."""
    values = {name: value for name, value in config.to_dict().items() if value is not None and name != "threads"}
    lines = [f"# {remark}" for remark in remarks] + [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    write_text(path, "\n".join(lines) + "\n")


@dataclass(frozen=True)
class _Worker:
    """Runs trials one after another, alone or in parallel with other workers."""

    train: Interactions
    validation: Interactions
    search: Search
    folder: Path
    geometries: tuple[str, ...]
    trials: int
    threads: int
    ends: float | None

    def run(self, turn: Any, say: Callable[[str], None]) -> None:
        """`turn`: a lock that is held while the next trial is chosen, so that none is run twice."""
        while True:
            with turn:
                taken = self._next()
            if taken is None:
                return
            geometry, study, trial = taken
            self._try(geometry, study, trial)
            row = _row(geometry, study.get_trials(deepcopy=False)[trial.number])
            value = "" if row.value is None else f", {self.search.metric} {row.value:.4f}"
            say(f"{geometry} trial {row.number + 1}: {row.state}{value}, {row.seconds:.1f} s")

    def _next(self) -> tuple[str, Study, Trial] | None:
        """A trial of the geometry that has the fewest; None when all have enough, or time is up between turns."""
        studies = {geometry: _study(self.folder, geometry, self.search) for geometry in self.geometries}
        counts = {geometry: len(_counted(study)) for geometry, study in studies.items()}
        geometry = min(counts, key=counts.__getitem__)
        late = self.ends is not None and time.time() >= self.ends and len(set(counts.values())) == 1
        if counts[geometry] >= self.trials or late:
            return None
        return geometry, studies[geometry], studies[geometry].ask()

    def _try(self, geometry: str, study: Study, trial: Trial) -> None:
        from optuna import TrialPruned
        from optuna.trial import TrialState

        from lorentzrec.learning.trainer import train

        space = self.search.space(geometry, ordered=self.train.ordered)
        base = self.search.base(geometry)
        config = base.replace(**{name: _suggest(trial, name, where) for name, where in space.items()})
        # Patience beyond the last epoch: the value is that of the last epoch, not of the best.
        config = config.replace(threads=self.threads, validation=0.0, patience=2**31)
        metric, values = self.search.metric, [0.0]

        def report(record: EpochRecord) -> None:
            if record.validation is None:
                return
            values.append(record.validation[metric])
            trial.report(values[-1], record.epoch)
            if trial.should_prune():
                raise TrialPruned

        try:
            train(
                self.train,
                config.replace(memory="none"),  # trials are compared by their points
                validation=self.validation,
                progress=False,
                metric=metric,
                # Earlier values are for the pruner, which needs trials to compare with.
                validate_every=VALIDATE_EVERY if self.trials > STARTUP_TRIALS else 2**31,
                callbacks=[report],
            )
        except TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
        except TrainingError as error:
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, values[-1])


def _in_processes(worker: _Worker, count: int, say: Callable[[str], None]) -> None:
    """Run workers in parallel. In processes, because the limit on BLAS threads that training sets is per process."""
    context = multiprocessing.get_context("spawn")
    turn, lines = context.Lock(), context.SimpleQueue()
    processes = [context.Process(target=_work, args=(worker, turn, lines), daemon=True) for _ in range(count)]
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes) or not lines.empty():
            if lines.empty():
                time.sleep(0.2)
            else:
                say(lines.get())
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if any(process.exitcode for process in processes):
        raise TrainingError("a process of the search failed: see above, and run the command again to resume")


def _work(worker: _Worker, turn: Any, lines: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    worker.run(turn, lines.put)


def _study(folder: Path, geometry: str, search: Search) -> Study:
    with require_extra("tune", "tuning needs Optuna"):
        with warnings.catch_warnings():  # of tqdm, in notebooks without ipywidgets: its bars are not used here
            warnings.filterwarnings("ignore", message="IProgress not found")
            import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL))),
        study_name=geometry,
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=2),
    )
    # The seed depends on the number of trials, so that a resumed run does not draw its first trials again.
    study.sampler = optuna.samplers.TPESampler(
        n_startup_trials=STARTUP_TRIALS, seed=search.seed + len(study.get_trials(deepcopy=False))
    )
    return study


def _begin(study: Study, task: TuningTask, search: Search) -> None:
    """Refuse the trials of another search, and enqueue those that were running when an earlier run stopped. The first
    trial is the defaults, as far as they are in the space, so that no search ends below them; the second is the other
    score, with its own scale."""
    from optuna.trial import TrialState

    wanted = {
        "data": task.train.digest,
        "validation": task.validation.digest,
        "metric": search.metric,
        "settings": search.settings,
        "users": search.validation_users,
        "seed": search.seed,
        "first": list(search.first),
    }
    before = study.user_attrs.get("question", wanted)
    if before != wanted:
        differing = ", ".join(name for name in wanted if before.get(name) != wanted[name])
        raise InputError(f"the folder holds trials of another search (other {differing}): choose another --out")
    study.set_user_attr("question", wanted)
    if not study.get_trials(deepcopy=False):
        space = search.space(study.study_name, ordered=task.train.ordered)
        values = search.base(study.study_name).resolve_for(task.train).to_dict()
        defaults = {name: values[name] for name, where in space.items() if where.contains(values[name])}
        study.enqueue_trial(defaults)
        others = [OTHER_SCORE] if {"score", "scale"} <= space.keys() else []
        for settings in (*others, *search.first):
            study.enqueue_trial(defaults | settings)
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.set_user_attr(STOPPED, [*study.user_attrs.get(STOPPED, []), trial.number])
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def _suggest(trial: Trial, name: str, where: Any) -> Any:
    if isinstance(where, Between):
        return trial.suggest_float(name, where.low, where.high, log=where.logarithmic)
    return trial.suggest_categorical(name, where.values)


def _counted(study: Study) -> list[FrozenTrial]:
    """The trials that were started, without those that were interrupted."""
    from optuna.trial import TrialState

    interrupted = study.user_attrs.get(STOPPED, [])
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state != TrialState.WAITING and trial.number not in interrupted
    ]


def _row(geometry: str, trial: FrozenTrial) -> TrialRow:
    epochs = max(trial.intermediate_values, default=0)
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    value = trial.intermediate_values.get(epochs)
    seconds = trial.duration.total_seconds() if trial.duration is not None else 0.0
    error = trial.user_attrs.get("error", "")
    return TrialRow(geometry, trial.number, state, value, epochs, seconds, dict(trial.params), error)


def _importances(study: Study) -> dict[str, float]:
    """By PED-ANOVA, which is fast but needs some trials to separate good ones from others."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    if len(study.get_trials(states=(TrialState.COMPLETE,))) < 2 * STARTUP_TRIALS:
        return {}
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
