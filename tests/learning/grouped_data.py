"""Customers in three groups, each with items of its own: what every model must find out."""

from __future__ import annotations

from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.model.config import TrainingConfig


def grouped(users: int = 60, items: int = 60, events: int = 1500, seed: int = 0, **columns: Any) -> Interactions:
    """Customer u interacts with items of the group u % 3, in a random order."""
    random = np.random.default_rng(seed)
    user = np.concatenate([np.arange(users), random.integers(0, users, events - users)])
    item = user % 3 * (items // 3) + random.integers(0, items // 3, events)
    return Interactions.from_pairs(user, item, **({"times": np.arange(events)} | columns))


def quick(**options: Any) -> TrainingConfig:
    """Small, short, and on one thread, where runs are repeatable to the bit."""
    return TrainingConfig.from_mapping({"dimension": 6, "epochs": 4, "threads": 1, "seed": 1} | options)
