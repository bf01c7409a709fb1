"""Calls to a store with a deadline; while the store is unavailable, calls fail at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Generic, TypeVar

from lorentzrec.errors import InputError, StoreBroken, StoreUnavailable
from lorentzrec.serving.stores.store import Store

Result = TypeVar("Result")

STORE_UNAVAILABLE = "the store is unavailable; see the log of the service: try again in a second"
"""The text for clients. The reason may name internal hosts and users, so it is only logged."""
WRITE_PAUSE_SECONDS = 1.0
"""After a failed write, others are refused for this long; then one is tried."""

SLOW_SECONDS, AWAY_SECONDS = 0.05, 10.0
"""After a call that took longer in the caller's own thread, others get threads for this long."""

logger = logging.getLogger("lorentzrec.serving")


class GuardedStore:
    """Runs calls to a store in its own threads, with a deadline.

    A server that hangs neither responds nor fails, so each call has a deadline, after which its thread is abandoned.
    The number of threads is bounded; if none is free, a call waits for one, as long as for a result. After a failure
    every call fails at once, until a probe (`version_watcher.py` sends one about every second) gets a response. A
    broken store counts as unavailable, too, since that is never the fault of a client.

    Writes have their own threads and failures: a store that cannot be written to is still read.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        seconds: float,
        threads: int,
        observe: Callable[[str, float], None] = lambda _, __: None,
    ) -> None:
        """`open_store` is called at first use, again until it succeeds, and again for a store found broken.

        threads: for reads; there are half as many for writes.
        observe: called with the kind of every call (poll, read or write) and its seconds.
        """
        self._observe = observe
        self._open, self.seconds = open_store, seconds
        self._store: Store | None = None
        self._opening = Lock()
        self._reads, self._writes = _Threads("store", threads), _Threads("store-writes", max(1, threads // 2))
        # One, whose connection has what it wrote last in memory.
        self._awaited = _Threads("store-events", 1)
        self._away_until = 0.0
        self._trial = Lock()
        self._next_trial = 0.0
        self.trouble: str | None = None
        """Why the store is considered unavailable; None if it responds."""
        self.write_trouble: str | None = None
        """Why writes are considered to fail; None if they succeed, as far as is known."""

    @property
    def warnings(self) -> list[str]:
        """What an operator should know although the service works; without addresses."""
        failing = ["writes to the store fail, and the log of the service has the reason"] if self.write_trouble else []
        store = self._store
        return failing if store is None else [*failing, *store.notices]

    def call(
        self,
        work: Callable[[Store], Result],
        *,
        probe: bool = False,
        writes: bool = False,
        long: bool = False,
        seconds: float = 0.0,
    ) -> Result:
        """The result of `work`, called with the store. `StoreUnavailable` if the store fails, is slow or too busy.

        writes: `work` changes the store.
        long: `work` reads so much that its failure says nothing about other calls; the caller logs it.
        seconds: its deadline, if it needs more time than other calls.
        """
        if self.trouble is not None and not probe:
            raise StoreUnavailable(self.trouble)
        if writes:
            self._check_writes()
        limit, begun = max(self.seconds, seconds), time.perf_counter()
        try:
            return self._call(work, limit, probe, writes, long)
        finally:
            self._observe("write" if writes else "poll" if probe else "read", time.perf_counter() - begun)

    @property
    def nearby(self) -> bool:
        """Whether reads are so fast that they need neither a thread of their own nor a deadline."""
        store = self._store
        if store is None or self.trouble is not None or time.monotonic() < self._away_until:
            return False
        return store.nearby

    @property
    def writes_in_turn(self) -> bool:
        """`Store.writes_in_turn`; False while no store is open."""
        return self._store is not None and self._store.writes_in_turn

    def call_nearby(self, work: Callable[[Store], Result]) -> Result:
        """`call` of a read, at once if the caller is an event loop and the store is `nearby`.

        A thread of the caller's has no need to hurry, and a store that hangs would keep it.
        """
        store = self._store
        if store is None or not (_is_event_loop() and self.nearby):
            return self.call(work)
        begun = time.perf_counter()
        try:
            return work(store)
        except (StoreBroken, StoreUnavailable) as error:
            raise self._failed(str(error), writes=False) from error
        finally:
            seconds = time.perf_counter() - begun
            if seconds > SLOW_SECONDS:
                self._away_until = time.monotonic() + AWAY_SECONDS
            self._observe("read", seconds)

    async def write(self, work: Callable[[Store], Result], *, seconds: float = 0.0) -> Result:
        """`call` of a write, by an event loop. One is under way at a time; `StoreUnavailable` for another one."""
        if self.trouble is not None:
            raise StoreUnavailable(self.trouble)
        self._check_writes()
        limit, begun = max(self.seconds, seconds), time.perf_counter()
        try:
            outcome: _AwaitedOutcome[Result] = _AwaitedOutcome()
            self._awaited.submit(lambda: work(self._opened()), outcome, 0.0)
            with self._judge(limit, probe=False, writes=True, long=False):
                return await outcome.result(limit)
        finally:
            self._observe("write", time.perf_counter() - begun)

    def _call(self, work: Callable[[Store], Result], limit: float, probe: bool, writes: bool, long: bool) -> Result:
        outcome: _Outcome[Result] = _Outcome()
        (self._writes if writes else self._reads).submit(lambda: work(self._opened()), outcome, limit)
        with self._judge(limit, probe, writes, long):
            return outcome.result(limit)

    @contextmanager
    def _judge(self, limit: float, probe: bool, writes: bool, long: bool) -> Iterator[None]:
        """Draw conclusions from the end of a call: whether the store responds, and whether it can be written to."""
        try:
            yield
        except (StoreBroken, StoreUnavailable) as error:
            if probe and isinstance(error, StoreBroken):
                self._let_go()
            raise StoreUnavailable(str(error)) if long else self._failed(str(error), writes) from error
        except TimeoutError:
            reason = f"the store has not responded in {limit:g} seconds: check its server and the network"
            raise StoreUnavailable(reason) if long else self._failed(reason, writes) from None
        if not writes and self.trouble is not None:
            self.trouble = self.write_trouble = None  # nothing is known about writes now
        if writes and self.write_trouble is not None:
            self.write_trouble = None
            logger.warning("writes to the store succeed again")

    def close(self) -> None:
        """Close the store. Calls that hang are abandoned until the process ends."""
        self._reads.stop()
        self._writes.stop()
        self._awaited.stop()
        if self._store is not None and self.trouble is None:
            self._store.close()

    def _check_writes(self) -> None:
        """After a failure, one write per second is tried, and all others are refused until one has succeeded."""
        with self._trial:
            if self.write_trouble is not None:
                if time.monotonic() < self._next_trial:
                    raise StoreUnavailable(self.write_trouble)
                self._next_trial = time.monotonic() + WRITE_PAUSE_SECONDS

    def _failed(self, reason: str, writes: bool) -> StoreUnavailable:
        """Log the reason, which may name hosts and users: `problems.py` does not send it to clients."""
        if writes:
            if self.write_trouble is None:
                logger.warning("writes to the store fail: %s", reason)
            self.write_trouble, self._next_trial = reason, time.monotonic() + WRITE_PAUSE_SECONDS
        else:
            if self.trouble is None:
                logger.warning("the store is unavailable: %s", reason)
            self.trouble = reason
        return StoreUnavailable(reason)

    def _let_go(self) -> None:
        """Open the store again with the next call: it may have been replaced by then."""
        with self._opening:
            broken, self._store = self._store, None
        if broken is not None:
            broken.close()

    def _opened(self) -> Store:
        with self._opening:
            if self._store is None:
                try:
                    self._store = self._open()
                except InputError as error:
                    raise StoreBroken(str(error)) from error
            return self._store


def _is_event_loop() -> bool:
    """Whether this thread runs an event loop now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Threads:
    """Threads for calls that may hang: daemons, since a ThreadPoolExecutor waits for its threads at exit."""

    def __init__(self, name: str, number: int) -> None:
        self._number, self._free = number, Semaphore(number)
        self._work: SimpleQueue[tuple[Callable[[], Any], _Outcome[Any] | _AwaitedOutcome[Any]] | None] = SimpleQueue()
        for _ in range(number):
            Thread(target=self._run, name=name, daemon=True).start()

    def submit(
        self, work: Callable[[], Result], outcome: _Outcome[Result] | _AwaitedOutcome[Result], seconds: float
    ) -> None:
        """Have a thread find the outcome of `work`. `StoreUnavailable` if no thread is free in time."""
        if not self._free.acquire(timeout=seconds):
            raise StoreUnavailable("too many calls to the store are under way: try again in a second")
        self._work.put((work, outcome))

    def stop(self) -> None:
        for _ in range(self._number):
            self._work.put(None)

    def _run(self) -> None:
        while (task := self._work.get()) is not None:
            work, outcome = task
            try:
                result = work()
            except BaseException as error:
                self._free.release()  # first: who learns of the outcome may submit the next call at once
                outcome.fail(error)
            else:
                self._free.release()
                outcome.succeed(result)


class _Outcome(Generic[Result]):
    """What a call in another thread returns or raises. A `Future` costs more: several threads could wait for one."""

    def __init__(self) -> None:
        self._pending = Lock()
        self._pending.acquire()
        self._error: BaseException | None = None
        self._result: Result

    def succeed(self, result: Result) -> None:
        self._result = result
        self._pending.release()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._pending.release()

    def result(self, seconds: float) -> Result:
        """Waits for it, once; `TimeoutError` after this many seconds."""
        if not self._pending.acquire(timeout=seconds):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._result


class _AwaitedOutcome(Generic[Result]):
    """What a call in another thread returns or raises, for the event loop that makes this."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Result] = self._loop.create_future()

    def succeed(self, result: Result) -> None:
        self._tell(self._future.set_result, result)

    def fail(self, error: BaseException) -> None:
        self._tell(self._future.set_exception, error)

    def _tell(self, tell: Callable[[Any], None], what: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._tell_if_awaited, tell, what)

    def _tell_if_awaited(self, tell: Callable[[Any], None], what: Any) -> None:
        if not self._future.done():  # else the deadline has passed
            tell(what)

    async def result(self, seconds: float) -> Result:
        """Waits for it, once; `TimeoutError` after this many seconds."""
        # `asyncio.timeout` takes longer: it can be moved, and one can be inside another.
        deadline = self._loop.call_later(seconds, self._tell_if_awaited, self._future.set_exception, TimeoutError())
        try:
            return await self._future
        finally:
            deadline.cancel()
