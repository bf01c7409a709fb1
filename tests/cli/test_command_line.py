"""What all commands have in common: help, errors in one line, exit codes, clean streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lorentzrec
from lorentzrec.cli import recommend
from lorentzrec.cli.application import app
from tests.cli.command_line import error_of, run, start

COMMANDS = [command.name or "" for command in app.registered_commands]
for group in app.registered_groups:
    members = group.typer_instance.registered_commands if group.typer_instance else []
    COMMANDS += [f"{group.name} {member.name}" for member in members]


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom lorentzrec.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True).stdout
    assert "recommend-all" in out
    loaded = {name.split(".")[0] for name in out.splitlines()[-1].split()}
    assert loaded & {"numpy", "polars", "numba", "scipy", "matplotlib"} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    text = run(*command.split(), "--help").stdout
    assert text.count(f"lorentzrec {command}") >= 2, "once in the usage, and in an example"


def test_no_command_gives_help() -> None:
    assert run().stdout == run("--help").stdout
    assert run("store").stdout == run("store", "--help").stdout


def test_version() -> None:
    assert run("--version").stdout == f"lorentzrec {lorentzrec.__version__}\n"


def test_usage_errors_are_one_line() -> None:
    assert error_of("recommend", "model", "-k", "ten") == (
        "Invalid value for '-k': not a valid integer: see lorentzrec recommend --help"
    )
    assert error_of("trian") == "No such command 'trian'. Did you mean 'train'?: see lorentzrec --help"
    assert error_of("train", "events.csv") == "Missing option '--out': see lorentzrec train --help"
    assert error_of("similar", "m", "i", "-k", "x").startswith("Invalid value for '-k'")
    assert error_of("stats").startswith("Missing argument 'DATA'")


@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        (lorentzrec.TrainingError("row 3 is lost"), 1, "error: row 3 is lost"),
        (lorentzrec.InputError("two\nlines"), 2, "error: two lines"),
        (PermissionError(13, "Permission denied", "/x"), 2, "error: /x: Permission denied: check the path, the"),
        (OSError("odd"), 2, "error: odd: check the path"),
        (MemoryError(), 1, "error: out of memory"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C"),
    ],
)
def test_failures_become_exit_codes(
    failure: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(recommend, "print_recommendations", fail)
    stderr = run("similar", model, "i3", code=code).stderr
    assert stderr.startswith(line)
    assert stderr.count("\n") == 1


def test_defects_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setattr(recommend, "print_recommendations", lambda *_: 1 / 0)
    assert isinstance(run("similar", model, "i3", code=1).exception, ZeroDivisionError)


def test_a_reader_who_leaves_is_no_error(model: Path) -> None:
    process = start("recommend", model, "--history", "i1", "-k", "30")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait() == 1
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("arguments", [(), ("similar",), ("store",), ("store", "status")])
def test_flags_have_no_value_in_help(arguments: tuple[str, ...]) -> None:
    assert "<bool>" not in run(*arguments, "--help").stdout
