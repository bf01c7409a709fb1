"""The map of a model: methods, what they keep, and customers on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lorentzrec import Interactions
from lorentzrec.errors import InputError
from lorentzrec.geometry.charts import from_poincare
from lorentzrec.geometry.hyperboloid import distance, lift
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.maps import neighbour_map
from lorentzrec.maps.disk_map import Method, customer_coordinates, disk_map, sample_customers
from lorentzrec.maps.neighbours import Geometry
from tests.reference.charts import poincare_distance


def groups(geometry: Geometry, members: int = 40, count: int = 5, dimension: int = 8) -> NDArray[np.float32]:
    """Tight groups of points, one after another, each in a direction of its own."""
    generator = np.random.default_rng(0)
    centres = np.eye(dimension)[:count] * 3
    space = np.repeat(centres, members, axis=0) + generator.normal(0, 0.1, (members * count, dimension))
    return (lift(space) if geometry == "hyperboloid" else space).astype(np.float32)


def share_of_own_group(coordinates: NDArray[np.float32], members: int = 40) -> float:
    """How many of the nearest ten on the map are of a point's own group."""
    apart = poincare_distance(coordinates[:, None].astype(np.float64), coordinates[None].astype(np.float64))
    nearest = np.argsort(apart, axis=1)[:, 1:11]
    return float((nearest // members == np.arange(len(coordinates))[:, None] // members).mean())


@pytest.mark.parametrize(
    ("geometry", "method"), [("hyperboloid", "levels"), ("hyperboloid", "neighbours"), ("euclidean", "neighbours")]
)
def test_groups_stay_together(geometry: Geometry, method: Method) -> None:
    drawn = disk_map(groups(geometry), geometry=geometry, method=method)
    assert drawn.method == method
    assert share_of_own_group(drawn.coordinates) > 0.95
    assert (np.square(drawn.coordinates).sum(axis=1) < 1).all()
    assert drawn.kept["neighbours@10"] > 0.3


def test_levels_follow_the_centre_of_the_model() -> None:
    """Points along rays: what is nearer to the model's centre is nearer to that of the map."""
    generator = np.random.default_rng(4)
    directions = generator.normal(size=(300, 6))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = lift(directions * generator.uniform(0.1, 3, (300, 1))).astype(np.float32)
    kept = disk_map(points, geometry="hyperboloid").kept
    free = disk_map(points, geometry="hyperboloid", method="neighbours").kept
    assert kept["centre"] > 0.8
    assert kept["centre"] > free["centre"]


def test_the_innermost_points_fill_the_middle_of_a_levelled_map() -> None:
    """Of 100 points on a circle 5 are the innermost: they go to (5 - rank) / 5 of the way to their even spread."""
    angles = np.linspace(0, 6, 100)
    space = np.sinh(np.linspace(1.5, 1.6, 100))[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    positions = neighbour_map._fill_centre(lift(space))
    levels = [2 * np.arctanh(0.97 * np.sqrt((rank + 0.5) / 100)) for rank in range(5)]
    expected = np.linspace(1.5, 1.6, 100)
    expected[:5] = [(rank * expected[rank] + (5 - rank) * levels[rank]) / 5 for rank in range(5)]
    np.testing.assert_allclose(np.arccosh(positions[:, 0]), expected, rtol=1e-6)
    np.testing.assert_allclose(np.arctan2(positions[:, 2], positions[:, 1]) % (2 * np.pi), angles, atol=1e-6)
    drawn = disk_map(groups("hyperboloid"), geometry="hyperboloid")
    assert np.sqrt(np.square(drawn.coordinates).sum(axis=1)).min() == pytest.approx(0.97 * np.sqrt(0.5 / 200), rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(0, 100))
def test_two_dimensions_are_drawn_as_they_are(count: int, seed: int) -> None:
    points = lift(np.random.default_rng(seed).normal(1, 1.5, (count, 2)))
    drawn = disk_map(points, geometry="hyperboloid")
    assert drawn.method == "exact"
    positions = from_poincare(drawn.coordinates.astype(np.float64))
    np.testing.assert_allclose(
        distance(positions[:, None], positions[None]), distance(points[:, None], points[None]), rtol=1e-3, atol=1e-3
    )
    assert einstein_midpoint(positions)[0] == pytest.approx(1, abs=1e-4)


def test_what_lies_beyond_the_rim_is_counted() -> None:
    """At distance 30 the gap to the circle is 2 e^-30: no float32 is that near to 1."""
    far = lift(np.array([[np.sinh(30.0), 0], [-np.sinh(30.0), 0], [0, 1.0]]))
    drawn = disk_map(far, geometry="hyperboloid")
    assert drawn.kept["on the rim"] == 2
    assert (np.square(drawn.coordinates.astype(np.float64)).sum(axis=1) < 1).all()


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_points_have_a_map(geometry: Geometry, count: int) -> None:
    drawn = disk_map(groups(geometry)[:count], geometry=geometry)
    assert drawn.coordinates.shape == (count, 2)
    assert drawn.coordinates.dtype == np.float32
    assert np.isfinite(drawn.coordinates).all()
    assert drawn.method == "plane" if count < 3 else drawn.method != "plane"


def test_equal_points_have_a_map() -> None:
    drawn = disk_map(np.ones((20, 4), np.float32), geometry="euclidean")
    assert np.isfinite(drawn.coordinates).all()


@pytest.mark.parametrize("method", ["levels", "neighbours"])
def test_points_beyond_the_landmarks_are_placed_among_their_own(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbour_map, "LANDMARKS", 60)
    points = groups("hyperboloid")
    counts = np.where(np.arange(len(points)) % 40 < 12, 100, 1)
    for popularity in (counts, None):
        drawn = disk_map(points, geometry="hyperboloid", counts=popularity, method=method)
        assert share_of_own_group(drawn.coordinates) > 0.9


def test_the_same_seed_gives_the_same_map() -> None:
    points = groups("hyperboloid")
    first, again, other = (disk_map(points, geometry="hyperboloid", seed=seed).coordinates for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_plane_says_what_it_keeps() -> None:
    shares: list[float] = []
    drawn = disk_map(groups("euclidean"), geometry="euclidean", method="plane", progress=shares.append)
    assert drawn.description().startswith("principal plane, radii stretched to fill the disk; kept: spread 0.")
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert np.sqrt(np.quantile(np.square(drawn.coordinates).sum(axis=1), 0.99)) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"method": "globe"}, "there is no map method 'globe': use one of auto, exact"),
        ({"method": "exact"}, "exact only for a hyperboloid of two dimensions"),
        ({"counts": np.ones(3)}, "there are 200 points and 3 counts"),
        ({"points": np.empty((0, 4))}, "cannot be mapped: give at least one row"),
        ({"points": np.full((2, 4), np.nan)}, "cannot be mapped: give at least one row"),
    ],
)
def test_bad_requests_are_refused(options: dict[str, Any], line: str) -> None:
    points = options.pop("points", groups("hyperboloid"))
    with pytest.raises(InputError, match=line):
        disk_map(points, geometry="hyperboloid", **options)


def test_a_customer_stands_at_the_midpoint_of_their_history() -> None:
    """Two items opposite one another: whoever has both is at the centre, whoever has one is there."""
    data = Interactions.from_pairs(["ann", "ann", "bob"], ["tea", "cup", "tea"])
    coordinates = np.zeros((2, 2), np.float32)
    coordinates[data.items.row("tea")], coordinates[data.items.row("cup")] = [0.6, 0], [-0.6, 0]
    rows = np.array([data.users.row("ann"), data.users.row("bob")])
    expected = np.array([[0, 0], [0.6, 0]])
    np.testing.assert_allclose(customer_coordinates(coordinates, data, rows), expected, atol=1e-6)
    assert sample_customers(data, 2).tolist() == [0, 1]
    with pytest.raises(InputError, match="there are 2 customers with events, not 3: give a smaller number"):
        sample_customers(data, 3)
