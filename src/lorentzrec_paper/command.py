"""`lorentzrec reproduce`: the tables and figures of the paper, and a verdict on every claim."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Experiments, or all of the paper's.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the public data sets; else LORENTZREC_DATA.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results, one folder in it for each experiment.")] = Path(
        "results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and smaller data, for a first look.")] = False,
    json: Json = False,
) -> None:
    """Run experiments of the paper: simulations, midpoints, networks, amazon, movielens, asos, or all.

    Two more are not the paper's, and since they take hours they are not in all. twins tunes the hyperboloid and its
    Euclidean twin with equally many trials on six data sets, and tests which of them ranks better. ablations changes
    one hyper-parameter at a time, by validation. Their tables are written anew after each data set.

    Each writes OUT/NAME: table.md, results.json, and figures as PNG and SVG; OUT/summary.md has all verdicts on one
    page. Numbers that are ours and numbers that are the paper's stand in columns of their own.

    Finished parts are kept on disk. A run that was stopped goes on from there, and one with the same settings and the
    same data is not made twice. Of data sets that are missing, a line says which file is wanted and from where.
    """
    from lorentzrec.tuning.parts import PartStore
    from lorentzrec_paper.data_sets import DataFolder
    from lorentzrec_paper.experiment import Context
    from lorentzrec_paper.registry import EXPERIMENTS, experiments_named
    from lorentzrec_paper.results import reproduce as run_and_write
    from lorentzrec_paper.results import write_summary

    folder = DataFolder(data)
    found: list[dict[str, Any]] = []
    refused: list[str] = []
    for experiment in experiments_named(names):
        say(f"{experiment.name}: {experiment.title}")
        context = Context(
            data=folder,
            parts=PartStore(out / experiment.name / "parts"),
            quick=quick,
            say=partial(_say, experiment.name),
        )
        options = [*(["--data", "DIR"] if folder.path else []), *(["--quick"] if quick else [])]
        try:
            command = ["lorentzrec", "reproduce", experiment.name, *options]
            found.append(run_and_write(experiment, context, out, command))
        except InputError as error:
            # The others still run; at the end the exit code tells.
            refused.append(f"{experiment.name}: {error}")
            say(refused[-1])
            continue
        refused += [f"{experiment.name}: {line}" for line in context.damaged]
        if not json:
            show(*_parts_of(found[-1]))
            note(found[-1]["notes"])
        say(f"{experiment.name}: written to {out / experiment.name}")
    if summary := write_summary(out, EXPERIMENTS):
        say(f"all verdicts: {summary}")
    if json:
        print_json(found)
    if refused:
        raise InputError("; ".join(refused))


def _say(name: str, line: str) -> None:
    say(f"{name}: {line}")


def _parts_of(results: dict[str, Any]) -> list[RenderableType]:
    """The tables of one experiment, and its verdicts."""
    from lorentzrec_paper.experiment import Table
    from lorentzrec_paper.results import claims

    shown: list[RenderableType] = []
    for one in map(Table.from_dict, results["tables"]):
        columns = {column.heading: "left bold" if column.origin == "key" else "right" for column in one.columns}
        made = table(columns, one.texts(), title=one.title)
        for column, drawn in zip(one.columns, made.columns, strict=True):
            # Neither a number nor a word is broken over lines.
            cells = map(str, drawn.cells)
            drawn.min_width = max(
                (len(word) for cell in cells for word in (cell.split() if column.origin == "key" else [cell])),
                default=0,
            )
        shown += [made, ""]
    heading, texts = claims(results)
    rows = [
        (verdict["answer"], text, verdict["measured"], verdict["remark"])
        for text, verdict in zip(texts, results["verdicts"], strict=True)
    ]
    headings = {"verdict": "left bold", heading: "left", "measured (ours)": "left", "remark": "left"}
    return [*shown, table(headings, rows), ""]


COMMAND = (
    "Measurements",
    reproduce,
    "reproduce simulations midpoints",
    "reproduce networks movielens --data ~/data --out results",
    "reproduce all --data ~/data --quick",
    "reproduce twins ablations --data ~/data",
)
"""The panel of the help page, the command and its examples: the entry point through which `lorentzrec` finds it."""
