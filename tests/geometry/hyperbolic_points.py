"""Random points, tangent vectors and isometries for the tests, and a gradient by differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lorentzrec.geometry import FloatArray

# A slow machine is not a failing test.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

DIMENSION = 3


def polar_point(radius: FloatArray, direction: FloatArray) -> FloatArray:
    """(cosh r, sinh r * direction), for unit directions."""
    return np.concatenate([np.cosh(radius)[..., None], np.sinh(radius)[..., None] * direction], axis=-1)


def vectors(count: int, dimension: int, length: float) -> st.SearchStrategy[FloatArray]:
    """`count` flat vectors of at most this length."""
    elements = st.floats(-1, 1, allow_subnormal=False).map(lambda value: value * length / np.sqrt(dimension))
    return arrays(np.float64, (count, dimension), elements=elements)


def points(count: int, radius: float = 3.0, dimension: int = DIMENSION) -> st.SearchStrategy[FloatArray]:
    """`count` points of the hyperboloid, each at most `radius` from the origin."""

    def from_vectors(vector: FloatArray) -> FloatArray:
        length = np.linalg.norm(vector, axis=-1)
        return polar_point(length, vector / np.where(length > 0, length, 1)[..., None])

    return vectors(count, dimension, radius).map(from_vectors)


def tangent_at(point: FloatArray, space: FloatArray) -> FloatArray:
    """The tangent vector with a given space part: <x, v> = 0 gives the time part. Its length is at most |space|."""
    time = (point[..., 1:] * space).sum(axis=-1) / point[..., 0]
    return np.concatenate([time[..., None], space], axis=-1)


def rotations(dimension: int = DIMENSION) -> st.SearchStrategy[FloatArray]:
    """Orthogonal maps of the space part, reflections too, as (d + 1) x (d + 1) matrices."""

    def from_seed(seed: int) -> FloatArray:
        matrix = np.eye(dimension + 1)
        matrix[1:, 1:] = np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, dimension)))[0]
        return matrix

    return st.integers(0, 2**32).map(from_seed)


def basis_at(point: FloatArray) -> FloatArray:
    """d orthonormal tangent vectors at one point, by Gram and Schmidt in the Minkowski inner product."""
    metric = np.diag([-1.0] + [1.0] * (len(point) - 1))
    basis: list[FloatArray] = []
    for axis in np.eye(len(point))[1:]:
        vector = axis + (axis @ metric @ point) * point
        for earlier in basis:
            vector = vector - (vector @ metric @ earlier) * earlier
        basis.append(vector / np.sqrt(vector @ metric @ vector))
    return np.stack(basis)


def gradient_by_differences(function: Callable[[FloatArray], FloatArray], point: FloatArray) -> FloatArray:
    """The Riemannian gradient at one point, from central differences along the geodesics of `basis_at`."""
    step = 1e-5
    total = np.zeros_like(point)
    for vector in basis_at(point):
        ahead = function(np.cosh(step) * point + np.sinh(step) * vector)
        behind = function(np.cosh(step) * point - np.sinh(step) * vector)
        total += (ahead - behind) / (2 * step) * vector
    return total
