"""`lorentzrec stats`: the network statistics of the paper's Table 1, for any data."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.events import dataset_at, events_at
from lorentzrec.cli.options import ItemColumn, Json, Reader, TimeColumn, UserColumn, WeightColumn
from lorentzrec.cli.output import print_json, progress, say, show, table

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.networks.statistics import NetworkStatistics


def stats(
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Datasets or event files, one or more.")],
    plot: Annotated[Path | None, typer.Option(help="Also draw the degrees: a .png, .svg or .pdf file.")] = None,
    trials: Annotated[int, typer.Option(help="Repetitions behind each p-value; 0 leaves it out.", min=0)] = 100,
    seed: Annotated[int, typer.Option(help="Fixes the repetitions.", min=0)] = 0,
    reader: Reader = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    time_column: TimeColumn = None,
    weight_column: WeightColumn = None,
    json: Json = False,
) -> None:
    """Count customers, items and links, and fit power laws to the degrees of items.

    A heavy tail is the sign of a tree-like order among the items, where hyperbolic space has room. Where the data are
    those of the paper's Table 1, its own row stands beside them.
    """
    from lorentzrec.networks.statistics import network_statistics

    options = {
        "reader": reader,
        "user_column": user_column,
        "item_column": item_column,
        "time_column": time_column,
        "weight_column": weight_column,
    }
    many = []
    with progress("Fitting power laws", 2 * trials * len(data)) as done:
        count = itertools.count(1)
        for place, one in enumerate(data):
            done(2 * trials * place)
            dataset = dataset_at(one, **options)
            events = events_at(one, **options) if dataset is None else dataset.interactions()
            many.append(
                network_statistics(
                    events, name=Path(one).name, trials=trials, seed=seed, watch=lambda: done(next(count))
                )
            )
    if plot is not None:
        from lorentzrec.figures.degrees import plot_degrees

        plot_degrees(many, plot)
        say(f"The degrees are drawn in {plot}")
    if json:
        print_json([statistics.to_dict() for statistics in many])
    else:
        show(statistics_table(many))


def statistics_table(many: list[NetworkStatistics]) -> Table:
    """One column for each set of data."""
    from lorentzrec.networks.statistics import network_table

    frame = network_table(many)
    names = frame["data"].to_list()
    rows = [[column, *map(_cell, frame[column])] for column in frame.columns if column != "data"]
    return table({"": "left bold"} | dict.fromkeys(names, "right"), rows)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
