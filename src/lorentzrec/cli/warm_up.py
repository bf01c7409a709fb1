"""`lorentzrec warm-up`: the kernels compiled before the first training needs them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from lorentzrec.cli.options import Json
from lorentzrec.cli.output import print_json, say, show


def warm_up(
    config: Annotated[Path | None, typer.Option(help="TOML file of hyper-parameters: name = value.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyper-parameter; may be given again."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile the training kernels ahead, as in the build of a container image.

    All of them, or with --config or --set those that training with these hyper-parameters needs. They are kept in a
    folder below $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, for this version of lorentzrec and this kind of
    processor; what is there already is not compiled again.
    """
    from lorentzrec.learning.kernels.compiling import cache_folder
    from lorentzrec.learning.warm_up import VARIANTS
    from lorentzrec.learning.warm_up import warm_up as compile_for
    from lorentzrec.model.config import TrainingConfig

    chosen = TrainingConfig() if config is None else TrainingConfig.from_toml(config)
    chosen = chosen.with_settings(settings or [])
    started = time.perf_counter()
    lines: list[str] = []

    def announce(line: str) -> None:
        if line not in lines:
            say(line)
        lines.append(line)

    for variant in VARIANTS if config is None and not settings else (chosen,):
        compile_for(variant, announce)
    seconds = time.perf_counter() - started
    if json:
        print_json({"folder": str(cache_folder()), "compiled": bool(lines), "seconds": seconds})
    else:
        done = f"compiled in {seconds:.0f} s" if lines else "compiled already"
        show(f"The training kernels are {done}, in {cache_folder()}")
