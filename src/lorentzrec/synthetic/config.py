"""The properties of a synthetic shop. The command line has them as options, so importing this is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from lorentzrec.base.field_checks import PositiveInt, Range, check_fields
from lorentzrec.errors import ConfigError

Space = Literal["hyperbolic", "flat"]
Exponent = Annotated[float, Range(1.5, 20)]

SYNTHETIC = "lorentzrec synthetic shop"
"""What the manifest of its folder says."""
BLOCK_EVENTS = 1 << 20
"""Approximate number of events that are made at once and written to one file. A block depends only on the configuration
and its number, so that any order of work gives the same shop."""


@dataclass(frozen=True, kw_only=True)
class SyntheticConfig:
    """The properties of a shop. Customers have at least one event, and no item twice unless they repeat; the counts are
    exact."""

    customers: PositiveInt = 3_000
    """Number of customers."""
    items: PositiveInt = 1_000
    """Number of items."""
    interactions: PositiveInt = 60_000
    """Number of events."""
    space: Space = "hyperbolic"
    """`hyperbolic`: popular items reach far. `flat`: the control, with the same degrees and the same reach for all."""
    exponent: Exponent | None = None
    """Exponent of the power law of item degrees, P(degree = k) ~ k^-exponent. None: 2.8, or the next larger one with
    which no item needs more customers than there are, with a note."""
    customer_exponent: Exponent = 3.0
    """The same for the lengths of histories; a history has at most a quarter of the items."""
    temperature: Annotated[float, Range(0.05, 0.95)] = 0.3
    """How often customers choose items far from their interest. The lower, the more clustering."""
    session_length: Annotated[float, Range(1, 1e9)] = 4.0
    """Mean number of consecutive events with one interest."""
    drift: Annotated[float, Range(0, 1)] = 0.08
    """How far the interest moves between sessions: standard deviation, as a share of the whole circle."""
    days: PositiveInt = 365
    """Days that all events are in; a customer is active for 30 to 100 % of them."""
    lifetime: PositiveInt | None = None
    """Days that an item is sold until a new one, with another id, takes its place; None: items are sold all the
    time. There are more items then than `items`, which are sold at any time."""
    seasons: Annotated[float, Range(0, 1)] = 0.0
    """How far sales of an item rise and fall in a year of 365 days: 0 not at all, 1 from about nothing to about twice
    the mean. Items have their best day at different times. What customers buy again has no season."""
    order_size: Annotated[float, Range(1, 1e9)] | None = None
    """Mean number of events of an order; None: there are no orders. An order is one session: its events have one
    interest and one time, and orders are days apart. `session_length` is not used then."""
    repeats: Annotated[float, Range(0, 1)] = 0.0
    """How often customers buy again what they have: the mean of the probabilities of the items, which differ. Each
    event after the first order meets a random earlier event of the customer, and repeats its item with the
    probability of that item."""
    outfits: Annotated[float, Range(0, 1)] = 0.0
    """How often an item of an order completes the one before it: the probability that it is of the category that goes
    with that of the item before, and of the matching style. Needs `order_size`."""
    start: int = 1_735_689_600
    """Unix seconds of the first possible event; the default is 1 January 2025."""
    seed: Annotated[int, Range(0, 2**63)] = 0
    """Random seed."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.outfits and self.order_size is None:
            raise ConfigError("outfits are items of one order: give order_size as well, or leave outfits out")
        if not self.customers <= self.interactions <= self.customers * self.longest_history:
            raise ConfigError(
                f"{self.interactions:,} interactions of {self.customers:,} customers with {self.items:,} items: give "
                f"{self.customers:,} (one each) to {self.customers * self.longest_history:,} (a quarter of the items)"
            )

    @property
    def longest_history(self) -> int:
        return max(1, self.items // 4)

    @property
    def block_customers(self) -> int:
        return max(1, BLOCK_EVENTS * self.customers // self.interactions)
