"""`lorentzrec backtest`: is a daily update as good as a full retrain?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.inputs import training_data
from lorentzrec.cli.options import event_file_options
from lorentzrec.cli.output import print_result, say, table
from lorentzrec.cli.results import write_results
from lorentzrec.cli.train import load_config

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.studies.backtest import BacktestDay


@event_file_options
def backtest(
    data: str,
    *,
    days: Annotated[int, typer.Option(min=1)] = 7,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    config: Path | None = None,
    settings: list[str] | None = None,
    rehearse: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    prune_after: float | None = None,
    events: Annotated[int, typer.Option(min=1)] = 5000,
    candidates: str = "unseen",
    out: Path | None = None,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Compare a full retrain, an update and no update, day by day.

    Each of the three has a model of what happened before a day. For each event of the day, it ranks all items from the
    earlier events of the customer.

    $ lorentzrec backtest shop --days 7
    $ lorentzrec backtest ratings.csv --days 30 --until 2024-07-01 --set dimension=20

    data DATASET: A dataset, whose training part is used, or event files; with times.
    days: Number of days, which are the last with events.
    until DATE: Leave out the events of this day and later.
    rehearse SHARE: As in update.
    prune_after DAYS: As in update.
    events: Events of each day to evaluate on, chosen at random.
    candidates: What is ranked and to be found, as in evaluate: unseen, all, new or repeats.
    out: Folder for the table and the plot. Default: DATA-backtest in the current folder.
    """
    from lorentzrec.evaluation.held_out import check_candidates
    from lorentzrec.learning.updating import REHEARSED_SHARE
    from lorentzrec.studies.backtest import backtest as measure
    from lorentzrec.studies.backtest import summarise
    from lorentzrec.studies.plots import plot_backtest

    given, _ = training_data(data, **file_options).read()
    folder = out or Path(f"{Path(data).stem}-backtest")
    folder.mkdir(parents=True, exist_ok=True)
    found = list(
        measure(
            given,
            days,
            load_config(config, settings),
            until=None if until is None else until.date(),
            rehearse=REHEARSED_SHARE if rehearse is None else rehearse,
            prune_after=prune_after,
            most_events=events,
            candidates=check_candidates(candidates),
            say=say,
        )
    )
    means = summarise(found)
    result: dict[str, Any] = {"data": data, "days": [day.to_dict() for day in found], "means": means}
    notes = write_results(folder, "backtest", result, partial(plot_backtest, result["days"], title=Path(data).stem))
    shown = _table(found, means), f"Table and plot are in {folder}"
    print_result(result, *shown, json=json, notes=notes)


def _table(days: Sequence[BacktestDay], means: dict[str, dict[str, float]]) -> Table:
    from lorentzrec.studies.plots import LABELS

    columns = {"day": "left bold whole", "events": "right", "new items": "right"}
    for name in days[0].systems:
        columns |= {f"{LABELS[name]}: NDCG@10": "right"}
        columns |= {} if name == "none" else {f"{LABELS[name]}: s": "right", f"{LABELS[name]}: MB": "right"}
    rows = []
    for day in days:
        cells = [day.day.isoformat(), f"{day.events:,}", f"{day.new_items:,}"]
        for name, one in day.systems.items():
            memory = "" if one.memory is None else f"{one.memory / 1e6:,.0f}"
            cells += [f"{one.ndcg:.4f}", *([] if name == "none" else [f"{one.seconds:.1f}", memory])]
        rows.append(cells)
    last = ["mean", "", ""]
    for name, mean in means.items():
        last += [f"{mean['ndcg']:.4f}", *([] if name == "none" else [f"{mean['seconds']:.1f}", ""])]
    quality, time = means["update"]["ndcg_share"], means["update"]["time_share"]
    title = f"The update has {quality:.1%} of the NDCG@10 of a full retrain, in {time:.1%} of its time"
    return table(columns, [*rows, last], title=title)
