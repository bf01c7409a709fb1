"""The whole pipeline at the size of the paper's shop, with time, peak memory and bytes on disk of every step.

    python benchmarks/bench_full_size.py DIR                             18.4 M customers, 1 M items, 200 M events
    python benchmarks/bench_full_size.py DIR --events 2000000            the same shop, a hundredth of its size
    python benchmarks/bench_full_size.py DIR --plot costs.svg            all sizes that are complete in DIR

Every step is a command in a process of its own. What is complete in DIR is not run again, so that a run that was
stopped continues. Customers shrink with the events, and items with the square root of their share, as a
catalogue does: the last column, seconds per million events, should not grow with the events.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lorentzrec.base.canvas import BLUE, GREEN, ORANGE, PAGE_WIDTH, PURPLE, VERMILION, canvas
from measuring import report

EVENTS, CUSTOMERS, ITEMS = 200_000_000, 18_400_000, 1_000_000
STORED_CUSTOMERS = 1_000_000
"""Customers whose histories are added to the store, if there are as many."""
GROWING = ("synthesize", "prepare", "train", "recommend-all", "publish")
"""Steps whose work grows with the events; the others have a fixed number of customers or requests."""
STEPS = str(Path(__file__).with_name("full_size_steps.py"))


def measure(step: str, command: list[str], output: Path, events: int) -> dict[str, Any]:
    """Run a command of lorentzrec, or a script, to its end; a row of the table."""
    script = command[0].endswith(".py")
    arguments = [sys.executable, *([] if script else ["-m", "lorentzrec.cli"]), *command]
    print(" ".join(["python" if script else "lorentzrec", *command]), file=sys.stderr, flush=True)
    start = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{step} failed with exit code {os.waitstatus_to_exitcode(status)}")
    files = [output] if output.is_file() else [path for path in output.rglob("*") if path.is_file()]
    return {
        "step": step,
        "seconds": round(seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gib": round(usage.ru_maxrss / 2**20, 2),
        "disk_mb": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        "processor_seconds_per_million_events": round((usage.ru_utime + usage.ru_stime) / events * 1e6, 2),
        "printed": json.loads(printed) if printed.startswith("{") else None,
    }


def commands(folder: Path, events: int, epochs: int, negatives: int) -> dict[str, tuple[list[str], Path]]:
    """Step -> its command and what it writes."""
    share = events / EVENTS
    customers, items = max(1000, round(CUSTOMERS * share)), max(1000, round(ITEMS * share**0.5))
    shop, dataset, model, store = (folder / name for name in ("raw", "shop", "model", "store"))
    sizes = ["--customers", customers, "--items", items, "--interactions", events]
    settings = [f"--set=epochs={epochs}", "--set=validation=20000", f"--set=negative_count={negatives}"]
    everyone = folder / "recommendations"
    stored = ["--customers", min(STORED_CUSTOMERS, customers // 2)]
    steps: dict[str, tuple[list[Any], Path]] = {
        "synthesize": (["synthesize", "--out", shop, *sizes, "--json"], shop),
        "prepare": (["prepare", shop / "events", "--out", dataset, "--split", "leave_last_out", "--json"], dataset),
        "train": (["train", dataset, "--out", model, *settings, "--json"], model),
        "evaluate": ([STEPS, "evaluate", model, dataset, "--customers", 5000], folder / "none"),
        "recommend-all": (["recommend-all", model, "--out", everyone, "--json"], everyone),
        "publish": (["publish", model, "--to", f"file:{store}", "--no-map", "--json"], store),
        "add histories": ([STEPS, "histories", model, f"file:{store}", *stored], store / "store.sqlite"),
        "serve": ([STEPS, "load", model, f"file:{store}", *stored], folder / "none"),
    }
    return {step: ([str(word) for word in command], output) for step, (command, output) in steps.items()}


def plot(folder: Path, path: Path) -> None:
    """Processor seconds per million events, and peak memory, against the number of events."""
    runs = {int(file.parent.name.split("-")[0]): json.loads(file.read_text()) for file in folder.glob("*/steps.json")}
    sizes = sorted(runs)
    colours = dict(zip(GROWING, (BLUE, VERMILION, GREEN, PURPLE, ORANGE), strict=True))
    columns = {"processor_seconds_per_million_events": "processor seconds per million events", "peak_gib": "peak GiB"}
    with canvas(path, PAGE_WIDTH, 2.6) as figure:
        for axes, (column, label) in zip(figure.subplots(1, 2), columns.items(), strict=True):
            for step, colour in colours.items():
                values = [runs[size][step]["row"][column] for size in sizes]
                axes.plot([size / 1e6 for size in sizes], values, "o-", color=colour, label=step, markersize=3)
            axes.set(xscale="log", yscale="log", xlabel="million events", ylabel=label)
            axes.set_xticks([size / 1e6 for size in sizes], [f"{size / 1e6:g}" for size in sizes], minor=False)
            axes.minorticks_off()
            axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--negatives", type=int, default=256)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="run nothing; plot what has been measured")
    options = parser.parse_args()
    if options.plot:
        plot(options.folder, options.plot)
        return
    folder = options.folder.resolve() / f"{options.events}-events"
    folder.mkdir(parents=True, exist_ok=True)
    done_file = folder / "steps.json"
    done: dict[str, dict[str, Any]] = json.loads(done_file.read_text()) if done_file.exists() else {}
    steps = commands(folder, options.events, options.epochs, options.negatives)
    for step, (command, output) in steps.items():
        if done.get(step, {}).get("command") == command:
            continue
        row = measure(step, command, output, options.events)
        done[step] = {"command": command, "row": row}
        done_file.write_text(json.dumps(done, indent=2) + "\n")
    rows = [{name: value for name, value in done[step]["row"].items() if name != "printed"} for step in steps]
    report(f"full_size_{options.events}", f"The pipeline at {options.events:,} events", rows)


if __name__ == "__main__":
    main()
