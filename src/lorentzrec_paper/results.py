"""Writes what an experiment found to its folder: a page in Markdown, JSON, figures; and one page about all of them."""

from __future__ import annotations

import json
import platform
import shlex
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lorentzrec import __version__
from lorentzrec.atomic import atomic_file
from lorentzrec.errors import how_to_get
from lorentzrec.threads import available_cores
from lorentzrec_paper.experiment import Context, Experiment, Outcome, Table

NO_FIGURES = f"no figures were drawn, as matplotlib is missing: {how_to_get('plots')}"


def reproduce(experiment: Experiment, context: Context, out: Path, command: Sequence[str]) -> dict[str, Any]:
    """Run one experiment and write `out`/NAME; the answer is what its results.json holds."""
    started = time.perf_counter()

    def write(outcome: Outcome) -> dict[str, Any]:
        return _write(experiment, outcome, context, out / experiment.name, command, time.perf_counter() - started)

    context.publish = write
    return write(experiment.run(context))


def _write(
    experiment: Experiment, outcome: Outcome, context: Context, folder: Path, command: Sequence[str], seconds: float
) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    notes = list(outcome.notes)
    if context.quick:
        notes.insert(0, "a quick run, with fewer seeds and smaller data: not the numbers to cite")
    drawn = _draw(outcome, folder)
    if outcome.figures and not drawn:
        notes.append(NO_FIGURES)
    results = {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": shlex.join(command),
        "quick": context.quick,
        **outcome.to_dict(),
        "notes": notes,
        "figures": [{"file": name, "caption": outcome.captions.get(Path(name).stem, "")} for name in drawn],
        "parts": {"made": context.parts.made, "kept": context.parts.reused, "seconds": context.parts.seconds},
        "seconds": seconds,
        "environment": environment(),
    }
    write_text(folder / "table.md", page(results))
    # Last: whoever finds it finds all the rest.
    write_text(folder / "results.json", json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return results


def environment() -> dict[str, Any]:
    """The machine and the day, without which no measured number means anything."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{available_cores()} cores, {_processor()}, {platform.system()}",
        "python": platform.python_version(),
        "lorentzrec": __version__,
    }


def page(results: dict[str, Any]) -> str:
    """The experiment as a Markdown page."""
    about = results["environment"]
    lines = [
        f"# {results['title']}",
        "",
        f"`{results['command']}`; {about['date']}, {about['machine']}, lorentzrec {about['lorentzrec']}; "
        f"{results['parts']['seconds'] or results['seconds']:.0f} s.",
        "",
    ]
    for table in map(Table.from_dict, results["tables"]):
        lines += [f"## {table.title}", "", *markdown([c.heading for c in table.columns], table.texts()), ""]
    lines += ["## Verdicts", "", *verdict_lines(results), ""]
    lines += [f"- {note}" for note in results["notes"]] + [""] * bool(results["notes"])
    for figure in results["figures"]:
        if figure["file"].endswith(".svg"):
            lines += [f"![{figure['caption']}]({figure['file']})", "", figure["caption"], ""]
    return "\n".join(lines)


def verdict_lines(results: dict[str, Any]) -> list[str]:
    """The claims and what became of them, as a Markdown table; the paper's words and our numbers in their columns."""
    heading, texts = claims(results)
    rows = [
        [
            text,
            verdict["measured"],
            f"**{verdict['answer']}**" + (f": {verdict['remark']}" if verdict["remark"] else ""),
        ]
        for text, verdict in zip(texts, results["verdicts"], strict=True)
    ]
    return markdown([heading, "measured (ours)", "verdict"], rows)


def claims(results: dict[str, Any]) -> tuple[str, list[str]]:
    """The claims under their heading: the paper's with the place of each, or those that are not the paper's."""
    pairs = [(verdict["claim"], verdict["place"]) for verdict in results["verdicts"]]
    heading = "claim (paper)" if any(place for _, place in pairs) else "claim"
    return heading, [f"{claim} ({place})" if place else claim for claim, place in pairs]


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (headings, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(headings), *lines[1:]]


def write_summary(out: Path, names: Sequence[str]) -> Path | None:
    """`out`/summary.md: the verdicts and figures of every experiment whose results lie there."""
    lines = ["# The paper's claims, measured", ""]
    found = False
    for name in names:
        try:
            results = json.loads((out / name / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        found = True
        about = results["environment"]
        quick = ", a quick run" if results["quick"] else ""
        lines += [f"## [{results['title']}]({name}/table.md)", ""]
        lines += [f"`{results['command']}`; {about['date']}, {about['machine']}{quick}.", ""]
        lines += [*verdict_lines(results), ""]
        for figure in results["figures"]:
            if figure["file"].endswith(".png"):
                lines += [f"![{figure['caption']}]({name}/{figure['file']})", ""]
    if not found:
        return None
    write_text(out / "summary.md", "\n".join(lines))
    return out / "summary.md"


def write_text(path: Path, text: str) -> None:
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _draw(outcome: Outcome, folder: Path) -> list[str]:
    """The names of the files drawn; none where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return []
    names = [f"{stem}.{kind}" for stem in outcome.figures for kind in ("png", "svg")]
    for name in names:
        outcome.figures[Path(name).stem](folder / name)
    return names


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
