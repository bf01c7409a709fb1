"""Which versions the log of activations lets stand: "A" publishes A, and "BC" is a rollback to B that rejects C."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.serving.stores.activations import MAIN, Activation, Arm, choose_arm, find_standing


def read_log(text: str) -> list[Activation]:
    return [Activation(step[0], 0.0, "a test", step[1:] or None) for step in text.split()]


@pytest.mark.parametrize(
    ("log", "standing"),
    [
        ("", ""),
        ("A", "A"),
        ("A B C", "CBA"),
        ("A B C BC", "BA"),
        ("A B C BC D", "DBA"),
        ("A B C BC D BD", "BA"),
        ("A B C BC D BD AB", "A"),
        # To an earlier one by its name: what was live between the two is left, too.
        ("A B C D AD", "A"),
        ("A B C D AD E", "EA"),
        # To one that was left, by its name: it stands again, and the one before it is what was below.
        ("A B C BC CB", "CA"),
        ("A B C BC CB AC", "A"),
        # Activated again without a rollback, by its name: it is not a second time in the line.
        ("A B A", "AB"),
        ("A B A BA", "B"),
        ("A B C BC C", "CBA"),
        # Two at once that decide the same.
        ("A B C BC BC", "BA"),
    ],
)
def test_versions_that_stand(log: str, standing: str) -> None:
    assert find_standing(read_log(log)) == list(standing)


steps = st.lists(st.tuples(st.sampled_from(["publish", "back"]), st.integers(0, 5)), max_size=30)


@given(steps)
def test_no_rollback_returns_to_what_a_rollback_has_left(steps: list[tuple[str, int]]) -> None:
    """Publishes of new versions and rollbacks along the line, against a stack."""
    log: list[Activation] = []
    stack: list[str] = []
    for number, (kind, _) in enumerate(steps):
        if kind == "publish":
            stack.append(f"v{number}")
            log.append(Activation(stack[-1], 0.0, "a test"))
        elif len(stack) > 1:
            rejected = stack.pop()
            assert find_standing(log)[1] == stack[-1]
            log.append(Activation(stack[-1], 0.0, "a test", rejected))
        assert find_standing(log) == stack[::-1]


def test_versions_stand_by_arm() -> None:
    main, flat = read_log("A B C BC"), [replace(entry, arm="flat", share=0.1) for entry in read_log("B D E")]
    mixed = [main[0], flat[0], main[1], flat[1], main[2], main[3], flat[2]]
    assert (find_standing(mixed), find_standing(mixed, "flat"), find_standing(mixed, "none")) == (
        ["B", "A"],
        ["E", "D", "B"],
        [],
    )
    ended = [*mixed, replace(flat[2], share=None)]
    assert (find_standing(ended), find_standing(ended, "flat")) == (["B", "A"], [])
    assert find_standing([*ended, flat[0]], "flat") == ["B"]


def test_the_arm_of_a_customer_is_that_of_a_stable_hash() -> None:
    arms = {MAIN: Arm("a1", 0.6), "deep": Arm("b2", 0.3), "flat": Arm("c3", 0.1)}
    # Written down: the same in every release, process and machine.
    assert [choose_arm(arms, user) for user in ("ann", "cyd", "dan", "é", "7")] == [MAIN, "flat", "deep", MAIN, MAIN]
    users = [f"customer {number}" for number in range(20_000)]
    chosen = Counter(choose_arm(arms, user) for user in users)
    for name, arm in arms.items():
        assert abs(chosen[name] / len(users) - arm.share) < 0.015
    larger = {**arms, MAIN: Arm("a1", 0.4), "flat": Arm("c3", 0.3)}
    moves = Counter((choose_arm(arms, user), choose_arm(larger, user)) for user in users)
    assert {(before, after) for before, after in moves if before != after} == {(MAIN, "flat")}
    nobody = {MAIN: Arm("a1", 1.0), "flat": Arm("c3", 0.0)}
    everybody = {MAIN: Arm("a1", 0.0), "flat": Arm("c3", 1.0)}
    assert {choose_arm(nobody, user) for user in users} == {MAIN}
    assert {choose_arm(everybody, user) for user in users} == {"flat"}
    assert choose_arm({MAIN: Arm("a1")}, "ann") == MAIN
