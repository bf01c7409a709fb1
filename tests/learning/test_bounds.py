"""No kernel reads or writes beyond the end of an array. Compiled code does so silently, and rarely crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TRAIN_EVERYTHING = """
from itertools import product
import numpy as np
from lorentzrec import Interactions, TrainingConfig, train

random = np.random.default_rng(0)
events = random.integers(0, 40, 400), random.integers(0, 200, 400)
ordered = Interactions.from_pairs(*events, np.arange(400))
weighted = Interactions.from_pairs(*events, weights=random.uniform(0.5, 2, 400))
for data, geometry, model, loss, optimiser, score in product(
    (ordered, weighted), ("hyperboloid", "euclidean"), ("asymmetric", "symmetric"), ("bpr", "wmrb", "softmax"),
    ("rsgd", "adagrad", "adam"), ("inner", "distance"),
):
    for more in ({"negative_count": 3}, {"negative_count": 150, "regularisation": 0.01}):
        config = TrainingConfig(geometry=geometry, model=model, loss=loss, optimiser=optimiser, score=score,
                                dimension=5, epochs=1, threads=1, **more)
        train(data, config, progress=False)
print("within bounds")
"""


def test_training_of_every_kind_stays_within_its_arrays(tmp_path: Path) -> None:
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", TRAIN_EVERYTHING], env=checked, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("within bounds\n", 0), done.stderr
