"""What every store guarantees for arms: several live versions by name, each with its log and its share."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.activations import LARGEST_ARMS, MAIN, Arm
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.store import Store
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import write_version

A, B, C, D = "a1", "b2", "c3", "d4"
CHANGES = """
import sys
from lorentzrec.serving.stores.address import open_store

store = open_store(sys.argv[1])
for number in range(10_000):
    share = number % 5 / 10
    if number % 3 == 0:
        store.activate("b2" if number % 2 else "c3", f"number {number}", arm="flat", share=share)
    elif number % 3 == 1:
        store.set_share("flat", share, f"number {number}")
    else:
        store.activate("a1" if number % 2 else "d4", f"number {number}")
    print(number, flush=True)
"""


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    for name in (A, B, C, D):
        store.upload(write_version(tmp_path, name))
    return store


def test_each_arm_has_its_current_version_and_main_has_the_rest(filled: Store, url: str) -> None:
    filled.activate(A)
    assert filled.state().arms == {MAIN: Arm(A, 1.0)}
    filled.activate(B, "flat", arm="flat", share=0.25)
    filled.activate(C, "slow", arm="deep")
    assert [*filled.state().arms.items()] == [(MAIN, Arm(A, 0.75)), ("deep", Arm(C, 0.0)), ("flat", Arm(B, 0.25))]
    filled.activate(D)
    filled.activate(C, arm="flat")
    filled.set_share("deep", 0.75, "half of the test")
    with closing(open_store(url)) as other:
        state = other.state()
        assert state.arms == {MAIN: Arm(D, 0.0), "deep": Arm(C, 0.75), "flat": Arm(C, 0.25)}
        assert (state.version, state.find_version("flat"), state.find_version("none")) == (D, C, None)
        log = [(entry.arm, entry.version, entry.reason, entry.share) for entry in other.activations()]
    assert log == [
        (MAIN, A, "activated", None),
        ("flat", B, "flat", 0.25),
        ("deep", C, "slow", 0.0),
        (MAIN, D, "activated", None),
        ("flat", C, "activated", 0.25),
        ("deep", C, "half of the test", 0.75),
    ]
    assert filled.standing_versions() == [D, A]
    assert filled.standing_versions("flat") == [C, B]
    assert filled.standing_versions("deep") == [C]
    assert filled.live_versions(filled.activations()) == [D, C, B, A]
    assert filled.live_versions(filled.activations(), "flat") == [C, B]


def test_a_rollback_is_one_of_an_arm(filled: Store) -> None:
    filled.activate(A)
    filled.activate(B, arm="flat", share=0.5)
    filled.activate(C, arm="flat")
    with raises_fault(StoreFault.OTHER_CURRENT, A):
        filled.roll_back(B, instead_of=C)
    filled.roll_back(B, instead_of=C, arm="flat")
    assert filled.state().arms == {MAIN: Arm(A, 0.5), "flat": Arm(B, 0.5)}
    last = filled.activations()[-1]
    assert (last.version, last.rejected, last.arm, last.share) == (B, C, "flat", 0.5)
    assert (filled.standing_versions("flat"), filled.standing_versions()) == ([B], [A])
    with raises_fault(StoreFault.OTHER_CURRENT, B):
        filled.activate(D, arm="flat", instead_of=None)
    with raises_fault(StoreFault.OTHER_CURRENT, "none"):
        filled.activate(D, arm="other", instead_of=B)


def test_an_arm_ends_and_begins_again(filled: Store) -> None:
    filled.activate(A)
    filled.activate(B, arm="flat", share=0.5)
    filled.end_arm("flat", "it was worse")
    assert filled.state().arms == {MAIN: Arm(A, 1.0)}
    assert filled.standing_versions("flat") == []
    last = filled.activations()[-1]
    assert (last.arm, last.version, last.share, last.ends) == ("flat", B, None, True)
    filled.discard(B)
    filled.activate(C, arm="flat", instead_of=None)
    assert filled.state().arms == {MAIN: Arm(A, 1.0), "flat": Arm(C, 0.0)}, "the share is not that of before"
    assert filled.standing_versions("flat") == [C]


def test_the_version_of_no_arm_is_discarded(filled: Store) -> None:
    filled.activate(A)
    filled.activate(B, arm="flat")
    filled.activate(C, arm="flat")
    for name in (A, C):
        with raises_fault(StoreFault.CURRENT_VERSION, name):
            filled.discard(name)
    filled.discard(B)
    assert filled.clean() == 1
    assert filled.versions() == [C, A]


def test_arms_that_cannot_be(filled: Store) -> None:
    with raises_fault(StoreFault.NO_MAIN, "publish one without --arm before one in arm flat"):
        filled.activate(A, arm="flat")
    filled.activate(A)
    filled.activate(B, arm="flat", share=0.6)
    log = filled.activations()
    for share in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"the share of arm deep is {share}: give a number from 0 to 1"):
            filled.activate(C, arm="deep", share=share)
    with raises_fault(StoreFault.SHARES_ABOVE_1, "deep 0.5, flat 0.6"):
        filled.activate(C, arm="deep", share=0.5)
    with raises_fault(StoreFault.SHARE_OF_MAIN):
        filled.activate(C, share=0.5)
    with raises_fault(StoreFault.SHARE_OF_MAIN):
        filled.set_share(MAIN, 0.5)
    with raises_fault(StoreFault.NO_ARM, "'deep'", "main, flat"):
        filled.set_share("deep", 0.1)
    with raises_fault(StoreFault.NO_ARM, "'deep'", "main, flat"):
        filled.end_arm("deep")
    with pytest.raises(InputError, match="arm main cannot end"):
        filled.end_arm(MAIN)
    for name in ("", "Flat", "1st", "a b", "a.b", "é", "x" * 33, "a\n"):
        with pytest.raises(InputError, match="is not 1 to 32 lower-case letters"):
            filled.activate(C, arm=name)
    with raises_fault(StoreFault.NO_VERSION):
        filled.activate("none", arm="flat")
    assert filled.activations() == log
    for number in range(LARGEST_ARMS - 2):
        filled.activate(C, arm=f"arm-{number}")
    with raises_fault(StoreFault.MANY_ARMS, "end one of them first"):
        filled.activate(C, arm="deep")
    filled.activate(C, arm="arm-0")


def test_shares_that_sum_up_to_1_leave_nothing_to_main(filled: Store) -> None:
    filled.activate(A)
    for arm, share in (("x", 0.1), ("y", 0.2), ("z", 0.7)):
        filled.activate(B, arm=arm, share=share)
    assert filled.state().arms[MAIN] == Arm(A, 0.0)


def test_of_two_shares_at_once_that_do_not_fit_one_is_refused(filled: Store, url: str) -> None:
    filled.activate(A)
    for arm in ("x", "y"):
        filled.activate(B, arm=arm)

    def grow(arm: str) -> object:
        with closing(open_store(url)) as own:
            try:
                own.set_share(arm, 0.6)
            except InputError as error:
                return error.kind
            return None

    with ThreadPoolExecutor(2) as threads:
        faults = [*threads.map(grow, ("x", "y"))]
    assert sorted(faults, key=str) == [None, StoreFault.SHARES_ABOVE_1]
    assert filled.state().arms[MAIN].share == pytest.approx(0.4)


def test_a_killed_process_leaves_a_log_of_whole_entries(filled: Store, url: str) -> None:
    filled.activate(A)
    command = [sys.executable, "-c", CHANGES, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        acknowledged = 20 + len(process.stdout.read().splitlines())
    assert process.returncode == -signal.SIGKILL
    log = filled.activations()[1:]
    assert acknowledged <= len(log) <= acknowledged + 1
    assert [entry.reason for entry in log] == [f"number {number}" for number in range(len(log))]
    expected = {MAIN: Arm(A)}
    for number in range(len(log)):
        share = number % 5 / 10
        if number % 3 == 0:
            expected["flat"] = Arm(B if number % 2 else C, share)
        elif number % 3 == 1:
            expected["flat"] = expected["flat"]._replace(share=share)
        else:
            expected[MAIN] = Arm(A if number % 2 else D)
    expected[MAIN] = Arm(expected[MAIN].version, 1 - expected["flat"].share)
    assert filled.state().arms == expected
