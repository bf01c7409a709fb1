"""How the kernels are compiled, and where the result is kept."""

from __future__ import annotations

import hashlib
import os
import secrets
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
}

_STARTED = secrets.token_hex(4)
"""Tells this process from others with its number, on this machine or one that shares the folder."""

inlined = numba.njit(inline="always", **_OPTIONS)
"""For functions of scalars that kernels call; handing arrays to one would count references at every call."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call, once per machine.

    Numba's cache looks at the file of a function but not at the files of those it calls, so the folder of the cache
    is named after the content of all of them: an edit anywhere compiles anew, and nothing stale is ever run.
    """
    settings: Any = numba.config
    shared, settings.CACHE_DIR = settings.CACHE_DIR, str(_cache_folder())
    try:
        return _with_files_of_its_own(numba.njit(cache=True, **_OPTIONS)(function))
    finally:
        settings.CACHE_DIR = shared


def _with_files_of_its_own(compiled: Any) -> Any:
    """Numba numbers the files of a cache without a lock, so two processes that compile at the same time could take the
    same number, and one would load what the other compiled for other types. A name per process rules that out; at worst
    an entry of the index is lost, and compiled again."""
    files = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if files is not None:
        base = files._index_name.removesuffix(".nbi")
        files._data_name = lambda number: f"{base}.{os.getpid()}-{_STARTED}-{number}.nbc"
    return compiled


@cache
def _cache_folder() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*Path(__file__).parent.glob("*.py"), Path(__file__).parents[1] / "limits.py"]):
        digest.update(source.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "lorentzrec" / f"kernels-{digest.hexdigest()[:16]}"
