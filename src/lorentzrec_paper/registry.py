"""All experiments by name, those of the paper in its order; a module is loaded when its experiment is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from lorentzrec.errors import ConfigError
from lorentzrec_paper.experiment import Experiment

OF_THE_PAPER: tuple[str, ...] = ("networks", "midpoints", "simulations", "amazon", "movielens", "asos")
EXPERIMENTS = (*OF_THE_PAPER, "twins", "ablations")
"""Each is the name of a module of `lorentzrec_paper` with an `EXPERIMENT`."""


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once; `all` stands for every one of the paper."""
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            raise ConfigError(f"there is no experiment {name!r}: use {', '.join(EXPERIMENTS)} or all")
    wanted = dict.fromkeys(one for name in names for one in (OF_THE_PAPER if name == "all" else (name,)))
    return [cast(Experiment, import_module(f"lorentzrec_paper.{name}").EXPERIMENT) for name in wanted]
