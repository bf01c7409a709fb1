"""`lorentzrec stats`: the network statistics of the paper's Table 1, for any data."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.cli.inputs import dataset_at, events_at
from lorentzrec.cli.options import Natural, event_file_options
from lorentzrec.cli.output import print_result, progress, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.networks.statistics import NetworkStatistics

EXPLANATION = (
    "The degree of an item is its number of customers. A power law, P(degree) ~ degree^-exponent, is fitted to the "
    'items with a degree of at least "minimum", whose number is "tail"; the KS distance is how far data and fit are '
    "apart. A bootstrap p below 0.1 speaks against a power law; Kolmogorov's p, which the paper reports, is too large. "
    "The projection links items that have customers in common."
)


@event_file_options
def stats(
    data: list[str],
    *,
    plot: Path | None = None,
    trials: Natural = 100,
    seed: Natural = 0,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Count customers, items and links, and fit power laws to the degrees of items.

    A heavy tail indicates a tree-like structure among the items, for which hyperbolic space has room. For the data sets
    of the paper's Table 1, the paper's own row is shown as well.

    $ lorentzrec stats shop
    $ lorentzrec stats shop films --plot degrees.pdf
    $ lorentzrec stats events.csv --trials 0 --json

    data: One or more datasets or event files.
    plot: Also plot the degrees: a .png, .svg or .pdf file.
    trials: Simulations for each p-value; 0 leaves the p-values out.
    """
    from rich.text import Text

    from lorentzrec.networks.statistics import network_statistics

    named = [Path(one).name for one in data]
    many = []
    with progress("Fitting power laws", 2 * trials * len(data)) as done:
        count = itertools.count(1)
        for number, one in enumerate(data):
            done(2 * trials * number)
            dataset = dataset_at(one, **file_options)
            events = events_at(one, **file_options) if dataset is None else dataset.interactions()
            name = one if named.count(named[number]) > 1 else named[number]
            many.append(
                network_statistics(events, name=name, trials=trials, seed=seed, watch=lambda: done(next(count)))
            )
    if plot is not None:
        from lorentzrec.figures.degrees import plot_degrees

        plot_degrees(many, plot)
        say(f"The plot of the degrees is in {plot}")
    explanation = Text(f"\n{EXPLANATION}")  # wrapped at the width of the terminal
    print_result([statistics.to_dict() for statistics in many], statistics_table(many), explanation, json=json)


def statistics_table(many: list[NetworkStatistics]) -> Table:
    """One column per data set."""
    from lorentzrec.networks.statistics import network_table

    frame = network_table(many)
    names = frame["data"].to_list()
    rows = [[column, *map(_format, frame[column])] for column in frame.columns if column != "data"]
    return table({"": "left bold"} | dict.fromkeys(names, "right"), rows)


def _format(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
