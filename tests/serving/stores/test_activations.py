"""Which versions the log of activations lets stand: "A" publishes A, and "BC" is a rollback to B that rejects C."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.serving.stores.activations import Activation, find_standing


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
