"""One epoch of training: the events cut into blocks, the blocks divided among threads."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions, offsets_of
from lorentzrec.errors import InputError, TrainingError
from lorentzrec.learning.barrier import Barrier
from lorentzrec.learning.kernels.attributes import compose_points, pass_to_vectors
from lorentzrec.learning.kernels.blocks import apply_gradients, asymmetric_gradients, symmetric_gradients
from lorentzrec.learning.kernels.structures import (
    BROKEN,
    CAPPED,
    CLIPPED,
    COINCIDENT,
    SATURATED,
    Attributes,
    Settings,
    Table,
)
from lorentzrec.learning.kernels.triplets import triplet_steps
from lorentzrec.learning.tables import (
    BLOCK_ROWS,
    FOLDED_BLOCK_ROWS,
    attribute_lookups,
    attribute_slots,
    attributes_of,
    composed_of,
    events_of,
    points_table,
    settings_of,
    step_of,
    workspace_of,
)
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.threads import thread_pool

_EVENTS_PER_CALL = 1 << 15
"""Triplets that a thread takes at a time: enough to make the cost of a call negligible, few enough for a prompt Ctrl-C
and progress bar."""
_BLOCKS_PER_CALL = 8
"""The same for blocks; a step has no more of them by default."""


@dataclass(frozen=True)
class EpochResult:
    """Sums over an epoch, or a part of one."""

    loss: float
    positives: int
    clipped: int
    """Gradients that were shortened."""
    capped: int
    """Steps that were shortened."""
    coincident: int = 0
    """Pairs of points without a direction from one to the other."""
    saturated: int = 0
    """Times that a customer had no negative."""


class Runner(Protocol):
    """Runs the epochs of a training run."""

    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """One epoch; see `EpochRunner.run`."""
        ...


class EpochRunner:
    """Runs epochs over one set of interactions, on this machine.

    `histories` holds what customers are made of: their own points (symmetric), or items' points (the same table as
    `items` unless targets are separate).

    Everything but symmetric BPR learns in steps of a fixed number of blocks: the result is the same, bit by bit, for
    any number of threads. Symmetric BPR makes a step per triplet, on points that all threads share without locks, or
    with `deterministic=True` on a single thread.
    """

    def __init__(
        self,
        data: Interactions,
        config: ResolvedConfig,
        histories: Table,
        items: Table,
        attributes: ItemAttributes | None = None,
        known: Booleans | None = None,
    ) -> None:
        """attributes, known: those of items, and which items have their own vector as well; None: those with
        events."""
        self.config = config
        self.histories, self.items = histories, items
        self.events = events_of(data, config.model)
        self.lengths = data.lengths
        symmetric = config.model == "symmetric"
        folded = config.history == "folds" and not symmetric
        self.triplets = config.triplets
        self.targets, self.learners, self.positives = find_learners(data, config)
        self.block_rows = FOLDED_BLOCK_ROWS if folded else BLOCK_ROWS
        rows = self.block_rows if symmetric else self.block_rows + int(self.lengths.max(initial=0))
        threads = config.threads
        extra = 0 if attributes is None else attribute_slots(attributes, config, rows)
        item_count = len(data.items)
        if not self.triplets:
            threads = min(threads, config.blocks_per_step)
            self.step = step_of(config, rows, item_count, extra)
        elif config.deterministic:
            threads = 1
        self.workspaces = [
            workspace_of(config, rows, len(histories.points), item_count, shared=histories is items, extra_slots=extra)
            for _ in range(threads)
        ]
        self.read = histories, items
        """The tables of points that blocks read. With attributes, these are composed of the vectors in the others."""
        self.attributes: Attributes | None = None
        if attributes is not None:
            self.attributes = attributes_of(attributes, data.item_counts > 0 if known is None else known, config)
            shared = histories is items
            of_items = composed_of(item_count, config.dimension)
            self.composed = of_items if shared else composed_of(item_count, config.dimension), of_items
            self.read = points_table(self.composed[0]), points_table(of_items)
            self.lookups = [attribute_lookups(attributes, shared=shared) for _ in range(threads)]

    def run(
        self,
        epoch: int,
        learning_rate: float,
        advance: Callable[[int, float], None],
        cancelled: threading.Event,
        *,
        part: int = 0,
        parts: int = 1,
    ) -> EpochResult:
        """One epoch (the first is 1). `advance` is called with the number of positives done and their summed loss;
        stops early once `cancelled` is set.

        part: of an epoch that is run in `parts`, one call each. The points after the last are those of one call.
        """
        settings = settings_of(self.config, learning_rate)
        for workspace in self.workspaces:
            workspace.counters[:] = 0
        if self.triplets:
            total, done = self._run_triplets(epoch, settings, advance, cancelled)
        else:
            total, done = self._run_blocks(epoch, settings, advance, cancelled, part, parts)
        counters = np.sum([workspace.counters for workspace in self.workspaces], axis=0)
        broken = max(int(workspace.counters[BROKEN]) for workspace in self.workspaces)
        if broken:
            raise TrainingError(
                f"a point became infinite in epoch {epoch}, row {broken - 1}: lower learning_rate, or set clip_norm=1"
            )
        if not math.isfinite(total):
            raise TrainingError(f"the loss became {total} in epoch {epoch}: lower scale, initial_width or the weights")
        clipped, capped, coincident, saturated = counters[[CLIPPED, CAPPED, COINCIDENT, SATURATED]].tolist()
        return EpochResult(total, done, clipped, capped, coincident, saturated)

    def _run_blocks(
        self,
        epoch: int,
        settings: Settings,
        advance: Callable[[int, float], None],
        cancelled: threading.Event,
        part: int,
        parts: int,
    ) -> tuple[float, int]:
        """The summed loss of a part of an epoch and its positives. Losses are summed in the order of the blocks."""
        gradients, positives, cut = self._blocks(epoch, settings)
        size, step, threads = len(self.step.losses), self.step, len(self.workspaces)
        firsts = range(0, len(positives), size)
        learned = np.add.reduceat(positives, firsts).tolist()
        # the last block of a step to be finished should be a small one
        orders = [np.argsort(-positives[first : first + size], kind="stable") for first in firsts]
        place = np.zeros(1, np.int64)  # how many blocks of the step are taken
        number, end = part * len(orders) // parts, (part + 1) * len(orders) // parts
        total, done = 0.0, 0
        stopped = number == end

        def empty_place() -> None:
            place[0] = 0

        def stop_if_cancelled() -> None:
            nonlocal stopped
            stopped = cancelled.is_set()
            empty_place()

        def end_step() -> None:
            nonlocal total, done, number, stopped
            loss = sum(step.losses[: len(orders[number])].tolist())
            total, done = total + loss, done + learned[number]
            advance(learned[number], loss)
            number += 1
            stopped = number == end or any(workspace.counters[BROKEN] for workspace in self.workspaces)

        computed, applied = Barrier(threads, stop_if_cancelled), Barrier(threads, end_step)
        composed, passed = Barrier(threads), Barrier(threads, empty_place)
        barriers = composed, computed, passed, applied
        vectors, key = (self.histories, self.items), epoch_key(self.config.seed, epoch)

        def work(thread: int) -> None:
            workspace = self.workspaces[thread]
            try:
                while not stopped:
                    blocks = orders[number]
                    if self.attributes is not None:
                        first, made = number * size, (self.attributes, self.composed)
                        share = (epoch << 32) + number, first, first + len(blocks), thread, threads
                        compose_points(*share, *cut, self.events, *vectors, *made, settings, key, workspace)
                        composed.wait()
                    while place[0] < len(blocks) and not cancelled.is_set():
                        gradients(workspace, number * size, blocks, place, _BLOCKS_PER_CALL)
                    computed.wait()
                    if stopped:
                        return
                    if self.attributes is not None:
                        pass_to_vectors(len(blocks), place, *made, settings.curved, self.lookups[thread], step)
                        passed.wait()
                    scratch = workspace.chosen, workspace.counters
                    apply_gradients(len(blocks), thread, threads, *vectors, settings, *scratch, step)
                    applied.wait()
            except threading.BrokenBarrierError:
                return  # another thread failed, and reports why
            except BaseException:
                for barrier in barriers:
                    barrier.abort()
                raise

        self._in_threads(work, cancelled)
        return total, done

    def _blocks(
        self, epoch: int, settings: Settings
    ) -> tuple[Callable[..., None], NDArray[np.int64], tuple[NDArray[np.int64], ...]]:
        """The blocks of an epoch: (gradients, positives, cut).

        gradients(workspace, first, blocks, place, most) writes the gradients of blocks into the step; its arguments
        after the workspace are the first ones of `symmetric_gradients`. positives: those of each block. cut: the
        customers of an asymmetric epoch in order, and where blocks begin and end; empty for a symmetric one.
        """
        shared = (self.events, *self.read, settings, epoch_key(self.config.seed, epoch))
        rows, step = self.block_rows, self.step
        if self.config.model == "symmetric":
            sizes = np.minimum(rows, self.positives - np.arange(0, self.positives, rows))
            return lambda workspace, *taking: symmetric_gradients(*taking, rows, *shared, workspace, step), sizes, ()
        order = order_of(self.learners, self.config.seed, epoch)
        bounds = block_bounds(self.lengths[order], rows)
        positives = np.diff(offsets_of(self.targets[order])[bounds])
        cut = order, bounds
        return lambda workspace, *taking: asymmetric_gradients(*taking, *cut, *shared, workspace, step), positives, cut

    def _run_triplets(
        self, epoch: int, settings: Settings, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> tuple[float, int]:
        """The summed loss of an epoch and its positives: threads take customers and share the points without locks."""
        order, key = order_of(self.learners, self.config.seed, epoch), epoch_key(self.config.seed, epoch)
        weights = self.targets[order] * settings.negative_count
        calls = block_bounds(weights, _EVENTS_PER_CALL).tolist()
        following = iter(range(len(calls) - 1))
        lock = threading.Lock()
        total, done = 0.0, 0

        def work(part: int) -> None:
            nonlocal total, done
            workspace = self.workspaces[part]
            for call in following:
                first, last = calls[call], calls[call + 1]
                loss = triplet_steps(
                    order, first, last, self.events, self.histories, self.items, settings, key, workspace
                )
                positives = int(weights[first:last].sum())
                with lock:
                    total += loss
                    done += positives
                    advance(positives, loss)
                if workspace.counters[BROKEN] or cancelled.is_set():
                    cancelled.set()
                    return

        self._in_threads(work, cancelled)
        return total, done

    def _in_threads(self, work: Callable[[int], None], cancelled: threading.Event) -> None:
        # the kernels' matrix products are small and run in our own threads: BLAS starting more of them is a slowdown
        # of a hundred times, and another order of summation. The limit reaches only libraries that are loaded, and it
        # is SciPy's BLAS that numba calls.
        import scipy.linalg.cython_blas  # noqa: F401

        with thread_pool(len(self.workspaces), interrupted=cancelled.set) as in_threads:
            list(in_threads(work, range(len(self.workspaces))))


def find_learners(data: Interactions, config: ResolvedConfig) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Targets of each customer, the rows of the customers to learn from, and the positives of an epoch."""
    symmetric = config.model == "symmetric"
    targets = target_counts(data, causal=not symmetric and config.history != "folds")
    # a customer of the asymmetric model needs another event to be predicted from
    learners = np.flatnonzero((targets > 0) & (data.lengths >= (1 if symmetric else 2)))
    if len(learners) == 0:
        raise InputError(
            "no customer has an event to learn from: with labels, one must be labelled"
            + (" and follow another" if not symmetric else "")
        )
    # a triplet has one negative: a positive counts with each
    positives = int(targets[learners].sum()) * (config.negative_count if config.triplets else 1)
    return targets, learners, positives


def target_counts(data: Interactions, *, causal: bool) -> NDArray[np.int64]:
    """Events of each customer that are predicted: the labelled ones, or without labels all. With causal histories the
    first event is not among them, having nothing to be predicted from."""
    if data.labels is None:
        return np.maximum(data.lengths - int(causal), 0)
    labels = data.labels.astype(np.int64)
    counts: NDArray[np.int64] = np.diff(offsets_of(labels)[data.offsets])
    if causal:
        owners = np.flatnonzero(data.lengths)
        counts[owners] -= labels[data.offsets[owners]]
    return counts


def order_of(learners: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
    """The customers in the order in which an epoch visits them."""
    return np.random.default_rng([seed, epoch]).permutation(learners)


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
