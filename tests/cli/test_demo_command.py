"""`lorentzrec demo`: the whole way, on a shop small enough for a test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.command_line import answer, run
from lorentzrec import Interactions, Model, TrainingConfig, evaluate, load
from lorentzrec.cli import demo
from lorentzrec.learning import trainer


@pytest.fixture(autouse=True)
def small_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CUSTOMERS", 200)
    monkeypatch.setattr(demo, "ITEMS", 200)
    monkeypatch.setattr(demo, "EVENTS", 2_000)


def test_it_ends_with_commands_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my demo"
    text = run("demo", "--no-serve", "--out", folder).stdout
    assert re.search(r"hr@10 +hyperboloid .*\n +euclidean .*\n +popularity ", text)
    assert text.count("and may like") == 2
    assert "Running Top" in text
    assert (folder / "degrees.png").is_file()
    change_folder, *commands = [shlex.split(line) for line in text.partition("Try next:")[2].splitlines() if line]
    monkeypatch.chdir(change_folder[1])
    assert len(commands) == 5
    for program, *arguments in commands:
        assert program == "lorentzrec"
        run(*arguments)


def test_it_names_a_script_that_is_not_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["env/bin/lorentzrec"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert f"  {tmp_path}/env/bin/lorentzrec stats shop" in run("demo", "--out", "here").stdout.splitlines()


def test_its_numbers_are_those_of_its_folder(tmp_path: Path) -> None:
    result = answer("demo", "--out", tmp_path)
    test = Interactions.from_dataset(tmp_path / "shop", "test")
    for geometry in ("hyperboloid", "euclidean"):
        model = load(tmp_path / geometry)
        assert model.config.geometry == geometry
        assert result["systems"][geometry]["full"] == evaluate(model, test).to_dict()
    assert len(result["recommendations"]["known customer"]) == len(result["recommendations"]["new basket"]) == 5


def test_ctrl_c_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training answers Ctrl-C with the model so far; the demo has no use for it."""

    def interrupted(data: Interactions, config: TrainingConfig, **_: object) -> object:
        model = Model.__new__(Model)
        object.__setattr__(model, "notes", ("stopped by Ctrl-C in epoch 1 of 20",))
        return model

    monkeypatch.setattr(trainer, "train", interrupted)
    assert run("demo", "--out", tmp_path, code=130).stderr.endswith("stopped by Ctrl-C\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "shop"]
