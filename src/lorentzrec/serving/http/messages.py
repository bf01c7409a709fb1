"""What goes over HTTP, both ways: these structures check requests, and the OpenAPI document is made of them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from lorentzrec.errors import InputError
from lorentzrec.serving.http.identifiers import JsonId
from lorentzrec.serving.stores.store import USUAL_HISTORY

LARGEST_K = 1_000
LONGEST_HISTORY = 10_000
MOST_REASONED = 2_000_000
"""With `reasons`: the most pairs of a recommended item and an item of the history. Each pair is weighed."""
EVENTS_A_REQUEST = 1_000
LATEST_TIME = 1e11
"""The year 5138. A larger number is a time in milliseconds."""

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_K, description="How many items.")]
Ids: TypeAlias = Annotated[list[JsonId], Meta(max_length=LONGEST_HISTORY)]
Categories: TypeAlias = Annotated[list[str], Meta(max_length=1_000)]
Diversity: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="0: the best items; towards 1: items that differ from one another.")
]
Kind: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64, description="view, add-to-bag, buy, ...")]
Weight: TypeAlias = Annotated[float, Meta(gt=0, le=1e6, description="What the event counts for in the history.")]
Time: TypeAlias = Annotated[float, Meta(ge=0, le=LATEST_TIME, description="Seconds since 1970.")]


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """A body. A field that nobody knows is a misspelt one, so it is refused."""


class Wishes(Request, frozen=True):
    """What may be recommended, and how."""

    k: Count = 10
    exclude: Ids = []
    """Items never to recommend."""
    allow: Ids | None = None
    """Recommend nothing but these; null allows all."""
    categories: Categories = []
    """Recommend only items of these categories; none means all."""
    diversity: Diversity = 0.0
    reasons: bool = False
    """Say which items of the history speak for each recommendation."""
    twin: bool = False
    """Answer with the Euclidean twin, if the version has one."""


class RecommendRequest(Wishes, frozen=True):
    """A question: what might somebody with this history like?"""

    history: Ids | None = None
    """Items touched, oldest first. Either this or `user`."""
    user: JsonId | None = None
    """A customer, whose history is in the store."""
    context: Ids = []
    """Items looked at now: they count as the newest of the history."""
    exclude_seen: bool = True
    """Leave out what is in the history."""

    def __post_init__(self) -> None:
        if (self.history is None) == (self.user is None):
            raise ValueError("the question is either `history` or `user`: give one of them")
        _check_reasons(self, self.history_length)

    @property
    def history_length(self) -> int:
        """How many items the query is made of, at most."""
        return (USUAL_HISTORY if self.history is None else len(self.history)) + len(self.context)


class BasketRequest(Wishes, frozen=True, kw_only=True):
    """A question: what goes with these items?"""

    items: Ids

    def __post_init__(self) -> None:
        _check_reasons(self, len(self.items))


def _check_reasons(wishes: Wishes, history: int) -> None:
    if wishes.reasons and wishes.k * history > MOST_REASONED:
        raise ValueError(
            f"`reasons` for k = {wishes.k} items of a history of {history} are too many: k times the length of the "
            f"history is {MOST_REASONED:,} at most, so lower `k`, shorten the history or leave `reasons` out"
        )


class NewEvent(Request, frozen=True):
    """Somebody touched an item."""

    user: JsonId
    item: JsonId
    time: Time | None = None
    """Now, if left out."""
    id: JsonId | None = None
    """One event, one id: sent again with the same id, it counts once, and so does an item at one time under two ids.
    Left out, it is made of item and time; without a time it is new for every event."""
    kind: Kind | None = None
    """What happened. Its weight is the one that the dataset of the version was prepared with (`--event-weight`)."""
    weight: Weight | None = None
    """The weight itself, instead of a kind; 1 if both are left out."""


class EventsRequest(Request, frozen=True):
    """Events as a list, or a single one as it is."""

    events: Annotated[list[NewEvent], Meta(min_length=1, max_length=EVENTS_A_REQUEST)] | None = None
    user: JsonId | None = None
    item: JsonId | None = None
    time: Time | None = None
    id: JsonId | None = None
    kind: Kind | None = None
    weight: Weight | None = None

    def __post_init__(self) -> None:
        alone = (self.user, self.item, self.time, self.id, self.kind, self.weight)
        if self.events is None and (self.user is None or self.item is None):
            raise ValueError("there is no event: send `events`, or one event with `user` and `item`")
        if self.events is not None and any(value is not None for value in alone):
            raise ValueError("there are `events` and a single event: send one or the other")

    def all(self) -> list[NewEvent]:
        if self.events is not None:
            return self.events
        if self.user is None or self.item is None:
            raise InputError("there is no event: send `events`, or one event with `user` and `item`")
        return [NewEvent(self.user, self.item, self.time, self.id, self.kind, self.weight)]


class LiveRequest(Request, frozen=True):
    """The items that may be recommended from now on; null stands for all of the version."""

    items: list[JsonId] | None


class LiveChange(Request, frozen=True):
    """Items that come and go."""

    add: list[JsonId] = []
    remove: list[JsonId] = []


class RowsRequest(Request, frozen=True):
    """Items whose rows on the map are wanted."""

    items: Ids


class Reason(Struct, frozen=True):
    """An item of the history that speaks for a recommendation."""

    item: str
    title: str | None
    share: float
    """Its part in the pull of the whole history."""


class RecommendedItem(Struct, frozen=True):
    id: str
    row: int
    """Its place on the map."""
    score: float
    title: str | None
    category: str | None
    because: list[Reason]


class Recommended(Struct, frozen=True):
    """An answer: items, best first."""

    items: list[RecommendedItem]
    model: str
    """The version that answered, from the first item to the last."""
    fallback: str | None
    """Why the answer is something else than was asked; null for a full answer."""
    degraded: str | None
    """Why the history of the customer could not be read; null if it was."""
    milliseconds: float


class ItemDetails(Struct, frozen=True):
    row: int
    id: str
    title: str | None
    category: str | None
    price: float | None
    image: str | None


class ItemAnswer(ItemDetails, frozen=True):
    model: str


class FoundItems(Struct, frozen=True):
    items: list[ItemDetails]
    model: str


class EventsAnswer(Struct, frozen=True):
    """The events are on disk, and count in the next recommendation."""

    accepted: int
    duplicates: int
    unknown_items: int
    """Events of items that the version does not hold. They are kept: the next version may."""
    model: str | None


class Touched(Struct, frozen=True):
    item: str
    time: float
    title: str | None
    weight: float


class History(Struct, frozen=True):
    """The newest events of a customer, oldest first."""

    user: str
    history: list[Touched]
    model: str | None


class Forgotten(Struct, frozen=True):
    user: str
    events: int
    """How many were erased."""
    model: str | None


class LiveItems(Struct, frozen=True):
    items: list[str] | None
    """Null: every item of the version is live."""
    model: str | None


class LiveChanged(Struct, frozen=True):
    live: int | None
    """How many items are live now; null: all."""
    unknown_items: int
    """How many of those sent the version does not hold."""
    model: str | None


class ModelInformation(Struct, frozen=True):
    """The version that answers now."""

    model: str
    items: int
    geometry: str
    dimension: int
    score: str
    """What a score is: "distance" (minus the distance) or "inner" (the inner product); larger is better."""
    recency: float
    metrics: dict[str, Any]
    map: dict[str, Any] | None
    twin: bool
    categories: list[str]
    live: int


class Rows(Struct, frozen=True):
    rows: list[int | None]
    """Null for an item that the version does not hold."""
    model: str


class Alive(Struct, frozen=True):
    alive: bool = True


class Ready(Struct, frozen=True):
    ready: bool
    model: str
    warnings: list[str]


class Fault(Struct, frozen=True):
    """One thing that is wrong with a request."""

    where: str
    """The parameter, or the place in the body, such as `history[3]`."""
    what: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why there is no answer. `type` tells programs which kind of problem it is, `detail` tells people."""

    type: str
    title: str
    status: int
    detail: str = ""
    errors: list[Fault] = []
