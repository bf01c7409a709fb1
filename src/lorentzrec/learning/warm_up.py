"""Compiling the kernels before they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lorentzrec.learning.epochs import compile_kernels
from lorentzrec.learning.kernels.compiling import between_passes
from lorentzrec.model.config import TrainingConfig

VARIANTS = (
    TrainingConfig(),
    TrainingConfig(model="symmetric", loss="softmax"),
    TrainingConfig(model="symmetric", loss="bpr"),
)
"""Configs that together, and with attributes, call every kernel."""


@contextmanager
def compiling_ahead(
    config: TrainingConfig, *, attributes: bool = False
) -> Iterator[Callable[[Callable[[str], None]], None]]:
    """Compile in a thread while the block does something else, such as reading data.

    The block gets a function that waits until that is done; it calls its argument with a line if there is still
    something to compile. Leaving the block by an exception ends compilation within a second or two.
    """
    lines: list[str] = []
    cancelled = threading.Event()

    def end_if_cancelled() -> None:
        if cancelled.is_set():
            raise _Cancelled

    def work() -> None:
        # an error is reported by the training that follows
        with suppress(_Cancelled, Exception), between_passes(end_if_cancelled):
            compile_kernels(config, lines.append, attributes=attributes)

    def wait(announce: Callable[[str], None]) -> None:
        while thread.is_alive():
            while lines:
                announce(lines.pop(0))
            thread.join(0.1)

    thread = threading.Thread(target=work, name="lorentzrec-warm-up")
    thread.start()
    try:
        yield wait
    finally:
        cancelled.set()
        thread.join()


class _Cancelled(BaseException):
    """Not an `Exception`, which numba takes for an error in the code it compiles."""
