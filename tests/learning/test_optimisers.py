"""Steps of one row: the reference against the formulas of the paper, the kernel against it, and a million steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.learning.kernels.steps import step_rows
from lorentzrec.learning.kernels.structures import (
    BROKEN,
    CAPPED,
    CLIPPED,
    MAXIMUM_RADIUS,
    MAXIMUM_STEP,
    Settings,
    Table,
)
from lorentzrec.learning.tables import make_table
from tests.learning.small_blocks import in_float64, resolved, settings, table
from tests.reference import euclidean, hyperboloid, optimisers

GEOMETRIES = ["hyperboloid", "euclidean"]
OPTIMISERS = ["rsgd", "adagrad", "adam"]


def row_step(table: Table, row: int, gradients: NDArray[np.float32], chosen: Settings, counters: Any) -> None:
    """The kernel, for one row and the only gradient."""
    step_rows(table, np.array([row], np.int32), np.zeros(1, np.int32), gradients, chosen, counters)


def space_of(chosen: Settings) -> Any:
    return hyperboloid if chosen.curved else euclidean


def one_row(radius: float, **options: Any) -> Table:
    """A table of a single point on the first axis, in float64."""
    space = np.zeros((1, 5), np.float32)
    space[0, 0] = np.sinh(radius) if options["geometry"] == "hyperboloid" else radius
    return in_float64(make_table(space, resolved(**options)))


def gradient_at(point: FloatArray, chosen: Settings, length: float, seed: int = 0) -> FloatArray:
    """A tangent vector of this length in a random direction."""
    vector = np.random.default_rng(seed).normal(size=len(point))
    vector[0] *= bool(chosen.curved)  # flat rows have no time part
    tangent = space_of(chosen).project_to_tangent(point, vector)
    return np.asarray(tangent * (length / space_of(chosen).tangent_norm(point, tangent)))


def walk(start: Table, gradients: list[FloatArray], chosen: Settings) -> tuple[list[float], NDArray[np.int64]]:
    """How far row 0 goes at each step, and what was counted."""
    counters = np.zeros(5, np.int64)
    lengths = []
    for gradient in gradients:
        before = start.points[0].copy()
        optimisers.row_step(start, 0, gradient, chosen, counters)
        lengths.append(float(space_of(chosen).distance(before, start.points[0])))
    return lengths, counters


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_rsgd_is_the_three_steps_of_the_paper(geometry: str) -> None:
    options = {"geometry": geometry, "optimiser": "rsgd", "learning_rate": 0.125, "clip_norm": None}
    chosen, moved = settings(**options), one_row(1.0, **options)
    gradient = gradient_at(moved.points[0], chosen, 2.0)
    expected = space_of(chosen).descent_step(moved.points[0], gradient, 0.125)
    assert walk(moved, [gradient], chosen)[0] == pytest.approx([0.25])
    assert moved.points[0] == pytest.approx(expected)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_adagrad_divides_by_the_root_of_all_squared_lengths(geometry: str) -> None:
    options = {"geometry": geometry, "optimiser": "adagrad", "learning_rate": 0.5, "clip_norm": None}
    chosen, moved = settings(**options), one_row(1.0, **options)
    first = gradient_at(moved.points[0], chosen, 3.0)
    assert walk(moved, [first], chosen)[0] == pytest.approx([0.5 * 3 / 3])
    second = gradient_at(moved.points[0], chosen, 4.0, seed=1)
    assert walk(moved, [second], chosen)[0] == pytest.approx([0.5 * 4 / 5])
    assert moved.squared[0] == pytest.approx(3**2 + 4**2)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_adam_carries_its_momentum_along(geometry: str) -> None:
    options = {"geometry": geometry, "optimiser": "adam", "learning_rate": 0.5, "clip_norm": None}
    chosen, moved = settings(**options), one_row(1.0, **options)
    space = space_of(chosen)
    start = moved.points[0].copy()
    first = gradient_at(start, chosen, 3.0)
    assert walk(moved, [first], chosen)[0] == pytest.approx([0.5])  # both corrections cancel at the first step
    end, momentum = moved.points[0].copy(), moved.momentum[0].copy()
    assert momentum == pytest.approx(space.parallel_transport(start, end, 0.1 * first))
    assert space.project_to_tangent(end, momentum) == pytest.approx(momentum)
    # without a new gradient the point continues along its geodesic
    assert walk(moved, [np.zeros(8)], chosen)[0] == pytest.approx(
        [0.5 * (0.9 * 0.1 * 3 / (1 - 0.9**2)) / np.sqrt(0.999 * 0.001 * 9 / (1 - 0.999**2))]
    )
    whole = space.distance(start, moved.points[0])
    assert whole == pytest.approx(space.distance(start, end) + space.distance(end, moved.points[0]))
    assert moved.steps[0] == 2


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(
    ("optimiser", "expected"), [("rsgd", 0.5 * 0.25), ("adagrad", 0.5), ("adam", 0.5)], ids=OPTIMISERS
)
def test_clipping_is_counted(geometry: str, optimiser: str, expected: float) -> None:
    options = {"geometry": geometry, "optimiser": optimiser, "learning_rate": 0.5, "clip_norm": 0.25}
    chosen, moved = settings(**options), one_row(1.0, **options)
    lengths, counters = walk(moved, [gradient_at(moved.points[0], chosen, 3.0)], chosen)
    assert lengths == pytest.approx([expected])
    assert counters.tolist() == [1, 0, 0, 0, 0]
    if optimiser != "rsgd":
        assert moved.squared[0] == pytest.approx(0.25**2 * (0.001 if optimiser == "adam" else 1))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_long_steps_are_shortened_and_counted(geometry: str, optimiser: str) -> None:
    options = {"geometry": geometry, "optimiser": optimiser, "learning_rate": 50.0, "clip_norm": None}
    chosen, moved = settings(**options), one_row(1.0, **options)
    lengths, counters = walk(moved, [gradient_at(moved.points[0], chosen, 3.0)], chosen)
    assert lengths == pytest.approx([MAXIMUM_STEP])
    assert counters[[CLIPPED, CAPPED]].tolist() == [0, 1]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_points_stay_within_the_largest_radius(optimiser: str) -> None:
    options = {"geometry": "hyperboloid", "optimiser": optimiser, "learning_rate": 0.5, "clip_norm": None}
    chosen, moved = settings(**options), one_row(MAXIMUM_RADIUS - 0.1, **options)
    outward = hyperboloid.log_map(moved.points[0], hyperboloid.origin(7))
    outward = outward / hyperboloid.tangent_norm(moved.points[0], outward)
    _, counters = walk(moved, [outward], chosen)
    assert np.arccosh(moved.points[0, 0]) == pytest.approx(MAXIMUM_RADIUS)
    assert counters.tolist() == [0, 1, 0, 0, 0]


def test_momentum_does_not_grow_at_the_rim() -> None:
    """A thousand steps outward, each taken back: the momentum stays as long as the gradients it is the mean of."""
    options = {"geometry": "hyperboloid", "optimiser": "adam", "learning_rate": 0.5, "clip_norm": None}
    chosen, slow = settings(**options), one_row(MAXIMUM_RADIUS, **options)
    fast = make_table(slow.points[:, 1:6].astype(np.float32), resolved(**options))
    counters = np.zeros(5, np.int64)
    outward = np.zeros((1, 8), np.float32)
    for _ in range(1000):
        outward[:] = 0
        outward[0, 1] = -1 / np.cosh(MAXIMUM_RADIUS)  # its tangent part is one unit long
        row_step(fast, 0, outward, chosen, counters)
    assert counters[CAPPED] >= 1000
    assert counters[BROKEN] == 0
    reached = fast.points[0].astype(np.float64)
    momentum = fast.momentum[0].astype(np.float64)
    momentum[0] = momentum[1:] @ reached[1:] / reached[0]
    assert hyperboloid.tangent_norm(reached, momentum) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_penalty_pulls_straight_to_the_origin(geometry: str) -> None:
    """A gradient of 2 strength d towards the origin, so the distance d shrinks by that times the rate."""
    options = {"geometry": geometry, "optimiser": "rsgd", "learning_rate": 0.1, "regularisation": 0.5}
    chosen, moved = settings(clip_norm=None, **options), one_row(2.0, **options)
    lengths, _ = walk(moved, [np.zeros(8)], chosen)
    assert lengths == pytest.approx([0.1 * 2 * 0.5 * 2.0])
    reached = space_of(chosen).squared_distance_to_origin(moved.points[0])
    assert reached == pytest.approx((2.0 - 0.2) ** 2)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_row_without_gradient_stays(geometry: str, optimiser: str) -> None:
    options = {"geometry": geometry, "optimiser": optimiser}
    chosen, slow = settings(**options), one_row(1.0, **options)
    fast = make_table(slow.points[:, 1:6].astype(np.float32), resolved(**options))
    before = fast.points.copy()
    counters = np.zeros(5, np.int64)
    row_step(fast, 0, np.zeros((1, 8), np.float32), chosen, counters)
    assert walk(slow, [np.zeros(8)], chosen)[0] == pytest.approx([0.0], abs=1e-9)
    assert fast.points == pytest.approx(before)
    assert counters.tolist() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_the_first_broken_row_is_named(geometry: str, optimiser: str, wrong: float) -> None:
    config = resolved(geometry=geometry, optimiser=optimiser)
    chosen = settings(geometry=geometry, optimiser=optimiser)
    fast = table(config, 4, seed=1)
    slow, slow_counters = in_float64(fast), np.zeros(5, np.int64)
    counters = slow_counters.copy()
    for row in (0, 2, 3):
        gradient = np.zeros(8, np.float32)
        gradient[2] = wrong if row else 1.0
        row_step(fast, row, gradient[None].copy(), chosen, counters)
        with np.errstate(invalid="ignore"):
            optimisers.row_step(slow, row, gradient.astype(np.float64), chosen, slow_counters)
    assert counters[BROKEN] == slow_counters[BROKEN] == 2 + 1


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@hypothesis_settings(derandomize=True, max_examples=40)  # at random, a length would meet its limit within rounding
@given(
    seed=st.integers(0, 2**32),
    clip_norm=st.sampled_from([None, 0.5]),
    regularisation=st.sampled_from([0.0, 0.05]),
    learning_rate=st.sampled_from([0.01, 0.1, 3.0]),
)
def test_step_rows_matches_its_reference(
    geometry: str, optimiser: str, seed: int, clip_norm: float | None, regularisation: float, learning_rate: float
) -> None:
    """Four steps of twelve rows. Rounding x and h to float32 changes <x, h> by eps x0 h0, and with it the direction of
    a step: at the largest radius of its path a row is known to eps cosh(radius)^2 times the length of the step."""
    options = {"clip_norm": clip_norm, "regularisation": regularisation, "learning_rate": learning_rate}
    config = resolved(geometry=geometry, optimiser=optimiser, **options)
    chosen = settings(geometry=geometry, optimiser=optimiser, **options)
    random = np.random.default_rng(seed)
    radius = random.uniform(0, 6 if learning_rate < 1 else 2, 12)
    direction = random.normal(size=(12, 5))
    space = np.sinh(radius)[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    fast = make_table(space.astype(np.float32), config)
    slow = in_float64(fast)
    counters, slow_counters = np.zeros(5, np.int64), np.zeros(5, np.int64)
    for _ in range(4):
        for row in range(12):
            gradient = np.zeros(8, np.float32)
            gradient[1:6] = random.normal(size=5) * 10 ** random.uniform(-2, 1) / np.cosh(radius[row])
            optimisers.row_step(slow, row, gradient.astype(np.float64), chosen, slow_counters)
            row_step(fast, row, gradient[None], chosen, counters)
            radius[row] = max(radius[row], np.arccosh(max(slow.points[row, 0], 1.0)))
    reached: FloatArray = fast.points.astype(np.float64)
    if chosen.curved:
        assert reached[:, 0] == pytest.approx(hyperboloid.lift(reached[:, 1:])[:, 0], rel=1e-6)
        reached = hyperboloid.lift(reached[:, 1:])
    error = space_of(chosen).distance(reached, slow.points)
    assert (error < 1e-5 + 3e-6 * np.cosh(radius) ** 2).all(), error
    assert counters.tolist() == slow_counters.tolist()
    assert fast.steps.tolist() == slow.steps.tolist()
    relative = np.abs(fast.squared - slow.squared) / (slow.squared + 1e-12)
    assert (relative < 1e-5 + 1e-5 * np.cosh(radius) ** 2)[: len(relative)].all()


@kernel
def many_steps(table, targets, gradients, rows, chosen, counters, first, last):  # type: ignore[no-untyped-def]
    """Rows follow targets that change every 40 steps: the gradient of minus their inner product is minus the target."""
    for step in range(first, last):
        for row in rows:
            for k in range(gradients.shape[1]):
                gradients[row, k] = -targets[(step // 40 + row) % targets.shape[0], k]
        step_rows(table, rows, rows, gradients, chosen, counters)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_million_steps_stay_near_the_path_of_the_reference(geometry: str, optimiser: str) -> None:
    """Ten rows, a hundred thousand steps each, in float32 and by the same lines in float64, which begin as the
    reference's."""
    options = {"geometry": geometry, "optimiser": optimiser, "learning_rate": 0.01, "clip_norm": 1.0}
    options |= {"regularisation": 0.25}
    config, chosen = resolved(**options), settings(**options)
    fast = table(config, 10, seed=1)
    slow, exact = in_float64(fast), in_float64(fast)
    targets = table(config, 7, seed=2).points
    counters, ours, theirs = np.zeros((3, 5), np.int64)
    for step in range(50):
        for row in range(10):
            gradient = -targets[(step // 40 + row) % 7].astype(np.float64)
            optimisers.row_step(slow, row, gradient, chosen, theirs)
    rows = np.arange(10, dtype=np.int32)
    wide = targets.astype(np.float64), np.empty_like(exact.points), rows
    many_steps(exact, *wide, chosen, ours, 0, 50)
    assert exact.points == pytest.approx(slow.points, abs=1e-6)
    assert ours.tolist() == theirs.tolist()
    many_steps(exact, *wide, chosen, ours, 50, 100_000)
    many_steps(fast, targets, np.empty_like(fast.points), rows, chosen, counters, 0, 100_000)
    space = space_of(chosen)
    reached = fast.points.astype(np.float64)
    if chosen.curved:
        assert np.abs(hyperboloid.minkowski_squared_norm(reached) + 1).max() < 1e-6 * (reached[:, 0] ** 2).max()
    assert space.distance(slow.points, exact.points).max() > 0.05  # they have long left where the reference stopped
    assert space.distance(reached, exact.points).max() < 1e-4
    assert counters[CLIPPED] == pytest.approx(ours[CLIPPED], rel=1e-3)
    assert counters[CAPPED] == ours[CAPPED] == 0
