"""The log of activations: which version became the current one of which arm, when and why.

An arm is a model in use, and it has a name. Every store in use has the arm `main`. Others have shares of the customers;
`main` has the rest. Each arm has a current version: that of its last entry. The log is the only record of that. A
rollback does not remove entries. It adds one that names the version it rejects.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.faults import StoreFault

MAIN = "main"
"""The arm of all customers that no other arm has."""
ARM_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
LARGEST_ARMS = 8
"""Arms that may be live at once, each of which is a model in the memory of every worker."""
ROUNDING = 1e-9
"""Shares such as 0.1 + 0.2 + 0.7 may exceed 1 by this much."""


@dataclass(frozen=True)
class Activation:
    """One entry of the log. It stays when its version is removed."""

    version: str
    time: float
    """Seconds since 1970."""
    reason: str
    rejected: str | None = None
    """The version that was current before, if this activation was a rollback; None for any other activation."""
    arm: str = MAIN
    share: float | None = None
    """The share of the customers that the arm has from then on, from 0 to 1. None ends the arm; `main` has always
    None, and does not end."""

    @property
    def ends(self) -> bool:
        """Whether the arm ends with this entry."""
        return self.arm != MAIN and self.share is None


class Arm(NamedTuple):
    """A live arm."""

    version: str
    share: float = 1.0


Arms: TypeAlias = Mapping[str, Arm]
"""The live arms by their names, in the order of `find_arms`."""


def check_arm(name: str) -> str:
    """The name of an arm, safe in a command, an address, a label of a metric and a log line."""
    if not ARM_NAME.fullmatch(name):
        raise InputError(
            f"arm name {name[:60]!r} is not 1 to 32 lower-case letters, digits, '_' and '-': choose such a name"
        )
    return name


def find_arms(log: Iterable[Activation]) -> dict[str, Arm]:
    """The live arms according to a log, or to the last entry of each arm: `main`, then the others by name."""
    last = {entry.arm: entry for entry in log}
    others = {
        name: Arm(entry.version, entry.share)
        for name, entry in sorted(last.items())
        if name != MAIN and entry.share is not None
    }
    if MAIN not in last:
        return {}
    rest = 1 - math.fsum(arm.share for arm in others.values())
    return {MAIN: Arm(last[MAIN].version, max(0.0, rest) if rest > ROUNDING else 0.0), **others}


def choose_arm(arms: Arms, user: str) -> str:
    """The arm of a customer: the same in every process, for as long as no share changes.

    The first 8 bytes of the BLAKE2b hash of the id, as a number from 0 to 1, are the position of the customer. The
    arms have consecutive parts of that line, in the order of their names, and `main` has its end. So a larger share of
    the last arm takes customers from `main` only, and no customer leaves it.
    """
    if len(arms) > 1:
        position = int.from_bytes(hashlib.blake2b(user.encode(), digest_size=8).digest(), "big") / 2**64
        for name, arm in arms.items():
            if name != MAIN:
                position -= arm.share
                if position < 0:
                    return name
    return MAIN


def fit_entry(entry: Activation, arms: Arms, store: str) -> Activation:
    """An entry of an arm that does not end, with its share; an error if the arms cannot be as it says.

    Without a share, the arm keeps the one that it has; a new arm has 0.
    """
    if entry.arm == MAIN:
        if entry.share is not None:
            raise StoreFault.SHARE_OF_MAIN.error(store=store)
        return entry
    if MAIN not in arms:
        raise StoreFault.NO_MAIN.error(store=store, arm=entry.arm)
    share = entry.share
    if share is None:
        share = arms[entry.arm].share if entry.arm in arms else 0.0
    if not 0 <= share <= 1:
        raise InputError(f"the share of arm {entry.arm} is {share}: give a number from 0 to 1")
    after = {name: arm.share for name, arm in arms.items() if name != MAIN} | {entry.arm: share}
    if math.fsum(after.values()) > 1 + ROUNDING:
        listed = ", ".join(f"{name} {one:g}" for name, one in sorted(after.items()))
        raise StoreFault.SHARES_ABOVE_1.error(store=store, shares=listed)
    if len(after) >= LARGEST_ARMS:
        raise StoreFault.MANY_ARMS.error(store=store, limit=LARGEST_ARMS, arms=", ".join(sorted(arms)))
    return replace(entry, share=share)


def find_standing(activations: Iterable[Activation], arm: str = MAIN) -> list[str]:
    """The versions that were live in an arm and that no rollback has left since, the current one first.

    A rollback leaves every version that became live after the one it returns to. A version that was left stands again
    once it is activated again by its name. In an arm that has ended, no version stands.
    """
    line: list[str] = []
    for entry in activations:
        if entry.arm != arm:
            continue
        if entry.rejected is not None:
            kept = line.index(entry.version) + 1 if entry.version in line else len(line) - 1
            line = line[: max(kept, 0)]
        line = [] if entry.ends else [*(version for version in line if version != entry.version), entry.version]
    return line[::-1]
