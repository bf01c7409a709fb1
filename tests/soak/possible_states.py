"""What an object of a service can be, by the responses so far: what is observed of it must be one of its states."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class ViolationError(AssertionError):
    """A response or a stored record that no possible state explains."""


class PossibleStates(Generic[S]):
    """The set of states that an object can be in.

    A change that was acknowledged has happened. A change without an acknowledgement may have happened, may happen once
    at any later moment, or may never happen: it is pending until `settle`, which is called when no process is left that
    could still apply it. An observation leaves the states that explain it, and there must be one.

    The number of states doubles with each pending change: settle and observe before there are many.
    """

    def __init__(self, name: str, start: S) -> None:
        self.name = name
        self._changes: list[Callable[[S], S]] = []  # all that were not acknowledged
        # Each state with the pending changes that have not happened in it, by their index.
        self._possible: set[tuple[S, frozenset[int]]] = {(start, frozenset())}

    @property
    def states(self) -> frozenset[S]:
        return frozenset(state for state, _ in self._possible)

    @property
    def pending(self) -> int:
        """The number of changes that may still happen."""
        return max(len(waiting) for _, waiting in self._possible)

    def observe(self, fits: Callable[[S], bool], what: str) -> None:
        """Keep the states that explain what was seen; `what` describes it in the error if none does."""
        self._let_pending_happen()
        before = self.states
        self._possible = {(state, waiting) for state, waiting in self._possible if fits(state)}
        if not self._possible:
            raise ViolationError(f"{self.name}: {what}, but it can only be one of {sorted(map(repr, before))[:3]}")

    def change(self, change: Callable[[S], S], *, acknowledged: bool) -> None:
        self._let_pending_happen()
        if acknowledged:
            self._possible = {(change(state), waiting) for state, waiting in self._possible}
        else:
            number = len(self._changes)
            self._changes.append(change)
            self._possible = {(state, waiting | {number}) for state, waiting in self._possible}

    def settle(self) -> None:
        """From now on, no change that was not acknowledged can happen any more."""
        self._let_pending_happen()
        self._possible = {(state, frozenset()) for state in self.states}

    def _let_pending_happen(self) -> None:
        """Add the states that pending changes lead to, in any order."""
        frontier = list(self._possible)
        while frontier:
            state, waiting = frontier.pop()
            for number in waiting:
                after = (self._changes[number](state), waiting - {number})
                if after not in self._possible:
                    self._possible.add(after)
                    frontier.append(after)
