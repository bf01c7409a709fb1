"""`lorentzrec daily`: from the deliveries of a day to the next version of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorentzrec.cli.output import print_result, stages, table


def daily(config: Path, *, json: bool = False) -> None:
    """Do the work of a day: append new deliveries, measure, train, check, publish, prune, report.

    The same command does every day, the first one included, and continues where an earlier run was stopped. If nothing
    new was delivered, the version stays. Each stage has an exit code of its own if it fails: append 11, evaluate 12,
    histories 13, train 14, check 15, publish 16 (also if the gate refuses the model), promote 17, prune 18, report 19.

    $ lorentzrec daily daily.toml

    config: A TOML file with dataset, deliveries, store and work; see the guide on the daily job.
    """
    from lorentzrec.daily.config import read_config
    from lorentzrec.daily.job import run_day
    from lorentzrec.daily.report import describe_refused

    settings = read_config(config)
    with stages() as report:
        entry = run_day(settings, lambda stage: report(stage, 0))
    rows: list[tuple[Any, ...]] = [("training", entry["training"]), ("version", entry["version"] or "unchanged")]
    rows += [(name, f"{entry[name]:,}") for name in ("events", "late", "repeated", "new_items")]
    measured = ("ndcg@10", "quality_ratio", "coverage@10", "overlap@10")
    rows += [(name, f"{entry[name]:.4f}") for name in measured if entry[name] is not None]
    notes = [f"not appended: {describe_refused(*refused)}" for refused in entry["refused_files"].items()]
    columns = {f"run {entry['run']}": "left bold", "": "left"}
    text = f"The report is in {settings.work}: report.md, report.json, quality.svg"
    print_result(entry, table(columns, rows), text, json=json, notes=notes)
