"""What the daily job tells: for programs (JSON), for people (Markdown and a plot), and for Prometheus (a text file)."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from lorentzrec.base.atomic import write_text
from lorentzrec.daily.config import DailyConfig
from lorentzrec.daily.state import State, exit_code
from lorentzrec.errors import LorentzrecError
from lorentzrec.model.artifact import MODEL

MEDIAN_RUNS = 7
"""Earlier runs whose median the quality on a new day is compared with."""
FEWEST_RUNS = 3
"""With fewer earlier runs, there is no comparison."""
SHOWN_RUNS = 60
"""Runs that the plot shows."""


def measure_ratio(state: State) -> float | None:
    """NDCG@10 on the new events of this run, as a share of its median over the last runs; None if it is not known."""
    today = state.done.get("evaluate", {}).get("ndcg@10")
    earlier = [day["ndcg@10"] for day in state.days if day.get("ndcg@10") is not None and not day.get("refused")]
    if today is None or len(earlier) < FEWEST_RUNS:
        return None
    median = statistics.median(earlier[-MEDIAN_RUNS:])
    return today / median if median > 0 else None


def write_reports(config: DailyConfig, state: State, failure: LorentzrecError | None) -> dict[str, Any]:
    """Write report.json, report.md, quality.svg and the metrics; returns the entry of this run."""
    entry = _describe(config, state, failure)
    days = [*state.days, entry]
    write_text(config.work / "report.json", json.dumps({**entry, "stages": state.done}, indent=1) + "\n")
    write_text(config.work / "quality.svg", draw_quality(days[-SHOWN_RUNS:]))
    write_text(config.work / "report.md", "\n".join(_markdown(entry, days)) + "\n")
    write_text(config.metrics or config.work / "metrics.prom", "\n".join(_metrics(entry)) + "\n")
    return entry


def _describe(config: DailyConfig, state: State, failure: LorentzrecError | None) -> dict[str, Any]:
    done = state.done
    appended, measured = done.get("append", {}), done.get("evaluate", {})
    trained, published = done.get("train", {}), done.get("publish", {})
    refused = done.get("check", {}).get("refused") or published.get("refused")
    entry: dict[str, Any] = {
        "run": state.run,
        "time": time.time(),
        "failed": None if failure is None else str(failure),
        "exit_code": 0 if failure is None else failure.exit_code,
        "refused": refused,
        "training": trained.get("kind"),
        "why": trained.get("reason"),
        "version": done.get("promote", {}).get("promoted") or published.get("version"),
        "overlap@10": published.get("overlap@10"),
        "lost_to": done.get("check", {}).get("lost_to", []),
        "quality_ratio": measure_ratio(state),
        "newest_event": _find_newest(config, state),
        "processor_seconds": sum(one.get("processor_seconds", 0.0) for one in done.values()),
    }
    if refused is not None:
        entry["exit_code"] = exit_code("publish" if published.get("refused") else "check")
    names = ("events", "late", "repeated", "new_users", "new_items", "deliveries", "repeated_deliveries")
    entry |= {name: appended.get(name, 0) for name in names}
    entry["refused_files"] = appended.get("refused", {key: why[-1] for key, why in state.refused.items()})
    of_quality = ("ndcg@10", "recall@10", "coverage@10", "new_item_share", "customers", "baselines")
    return entry | {name: measured.get(name) for name in of_quality}


def _find_newest(config: DailyConfig, state: State) -> float | None:
    """The time of the newest event that the published model knows."""
    if state.model is None:
        return None
    found = MODEL.read(config.work / "models" / state.model).get("newest_time")
    return None if found is None else float(found)


def _markdown(entry: dict[str, Any], days: Sequence[dict[str, Any]]) -> Iterator[str]:
    moment = datetime.fromtimestamp(entry["time"], UTC).isoformat(" ", "seconds")
    yield f"# Daily run {entry['run']}, {moment}"
    yield ""
    if entry["failed"]:
        yield f"**Failed** (exit code {entry['exit_code']}): {entry['failed']}"
    elif entry["refused"]:
        yield f"**Refused** (exit code {entry['exit_code']}): {entry['refused']}. The version before stays."
    elif entry["training"] == "none":
        yield "Nothing new was delivered, so the version stays."
    else:
        why = f" ({entry['why']})" if entry["why"] else ""
        yield f"The model is the result of {'an update' if entry['training'] == 'update' else 'a full training'}{why}."
    yield ""
    yield "| measure | value |"
    yield "|---|---|"
    for name, value in _rows(entry):
        yield f"| {name} | {value} |"
    yield ""
    for address, why in entry["refused_files"].items():
        yield f"- Not appended: {describe_refused(address, why)}"
    yield ""
    yield "![NDCG@10 on the events of each day, before they were learned](quality.svg)"
    yield ""
    yield "| run | events | NDCG@10 | best baseline | of median | coverage@10 | new items | overlap@10 | training |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for day in days[: -MEDIAN_RUNS - 1 : -1]:
        best = max((day.get("baselines") or {}).values(), default=None)
        cells = [day["run"], day["events"], _show(day["ndcg@10"]), _show(best), _show(day["quality_ratio"], 2)]
        cells += [_show(day["coverage@10"], 3), _show(day["new_item_share"], 3), _show(day["overlap@10"], 2)]
        yield "| " + " | ".join(map(str, [*cells, "refused" if day["refused"] else day["training"] or ""])) + " |"


def _rows(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", str(entry["version"] or "unchanged")
    if entry["newest_event"] is not None:
        yield "age of its newest event", f"{(entry['time'] - entry['newest_event']) / 3600:.1f} hours"
    for name in ("events", "late", "repeated", "new_users", "new_items", "deliveries", "repeated_deliveries"):
        yield name.replace("_", " "), f"{entry[name]:,}"
    for name in ("ndcg@10", "recall@10", "coverage@10", "new_item_share", "quality_ratio", "overlap@10"):
        if entry[name] is not None:
            yield name.replace("_", " "), _show(entry[name])
    for name, value in (entry["baselines"] or {}).items():
        yield f"NDCG@10 of {name}", _show(value)
    if entry["training"] in ("update", "full"):
        yield "the new model loses to", ", ".join(entry["lost_to"]) or "none"
    yield "processor time", f"{entry['processor_seconds']:.1f} s"


def describe_refused(address: str, why: str) -> str:
    """A file that was not appended, with the reason, which may begin with the address."""
    return why if why.startswith(address) else f"{address}: {why}"


def _show(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _metrics(entry: dict[str, Any]) -> Iterator[str]:
    """Gauges in Prometheus' text format; what is not known is left out."""
    gauges: list[tuple[str, str, list[tuple[str, float | None]]]] = [
        ("run_timestamp_seconds", "When the last run ended.", [("", entry["time"])]),
        ("exit_code", "Exit code of the last run; 0 is success.", [("", entry["exit_code"])]),
        (
            "refused_model",
            "1 if the last model was refused by its check or the gate.",
            [("", float(bool(entry["refused"])))],
        ),
        ("refused_files", "Deliveries that cannot be appended.", [("", len(entry["refused_files"]))]),
        (
            "newest_event_timestamp_seconds",
            "Newest event that the published model knows.",
            [("", entry["newest_event"])],
        ),
        ("ndcg", "NDCG@10 on the new events, before they were learned.", [("", entry["ndcg@10"])]),
        ("recall", "Recall@10 on the new events, before they were learned.", [("", entry["recall@10"])]),
        ("quality_ratio", "NDCG@10 as a share of its median over the last runs.", [("", entry["quality_ratio"])]),
        ("coverage", "Share of the items that are in a list of 10.", [("", entry["coverage@10"])]),
        (
            "new_item_share",
            "Share of the new events whose item the model did not know.",
            [("", entry["new_item_share"])],
        ),
        ("overlap", "Share of the lists of 10 that the versions have in common.", [("", entry["overlap@10"])]),
        ("processor_seconds", "Processor time of the last run.", [("", entry["processor_seconds"])]),
        (
            "baseline_ndcg",
            "NDCG@10 of baselines on the new events.",
            [(f'{{baseline="{name}"}}', value) for name, value in (entry["baselines"] or {}).items()],
        ),
        (
            "events",
            "Events of the last run by what they were.",
            [
                (f'{{kind="{kind}"}}', entry[name])
                for kind, name in (("new", "events"), ("late", "late"), ("repeated", "repeated"))
            ],
        ),
    ]
    for name, help, samples in gauges:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            yield f"# HELP lorentzrec_daily_{name} {help}"
            yield f"# TYPE lorentzrec_daily_{name} gauge"
            for labels, value in known:
                yield f"lorentzrec_daily_{name}{labels} {value:.10g}"


def draw_quality(days: Sequence[dict[str, Any]]) -> str:
    """A plot of the quality per day as SVG: the model, the best baseline, and days on which quality fell."""
    width, height, margin = 720, 240, 40
    rows: list[tuple[int, float, float, dict[str, Any]]] = [
        (day["run"], day["ndcg@10"], max((day["baselines"] or {}).values(), default=0.0), day)
        for day in days
        if day["ndcg@10"] is not None
    ]
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    if not rows:
        return f'{head}<text x="{margin}" y="{margin}">Quality was not measured yet.</text></svg>\n'
    first, last = rows[0][0], rows[-1][0]
    top = max(max(row[1], row[2]) for row in rows) or 1.0

    def locate(run: int, value: float) -> tuple[float, float]:
        x = margin + (run - first) / max(last - first, 1) * (width - 2 * margin)
        return round(x, 1), round(height - margin - value / top * (height - 2 * margin), 1)

    lines = []
    ours, theirs = [locate(run, value) for run, value, _, _ in rows], [locate(run, best) for run, _, best, _ in rows]
    drawn = [(ours, "#1f4e9c", "model"), (theirs, "#b05a00", "best baseline")]
    for column, (corners, colour, name) in enumerate(drawn, 1):
        points = " ".join(f"{x},{y}" for x, y in corners)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{width - 120}" y="{14 * column}" fill="{colour}">{name}</text>')
    for run, value, _, day in rows:
        fell = day["quality_ratio"] is not None and day["quality_ratio"] < 0.8
        x, y = locate(run, value)
        colour, radius = ("#c00020", 6) if fell else ("#1f4e9c", 3)
        lines.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>')
    lines.append(f'<text x="4" y="{margin}">{top:.3f}</text><text x="4" y="{height - margin}">0</text>')
    lines.append(f'<text x="{margin}" y="{height - 12}">run {first}</text>')
    label = f"run {last}: NDCG@10 on new events"
    lines.append(f'<text x="{width - margin}" y="{height - 12}" text-anchor="end">{label}</text>')
    return "\n".join([head, *lines, "</svg>"]) + "\n"
