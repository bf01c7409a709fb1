"""What an object of a service can be, by the responses so far: what is observed of it must be one of its states."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class ViolationError(AssertionError):
    """A response or a stored record that no possible state explains."""


class PossibleStates(Generic[S]):
    """The set of states that an object can be in.

    A change that was acknowledged has happened. A change without an acknowledgement may have happened, may happen at
    any later moment, or may never happen: it is pending until `settle`, which is called when no process is left that
    could still apply it. An observation leaves the states that explain it, and there must be one.

    The number of states doubles with each pending change: settle and observe before there are many.
    """

    def __init__(self, name: str, start: S) -> None:
        self.name = name
        self.states: frozenset[S] = frozenset({start})
        self._pending: list[Callable[[S], S]] = []

    @property
    def pending(self) -> int:
        """The number of changes that may still happen."""
        return len(self._pending)

    def observe(self, fits: Callable[[S], bool], what: str) -> None:
        """Keep the states that explain what was seen; `what` describes it in the error if none does."""
        before = self._reachable()
        self.states = frozenset(state for state in before if fits(state))
        if not self.states:
            raise ViolationError(f"{self.name}: {what}, but it can only be one of {sorted(map(repr, before))[:3]}")

    def change(self, change: Callable[[S], S], *, acknowledged: bool) -> None:
        reachable = self._reachable()
        self.states = frozenset(map(change, reachable))
        if not acknowledged:
            self.states |= reachable
            self._pending.append(change)

    def settle(self) -> None:
        """From now on, no change that was not acknowledged can happen any more."""
        self.states, self._pending = self._reachable(), []

    def _reachable(self) -> frozenset[S]:
        """The states, and those that pending changes lead to, in any order and any number."""
        reachable = set(self.states)
        frontier = list(reachable)
        while frontier:
            state = frontier.pop()
            for change in self._pending:
                if (after := change(state)) not in reachable:
                    reachable.add(after)
                    frontier.append(after)
        return frozenset(reachable)
