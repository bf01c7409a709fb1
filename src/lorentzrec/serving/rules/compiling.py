"""From the rules of a shop to the rows of a version and its new items."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.points.rule_classes import RuleClasses, RuleOnRows
from lorentzrec.points.rules import RowRules
from lorentzrec.serving.rules.document import ROUTES, Boost, Route, Rule, RuleSet

FindRows = Callable[[Sequence[str]], NDArray[np.int64]]
"""The row of each id; -1 (`UNKNOWN`) where there is none."""


@dataclass(frozen=True, eq=False)
class RulesInForce:
    """The rules of each route at one moment."""

    by_route: Mapping[Route, RowRules | None]
    until: float
    """Unix seconds of the next moment at which a rule begins or ends."""
    compiled: CompiledRules

    def name(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.compiled.names[number] for number in numbers)

    def find_set(self, name: str) -> Integers | None:
        """The rows of a set; None if there is no such set."""
        return self.compiled.sets.get(name)


class CompiledRules:
    """A set of rules for the rows of a catalogue."""

    def __init__(self, rules: RuleSet, find_rows: FindRows, columns: ItemColumns) -> None:
        self.source = rules
        self._rules, self._find_rows, self._columns = rules.rules, find_rows, columns
        self.names = [rule.name for rule in rules.rules]
        self.unknown_ids = 0
        """Ids of sets and rules that the catalogue does not contain."""
        self.faults: dict[str, str] = {}
        """Rules that are not in force, since the catalogue does not have their columns, and what is wrong."""
        self.sets = {name: np.unique(self._find(ids)) for name, ids in rules.sets.items()}
        self._classes = RuleClasses(columns.count, [self._compile(rule) for rule in rules.rules])

    def at(self, moment: float) -> RulesInForce:
        """The rules that are in force at a moment, in unix seconds."""
        found: dict[tuple[int, ...], RowRules | None] = {}
        by_route = {}
        for route in ROUTES:
            numbers = tuple(
                number
                for number, rule in enumerate(self._rules)
                if rule.is_in_force(route, moment) and rule.name not in self.faults
            )
            if numbers not in found:
                found[numbers] = self._classes.in_force(numbers)
            by_route[route] = found[numbers]
        for rules in found.values():
            if rules is not None:
                rules.warm_up()
        bounds = (bound.timestamp() for rule in self._rules for bound in (rule.since, rule.until) if bound is not None)
        return RulesInForce(by_route, min((bound for bound in bounds if bound > moment), default=math.inf), self)

    def _compile(self, rule: Rule) -> RuleOnRows:
        (kind,) = rule.kinds
        try:
            rows = self._select(rule)
            if rule.quota is not None:
                return RuleOnRows(kind, rows, limit=rule.quota.limit, groups=self._find_groups(rule.quota.per, rows))
            if isinstance(rule.boost, Boost):
                return RuleOnRows(kind, rows, rule.boost.factor, self._find_shares(rule.boost.by, rows))
        except InputError as error:
            self.faults[rule.name] = str(error)
            return RuleOnRows(kind, np.empty(0, np.int64))
        factor = rule.boost if rule.boost is not None else rule.bury
        return RuleOnRows(kind, rows, 1.0 if factor is None else factor, position=(rule.pin or 1) - 1)

    def _select(self, rule: Rule) -> Integers:
        select = rule.select
        if select.ids is not None:
            rows = np.array([*dict.fromkeys(self._find(select.ids).tolist())], np.int64)
            rows = rows if rule.pin is not None else np.sort(rows)
            if select.set is not None:
                rows = rows[np.isin(rows, self.sets[select.set])]
        elif select.set is not None:
            rows = self.sets[select.set]
        else:
            return np.flatnonzero(self._columns.find(select.where))
        return rows[self._columns.find(select.where, rows)]

    def _find(self, ids: Sequence[str | int]) -> Integers:
        rows = self._find_rows([str(id) for id in ids])
        known: Integers = rows[rows != UNKNOWN]
        self.unknown_ids += len(rows) - len(known)
        return known

    def _find_groups(self, column: str, rows: Integers) -> NDArray[np.int32]:
        if column not in self._columns.texts:
            raise InputError(f"the items have no column {column!r} of texts")
        groups = np.full(self._columns.count, UNKNOWN, np.int32)
        groups[rows] = self._columns.texts[column].codes[rows]
        return groups

    def _find_shares(self, column: str, rows: Integers) -> Floats:
        """For each row the share of the others whose value is smaller; 0 without a value."""
        if column not in self._columns.numbers:
            raise InputError(f"the items have no column {column!r} of numbers")
        values = self._columns.numbers[column][rows]
        known = np.sort(values[~np.isnan(values)])
        smaller = np.searchsorted(known, values).astype(np.float64)
        largest = np.searchsorted(known, known[-1]) if len(known) else 0
        smaller /= max(1, int(largest))
        return np.where(np.isnan(values), 0.0, smaller)
