"""The Klein and Poincare pictures: there and back, the distance and the metric they inherit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import from_klein, from_poincare, to_klein, to_poincare
from lorentzrec.geometry.hyperboloid import distance, minkowski_dot
from tests.geometry.hyperbolic_points import points, polar_point
from tests.reference.charts import poincare_distance, poincare_metric


def test_charts_by_hand() -> None:
    """Along a ray a point at distance r is at tanh(r) in Klein's picture and at tanh(r / 2) in Poincare's."""
    radii = np.array([0.0, 0.5, 3.0])
    ray = polar_point(radii, np.ones((3, 1)))
    assert_allclose(to_klein(ray)[:, 0], np.tanh(radii))
    assert_allclose(to_poincare(ray)[:, 0], np.tanh(radii / 2))
    assert_allclose(poincare_distance(np.zeros(1), to_poincare(ray)), radii)


@given(points(5))
def test_klein_round_trip(batch: FloatArray) -> None:
    assert (np.linalg.norm(to_klein(batch), axis=-1) < 1).all()
    assert_allclose(from_klein(to_klein(batch)), batch, atol=1e-10)


@given(points(5))
def test_poincare_round_trip(batch: FloatArray) -> None:
    assert (np.linalg.norm(to_poincare(batch), axis=-1) < 1).all()
    assert_allclose(from_poincare(to_poincare(batch)), batch, atol=1e-10)


@given(points(2))
def test_poincare_distance_is_the_hyperboloid_distance(pair: FloatArray) -> None:
    first, second = to_poincare(pair)
    assert_allclose(poincare_distance(first, second), distance(*pair), atol=1e-9)
    gaps = (1 - first @ first) * (1 - second @ second)
    printed = np.arccosh(1 + 2 * (first - second) @ (first - second) / gaps)
    assert_allclose(poincare_distance(first, second), printed, atol=1e-6)


@given(points(1, radius=2.0))
def test_poincare_metric_is_the_pull_back(point: FloatArray) -> None:
    """g_ij = <dx/dp_i, dx/dp_j>, the columns of the inverse chart's Jacobian by central differences."""
    poincare = to_poincare(point[0])
    step = 1e-6 * np.eye(3)
    jacobian = (from_poincare(poincare + step) - from_poincare(poincare - step)) / 2e-6
    assert_allclose(
        minkowski_dot(jacobian[:, None], jacobian[None, :]), poincare_metric(poincare), rtol=1e-6, atol=1e-5
    )


@pytest.mark.parametrize("function", [from_klein, from_poincare, poincare_metric])
def test_the_boundary_is_refused(function: Callable[[FloatArray], FloatArray]) -> None:
    with pytest.raises(InputError, match=r"row \[1\] is not inside the unit ball, as 1 - \|b\|\^2 is -0\.44"):
        function(np.array([[0.5, 0.0], [1.2, 0.0]]))
    with pytest.raises(InputError, match="scale it inside"):
        function(np.array([0.6, 0.8]))
    with pytest.raises(InputError, match="is nan"):
        function(np.array([np.nan, 0.0]))


@pytest.mark.parametrize("function", [to_klein, from_klein, to_poincare, from_poincare, poincare_metric])
def test_charts_keep_the_dtype(function: Callable[[FloatArray], FloatArray]) -> None:
    assert function(np.array([[0.5, 0.25, 0.125]], np.float32)).dtype == np.float32
    assert poincare_distance(np.zeros(2, np.float32), np.full(2, 0.5, np.float32)).dtype == np.float32
