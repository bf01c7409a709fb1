"""Options and results of the recommender; they are also the JSON of the HTTP interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from lorentzrec.points.fallbacks import Fallback
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.serving.stores.activations import ARM_NAME
from lorentzrec.serving.stores.ids import LONGEST_ID

LARGEST_K = 1_000
MOST_IDS = 10_000
"""In one list of a request."""
ID_PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]+(?!\\n)$"
"""No control characters; `$` alone would let Python accept one line break at the end."""

Id: TypeAlias = (
    Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=ID_PATTERN)]
    | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
)
"""An id in JSON. A shop that numbers its products sends integers; they mean the same as their text."""
Ids: TypeAlias = Annotated[Sequence[Id], Meta(max_length=MOST_IDS)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_K, description="The number of items.")]
Categories: TypeAlias = Annotated[Sequence[str], Meta(max_length=1_000)]
Diversity: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="0: the best items; towards 1: items that differ from one another.")
]
Slot: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1_000)]
Field: TypeAlias = Literal["price", "image"]
Explore: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="The share of the places that goes to new items.")]

DEFAULT_K = 10
"""Items of a list, in the service and in its clients."""


class Range(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Numbers from `min` to `max`, both included; null: without a bound."""

    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("a range has `min`, `max` or both: give one of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("`min` is larger than `max`, so no item fits: exchange them")


ConditionText: TypeAlias = Annotated[str, Meta(max_length=1_000)]
Values: TypeAlias = Annotated[Sequence[ConditionText | float], Meta(min_length=1, max_length=1_000)]
Condition: TypeAlias = ConditionText | float | bool | Values | Range
"""What a column must be: a value, one of several, or in a range."""


class ListOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Which items may be in a list. Ids that the version does not contain are counted, not refused."""

    k: Count = DEFAULT_K
    exclude: Ids = ()
    """Items never to recommend."""
    allow: Ids | None = None
    """Recommend only these; all items, if it is left out or null."""
    categories: Categories = ()
    """Recommend only items of these categories; an empty list means all."""
    where: Annotated[Mapping[str, Condition], Meta(max_length=20)] = {}
    """Recommend only items whose columns meet all of these conditions: a value, a list of values, or a range with
    `min`, `max` or both, such as `{"brand": ["Acme", "Bolt"], "price": {"max": 50}}`."""
    set: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Recommend only items of this named set, see `PUT /v1/rules`."""
    fields: Annotated[Sequence[Field], Meta(max_length=2)] = ()
    """Further details of each recommended item."""
    arm: Annotated[str, Meta(pattern=f"^{ARM_NAME.pattern}$")] | None = None
    """The arm that recommends. By default that of the customer, by a hash of the id, or `main` without a customer."""


class OutfitOptions(ListOptions, frozen=True):
    """What an outfit may contain."""

    per_category: Annotated[int, Meta(ge=1, le=LARGEST_K)] = 1
    """The largest number of items of one category."""
    slots: Annotated[Sequence[Slot], Meta(min_length=1, max_length=100)] | None = None
    """The categories to fill. By default all that are not in the basket."""
    budget: Annotated[float, Meta(gt=0, le=1e15)] | None = None
    """What all items of the outfit may cost together. Items without a price are left out."""
    reasons: bool = False
    """For each item, list the items of the basket that it goes with best."""


class ItemOptions(ListOptions, frozen=True):
    """The same, and how items are chosen."""

    diversity: Diversity = 0.0
    """Has no effect on popular items, the fallback for an unknown history."""
    explore: Explore | None = None
    """By default that of the service (`--explore`). Which new items are shown is random."""
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None
    """Makes `explore` repeatable: the same request with the same seed and the same new items has the same response."""


class RankingOptions(ItemOptions, frozen=True):
    """The same with reasons."""

    reasons: bool = False
    """For each recommendation, list the items of the history that contribute most to it. Of a similar item, the reason
    is the item that it is similar to."""


class CustomerOptions(RankingOptions, frozen=True):
    """The same for a customer, who may be looking at something right now."""

    context: Ids = ()
    """Items viewed just now: they count as the newest of the history."""
    exclude_seen: bool | None = None
    """Do not recommend items of the history. By default they are left out, unless customers buy again."""


class Reason(Struct, frozen=True):
    """An item of the history that contributes to a recommendation, with its title; see `points/reasons.py`."""

    item: str
    title: str | None
    share: float
    """Its share of the contributions of the whole history."""
    kind: ReasonKind = ReasonKind.NEAR
    bought: int | None = None
    """How often the customer bought the item, if they bought it before."""


class RecommendedItem(Struct, frozen=True):
    id: str
    row: int
    """Its row on the map; -1 for a new item."""
    score: float
    title: str | None
    category: str | None
    because: tuple[Reason, ...] = ()
    new: bool = False
    """Whether the version does not contain the item: its first events, similar items or attributes placed it."""
    price: float | UnsetType | None = UNSET
    """If it is one of the requested `fields`; null for an item without a price."""
    image: str | UnsetType | None = UNSET
    """The address of an image, if it is one of the requested `fields`."""


class FilledSlot(Struct, frozen=True):
    """A category of an outfit, and the items that fill it."""

    category: str
    items: tuple[str, ...]
    """Their ids, best first. None: the slot was requested, and is open."""


class TrendingItem(RecommendedItem, frozen=True, kw_only=True):
    """An item that is more popular than usual."""

    customers: int
    """In the last days, each counted once."""
    usual: float
    """As many customers as it has at its usual rate; 0 for a new item."""
    reason: str
    """The same in words."""


def describe_trending(item: RecommendedItem, recent: float, usual: float, days: float) -> TrendingItem:
    """An item with its customers in the last days."""
    compared = "usually fewer than one" if usual < 1 else f"{recent / usual:.1f} times the usual"
    reason = f"{recent:,.0f} customers in the last {days:g} days, {compared}"
    return TrendingItem(**asdict(item), customers=round(recent), usual=round(usual, 1), reason=reason)


class RankedItems(NamedTuple):
    """Recommended items, best first, and what is different from what was requested."""

    items: Sequence[RecommendedItem]
    fallbacks: tuple[Fallback, ...] = ()
    rules: tuple[str, ...] = ()
    """The names of the rules of the shop that acted."""
    slots: tuple[FilledSlot, ...] = ()
    """Of an outfit."""
    price: float | None = None
    """Of an outfit: what its items cost together; None if one has no price."""
