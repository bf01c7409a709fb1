"""`lorentzrec warm-up`: compile the kernels before the first training needs them."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from lorentzrec.cli.output import print_result, say
from lorentzrec.cli.train import load_config


def warm_up(*, config: Path | None = None, settings: list[str] | None = None, json: bool = False) -> None:
    """Compile the training kernels ahead of time, for example when building a container image.

    Compiles all of them, or with --config or --set those that training with these hyper-parameters needs. They are
    cached in a folder below $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache, for this version of lorentzrec and this kind
    of processor; kernels that are cached already are not compiled again.

    $ lorentzrec warm-up
    $ lorentzrec warm-up --set model=symmetric --set loss=bpr
    """
    from lorentzrec.learning.epochs import compile_kernels
    from lorentzrec.learning.kernels.compiling import COMPILING, cache_folder
    from lorentzrec.learning.warm_up import VARIANTS

    chosen = load_config(config, settings)
    started = time.perf_counter()
    lines: list[str] = []

    @cache
    def announce(line: str) -> None:
        say(line)
        lines.append(line)

    for variant in VARIANTS if config is None and not settings else (chosen,):
        compile_kernels(variant, announce, attributes=True)
    seconds = time.perf_counter() - started
    compiled = COMPILING in lines  # not if another process did it meanwhile
    result = {"folder": str(cache_folder()), "compiled": compiled, "seconds": seconds}
    done = f"compiled in {seconds:.0f} s" if compiled else "compiled already"
    print_result(result, f"The training kernels are {done}, in {cache_folder()}", json=json)
