"""New items: items that no version contained when they were described, or when their first events arrived.

A new item is of one of two origins: by PUT if it was described, or else by events. Each origin has a limit of its own,
so that ids that only occur in events never take the room of products.

A store keeps what was sent about them and who interacted with them first, never their points: workers derive those from
the histories of these customers, so nothing derived is left when a customer is erased.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from typing import Self

from lorentzrec.serving.stores.faults import StoreFault

MOST_CUSTOMERS = 20
"""The first customers of a new item that are kept; the events of later ones are in their histories only."""
CUSTOMER_BYTES = 8 * 2**10
"""The ids of its customers, in UTF-8: beyond that, fewer than `MOST_CUSTOMERS` are kept. The longest four ids fit."""
DETAILS = ("title", "category", "price", "image", "like", "attributes")
"""What a shop sends about a new item."""
DETAIL_BYTES = 8 * 2**10
"""The size of `DETAILS` as JSON in UTF-8. With the limits on their number, this bounds all new items."""


class Origin(StrEnum):
    """Why there is a new item."""

    PUT = "put"
    EVENTS = "events"


@dataclass(frozen=True)
class NewItem:
    """What a store keeps of a new item: what a shop sent about it with PUT, and its first customers.

    An item by events without customers is not kept.
    """

    id: str
    origin: Origin = Origin.EVENTS
    title: str | None = None
    category: str | None = None
    price: float | None = None
    image: str | None = None
    like: tuple[str, ...] = ()
    """Ids of similar items."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """By the name of their column; several values are separated by |."""
    customers: tuple[str, ...] = ()
    """The first customers, in the order of their events' arrival."""

    def check_size(self) -> None:
        """Refuse details that are larger than a store keeps."""
        details = {name: value for name, value in asdict(self).items() if name in DETAILS}
        size = len(json.dumps(details, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > DETAIL_BYTES:
            raise StoreFault.LARGE_DETAILS.error(size=f"{size:,}", limit=f"{DETAIL_BYTES:,}")

    def is_one_of(self, origin: Origin | None, fewer_than: int | None) -> bool:
        """Whether it is of this origin, and has fewer customers than that; None: any."""
        return origin in (None, self.origin) and (fewer_than is None or len(self.customers) < fewer_than)

    def with_customers(self, users: Iterable[str]) -> Self:
        listed = list(dict.fromkeys([*self.customers, *users]))[:MOST_CUSTOMERS]
        sizes = accumulate(len(user.encode()) for user in listed)
        return replace(self, customers=tuple(listed[: sum(size <= CUSTOMER_BYTES for size in sizes)]))

    def without_customer(self, user: str) -> Self | None:
        """None if nothing is left."""
        others = tuple(other for other in self.customers if other != user)
        return None if self.origin is Origin.EVENTS and not others else replace(self, customers=others)

    def to_json(self) -> str:
        """Without the id and without what is not known. In ASCII, so that every database keeps every text."""
        known = {name: value for name, value in asdict(self).items() if name != "id" and value not in (None, (), {})}
        return json.dumps(known)

    @classmethod
    def from_json(cls, id: str, content: str) -> Self:
        import msgspec  # here, since every command imports this module

        return msgspec.convert(json.loads(content) | {"id": id}, cls)


Change = Callable[[NewItem], NewItem | None]
"""From a new item, without content if it is not there, to what is to be kept of it; None removes it."""


def plan_changes(
    items: Iterable[str] | None, found: Mapping[str, NewItem], change: Change, room: Callable[[Origin], int]
) -> tuple[dict[str, NewItem | None], int]:
    """What is to be kept of each item that changes, None to remove it; and how many items are not added.

    items: None for all that are there.
    found: those that are there, at least of `items`.
    room: how many of an origin may be added; called only if there is one to add. An item by events that is described
        is added to those by PUT.
    """
    wanted = {item: change(found.get(item, NewItem(item))) for item in (found if items is None else items)}
    changes = {item: after for item, after in wanted.items() if after != found.get(item)}
    left_out: list[str] = []
    for origin in Origin:
        others = {item for item, before in found.items() if before.origin is origin}
        added = [item for item, after in changes.items() if after and after.origin is origin and item not in others]
        left_out += added[max(0, room(origin)) :] if added else []
    for item in left_out:
        del changes[item]
    return changes, len(left_out)
