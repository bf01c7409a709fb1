"""Where the threads of a step wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lorentzrec.learning.kernels.compiling import fetch_add, kernel

_LOOKS = 100_000
"""How often a thread looks before it sleeps: about 0.5 ms. A step takes a few ms, and waking a thread 0.1 ms."""


@kernel
def _await_change(counter: NDArray[np.int64], value: int, looks: int) -> bool:
    """Whether another thread has changed counter[0] from this value, after at most this many looks."""
    while looks > 0 and fetch_add(counter, 0) == value:
        looks -= 1
    return looks > 0


class Barrier:
    """As `threading.Barrier`, for waits that are short: a thread looks for the others before it sleeps.

    A single thread, the caller's own, does not wait: Ctrl-C could strike while it holds a lock.
    """

    def __init__(self, threads: int, action: Callable[[], None] = lambda: None) -> None:
        """action: what the last thread to arrive does before all continue."""
        self._threads, self._action = threads, action
        self._turn = np.zeros(1, np.int64)
        self._arrived = 0
        self._passed = threading.Condition()
        self._broken = False
        if threads > 1:
            _await_change(self._turn, -1, 1)  # compiled here, in the calling thread

    def wait(self) -> None:
        """Return once all threads have called this; `threading.BrokenBarrierError` if one of them called `abort`."""
        if self._threads == 1:
            return self._action()
        with self._passed:
            turn = self._turn[0]
            self._arrived += 1
            last = self._arrived == self._threads
        if last:
            self._action()
            self._arrived = 0
            self._pass()
        elif not _await_change(self._turn, turn, _LOOKS):
            with self._passed:
                self._passed.wait_for(lambda: self._turn[0] != turn or self._broken)
        if self._broken:
            raise threading.BrokenBarrierError
        return None

    def abort(self) -> None:
        """Release all threads, those that arrive later as well."""
        self._broken = True
        self._pass()

    def _pass(self) -> None:
        with self._passed:
            self._turn += 1
            self._passed.notify_all()
