"""A store: versions, histories, a catalogue and rules, and all of them as a whole.

Everything is durable when a call returns, and one store object may be used by any number of threads. Each process opens
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.catalogue import Catalogue
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Histories
from lorentzrec.serving.stores.rules import Rules
from lorentzrec.serving.stores.snapshot import CheckedPart, Erasure, Snapshot, StoreSize
from lorentzrec.serving.stores.versions import Versions

Progress = Callable[[str, float], None]
"""Called with what is being done, and what share of it is done; 0 if that is not known."""
Migrating = Callable[[int, int], None]
"""Called before each step of a migration, with its number and the number of the last one."""


class Store(Versions, Histories, Catalogue, Rules, Protocol):
    """What every store is; `tests/serving/stores/test_upkeep_contract.py` checks what is added here."""

    @property
    def nearby(self) -> bool:
        """Whether reading a history takes less time than handing the call over to a thread."""
        return False

    @property
    def writes_in_turn(self) -> bool:
        """Whether only one transaction writes at a time, so that the events of several requests should share one."""
        return False

    @property
    def notices(self) -> Sequence[str]:
        """What an operator should know although the store works, such as that it is read-only; without its address."""
        return ()

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """What the store holds now, while others go on writing: all that was acknowledged before is in it."""

    def measure(self) -> StoreSize:
        """How much the store holds. It counts all events, so it takes long in a large store."""

    def check_database(self) -> Iterator[CheckedPart]:
        """Look for damage in what the store keeps besides the files of versions. It reads everything."""

    def find_restore(self) -> str | None:
        """The backup that is being restored, or whose restore was interrupted; None if there is none."""

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        """Mark the store as one into which a backup is being restored, until `end_restore`. `backup` identifies it.

        A store that has a mark is refused (`StoreFault.RESTORING`). `check` may refuse the store, too. No other restore
        begins or ends between the check and the mark.
        """

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        """Put in place erasures and the log of activations, which makes a version the current one; end the mark.

        If the mark is not that of `backup` any more, nothing changes (`StoreFault.RESTORE_ENDED`).
        """

    def close(self) -> None:
        """Release connections and files. The store cannot be used any more."""


def is_behind(url: str, done: int | None, steps: int, migrate: Migrating | None) -> bool:
    """Whether the schema of a store has steps to take; an error if this may not be done, or if it has unknown steps.

    done: steps that were taken; None in a new store, where no `migrate` is needed.
    """
    if done is not None and done > steps:
        raise StoreFault.NEWER.error(store=url)
    if done is not None and done < steps and migrate is None:
        raise StoreFault.OLDER.error(store=url, done=done, steps=steps)
    return done != steps
