"""Thread pools: one thread per core, BLAS limited to one thread, safe under Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any, Protocol, TypeVar

from lorentzrec.base.interrupts import deferred_interrupts


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


Part = TypeVar("Part")
Result = TypeVar("Result")


class ParallelMap(Protocol):
    """As the built-in `map`, with calls at the same time."""

    def __call__(self, work: Callable[[Part], Result], parts: Iterable[Part], /) -> Iterator[Result]: ...


@contextmanager
def thread_pool(threads: int, interrupted: Callable[[], None] | None = None) -> Iterator[ParallelMap]:
    """A `map` that runs in this many threads, with one of BLAS in each; in the caller's own if it is a single one.

    Ctrl-C is raised at the end of the block, not at any moment: the locks of Python's own thread pool can stay closed
    for ever when it strikes there.

    interrupted: called as soon as Ctrl-C is pressed, to end the work early; None: calls that have not begun are
    dropped.
    """
    if threads == 1:
        with SINGLE_THREADED_BLAS:
            yield map
        return
    dropped = Event()
    with deferred_interrupts(interrupted or dropped.set), SINGLE_THREADED_BLAS, ThreadPoolExecutor(threads) as pool:

        def run(work: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
            def unless_dropped(part: Any) -> Any:
                if dropped.is_set():
                    raise CancelledError
                return work(part)

            return pool.map(unless_dropped, parts)

        yield run
