"""The bodies of requests and responses. They check requests, and the OpenAPI document is generated from them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.serving.rules.document import Boost as Boost
from lorentzrec.serving.rules.document import Quota as Quota
from lorentzrec.serving.rules.document import Rule, RuleSet
from lorentzrec.serving.rules.document import Selection as Selection
from lorentzrec.serving.stores.histories import USUAL_HISTORY
from lorentzrec.serving.stores.new_items import MOST_CUSTOMERS
from lorentzrec.serving.stores.versions import LONGEST_REASON
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.worker.live_trend import Source
from lorentzrec.serving.worker.query import (
    ID_PATTERN,
    CustomerOptions,
    FilledSlot,
    Id,
    Ids,
    OutfitOptions,
    RankingOptions,
    RecommendedItem,
    TrendingItem,
)

MOST_REASONED = 2_000_000
"""With `reasons`: the most pairs of a recommended item and an item of the history, since each pair is computed."""
EVENTS_A_REQUEST = 1_000
LOOKED_UP = 1_000
"""Items whose details one request may ask for."""
SECONDS_AHEAD = 86_400
"""How far ahead of now the time of an event may be. One that is further ahead would stay the newest of its customer."""
MILLISECONDS = 1e11
"""As seconds, the year 5138: a larger number is a time in milliseconds."""
TEXT_PATTERN = ID_PATTERN.replace("+", "*")
IMAGE_PATTERN = "^[Hh][Tt][Tt][Pp][Ss]?://[^\\u0000-\\u0020\\u007f-\\u009f]+(?!\\n)$"
"""Pages show images, so that other addresses, such as `javascript:`, could do harm."""

Kind: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, description="view, add-to-bag, buy, ...")]
Weight: TypeAlias = Annotated[
    float,
    Meta(
        ge=-1e6,
        le=1e6,
        description="The weight of the event in the history; negative for a dislike, and not 0.",
        extra_json_schema={"not": {"const": 0}},
    ),
]
Time: TypeAlias = (
    Annotated[float, Meta(ge=0, description="Seconds since 1970, at most a day ahead of now.")]
    | Annotated[datetime, Meta(tz=True, description="RFC 3339, such as 2024-05-13T10:00:00Z, in the same range.")]
)


class NoQuery(Struct, frozen=True):
    """A route without parameters."""


class SearchQuery(Struct, frozen=True):
    query: Annotated[str, Meta(max_length=500)] = ""
    """Words of a title, or beginnings of them, or an id."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """The largest number of items."""


class HistoryQuery(Struct, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The largest number of events: the newest."""


class NewItemsQuery(Struct, frozen=True):
    origin: Literal["events", "put"]
    """events: items that only occur in events. put: items that were sent with `PUT`."""
    fewer_than: Annotated[int, Meta(ge=1, le=MOST_CUSTOMERS)] | None = None
    """Only items with fewer customers than this. Of an item, the first 20 customers count."""


class RowsQuery(Struct, frozen=True):
    rows: Annotated[str, Meta(pattern=r"^[0-9]{1,9}(,[0-9]{1,9}){0,999}$")]
    """Up to 1,000 rows, separated by commas."""


class RecommendRequest(CustomerOptions, frozen=True):
    """Recommend items for a history, or for a customer whose history is in the store."""

    history: Ids | None = None
    """The items of the history, oldest first. Either this or `user`."""
    user: Id | None = None
    """A customer, whose history is in the store."""

    def __post_init__(self) -> None:
        if (self.history is None) == (self.user is None):
            raise ValueError("the query is either `history` or `user`: give one of them")
        _check_reasons(self, self.history_length)

    @property
    def history_length(self) -> int:
        """The number of items in the history, at most."""
        return (USUAL_HISTORY if self.history is None else len(self.history)) + len(self.context)


class OutfitRequest(OutfitOptions, frozen=True, kw_only=True):
    """Recommend items that go with those of a basket."""

    basket: Ids
    """What its items have been bought together with decides."""

    def __post_init__(self) -> None:
        _check_reasons(self, len(self.basket))


def _check_reasons(options: RankingOptions | OutfitOptions, history: int) -> None:
    if options.reasons and options.k * history > MOST_REASONED:
        raise ValueError(
            f"`reasons` for k = {options.k} items of a history of {history} are too many: k times the length of the "
            f"history is {MOST_REASONED:,} at most, so lower `k`, shorten the history or leave `reasons` out"
        )


class EventDetails(Struct, frozen=True, forbid_unknown_fields=True):
    time: Time | None = None
    """Seconds since 1970, or a text such as 2024-05-13T10:00:00Z; now, if left out. At most a day ahead of now."""
    id: Id | None = None
    """An event that is sent again with the same id counts once, and so does an item at one time under two ids. If left
    out, the id is derived from item and time; without a time it is new for every event."""
    kind: Kind | None = None
    """What happened. Its weight is that of the service, or else of the dataset of the version (`--event-weight`); a
    kind without a weight is refused. `dislike` has the weight -1, unless another one is set."""
    weight: Weight | None = None
    """The weight itself, instead of a kind; 1 if both are left out. A negative one is a dislike: lists turn away from
    the item, and do not contain it, until an event with a positive weight follows."""


class NewEvent(EventDetails, frozen=True, kw_only=True):
    """A customer interacted with an item."""

    user: Id
    item: Id

    def __post_init__(self) -> None:
        if self.kind is not None and self.weight is not None:
            raise ValueError(f"the event on {str(self.item)!r} has a kind and a weight: send one of them")
        if self.weight == 0:
            raise ValueError(f"the event on {str(self.item)!r} has the weight 0: send a positive or a negative number")
        if self.seconds is not None and not 0 <= self.seconds <= time.time() + SECONDS_AHEAD:
            unit = "in seconds, not milliseconds, " if self.seconds > MILLISECONDS else ""
            raise ValueError(
                f"the event on {str(self.item)!r} is of the time {self.time}: send a time {unit}from 1970 on and at "
                "most a day ahead of now"
            )

    @property
    def seconds(self) -> float | None:
        """The time as seconds since 1970."""
        return self.time.timestamp() if isinstance(self.time, datetime) else self.time


class EventsRequest(EventDetails, frozen=True, kw_only=True):
    """A list of events, or the fields of a single one."""

    events: Annotated[Sequence[NewEvent], Meta(min_length=1, max_length=EVENTS_A_REQUEST)] | None = None
    user: Id | None = None
    item: Id | None = None

    def __post_init__(self) -> None:
        alone = (self.user, self.item, self.time, self.id, self.kind, self.weight)
        if self.events is not None and any(value is not None for value in alone):
            raise ValueError("there are `events` and a single event: send one or the other")
        self.all()

    def all(self) -> Sequence[NewEvent]:
        if self.events is not None:
            return self.events
        if self.user is None or self.item is None:
            raise ValueError("there is no event: send `events`, or one event with `user` and `item`")
        return [NewEvent(**{name: getattr(self, name) for name in NewEvent.__struct_fields__})]


class LiveItemsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The items that may be recommended from now on; null means all items of the version, also removed ones."""

    items: Sequence[Id] | None
    force: bool = False
    """Also if the list is probably a mistake: empty, of mostly unknown ids, or less than half as long as the last."""


class LiveItemsChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Items that become live, and items that no longer are; an item in both lists is live."""

    add: Sequence[Id] = ()
    remove: Sequence[Id] = ()
    force: bool = False
    """Also if more than 100 items are removed, and more than half of those that are live."""


Text: TypeAlias = Annotated[str, Meta(max_length=1_000, pattern=TEXT_PATTERN)]
AttributeValue: TypeAlias = Text | float | Annotated[Sequence[Text], Meta(max_length=100)]


class NewItemRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """An item that the version does not contain, placed by events, and by similar items, attributes or its category."""

    title: Text | None = None
    category: Annotated[str, Meta(min_length=1, max_length=1_000, pattern=TEXT_PATTERN)] | None = None
    price: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    image: Annotated[str, Meta(max_length=2_000, pattern=IMAGE_PATTERN)] | None = None
    """An address that begins with http:// or https://."""
    like: Annotated[Sequence[Id], Meta(max_length=100)] = ()
    """Similar items of the version: the new item is placed at their midpoint."""
    attributes: Annotated[Mapping[Text, AttributeValue], Meta(max_length=100)] = {}
    """Values of the columns that the model was trained with: texts, lists of texts, or numbers."""


class LookupRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Items whose details are wanted."""

    ids: Annotated[Sequence[Id], Meta(max_length=LOOKED_UP)]


class RowsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Items to look up on the map."""

    items: Ids


class RecommendResponse(Struct, frozen=True, kw_only=True):
    """Recommended items, best first."""

    items: Sequence[RecommendedItem]
    model: str
    """The version that all items come from."""
    arm: str
    """The arm that recommends: the one of the request or of the customer, or `main` if that arm cannot be used."""
    fallback: str | None
    """How the response differs from what was requested, as text; null if it does not."""
    fallback_kinds: Annotated[Sequence[str], Meta(description=f"The kinds in it: {', '.join(FallbackKind)}.")] = ()
    """Text, so that a client accepts kinds of later versions."""
    rules: Sequence[str] = ()
    """The names of the rules of the shop that acted on the list."""
    degraded: str | None
    """Why the history of the customer could not be read; null if it was."""
    milliseconds: float


class OutfitResponse(RecommendResponse, frozen=True, kw_only=True):
    """Items that go with a basket, best first."""

    slots: Sequence[FilledSlot]
    """The categories of the outfit with their items: the requested ones in their order, also open ones."""
    price: float | None
    """What the items cost together; null if one of them has no price."""


class TrendingResponse(Struct, frozen=True, kw_only=True):
    """Items that are more popular than usual, most of all first."""

    items: Sequence[TrendingItem]
    model: str
    arm: str
    days: float
    """The length of the last days."""
    fallback: str | None
    """Why items are missing, or the list is empty; null if there is nothing to say."""
    fallback_kinds: Sequence[str] = ()
    rules: Sequence[str] = ()
    """The names of the rules of the shop that acted on the list."""
    milliseconds: float


class RulesRequest(RuleSet, frozen=True, kw_only=True):
    """The rules of the shop from now on. They replace all earlier ones."""

    reason: Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON, pattern=ID_PATTERN)] = "changed"
    """Why, for the log."""
    instead_of: Annotated[int, Meta(ge=0)] | None = None
    """The revision that this change was made from, 0 for none. If another one is current by now, nothing changes."""


class RulesResponse(Struct, frozen=True):
    """The rules in the store."""

    revision: int
    """0 before the first rules."""
    time: float | None
    """When they were set, in seconds since 1970."""
    reason: str | None
    who: str | None
    """The name of the key that set them, if it has one."""
    rules: Sequence[Rule]
    sets: Mapping[str, Sequence[Id]]


class RulesChanged(Struct, frozen=True):
    """The rules are stored. Workers follow within about a second."""

    revision: int
    rules: int
    """The number of rules."""
    unknown_items: int
    """The number of ids in rules and sets that are no items of the version. They are stored: the next version may have
    them."""
    model: str | None


class RuleChangeEntry(Struct, frozen=True):
    """An entry of the log of rules."""

    revision: int
    time: float
    reason: str
    who: str | None


class RulesLogResponse(Struct, frozen=True):
    """All changes of the rules, newest first."""

    changes: list[RuleChangeEntry]


class ItemPreview(RankingOptions, frozen=True, kw_only=True):
    """Items similar to an item, or alternatives to it."""

    item: Id


class PreviewRequest(RuleSet, frozen=True, kw_only=True):
    """Try rules with a request, without storing them. Exactly one of the requests is given."""

    at: Annotated[datetime, Meta(tz=True)] | None = None
    """The moment whose rules are in force; now, if it is left out."""
    recommend: RecommendRequest | None = None
    similar: ItemPreview | None = None
    alternatives: ItemPreview | None = None
    outfits: OutfitRequest | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.recommend, self.similar, self.alternatives, self.outfits)) != 1:
            raise ValueError(
                "the query is one of `recommend`, `similar`, `alternatives` and `outfits`: give one of them"
            )


class PreviewResponse(Struct, frozen=True):
    """The list with these rules, and without any."""

    items: Sequence[RecommendedItem]
    rules: Sequence[str]
    """The names of the rules that acted."""
    without_rules: Sequence[RecommendedItem]
    fallback: str | None
    unknown_items: int
    """The number of ids in rules and sets that are no items of the version."""
    model: str


@dataclass(slots=True, kw_only=True)
class ItemResponse(Item):
    model: str


class ItemsResponse(Struct, frozen=True):
    items: list[Item]
    model: str


class LookupResponse(Struct, frozen=True):
    """The details of items in the order in which they were sent, each once."""

    items: list[Item]
    unknown: list[str]
    """The ids that neither the version nor the new items contain."""
    model: str


class NewItemResponse(Struct, frozen=True):
    """A new item is stored, and recommended by every worker, usually within two seconds, if it is placed."""

    id: str
    placed: bool
    """Whether similar items, attributes or a category of the version place it. If not, its first events will."""
    unknown_items: int
    """The number of similar items that the version does not contain. They are stored: the next version may."""
    unknown_attributes: int
    """The number of attributes that the model does not know. They are stored, too."""
    model: str


class NewItemRemoved(Struct, frozen=True):
    id: str
    model: str | None


class NewItemsRemoved(Struct, frozen=True):
    removed: int
    """The number of items that were removed. Workers follow within about a second."""
    model: str | None


class EventsResponse(Struct, frozen=True):
    """The events are on disk, and count in the next recommendation."""

    accepted: int
    duplicates: int
    unknown_items: int
    """Events of items that the version does not contain. They are stored. Those of several customers place the item."""
    model: str | None


class HistoryEvent(Struct, frozen=True):
    item: str
    time: float
    title: str | None
    weight: float


class HistoryResponse(Struct, frozen=True):
    """The newest events of a customer, oldest first."""

    user: str
    history: list[HistoryEvent]
    model: str | None


class ErasureResponse(Struct, frozen=True):
    user: str
    events: int
    """The number of events erased."""
    model: str | None


class LiveItemsResponse(Struct, frozen=True):
    items: list[str] | None
    """The only live items; null: every item of the version is live except those in `removed`."""
    model: str | None
    removed: list[str] = []
    """The items that were removed while every item was live; empty if there is a list of live items."""


class LiveItemsChanged(Struct, frozen=True):
    live: int | None
    """The number of items in the list of live items; null: all are live except `removed` ones."""
    unknown_items: int
    """The number of ids in the request that the version does not contain. They are stored nevertheless."""
    model: str | None
    removed: int = 0
    """The number of items that were removed while every item was live."""


class ArmInformation(Struct, frozen=True):
    """A model in use, with its share of the customers."""

    arm: str
    share: float
    model: str | None
    """The version in use; null if the arm cannot be used, so that `main` answers for it."""
    geometry: str | None
    score: str | None


class IndexInformation(Struct, frozen=True):
    """What finds the candidates for recommendations."""

    items: int
    """Those that may be recommended, or all of the version."""
    lists: int
    probes: int
    """The number of lists that a request scans."""
    recall: float | None
    """The share of the true first ten items that is found, measured on queries that did not choose `probes`; null while
    it is being measured."""


class TrendInformation(Struct, frozen=True):
    """What is known of the last days."""

    source: Source
    """events: customers are counted from the events of the store. version: they are those of the training. off: nothing
    is known of the last days."""
    reason: str
    """Why it is this source."""
    days: float
    weight: float
    """By how much trends change scores; 0: not at all."""
    customers: int
    """Customers of items of the version in the store, each counted once per item."""
    different_customers: int
    unknown: int
    """Customers of ids that are neither in the version nor new items."""
    capped: int
    """Left out: items of customers with more than the limit, the oldest first."""
    ahead: int
    """Events that count later, since their time has not come."""
    left_out: int
    """Events of ids beyond the first 16 million in the last days."""
    refreshed: float | None
    """Events that arrived before this time are counted, in seconds since 1970; null: not yet."""


class CheckInformation(Struct, frozen=True):
    """The model of the version next to the best method that needs no training, on events that it had not learned."""

    ndcg: float
    """NDCG@10 of the model."""
    best_baseline: str
    best_baseline_ndcg: float
    customers: int
    events: Literal["held-out", "new"]
    """held-out: the events were held out from training. new: they were the new events of an update, before it."""


class DayInformation(Struct, frozen=True):
    """The version of that time on the new events of a day, before they were learned; null for what is not known."""

    time: float
    """When it was measured, in seconds since 1970."""
    ndcg: float | None
    """NDCG@10."""
    best_baseline: float | None
    """NDCG@10 of the best baseline."""
    coverage: float | None
    """The share of the items that are in a list of 10."""
    new_item_share: float | None
    """The share of the new events whose item the version did not know."""


class VersionInformation(Struct, frozen=True):
    """What the version knows about itself."""

    created: float
    """When it was made, in seconds since 1970."""
    newest_event: float | None
    """The time of the newest event that it was trained on, in seconds since 1970."""
    check: CheckInformation | None
    """null if its training made no reality check."""
    compared_with: str | None
    """The version that it was compared with when it was published."""
    overlap: float | None
    """overlap@10 with that version; null if it was not measured."""
    days: list[DayInformation] | None
    """What the daily job measured on the last 30 days, oldest first; null if it did not publish the version."""


class ModelInformation(Struct, frozen=True):
    """The version in use."""

    model: str
    items: int
    geometry: str
    dimension: int
    score: str
    """What a score is: "distance" (minus the distance) or "inner" (the inner product); larger is better."""
    recency: float
    """The weight of an event of a history, relative to the event after it."""
    by_orders: bool
    """Whether recency counts orders, whose items weigh alike, instead of events."""
    metrics: dict[str, Any]
    map: dict[str, Any] | None
    categories: list[str]
    live: int
    index: IndexInformation | None = None
    """null if all live items are ranked exactly."""
    new_items: int = 0
    """Placed items that the version does not contain."""
    rules: int = 0
    """The revision of the rules in use."""
    sets: list[str] = []
    """The names of the sets of items."""
    text_columns: list[str] = []
    """Columns that `where` and quotas ask for."""
    number_columns: list[str] = []
    """Columns that `where` and boosts ask for."""
    trend: TrendInformation | None = None
    """null for a moment at the start."""
    arms: list[ArmInformation] = []
    """The live arms, `main` first. All other entries are about the version of `main`."""
    version: VersionInformation | None = None
    """null from a service of an earlier release."""


class RowsResponse(Struct, frozen=True):
    rows: list[int | None]
    """Null for an item that the version does not contain."""
    model: str


class Liveness(Struct, frozen=True):
    alive: bool = True


class Readiness(Struct, frozen=True):
    ready: bool
    model: str
    warnings: list[str]


class Fault(Struct, frozen=True):
    """One error in a request."""

    where: str
    """The parameter, or the place in the body, such as `history[3]`."""
    what: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request failed: `type` is for programs, `detail` for people."""

    type: str
    title: str
    status: int
    detail: str = ""
    errors: Sequence[Fault] = ()
