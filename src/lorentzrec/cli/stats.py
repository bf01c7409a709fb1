"""`lorentzrec stats`: the numbers of some events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.base.counting import Share
from lorentzrec.cli.inputs import dataset_at, events_at
from lorentzrec.cli.options import event_file_options
from lorentzrec.cli.output import print_result, table, working

if TYPE_CHECKING:
    from lorentzrec.data.summary import DataSummary


@event_file_options
def stats(data: list[str], *, json: bool = False, **file_options: str | None) -> None:
    """Count customers, items, events and orders.

    Also: how long histories are, how popular items are, how many events repeat an item that the customer had before,
    and how many consecutive events of a customer have equal times, so that their order is unknown.

    $ lorentzrec stats shop
    $ lorentzrec stats shop films
    $ lorentzrec stats events.csv --json

    data: One or more datasets or event files.
    """
    from lorentzrec.data.summary import summarise
    from lorentzrec.ingest.sources import source_named

    named = [Path(one).name for one in data]
    names = [one if named.count(name) > 1 else name for one, name in zip(data, named, strict=True)]
    summaries = []
    with working("Counting ..."):
        for one in data:
            dataset = dataset_at(one, **file_options)
            if dataset is None:
                events, dated = events_at(one, **file_options), not source_named(file_options["reader"]).ordered
            else:
                events, dated = dataset.interactions(), dataset.manifest.get("times") != "positions"
            summaries.append(summarise(events, dated=dated))
    rows = zip(*map(_describe, summaries), strict=True)
    cells = [[same[0][0], *(text for _, text in same)] for same in rows]
    print_result(
        [{"name": name} | one.to_dict() for name, one in zip(names, summaries, strict=True)],
        table({"": "left bold"} | dict.fromkeys(names, "right"), cells),
        json=json,
    )


def _describe(one: DataSummary) -> list[tuple[str, str]]:
    """The rows of the table for one data set: what, and its number as text."""
    from lorentzrec.data.summary import QUANTILES

    times = [None if time is None else datetime.fromtimestamp(time, UTC) for time in (one.first_time, one.last_time)]
    spread: dict[str, Mapping[str, int | None]] = {
        "events per customer": one.history_lengths,
        "events per item": one.item_events,
        "events per order": one.order_sizes or dict.fromkeys(QUANTILES),
    }
    rows = [
        ("customers", f"{one.customers:,}"),
        ("items", f"{one.items:,}"),
        ("events", f"{one.events:,}"),
        ("orders", "-" if one.orders is None else f"{one.orders:,}"),
        ("density", f"{Share(one.density):%}"),
        ("repeated items", f"{Share(one.repeats):%}"),
        ("equal times", "-" if one.ties is None else f"{Share(one.ties):%}"),
        ("first event", "-" if times[0] is None else f"{times[0]:%Y-%m-%d}"),
        ("last event", "-" if times[1] is None else f"{times[1]:%Y-%m-%d}"),
    ]
    for what, quantiles in spread.items():
        rows += [(f"{what}, {name}", "-" if value is None else f"{value:,}") for name, value in quantiles.items()]
    return rows
