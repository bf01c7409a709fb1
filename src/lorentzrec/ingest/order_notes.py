"""Notes on columns of orders and times that may not be what they were taken for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import narwhals as nw

from lorentzrec.base.counting import Count
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.ingest.engine import Frame

if TYPE_CHECKING:
    import polars as pl

LARGE_ORDER = 1_000
"""Events of an order that no customer has chosen one by one."""


def describe_orders(events: Frame, collect: Callable[[Frame], pl.DataFrame], *, moments: bool) -> list[str]:
    """Notes on unusual orders and on times that are all equal.

    `events`: with `user_row` and, where they are known, `order` and `time`. `moments`: whether times are seconds.
    """
    names = events.collect_schema().names()
    notes = []
    if moments:
        times = collect(events.select(nw.len().alias("events"), first=nw.col("time").min(), last=nw.col("time").max()))
        count, first, last = times.row(0)
        if count > 1 and first == last:
            notes.append(f"all {count:,} events have the same time, so none is later: check `time_column`")
    if "order" not in names:
        return notes
    known = events.filter(nw.col("order") != "")
    spans = {"span": nw.col("time").max() - nw.col("time").min()} if moments else {}
    sizes = known.group_by("order", "user_row").agg(nw.len().cast(nw.Int64).alias("events"), **spans)
    large = nw.col("events") > LARGE_ORDER
    long = {"long": (nw.col("span") >= SECONDS_PER_DAY).cast(nw.Int64).sum()} if moments else {}
    totals = collect(
        sizes.select(
            nw.len().cast(nw.Int64).alias("orders"),
            events=nw.col("events").sum(),
            largest=nw.col("events").max(),
            large=large.cast(nw.Int64).sum(),
            customers=nw.col("user_row").n_unique(),
            **long,
        )
    ).row(0, named=True)
    counts = {name: int(value or 0) for name, value in totals.items()}
    owners = sizes.group_by("order").agg(nw.len().cast(nw.Int64).alias("owners"))
    shared = int(collect(owners.filter(nw.col("owners") > 1).select(nw.len().alias("orders"))).item())
    without = int(collect(events.select(nw.len().alias("events"))).item()) - counts["events"]
    if without:
        notes.append(f"{Count(without):event has|events have} no order: those of a customer with equal times are one")
    if shared:
        what = f"{Count(shared):order has|orders have} events of several customers"
        notes.append(f"{what}, and {'is' if shared == 1 else 'are'} divided by customer: check `order_column`")
    if counts["orders"] == counts["customers"] and counts["events"] > counts["orders"] and not without:
        notes.append("every customer has a single order, so nothing follows another order: check `order_column`")
    if counts["large"]:
        what = f"{Count(counts['large']):order has|orders have} more than {LARGE_ORDER:,} events"
        notes.append(f"{what}, the largest {counts['largest']:,}: check `order_column`")
    if counts.get("long"):
        what = f"{Count(counts['long']):order has|orders have} events that are a day or more apart"
        notes.append(f"{what}: an order counts from its first event on")
    return notes
