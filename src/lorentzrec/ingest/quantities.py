"""Quantities of events. A negative quantity is a cancellation, which takes back an earlier event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import narwhals as nw

from lorentzrec.base.counting import Count
from lorentzrec.errors import InputError
from lorentzrec.ingest.engine import Frame
from lorentzrec.ingest.layouts import FileLayout

QUANTITY = nw.col("quantity").fill_null(1.0)
"""The quantity of an event; 1 where the column is empty."""


def count_quantities(counted: nw.Expr) -> dict[str, nw.Expr]:
    """How many of the events where `counted` is true have an unusual quantity, by the name of what is unusual."""
    unusual = {
        "absent": nw.col("quantity").is_null(),
        "zero": QUANTITY == 0,
        "negative": QUANTITY < 0,
        "fractional": (QUANTITY > 0) & (QUANTITY % 1 != 0),
    }
    return {f"quantity_{name}": (sign & counted).cast(nw.Int64).sum() for name, sign in unusual.items()}


def describe_quantities(found: Mapping[str, int | None], rows: int, layout: FileLayout, *, kinds: bool) -> list[str]:
    """Notes on the counts of `count_quantities`; an error if most quantities are not those of purchases.

    `rows`: the number of events that were counted. `kinds`: whether events have kinds, such as views.
    """
    absent, zero, negative, fractional = (
        int(found[f"quantity_{name}"] or 0) for name in ("absent", "zero", "negative", "fractional")
    )
    zero = 0 if kinds else zero
    if 2 * (zero + negative) > rows:
        raise InputError(
            f"{layout.address} has quantities that are 0 or negative in {zero + negative:,} of "
            f"{Count(rows):event|events}: check the column {layout.roles['quantity']!r}, or leave it out with "
            "`quantity_column=''`"
        )
    notes = []
    if zero:
        notes.append(f"{Count(zero):event with a quantity of 0 is|events with a quantity of 0 are} left out")
    if absent:
        what = f"{Count(absent):event|events} without a quantity"
        notes.append(f"{what} {'is taken for a purchase' if absent == 1 else 'are taken for purchases'}")
    if fractional:
        notes.append(f"{Count(fractional):event has a fractional quantity|events have fractional quantities}")
    return notes


def match_cancellations(events: Frame, within: Sequence[str], *, timed: bool) -> Frame:
    """The events with the part and the time of the cancellation that takes each back, null if there is none.

    Every cancellation takes back the latest earlier event of its customer and item that is not taken back yet.
    Events and cancellations are matched like opening and closing brackets: `level` is the number of brackets that are
    open at each, so that on one level an event and its cancellation are neighbours. At one time, events come before
    cancellations, unless the sequence of the file is meaningful.

    `cancels` is 1 for a cancellation and 0 for an event. `within`: what orders the events of a customer.
    """
    names = events.collect_schema().names()
    first = [name for name in ("time", "sequence") if name in within and name in names]
    order = [*first, "cancels", "part", *(name for name in within if name in names and name not in first)]
    pair = [name for name in ("user_code", "item_code", "label") if name in names]
    depth = (1 - 2 * nw.col("cancels")).cum_sum().over(*pair, order_by=order)
    on_levels = events.with_columns(level=depth + nw.col("cancels"))
    found = {
        f"cancellation_{name}": nw.col(name).shift(-1).over(*pair, "level", order_by=order)
        for name in ("part", *(["time"] if timed else []))
    }
    return on_levels.with_columns(**found).drop("level")


def describe_cancellations(taken_back: int, without: int, too_late: int, *, timed: bool) -> str:
    """The note on all cancellations."""
    what = "an earlier event" if timed else "an event"
    said = f"{Count(taken_back):cancellation|cancellations} took back {what}, {without:,} had none"
    return f"{said}, {too_late:,} came after training ended and left its events as they were" if too_late else said
