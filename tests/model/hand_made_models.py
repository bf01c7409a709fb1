"""Models with random points, as training could have left them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.points import Points

# A slow machine is not a failing test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

DIMENSION = 4
RECORD = (
    EpochRecord(
        epoch=1,
        loss=0.7,
        learning_rate=0.1,
        clipped_gradients=3,
        capped_steps=0,
        seconds=0.25,
        events_per_second=1.5e6,
        validation={"ndcg@10": 1 / 3},
    ),
    EpochRecord(
        epoch=2, loss=0.6, learning_rate=0.05, clipped_gradients=0, capped_steps=1, seconds=0.2, events_per_second=2e6
    ),
)


def points(count: int, geometry: str, seed: int) -> NDArray[np.float32]:
    space = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    if geometry == "euclidean":
        return space
    return np.concatenate([np.sqrt(1 + (space**2).sum(axis=1, keepdims=True)), space], axis=1)


def interactions(*, strings: bool = True, weighted: bool = False) -> Interactions:
    """Twelve customers of thirty items; every item and every customer has a few events."""
    generator = np.random.default_rng(1)
    users = np.concatenate([generator.integers(0, 12, 60), np.arange(30) % 12])
    items = np.concatenate([generator.integers(0, 30, 60), np.arange(30)])
    return Interactions.from_pairs(
        [f"u{user}" for user in users] if strings else users * 10 + 10**12,
        [f"i{item}" for item in items] if strings else items * 10 - 50,
        times=np.arange(90),
        weights=generator.uniform(0.5, 2, 90) if weighted else None,
    )


def hand_made(
    data: Interactions | None = None, *, geometry: str = "hyperboloid", model: str = "asymmetric", **options: Any
) -> Model:
    """A model of `data` with random points; `options` are further hyper-parameters."""
    data = interactions() if data is None else data
    settled = {"score": "distance", "recency": 0.5, "targets": "shared", "dimension": DIMENSION} | options
    config = TrainingConfig.from_mapping({"geometry": geometry, "model": model} | settled).resolve_for(data)
    item_points = points(len(data.items), geometry, 2)
    return Model(
        config=config,
        items=data.items,
        points=Points(
            item_points,
            points(len(data.items), geometry, 3) if config.targets == "separate" else item_points,
            data.item_counts,
            config.space,
        ),
        users=data.users,
        user_points=points(len(data.users), geometry, 4) if model == "symmetric" else None,
        histories=data,
        record=RECORD,
        data_digest=data.digest,
        metrics={"ndcg@10": 0.125},
        note_records=(Note.of_text("events have no order"),),
    )
