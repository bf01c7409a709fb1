"""Nearest neighbours in blocks: the same as sorting all distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.geometry import euclidean, hyperboloid
from lorentzrec.maps import neighbours
from lorentzrec.maps.neighbours import Geometry, nearest_neighbours, neighbours_of_each, without_own


def points_of(geometry: Geometry, count: int) -> NDArray[Any]:
    flat = np.random.default_rng(3).normal(size=(count, 4)).astype(np.float32)
    return hyperboloid.lift(flat) if geometry == "hyperboloid" else flat


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
def test_as_sorting_all_distances(geometry: Geometry, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK_BYTES", 8_000)
    points = points_of(geometry, count)
    rows, squared = nearest_neighbours(points, points[:40], 12, geometry)
    measure = hyperboloid.squared_lorentzian_distance if geometry == "hyperboloid" else euclidean.distance
    slow = measure(points[:40, None].astype(np.float64), points[None].astype(np.float64))
    slow = slow if geometry == "hyperboloid" else slow**2
    np.testing.assert_array_equal(rows, np.argsort(slow, axis=1)[:, :12])
    np.testing.assert_allclose(squared, np.sort(slow, axis=1)[:, :12], atol=1e-4)


def test_nobody_is_a_neighbour_of_themselves() -> None:
    """Five equal points: whichever two of the others come, the point itself is not among them."""
    rows = neighbours_of_each(np.ones((5, 3), np.float32), 2, "euclidean")
    assert rows.shape == (5, 2)
    assert not (rows == np.arange(5)[:, None]).any()
    assert without_own(np.array([[4, 1, 2], [0, 1, 2]]), np.array([1, 7])).tolist() == [[4, 2], [0, 1]]
