"""Synthetic data in the layouts of the official files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np


def tastes(customers: int, length: int, items: int, seed: int) -> list[list[int]]:
    """Histories without repeated items; neighbouring items occur together, and low numbers are popular."""
    generator = np.random.default_rng(seed)
    histories = []
    for _ in range(customers):
        near = (generator.integers(0, items) + generator.permutation(4 * length)) % items
        popular = np.minimum(generator.geometric(0.02, 2 * length), items) - 1
        mixed = generator.permutation(np.concatenate([near[:length], popular]))
        histories.append(list(dict.fromkeys(mixed.tolist()))[:length])
    return histories


def write_five_core(folder: Path, category: str, *, customers: int = 60, items: int = 150) -> None:
    """Every second customer has 24 events, the others 8."""
    histories = [history[: 24 if user % 2 else 8] for user, history in enumerate(tastes(customers, 24, items, 1))]
    lines = [" ".join(map(str, [user, *history])) for user, history in enumerate(histories, start=1)]
    (folder / "amazon-5core").mkdir(exist_ok=True)
    (folder / "amazon-5core" / f"{category}.txt").write_text("\n".join(lines) + "\n")


def write_complete(folder: Path, category: str, *, customers: int = 30, length: int = 30, items: int = 200) -> None:
    """Every fifth rating is 1 star: not a positive."""
    lines = [
        f"A{user},B{item:06d},{1 if (user + place) % 5 == 0 else 4}.0,{1_300_000_000 + place}"
        for user, history in enumerate(tastes(customers, length, items, 2))
        for place, item in enumerate(history)
    ]
    (folder / f"ratings_{category}.csv").write_text("\n".join(lines) + "\n")


def write_movielens_100k(folder: Path, *, customers: int = 80, length: int = 15, items: int = 160) -> None:
    _write_movielens(
        folder / "ml-100k" / "u.data", "\t", lambda place: 4 + place % 2, tastes(customers, length, items, 3)
    )


def write_movielens_1m(folder: Path, *, customers: int = 50, length: int = 10, items: int = 80) -> None:
    """Every fifth rating is 3 stars: no positive where 4 are required."""
    histories = tastes(customers, length, items, 4)
    _write_movielens(folder / "ml-1m" / "ratings.dat", "::", lambda place: 3 if place % 5 == 4 else 4, histories)


def _write_movielens(file: Path, separator: str, rating: Callable[[int], int], histories: list[list[int]]) -> None:
    """`rating`: by the place in the history."""
    rows = [
        (user, item + 1, rating(place), 900_000_000 + place)
        for user, history in enumerate(histories, start=1)
        for place, item in enumerate(history)
    ]
    file.parent.mkdir()
    file.write_text("\n".join(separator.join(map(str, row)) for row in rows) + "\n")


def write_gowalla(folder: Path, *, customers: int = 40, items: int = 80) -> None:
    """Nine check-ins of every customer for training, three for the test."""
    histories = tastes(customers, 12, items, 5)
    (folder / "gowalla").mkdir()
    for name, part in (("train", slice(0, 9)), ("test", slice(9, 12))):
        lines = [" ".join(map(str, [user, *history[part]])) for user, history in enumerate(histories)]
        (folder / "gowalla" / f"{name}.txt").write_text("\n".join(lines) + "\n")
