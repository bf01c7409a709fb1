"""Writes the outcome of an experiment to its folder: a Markdown page, JSON and figures; and one page about all."""

from __future__ import annotations

import json
import platform
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from lorentzrec import __version__
from lorentzrec.base.atomic import write_text
from lorentzrec.base.library_faults import how_to_install
from lorentzrec.base.threads import available_cores
from lorentzrec_paper.experiment import Context, Experiment, Outcome, Table, Verdict

NO_FIGURES = f"no figures were drawn, as matplotlib is missing: {how_to_install('plots')}"


@dataclass(frozen=True)
class DrawnFigure:
    file: str
    caption: str


@dataclass(frozen=True)
class PartCounts:
    made: int
    kept: int
    seconds: float
    """Work behind all parts, that of earlier runs included."""


@dataclass(frozen=True)
class Environment:
    """The machine and the date of the measurements."""

    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d"))
    machine: str = field(default_factory=lambda: f"{available_cores()} cores, {_processor()}, {platform.system()}")
    python: str = field(default_factory=platform.python_version)
    lorentzrec: str = __version__


@dataclass(frozen=True)
class Results:
    """What results.json holds."""

    experiment: str
    title: str
    command: str
    quick: bool
    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    figures: tuple[DrawnFigure, ...]
    parts: PartCounts
    seconds: float
    environment: Environment

    @property
    def claims(self) -> tuple[str, list[str]]:
        """The claims under their heading: the paper's with the place of each, or our own."""
        heading = "claim (paper)" if any(verdict.place for verdict in self.verdicts) else "claim"
        return heading, [f"{one.claim} ({one.place})" if one.place else one.claim for one in self.verdicts]


def reproduce(experiment: Experiment, context: Context, out: Path, command: Sequence[str]) -> Results:
    """Run one experiment and write `out`/NAME; returns what its results.json holds."""
    started = time.perf_counter()

    def write(outcome: Outcome) -> Results:
        return _write(experiment, outcome, context, out / experiment.name, command, time.perf_counter() - started)

    context.write = write
    return write(experiment.run(context))


def _write(
    experiment: Experiment, outcome: Outcome, context: Context, folder: Path, command: Sequence[str], seconds: float
) -> Results:
    folder.mkdir(parents=True, exist_ok=True)
    notes = list(outcome.notes)
    if context.quick:
        notes.insert(0, "a quick run, with fewer seeds and smaller data: do not cite these numbers")
    drawn = _draw(outcome, folder)
    if outcome.figures and not drawn:
        notes.append(NO_FIGURES)
    results = Results(
        experiment=experiment.name,
        title=experiment.title,
        command=shlex.join(command),
        quick=context.quick,
        tables=outcome.tables,
        verdicts=outcome.verdicts,
        notes=tuple(notes),
        settings=dict(outcome.settings),
        figures=drawn,
        parts=PartCounts(context.parts.made, context.parts.reused, context.parts.seconds),
        seconds=seconds,
        environment=Environment(),
    )
    write_text(folder / "table.md", page(results))
    # Last, so that everything else is there when it is.
    text = json.dumps(asdict(results), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(folder / "results.json", text + "\n")
    return results


def page(results: Results) -> str:
    """The experiment as a Markdown page."""
    about = results.environment
    lines = [
        f"# {results.title}",
        "",
        f"`{results.command}`; {about.date}, {about.machine}, lorentzrec {about.lorentzrec}; "
        f"{results.parts.seconds or results.seconds:.0f} s.",
        "",
    ]
    for table in results.tables:
        lines += [f"## {table.title}", "", *markdown([c.heading for c in table.columns], table.texts()), ""]
    lines += ["## Verdicts", "", *verdict_lines(results), ""]
    lines += [f"- {note}" for note in results.notes] + [""] * bool(results.notes)
    for figure in results.figures:
        if figure.file.endswith(".svg"):
            lines += [f"![{figure.caption}]({figure.file})", "", figure.caption, ""]
    return "\n".join(lines)


def verdict_lines(results: Results) -> list[str]:
    """The claims and their verdicts as a Markdown table; the paper's words and our numbers have their own columns."""
    heading, claims = results.claims
    rows = [
        [claim, one.measured, f"**{one.status}**" + (f": {one.remark}" if one.remark else "")]
        for claim, one in zip(claims, results.verdicts, strict=True)
    ]
    return markdown([heading, "measured (ours)", "verdict"], rows)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (headings, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(headings), *lines[1:]]


def write_summary(out: Path, names: Sequence[str]) -> Path | None:
    """`out`/summary.md: the verdicts and figures of every experiment that has results there.

    Results that an earlier version wrote are named, with the advice to run the experiment again.
    """
    lines = ["# The paper's claims, measured", ""]
    files = {name: out / name / "results.json" for name in names if (out / name / "results.json").is_file()}
    for name, file in files.items():
        try:
            results = msgspec.json.decode(file.read_bytes(), type=Results)
        except (OSError, msgspec.DecodeError):
            lines += [f"## {name}", "", f"{name}/results.json cannot be read: run `lorentzrec reproduce {name}`.", ""]
            continue
        about, quick = results.environment, ", a quick run" if results.quick else ""
        lines += [f"## [{results.title}]({name}/table.md)", ""]
        lines += [f"`{results.command}`; {about.date}, {about.machine}{quick}.", "", *verdict_lines(results), ""]
        for figure in results.figures:
            if figure.file.endswith(".png"):
                lines += [f"![{figure.caption}]({name}/{figure.file})", ""]
    if not files:
        return None
    write_text(out / "summary.md", "\n".join(lines))
    return out / "summary.md"


def _draw(outcome: Outcome, folder: Path) -> tuple[DrawnFigure, ...]:
    """Draws every figure twice; nothing where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return ()
    drawn = []
    for stem, figure in outcome.figures.items():
        for name in (f"{stem}.png", f"{stem}.svg"):
            figure.draw(folder / name)
            drawn.append(DrawnFigure(name, figure.caption))
    return tuple(drawn)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
