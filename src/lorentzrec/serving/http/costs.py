"""The cost of a request for recommendations, and a queue so that costly ones do not delay the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from litestar.concurrency import sync_to_thread

from lorentzrec.model.diversity import pool_size
from lorentzrec.serving.http.problems import Overloaded

Result = TypeVar("Result")

COSTLY = 10_000
"""Requests above this cost take turns. A unit is about a microsecond: ordinary requests cost a few hundred."""
MOST_WAITING = 16
"""Costly requests that wait in one worker; further ones get a 503."""


def cost(k: int, ids: int, *, history: int, diversity: float, reasons: bool) -> int:
    """The work of a request: looking up its ids, comparing candidates with each other, computing reasons."""
    compared = k * pool_size(k, diversity) // 10 if diversity else 0
    weighed = k * history // 20 if reasons else 0
    return k + ids + compared + weighed


class CostlyRequests:
    """Runs handlers in threads, costly ones one at a time: cheap requests never wait for them."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def run(self, cost: int, handle: Callable[[], Result]) -> Result:
        if cost <= COSTLY:
            return await sync_to_thread(handle)
        if self._waiting >= MOST_WAITING:
            raise Overloaded(
                "too many costly requests at once: try again in a second, or with fewer ids or a smaller k"
            )
        self._waiting += 1
        try:
            async with self._turn:
                return await sync_to_thread(handle)
        finally:
            self._waiting -= 1
