"""The search: equal trials for both geometries, the defaults first, and a journal from which it resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies import search as tuning
from lorentzrec.studies.search import Search, read_results, tune, write_toml
from lorentzrec.studies.search_spaces import SPACES, Between, OneOf
from lorentzrec.studies.task import TuningTask
from tests.studies.small_data import grouped, small_task

SEARCH = Search("ndcg@5", {"dimension": 4, "epochs": 3})


def test_geometries_take_turns_and_the_defaults_come_first(tmp_path: Path) -> None:
    lines: list[str] = []
    task = small_task()
    curved, flat = tune(task, SEARCH, tmp_path, trials=3, threads=1, say=lines.append)
    assert [line.split()[0] for line in lines] == ["hyperboloid", "euclidean"] * 3
    assert [len(curved.trials), len(flat.trials)] == [3, 3]
    config = SEARCH.base("hyperboloid").resolve(ordered=True, events=720, users=40, items=30)
    first_settings = curved.trials[0].settings
    assert first_settings == {name: getattr(config, name) for name in SEARCH.space("hyperboloid", ordered=True)}
    assert curved.value == max(trial.value or 0 for trial in curved.trials)
    assert {trial.epochs for trial in curved.trials} == {3}
    search = replace(SEARCH, first=({"learning_rate": 0.25},))
    (flat,) = tune(small_task(), search, tmp_path / "first", geometries=["euclidean"], trials=3, threads=1)
    assert [trial.settings["score"] for trial in flat.trials] == ["distance", "inner", "distance"]
    assert flat.trials[2].settings == flat.trials[0].settings | {"learning_rate": 0.25}


def test_the_best_config_trained_again_has_the_same_value(tmp_path: Path) -> None:
    """Without any validation: the value is that of the last epoch, not of the best."""
    task = small_task()
    (tuned,) = tune(task, SEARCH, tmp_path, geometries=["euclidean"], trials=2, threads=1)
    assert tuned.config is not None
    write_toml(tuned.config, tmp_path / "best.toml", ["a remark"])
    config = TrainingConfig.from_toml(tmp_path / "best.toml")
    assert config == tuned.config
    model = train(task.train, config.replace(threads=1))
    assert evaluate(model, task.validation, k=5)["ndcg@5"] == tuned.value


def test_the_test_part_is_not_used(tmp_path: Path) -> None:
    task = replace(small_task(), test=None, histories=None, before_test=None)  # type: ignore[arg-type]
    assert tune(task, SEARCH, tmp_path, trials=1, threads=1)[0].value is not None


def test_a_search_resumes(tmp_path: Path) -> None:
    task = small_task()
    before = tune(task, SEARCH, tmp_path, geometries=["hyperboloid"], trials=2, threads=1)[0].trials
    after = tune(task, SEARCH, tmp_path, geometries=["hyperboloid"], trials=4, threads=1)[0].trials
    assert after[:2] == before
    assert len(after) == 4
    assert len({str(trial.settings) for trial in after}) == 4, "nothing is drawn twice"
    lines: list[str] = []
    assert tune(task, SEARCH, tmp_path, trials=4, geometries=["hyperboloid"], threads=1, say=lines.append)
    assert lines == []
    others: dict[str, dict[str, Any]] = {"metric": {"metric": "hr@5"}, "seed": {"seed": 7}, "first": {"first": ({},)}}
    for name, other in others.items():
        with pytest.raises(InputError, match=rf"trials of another search \(other {name}\): choose another --out"):
            tune(task, replace(SEARCH, **other), tmp_path, trials=4, threads=1)


def test_a_trial_that_was_cut_off_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = small_task()

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tuning._Worker, "_try", cut_off)
        with pytest.raises(KeyboardInterrupt):
            tune(task, SEARCH, tmp_path, geometries=["hyperboloid"], trials=1, threads=1)
    assert read_results(tmp_path, SEARCH, ["hyperboloid"])[0].config is None
    (tuned,) = tune(task, SEARCH, tmp_path, geometries=["hyperboloid"], trials=1, threads=1)
    assert [trial.state for trial in tuned.trials] == ["complete"]


def test_failed_trials_are_recorded_and_not_the_end(tmp_path: Path) -> None:
    search = replace(SEARCH, settings=SEARCH.settings | {"scale": 3e38})
    (tuned,) = tune(small_task(), search, tmp_path, geometries=["hyperboloid"], trials=2, threads=1)
    assert [trial.state for trial in tuned.trials] == ["failed", "failed"]
    assert "in epoch 1" in tuned.trials[0].remark
    assert tuned.config is None


def test_bad_trials_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is something to compare with, a trial below the median stops: here all that learn nothing."""
    monkeypatch.setattr(tuning, "STARTUP_TRIALS", 2)
    monkeypatch.setitem(SPACES, ("asymmetric", "hyperboloid"), {"learning_rate": Between(1e-9, 0.2)})
    monkeypatch.setattr(tuning, "_suggest", lambda trial, name, where: trial.suggest_float(name, *_pinned(trial)))
    search = replace(SEARCH, settings={"dimension": 4, "epochs": 6})
    (tuned,) = tune(small_task(), search, tmp_path, geometries=["hyperboloid"], trials=4, threads=1)
    assert [trial.state for trial in tuned.trials] == ["complete", "complete", "complete", "pruned"]
    assert tuned.trials[3].epochs < 6


def _pinned(trial: Any) -> tuple[float, float]:
    return (0.2, 0.2) if trial.number < 3 else (1e-9, 1e-9)


def test_time_is_up_only_between_turns(tmp_path: Path) -> None:
    curved, flat = tune(small_task(), SEARCH, tmp_path, trials=9, seconds=0.01, threads=1)
    assert len(curved.trials) == len(flat.trials) <= 1


def test_spaces_name_real_hyper_parameters_and_leave_out_what_is_fixed_or_useless() -> None:
    for (model, geometry), space in SPACES.items():
        TrainingConfig(model=model, geometry=geometry).replace(  # type: ignore[arg-type]
            **{name: where.values[0] if isinstance(where, OneOf) else where.low for name, where in space.items()}
        )
    search = Search("ndcg@10", {"score": "distance"})
    assert "recency" in search.space("hyperboloid", ordered=True)
    assert not {"recency", "score"} & search.space("hyperboloid", ordered=False).keys()
    twins = [search.space(geometry, ordered=True).keys() for geometry in ("hyperboloid", "euclidean")]
    assert twins[0] == twins[1]


def test_data_without_order(tmp_path: Path) -> None:
    task = TuningTask.from_parts({"train": grouped(ordered=False)})
    (tuned,) = tune(task, SEARCH, tmp_path, geometries=["hyperboloid"], trials=1, threads=1)
    assert tuned.value is not None
    assert "recency" not in tuned.trials[0].settings


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parallel": 3, "threads": 2}, InputError, "parallel=3 with 2 threads: each trial needs one, give 1 to 2"),
        ({"trials": 0}, InputError, "trials=0: give at least 1"),
    ],
)
def test_impossible_searches(tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tune(small_task(), SEARCH, tmp_path, **options)
    with pytest.raises(ConfigError, match="there is no metric 'coverage@5'"):
        tune(small_task(), replace(SEARCH, metric="coverage@5"), tmp_path)
