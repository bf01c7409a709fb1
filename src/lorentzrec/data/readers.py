"""Functions of higher packages that read interactions. `lorentzrec/__init__.py` names them; the first call imports
them, so this package depends on nothing above it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorentzrec.data.interactions import Interactions

READERS: dict[str, str] = {}
"""Method of `Interactions` -> `module:function`."""


def find_reader(method: str) -> Callable[..., Interactions]:
    """The function that does the work of a method of `Interactions`."""
    module, _, function = READERS[method].partition(":")
    reader: Callable[..., Interactions] = getattr(import_module(module), function)
    return reader
