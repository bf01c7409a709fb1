"""Ctrl-C and SIGTERM where an exception at any moment would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred_interrupts(arrived: Callable[[], None] = lambda: None) -> Iterator[Callable[[], None]]:
    """Delay the exceptions of SIGINT and SIGTERM until the yielded function is called or the block ends.

    arrived: called as soon as an exception waits; must not raise.
    """
    waiting: list[BaseException] = []
    handlers: dict[int, Any] = {}

    def raise_waiting() -> None:
        if waiting:
            raise waiting.pop(0)

    def defer(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:
            waiting.append(error)
            arrived()

    if threading.current_thread() is threading.main_thread():  # Python runs handlers in no other
        for wanted in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(wanted)):
                handlers[wanted] = handler
    try:
        for number in handlers:
            signal.signal(number, defer)
        yield raise_waiting
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        raise_waiting()
