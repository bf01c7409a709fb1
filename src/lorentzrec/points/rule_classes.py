"""From rules with the rows that each selects to `RowRules`: rows that the same rules select are one class.

A row's class is found by a sum of random numbers, one for each rule that selects it. So a thousand rules that select
parts of a million items take one pass over the selections, and a query looks up a class instead of a thousand rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.points.rules import Pin, Quota, RowRules


class RuleKind(StrEnum):
    """What a rule does with the items that it selects."""

    ONLY = "only"
    EXCLUDE = "exclude"
    BOOST = "boost"
    BURY = "bury"
    PIN = "pin"
    QUOTA = "quota"


@dataclass(frozen=True, eq=False)
class RuleOnRows:
    """A rule and the rows that it selects, each once; in rising order, or for pins in the order of their positions."""

    kind: RuleKind
    rows: Integers
    factor: float = 1.0
    """Of a boost or of burying."""
    shares: Floats | None = None
    """What share of the lift each row gets; None: all of it."""
    position: int = 0
    """Of the first pin, from 0."""
    limit: int = 0
    """Of a quota."""
    groups: NDArray[np.int32] | None = None
    """Of a quota: the group of each row of the catalogue, -1 for none and for rows that the rule does not select."""

    @property
    def lift(self) -> float:
        """Of the items with the whole lift."""
        return -math.log(self.factor) if self.kind is RuleKind.BURY else math.log(self.factor)


class RuleClasses:
    """Rules, and for each of `count` rows which of them select it."""

    def __init__(self, count: int, rules: Sequence[RuleOnRows], *, seed: int = 0) -> None:
        self.rules = rules
        keys = np.random.default_rng(seed).integers(0, 2**64, len(rules), dtype=np.uint64)
        sums = np.zeros(count, np.uint64)
        for rule, key in zip(rules, keys, strict=True):
            if rule.kind in (RuleKind.PIN, RuleKind.QUOTA):  # which are few rows, or look up groups
                continue
            sums[rule.rows] += key
        values, first, classes = np.unique(sums, return_index=True, return_inverse=True)
        self.classes: NDArray[np.int32] = classes.reshape(-1).astype(np.int32)
        selecting: list[list[int]] = [[] for _ in values]
        is_first = np.zeros(count, bool)
        is_first[first] = True
        for number, rule in enumerate(rules):
            if rule.kind not in (RuleKind.PIN, RuleKind.QUOTA):
                for name in self.classes[rule.rows[is_first[rule.rows]]].tolist():
                    selecting[name].append(number)
        self.selecting = [tuple(numbers) for numbers in selecting]
        """By class: the rules that select it, pins and quotas apart."""

    def in_force(self, numbers: Sequence[int]) -> RowRules | None:
        """Some of the rules, by their numbers; None if there are none of them."""
        if not len(numbers):
            return None
        wanted = set(numbers)
        by_kind = {kind: [number for number in numbers if self.rules[number].kind is kind] for kind in RuleKind}
        only_rules = by_kind[RuleKind.ONLY]
        lifting = sorted(by_kind[RuleKind.BOOST] + by_kind[RuleKind.BURY])
        chosen = [[number for number in group if number in wanted] for group in self.selecting]
        kinds = [rule.kind for rule in self.rules]
        only = None
        if only_rules:
            only = np.array([any(kinds[number] is RuleKind.ONLY for number in group) for group in chosen], bool)
        return RowRules(
            classes=self.classes,
            only=only,
            excluded_by=[tuple(n for n in group if kinds[n] is RuleKind.EXCLUDE) for group in chosen],
            lifted_by=[tuple(n for n in group if kinds[n] in (RuleKind.BOOST, RuleKind.BURY)) for group in chosen],
            only_rules=tuple(only_rules),
            lifts=self._add_lifts(lifting) if lifting else None,
            pins=tuple(
                Pin(number, self.rules[number].position, tuple(self.rules[number].rows.tolist()))
                for number in by_kind[RuleKind.PIN]
            ),
            quotas=tuple(
                Quota(number, self.rules[number].limit, groups.item)
                for number in by_kind[RuleKind.QUOTA]
                if (groups := self.rules[number].groups) is not None
            ),
        )

    def _add_lifts(self, numbers: Sequence[int]) -> Floats:
        """The lift of each row: the sum of those of the rules that select it."""
        lifts = np.zeros(len(self.classes))
        for number in numbers:
            rule = self.rules[number]
            lifts[rule.rows] += rule.lift if rule.shares is None else rule.lift * rule.shares
        return lifts
