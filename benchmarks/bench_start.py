"""Time to start: importing the package, printing the help, training with and without compiled kernels."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import best_seconds, report

TINY = """
import numpy as np
from lorentzrec import Interactions, TrainingConfig, train
random = np.random.default_rng(0)
data = Interactions.from_pairs(random.integers(0, 50, 500), random.integers(0, 40, 500), times=np.arange(500))
train(data, TrainingConfig(dimension=8, epochs=1, threads=1), progress=False)
"""


def run(*arguments: str, cache: str | None = None) -> None:
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    subprocess.run([*arguments], check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_known_args()
    python = sys.executable
    command = str(Path(python).parent / "lorentzrec")
    with tempfile.TemporaryDirectory() as cache:
        first = best_seconds(lambda: run(python, "-c", TINY, cache=cache), 1)
        second = best_seconds(lambda: run(python, "-c", TINY, cache=cache), 3)
    bare = best_seconds(lambda: run(python, "-c", "pass"), 5)
    rows = [
        {
            "what": "import lorentzrec",
            "seconds": best_seconds(lambda: run(python, "-c", "import lorentzrec"), 5) - bare,
        },
        {"what": "lorentzrec --help", "seconds": best_seconds(lambda: run(command, "--help"), 5)},
        {"what": "first training, kernels compiled", "seconds": first},
        {"what": "later trainings, kernels from the cache", "seconds": second},
    ]
    report("start", "time to start (without the start of Python itself in the first line)", rows)


if __name__ == "__main__":
    main()
