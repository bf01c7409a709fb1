"""The versions of a store: upload and fetch, the log of activations, rollback, clean-up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.activations import MAIN, Activation, Arms, check_arm, find_standing, fit_entry
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.ids import UNFIT

VERSION_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
LONGEST_REASON = 500
"""Characters of the reason of an activation."""


class _Any(Enum):
    VERSION = "any version"


ANY_VERSION = _Any.VERSION
"""Activate whichever version is current now."""
Expected: TypeAlias = str | _Any | None
"""The version that must be current for a change to be made; None if there must be none."""
Decide = Callable[[Arms], Activation]
"""The next entry of the log, given the live arms at that moment; an error if it cannot be made."""


@dataclass(frozen=True)
class State:
    """What a worker polls to find out whether it must load something: one cheap read."""

    arms: Arms
    """The live arms; none before the first version is activated."""
    live_revision: int
    """Grows whenever the set of live items changes."""
    items_revision: int = 0
    """Grows whenever new items change."""
    items_reset: int = 0
    """The `items_revision` of the last removal of a new item."""
    rules_revision: int = 0
    """The revision of the current rules; 0 before the first ones."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the current version of an arm, by the name of the arm. It is public: no paths, no hosts."""

    def find_since(self, revision: int) -> int:
        """The revision after which a reader who knows the new items of `revision` must read them; 0 for all.

        All are read if an item was removed, or if the store was replaced by an older one.
        """
        return 0 if self.items_reset > revision or self.items_revision < revision else revision

    @property
    def version(self) -> str | None:
        """The current version of the arm `main`; None before the first one is activated."""
        return self.find_version(MAIN)

    def find_version(self, arm: str) -> str | None:
        """The current version of an arm; None if there is no such arm."""
        return self.arms[arm].version if arm in self.arms else None


class Versions(Protocol):
    """The versions of a store; `tests/serving/stores/test_version_contract.py` checks every store against this."""

    url: str
    """Its address without secrets, for messages."""

    def state(self) -> State:
        """The live arms and the revisions of live and new items; `StoreUnavailable` if it cannot respond now."""

    def versions(self) -> list[str]:
        """The names of the complete versions, newest first: a name begins with its time."""

    def activations(self) -> list[Activation]:
        """The log of activations, oldest first; the last entry of an arm has its current version."""

    def standing_versions(self, arm: str = MAIN) -> list[str]:
        """The complete versions that a rollback of an arm may return to, the current one first: see `find_standing`."""
        standing, complete = find_standing(self.activations(), arm), set(self.versions())
        return [name for name in standing if name in complete]

    def live_versions(self, log: Iterable[Activation], arm: str | None = None) -> list[str]:
        """The complete versions that are or were current in an arm, or in any, according to a log, newest first."""
        activated = {entry.version for entry in log if arm in (None, entry.arm)}
        return [name for name in self.versions() if name in activated]

    def publishing(self) -> AbstractContextManager[None]:
        """While any process holds this, `clean` removes nothing; it ends with its process, too."""

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        """Send a version folder, under the name in its manifest; it becomes visible only when complete.

        An interrupted upload resumes: what is there with the right checksum is not sent again. `progress` is called
        with the number of bytes of each part, sent or found there.
        """

    def fetch(self, name: str, cache: Path) -> Path:
        """A local folder that holds the version, checked; `ArtifactError` names the file that is damaged.

        A store of folders returns its own; others download to `cache`/NAME, which stays for the next time.
        """

    def fetch_file(self, name: str, file: str, folder: Path) -> Path:
        """One file of a version, checked; a store of folders returns its own, others download it to `folder`."""

    def fetch_manifest(self, name: str) -> bytes:
        """The manifest of a complete version, as it is stored."""

    def read_file(self, name: str, file: str) -> Iterator[bytes]:
        """The content of a file of a complete version in parts, as it is stored; it ends early if a part is missing."""

    def activate(
        self,
        name: str,
        reason: str = "activated",
        *,
        arm: str = MAIN,
        share: float | None = None,
        instead_of: Expected = ANY_VERSION,
    ) -> None:
        """Make a complete version the current one of an arm, by an entry in the log: one atomic step for all workers.

        share: of the customers, for an arm other than `main`. None: the share of the arm stays, and a new arm has 0.
        instead_of: the version that must be current in the arm; a fault names the one that is current instead.
        """
        entry = Activation(check_name(name), time.time(), check_reason(reason), None, check_arm(arm), share)
        self._activate(partial(self._fit, entry, instead_of))

    def roll_back(self, name: str, reason: str = "rolled back", *, instead_of: str, arm: str = MAIN) -> None:
        """Activate a complete version of an arm again, and reject its current one, which must be `instead_of`."""
        entry = Activation(check_name(name), time.time(), check_reason(reason), instead_of, check_arm(arm))
        self._activate(partial(self._fit, entry, instead_of))

    def set_share(self, arm: str, share: float, reason: str = "share changed") -> None:
        """Change the share of the customers that an arm other than `main` has."""
        check_reason(reason)

        def decide(arms: Arms) -> Activation:
            entry = Activation(self._find_arm(arms, arm), time.time(), reason, arm=arm, share=share)
            return fit_entry(entry, arms, self.url)

        self._activate(decide)

    def end_arm(self, arm: str, reason: str = "ended") -> None:
        """End an arm other than `main`, whose customers return to `main`. The next `prune` removes its versions."""
        check_reason(reason)
        if arm == MAIN:
            raise InputError("arm main cannot end: publish another version to it, or roll it back")
        self._activate(lambda arms: Activation(self._find_arm(arms, arm), time.time(), reason, arm=arm))

    def discard(self, name: str) -> None:
        """Remove a version, complete or not; never the current one of an arm."""

    def clean(self) -> int:
        """Remove incomplete uploads and versions that were never activated; returns how many there were.

        Removes nothing while a process holds `publishing`. An upload outside of `publishing` is interrupted.
        """

    # What a store does for the methods above, whose arguments are checked there.

    def _activate(self, decide: Decide) -> None:
        """Add the entry that `decide` returns to the log. Its version must be complete, unless its arm ends."""

    def _fit(self, entry: Activation, expected: Expected, arms: Arms) -> Activation:
        """The entry with its share, if the current version of its arm is the expected one."""
        current = arms[entry.arm].version if entry.arm in arms else None
        if expected is not ANY_VERSION and current != expected:
            raise StoreFault.OTHER_CURRENT.error(store=self.url, name=current or "none", expected=expected or "none")
        return fit_entry(entry, arms, self.url)

    def _find_arm(self, arms: Arms, arm: str) -> str:
        """The current version of an arm."""
        if arm not in arms:
            raise StoreFault.NO_ARM.error(store=self.url, arm=arm, arms=", ".join(arms) or "none")
        return arms[arm].version

    def _no_version(self, name: str) -> LorentzrecError:
        newest = ", ".join(self.versions()[:5]) or "none"
        return StoreFault.NO_VERSION.error(store=self.url, name=name, newest=newest)


def check_name(name: str) -> str:
    """The name of a version, safe as a file name and in a log line."""
    if not VERSION_NAME.fullmatch(name):
        raise InputError(f"version name {name!r} is not letters, digits, '.', '_' and '-': publish under such a name")
    return name


def check_reason(reason: str) -> str:
    """The reason of an activation, fit for every store and for one line of a table."""
    if not 0 < len(reason) <= LONGEST_REASON or UNFIT.search(reason):
        raise InputError(
            f"the reason {reason[:60]!r} cannot be kept: give 1 to {LONGEST_REASON} characters without line breaks"
        )
    return reason
