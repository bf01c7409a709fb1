"""Peak memory of training against its budget: points + optimiser state + 16 bytes per interaction + 500 MB."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.learning.tables import padded
from measuring import like_movielens, report

CASES = {
    "asymmetric wmrb adagrad": TrainingConfig(loss="wmrb", epochs=1, negative_count=100),
    "asymmetric wmrb adam": TrainingConfig(
        loss="wmrb", epochs=1, negative_count=100, optimiser="adam", learning_rate=0.01
    ),
    "symmetric wmrb adagrad": TrainingConfig(loss="wmrb", epochs=1, negative_count=100, model="symmetric"),
    "symmetric bpr rsgd": TrainingConfig(epochs=1, model="symmetric", loss="bpr", optimiser="rsgd"),
}


def measure(case: str, folder: Path) -> None:
    """Train in this process, on data from a file, and print its peak."""
    offsets, item_rows, times = (np.load(folder / f"{name}.npy") for name in ("offsets", "item_rows", "times"))
    users, items = Vocabulary.numbered(len(offsets) - 1), Vocabulary.numbered(int(item_rows.max()) + 1)
    data = Interactions(users=users, items=items, offsets=offsets, item_rows=item_rows, times=times)
    model = train(data, CASES[case], progress=False)
    # not getrusage, which on Linux starts with the peak of the parent process
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    # the memory of a row: its coordinates, a squared length for Adagrad and Adam, a momentum and a count for Adam
    width = padded(model.config.dimension)
    row = 4 * width + {"rsgd": 0, "adagrad": 4, "adam": 4 + 4 * width + 4}[model.config.optimiser]
    rows = len(items) * (2 if model.config.targets == "separate" else 1)
    rows += len(users) if model.user_points is not None else 0
    print(json.dumps({"events": len(data), "state": row * rows, "peak": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--case", nargs=2, metavar=("CASE", "FOLDER"), help="measure one case in this process")
    options = parser.parse_args()
    if options.case:
        measure(options.case[0], Path(options.case[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        data = like_movielens(events=800_000, users=13_800) if options.quick else like_movielens()
        for name in ("offsets", "item_rows", "times"):
            np.save(Path(folder) / f"{name}.npy", getattr(data, name))
        del data
        rows = [compare(case, folder) for case in CASES]
    report("memory", "peak memory of training", rows)


def compare(case: str, folder: str) -> dict[str, Any]:
    """Measure one case in its own process."""
    command = [sys.executable, __file__, "--case", case, folder]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    budget = found["state"] + 16 * found["events"] + 500_000_000
    return {
        "case": case,
        "events": found["events"],
        "state_mb": found["state"] // 10**6,
        "peak_mb": found["peak"] // 10**6,
        "budget_mb": budget // 10**6,
        "within": "yes" if found["peak"] <= budget else "no",
    }


if __name__ == "__main__":
    main()
