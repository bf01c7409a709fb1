"""The arrays of training: laid out for the kernels, and of one type wherever the data came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry.hyperboloid import minkowski_squared_norm
from lorentzrec.learning.tables import convert_events, copy_points, make_table, padded
from tests.learning.grouped_data import grouped, quick


@pytest.mark.parametrize(("dimension", "floats"), [(1, 8), (7, 8), (8, 16), (50, 56), (63, 64)])
def test_rows_are_padded_to_eight_floats(dimension: int, floats: int) -> None:
    assert padded(dimension) == floats


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
def test_points_go_in_and_come_out(geometry: str, optimiser: str) -> None:
    masses = "off" if optimiser == "adam" else "on"
    config = quick(geometry=geometry, optimiser=optimiser, masses=masses).resolve_for(grouped())
    space = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    table = make_table(space, config)
    points = copy_points(table, config)
    assert points[:, -6:].tolist() == space.tolist()
    if geometry == "hyperboloid":
        assert minkowski_squared_norm(points) == pytest.approx(-np.ones(5), abs=1e-5)
    else:
        assert points.shape == (5, 6)
    assert table.points.ctypes.data % 64 == 0, "rows start on a cache line"
    assert (table.points[:, 7:] == 0).all()
    assert len(table.squared) == 5
    assert len(table.momentum) == len(table.steps) == (5 if optimiser == "adam" else 1)
    assert len(table.masses) == len(table.mass_squared) == (1 if optimiser == "adam" else 5)
    points[:] = 0
    assert copy_points(table, config)[:, -6:].tolist() == space.tolist(), "a copy"


def test_every_source_gives_the_kernels_the_same_types() -> None:
    """Another type, such as an array that may not be written to, would be compiled for again."""
    data = grouped(events=300, weights=np.linspace(0.5, 2, 300))
    data = replace(data, labels=np.arange(300) % 2 == 0)
    locked: dict[str, Any] = {
        name: getattr(data, name).copy() for name in ("offsets", "item_rows", "weights", "labels")
    }
    for array in locked.values():
        array.flags.writeable = False
    type_of: Any = numba.typeof
    sources = [
        data,
        grouped(events=300),
        Interactions.from_csr(data.to_csr()),
        Interactions(data.users, data.items, **locked),
    ]
    assert len({type_of(convert_events(source, "symmetric")) for source in sources}) == 1
