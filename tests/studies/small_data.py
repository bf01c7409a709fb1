"""Three groups of customers, each with its own items: a data set on which training is fast."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.studies.task import TuningTask


def grouped(events: int = 800, *, ordered: bool = True) -> Interactions:
    """Customer u of 40 interacts with items of the group u % 3, ten in each."""
    random = np.random.default_rng(0)
    user = np.concatenate([np.arange(40), random.integers(0, 40, events - 40)])
    item = user % 3 * 10 + random.integers(0, 10, events)
    return Interactions.from_pairs(user, item, times=np.arange(events) if ordered else None)


def small_task() -> TuningTask:
    train, validation, test = grouped().split("leave_last_two")
    return TuningTask.from_parts({"train": train, "validation": validation, "test": test})
