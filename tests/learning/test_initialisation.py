"""Where points start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.learning.run import initial_space
from lorentzrec.model.config import TrainingConfig


def start(count: int, frequency: NDArray[np.int64] | None = None, seed: int = 0, **options: Any) -> NDArray[np.float32]:
    given = TrainingConfig.from_mapping({"dimension": 3, "initial_width": 0.4} | options)
    config = given.resolve(ordered=True, events=100, users=10, items=10)
    return initial_space(count, config, frequency, np.random.default_rng(seed))


def poincare_radius(space: NDArray[np.float32]) -> NDArray[np.float64]:
    radius: NDArray[np.float64] = np.linalg.norm(to_poincare(lift(space.astype(np.float64))), axis=1)
    return radius


def test_cube_has_its_side() -> None:
    space = start(4000, initialisation="cube")
    assert space.dtype == np.float32
    assert np.abs(space).max() <= 0.2
    assert space.mean(axis=0) == pytest.approx([0, 0, 0], abs=0.01)
    assert space.var(axis=0) == pytest.approx([0.4**2 / 12] * 3, rel=0.1)


def test_ball_is_filled_evenly() -> None:
    """In a ball of d dimensions the share within half the radius is 2^-d."""
    radius = poincare_radius(start(4000, initialisation="ball"))
    assert radius.max() <= 0.4 * (1 + 1e-6)
    assert (radius < 0.2).mean() == pytest.approx(1 / 8, abs=4 * (1 / 8 * 7 / 8 / 4000) ** 0.5)


def test_frequent_items_start_near_the_origin() -> None:
    space = start(3, np.array([1, 10, 1000]), initialisation="frequency")
    expected = [0.4 / np.log(np.e - 1 + count) for count in (1, 10, 1000)]
    assert expected[0] == 0.4
    assert poincare_radius(space) == pytest.approx(expected, rel=1e-5)
    assert poincare_radius(start(2, np.array([0, 1]), initialisation="frequency")) == pytest.approx(
        [0.4, 0.4], rel=1e-5
    )


def test_customers_have_no_frequency() -> None:
    assert start(50, None, initialisation="frequency").tolist() == start(50, initialisation="ball").tolist()


@pytest.mark.parametrize("initialisation", ["cube", "ball", "frequency"])
def test_starts_follow_the_seed(initialisation: str) -> None:
    counts = np.arange(1, 21)
    first, again, other = (start(20, counts, seed, initialisation=initialisation) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()
