"""How many threads to use, and how to keep BLAS from starting its own inside ours."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any


def available_cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _SingleThreadedBlas:
    """Keeps BLAS to one thread while we run threads of our own, which would fight with BLAS's.

    The limit holds for the whole process: the first to enter sets it and the last to leave restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                from threadpoolctl import ThreadpoolController

                # A new one each time, because SciPy and faiss load a BLAS of their own later.
                self._controller: Any = ThreadpoolController()
                self._free_control()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._free_control()
                self._limit.restore_original_limits()
                self._free_control()

    def _free_control(self) -> None:
        """Let any thread set the limit: since threadpoolctl 3.8 only the first may, and the others have no effect."""
        for library in self._controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


SINGLE_THREADED_BLAS = _SingleThreadedBlas()
