"""One epoch of training: the events cut into blocks, the blocks handed to threads."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions, offsets_of
from lorentzrec.errors import TrainingError
from lorentzrec.learning.config import TrainingConfig
from lorentzrec.learning.kernels.blocks import asymmetric_steps, symmetric_steps
from lorentzrec.learning.kernels.structures import BROKEN, CAPPED, CLIPPED, COINCIDENT, SATURATED, Table, Workspace
from lorentzrec.learning.kernels.triplets import triplet_steps
from lorentzrec.learning.tables import BLOCK_ROWS, FOLDED_BLOCK_ROWS, events_of, settings_of, workspace_of
from lorentzrec.ranking import SINGLE_THREADED_BLAS

_EVENTS_PER_CALL = 1 << 15
"""Events that a thread takes at a time: enough to make a call's cost vanish, few enough that Ctrl-C and the progress
bar feel prompt."""


@dataclass(frozen=True)
class EpochResult:
    loss: float
    """Mean over the positives that were learned from."""
    positives: int
    seconds: float
    clipped: int
    capped: int
    coincident: int
    saturated: int


class EpochRunner:
    """Runs epochs over one set of interactions. The key of an epoch, not the threads, decides what is sampled.

    `histories` holds what customers are made of: their own points (symmetric), or items' points (the same table as
    `items` unless targets are separate).
    """

    def __init__(self, data: Interactions, config: TrainingConfig, histories: Table, items: Table) -> None:
        self.config = config
        self.histories, self.items = histories, items
        self.events = events_of(data)
        self.lengths = data.lengths
        symmetric = config.model == "symmetric"
        # who can be learned from: a customer of the asymmetric model needs something to be predicted from
        self.learners = np.flatnonzero(self.lengths >= (1 if symmetric else 2))
        skipped_first = 0 if symmetric or config.history == "leave_one_out" else 1
        self.positives = int((self.lengths[self.learners] - skipped_first).sum())
        if symmetric and config.loss == "bpr":
            self.positives *= config.negative_count or 1  # a triplet has one negative: a positive counts with each
        self.block_rows = FOLDED_BLOCK_ROWS if config.history == "leave_one_out" and not symmetric else BLOCK_ROWS
        rows = self.block_rows if symmetric else self.block_rows + int(self.lengths.max(initial=0))
        self.workspaces = [
            workspace_of(config, rows, len(histories.points), len(items.points), shared=histories is items)
            for _ in range(config.threads or 1)
        ]

    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """One epoch (the first is 1). `advance` is told of positives done and their summed loss; stops early once
        `cancelled` is set."""
        started = time.perf_counter()
        key = epoch_key(self.config.seed, epoch)
        step, weights = self._cut(epoch, settings_of(self.config, learning_rate), key)
        for workspace in self.workspaces:
            workspace.counters[:] = 0
        calls = _calls(weights)
        following = iter(range(len(calls) - 1))
        lock = threading.Lock()
        total, done = 0.0, 0

        def work(workspace: Workspace) -> None:
            nonlocal total, done
            while not cancelled.is_set():
                with lock:
                    call = next(following, None)
                if call is None:
                    return
                first, last = calls[call], calls[call + 1]
                loss = step(first, last, workspace)
                positives = int(weights[first:last].sum())
                if workspace.counters[BROKEN]:
                    cancelled.set()
                with lock:
                    total += loss
                    done += positives
                    advance(positives, loss)

        self._in_threads(work, cancelled)
        counters = np.sum([workspace.counters for workspace in self.workspaces], axis=0)
        self._refuse_broken(epoch)
        if not math.isfinite(total):
            raise TrainingError(f"the loss became {total} in epoch {epoch}: lower scale, initial_width or the weights")
        return EpochResult(
            loss=total / max(done, 1),
            positives=done,
            seconds=time.perf_counter() - started,
            clipped=int(counters[CLIPPED]),
            capped=int(counters[CAPPED]),
            coincident=int(counters[COINCIDENT]),
            saturated=int(counters[SATURATED]),
        )

    def _cut(
        self, epoch: int, settings: Any, key: np.uint64
    ) -> tuple[Callable[[int, int, Workspace], float], NDArray[np.int64]]:
        """How to run places first..last-1 of the epoch, and the positives in each place (a customer, or a block)."""
        shared = (self.events, self.histories, self.items, settings, key)
        if self.config.model == "symmetric" and self.config.loss != "bpr":
            rows = self.block_rows
            sizes = np.minimum(rows, self.positives - np.arange(0, self.positives, rows))
            return lambda first, last, workspace: symmetric_steps(first, last, rows, *shared, workspace), sizes
        order = np.random.default_rng([self.config.seed, epoch]).permutation(self.learners)
        lengths = self.lengths[order]
        if self.config.model == "symmetric":
            return (
                lambda first, last, workspace: triplet_steps(order, first, last, *shared, workspace),
                lengths * settings.negative_count,
            )
        bounds = block_bounds(lengths, self.block_rows)
        positives = np.diff(offsets_of(lengths - (0 if settings.leave_one_out else 1))[bounds])
        return lambda first, last, workspace: asymmetric_steps(
            order, bounds, first, last, *shared, workspace
        ), positives

    def _in_threads(self, work: Callable[[Workspace], None], cancelled: threading.Event) -> None:
        # the kernels' matrix products are small and run in our own threads: BLAS starting more of them is a slowdown
        # of a hundred times. The limit reaches only libraries that are loaded, and it is SciPy's BLAS that numba
        # calls.
        import scipy.linalg.cython_blas  # noqa: F401

        with SINGLE_THREADED_BLAS:
            if len(self.workspaces) == 1:
                return work(self.workspaces[0])
            with ThreadPoolExecutor(len(self.workspaces)) as pool:
                running = [pool.submit(work, workspace) for workspace in self.workspaces]
                try:
                    for future in running:
                        future.result()
                except BaseException:
                    cancelled.set()
                    raise
        return None

    def _refuse_broken(self, epoch: int) -> None:
        for workspace in self.workspaces:
            row = int(workspace.counters[BROKEN]) - 1
            if row >= 0:
                raise TrainingError(
                    f"a point became infinite in epoch {epoch}, row {row}: lower learning_rate, or set clip_norm=1"
                )


def epoch_key(seed: int, epoch: int) -> np.uint64:
    """Everything sampled in an epoch follows from this number."""
    return np.uint64(int.from_bytes(hashlib.sha256(f"{seed}:{epoch}".encode()).digest()[:8], "little"))


def block_bounds(lengths: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Where blocks of customers begin, and the end: a block is closed by the customer with whom it reaches this many
    events."""
    ends = np.cumsum(lengths)
    bounds = [0]
    while bounds[-1] < len(lengths):
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(min(int(np.searchsorted(ends, before + rows)) + 1, len(lengths)))
    return np.array(bounds, np.int64)


def _calls(weights: NDArray[np.int64]) -> list[int]:
    """Places at which one call of a kernel ends and the next begins."""
    ends = np.cumsum(weights)
    calls = [0]
    while calls[-1] < len(weights):
        before = ends[calls[-1] - 1] if calls[-1] else 0
        calls.append(min(int(np.searchsorted(ends, before + _EVENTS_PER_CALL)) + 1, len(weights)))
    return calls
