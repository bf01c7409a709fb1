"""Angles of triangles: by hand, in the limit of small ones, and of what has no triangle."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.geometry.triangles import angle_sum, mean_angle_sum


def polar(radius: float, degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return lift(np.sinh(radius) * np.array([np.cos(angle), np.sin(angle)]))


def test_a_right_angled_triangle_by_hand() -> None:
    """Legs of 1 at the origin: cosh c = cosh(1)^2, and both other angles have tan A = tanh(1) / sinh(1)."""
    other = np.degrees(np.arctan(np.tanh(1) / np.sinh(1)))
    assert angle_sum(polar(0, 0), polar(1, 0), polar(1, 90)) == pytest.approx(90 + 2 * other)


def test_small_triangles_are_flat_and_large_ones_have_no_angles() -> None:
    small, large = ([polar(radius, degrees) for degrees in (0, 120, 240)] for radius in (1e-5, 15))
    assert angle_sum(*small) == pytest.approx(180, abs=1e-3)
    assert angle_sum(*large) == pytest.approx(0, abs=1e-3)


def test_the_mean_is_over_triangles_of_different_points() -> None:
    corners = np.stack([polar(2, degrees) for degrees in (0, 120, 240)])
    assert mean_angle_sum(corners) == pytest.approx(angle_sum(*corners))
    assert np.isnan(mean_angle_sum(corners[:2]))
    assert mean_angle_sum(corners.astype(np.float32)) == pytest.approx(angle_sum(*corners), rel=1e-4)
