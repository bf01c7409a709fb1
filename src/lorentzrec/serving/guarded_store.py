"""A store behind a guard: no call to it takes longer than agreed, and one that is away is not asked again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, TypeVar

from lorentzrec.errors import InputError, StoreBroken, StoreUnavailable
from lorentzrec.serving.stores.store import Store

Result = TypeVar("Result")

logger = logging.getLogger("lorentzrec.serving")


class GuardedStore:
    """Runs calls to a store in threads of its own and waits for them only so long.

    A server that hangs never answers, and never fails either; so each call has a deadline, after which its thread is
    left alone. The number of threads is bounded; a call that finds none free waits its turn, as long as for an answer.
    After a failure every call fails at once, until a probe (`current.py` sends one about every second) has met a store
    that answers. A store that is broken is away, too: that is never the fault of whoever asks the service.
    """

    def __init__(self, open_store: Callable[[], Store], *, seconds: float, threads: int) -> None:
        """`open_store` is called at first use, and again until it succeeds: a store may be away when we start."""
        self._open, self.seconds = open_store, seconds
        self._store: Store | None = None
        self._opening = Lock()
        self._free = Semaphore(threads)
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [Thread(target=self._run, name="store", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()
        self.trouble: str | None = None
        """Why the store is taken to be away; None if it answers."""

    def call(self, work: Callable[[Store], Result], *, probe: bool = False, seconds: float | None = None) -> Result:
        """What `work` makes of the store. Raises `StoreUnavailable` if the store is away, slow or too busy."""
        if self.trouble is not None and not probe:
            raise StoreUnavailable(self.trouble)
        limit = self.seconds if seconds is None else seconds
        if not self._free.acquire(timeout=limit):
            raise StoreUnavailable("the store has all the calls in hand that it may have: come back in a second")
        outcome: Future[Result] = Future()
        self._work.put(lambda: self._answer(work, outcome))
        try:
            result = outcome.result(limit)
        except (StoreUnavailable, StoreBroken) as error:
            raise self._away(str(error)) from error
        except TimeoutError:
            reason = f"the store has not answered in {limit:g} seconds: look at its server and the network"
            raise self._away(reason) from None
        self.trouble = None
        return result

    def _away(self, reason: str) -> StoreUnavailable:
        """The reason goes to the log here, since it may name hosts and users: `problems.py` keeps it from callers."""
        if self.trouble is None:
            logger.warning("the store is away: %s", reason)
        self.trouble = reason
        return StoreUnavailable(reason)

    def close(self) -> None:
        """Let go of the store. Calls that hang are left to the end of the process."""
        for _ in self._threads:
            self._work.put(None)
        if self._store is not None and self.trouble is None:
            self._store.close()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _answer(self, work: Callable[[Store], Any], outcome: Future[Any]) -> None:
        try:
            outcome.set_result(work(self._opened()))
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            self._free.release()

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                try:
                    self._store = self._open()
                except InputError as error:
                    raise StoreBroken(str(error)) from error
            return self._store
