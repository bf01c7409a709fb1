"""One seed gives one model, bit by bit, for any number of threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest

from lorentzrec.learning.epochs import EpochRunner
from lorentzrec.learning.kernels.compiling import fetch_add
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from tests.learning.grouped_data import grouped, quick

DATA = grouped(users=70, events=1800)
THREADS = [1, 2, 3, 8]


def bits(model: Model) -> list[bytes]:
    """Everything that was learned, and every loss."""
    points = [model.item_points, model.history_points, model.user_points]
    return [array.tobytes() for array in points if array is not None] + [
        np.float64(epoch.loss).tobytes() for epoch in model.record
    ]


@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
@pytest.mark.parametrize("score", ["inner", "distance"])
def test_any_number_of_threads_gives_the_same_bits(model: str, loss: str, optimiser: str, score: str) -> None:
    """Twice each; small blocks of many customers, so that threads finish in changing order."""
    for geometry, history in product(("hyperboloid", "euclidean"), ("causal", "folds")):
        options = {"model": model, "loss": loss, "optimiser": optimiser, "score": score, "geometry": geometry}
        config = quick(epochs=2, negative_count=5, deterministic=True, blocks_per_step=4, history=history, **options)
        found = [bits(train(DATA, config.replace(threads=threads), progress=False)) for threads in THREADS * 2]
        assert all(one == found[0] for one in found), options | {"history": history}


def test_the_blocks_of_a_step_decide_and_not_the_threads() -> None:
    one, eight = (bits(train(DATA, quick(blocks_per_step=blocks), progress=False)) for blocks in (1, 8))
    assert one != eight


def test_a_step_has_at_most_as_many_threads_as_blocks() -> None:
    run = TrainingRun(DATA, quick(threads=8, blocks_per_step=3))
    assert isinstance(run.runner, EpochRunner)
    assert len(run.runner.workspaces) == 3


def test_symmetric_bpr_says_that_it_varies() -> None:
    options: dict[str, Any] = {"model": "symmetric", "loss": "bpr", "epochs": 1}
    varying = train(DATA, quick(threads=2, **options), progress=False)
    assert Note(NoteKind.NOT_REPRODUCIBLE) in varying.note_records
    fixed = train(DATA, quick(threads=2, deterministic=True, **options), progress=False)
    assert Note(NoteKind.ONE_THREAD) in fixed.note_records
    alone = train(DATA, quick(threads=1, **options), progress=False)
    assert not {NoteKind.NOT_REPRODUCIBLE, NoteKind.ONE_THREAD} & {note.kind for note in alone.note_records}
    assert bits(alone) == bits(fixed)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_one_thread_ends_all(threads: int) -> None:
    """What a thread raises reaches the caller, and none waits for it."""
    run = TrainingRun(DATA, quick(threads=threads, blocks_per_step=4))

    def fail(positives: int, loss: float) -> None:
        raise RuntimeError("no more room for progress")

    with pytest.raises(RuntimeError, match="no more room"):
        run.runner.run(1, 0.1, fail, threading.Event())


@pytest.mark.parametrize("threads", [1, 3])
def test_a_cancelled_epoch_ends_before_the_next_step(threads: int) -> None:
    run = TrainingRun(DATA, quick(threads=threads, blocks_per_step=2))
    runner = run.runner
    cancelled = threading.Event()
    steps: list[int] = []

    def advance(positives: int, loss: float) -> None:
        steps.append(positives)
        cancelled.set()

    points = run.item_table.points.copy()
    result = runner.run(1, 0.1, advance, cancelled)
    assert len(steps) == 1
    assert result.positives == steps[0] < run.positives
    assert not np.array_equal(points, run.item_table.points)


def test_threads_never_take_the_same_number() -> None:
    """What divides the blocks of a step among the threads."""

    @numba.njit(nogil=True)
    def numbers(counter: Any, into: Any) -> None:
        for place in range(len(into)):
            into[place] = fetch_add(counter, 1)

    counter = np.zeros(1, np.int64)
    found = np.zeros((4, 100_000), np.int64)
    numbers(counter, found[0, :0])  # compile
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda into: numbers(counter, into), found):
            pass
    np.testing.assert_array_equal(np.sort(found.ravel()), np.arange(found.size))
