"""`lorentzrec bench`: the benchmarks of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from lorentzrec.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[3]


def bench(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run, not how fast is it.")] = False,
) -> None:
    """Measure speed, against the peers that are installed.

    The benchmarks are part of the source checkout, not of the installed package. Further options are passed on to
    benchmarks/run.py.
    """
    script = CHECKOUT / "benchmarks" / "run.py"
    if not script.is_file():
        raise InputError(
            "the benchmarks come with the source, not with the package: clone the repository and make bench"
        )
    options = [*(["--quick"] if quick else []), *context.args]
    raise typer.Exit(subprocess.run([sys.executable, script, *options], check=False).returncode)
