"""Run commands as a user does: in this process for speed, or in their own process for signals and pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from lorentzrec.cli.application import app
from tests.interruptible_processes import environment

SETTINGS = ("--set", "dimension=4", "--set", "epochs=3", "--set", "threads=1")
"""Settings of a very short training run."""


def run(*arguments: str | Path, code: int = 0) -> Result:
    """Run a command to its end, which must have this exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="lorentzrec")
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr, result.exception)
    return result


def make(folder: Path, command: str, source: str | Path, *options: str | Path) -> Path:
    """Run a command that makes a folder; returns the folder."""
    run(command, source, "--out", folder, *options)
    return folder


def run_json(*arguments: str | Path) -> Any:
    """The result of a command with --json."""
    return json.loads(run(*arguments, "--json").stdout)


def error_of(*arguments: str | Path, code: int = 2) -> str:
    """The error line of a command that fails, without its `error: `."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    *others, line = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert not any("Traceback" in other or other.startswith("error") for other in others)
    return line.removeprefix("error: ")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start a command in its own process, to be interrupted."""
    command = [sys.executable, "-m", "lorentzrec.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
