"""The note on events of a customer that have equal times."""

from __future__ import annotations

from collections.abc import Iterable

_FACT = "of neighbouring events of a customer have equal times"
SHUFFLED = "shuffled: give `ties='given'` if the order of the rows is meaningful"
GIVEN = "in the given order"


def describe_ties(share: float, order: str, *, orders_known: bool) -> str:
    """The note for this share of neighbouring events, of which `order` tells in which order they are."""
    percent = "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
    if orders_known and order.startswith("shuffled"):
        order = order.replace("shuffled", "shuffled, with the events of an order together", 1)
    return f"{percent} {_FACT}, and are {order}"


def mentions_ties(notes: Iterable[str]) -> bool:
    """Whether one of the notes is that on equal times."""
    return any(_FACT in note for note in notes)
