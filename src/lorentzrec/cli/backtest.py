"""`lorentzrec backtest`: quality day by day or week by week, and is an update as good as a full retrain?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


@event_file_options
def backtest(
    data: str,
    *,
    days: Annotated[int | None, typer.Option(min=1)] = None,
    weeks: Annotated[int | None, typer.Option(min=1)] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    config: Path | None = None,
    settings: list[str] | None = None,
    rehearse: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    prune_after: float | None = None,
    events: Annotated[int, typer.Option(min=1)] = 5000,
    candidates: str | None = None,
    out: Path | None = None,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Compare a full retrain, an update, no update and baselines, day by day or week by week.

    Each of them has what happened before a day. For each event of the day, it ranks all items from the earlier events
    of the customer. The baselines are popularity, recent popularity and, where customers buy again, how often they
    bought an item. A model with a trend is measured without its trend as well.

    $ lorentzrec backtest shop --days 7
    $ lorentzrec backtest shop --weeks 4
    $ lorentzrec backtest ratings.csv --days 30 --until 2024-07-01 --set dimension=20

    data DATASET: A dataset, whose training part is used, or event files; with times.
    days: Number of days, which are the last with events; default: 7.
    weeks: Number of weeks instead, each measured as a whole; the last one ends with the newest event.
    until DATE: Leave out the events of this day and later.
    rehearse SHARE: As in update.
    prune_after DAYS: As in update.
    events: Events of each day to evaluate on, chosen at random.
    candidates: What is ranked and to be found, as in evaluate: unseen, all, new or repeats. Default: all if customers
        buy again, else unseen.
    out: Folder for the table and the plot. Default: DATA-backtest in the current folder.
    """
    from lorentzrec.errors import ConfigError
    from lorentzrec.evaluation.held_out import check_candidates
    from lorentzrec.learning.updating import REHEARSED_SHARE
    from lorentzrec.studies.backtest import WEEK, summarise
    from lorentzrec.studies.backtest import backtest as measure
    from lorentzrec.studies.plots import plot_backtest

    if days is not None and weeks is not None:
        raise ConfigError("--days and --weeks are two ways to divide the same time: give one of them")
    given, _ = training_data(data, **file_options).read()
    folder = out or Path(f"{Path(data).stem}-backtest")
    folder.mkdir(parents=True, exist_ok=True)
    found = list(
        measure(
            given,
            weeks or days or 7,
            load_config(config, settings),
            until=None if until is None else until.date(),
            rehearse=REHEARSED_SHARE if rehearse is None else rehearse,
            prune_after=prune_after,
            most_events=events,
            candidates=None if candidates is None else check_candidates(candidates),
            length=1 if weeks is None else WEEK,
            say=say,
        )
    )
    means = summarise(found)
    result: dict[str, Any] = {"data": data, "days": [day.to_dict() for day in found], "means": means}
    notes = write_results(folder, "backtest", result, partial(plot_backtest, result["days"], title=Path(data).stem))
    shown = _tables(result["days"], means, weekly=weeks is not None)
    print_result(result, *shown, f"Table and plot are in {folder}", json=json, notes=notes)


def _tables(days: Sequence[dict[str, Any]], means: dict[str, dict[str, float]], *, weekly: bool) -> Iterator[Table]:
    """The quality of all systems, and the cost of those that cost something."""
    from lorentzrec.studies.plots import LABELS, find_shown

    shown, when = find_shown(days), "week of" if weekly else "day"
    columns = {when: "left bold whole", "events": "right", "new items": "right"}
    columns |= {LABELS[name]: "right" for name in shown}
    rows = [
        [day["day"], f"{day['events']:,}", f"{day['new_items']:,}"]
        + [f"{day['systems'][name]['ndcg']:.4f}" for name in shown]
        for day in days
    ]
    last = ["mean", "", "", *(f"{means[name]['ndcg']:.4f}" for name in shown)]
    yield table(columns, [*rows, last], title="NDCG@10")
    costs = {when: "left bold whole"}
    for name in ("retrain", "update"):
        costs |= {f"{LABELS[name]}: s": "right", f"{LABELS[name]}: MB": "right"}
    rows = []
    for day in days:
        rows.append([day["day"]])
        for one in (day["systems"]["retrain"], day["systems"]["update"]):
            rows[-1] += [f"{one['seconds']:.1f}", "" if one["memory"] is None else f"{one['memory'] / 1e6:,.0f}"]
    quality, time = means["update"]["ndcg_share"], means["update"]["time_share"]
    title = f"The update has {quality:.1%} of the NDCG@10 of a full retrain, in {time:.1%} of its time"
    yield table(costs, rows, title=title)
