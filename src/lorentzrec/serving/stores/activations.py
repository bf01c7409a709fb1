"""The log of activations: which version became the current one, when and why.

The log is the only record of the current version: the current version is that of the last entry. A rollback does not
remove entries. It adds one that names the version it rejects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BEFORE_THE_LOG = "current before there was a log"
"""The reason of the first entry of a store that was migrated."""


@dataclass(frozen=True)
class Activation:
    """One entry of the log. It stays when its version is removed."""

    version: str
    time: float
    """Seconds since 1970."""
    reason: str
    rejected: str | None = None
    """The version that was current before, if this activation was a rollback; None for any other activation."""


def find_standing(activations: Iterable[Activation]) -> list[str]:
    """The versions that were live and that no rollback has left since, the current one first.

    A rollback leaves every version that became live after the one it returns to. A version that was left stands again
    once it is activated again by its name.
    """
    line: list[str] = []
    for entry in activations:
        if entry.rejected is not None:
            kept = line.index(entry.version) + 1 if entry.version in line else len(line) - 1
            line = line[: max(kept, 0)]
        line = [*(version for version in line if version != entry.version), entry.version]
    return line[::-1]
