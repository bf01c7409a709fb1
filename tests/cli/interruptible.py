"""`lorentzrec` that prints `now: MOMENT` on standard error at a moment of training, to be interrupted right there.

    python interruptible.py MOMENT train events.csv --out model ...

MOMENT: `epoch 1`, `epoch 2`, ... when that epoch begins. At other moments the program then waits for the end of
standard input: `before epoch 2`; `checkpoint 2`, in the middle of writing the checkpoint of epoch 2; `save`, in the
middle of writing the model; `removal`, when the files of the last checkpoint are about to be deleted.

The first epoch that begins is printed as `first: epoch N`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import safetensors.numpy

from lorentzrec.cli import main
from lorentzrec.learning.progress import TrainingProgress

moment = sys.argv.pop(1)
begin, save_file, rmtree = TrainingProgress.begin, safetensors.numpy.save_file, shutil.rmtree
begun: list[int] = []


def now(here: str, *, wait: bool = True) -> None:
    if here == moment:
        print(f"now: {moment}", file=sys.stderr, flush=True)
        if wait:
            sys.stdin.read()  # continues after a signal whose handler raises nothing


def begin_and_print(self: TrainingProgress, epoch: int) -> None:
    begin(self, epoch)
    if not begun:
        print(f"first: epoch {epoch}", file=sys.stderr, flush=True)
    begun.append(epoch)
    now(f"epoch {epoch}", wait=False)
    now(f"before epoch {epoch}")


def save_and_wait(tensor_dict: Any, filename: Any, metadata: Any = None) -> None:
    save_file(tensor_dict, filename, metadata)
    now(f"checkpoint {begun[-1]}" if ".checkpoint" in Path(filename).parent.name else "save")


def wait_and_remove(path: Any, *arguments: Any, **options: Any) -> None:
    if (Path(path) / "model.checkpoint").exists():
        now("removal")
    rmtree(path, *arguments, **options)


TrainingProgress.begin = begin_and_print  # type: ignore[method-assign]
safetensors.numpy.save_file = save_and_wait
shutil.rmtree = wait_and_remove  # type: ignore[assignment]
main()
