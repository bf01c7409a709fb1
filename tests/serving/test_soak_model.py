"""The model with which `make soak` checks a service: it accepts what can happen and finds what cannot."""

from __future__ import annotations

import pytest

from tests.soak.activations import Log, roll_back
from tests.soak.possible_states import PossibleStates, ViolationError

Items = frozenset[str]


def history() -> PossibleStates[Items]:
    return PossibleStates("history", frozenset())


def add(*items: str, acknowledged: bool, to: PossibleStates[Items]) -> None:
    to.change(lambda state: state | set(items), acknowledged=acknowledged)


def see(state: PossibleStates[Items], *items: str) -> None:
    state.observe(lambda one: one == set(items), f"{items} are there")


def test_an_acknowledged_change_must_be_seen() -> None:
    events = history()
    add("a", acknowledged=True, to=events)
    add("b", acknowledged=True, to=events)
    see(events, "a", "b")
    with pytest.raises(ViolationError, match="history"):
        see(events, "a")


def test_an_uncertain_change_may_be_seen_or_not_and_then_stays() -> None:
    for seen in ((), ("a",)):
        events = history()
        add("a", acknowledged=False, to=events)
        events.settle()
        see(events, *seen)
        with pytest.raises(ViolationError):
            see(events, *({"a"} - set(seen)))


def test_an_uncertain_change_may_happen_after_others_until_it_is_settled() -> None:
    events = history()
    events.change(lambda _: frozenset(), acknowledged=False)  # an erasure
    add("a", acknowledged=True, to=events)
    see(events, "a")
    see(events)  # the erasure has happened now
    add("b", acknowledged=True, to=events)
    events.settle()
    see(events, "b")
    with pytest.raises(ViolationError):
        see(events)


def test_an_uncertain_change_happens_at_most_once() -> None:
    log = PossibleStates[tuple[str, ...]]("log", ())
    log.change(lambda entries: (*entries, "a"), acknowledged=False)
    log.settle()
    assert log.states == {(), ("a",)}


def test_a_change_that_was_never_requested_is_found() -> None:
    events = history()
    with pytest.raises(ViolationError):
        see(events, "a")


def test_rollbacks_follow_the_log_and_never_return_to_a_rejected_version() -> None:
    log: Log = (("A", None), ("B", None), ("C", None))
    log = roll_back(log)
    assert log[-1] == ("B", "C")
    log = roll_back((*log, ("D", None)))
    assert log[-1] == ("B", "D")
    log = roll_back(log)
    assert log[-1] == ("A", "B")
    assert roll_back(log) == log
