"""The principal plane: exact where there are two dimensions, and the same whichever isometry moved the points."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import boost, distance, distance_to_origin, lift
from lorentzrec.maps import principal_plane
from lorentzrec.maps.principal_plane import flat_plane, hyperbolic_plane


def cloud(count: int = 60, seed: int = 0) -> FloatArray:
    """Points that spread less and less from axis to axis."""
    return lift(np.random.default_rng(seed).normal(size=(count, 5)) * [1.5, 0.8, 0.3, 0.2, 0.1])


def all_distances(points: FloatArray) -> FloatArray:
    return distance(points[:, None], points[None])


def test_points_of_a_plane_keep_every_distance() -> None:
    """Two of five dimensions are used, and an isometry hides which: the plane finds them again."""
    flat = lift(np.random.default_rng(1).normal(size=(30, 5)) * [1, 1, 0, 0, 0])
    moved = flat @ boost(lift(np.array([0.3, -0.2, 0.5, 0.1, -0.7])))
    plane, kept = hyperbolic_plane(moved)
    assert kept == pytest.approx(1)
    np.testing.assert_allclose(all_distances(lift(plane)), all_distances(flat), atol=1e-6)


def test_an_isometry_of_the_points_changes_nothing() -> None:
    points = cloud()
    moved = points @ boost(lift(np.array([1.0, 0.5, -0.5, 0.2, 0.3])))
    (plane, kept), (other, other_kept) = hyperbolic_plane(points), hyperbolic_plane(moved)
    assert kept == pytest.approx(other_kept)
    np.testing.assert_allclose(all_distances(lift(plane)), all_distances(lift(other)), atol=1e-8)


def test_no_tilted_plane_lies_nearer() -> None:
    """The plane is where the sum of sinh^2(distance to it) is smallest: 200 planes through the origin lie further."""
    points = cloud()
    plane, _ = hyperbolic_plane(points)

    def missed(axes: FloatArray) -> float:
        """sinh^2(distance) is the square of the part that is not in the plane: x0^2 - |part in the plane|^2 - 1."""
        parts = points[:, 1:] @ axes.T
        return float(np.sum(points[:, 0] ** 2 - (parts**2).sum(axis=1) - 1))

    ours = float(np.sum(squared_sinh_to_plane(points, lift(plane))))
    generator = np.random.default_rng(2)
    best = min(missed(np.linalg.qr(generator.normal(size=(5, 2)))[0].T) for _ in range(200))
    assert ours <= best


def squared_sinh_to_plane(points: FloatArray, plane: FloatArray) -> FloatArray:
    """Distances to the centre obey cosh(r) = cosh(r in the plane) cosh(distance to it), as in any right triangle."""
    moments = points.T @ points
    values, vectors = np.linalg.eig(moments @ np.diag([-1.0, 1, 1, 1, 1, 1]))
    centre = np.real(vectors[:, np.argmin(np.real(values))])
    centre /= np.sqrt(centre[0] ** 2 - (centre[1:] ** 2).sum())
    cosh_radius = np.abs(points[:, 0] * centre[0] - points[:, 1:] @ centre[1:])
    cosh_in_plane = np.cosh(distance_to_origin(plane))
    squared: FloatArray = (cosh_radius / cosh_in_plane) ** 2 - 1
    return squared


def test_flat_points_by_hand() -> None:
    """Variances 4, 1 and 1/4 on the axes, each from two points among six: kept are 5 of 5 1/4."""
    points = np.zeros((6, 3))
    for axis, size in enumerate((2.0, 1.0, 0.5)):
        points[2 * axis, axis], points[2 * axis + 1, axis] = size, -size
    plane, kept = flat_plane(points + np.array([7.0, -3.0, 1.0]))
    assert kept == pytest.approx((4 + 1) / (4 + 1 + 1 / 4))
    np.testing.assert_allclose(plane, points[:, :2], atol=1e-12)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    points = cloud()
    whole = hyperbolic_plane(points)[0], flat_plane(points)[0]
    monkeypatch.setattr(principal_plane, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(hyperbolic_plane(points)[0], whole[0], atol=1e-10)
    np.testing.assert_allclose(flat_plane(points)[0], whole[1], atol=1e-10)
