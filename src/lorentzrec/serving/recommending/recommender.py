"""From a question to an answer: history, midpoint, the best live items, and what has to be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.model.fallbacks import (
    Cause,
    Fallback,
    FallbackKind,
    history_fallbacks,
    render_fallbacks,
    unknown_fallbacks,
)
from lorentzrec.model.ranking import Ranker, Rows
from lorentzrec.serving.recommending.diversity import diversify, pool_size
from lorentzrec.serving.recommending.live_items import LiveItems, Ranked
from lorentzrec.serving.recommending.reasons import Reasons
from lorentzrec.serving.versions.index import Index
from lorentzrec.serving.versions.version import Version

REASONS_SHOWN = 3
"""The most reasons given for one item."""
SHARES_AT_ONCE = 1_000_000
"""Shares that are held in memory for one question: 8 MB of them, and 16 to sort them."""
NOBODY: NDArray[np.int64] = np.empty(0, np.int64)


class UnknownItem(InputError):  # noqa: N818, it is what the service answers with 404
    """The question is about an item that the version does not hold."""


@dataclass(frozen=True)
class Question:
    """What somebody wants to know. Ids are text; those that the version does not know do no harm and are counted."""

    history: tuple[str, ...] = ()
    """Oldest first; any item of the version, live or not."""
    k: int = 10
    exclude: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    """Nothing else is recommended."""
    categories: tuple[str, ...] = ()
    """Nothing of other categories is recommended; empty for all."""
    exclude_seen: bool = True
    diversity: float = 0.0
    """From 0, the best items, to 1, the most different ones; see `diversity`. Popular items are given as they are."""
    reasons: bool = False
    twin: bool = False
    """Use the version's other model."""
    weights: tuple[float, ...] = ()
    """One per item of the history, as in training; empty: all weigh the same."""


@dataclass(frozen=True)
class Reason:
    """An item of the history that pulls a recommended item up, and its share in the pull; see `reasons`."""

    item: str
    share: float
    title: str | None


@dataclass(frozen=True)
class AnsweredItem:
    """One recommended item."""

    id: str
    row: int
    score: float
    title: str | None
    category: str | None
    because: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Answer:
    """Items, best first."""

    items: tuple[AnsweredItem, ...]
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def fallback(self) -> str | None:
        return render_fallbacks(self.fallbacks)

    @property
    def fallback_kinds(self) -> tuple[FallbackKind, ...]:
        return tuple(fallback.kind for fallback in self.fallbacks)


class _Side:
    """The model of a version, or its twin, over the live items."""

    def __init__(self, ranker: Ranker, version: Version, live: Rows | None, index: Index | None = None) -> None:
        self.ranker = ranker
        self.live = LiveItems(ranker, version.item_counts, live, index)
        self.reasons = Reasons(ranker)


class Answerer:
    """Answers questions with one version and one set of live items. Immutable, and safe to use from many threads."""

    def __init__(self, version: Version, live_items: Sequence[str] | None = None) -> None:
        """`live_items`: the only ids that may be recommended; None if all may. Ids may be in histories all the same."""
        self.version = version
        self.unknown_live_items = 0
        """Live ids that the version does not hold, and so cannot recommend."""
        live = None
        if live_items is not None:
            rows = version.items.rows(live_items)
            self.unknown_live_items = int((rows == UNKNOWN).sum())
            live = np.unique(rows[rows != UNKNOWN])
            if len(live) == len(version.items):
                live = None
        self.live_count = len(version.items) if live is None else len(live)
        self._own = _Side(version.ranker, version, live, version.index)
        self._twin = None if version.twin_ranker is None else _Side(version.twin_ranker, version, live)
        self._symmetric = version.manifest["model"]["model"] == "symmetric"
        self._code_of = {name: code for code, name in enumerate(version.categories)}

    def warm_up(self) -> None:
        """Ask one question of each kind: the first reads all points from disk, better now than while somebody waits."""
        item = self.version.items.items([0])[0].id
        for twin in (False, True) if self._twin else (False,):
            self.recommend(Question((item,), reasons=True, twin=twin))
            self.similar(item, twin=twin)

    def recommend(self, question: Question) -> Answer:
        """The best live items for a history; the popular ones if nothing of it is known."""
        return self._recommend(question, never=())

    def basket(self, question: Question) -> Answer:
        """What goes with a basket, the question's history: the best items of categories that it does not hold yet."""
        codes = self.version.category_codes[self._known(question.history)]
        held = sorted({int(code) for code in codes if code >= 0})
        answer = self._recommend(question, never=held)
        if not question.history or (held and answer.items):
            return answer
        if held:
            answer, cause = self.recommend(question), Cause.BASKET_OF_ALL_CATEGORIES
        else:
            cause = Cause.BASKET_WITHOUT_CATEGORIES
        return replace(answer, fallbacks=(*answer.fallbacks, Fallback(cause)))

    def similar(
        self,
        item: str,
        k: int = 10,
        *,
        categories: Sequence[str] = (),
        exclude: Sequence[str] = (),
        diversity: float = 0.0,
        twin: bool = False,
    ) -> Answer:
        """The live items nearest to an item, live or not, scored by minus the distance; never the item itself."""
        side = self._side(twin)
        _check(k, diversity)
        row = self._known([item])
        if not len(row):
            raise UnknownItem(f"the item {item!r} is not in version {self.version.name}: check the id")
        allowed, fallbacks = self._allowed(None, categories, never=())
        excluded = np.concatenate([row, self._known(exclude)])
        point = side.ranker.precise(side.ranker.item_points[row[0]])
        ranked = side.live.top(point, pool_size(k, diversity), excluded, allowed, nearest=True)
        return self._answer(side, ranked, k, diversity, fallbacks)

    def _recommend(self, question: Question, never: Sequence[int]) -> Answer:
        side = self._side(question.twin)
        _check(question.k, question.diversity)
        history = self.version.items.rows(question.history)
        seen = history[history != UNKNOWN]
        weights = np.array(question.weights)[history != UNKNOWN] if question.weights else None
        allowed, fallbacks = self._allowed(question.allow, question.categories, never)
        fallbacks = history_fallbacks(history, midpoint=self._symmetric and not question.twin) + fallbacks
        excluded = self._known(question.exclude)
        if question.exclude_seen:
            excluded = np.concatenate([excluded, seen])
        if not len(seen):  # the most popular ones are meant to be just that, so diversity is left aside
            return self._answer(side, side.live.popular(question.k, excluded, allowed), question.k, 0.0, fallbacks)
        pool = pool_size(question.k, question.diversity)
        ranked = side.live.top(side.ranker.query(seen, weights), pool, excluded, allowed)
        explained = seen if question.reasons else NOBODY
        return self._answer(side, ranked, question.k, question.diversity, fallbacks, explained, weights)

    def _answer(
        self,
        side: _Side,
        ranked: Ranked,
        k: int,
        diversity: float,
        fallbacks: tuple[Fallback, ...],
        history: Rows = NOBODY,
        weights: NDArray[np.float64] | None = None,
    ) -> Answer:
        """The first `k` of what was ranked, with what is known of them, and with reasons if a history is given."""
        rows, scores = ranked
        chosen = diversify(side.ranker, rows, scores, k, diversity)
        rows, scores = rows[chosen], scores[chosen]
        because = self._reasons(side, history, weights, rows) if len(history) and len(rows) else [()] * len(rows)
        items = tuple(
            AnsweredItem(item.id, item.row, score, item.title, item.category, reasons)
            for item, score, reasons in zip(self.version.items.items(rows), scores.tolist(), because, strict=True)
        )
        return Answer(items, fallbacks)

    def _reasons(
        self, side: _Side, history: Rows, weights: NDArray[np.float64] | None, rows: Rows
    ) -> list[tuple[Reason, ...]]:
        size = max(1, SHARES_AT_ONCE // len(history))
        if len(rows) > size:
            first = self._reasons(side, history, weights, rows[:size])
            return first + self._reasons(side, history, weights, rows[size:])
        distinct, shares = side.reasons.shares(history, rows, weights)
        strongest = np.argsort(-shares, axis=1, kind="stable")[:, :REASONS_SHOWN]
        used = np.unique(strongest)
        named = dict(zip(used.tolist(), self.version.items.items(distinct[used]), strict=True))
        return [
            tuple(Reason(named[place].id, float(line[place]), named[place].title) for place in best if line[place] > 0)
            for line, best in zip(shares, strongest.tolist(), strict=True)
        ]

    def _side(self, twin: bool) -> _Side:
        side = self._twin if twin else self._own
        if side is None:
            raise InputError(f"version {self.version.name} has no twin: ask without it, or publish with --twin")
        return side

    def _known(self, ids: Sequence[str]) -> NDArray[np.int64]:
        rows = self.version.items.rows(ids)
        known: NDArray[np.int64] = rows[rows != UNKNOWN]
        return known

    def _allowed(
        self, allow: Sequence[str] | None, categories: Sequence[str], never: Sequence[int]
    ) -> tuple[Rows | None, tuple[Fallback, ...]]:
        """The rows that an allow-list and categories leave, None for all, and what has to be said about them.

        `never`: codes of categories that are left out.
        """
        fallbacks: tuple[Fallback, ...] = ()
        allowed = None
        if allow is not None:
            allowed = self.version.items.rows(allow)
            fallbacks = unknown_fallbacks(Cause.UNKNOWN_ALLOWED_ITEMS, allowed)
            allowed = allowed[allowed != UNKNOWN]
        if categories or never:
            codes = np.array([self._code_of.get(name, UNKNOWN) for name in categories], np.int64)
            fallbacks += unknown_fallbacks(Cause.UNKNOWN_CATEGORIES, codes)
            # The last place is that of code -1, items without a category: they are in none that was asked for.
            wanted = np.full(len(self._code_of) + 1, not categories)
            wanted[codes[codes != UNKNOWN]] = True
            wanted[list(never)] = False
            right = wanted[self.version.category_codes if allowed is None else self.version.category_codes[allowed]]
            allowed = np.flatnonzero(right) if allowed is None else allowed[right]
        return allowed, fallbacks


def _check(k: int, diversity: float) -> None:
    if k < 1:
        raise InputError(f"k is {k}: ask for 1 item or more")
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity is {diversity}: give a number from 0 (the best items) to 1 (the most different)")
