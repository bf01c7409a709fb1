"""The rules of a shop in a store: one document, and a log of who replaced it, when and why."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.versions import check_reason

KEPT_DOCUMENTS = 100
"""Documents that a store keeps, the newest ones. The entries of the log stay."""
LONGEST_NAME = 200
NO_RULES = "{}"
"""The document of a new store."""


@dataclass(frozen=True)
class RuleChange:
    """An entry of the log of rules."""

    revision: int
    """From 1."""
    time: float
    reason: str
    who: str | None = None
    """The name of the key that changed the rules; None if it has no name."""
    document: str | None = None
    """The rules as JSON; None if the store does not keep them any more."""


Next = Callable[[int], RuleChange]
"""The next entry of the log, given the revision at that moment; an error if it cannot be made."""


class Rules(Protocol):
    """The rules of a store; `tests/serving/stores/test_rules_contract.py` checks every store against this.

    The content of a document is not checked here: see `lorentzrec.serving.rules`.
    """

    url: str

    def rules(self, revision: int | None = None) -> RuleChange | None:
        """The rules with this revision, by default the current ones; None if there are none yet.

        An error if there is no such revision, or if its document is not kept any more.
        """
        found = self._rules(revision)
        if revision is not None and (found is None or found.document is None):
            raise StoreFault.NO_RULES.error(store=self.url, revision=revision)
        return found

    def rules_log(self) -> list[RuleChange]:
        """All changes, newest first, without their documents."""

    def set_rules(
        self,
        document: str,
        *,
        reason: str = "changed",
        who: str | None = None,
        instead_of: int | None = None,
    ) -> RuleChange:
        """Replace the rules; returns the new entry of the log. One atomic step for all workers.

        instead_of: the revision that must be the current one, 0 for none; a fault names the one that is current
        instead.
        """
        check_reason(reason)
        if who is not None and len(who) > LONGEST_NAME:
            raise InputError(f"the name {who[:60]!r} is longer than {LONGEST_NAME} characters: give a shorter one")
        return self._add_rules(partial(self._follow, document, reason, who, instead_of))

    def _follow(self, document: str, reason: str, who: str | None, instead_of: int | None, revision: int) -> RuleChange:
        if instead_of not in (None, revision):
            raise StoreFault.OTHER_RULES.error(revision=revision, expected=instead_of)
        return RuleChange(revision + 1, time.time(), reason, who, document)

    # What a store does for the methods above, whose arguments are checked there.

    def _rules(self, revision: int | None) -> RuleChange | None: ...

    def _add_rules(self, decide: Next) -> RuleChange:
        """Add the entry that `decide` returns, and remove the document that is `KEPT_DOCUMENTS` older."""

    def _put_rules(self, log: list[RuleChange]) -> None:
        """Replace the whole log, oldest first, by that of a backup."""
