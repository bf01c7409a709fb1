"""The rules of the store in a worker: read when they change, compiled for each version, in force by the clock."""

from __future__ import annotations

import logging
import time

from lorentzrec.serving.rules.document import InvalidRules, RuleSet, read_rules
from lorentzrec.serving.stores.rules import NO_RULES
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.recommender import Recommender

READ_SECONDS = 30.0
"""Long timeout: sets of items may have millions of ids."""

logger = logging.getLogger("lorentzrec.serving")


class RuleWatcher:
    """Follows the rules of the store and applies them to recommenders.

    Used by the thread of `VersionWatcher`; only `warnings` and `revision` are used by others. A version is not used
    before the rules were read: an item that must not be shown is never shown for a moment.
    """

    def __init__(self, store: GuardedStore) -> None:
        self._store = store
        self._rules: RuleSet | None = None
        self.revision = 0
        """Of the rules in use."""
        self._refused: dict[int, str] = {}
        self._noted: set[str] = set()
        self.warnings: list[str] = []
        """About rules that cannot be used."""

    def refresh(self, revision: int) -> None:
        """Read the rules of the store, if they have changed. Rules that this release cannot read are not used."""
        if self._rules is not None and (revision == self.revision or revision in self._refused):
            return
        found = self._store.call(lambda store: store.rules(), seconds=READ_SECONDS) if revision else None
        document = NO_RULES if found is None or found.document is None else found.document
        try:
            self._rules, self.revision = read_rules(document), 0 if found is None else found.revision
        except InvalidRules as error:
            logger.error("the rules of revision %d are not used, and the last good ones stay: %s", revision, error)
            self._refused = {revision: str(error)}
            self._rules = self._rules or RuleSet()
        else:
            self._refused = {}
            logger.info("rules of revision %d are in use: %d rules", self.revision, len(self._rules.rules))
        self.warnings = [f"the rules of revision {number} are not used: set them again" for number in self._refused]

    def apply(self, recommender: Recommender) -> Recommender:
        """The recommender with the rules that are in force now; the same one if none has begun or ended."""
        now, rules, before = time.time(), self._rules, recommender.rules
        if rules is None or not (rules.rules or rules.sets):
            same = before is None and recommender.rules_revision == self.revision
            return recommender if same else recommender.with_rules(None, self.revision)
        if before is not None and before.compiled.source is rules and recommender.rules_are_complete:
            return recommender if now < before.until else recommender.with_rules(before.compiled.at(now), self.revision)
        compiled = recommender.compile(rules)
        for name, fault in compiled.faults.items():
            line = f"rule {name!r} is not in force in version {recommender.version.name}: {fault}"
            if line not in self._noted:  # once, not with each new item
                self._noted.add(line)
                logger.warning("%s", line)
        self.warnings = [line for line in self.warnings if not line.startswith("rule ")] + [
            f"rule {name!r} is not in force: {fault}" for name, fault in compiled.faults.items()
        ]
        return recommender.with_rules(compiled.at(now), self.revision)
