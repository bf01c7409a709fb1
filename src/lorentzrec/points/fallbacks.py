"""Why recommendations are not simply the best items for the query: typed records, and their only rendering as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN


class FallbackKind(StrEnum):
    """What was done instead."""

    POPULAR = "popular"
    """The most popular items, scored by their count, because nothing is known of the customer."""
    RECENT = "recent"
    """The popular items are those of the last days, scored by their customers in these days."""
    MIDPOINT = "midpoint"
    """A model with a point per customer was queried with a history, and used its midpoint."""
    PARTIAL = "partial"
    """Unknown items of the history were left out."""
    ALLOWED = "allowed"
    """Unknown items of the allow-list were left out."""
    CATEGORIES = "categories"
    """Unknown categories were left out."""
    BASKET = "basket"
    """No category was left out for a basket."""
    NOT_LEARNED = "not_learned"
    """An outfit of items that customers of the basket would like, because the model has no complements."""
    BUDGET = "budget"
    """The budget left something out of an outfit."""
    SLOTS = "slots"
    """Slots of an outfit stay open."""
    WIDENED = "widened"
    """Items of the parent category follow, because the category has too few alternatives."""
    NO_CATEGORY = "no_category"
    """There are no alternatives, because the category of the item is not known."""
    NOT_TRENDING = "not_trending"
    """Nothing was found, because no item is more popular than usual, or because that is not known."""
    NOTHING_LIVE = "nothing_live"
    """Nothing was found, because no item is live."""
    NOTHING_ALLOWED = "nothing_allowed"
    """Nothing was found, because the allow-list and the categories leave no item to recommend."""
    ALL_EXCLUDED = "all_excluded"
    """Nothing was found, because all items that could be recommended are excluded or in the history."""
    NOTHING_BY_RULES = "nothing_by_rules"
    """Nothing was found, because the rules of the shop leave no item to recommend."""


class Cause(Enum):
    """Why it was done: the kind of fallback, and the text."""

    EMPTY_HISTORY = FallbackKind.POPULAR, "the history is empty"
    UNKNOWN_HISTORY = FallbackKind.POPULAR, "none of the {total} history items is known"
    ONLY_DISLIKES = FallbackKind.POPULAR, "the customer likes nothing of the history, and what they dislike is left out"
    UNTRAINED_USER = FallbackKind.POPULAR, "the user has no events in training"
    RECENT_CUSTOMERS = FallbackKind.RECENT, "by customers in the last {days:g} days"
    HISTORY_INSTEAD_OF_USER = FallbackKind.MIDPOINT, ""
    UNKNOWN_HISTORY_ITEMS = FallbackKind.PARTIAL, "{unknown} of {total} history items {are} unknown"
    UNKNOWN_ALLOWED_ITEMS = FallbackKind.ALLOWED, "{unknown} of {total} allowed items {are} unknown"
    UNKNOWN_CATEGORIES = FallbackKind.CATEGORIES, "{unknown} of {total} categories {are} unknown"
    BASKET_WITHOUT_CATEGORIES = FallbackKind.BASKET, "no category of its items is known, so none is left out"
    BASKET_OF_ALL_CATEGORIES = FallbackKind.BASKET, "nothing is left outside its categories, so none is left out"
    EMPTY_BASKET = FallbackKind.POPULAR, "the basket is empty"
    NO_COMPLEMENTS = FallbackKind.NOT_LEARNED, "the model has not learned from orders what is bought together"
    ITEMS_WITHOUT_PRICE = FallbackKind.BUDGET, "{unknown} of {total} items {have} no price, and {are} left out"
    NOTHING_WITHIN_BUDGET = FallbackKind.BUDGET, "nothing fits the budget"
    SLOTS_BEYOND_BUDGET = FallbackKind.SLOTS, "{unknown} of {total} slots {are} too expensive for the budget"
    SLOTS_WITHOUT_ITEMS = FallbackKind.SLOTS, "{unknown} of {total} slots {have} no item that can be recommended"
    FEW_OF_CATEGORY = (
        FallbackKind.WIDENED,
        "{unknown} of {total} are of its category, others of the parent category",
    )
    ITEM_WITHOUT_CATEGORY = FallbackKind.NO_CATEGORY, "the category of the item is not known: ask for similar items"
    NOTHING_OF_CATEGORY = (
        FallbackKind.NOTHING_ALLOWED,
        "nothing else of its category, or of the parent category, can be recommended",
    )
    NO_TREND = FallbackKind.NOT_TRENDING, "too few customers of the last days are known"
    NOTHING_TRENDING = FallbackKind.NOT_TRENDING, "nothing that can be recommended is more popular than usual"
    NOTHING_LIVE = FallbackKind.NOTHING_LIVE, "no item of the version is live"
    NOTHING_ALLOWED = FallbackKind.NOTHING_ALLOWED, "the allow-list and the categories leave no item to recommend"
    NOTHING_BY_RULES = FallbackKind.NOTHING_BY_RULES, "the rules of the shop leave no item to recommend"
    ALL_EXCLUDED = FallbackKind.ALL_EXCLUDED, "all items that could be recommended are excluded or in the history"


@dataclass(frozen=True)
class Fallback:
    """One deviation from what was requested; `str` renders it, such as "partial: 1 of 2 history items is unknown"."""

    cause: Cause
    unknown: int = 0
    """Ids that are not known, of `total`."""
    total: int = 0
    id_type: str | None = None
    """"strings" or "integers", as a hint where no id is known."""
    days: float = 0.0
    """Those in which customers count."""

    @property
    def kind(self) -> FallbackKind:
        return self.cause.value[0]

    def __str__(self) -> str:
        kind, text = self.cause.value
        are, have = ("is", "has") if self.unknown == 1 else ("are", "have")
        reason = text.format(unknown=self.unknown, total=self.total, are=are, have=have, days=self.days)
        hint = f" (ids here are {self.id_type})" if self.id_type else ""
        return f"{kind}: {reason}{hint}" if reason else str(kind)


def render_fallbacks(fallbacks: Iterable[Fallback]) -> str | None:
    """The text of some fallbacks, joined by "; "; None if there are none."""
    return "; ".join(map(str, fallbacks)) or None


def history_fallbacks(
    total: int, unknown: int, *, midpoint: bool = False, id_type: str | None = None
) -> tuple[Fallback, ...]:
    """Fallbacks of a history of `total` items, of which some are `unknown`; at least one item.

    midpoint: the model has points of customers and is queried with a history. id_type: see `Fallback`.
    """
    if unknown == total:
        return (Fallback(Cause.UNKNOWN_HISTORY, total, total, id_type),)
    own = (Fallback(Cause.HISTORY_INSTEAD_OF_USER),) if midpoint else ()
    return (*own, Fallback(Cause.UNKNOWN_HISTORY_ITEMS, unknown, total)) if unknown else own


def unknown_fallbacks(cause: Cause, rows: NDArray[np.integer[Any]]) -> tuple[Fallback, ...]:
    """A fallback with the number of unknown rows; none if all are known."""
    unknown = int((rows == UNKNOWN).sum())
    return (Fallback(cause, unknown, len(rows)),) if unknown else ()
