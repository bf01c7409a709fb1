"""`lorentzrec reproduce`: the tables and figures of the paper, and a verdict on every claim."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.errors import LorentzrecError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lorentzrec_paper.results import Results


def _service(variable: str) -> Any:
    return typer.Option(envvar=variable, metavar="URL", rich_help_panel="Services")


def reproduce(
    names: list[str],
    *,
    data: Path | None = None,
    out: Path = Path("results"),
    quick: bool = False,
    blobs: Annotated[str | None, _service("LORENTZREC_BLOBS")] = None,
    store: Annotated[str | None, _service("LORENTZREC_STORE")] = None,
    master: Annotated[str | None, _service("LORENTZREC_MASTER")] = None,
    json: bool = False,
) -> None:
    """Run experiments of the paper: simulations, midpoints, networks, amazon, movielens, asos, or all; and pipeline,
    twins, dimensions, ablations, shops.

    pipeline is not part of all. It runs the paper's system from end to end and times each stage, with Keras and with
    the local engine: events in Azure Blob Storage, preparation on Spark, training, Cosmos DB, the service, its client.
    Without addresses it starts Azurite and cosmosdb-server, which npm installs, from a checkout of the repository.
    Credentials come from the environment: AZURE_STORAGE_CONNECTION_STRING, COSMOS_KEY and so on.

    Four more are not the paper's. They take long, so they are not part of all. twins tunes the hyperboloid and its
    Euclidean twin with the same number of trials on six data sets, and tests which of them ranks better. dimensions
    does the same at 2, 4, 8 and 16 dimensions, by popularity, with what radii show. ablations changes one
    hyper-parameter at a time and evaluates on validation. shops finds the next orders of the customers of two real
    shops, and compares popularity, habits and peers. Their tables are updated after each data set.

    Each writes OUT/NAME: table.md, results.json, and figures as PNG and SVG; OUT/summary.md has all verdicts on one
    page. Our numbers and the paper's are in separate columns.

    Finished parts are stored on disk. A run that was stopped resumes from them, and a part with the same settings and
    data is not run twice. For each data set that is missing, a line names the file and where to get it.

    $ lorentzrec reproduce simulations midpoints
    $ lorentzrec reproduce networks movielens --data ~/data --out results
    $ lorentzrec reproduce all --data ~/data --quick
    $ lorentzrec reproduce pipeline
    $ lorentzrec reproduce pipeline --blobs az://container/trial --store cosmos://account.documents.azure.com/trial
    $ lorentzrec reproduce twins dimensions ablations shops --data ~/data

    names NAME: Experiments, or all of the paper's.
    data: Folder of the public data sets; else LORENTZREC_DATA.
    out: Folder of the results, with one folder per experiment.
    quick: Fewer seeds and smaller data, for a first impression.
    blobs: pipeline: folder for events and dataset; default: Azurite.
    store: pipeline: empty store to publish to; default: an emulator.
    master: pipeline: Spark's master URL, or sc://HOST; default: this machine.
    """
    from lorentzrec.studies.parts import PartStore
    from lorentzrec_paper import experiment as experiments
    from lorentzrec_paper.data_sets import DataFolder
    from lorentzrec_paper.results import reproduce as run_and_write
    from lorentzrec_paper.results import write_summary

    folder = DataFolder(data)
    found: list[Results] = []
    failed: dict[str, int] = {}  # a line about each failure -> its exit code
    for experiment in experiments.find_experiments(names):
        say(f"{experiment.name}: {experiment.title}")
        context = experiments.Context(
            data=folder,
            parts=PartStore(out / experiment.name / "parts"),
            quick=quick,
            services=experiments.Services(blobs, store, master),
            say=partial(_say, experiment.name),
        )
        options = [*(["--data", "DIR"] if folder.path else []), *(["--quick"] if quick else [])]
        given = {"--blobs": blobs, "--store": store, "--master": master}
        options += [word for name, value in given.items() if value for word in (name, "URL")]  # URLs may hold passwords
        try:
            command = ["lorentzrec", "reproduce", experiment.name, *options]
            found.append(run_and_write(experiment, context, out, command))
        except LorentzrecError as error:
            # The others still run; the exit code reports it at the end.
            failed[f"{experiment.name}: {error}"] = error.exit_code
            say(f"{experiment.name}: {error}")
            continue
        failed |= {f"{experiment.name}: {line}": code for line, code in context.failed.items()}
        if not json:
            show(*_render(found[-1]))
            note(list(found[-1].notes))
        say(f"{experiment.name}: written to {out / experiment.name}")
    if summary := write_summary(out, experiments.EXPERIMENTS):
        say(f"all verdicts: {summary}")
    if json:
        print_json([asdict(one) for one in found])
    if failed:
        failure = LorentzrecError("; ".join(failed))
        failure.exit_code = max(failed.values())
        raise failure


def _say(name: str, line: str) -> None:
    say(f"{name}: {line}")


def _render(results: Results) -> list[RenderableType]:
    """The tables of one experiment, and its verdicts."""
    shown: list[RenderableType] = []
    for one in results.tables:
        columns = {column.heading: "left bold" if column.origin == "key" else "right" for column in one.columns}
        made = table(columns, one.texts(), title=one.title)
        for column, drawn in zip(one.columns, made.columns, strict=True):
            # Neither a number nor a word is broken over lines.
            cells = list(map(str, drawn.cells))
            words = " ".join(cells).split() if column.origin == "key" else cells
            drawn.min_width = max(map(len, words), default=0)
        shown += [made, ""]
    heading, claims = results.claims
    rows = [(one.status, claim, one.measured, one.remark) for claim, one in zip(claims, results.verdicts, strict=True)]
    headings = {"verdict": "left bold", heading: "left", "measured (ours)": "left", "remark": "left"}
    return [*shown, table(headings, rows), ""]


COMMAND = ("Measurements", reproduce)
"""The panel of the help page, and the command: `lorentzrec` finds it through an entry point."""
