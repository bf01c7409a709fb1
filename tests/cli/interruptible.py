"""`lorentzrec` that prints `now: MOMENT` on standard error at a moment of training, to be interrupted right there.

    python interruptible.py MOMENT train events.csv --out model ...

MOMENT: `epoch 1`, `epoch 2`, ... when that epoch begins; `save` in the middle of writing the model, which then waits.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import safetensors.numpy

from lorentzrec.cli import main
from lorentzrec.learning.progress import TrainingProgress

moment = sys.argv.pop(1)
begin, save_file = TrainingProgress.begin, safetensors.numpy.save_file


def now() -> None:
    print(f"now: {moment}", file=sys.stderr, flush=True)


def begin_and_print(self: TrainingProgress, epoch: int) -> None:
    begin(self, epoch)
    if moment == f"epoch {epoch}":
        now()


def save_and_wait(tensor_dict: Any, filename: Any, metadata: Any = None) -> None:
    save_file(tensor_dict, filename, metadata)
    if moment == "save" and ".checkpoint" not in Path(filename).parent.name:
        now()
        time.sleep(60)


TrainingProgress.begin = begin_and_print  # type: ignore[method-assign]
safetensors.numpy.save_file = save_and_wait
main()
