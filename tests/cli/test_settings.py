"""Every literal of every setting has the same effect in Python, in a TOML file and with --set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import Interactions, Model, TrainingConfig, load, train
from lorentzrec.base.field_checks import alternatives, field_hints
from tests.cli.command_line import error_of, run

HINTS = field_hints(TrainingConfig)
LITERALS = [
    (name, value)
    for name, hint in HINTS.items()
    for kind in alternatives(hint)
    for value in ([True, False] if kind is bool else [kind] if isinstance(kind, str) else [])
]
NUMBERS = {name: value for name, value in HINTS.items() if {int, float} & set(alternatives(value))}
QUICK: dict[str, Any] = {"dimension": 4, "epochs": 1, "threads": 1, "memory": None}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 customers go around a circle of 300 items in steps of 7: easy to remember, hard for points in one epoch."""
    starts = np.random.default_rng(3).integers(0, 300, 600)
    path = tmp_path_factory.mktemp("circle") / "events.csv"
    lines = [f"{user},{(first + 7 * step) % 300},{step}" for user, first in enumerate(starts) for step in range(8)]
    path.write_text("\n".join(["user,item,time", *lines]) + "\n")
    return path


def assign(name: str, value: Any, quote: str = '"') -> str:
    """`name=value` as in TOML."""
    return f"{name}={str(value).lower()}" if isinstance(value, bool) else f"{name}={quote}{value}{quote}"


def train_in_shell(events: Path, out: Path, *options: str | Path) -> Model:
    quick = [f"--set={name}={value}" for name, value in QUICK.items() if value is not None]
    run("train", events, "--out", out, *quick, *options)
    return load(out)


def test_the_literals_are_all_there() -> None:
    assert {name for name, _ in LITERALS} | set(NUMBERS) == set(HINTS)
    assert [value for name, value in LITERALS if name == "memory"] == ["auto", "none"]


@pytest.mark.parametrize(("name", "value"), LITERALS)
def test_every_literal_works_in_python_toml_and_shell(name: str, value: Any, events: Path, tmp_path: Path) -> None:
    toml = tmp_path / "settings.toml"
    toml.write_text(assign(name, value))
    in_python = train(Interactions.from_file(events), TrainingConfig(**QUICK | {name: value}), progress=False)
    trained = [
        train_in_shell(events, tmp_path / "by_set", "--set", assign(name, value, quote="")),
        train_in_shell(events, tmp_path / "by_quoted_set", "--set", assign(name, value)),
        train_in_shell(events, tmp_path / "by_toml", "--config", toml),
    ]
    for model in (in_python, *trained):
        # a model has what `auto` was decided to be
        decided = "on" if (name, value) == ("masses", "auto") else value
        assert getattr(model.config, name) == decided
        assert model.config == in_python.config
        np.testing.assert_array_equal(model.item_points, in_python.item_points)
        assert (model.memory is None) == (model.config.memory == "none")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_works_in_python_toml_and_settings(name: str, tmp_path: Path) -> None:
    value: Any = 3 if int in alternatives(NUMBERS[name]) else 0.25
    toml = tmp_path / "settings.toml"
    toml.write_text(f"{name} = {value}\n")
    given = TrainingConfig(**{name: value})
    assert given == TrainingConfig.from_toml(toml) == TrainingConfig().with_settings([f"{name}={value}"])
    assert getattr(given, name) == value


def test_unknown_names_have_a_suggestion(events: Path, tmp_path: Path) -> None:
    expected = "there is no hyper-parameter 'dimenson': did you mean 'dimension'?"
    assert error_of("train", events, "--out", tmp_path / "model", "--set", "dimenson=3") == expected
    toml = tmp_path / "settings.toml"
    toml.write_text("dimenson = 3\n")
    assert error_of("train", events, "--out", tmp_path / "model", "--config", toml) == f"{toml}: {expected}"
    assert not (tmp_path / "model").exists()
