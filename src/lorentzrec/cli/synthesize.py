"""`lorentzrec synthesize`: events of a shop that does not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorentzrec.cli.options import Json
from lorentzrec.cli.output import print_json, progress, show
from lorentzrec.cli.targets import refuse_unwritable


def synthesize(
    out: Annotated[Path, typer.Option(help="Folder for events/ and items.parquet.")],
    customers: Annotated[int, typer.Option(help="Customers.")] = 3_000,
    items: Annotated[int, typer.Option(help="Items.")] = 1_000,
    interactions: Annotated[int, typer.Option(help="Events in all.")] = 60_000,
    space: Annotated[str, typer.Option(help="Where it grows: hyperbolic, or flat as a control.")] = "hyperbolic",
    exponent: Annotated[float, typer.Option(help="Of the power law of item degrees.")] = 2.8,
    temperature: Annotated[float, typer.Option(help="0.05 to 0.95: the lower, the more clustering.")] = 0.3,
    days: Annotated[int, typer.Option(help="All events lie in so many days.")] = 365,
    seed: Annotated[int, typer.Option(help="The same seed gives the same shop.")] = 0,
    json: Json = False,
) -> None:
    """Grow a shop with power-law popularity, categories, sessions and drifting interests.

    Written block by block, in memory that does not grow with the events.
    """
    from lorentzrec.synthetic.shop import SyntheticConfig
    from lorentzrec.synthetic.shop import synthesize as write

    config = SyntheticConfig(
        customers=customers,
        items=items,
        interactions=interactions,
        space=space,  # type: ignore[arg-type]
        exponent=exponent,
        temperature=temperature,
        days=days,
        seed=seed,
    )
    refuse_unwritable(out, "synthetic")
    with progress("growing a shop", 1) as done:
        report = write(config, out, progress=lambda blocks, total: done(blocks / total))
    met = int((report.item_degrees > 0).sum())
    if json:
        counts = {"customers": customers, "items": items, "items_met": met, "interactions": interactions}
        print_json({"events": str(report.events), "items_file": str(report.items), **counts})
        return
    show(f"{interactions:,} events of {customers:,} customers with {met:,} of {items:,} items are in {report.events}")
    show(f"The item table is {report.items}")
