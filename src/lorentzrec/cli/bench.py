"""`lorentzrec bench`: the benchmarks of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from lorentzrec.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[3]


def bench(names: list[str] | None = None, *, quick: bool = False, data: Path | None = None) -> None:
    """Measure speed, memory and quality, alongside comparable libraries that are installed.

    The benchmarks are part of the source checkout, not of the installed package. Results are printed, and saved as JSON
    in benchmarks/results.

    $ lorentzrec bench
    $ lorentzrec bench start ranking --quick

    names NAME: Some of the benchmarks. Default: all.
    quick: Smaller data, for a first impression.
    data: Folder of real data, for the benchmarks that use some.
    """
    script = CHECKOUT / "benchmarks" / "run.py"
    if not script.is_file():
        raise InputError(
            "the benchmarks are in the source, not in the package: clone the repository and run make bench"
        )
    options = [*(names or []), *(["--quick"] if quick else []), *(["--data", str(data)] if data else [])]
    raise typer.Exit(subprocess.run([sys.executable, str(script), *options], check=False).returncode)
