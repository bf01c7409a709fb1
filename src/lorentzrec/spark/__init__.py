"""Training and batch recommendations on Spark.

from lorentzrec.spark import train, recommend_all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lorentzrec.spark.recommending import recommend_all as recommend_all
    from lorentzrec.spark.training import train as train

_HOME = {"recommend_all": "recommending", "train": "training"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lorentzrec.spark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"lorentzrec.spark.{_HOME[name]}"), name)
