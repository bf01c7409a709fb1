"""The sums of histories against the loops they save."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import find_weights, total_weight, weighted_sum
from tests.geometry.hyperbolic_points import vectors
from tests.reference.sums import leave_out_sums, leave_out_sums_gradient, prefix_sums, prefix_sums_gradient

THREE = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
WEIGHTS = np.array([3.0, 0.5, 7.0])


def test_weighted_sum_by_hand() -> None:
    assert_array_equal(weighted_sum(THREE), [1 + 2 + 4, 70])
    assert_array_equal(weighted_sum(THREE, WEIGHTS), [3 * 1 + 0.5 * 2 + 7 * 4, 320])
    assert total_weight(THREE) == 3
    assert total_weight(THREE, WEIGHTS) == 3 + 0.5 + 7


def test_prefix_sums_by_hand() -> None:
    assert_array_equal(prefix_sums(THREE)[:, 0], [0, 1, 1 + 2])
    assert_array_equal(prefix_sums(THREE, WEIGHTS, recency=0.5)[:, 0], [0, 3, 3 / 2 + 1])


@given(vectors(6, 3, 5.0), st.floats(0.1, 1))
def test_prefix_sums_are_the_sums_of_the_prefixes(points: FloatArray, recency: float) -> None:
    weights = np.array([1.0, 2.0, 0.0, 0.5, 3.0, 1.0])
    for row, total in enumerate(prefix_sums(points, weights, recency)):
        steps_back = np.arange(row)[::-1]
        expected = (weights[:row] * recency**steps_back) @ points[:row]
        assert_allclose(total, expected, atol=1e-12)


@given(vectors(6, 3, 5.0), vectors(6, 3, 5.0), st.floats(0.1, 1))
def test_gradients_of_sums_are_their_transposes(points: FloatArray, gradients: FloatArray, recency: float) -> None:
    """Of a linear map S = A x the gradient is A' h, and A' is the one map with h . A x = A' h . x for all x and h."""
    weights = np.array([1.0, 2.0, 0.0, 0.5, 3.0, 1.0])
    forwards = (gradients * prefix_sums(points, weights, recency)).sum()
    backwards = (prefix_sums_gradient(gradients, weights, recency) * points).sum()
    assert_allclose(forwards, backwards, atol=1e-9)
    for folds in (None, np.array([0, 1, 1, 2, 0, 1])):
        forwards = (gradients * leave_out_sums(points, weights, folds)).sum()
        backwards = (leave_out_sums_gradient(gradients, weights, folds) * points).sum()
        assert_allclose(forwards, backwards, atol=1e-9)


def test_leave_out_sums_by_hand() -> None:
    assert_array_equal(leave_out_sums(THREE)[:, 0], [2 + 4, 1 + 4, 1 + 2])
    assert_array_equal(leave_out_sums(THREE, WEIGHTS)[:, 0], [1 + 28, 3 + 28, 3 + 1])
    assert_array_equal(leave_out_sums(THREE, WEIGHTS, np.array([7, 2, 7]))[:, 0], [1, 3 + 28, 1])


def test_batches_and_dtype() -> None:
    batch = np.stack([THREE, 2 * THREE]).astype(np.float32)
    gradients = (prefix_sums_gradient, leave_out_sums_gradient)
    for function in (weighted_sum, prefix_sums, leave_out_sums, *gradients):
        result = function(batch, WEIGHTS)
        assert result.dtype == np.float32
        assert_allclose(result[1], function(2 * THREE, WEIGHTS))
    assert find_weights(batch).shape == (2, 3)


def test_a_mean_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one point of positive weight"):
        total_weight(THREE, np.zeros(3))
    with pytest.raises(InputError, match="sum to zero or less"):
        total_weight(np.empty((0, 2)))
