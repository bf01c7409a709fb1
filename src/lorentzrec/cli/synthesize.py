"""`lorentzrec synthesize`: events of a synthetic shop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorentzrec.cli.options import field_options
from lorentzrec.cli.output import note, print_result, progress
from lorentzrec.cli.results import refuse_unwritable
from lorentzrec.synthetic.config import SYNTHETIC, SyntheticConfig


@field_options(
    SyntheticConfig,
    None,
    ("customers", ..., "exponent", "temperature", "days", "lifetime", "order_size", "repeats", "outfits", "seed"),
)
def synthesize(*, out: Path, json: bool = False, **fields: Any) -> None:
    """Generate a synthetic shop with power-law popularity, categories, sessions and drifting interests.

    It is written block by block, so memory does not grow with the number of events.

    $ lorentzrec synthesize --out pretend
    $ lorentzrec synthesize --out fashion --days 90 --lifetime 45
    $ lorentzrec synthesize --out grocer --order-size 8 --repeats 0.4
    $ lorentzrec synthesize --out wardrobe --order-size 4 --outfits 0.5
    $ lorentzrec synthesize --out large --customers 1000000 --items 100000 --interactions 20000000

    out: Folder for events/ and items.parquet.
    """
    from lorentzrec.synthetic.shop import synthesize as write

    config = SyntheticConfig(**fields)
    refuse_unwritable(out, SYNTHETIC)
    with progress("Generating events", 1) as done:
        report = write(config, out, progress=lambda blocks, total: done(blocks / total))
    met, items = int((report.item_degrees > 0).sum()), len(report.item_degrees)
    counts = {"customers": config.customers, "items": items, "interactions": config.interactions}
    counted = f"{config.interactions:,} events of {config.customers:,} customers with {met:,} of {items:,} items"
    print_result(
        {"events": str(report.events), "items_file": str(report.items), **counts, "items_met": met},
        f"{counted} are in {report.events}",
        f"The item table is {report.items}",
        json=json,
    )
    note(report.notes)
