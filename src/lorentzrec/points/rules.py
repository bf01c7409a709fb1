"""Rules of a shop on top of a ranking, exact and in a defined order.

    1. only      items that no rule in force allows are left out, if there is such a rule
    2. exclude   excluded items are left out
    3. boost     each item's score rises by its lift times the spread of the list; a negative lift buries it
    4. pin       items take their positions
    5. quota     of each group, a limited number of items stays; the next best take the positions of the others

The spread of a list is s(10) - s(100) over log 10, where s(r) is the score at rank r after step 2. So a lift of log 10
carries an item from rank 100 to rank 10, whatever the scores of the list are. `tests/reference/rules.py` has the same
for a ranking of all items, and `RuledRanking` gives the same list from few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers, make_mask
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.points.topk import Rows

Ranked: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""
Rank: TypeAlias = Callable[[int, "Rows | None"], Ranked]
"""The best items of a query, all if there are fewer, in a total order: their number, and the only rows that may be
among them (None: all)."""

UPPER_RANK, LOWER_RANK = 10, 100
"""The ranks whose scores define the spread of a list."""
FEW_LIFTED = 2_000
"""Up to this many items are scored for their lift; if there are more, more of the ranking is read first."""
MOST_FOR_EXCLUDED, MOST_FOR_BOOSTED = 4_000, 200
"""How much of a ranking is read at once because many items are excluded, or because a factor is large."""
SLACK = 1e-9
"""What rounding may change in a bound, relative to it."""


class Pin(NamedTuple):
    """Items at a position and the ones after it."""

    rule: int
    position: int
    """From 0."""
    rows: tuple[int, ...]


class Quota(NamedTuple):
    """The largest number of items of each group in a list."""

    rule: int
    limit: int
    find_group: Callable[[int], int]
    """The group of a row; -1 (`UNKNOWN`) for an item that is in none, and is not limited."""


class Limit(Protocol):
    """What a list may still take, such as items within a budget. Pinned items are asked for first."""

    def fits(self, row: int) -> bool: ...

    def take(self, row: int) -> None:
        """The row is in the list."""


@dataclass(frozen=True, eq=False)
class RowRules:
    """The rules in force, for the rows of a ranking. Rows that the same rules select form a class."""

    classes: NDArray[np.int32]
    """Of each row."""
    only: Booleans | None = None
    """Whether a class may be recommended; None without a rule of the kind `only`."""
    excluded_by: Sequence[tuple[int, ...]] = ()
    """By class: the rules that exclude it."""
    lifted_by: Sequence[tuple[int, ...]] = ()
    """By class: the rules that boost or bury it."""
    only_rules: tuple[int, ...] = ()
    lifts: NDArray[np.float64] | None = None
    """Of each row: the logarithm of its factor; None if there is no boost."""
    pins: tuple[Pin, ...] = ()
    quotas: tuple[Quota, ...] = ()
    excluded: Booleans = field(init=False)
    """Whether a class is excluded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "excluded", np.array([bool(rules) for rules in self.excluded_by], bool))

    @cached_property
    def only_rows(self) -> Integers | None:
        """The rows that step 1 leaves; None: all."""
        return None if self.only is None else np.flatnonzero(self.only[self.classes])

    @cached_property
    def excludes(self) -> bool:
        return bool(self.excluded.any())

    @cached_property
    def excluded_share(self) -> float:
        """Of the rows that step 1 leaves."""
        left = self.classes if self.only_rows is None else self.classes[self.only_rows]
        return float(self.excluded[left].mean()) if len(left) else 0.0

    @cached_property
    def kept_rows(self) -> Integers:
        """The rows that steps 1 and 2 leave."""
        kept = ~self.excluded if self.only is None else self.only & ~self.excluded
        return np.flatnonzero(kept[self.classes])

    @cached_property
    def boosted(self) -> tuple[Integers, Floats]:
        """The rows whose score rises, largest lift first, and minus their lifts."""
        assert self.lifts is not None
        rows = np.flatnonzero(self.lifts > 0)
        order = np.argsort(-self.lifts[rows], kind="stable")
        return rows[order], -self.lifts[rows[order]]

    @cached_property
    def largest_factor(self) -> float:
        """Of an item."""
        return math.exp(-float(self.boosted[1][0])) if len(self.boosted[1]) else 1.0

    def may_be_shown(self, rows: Rows) -> Booleans:
        """Which rows steps 1 and 2 leave."""
        classes = self.classes[rows]
        return ~self.excluded[classes] if self.only is None else self.only[classes] & ~self.excluded[classes]

    def warm_up(self) -> None:
        """Compute now what the first query would compute."""
        _ = (self.kept_rows, self.excluded_share) if self.excludes else self.only_rows
        if self.lifts is not None:
            _ = self.largest_factor


class RuledRanking:
    """The ranking of one query under rules. Ask for `first` and then for `arrange`; `acted` has the rules that acted.

    A rule of the steps 1 to 3 acted if it is of the kind `only`, if it excludes one of the `k` items that were first
    before, or if it lifts an item whose position among the first `k` changed. A pin acted if its item is in the list,
    and a quota if it removed an item.
    """

    def __init__(
        self,
        rank: Rank,
        rules: RowRules,
        k: int,
        allowed: Rows | None = None,
        quotas: Sequence[Quota] = (),
        limit: Limit | None = None,
    ) -> None:
        """allowed: the only rows that may be recommended, rules apart; None: all. quotas, limit: those of the request.
        With a limit, `rank` may leave out what does not fit it any more."""
        self._limit = limit
        self._rank, self._rules, self._k, self._quotas = rank, rules, k, (*rules.quotas, *quotas)
        self._acted: set[int] = set(rules.only_rules)
        self._allowed = _intersect(allowed, rules.only_rows, rules)
        self._kept: Ranked = np.empty(0, np.int64), np.empty(0, np.float32)
        self._is_all = False
        """Whether `_kept` has all that steps 1 and 2 leave."""
        self._looked_for_excluded = False
        self._spread: float | None = None
        self._compared = False

    @property
    def acted(self) -> tuple[int, ...]:
        """The rules that acted, by number."""
        return tuple(sorted(self._acted))

    def first(self, count: int) -> Ranked:
        """The best items after the steps 1 to 3, with the scores that they have then."""
        rows, scores = self._lift(max(count, self._k)) if self._rules.lifts is not None else self._keep(count)
        return rows[:count], scores[:count]

    def arrange(self, ranked: Ranked) -> Ranked:
        """`ranked`, which begins the list and may be in any order, after the steps 4 and 5; the first `k` items."""
        rules = self._rules
        if not rules.pins and not self._quotas and self._limit is None:
            return ranked[0][: self._k], ranked[1][: self._k]
        pinned = self._find_pinned()
        counts = [dict[int, int]() for _ in self._quotas]
        for row, *_ in pinned.values():
            self._count(row, counts)
        at_position, chosen = {row for row, *_ in pinned.values()}, list[tuple[int, float]]()
        seen = set(at_position)
        room = self._k - len(pinned)
        size, batch = max(self._k, len(ranked[0])), ranked
        while True:
            for row, score in zip(batch[0].tolist(), batch[1].tolist(), strict=True):
                if len(chosen) == room:
                    break
                if row not in seen:
                    seen.add(row)
                    if (self._limit is None or self._limit.fits(row)) and self._fits(row, counts):
                        chosen.append((row, score))
                        self._count(row, counts)
                        if self._limit is not None:
                            self._limit.take(row)
            if len(chosen) == room or (batch is not ranked and len(batch[0]) < size):
                break
            if batch is not ranked:
                size *= 2
            batch = self.first(size)
        found, others = list[tuple[int, float]](), iter(chosen)
        waiting = sorted(pinned.items())
        for position in range(self._k):
            if waiting and waiting[0][0] <= position:
                _, (row, score, rule) = waiting.pop(0)
                self._acted.add(rule)
                found.append((row, score))
            elif (other := next(others, None)) is not None:
                found.append(other)
            elif waiting:  # the list is shorter than their positions
                _, (row, score, rule) = waiting.pop(0)
                self._acted.add(rule)
                found.append((row, score))
        return np.array([row for row, _ in found], np.int64), np.array([score for _, score in found], np.float32)

    # Steps 1 and 2

    def _keep(self, count: int) -> Ranked:
        """The best `count` items after steps 1 and 2, or all; more if they are known."""
        if self._is_all or len(self._kept[0]) >= count:
            return self._kept
        rules = self._rules
        if not rules.excludes:
            self._kept = self._rank(count, self._allowed)
            self._is_all = len(self._kept[0]) < count
            return self._kept
        if not self._looked_for_excluded:
            self._looked_for_excluded = True
            usual = 1.25 * count / max(1 - rules.excluded_share, 0.01)
            asked = self._k + int(min(usual, max(count, MOST_FOR_EXCLUDED)))
            rows, scores = self._rank(asked, self._allowed)
            excluded = rules.excluded[rules.classes[rows]]
            for row in rows[: self._k][excluded[: self._k]].tolist():
                self._acted.update(rules.excluded_by[rules.classes[row]])
            self._kept, self._is_all = (rows[~excluded], scores[~excluded]), len(rows) < asked
            if self._is_all or len(self._kept[0]) >= count:
                return self._kept
        self._kept = self._rank(count, _intersect(self._allowed, rules.kept_rows, rules))
        self._is_all = len(self._kept[0]) < count
        return self._kept

    # Step 3

    def _lift(self, count: int) -> Ranked:
        """The best `count` items by their lifted scores, or all that are left.

        An item that `_keep` has not returned scores at most as much as the last that it has. So only items with enough
        lift can still be among the best, and these are scored; if they are many, or if buried items leave too few, more
        of the ranking is read.
        """
        rules = self._rules
        assert rules.lifts is not None
        # Usually enough: a factor carries an item up by as many ranks.
        size = max(LOWER_RANK, 2 * count, int(min(1.5 * count * rules.largest_factor, MOST_FOR_BOOSTED)))
        while True:
            rows, scores = self._keep(size)
            spread = self._find_spread(scores)
            values = scores + spread * rules.lifts[rows]
            if self._is_all or not spread:
                break
            bound, last = float(np.partition(values, -count)[-count]), float(scores[-1])
            least = (bound - last) / spread
            if least > 0:
                boosted, lifts = rules.boosted
                reaching = int(np.searchsorted(lifts, SLACK * least - least, side="right"))
                if not reaching:
                    break
                if reaching <= max(FEW_LIFTED, size):
                    more, their_scores = self._score_others(boosted[:reaching], rows)
                    rows = np.concatenate([rows, more])
                    values = np.concatenate([values, their_scores + spread * rules.lifts[more]])
                    break
            size *= 4
        order = np.argsort(-values, kind="stable")[:count]
        if not self._compared:
            self._compared = True
            self._compare(self._kept[0][: self._k], rows[order][: self._k])
        return rows[order], values[order].astype(np.float32)

    def _score_others(self, reaching: Integers, known: Rows) -> Ranked:
        """The items among `reaching` that may be recommended and are not known, in their order without rules."""
        seen = set(known.tolist())
        others = np.sort(np.array([row for row in reaching.tolist() if row not in seen], np.int64))
        others = others[self._rules.may_be_shown(others)]
        if self._allowed is not None:
            others = np.intersect1d(others, self._allowed)
        if not len(others):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return self._rank(len(others), others)

    def _find_spread(self, scores: NDArray[np.float32]) -> float:
        if self._spread is None:
            upper, lower = (UPPER_RANK, LOWER_RANK) if len(scores) >= LOWER_RANK else (1, len(scores))
            if lower < 2:
                self._spread = 0.0
            else:
                difference = float(scores[upper - 1]) - float(scores[lower - 1])
                self._spread = difference / math.log(lower / upper)
        return self._spread

    def _compare(self, before: Rows, after: Rows) -> None:
        """Note the rules that lift an item whose position changed."""
        lists = before.tolist(), after.tolist()
        positions = [{row: position for position, row in enumerate(rows)} for rows in lists]
        for row in {*lists[0], *lists[1]}:
            if positions[0].get(row) != positions[1].get(row):
                self._acted.update(self._rules.lifted_by[self._rules.classes[row]])

    # Steps 4 and 5

    def _find_pinned(self) -> dict[int, tuple[int, float, int]]:
        """By position: the row that is pinned to it, its score, and the rule. Taken positions move a pin back."""
        wanted = np.unique([row for pin in self._rules.pins for row in pin.rows]).astype(np.int64)
        wanted = wanted[self._rules.may_be_shown(wanted)]
        if self._allowed is not None:
            wanted = np.intersect1d(wanted, self._allowed)
        if not len(wanted):
            return {}
        rows, scores = self._rank(len(wanted), wanted)
        if self._rules.lifts is not None:
            spread = self._find_spread(self._keep(LOWER_RANK)[1])
            scores = (scores + spread * self._rules.lifts[rows]).astype(np.float32)
        score_of, pinned = dict(zip(rows.tolist(), scores.tolist(), strict=True)), dict[int, tuple[int, float, int]]()
        for pin in self._rules.pins:
            position = pin.position
            for row in pin.rows:
                if row not in score_of:
                    continue
                while position in pinned:
                    position += 1
                if position >= self._k:
                    break
                if self._limit is not None:
                    if not self._limit.fits(row):
                        continue
                    self._limit.take(row)
                pinned[position] = row, score_of.pop(row), pin.rule
        return pinned

    def _fits(self, row: int, counts: list[dict[int, int]]) -> bool:
        fits = True
        for quota, count in zip(self._quotas, counts, strict=True):
            group = quota.find_group(row)
            if group != UNKNOWN and count.get(group, 0) >= quota.limit:
                self._acted.add(quota.rule)
                fits = False
        return fits

    def _count(self, row: int, counts: list[dict[int, int]]) -> None:
        for quota, count in zip(self._quotas, counts, strict=True):
            group = quota.find_group(row)
            count[group] = count.get(group, 0) + 1


def _intersect(allowed: Rows | None, rows: Integers | None, rules: RowRules) -> Rows | None:
    if allowed is None or rows is None:
        return rows if allowed is None else allowed
    count = len(rules.classes)
    return np.flatnonzero(make_mask(rows, count) & make_mask(allowed, count))
