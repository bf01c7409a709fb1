"""One epoch of training: the events cut into blocks, the blocks divided among threads."""

from __future__ import annotations

import hashlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import thread_pool
from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions, make_offsets
from lorentzrec.errors import InputError, TrainingError
from lorentzrec.learning.barrier import Barrier
from lorentzrec.learning.kernels.attributes import compose_points, pass_to_vectors
from lorentzrec.learning.kernels.blocks import apply_gradients, asymmetric_gradients, symmetric_gradients
from lorentzrec.learning.kernels.compiling import announced
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
    allocate_composed,
    allocate_lookups,
    allocate_step,
    allocate_workspace,
    convert_attributes,
    convert_events,
    convert_settings,
    count_attribute_slots,
    make_table,
    wrap_composed,
)
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.notes import Note

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
    """How often a customer had no valid negative."""


class Runner(ABC):
    """Runs the epochs of a training run. Between epochs, the tables of the run hold the points."""

    @abstractmethod
    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """Run one epoch; see `EpochRunner.run`."""

    def for_events(self, data: Interactions) -> Runner | None:
        """A runner of the same points on other events; None: the points are learned on this machine."""
        return None

    def prepare(self, announce: Callable[[str], None]) -> None:  # noqa: B027, a runner may have nothing to do
        """Called before the first epoch. `announce` prints a line about something that takes long."""

    def check_notes(self, notes: Sequence[Note]) -> None:  # noqa: B027
        """Called with the notes of a checkpoint to resume from. Raises an error if its run does not fit this one."""


class EpochCut(NamedTuple):
    """The customers of an epoch, divided into blocks."""

    order: NDArray[np.int64]
    """Rows of the customers in the order in which the epoch visits them."""
    bounds: NDArray[np.int64]
    """Where blocks begin in `order`, and the end of the last one."""
    positives: NDArray[np.int64]
    """The positives of each block."""


class EpochRunner(Runner):
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
        self.events = convert_events(data, config.model, orders=config.history == "orders")
        self.lengths = data.lengths
        symmetric = config.model == "symmetric"
        self.triplets = config.triplets
        self.targets, self.learners, self.positives = find_learners(data, config)
        self.block_rows = block_rows(config)
        rows = self.block_rows if symmetric else self.block_rows + int(self.lengths.max(initial=0))
        threads = config.threads
        extra = 0 if attributes is None else count_attribute_slots(attributes, config, rows)
        item_count, shared = len(data.items), histories is items
        if not self.triplets:
            threads = min(threads, config.blocks_per_step)
            self.step = allocate_step(config, rows, item_count, extra)
        elif config.deterministic:
            threads = 1
        self.workspaces = [
            allocate_workspace(config, rows, len(histories.points), item_count, shared=shared, extra_slots=extra)
            for _ in range(threads)
        ]
        self.read = histories, items
        """The tables of points that blocks read. With attributes, these are composed of the vectors in the others."""
        self.attributes: Attributes | None = None
        if attributes is not None:
            self.attributes = convert_attributes(attributes, data.item_counts > 0 if known is None else known, config)
            of_items = allocate_composed(item_count, config.dimension)
            self.composed = of_items if shared else allocate_composed(item_count, config.dimension), of_items
            self.read = wrap_composed(self.composed[0], histories), wrap_composed(of_items, items)
            self.lookups = [allocate_lookups(attributes, shared=shared) for _ in range(threads)]

    def prepare(self, announce: Callable[[str], None]) -> None:
        compile_kernels(self.config, announce, attributes=self.attributes is not None)

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
        settings = convert_settings(self.config, learning_rate)
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
        taken = np.zeros(1, np.int64)  # how many blocks of the step are taken
        number, end = part * len(orders) // parts, (part + 1) * len(orders) // parts
        total, done = 0.0, 0
        stopped = number == end

        def reset_taken() -> None:
            taken[0] = 0

        def stop_if_cancelled() -> None:
            nonlocal stopped
            stopped = cancelled.is_set()
            reset_taken()

        def end_step() -> None:
            nonlocal total, done, number, stopped
            loss = sum(step.losses[: len(orders[number])].tolist())
            total, done = total + loss, done + learned[number]
            advance(learned[number], loss)
            number += 1
            stopped = number == end or any(workspace.counters[BROKEN] for workspace in self.workspaces)

        computed, applied = Barrier(threads, stop_if_cancelled), Barrier(threads, end_step)
        composed, passed = Barrier(threads), Barrier(threads, reset_taken)
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
                    while taken[0] < len(blocks) and not cancelled.is_set():
                        gradients(workspace, number * size, blocks, taken, _BLOCKS_PER_CALL)
                    computed.wait()
                    if stopped:
                        return
                    if self.attributes is not None:
                        pass_to_vectors(len(blocks), taken, *made, settings.curved, self.lookups[thread], step)
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
    ) -> tuple[Callable[..., None], NDArray[np.int64], Sequence[NDArray[np.int64]]]:
        """The blocks of an epoch: (gradients, positives, cut).

        gradients(workspace, first, blocks, taken, limit) writes the gradients of blocks into the step; its arguments
        after the workspace are the first ones of `symmetric_gradients`. positives: those of each block. cut: the
        customers of an asymmetric epoch in order, and where blocks begin and end; empty for a symmetric one.
        """
        shared = (self.events, *self.read, settings, epoch_key(self.config.seed, epoch))
        rows, step = self.block_rows, self.step
        if self.config.model == "symmetric":
            sizes = np.minimum(rows, self.positives - np.arange(0, self.positives, rows))
            return lambda workspace, *taking: symmetric_gradients(*taking, rows, *shared, workspace, step), sizes, ()
        *cut, positives = cut_epoch(self.learners, self.targets, self.lengths, self.config, epoch)
        return lambda workspace, *taking: asymmetric_gradients(*taking, *cut, *shared, workspace, step), positives, cut

    def _run_triplets(
        self, epoch: int, settings: Settings, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> tuple[float, int]:
        """The summed loss of an epoch and its positives: threads take customers and share the points without locks."""
        order, key = shuffle_learners(self.learners, self.config.seed, epoch), epoch_key(self.config.seed, epoch)
        weights = self.targets[order] * settings.negative_count
        calls = cut_blocks(weights, _EVENTS_PER_CALL).tolist()
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
    targets = count_targets(data, "folds" if symmetric else config.history)
    # a customer of the asymmetric model needs another event to be predicted from
    learners = np.flatnonzero((targets > 0) & (data.lengths >= (1 if symmetric else 2)))
    if len(learners) == 0 and config.history == "orders" and data.labels is None:
        raise InputError(
            "every customer has a single order, so no order follows another, and nothing can be learned: check the "
            "columns of orders and times, or set history=folds, with which the items of an order predict each other"
        )
    if len(learners) == 0:
        raise InputError(
            "no customer has an event to learn from: with labels, one must be labelled"
            + (" and follow another" if not symmetric else "")
        )
    # a triplet has one negative: a positive counts with each
    positives = int(targets[learners].sum()) * (config.negative_count if config.triplets else 1)
    return targets, learners, positives


def count_targets(data: Interactions, history: str) -> NDArray[np.int64]:
    """Events of each customer that are predicted: the labelled ones, or without labels all. With causal histories the
    first event, and with orders the first order, are not among them, having nothing to be predicted from."""
    causal = history == "causal"
    if history == "orders":
        predicted = (data.order_positions > 0) & (True if data.labels is None else data.labels)
        return np.bincount(data.user_rows[predicted], minlength=len(data.users))
    if data.labels is None:
        return np.maximum(data.lengths - int(causal), 0)
    labels = data.labels.astype(np.int64)
    counts: NDArray[np.int64] = np.diff(make_offsets(labels)[data.offsets])
    if causal:
        owners = np.flatnonzero(data.lengths)
        counts[owners] -= labels[data.offsets[owners]]
    return counts


def cut_epoch(
    learners: NDArray[np.int64],
    targets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    config: ResolvedConfig,
    epoch: int,
) -> EpochCut:
    """Divide the customers of an asymmetric epoch into blocks; `targets` and `lengths` are those of all customers."""
    order = shuffle_learners(learners, config.seed, epoch)
    bounds = cut_blocks(lengths[order], block_rows(config))
    return EpochCut(order, bounds, np.diff(make_offsets(targets[order])[bounds]))


def block_rows(config: ResolvedConfig) -> int:
    """Events of a block."""
    return FOLDED_BLOCK_ROWS if config.history == "folds" and config.model == "asymmetric" else BLOCK_ROWS


def shuffle_learners(learners: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
    """Put the customers in the order in which an epoch visits them."""
    return np.random.default_rng([seed, epoch]).permutation(learners)


def epoch_key(seed: int, epoch: int) -> np.uint64:
    """Everything sampled in an epoch follows from this number."""
    return np.uint64(int.from_bytes(hashlib.sha256(f"{seed}:{epoch}".encode()).digest()[:8], "little"))


def cut_blocks(lengths: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Divide customers with these numbers of events into blocks. Returns where blocks begin, and the end of the last
    block. A block ends with the customer with whom it reaches `rows` events."""
    ends = np.cumsum(lengths)
    bounds = [0]
    while bounds[-1] < len(lengths):
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(min(int(np.searchsorted(ends, before + rows)) + 1, len(lengths)))
    return np.array(bounds, np.int64)


def compile_kernels(
    config: TrainingConfig | None = None,
    announce: Callable[[str], None] = lambda line: None,
    *,
    attributes: bool = False,
) -> None:
    """Compile what training with this config calls, or load it from the cache on disk.

    It runs an epoch on a few events in the calling thread, so that Ctrl-C ends it. The types that the kernels are
    compiled for are those of every training run. `announce` is called with a line if there is something to compile.

    attributes: also compile what training with attributes calls, if the model can have them.
    """
    import polars as pl

    # Two customers who have bought two of three items each.
    data = Interactions.from_pairs(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), np.arange(4))
    config = (config or TrainingConfig()).replace(dimension=2, negative_count=2, validation=0.0, threads=1)
    if config.history == "orders":  # has the kernels of causal histories
        config = config.replace(history="causal")
    described, count = None, len(data.items)
    if attributes and config.model == "asymmetric":
        colours = pl.DataFrame({"item": [0, 1, 2], "colour": ["red", "red", "red"]})
        described = ItemAttributes.from_frame(colours).align(data.items)
        count += len(described.values)
    resolved = config.resolve_for(data, attributes=described is not None)
    points = np.linspace(-0.1, 0.1, 2 * count, dtype=np.float32).reshape(count, 2)
    items = histories = make_table(points, resolved)
    if config.model == "symmetric" or resolved.targets == "separate":
        histories = make_table(points, resolved)
    runner = EpochRunner(data, resolved, histories, items, described)
    with announced(cache(announce)):
        runner.run(1, resolved.learning_rate, lambda positives, loss: None, threading.Event())
        Barrier(2)  # which the single thread does not use
