"""The flat twin by hand, as the limit of the hyperboloid near its origin, and under the same signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, sums
from lorentzrec_paper.midpoints import frechet_mean
from tests.reference import euclidean, hyperboloid, midpoint

HERE, THERE = np.array([1.0, 2.0]), np.array([4.0, 6.0])


def public_functions(module: ModuleType) -> dict[str, Callable[..., FloatArray]]:
    """Those of the module of the same name in `lorentzrec.geometry`, and those that the reference adds."""
    name_of_module = module.__name__.rpartition(".")[2]
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__.rpartition(".")[2] == name_of_module and not name.startswith("_")
    }


def test_flat_space_by_hand() -> None:
    assert euclidean.dot(HERE, THERE) == 1 * 4 + 2 * 6
    assert euclidean.squared_norm(HERE) == 1 + 4
    assert euclidean.distance(HERE, THERE) == 5  # 3, 4, 5
    assert_allclose(euclidean.distance_gradient(HERE, THERE), [-3 / 5, -4 / 5])
    assert_array_equal(euclidean.distance_gradient(HERE, HERE), [0, 0])
    assert_array_equal(euclidean.exp_map(HERE, THERE), [5, 8])
    assert_array_equal(euclidean.log_map(HERE, THERE), [3, 4])
    assert_array_equal(euclidean.parallel_transport(HERE, THERE, HERE), HERE)
    assert_array_equal(euclidean.riemannian_gradient(HERE, THERE), THERE)
    assert_array_equal(euclidean.project_to_tangent(HERE, THERE), THERE)
    assert euclidean.tangent_norm(HERE, np.array([3.0, 4.0])) == 5
    assert_array_equal(euclidean.descent_step(HERE, THERE, 0.5), [1 - 2, 2 - 3])
    assert euclidean.distance_to_origin(np.array([3.0, 4.0])) == 5
    assert euclidean.squared_distance_to_origin(THERE) == 16 + 36
    assert_array_equal(euclidean.squared_distance_to_origin_gradient(THERE), [8, 12])
    assert_array_equal(euclidean.origin(2), [0, 0])
    assert_array_equal(euclidean.precise(HERE.astype(np.float32)), HERE)


def test_mean_by_hand() -> None:
    weights = np.array([3.0, 1.0])
    for mean in (euclidean.midpoint, euclidean.frechet_mean):
        assert_array_equal(mean(np.stack([HERE, THERE])), [(1 + 4) / 2, (2 + 6) / 2])
        assert_array_equal(mean(np.stack([HERE, THERE]), weights), [(3 * 1 + 4) / 4, (3 * 2 + 6) / 4])
        with pytest.raises(InputError, match="at least one point"):
            mean(np.stack([HERE, THERE]), np.zeros(2))
    assert_array_equal(
        euclidean.midpoint_gradient(np.array([4.0, 2.0]), np.stack([HERE, THERE])), [HERE / 4, THERE / 2]
    )


@pytest.mark.parametrize("name", sorted(public_functions(euclidean).keys() & public_functions(hyperboloid).keys()))
def test_twins_take_the_same_arguments(name: str) -> None:
    flat, curved = public_functions(euclidean)[name], public_functions(hyperboloid)[name]
    assert inspect.signature(flat) == inspect.signature(curved)


def test_every_function_a_learner_needs_has_a_twin() -> None:
    only_curved = {
        "boost",
        "lift",
        "minkowski_dot",
        "minkowski_gradient",
        "minkowski_squared_norm",
        "require_points",  # every row is a point of flat space
        "squared_lorentzian_distance",
    }
    assert public_functions(hyperboloid).keys() - public_functions(euclidean).keys() == only_curved


WIDTH = 1e-4
"""Points this near the origin see a space that is flat up to WIDTH^2."""


def small(space: FloatArray) -> FloatArray:
    return hyperboloid.lift(WIDTH * space)


def test_the_hyperboloid_is_flat_near_its_origin() -> None:
    rng = np.random.default_rng(2)
    here, there, vector = rng.normal(size=(3, 4, 3))
    tangent = hyperboloid.project_to_tangent(small(here), np.insert(vector, 0, 0, axis=-1))
    histories, weights = rng.normal(size=(4, 5, 3)), rng.uniform(0.5, 2, (4, 5))

    def space(vector: FloatArray) -> FloatArray:
        return vector[..., 1:]

    pairs = [
        (hyperboloid.distance(small(here), small(there)) / WIDTH, euclidean.distance(here, there)),
        (space(hyperboloid.distance_gradient(small(here), small(there))), euclidean.distance_gradient(here, there)),
        (space(hyperboloid.log_map(small(here), small(there))) / WIDTH, euclidean.log_map(here, there)),
        (space(hyperboloid.exp_map(small(here), WIDTH * tangent)) / WIDTH, euclidean.exp_map(here, vector)),
        (space(tangent), euclidean.project_to_tangent(here, vector)),
        (hyperboloid.tangent_norm(small(here), tangent), euclidean.tangent_norm(here, vector)),
        (space(hyperboloid.parallel_transport(small(here), small(there), tangent)), vector),
        (space(hyperboloid.descent_step(small(here), WIDTH * tangent, 0.1)) / WIDTH, here - 0.1 * vector),
        (hyperboloid.distance_to_origin(small(here)) / WIDTH, euclidean.distance_to_origin(here)),
        (hyperboloid.squared_distance_to_origin(small(here)) / WIDTH**2, euclidean.squared_distance_to_origin(here)),
        (
            space(
                hyperboloid.project_to_tangent(
                    small(here), hyperboloid.squared_distance_to_origin_gradient(small(here))
                )
            )
            / WIDTH,
            euclidean.squared_distance_to_origin_gradient(here),
        ),
        (space(midpoint.einstein_midpoint(small(histories), weights)) / WIDTH, euclidean.midpoint(histories, weights)),
        (
            space(midpoint.midpoint_gradient(sums.weighted_sum(small(histories), weights), tangent)),
            euclidean.midpoint_gradient(sums.total_weight(histories, weights), vector),
        ),
        (
            space(frechet_mean(small(histories), weights, tolerance=1e-12)) / WIDTH,
            euclidean.frechet_mean(histories, weights),
        ),
    ]
    for curved, flat in pairs:
        assert_allclose(curved, flat, atol=1e-5)


@pytest.mark.parametrize("name", sorted(public_functions(euclidean).keys() - {"origin", "precise", "descent_step"}))
def test_flat_space_keeps_the_dtype(name: str) -> None:
    function = public_functions(euclidean)[name]
    count = len([p for p in inspect.signature(function).parameters.values() if p.default is p.empty])
    batch = np.ones((2, 3, 4), np.float32)
    arguments = [batch] * count if name != "midpoint_gradient" else [batch[..., 0], batch]
    assert function(*arguments).dtype == np.float32
