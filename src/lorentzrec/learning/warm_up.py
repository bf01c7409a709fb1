"""Compiling the kernels before they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.barrier import Barrier
from lorentzrec.learning.kernels.compiling import announced, between_passes
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.schedule import learning_rate
from lorentzrec.model.config import TrainingConfig

VARIANTS = (
    TrainingConfig(),
    TrainingConfig(model="symmetric", loss="softmax"),
    TrainingConfig(model="symmetric", loss="bpr"),
)
"""Configs that together, and with attributes, call every kernel."""


def warm_up(
    config: TrainingConfig | None = None,
    announce: Callable[[str], None] = lambda line: None,
    *,
    attributes: bool = False,
) -> None:
    """Compile what training with this config calls, or load it from the cache on disk.

    It runs an epoch on a few events in the calling thread, so that Ctrl-C ends it; the types that the kernels are
    compiled for are those of every training run. `announce` is called with a line if there is something to compile.

    attributes: also what training with attributes calls, if the model can have them.
    """
    import polars as pl

    config = (config or TrainingConfig()).replace(dimension=2, negative_count=2, validation=0.0, threads=1)
    described = pl.DataFrame({"item": [0, 1, 2], "colour": ["red", "red", "red"]})
    composed = attributes and config.model == "asymmetric"
    run = TrainingRun(_events(), config, attributes=described if composed else None)
    with announced(cache(announce)):
        run.runner.run(1, learning_rate(run.config, 1), lambda positives, loss: None, threading.Event())
        Barrier(2)  # which the single thread does not use


def _events() -> Interactions:
    """Two customers who have bought two of three items each."""
    return Interactions.from_pairs(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), np.arange(4))


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
            warm_up(config, lines.append, attributes=attributes)

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
