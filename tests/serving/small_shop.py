"""A shop of forty items with random points, as a model, a table of items and a published version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.points.points import Points
from lorentzrec.serving.versions.version import Version, open_version, write_version

ITEMS = 40
CATEGORIES = ("coats", "hats", "shoes")


def shop_points(count: int, geometry: str, seed: int, dimension: int = 3) -> NDArray[np.float32]:
    space = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    if geometry == "euclidean":
        return space
    return np.concatenate([np.sqrt(1 + (space**2).sum(axis=1, keepdims=True)), space], axis=1)


def shop_model(*, geometry: str = "hyperboloid", items: int = ITEMS, strings: bool = True, **options: Any) -> Model:
    """Item 0 has the most events, and the row of an item is its number; `options` are further hyper-parameters."""
    numbers = np.repeat(np.arange(items), np.arange(2 * items, items, -1))
    users = np.random.default_rng(9).integers(0, 50, len(numbers))
    data = Interactions.from_pairs(
        [f"u{user}" for user in users] if strings else users,
        [f"i{number}" for number in numbers] if strings else numbers,
        times=np.arange(len(numbers)),
    )
    settled = {"score": "distance", "recency": 0.5, "targets": "shared", "dimension": 3} | options
    config = TrainingConfig.from_mapping({"geometry": geometry, "model": "asymmetric"} | settled).resolve_for(data)
    item_points = shop_points(items, geometry, 2)
    return Model(
        config=config,
        items=data.items,
        points=Points(
            item_points,
            shop_points(items, geometry, 3) if config.targets == "separate" else item_points,
            data.item_counts,
            config.space,
        ),
        users=data.users,
        user_points=shop_points(len(data.users), geometry, 4) if config.model == "symmetric" else None,
        histories=data,
        data_digest=data.digest,
        metrics={"ndcg@10": 0.125},
    )


def shop_table(items: int = ITEMS) -> pl.DataFrame:
    """Titles for all, categories in turn but none for every fourth item, a price for the first."""
    return pl.DataFrame(
        {
            "id": [f"i{number}" for number in range(items)],
            "title": [f"Piece number {number}" for number in range(items)],
            "category": [None if number % 4 == 3 else CATEGORIES[number % 4] for number in range(items)],
            "price": [9.5] + [None] * (items - 1),
        }
    )


def shop_version(folder: Path, model: Model | None = None, **parts: Any) -> Version:
    model = shop_model() if model is None else model
    write_version(folder, model, **{"items": shop_table(len(model.items)), **parts})
    return open_version(folder)
