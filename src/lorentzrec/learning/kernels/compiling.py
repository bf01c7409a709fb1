"""How the kernels are compiled, and where the result is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

# "nnan" and "ninf" stay out: with them the compiler may drop the checks for numbers that are not finite. Python's
# error model would put a branch at every division, and no loop with a branch vectorises.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"nsz", "arcp", "contract", "afn", "reassoc"},
    "error_model": "numpy",
    # no reference counting: each call with arrays would count them, atomically, which took a third of the time and made
    # threads wait for each other. The caller in Python holds the arrays. A kernel cannot allocate: numba refuses then.
    "_nrt": False,
}

inlined = numba.njit(inline="always", **_OPTIONS)
"""For functions of scalars that kernels call."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call, once per machine."""
    return _compiled(function, _OPTIONS)


def counted_kernel(function: Callable[..., Any]) -> Any:
    """A kernel with reference counting, for NumPy functions that need it: those that may allocate."""
    return _compiled(function, _OPTIONS | {"_nrt": True})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The cache.

    Numba's cache looks at the file of a function but not at the files of those it calls, so the folder of the cache
    is named after the content of all of them: an edit anywhere compiles anew, and nothing stale is ever run.
    """
    settings: Any = numba.config
    shared, settings.CACHE_DIR = settings.CACHE_DIR, str(_cache_folder())
    try:
        return numba.njit(cache=True, **options)(function)
    finally:
        settings.CACHE_DIR = shared


@cache
def _cache_folder() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*Path(__file__).parent.glob("*.py"), Path(__file__).parents[1] / "limits.py"]):
        digest.update(source.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "lorentzrec" / f"kernels-{digest.hexdigest()[:16]}"
