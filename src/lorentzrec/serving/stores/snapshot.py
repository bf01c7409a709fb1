"""What a store holds at one moment, to be read as a whole, and how much that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lorentzrec.serving.stores.activations import Activation
    from lorentzrec.serving.stores.catalogue import LiveItems
    from lorentzrec.serving.stores.histories import EventPage
    from lorentzrec.serving.stores.new_items import NewItem
    from lorentzrec.serving.stores.rules import RuleChange


Erasure = tuple[str, float]
"""The salted key of an erased customer, and when that was."""


@dataclass(frozen=True)
class Snapshot:
    """Everything but the files of versions.

    SQLite and PostgreSQL show one state of the database. Cosmos DB has no such state: each of its documents is read
    once, after the snapshot began.
    """

    activations: list[Activation]
    live: LiveItems
    new_items: list[NewItem]
    rules: list[RuleChange]
    """Oldest first."""
    salt: str | None
    """What the keys of erased customers are salted with; None if none was ever needed."""
    erasures: list[Erasure]
    events: Iterator[EventPage]
    """Read while they are iterated, once."""


class CheckedPart(NamedTuple):
    """A part of a store that was looked at for damage."""

    name: str
    content: str
    """What was found, in a few words."""
    damage: list[str] = []  # noqa: RUF012, nobody appends to it
    """What is wrong with it, one text for each place."""
    action: str = "restore a backup"
    """What to do about damage."""


class StoreSize(NamedTuple):
    """How much a store holds."""

    events: int
    customers: int
    """With at least one event."""
    bytes: int | None
    """Of its files or tables, indexes included; None if the server does not report it."""
    new_items: Mapping[str, int]
    """By origin; an origin without any may be missing."""


class Pruned(NamedTuple):
    """The events that a step of `Store.prune_events` has removed, and of how many customers."""

    events: int
    customers: int
