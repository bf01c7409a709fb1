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
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Some of them; all unless given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller data, for a first look.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of real data, for the benchmarks that use some.")] = None,
) -> None:
    """Measure speed, memory and quality, beside the peers that are installed.

    The benchmarks are part of the source checkout, not of the installed package. Results are printed, and kept as JSON
    in benchmarks/results.
    """
    script = CHECKOUT / "benchmarks" / "run.py"
    if not script.is_file():
        raise InputError(
            "the benchmarks come with the source, not with the package: clone the repository and make bench"
        )
    options = [*(names or []), *(["--quick"] if quick else []), *(["--data", str(data)] if data else [])]
    raise typer.Exit(subprocess.run([sys.executable, str(script), *options], check=False).returncode)
