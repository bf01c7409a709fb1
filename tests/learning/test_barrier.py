"""Threads that wait for each other."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lorentzrec.learning import barrier
from lorentzrec.learning.barrier import Barrier


@pytest.mark.parametrize("looks", [1, 1_000_000], ids=["sleeping", "looking"])
def test_no_thread_continues_before_the_last_has_arrived(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "_LOOKS", looks)
    arrived = [0, 0, 0]
    seen: list[list[int]] = []
    gate = Barrier(3, lambda: seen.append(list(arrived)))

    def work(thread: int) -> None:
        for _ in range(100):
            if thread == 0:
                time.sleep(1e-4)
            arrived[thread] += 1
            gate.wait()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert seen == [[turn] * 3 for turn in range(1, 101)]


@pytest.mark.parametrize("looks", [1, 1_000_000], ids=["sleeping", "looking"])
def test_an_aborted_wait_ends_for_those_who_wait_and_those_who_come_later(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "_LOOKS", looks)
    gate = Barrier(3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gate.wait)
        time.sleep(0.05)
        gate.abort()
        with pytest.raises(threading.BrokenBarrierError):
            waiting.result(timeout=10)
    with pytest.raises(threading.BrokenBarrierError):
        gate.wait()


def test_a_single_thread_runs_its_action_and_continues() -> None:
    calls: list[int] = []
    gate = Barrier(1, lambda: calls.append(1))
    gate.wait()
    gate.wait()
    assert calls == [1, 1]
